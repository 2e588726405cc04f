"""Browser tools as a `Provider` of the hub: their list, without an import of any tool.

`tool_definitions.json` holds the list. The first call imports `tool_runner.py` with all tools, which would
delay the first answer of `mcpb bridge`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from bridge.browser_tools import browser_resources
from bridge.browser_tools.browser_resources import CURRENT
from bridge.browser_tools.own_prompts import OwnPrompts
from bridge.browser_tools.tool_definitions import read_definitions
from bridge.config.settings import BrowserSettings
from bridge.errors import CallError, NotOfferedError
from bridge.hub import tool_result
from bridge.hub.audit_records import CallRecord
from bridge.hub.client_session import ListForm, Session, ToolSet
from bridge.hub.consent.page_tool_settings import Primitive
from bridge.hub.policy import Policy
from bridge.hub.primitives.own_prompt import OwnPrompt, format_prompt
from bridge.hub.primitives.own_resource import OwnResource, OwnWatch
from bridge.hub.providers import ReadResource
from bridge.hub.router import Router
from bridge.hub.tool_schema import Era
from bridge.hub.transport import CallObserver, TabTransport
from bridge.state.site_approvals import Approvals
from native_host.protocol.wire import Code

if TYPE_CHECKING:
    from bridge.browser_tools.tool_runner import ToolRunner

CLAUDE_IN_CHROME_CLIENTS = ("claude-in-chrome",)
"""Names of clients that know the tools by the names of Claude in Chrome's, in lower case."""
_log = logging.getLogger(__name__)

SCAN_INTERVAL_S = 5.0
"""Seconds between two scans for unused tabs."""


class _WatchStart(msgspec.Struct, eq=False):
    """Beginning of a watch."""

    event: trio.Event = msgspec.field(default_factory=trio.Event)
    has_failed: bool = False

    async def wait(self) -> None:
        """Wait until it reports changes. Raises CallError if it has failed."""
        await self.event.wait()
        if self.has_failed:
            detail = "the log of mcpb says why a resource cannot be watched"
            raise CallError(Code.INTERNAL_ERROR, detail, handed=True)


