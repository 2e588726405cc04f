"""The browser's own tools over a played transport: what a client calls, and what its person answers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import trio

from bridge.browser_tools.page.devtools import SUBSCRIBED
from bridge.browser_tools.provider import BrowserTools
from bridge.config.settings import BrowserSettings
from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import Record
from bridge.hub.client_session import Session
from bridge.hub.policy import Policy, PolicyRules
from bridge.hub.router import Router, Terms
from bridge.hub.server_request import ClientSupport, ServerRequest
from bridge.hub.transport import CallObserver, DiscoveryFinished, HostDiscovered, HostLinked
from bridge.state.site_approvals import Approvals
from fake_transport import Answer, Asked, PlayedTransport, browser_hello, host_hello, tab
from native_host.protocol import wire
from native_host.protocol.wire import Code

SESSION = "a1b2c3d4e5f60718"
SHOP = "https://shop.example"
BANK = "https://bank.example"

Person = Callable[[wire.ElicitConfirmation], Awaitable[dict[str, Any]]]


class Told(NamedTuple):
    """A CallToolResult."""

    text: str
    structured: dict[str, Any]
    is_error: bool
    images: list[dict[str, Any]]


class PlayedTools:
    """One client's session. `tabs` are the browser's; navigating changes them as a browser would."""

    def __init__(
        self, nursery: trio.Nursery, home: Path, rules: PolicyRules | None = None, **settings: Any
    ) -> None:
        policy, browser_settings = Policy(rules), BrowserSettings(**settings)
        self.transport = PlayedTransport()
        terms = Terms(policy=policy, ask_in=browser_settings.ask_in)
        self.records: list[Record] = []
        """What the audit log is given."""
        self.router = Router(
            self.transport, lambda _: "Run: mcpb doctor", terms=terms, keep=self.records.append
        )
        self.tools = BrowserTools(
            self.router, self.transport, policy, browser_settings, home, Approvals(home / "state")
        )
        self.router.set_provider(self.tools)
        self.session = Session(SESSION, title="Agent in app", is_structured=True)
        self.questions: list[wire.ElicitConfirmation] = []
        self.person: Person | None = None
        self.roots: list[str] | None = None
        """URIs of the client's roots; None: it has no roots."""
        self.lists_roots = True
        """False: it answers with an error when it is asked for them."""
        self.sent_on: dict[str, str] = {}
        """Where an address leads to."""
        self.announces_navigations = True
        """False: the test announces the page of a navigation itself."""
        self.window = "no"
        """What the user chooses in the extension's window."""
        self.progress: list[wire.Progress] = []
        self.devtools: dict[str, Any] = {}
        """The results or errors of DevTools commands, by method; there are no others."""
        self.transport.on_request = self._obey
        nursery.start_soon(self.router.run)
        self.transport.happen(DiscoveryFinished())

    def connect(
        self,
        *tabs: wire.Tab,
        host: str = "h1",
        profile: str = "p1",
        label: str = "",
        pid: int = 100,
        commands: tuple[str, ...] = ("forwardCDPCommand", "documentId"),
    ) -> None:
        """A browser with these tabs."""
        capabilities = wire.Capabilities(commands=list(commands))
        hello = msgspec.structs.replace(browser_hello(profile, label), capabilities=capabilities)
        self.transport.happen(HostDiscovered(host, 1.0), HostLinked(host, host_hello(host, pid)))
        self.transport.announce(host, hello, wire.Tabs(tabs=list(tabs)), wire.HostReplayed())

    def says(self, choice: str | None) -> None:
        """What the person chooses from now on; None: they put the question away."""

        async def answer(_question: wire.ElicitConfirmation) -> dict[str, Any]:
            if choice is None:
                return {"action": "cancel"}
            return {"action": "accept", "content": {"allow": choice}}

        self.person = answer

    async def call(self, name: str, **arguments: Any) -> Told:
        return await self.call_as(self.session, name, **arguments)

    async def call_as(self, session: Session, name: str, **arguments: Any) -> Told:
        support = ClientSupport(elicitation=self.person is not None, roots=self.roots is not None)
        caller = CallObserver(self.progress.append, self._answer, support)
        raw = await self.router.call(session, name, Arguments.of(arguments), caller)
        result = json.loads(raw)
        text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        images = [block for block in result["content"] if block["type"] == "image"]
        return Told(text, result.get("structuredContent", {}), result.get("isError", False), images)

    async def ask_fails(self, name: str, **arguments: Any) -> str:
        """The text of a call that fails."""
        told = await self.call(name, **arguments)
        assert told.is_error, told.text
        return told.text

    def sent(self, method: str) -> list[Any]:
        """What the browser was asked, by method."""
        return [asked.params for asked in self.transport.asked if asked.method == method]

    async def _answer(self, request: ServerRequest) -> bytes:
        if isinstance(request, wire.PageRequest):
            if not self.lists_roots:
                raise CallError(Code.INTERNAL_ERROR, "the client did not list its roots", handed=True)
            return msgspec.json.encode({"roots": [{"uri": uri} for uri in self.roots or ()]})
        return await self._ask(request)

    async def _ask(self, question: wire.ElicitConfirmation) -> bytes:
        assert self.person
        assert isinstance(question, wire.ElicitConfirmation)
        self.questions.append(question)
        return msgspec.json.encode(await self.person(question))

    def _obey(self, asked: Asked) -> Answer:
        match asked.params:
            case wire.AskUser():
                return {"choice": self.window}
            case wire.CreateTab():
                self.transport.announce(asked.tab.host, wire.TabChanged(tab=own_tab(9, "about:blank")))
                return {"tabId": 9, "windowId": 1, "groupId": 5, "url": "about:blank"}
            case wire.Navigate() as to:
                url = self.sent_on.get(to.url, to.url)
                if self.announces_navigations:
                    self.transport.announce(asked.tab.host, wire.TabChanged(tab=own_tab(to.tab_id, url)))
                return {"tabId": to.tab_id, "url": url, "title": f"At {url}", "documentId": "d2"}
            case wire.SubscribeCdp(tab_id=tab_id):
                assert asked.caller.on_event
                asked.caller.on_event(wire.CdpEvent(tab_id=tab_id, method=SUBSCRIBED))
                return None
            case wire.ForwardCdpCommand(method=method) if method in self.devtools:
                result: Answer = self.devtools[method]
                return result
            case wire.ForwardCdpCommand():
                return CallError(Code.INVALID_PARAMS, "not played", handed=False)
            case wire.OfTab(tab_id=tab_id) if asked.method == "closeTab":
                self.transport.announce(asked.tab.host, wire.TabRemoved(tab_id=tab_id))
                return {}
            case _:
                return {}


def own_tab(tab_id: int, url: str = f"{SHOP}/", **fields: Any) -> wire.Tab:
    """A tab that the session has opened."""
    return at(url, tab_id, owner=SESSION, **fields)


def at(url: str, tab_id: int, **fields: Any) -> wire.Tab:
    """A tab at an address."""
    scheme, _, rest = url.partition("://")
    origin = f"{scheme}://{rest.partition('/')[0]}" if rest else "null"
    return msgspec.structs.replace(tab(tab_id, origin, **fields), url=url)
