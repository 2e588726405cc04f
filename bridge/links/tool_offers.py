"""Offers of remote servers' tools to pages: begin, follow and end them, and run the pages' calls.

The user grants a server's tools to origins, with `pages` of its `[[remote]]` or `mcpb allow`. The extension
registers them in the page and sends each call here. A page receives no header, token or URL of a server, and
none of the user's rules. Rules: docs/PROTOCOL.md, "browser/offerTools".
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec
import trio

from bridge import origins
from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import CallRecord, Site
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.client_session import Session
from bridge.hub.operation import FINISHED, Operation
from bridge.hub.policy import Policy
from bridge.hub.primitives.extension_support import has_command
from bridge.hub.providers import Run
from bridge.hub.registry import Browser, Registry
from bridge.hub.tool_result import Answer
from bridge.hub.transport import CallObserver, OfferObserver, TabAddress, TabTransport
from bridge.links.remote_calls import RemoteObserver
from bridge.links.remote_content import to_text
from bridge.links.remote_problem import RemoteCallError, RemoteReportedError
from bridge.links.remote_provider import OfferingServer
from bridge.links.remote_tools import RemoteTool, origin_of
from native_host.protocol import wire
from native_host.protocol.untrusted_text import multi_line, single_line, truncate
from native_host.protocol.wire import Code
from native_host.system.program_name import format_command

OFFER = "browser/offerTools"
MAX_OFFERS = 64
"""Offers to one browser: those to the documents that were active last."""
MAX_CALLS = 16
"""Calls of pages that one server runs at once: half of `remote_mcp.MAX_CALLS` is left to clients."""
LOOK_S = 1.0
"""Seconds between two reads of the user's approvals."""
RETRY_S = 0.25
"""Seconds after which an offer that has ended by itself is begun again; they double each time."""
MAX_RETRY_S = 30.0
_MAX_ERROR_CHARS = 4096
_MAX_SAID = 200
_MAX_NAMED = 5
"""Tools that a line of the log names."""
_PAGES = "pages"
"""Caller of all calls of pages: none has anyone to ask."""
_ELICIT = "elicitation/create"

_log = logging.getLogger(__name__)

Granted = frozenset[tuple[str, str]]
"""Origins, each with the name of the server whose tools its pages get."""
RunForPage = Callable[[Run, Session, str, Arguments], Awaitable[None]]
"""See `Router.run_for_page`."""


class OfferingServers(Protocol):
    """The remote servers: `RemoteProvider`."""

    @property
    def version(self) -> object:
        """Changes with the servers and their tools."""
        ...

    def offering_servers(self) -> Sequence[OfferingServer]:
        """Return the servers with their present tools."""
        ...


class OfferServices(msgspec.Struct, frozen=True):
    """Parts that offers use."""

    changes: ChangeSignal
    registry: Registry
    policy: Policy
    transport: TabTransport
    servers: OfferingServers
    read_granted: Callable[[], Granted]
    """Reads the user's approvals; empty if they cannot be read."""
    run_for_page: RunForPage


class OfferStatus(NamedTuple):
    """State of an offer, for status pages."""

    server: str
    origin: str
    is_active: bool
    """True if the page has the tools; without a `problem` and an active offer, another bridge offers them."""
    tools: int
    problem: str


class _Document(msgspec.Struct, frozen=True):
    """A document that may get tools."""

    host: str
    tab_id: int
    frame_id: int
    document_id: str
    origin: str
    tab_origin: str
    activity: tuple[bool, float]
    """The later one is larger."""


class _Place(NamedTuple):
    host: str
    tab_id: int
    frame_id: int
    document_id: str
    server: str


class _PageTool(NamedTuple):
    """A tool as the server has it, and as a page gets it."""

    tool: RemoteTool
    shown: wire.OfferedTool


