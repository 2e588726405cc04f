"""A browser that outlives a test: all async tests of a file that take `browser` share one.

A file says so with `pytestmark = pytest.mark.one_browser`. Each of its tests gets the
pages at a port of its own, so that to the browser they are a site it has never seen, and finds no other tab
open, nothing paused and an empty log. A test that breaks or sets up its browser does not take `browser`: its
machine is its own, and it starts one there with `chain.browser()`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from demo.chromium import POLL_SECONDS, Chromium
from demo.devtools import COMMAND_SECONDS, BrowserGoneError, DevTools, DevToolsError, Events, Params
from demo.temporary_directory import throw_away_directory
from full_chain import Chain, serving_pages
from socket_observer import hosts, onlooking
from tool_browser import TrioThread, trio_thread
from wire_peers import until

TIDY_S = 30


class LentDevTools(DevTools):
    """The pipe that another trio run reads and writes, for whoever is in this one."""

    def __init__(self, thread: TrioThread, token: trio.lowlevel.TrioToken, owner: DevTools) -> None:
        self._thread = thread
        self._token = token
        self._owner = owner

    async def send(
        self, method: str, params: Params | None = None, session: str = "", timeout_s: float = COMMAND_SECONDS
    ) -> Params:
        send = partial(self._thread.run, self._owner.send, method, params, session, timeout_s)
        return await trio.to_thread.run_sync(send, abandon_on_cancel=True)

    @contextmanager
    def listen(self, event: str, session: str = "") -> Iterator[Events]:
        here = trio.lowlevel.current_trio_token()
        told, heard = trio.open_memory_channel[Params](1000)
        listening = ExitStack()

        async def tell(events: Events) -> None:
            with suppress(trio.RunFinishedError):
                with suppress(BrowserGoneError):
                    while True:
                        here.run_sync_soon(told.send_nowait, await events.next())
                here.run_sync_soon(told.close)

        def begin() -> None:
            events = listening.enter_context(self._owner.listen(event, session))
            trio.lowlevel.spawn_system_task(tell, events)

        self._token.run_sync_soon(begin)  # before any command that is sent from now on
        try:
            yield Events(event, heard)
        finally:
            self._token.run_sync_soon(listening.close)


@dataclass
class SharedChain(Chain):
    """The machine of a file's browser, with pages that are one test's own."""

    browser_of_file: SharedBrowser | None = None

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Chromium]:
        """The browser, which is as it was before when the block has ended."""
        assert self.browser_of_file is not None
        chromium = self.browser_of_file.lend()
        self.tabs_before = await _count_tabs(chromium)
        try:
            yield chromium
        finally:
            with trio.CancelScope(shield=True), trio.fail_after(3 * TIDY_S):
                await self._tidy(chromium, self.browser_of_file.first_target)

    async def _tidy(self, chromium: Chromium, first_target: str) -> None:
        with trio.fail_after(TIDY_S):
            await self._close_all_but(chromium, first_target)
            await until(lambda: len(hosts(self)) == 1)
        async with onlooking(self) as client:
            with trio.move_on_after(TIDY_S) as waiting:
                await client.until(lambda: len(client.tabs) == 1 and not client.frames)
            assert not waiting.cancelled_caught, f"still announced: {client.tabs} {client.frames.keys()}"
            for site in client.paused.get("sites", []):
                await client.request("browser/pause", site=site, paused=False)
            for session in client.paused.get("sessions", []):
                await client.request("browser/pause", session=session, paused=False)

    async def _close_all_but(self, chromium: Chromium, first_target: str) -> None:
        while others := {each["targetId"] for each in await chromium.targets()} - {first_target}:
            for target_id in others:
                with suppress(DevToolsError):  # it has gone by itself
                    await chromium.send("Target.closeTarget", {"targetId": target_id})


class SharedBrowser:
    """A running browser; made by `open_shared_browser`."""

    def __init__(self, thread: TrioThread, home: Path, chromium: Chromium) -> None:
        self._thread = thread
        self._home = home
        self._chromium = chromium
        self._token = thread.run(_token)
        self._seen: set[str] = set()
        (first,) = thread.run(chromium.targets)
        self.first_target: str = first["targetId"]

    def lend(self) -> Chromium:
        """The browser, for the trio run that uses it."""
        devtools = LentDevTools(self._thread, self._token, self._chromium.devtools)
        return Chromium(self._chromium.process, devtools, self._chromium.version)

    @contextmanager
    def chain(self, *, forks_bridges: bool) -> Iterator[SharedChain]:
        """The machine, with pages at a port that the browser has never seen."""
        with ExitStack() as servers:
            while (pages := servers.enter_context(serving_pages())) in self._seen:
                pass
            self._seen.add(pages)
            (self._home / "state" / "mcpb.log").unlink(missing_ok=True)
            yield SharedChain(self._home, pages, forks_bridges=forks_bridges, browser_of_file=self)


async def _count_tabs(chromium: Chromium) -> int:
    """The number of the last tab, as the extension has stored it; its worker may have to start first."""
    with trio.fail_after(TIDY_S):
        while True:
            for target in await chromium.targets("service_worker"):
                with suppress(DevToolsError):
                    worker = await chromium.attach(target["targetId"])
                    stored = await worker.evaluate(_STORED)
                    await chromium.send("Target.detachFromTarget", {"sessionId": worker.session})
                    if stored is not None:
                        return int(stored["next"]) - 1
            await trio.sleep(POLL_SECONDS)


_STORED = "chrome.storage?.session.get('tabNumbers').then((stored) => stored.tabNumbers ?? null) ?? null"


async def _token() -> trio.lowlevel.TrioToken:
    return trio.lowlevel.current_trio_token()


@contextmanager
def open_shared_browser(flags: Sequence[str] = ()) -> Iterator[SharedBrowser]:
    """A machine with a browser, as long as the block."""
    with (
        trio_thread() as thread,
        throw_away_directory() as home,
        thread.holding(Chain(home, "").browser(flags=flags)) as chromium,
    ):
        yield SharedBrowser(thread, home, chromium)
