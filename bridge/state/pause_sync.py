"""Synchronization of pauses between pauses.json, the hub and the connected browsers.

Each bridge does it for itself: a change is merged by its time wherever it arrives, so that repeating one
changes nothing. It never decides a call: `bridge/hub/rules/pauses.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import trio

from bridge.errors import CallError
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.registry import Browser, Registry
from bridge.hub.rules.pauses import Pauses, PauseTarget, changes_in, is_later, target_of
from bridge.hub.transport import TabAddress, TabTransport
from bridge.state.pauses_file import PausesFile, PausesFileError
from native_host.protocol import wire
from native_host.protocol.wire import PauseChange

POLL_S = 1.0
"""Seconds between two looks at the file."""
REQUEST_S = 5.0

_log = logging.getLogger(__name__)


class PauseSync:
    """Pauses of one hub. The file counts from the first moment; `run` exchanges changes."""

    def __init__(
        self, registry: Registry, transport: TabTransport, changes: ChangeSignal, file: PausesFile
    ) -> None:
        self._registry = registry
        self._transport = transport
        self._changes = changes
        self._file = file
        self._made: list[PauseChange] = []
        """Changes made here: they count also when they cannot be stored."""
        self._stored: Pauses | None = None
        self._sent: dict[str, tuple[Pauses, wire.Paused]] = {}
        self.problem = ""
        """Reason for which the file cannot be used; empty if it can."""
        self._refresh_file()

    async def run(self) -> None:
        """Exchange changes until cancelled."""
        next_look = trio.current_time()
        async with trio.open_nursery() as nursery:
            while True:
                if trio.current_time() >= next_look:
                    self._refresh_file()
                    next_look = trio.current_time() + POLL_S
                await self._store_changes()
                for browser, changes in self._missing_changes():
                    nursery.start_soon(self._send_all, browser, changes)
                with trio.move_on_at(next_look):
                    await self._changes.wait()

    def add_change(self, target: PauseTarget, *, paused: bool) -> PauseChange:
        """Make the user's change; it counts in this process at once. `store` and `send` pass it on."""
        known = self._registry.pauses.change_of(target)
        at = max(_now_ms(), known.at + 1 if known else 0)
        change = PauseChange(site=target.site, session=target.session, paused=paused, at=at)
        self._made = [each for each in self._made if target_of(each) != target]
        self._made.append(change)
        self._set_registry()
        return change

    async def store(self) -> None:
        """Write changes of browsers and this process to the file.

        Raises:
            PausesFileError: it cannot be written; connected browsers still receive the change.
        """
        stored = Pauses(self._file.changes)
        made = [change for change in self._made if is_later(change, stored.change_of(target_of(change)))]
        if missing := [*self._registry.pauses.later_than(stored), *made]:
            await trio.to_thread.run_sync(self._file.merge_changes, missing, _now_ms())
            self._set_registry()

    async def send_change(self, browser: Browser, change: PauseChange) -> None:
        """Send a change to a browser.

        Raises:
            CallError: the browser does not take it.
        """
        params = wire.Pause(site=change.site, session=change.session, paused=change.paused, at=change.at)
        await self._transport.request(TabAddress(browser.host), "browser/pause", params, REQUEST_S)

    def _refresh_file(self) -> None:
        try:
            if not self._file.refresh():
                return
            self.problem = ""
        except PausesFileError as error:
            self.problem = str(error)
            _log.warning("Pauses of other bridges and browsers are not read: %s", error)
        self._set_registry()

    def _set_registry(self) -> None:
        self._registry.set_stored_pauses([*self._file.changes, *self._made])
        self._changes.notify()

    async def _store_changes(self) -> None:
        pauses = self._registry.pauses
        if pauses is self._stored:
            return
        self._stored = pauses
        try:
            await self.store()
        except PausesFileError as error:
            _log.warning("A pause is not stored: %s", error)

    def _missing_changes(self) -> list[tuple[Browser, list[PauseChange]]]:
        """Return the browsers that lack changes."""
        pauses, found = self._registry.pauses, []
        for browser in self._registry.browsers():
            if not browser.is_live or browser.is_channel:
                continue
            sent = self._sent.get(browser.host)
            if sent and sent[0] is pauses and sent[1] is browser.paused:
                continue
            self._sent[browser.host] = pauses, browser.paused
            if changes := pauses.later_than(Pauses(changes_in(browser.paused))):
                found.append((browser, changes))
        return found

    async def _send_all(self, browser: Browser, changes: Sequence[PauseChange]) -> None:
        for change in changes:
            try:
                await self.send_change(browser, change)
            except CallError as error:
                _log.warning("A browser did not take a pause: %s", error.detail)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