class _ServerTools:
    """The tools of a server as pages get them, for one state of server and policy."""

    def __init__(self, server: OfferingServer, policy: Policy) -> None:
        self._settings = server.settings
        self._tools = server.tools
        self._policy = policy
        self._policy_version = policy.version
        self._by_name: dict[str, _PageTool] = {}
        """By the name in the page."""
        self._allowed: dict[str, list[wire.OfferedTool]] = {}
        """By origin."""
        for tool in server.tools.values():
            if shown := _show_tool(server, tool):
                self._by_name.setdefault(shown.name, _PageTool(tool, shown))

    def is_current(self, server: OfferingServer) -> bool:
        """Return whether neither server nor policy has changed."""
        is_same = server.settings is self._settings and server.tools is self._tools
        return is_same and self._policy.version == self._policy_version

    def find(self, name: str) -> RemoteTool | None:
        """Return the tool with this name in pages, also one that a rule keeps from them."""
        found = self._by_name.get(name)
        return found.tool if found else None

    def allowed(self, origin: str) -> list[wire.OfferedTool]:
        """Return the tools that pages of an origin may have; the same list each time."""
        if (allowed := self._allowed.get(origin)) is None:
            allowed = [it.shown for it in self._by_name.values() if not self.refusal(origin, it.tool)]
            self._allowed[origin] = allowed
        return allowed

    def explain_none(self, origin: str) -> str:
        """Return why pages of an origin get no tool of the server; empty if they get one, or it has none."""
        tools = [it.tool for it in self._by_name.values()]
        if not tools or self.allowed(origin):
            return ""
        if self._settings.offer == "read-only" and not any(tool.tool.is_read_only for tool in tools):
            return (
                "the server marks none of its tools with readOnlyHint, and pages get no others unless "
                'offer = "all" is set in [[remote]]'
            )
        return f"rules leave none of its tools, for instance: {self.refusal(origin, tools[0])}"

    def refusal(self, origin: str, tool: RemoteTool) -> str:
        """Return the rule that keeps a tool from pages of an origin, as text for the user."""
        is_read_only = tool.tool.is_read_only
        if self._settings.offer == "read-only" and not is_read_only:
            return f'offer = "read-only" of remote {self._settings.name}'
        return self._policy.provided_refusal(tool.own_name, origin, is_read_only=is_read_only)


class _Offer:
    """The offer of a server's tools to a document."""

    def __init__(self, place: _Place, document: _Document) -> None:
        self.place = place
        self.document = document
        self.tools: list[wire.OfferedTool] = []
        self.state: wire.OfferState | None = None
        self.problem: CallError | None = None
        """The way it has ended by itself; None: it has not."""
        self.retry_s = RETRY_S
        self.retry_at = math.inf
        self.number = 0
        """Of the latest request; earlier ones last as long as calls run that began with them."""
        self._requests: dict[int, Operation] = {}

    def add_request(self, begin: Callable[[], Operation]) -> None:
        """Begin a request, which may end at once."""
        number = self.number
        self._requests[number] = FINISHED
        operation = begin()
        if number in self._requests:
            self._requests[number] = operation

    def remove_request(self, number: int) -> bool:
        """Note that a request has ended; return whether it was the latest one."""
        self._requests.pop(number, None)
        return number == self.number

    def end(self) -> None:
        """Withdraw the tools, and end the calls that run."""
        requests, self._requests = self._requests, {}
        for operation in requests.values():
            operation.cancel()


