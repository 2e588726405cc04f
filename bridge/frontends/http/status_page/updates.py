"""What the status page shows, and when something of it is another: looked at only while somebody looks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from bridge.diagnostics.connection_problem import Problems
from bridge.diagnostics.status_snapshot import Rules, running, status, tools
from bridge.frontends.http.status_page.html import Seen
from bridge.hub.router import Router
from bridge.state.audit_reader import Filter, Follower
from bridge.state.site_approvals import Approvals, ApprovalsError, SiteApproval

SHOWN_CALLS = 50
SHOWN_TOOLS = 200
"""In full; a search finds the others."""
LOOK_EVERY_S = 0.5
"""Changes that come closer together are told as one."""
PING_S = 15.0
_MAX_QUERY = 200


class Watching:
    """The hub of this process, and the calls of all bridges from the audit log in `state`.

    `url` is where browsers reach us, with a slash at its end; `transports` says what our own sessions are
    connected over, by id (`HttpSession.transport`).
    """

    def __init__(
        self,
        router: Router,
        links: Problems,
        state: Path,
        url: str,
        transports: Callable[[], Mapping[str, str]] = dict,
        rules: Callable[[], Rules | None] = lambda: None,
    ) -> None:
        self._router = router
        self._links = links
        self._state = state
        self.approvals = Approvals(state)
        self._url = url
        self._transports = transports
        self._rules = rules
        self._calls: deque[dict[str, Any]] = deque(maxlen=SHOWN_CALLS)
        self._heard = 0
        """Calls, so far."""
        self._follower: Follower | None = None

    def seen(self, query: str = "") -> Seen:
        """All that is shown now."""
        self._listen()
        query = query[:_MAX_QUERY]
        found = status(self._router, self._links, list(self._calls), rules=self._rules())
        approvals, trouble = self._read_approvals()
        found["problems"] += [trouble] if trouble else []
        under_way = running(self._router, trio.current_time(), time.time())
        shown, count = tools(self._router.catalog, query, SHOWN_TOOLS)
        return Seen(found, under_way, shown, count, self._url, query, self._transports(), approvals)

    async def tell_changes(
        self, tell: Callable[[bool], Awaitable[None]], is_welcome: Callable[[], bool]
    ) -> None:
        """Say True when something may look otherwise, at first too, and False after PING_S without.

        Runs as long as whoever is told is welcome.
        """
        told: object = None
        said_at = trio.current_time()
        while is_welcome():
            edition, now = self._edition(), trio.current_time()
            if edition != told or now - said_at >= PING_S:
                await tell(edition != told)
                told, said_at = edition, now
            await trio.sleep(LOOK_EVERY_S)

    def close(self) -> None:
        """Let go of the log."""
        if self._follower:
            self._follower.close()

    def _edition(self) -> tuple[object, ...]:
        """Another one where anything is another that is shown."""
        self._listen()
        registry = self._router.registry
        browsers = registry.browsers()
        return (
            self._heard,
            self._router.running(),
            self._router.catalog.version,
            registry.version_of_tabs,
            [(browser.host, browser.is_live, browser.clients) for browser in browsers],
            registry.pauses.changes,
            [problem.text for problem in self._links.problems.values()],
            self._rules(),
            self._read_approvals(),
            # What is wrong with a registration nobody tells us: it is looked at again.
            None if browsers else trio.current_time() // PING_S,
        )

    def _read_approvals(self) -> tuple[list[SiteApproval], str]:
        """Return the stored approvals, or why they cannot be read."""
        try:
            return self.approvals.current(), ""
        except ApprovalsError as error:
            return [], str(error)

    def _listen(self) -> None:
        try:
            self._follower = self._follower or Follower(self._state, SHOWN_CALLS, Filter())
            for line in self._follower.news():
                self._calls.append(line)
                self._heard += 1
        except OSError:
            return  # `mcpb audit` says what is wrong with it
