"""Content of the status page, polled for changes while a page is open."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio

from bridge.diagnostics.connection_problem import Problems
from bridge.diagnostics.status_snapshot import LocalState, Rules, find_tools, make_status, running_calls
from bridge.frontends.http.status_page.html import PageContent
from bridge.hub.router import Router
from bridge.state.audit_reader import LatestCalls
from bridge.state.site_approvals import Approvals, ApprovalsError, SiteApproval

SHOWN_CALLS = 50
SHOWN_REQUESTS = 10
"""Requests of pages."""
SHOWN_TOOLS = 200
"""Limit of tools that the page shows; a search finds the others."""
POLL_INTERVAL_S = 0.5
"""Seconds between polls. Changes within one interval are reported as one."""
PING_S = 15.0
"""Seconds without a change after which a ping is sent."""
_MAX_QUERY = 200


class StatusUpdates:
    """Content from this process's hub, and the calls of all bridges from the audit log in `state`.

    `transports` returns the transport of each session of this process by id (`HttpSession.transport`), and
    `remote` the remote servers (`remote_status.describe_remote`).
    """

    def __init__(
        self,
        router: Router,
        links: Problems,
        state: Path,
        transports: Callable[[], Mapping[str, str]] = dict,
        rules: Callable[[], Rules | None] = lambda: None,
        remote: Callable[[], list[dict[str, Any]]] = list,
    ) -> None:
        self._router = router
        self._links = links
        self.approvals = Approvals(state)
        self._transports = transports
        self._rules = rules
        self._remote = remote
        self._latest = LatestCalls(state, SHOWN_CALLS, SHOWN_REQUESTS)

    def read_content(self, query: str = "") -> PageContent:
        """Return the current content of the page."""
        self._read_calls()
        query = query[:_MAX_QUERY]
        local = LocalState(
            list(self._latest.calls),
            rules=self._rules(),
            page_requests=list(self._latest.page_requests),
            remote=self._remote(),
        )
        found = make_status(self._router, self._links, local)
        approvals, problem = self._read_approvals()
        found["problems"] += [problem] if problem else []
        running = running_calls(self._router, trio.current_time(), time.time())
        shown, count = find_tools(self._router, query, SHOWN_TOOLS)
        return PageContent(found, running, shown, count, query, self._transports(), approvals)

    async def watch_changes(
        self, notify: Callable[[bool], Awaitable[None]], is_allowed: Callable[[], bool]
    ) -> None:
        """Call `notify` with True at first and after each change, with False after PING_S without one.

        It returns once `is_allowed` returns False.
        """
        notified: object = None
        notified_at = trio.current_time()
        while is_allowed():
            version, now = self._read_version(), trio.current_time()
            if version != notified or now - notified_at >= PING_S:
                await notify(version != notified)
                notified, notified_at = version, now
            await trio.sleep(POLL_INTERVAL_S)

    def close(self) -> None:
        """Close the audit log."""
        self._latest.close()

    def _read_version(self) -> tuple[object, ...]:
        """Return a value that differs whenever the content differs."""
        self._read_calls()
        registry = self._router.registry
        browsers = registry.browsers()
        return (
            self._latest.read_lines,
            self._router.running_calls(),
            self._router.catalog.version,
            self._router.documents.version,
            registry.version_of_tabs,
            [(browser.host, browser.is_live, browser.clients) for browser in browsers],
            registry.pauses.changes,
            [problem.text for problem in self._links.problems.values()],
            self._rules(),
            self._remote(),
            self._read_approvals(),
            # No event reports a broken registration, so it is checked again from time to time.
            None if browsers else trio.current_time() // PING_S,
        )

    def _read_approvals(self) -> tuple[list[SiteApproval], str]:
        """Return the stored approvals, or the reason why they cannot be read."""
        try:
            return self.approvals.read_all(), ""
        except ApprovalsError as error:
            return [], error.problem

    def _read_calls(self) -> None:
        with suppress(OSError):  # `mcpb audit` reports the cause
            self._latest.read_new()