class ToolOffers:
    """All offers of this process. `run` keeps them current."""

    def __init__(self, services: OfferServices) -> None:
        self._services = services
        self._offers: dict[_Place, _Offer] = {}
        self._granted: Granted = frozenset()
        self._look_at = -math.inf
        self._followed: object = None
        """Version of everything that the latest look depended on."""
        self._tools: dict[str, _ServerTools] = {}
        """By server."""
        self._sessions: dict[str, Session] = {}
        """By origin: pages in the place of a client."""
        self._running: Counter[str] = Counter()
        """Calls by server."""
        self._outdated: set[str] = set()
        """Hosts whose extensions are too old for offers."""

    async def run(self) -> None:
        """Offer tools until cancelled."""
        try:
            while True:
                self.refresh()
                with trio.move_on_at(self._next_look()):
                    await self._services.changes.wait()
        finally:
            for offer in self._offers.values():
                offer.end()
            self._offers.clear()

    def states(self) -> list[OfferStatus]:
        """Return the state of each offer, and why documents of the user's origins get none."""
        return [
            *map(_describe, self._offers.values()),
            *(
                OfferStatus(place.server, document.origin, False, 0, problem)
                for place, document, server in self._find_places()
                if (problem := self._find_problem(place, document, server))
            ),
        ]

    def _find_problem(self, place: _Place, document: _Document, server: OfferingServer) -> str:
        """Return why no offer is made to a document that the user names; empty if one is."""
        if place.host in self._outdated:
            return self._explain_outdated(place.host)
        return self._tools_of(server).explain_none(document.origin)

    # ── Documents ───────────────────────────────────────────────────────────────────────────────────────────

    def refresh(self) -> None:
        """Begin offers that have become possible, replace changed ones, and end forbidden ones."""
        services, now = self._services, trio.current_time()
        if now >= self._look_at:
            self._granted, self._look_at = services.read_granted(), now + LOOK_S
        registry = services.registry
        version = (
            registry.version,
            registry.version_of_tabs,
            registry.pauses,
            services.policy.version,
            services.servers.version,
            self._granted,
        )
        if version == self._followed and now < self._next_retry():
            return
        self._followed = version
        wanted = self._find_wanted()
        for place in [place for place in self._offers if place not in wanted]:
            self._offers.pop(place).end()
        for place, (document, tools) in wanted.items():
            self._follow(place, document, tools, now)

    def _next_look(self) -> float:
        return min(self._look_at, self._next_retry())

    def _next_retry(self) -> float:
        return min((offer.retry_at for offer in self._offers.values()), default=math.inf)

    def _follow(self, place: _Place, document: _Document, tools: list[wire.OfferedTool], now: float) -> None:
        offer = self._offers.get(place)
        if offer is None:
            offer = self._offers[place] = _Offer(place, document)
        offer.document = document
        if offer.tools != tools or now >= offer.retry_at:
            offer.tools = tools
            self._send(offer)

    def _find_wanted(self) -> dict[_Place, tuple[_Document, list[wire.OfferedTool]]]:
        """Return the tools that documents are to have, within the limit of each browser."""
        wanted: dict[_Place, tuple[_Document, list[wire.OfferedTool]]] = {}
        counts: dict[str, int] = {}
        for place, document, server in self._find_places():
            if place.host in self._outdated or counts.get(place.host, 0) >= MAX_OFFERS:
                continue
            if tools := self._tools_of(server).allowed(document.origin):
                wanted[place] = document, tools
                counts[place.host] = counts.get(place.host, 0) + 1
        return wanted

    def _find_places(self) -> Iterator[tuple[_Place, _Document, OfferingServer]]:
        """Yield the documents that get tools, each with a server; those that were active last come first."""
        servers = self._services.servers.offering_servers()
        if not any(server.settings.pages for server in servers) and not self._granted:
            return
        for document in sorted(self._documents(), key=lambda it: it.activity, reverse=True):
            for server in servers:
                if self._find_obstacle(document, server) is None:
                    at = document.host, document.tab_id, document.frame_id, document.document_id
                    yield _Place(*at, server.settings.name), document, server

    def _documents(self) -> Iterator[_Document]:
        """Yield the documents of tabs that are not private. Main frames always announce themselves."""
        outdated = set()
        for browser in self._services.registry.browsers():
            if not browser.is_live or browser.is_channel:
                continue
            if not has_command(browser, OFFER):
                outdated.add(browser.host)
            for tab in browser.tabs.values():
                if not tab.incognito:
                    yield from _documents_in(browser, tab)
        self._outdated = outdated

    def _find_document(self, place: _Place) -> _Document | None:
        at = place[:-1]
        found = (it for it in self._documents() if (it.host, it.tab_id, it.frame_id, it.document_id) == at)
        return next(found, None)

    def _explain_outdated(self, host: str) -> str:
        hello = self._services.registry.find_browser(host).hello
        brand = single_line(hello.browser.brand, _MAX_SAID) if hello else "the browser"
        command = format_command("extension")
        return f"the extension in {brand} is too old: run `{command}`, then reload it"

    # ── Rules ───────────────────────────────────────────────────────────────────────────────────────────────

    def _find_obstacle(self, document: _Document, server: OfferingServer) -> CallError | None:
        """Return why a document does not get a server's tools."""
        services, name = self._services, server.settings.name
        if document.origin not in server.settings.pages and (document.origin, name) not in self._granted:
            return CallError(Code.NOT_ALLOWED, "the user does not give this page these tools", handed=False)
        for origin in (document.origin, document.tab_origin):
            if refusal := services.policy.origin_refusal(origin):
                return _forbid(refusal)
            if services.registry.pauses.pattern_of(origin):
                return CallError(Code.PAUSED, "the user has paused this site", handed=False)
        return None

    def _tools_of(self, server: OfferingServer) -> _ServerTools:
        found = self._tools.get(server.settings.name)
        if found is None or not found.is_current(server):
            found = self._tools[server.settings.name] = _ServerTools(server, self._services.policy)
        return found

    # ── Offers ──────────────────────────────────────────────────────────────────────────────────────────────

    def _send(self, offer: _Offer) -> None:
        """Offer the present tools, in place of those that were offered before."""
        offer.number += 1
        offer.problem, offer.retry_at = None, math.inf
        place, number = offer.place, offer.number

        def on_offered(state: wire.OfferState) -> None:
            if number == offer.number:
                self._handle_state(offer, state)

        def on_finished(outcome: bytes | CallError) -> None:
            if offer.remove_request(number):
                self._handle_end(offer, outcome)

        params = wire.OfferTools(
            tab_id=place.tab_id,
            frame_id=place.frame_id,
            document_id=place.document_id,
            server=place.server,
            tools=offer.tools,
        )
        observer = CallObserver(offer=OfferObserver(on_offered, partial(self._call, place)))
        address = TabAddress(place.host, place.tab_id)
        send = self._services.transport.send
        offer.add_request(lambda: send(address, OFFER, params, math.inf, on_finished, observer))

    def _handle_state(self, offer: _Offer, state: wire.OfferState) -> None:
        known = {each.name for each in offer.state.left_out} if offer.state else set()
        if left_out := [each for each in state.left_out if each.name not in known]:
            _log_left_out(offer, left_out)
        offer.state, offer.retry_s = state, RETRY_S
        self._services.changes.notify()

    def _handle_end(self, offer: _Offer, outcome: bytes | CallError) -> None:
        """Handle an end that this process has not caused. The document may be gone, or not be ready yet."""
        offer.state = None
        ended = CallError(Code.GONE, "the browser has ended the offer", handed=False)
        offer.problem = outcome if isinstance(outcome, CallError) else ended
        if offer.problem.code not in (Code.NO_LONGER_OFFERED, Code.INVALID_PARAMS, Code.METHOD_NOT_FOUND):
            offer.retry_at = trio.current_time() + offer.retry_s
            offer.retry_s = min(2 * offer.retry_s, MAX_RETRY_S)
        self._services.changes.notify()

    # ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _call(self, place: _Place, call: wire.OfferedCall) -> bytes:
        """Run a page's call of a tool. Raises a CallError whose `detail` is for the page."""
        document = self._find_document(place)
        if document is None:
            raise CallError(Code.NAVIGATED, "the page is not there any more", handed=False)
        session = self._sessions.setdefault(document.origin, _make_session(document.origin))
        arguments = Arguments(bytes(call.args))
        answered: dict[str, Any] = {}

        async def run(record: CallRecord, _observer: CallObserver) -> Answer:
            record.site = Site(origin=origin_of(place.server))
            server, tool = self._admit(place, document, call.name)
            record.own_name = tool.own_name
            with self._count(place.server):
                check = partial(self._admit, place, document, call.name)
                answered.update(await _request(server, tool, arguments.value, check))
            return Answer(b"", is_error=answered.get("isError") is True)

        try:
            await self._services.run_for_page(run, session, call.name, arguments)
        except CallError as error:
            raise _for_page(error) from None
        text = to_text(answered)
        if answered.get("isError") is True:
            said = truncate(multi_line(text), _MAX_ERROR_CHARS) or "the tool has failed"
            raise CallError(Code.INTERNAL_ERROR, said, handed=True)
        return msgspec.json.encode(wire.OfferedResult(text=text))

    @contextmanager
    def _count(self, server: str) -> Iterator[None]:
        if self._running[server] >= MAX_CALLS:
            detail = f"{MAX_CALLS} calls of pages run at this server: call again when one has ended"
            raise CallError(Code.RATE_LIMITED, detail, handed=False)
        self._running[server] += 1
        try:
            yield
        finally:
            self._running[server] -= 1

    def _admit(self, place: _Place, document: _Document, name: str) -> tuple[OfferingServer, RemoteTool]:
        """Return a tool that the page may call now: everything may have changed since the offer."""
        self._granted = self._services.read_granted()
        servers = self._services.servers.offering_servers()
        server = next((server for server in servers if server.settings.name == place.server), None)
        if server and (obstacle := self._find_obstacle(document, server)):
            raise obstacle
        tool = self._tools_of(server).find(name) if server else None
        if server is None or tool is None:
            raise CallError(Code.NO_LONGER_OFFERED, "this tool is not offered any more", handed=False)
        if refusal := self._tools_of(server).refusal(document.origin, tool):
            raise _forbid(refusal)
        return server, tool