class BrowserTools:
    """A `Provider`. `run_forever` releases unused tabs."""

    def __init__(
        self,
        router: Router,
        transport: TabTransport,
        policy: Policy,
        settings: BrowserSettings,
        home: Path,
        approvals: Approvals,
        sites_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up the tools; `sites_changed` is called when `allowed_sites` has another result."""
        self._router = router
        self._transport = transport
        self._policy = policy
        self._settings = settings
        self._home = home
        self._approvals = approvals
        self._sites_changed = sites_changed
        self._definitions = {tool.name: tool for tool in read_definitions()}
        self._prompts = OwnPrompts(home)
        self._nursery: trio.Nursery | None = None
        self._runner: ToolRunner | None = None

    @property
    def runner(self) -> ToolRunner:
        """The runner of the tools, imported on first use."""
        if self._runner is None:
            self._runner = self._import_runner()
        return self._runner

    def _import_runner(self) -> ToolRunner:
        from bridge.browser_tools.session.tool_services import ToolServices  # noqa: PLC0415
        from bridge.browser_tools.tool_runner import ToolRunner, all_tools  # noqa: PLC0415

        services = ToolServices(
            registry=self._router.registry,
            transport=self._transport,
            news=self._router.changes,
            policy=self._policy,
            settings=self._settings,
            home=self._home,
            approvals=self._approvals,
            prompts=self._router.prompts,
            settle=self._router.wait_discovered,
            whats_missing=lambda: str(self._router.connection_problem()),
            tools=all_tools(),
            new_tab_request=self._router.tabs.format_request,
            sites_changed=self._sites_changed,
        )
        return ToolRunner(services)

    def set_settings(self, settings: BrowserSettings) -> None:
        """Apply other settings, also to calls that run."""
        self._settings = settings
        if self._runner:
            self._runner.set_settings(settings)

    def allowed_sites(self, session_id: str) -> list[str] | None:
        """Return the only origins that approvals and roots let a session use; None: they restrict nothing."""
        if self._settings.sites == "any" and self._settings.roots != "strict":
            return None
        return self._runner.allowed_sites(session_id) if self._runner else []

    @property
    def version(self) -> object:
        """See `Provider`. Other settings and rules make another list."""
        return self._settings, self._policy.version

    @property
    def names(self) -> Container[str]:
        """See `Provider`."""
        return self._definitions if self._settings.enabled else ()

    def form_of(self, session: Session) -> ListForm:
        """See `Provider`."""
        return ListForm(session.tool_set or self._default_set(session), session.is_structured)

    def _default_set(self, session: Session) -> ToolSet:
        is_of_channel = session.client.name.lower() in CLAUDE_IN_CHROME_CLIENTS
        return "claude-in-chrome" if is_of_channel else self._settings.tools

    async def wait_listed(self, name: str = "") -> None:
        """See `Provider`."""

    def definitions(self, era: Era, form: ListForm) -> list[dict[str, Any]]:  # noqa: ARG002
        """See `Provider`. Tools that the policy forbids everywhere are left out."""
        if not self._settings.enabled:
            return []
        return [
            tool.format_for(form)
            for tool in self._definitions.values()
            if tool.is_in(form.tool_set)
            and not self._policy.provided_refusal(tool.name, None, is_read_only=tool.has_read_only_calls)
        ]

    def resources(self, session: Session) -> list[OwnResource]:
        """See `Provider`."""
        always = [resource for resource in browser_resources.FIXED if self.defines(session, resource.uri)]
        if not self._settings.enabled:
            return always
        of_tabs = browser_resources.tab_resources(self._router.registry.browsers(), session)
        return [*always, *of_tabs, *(self._runner.pictures(session) if self._runner else ())]

    def templates(self) -> list[OwnResource]:
        """See `Provider`."""
        return list(browser_resources.templates()) if self._settings.enabled else []

    def prompts(self) -> Mapping[str, bytes]:
        """See `Provider`."""
        return {name: format_prompt(prompt) for name, prompt in self._own_prompts().items()}

    def _own_prompts(self) -> dict[str, OwnPrompt]:
        return self._prompts.prompts(with_tools=self._settings.enabled)

    async def get_prompt(
        self,
        record: CallRecord,
        arguments: Mapping[str, str],
        observer: CallObserver,  # noqa: ARG002
        read: ReadResource,
    ) -> bytes:
        """See `Provider`."""
        from bridge.hub.primitives.own_prompt_messages import make_messages  # noqa: PLC0415  (docs/DEVELOPMENT.md, "Cold start")

        prompt = self._own_prompts().get(record.name)
        if prompt is None:
            raise NotOfferedError(record.name)
        return await make_messages(prompt, arguments, read)

    async def complete(
        self,
        record: CallRecord,
        what: Primitive,  # noqa: ARG002
        asked: msgspec.Raw,
        observer: CallObserver,  # noqa: ARG002
    ) -> bytes:
        """See `Provider`: tabs, domains, shortcuts and pictures, by the name of the argument."""
        from bridge.hub.primitives.completion import complete_values  # noqa: PLC0415  (docs/DEVELOPMENT.md, "Cold start")

        return complete_values(asked, partial(self._known_values, record.session))

    def _known_values(self, session: Session, name: str) -> Sequence[str] | None:
        """Return the values that an argument or variable of this name may have; None: nothing is known."""
        browsers = self._router.registry.browsers()
        match name:
            case "tab" | "tabId" | "first" | "second":
                return [CURRENT, *map(str, browser_resources.tab_names(browsers, session))]
            case "domain" | "site":
                return browser_resources.open_domains(browsers, session)
            case "shortcut":
                return self._prompts.shortcut_names()
            case "picture" | "id":
                return [picture.name for picture in self._runner.pictures(session)] if self._runner else []
            case _:
                return None

    def fingerprint(self, session: Session) -> object:
        """See `Provider`."""
        return browser_resources.tab_names(self._router.registry.browsers(), session)

    def defines(self, session: Session, uri: str) -> bool:  # noqa: ARG002
        """See `Provider`."""
        if uri in (browser_resources.STATUS, browser_resources.CALLS):
            return True
        return self._settings.enabled and browser_resources.is_of_tools(uri)

    async def read(self, record: CallRecord, uri: str, observer: CallObserver) -> bytes:
        """See `Provider`."""
        match uri:
            case browser_resources.STATUS:
                missing = str(self._router.connection_problem())
                return browser_resources.format_status(self._router.registry.browsers(), missing)
            case browser_resources.CALLS:
                return browser_resources.format_calls(self._router.recent_calls.calls_of(record.session))
            case _:
                return await self.runner.read_resource(record, observer, uri)

    async def admit_watch(self, record: CallRecord, uri: str, observer: CallObserver) -> None:
        """See `Provider`."""
        if uri not in (browser_resources.STATUS, browser_resources.CALLS):
            await self.runner.admit_watch(record, observer, uri)

    def watch(self, session: Session, uri: str, tell: Callable[[], None]) -> OwnWatch:
        """See `Provider`."""
        scope, begun = trio.CancelScope(), _WatchStart()
        if self._nursery and browser_resources.has_changes(uri):
            self._nursery.start_soon(self._watch, scope, begun, session, uri, tell)
        else:
            begun.event.set()
        return OwnWatch(scope.cancel, begun.wait)

    async def _watch(
        self,
        scope: trio.CancelScope,
        begun: _WatchStart,
        session: Session,
        uri: str,
        tell: Callable[[], None],
    ) -> None:
        try:
            with scope:
                await trio.lowlevel.checkpoint()  # else a session that has ended would get a state
                async with trio.open_nursery() as nursery:
                    await nursery.start(self.runner.watch_resource, session, uri, tell)
                    begun.event.set()
        except Exception:  # noqa: BLE001  (other sessions go on)
            _log.exception("the watch of %s has ended", uri)
            begun.has_failed = True
        finally:
            begun.event.set()

    def release(self, session: Session) -> None:
        """See `Provider`."""
        if self._runner:
            self._runner.release(session)

    async def run(self, recording: CallRecord, caller: CallObserver) -> tool_result.Answer:
        """See `Provider`."""
        return await self.runner.run(recording, caller)

    async def prepare_tab(self, session: Session, caller: CallObserver) -> None:
        """See `Provider`."""
        if self._settings.roots == "strict":
            await self.runner.prepare_tab(session, caller)

    async def run_forever(self) -> None:
        """Release unused tabs, and follow watched resources. Runs until cancelled."""
        async with trio.open_nursery() as self._nursery:
            while True:
                await trio.sleep(SCAN_INTERVAL_S)
                if self._runner:
                    self._runner.release_unused_tabs(trio.current_time())
