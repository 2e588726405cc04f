"""Browser tools as a `Provider` of the hub: their list, without an import of any tool.

`tool_definitions.json` holds the list. The first call imports `tool_runner.py` with all tools, which would
delay the first answer of `mcpb bridge`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from bridge.browser_tools.tool_definitions import read_definitions
from bridge.config.settings import BrowserSettings
from bridge.hub import tool_result
from bridge.hub.audit_records import CallRecord
from bridge.hub.client_session import ListForm, Session, ToolSet
from bridge.hub.policy import Policy
from bridge.hub.providers import Resource
from bridge.hub.router import Router
from bridge.hub.transport import CallObserver, TabTransport
from bridge.state.site_approvals import Approvals

if TYPE_CHECKING:
    from bridge.browser_tools.tool_runner import ToolRunner

CLAUDE_IN_CHROME_CLIENTS = ("claude-in-chrome",)
"""Names of clients that know the tools by the names of Claude in Chrome's, in lower case."""
SCAN_INTERVAL_S = 5.0
"""Seconds between two scans for unused tabs."""


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
        """Set up the tools; `sites_changed` is called when `approved_sites` has another result."""
        self._router = router
        self._transport = transport
        self._policy = policy
        self._settings = settings
        self._home = home
        self._approvals = approvals
        self._sites_changed = sites_changed
        self._definitions = {tool.name: tool for tool in read_definitions()}
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

    def approved_sites(self, session_id: str) -> list[str] | None:
        """Return the origins that the user has approved for a session; None: it needs no approval."""
        if self._settings.sites == "any":
            return None
        return self._runner.approved_sites(session_id) if self._runner else []

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

    def definitions(self, form: ListForm) -> list[dict[str, Any]]:
        """See `Provider`. Tools that the policy forbids everywhere are left out."""
        if not self._settings.enabled:
            return []
        return [
            tool.format_for(form)
            for tool in self._definitions.values()
            if tool.is_in(form.tool_set)
            and not self._policy.provided_refusal(tool.name, None, is_read_only=tool.has_read_only_calls)
        ]

    def resources(self, session: Session) -> list[Resource]:
        """See `Provider`: its pictures."""
        return self._runner.resources(session) if self._runner else []

    def release(self, session: Session) -> None:
        """See `Provider`."""
        if self._runner:
            self._runner.release(session)

    async def run(self, recording: CallRecord, caller: CallObserver) -> tool_result.Answer:
        """See `Provider`."""
        return await self.runner.run(recording, caller)

    async def run_forever(self) -> None:
        """Release unused tabs. Runs until cancelled."""
        while True:
            await trio.sleep(SCAN_INTERVAL_S)
            if self._runner:
                self._runner.release_unused_tabs(trio.current_time())