async def _request(
    server: OfferingServer, tool: RemoteTool, arguments: dict[str, Any], check: Callable[[], object]
) -> dict[str, Any]:
    """Call a tool; return its result without secrets. No client is there to ask the user through.

    `check` raises a CallError if the page may not call it any more; calls may wait for others.
    """
    name, scope, is_asking = server.settings.name, trio.CancelScope(), False

    async def reject(method: str, _params: dict[str, Any]) -> dict[str, Any]:
        nonlocal is_asking
        if method == _ELICIT:
            is_asking = True
            scope.cancel()
        raise CallError(Code.METHOD_NOT_FOUND, "a call of a page has no client to ask", handed=True)

    result: dict[str, Any] | None = None
    try:
        with scope:
            params = {"name": tool.own_name, "arguments": arguments}
            observer = RemoteObserver(on_request=reject, before_send=check, caller=_PAGES)
            result = await server.server.request("tools/call", params, observer)
    except CallError:
        if not is_asking:
            raise
    if is_asking:
        detail = f"the server {name} asks the user something, which it cannot in a call of a page"
        raise CallError(Code.NOT_ALLOWED, detail, handed=True)
    masked: dict[str, Any] | None = server.server.mask_json(result)
    if masked is None:
        raise CallError(Code.INTERNAL_ERROR, "the result has a secret that pages do not get", handed=True)
    return masked


def _for_page(error: CallError) -> CallError:
    """Return an error whose detail a page may read."""
    has_run = "It may have run." if error.handed else "Nothing was run."
    match error:
        case RemoteReportedError():
            said = error.detail or "the server reported an error without a text"
            return CallError(Code.INTERNAL_ERROR, said, handed=True)
        case RemoteCallError():  # its detail may name the server's address
            return CallError(error.code, f"{error.what}. {has_run}", handed=error.handed)
    return CallError(error.code, error.detail, handed=error.handed)


def _log_left_out(offer: _Offer, left_out: Sequence[wire.LeftOutTool]) -> None:
    """Log one line: server and page decide how many tools there are."""
    named = [single_line(f"{each.name}: {each.why}", 2 * _MAX_SAID) for each in left_out[:_MAX_NAMED]]
    said = "; ".join([*named, *("…" for _ in left_out[_MAX_NAMED:][:1])])
    server, origin, count = offer.place.server, offer.document.origin, len(left_out)
    _log.warning("remote server %s: %s does not get %d tools: %s", server, origin, count, said)


def _forbid(refusal: str) -> CallError:
    detail = "the user's rules do not allow this"
    return CallError(Code.NOT_ALLOWED, detail, handed=False, logged=refusal)


def _make_session(origin: str) -> Session:
    """Return a session that stands for the pages of an origin."""
    return Session(f"page {origin}", client=wire.ClientInfo(name=origin))


def _documents_in(browser: Browser, tab: wire.Tab) -> Iterator[_Document]:
    """Yield the documents of a tab that have announced themselves; the browser vouches for their origins."""
    tab_origin = origins.canonicalize(tab.origin)
    activity = tab.active and tab.focused, tab.last_accessed
    for frame_id, frame in sorted(browser.frames.get(tab.tab_id, {}).items()):
        origin = frame.announced.origin
        # Rules treat `https://app.example.` as `https://app.example`; the user gives tools to one of them.
        if frame.lost_at is None and origin == origins.canonicalize(origin):
            at = browser.host, tab.tab_id, frame_id, frame.announced.document_id
            yield _Document(*at, origin, tab_origin, activity)


def _show_tool(server: OfferingServer, tool: RemoteTool) -> wire.OfferedTool | None:
    """Return a tool as pages get it; None: it cannot be shown without a secret."""
    definition = server.server.mask_json(msgspec.json.decode(tool.definition))
    if definition is None or server.server.mask_json(tool.tool.name) != tool.tool.name:
        return None
    hints = definition.get("annotations", {})
    annotations = {"untrustedContentHint": True}
    if "readOnlyHint" in hints:
        annotations["readOnlyHint"] = hints["readOnlyHint"]
    return wire.OfferedTool(
        name=f"{server.settings.prefix}{tool.tool.name}",
        description=definition["description"],
        title=definition.get("title", ""),
        input_schema=msgspec.Raw(msgspec.json.encode(definition["inputSchema"])),
        annotations=msgspec.Raw(msgspec.json.encode(annotations)),
    )


def _describe(offer: _Offer) -> OfferStatus:
    problem = ""
    if offer.problem:
        problem = single_line(offer.problem.detail, _MAX_SAID) or "the browser has rejected the offer"
        if offer.problem.code == Code.NO_LONGER_OFFERED:
            problem = (
                "the page has no WebMCP. It needs Chrome or Chromium with --enable-features=WebMCPTesting, "
                "https: or this machine, and no permissions policy against `tools`"
            )
    is_active = offer.state is not None and offer.state.active
    tools = len(offer.state.names) if offer.state and is_active else 0
    return OfferStatus(offer.place.server, offer.document.origin, is_active, tools, problem)
