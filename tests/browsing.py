"""A browser that all tests of a file share: async things live in a thread of their own, tests are plain.

A fixture of pytest-trio ends with its test, because each test is a trio run. Here the run is elsewhere, so
that a fixture may live as long as its file:

    @pytest.fixture(scope="module")
    def browser() -> Iterator[Browser]:
        with trio_thread() as thread, open_browser(thread) as browser:
            yield browser

    def test_a_page_has_a_title(browser: Browser) -> None:
        assert browser.open("data:text/html,<title>hello</title>").evaluate("document.title") == "hello"
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, TypeVar

import trio

from demo.chromium import POLL_SECONDS, Chromium, Page, open_chromium
from demo.devtools import DevTools, Params
from demo.throw_away import throw_away_directory
from peers import until

T = TypeVar("T")

SECONDS = 30.0
"""For each thing that a test asks for."""


class TrioThread:
    """A trio run in another thread; made by `trio_thread`."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._nursery = nursery

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """What the async function returns.

        Raises:
            trio.TooSlowError: nothing within SECONDS.
        """

        async def bounded() -> T:
            with trio.fail_after(SECONDS):
                return await function(*args)

        return trio.from_thread.run(bounded, trio_token=self._token)

    @contextmanager
    def holding(self, context: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter it there now, and leave it with this block, in one task as trio wants it."""
        unwanted, left = trio.Event(), trio.Event()

        async def hold(*, task_status: trio.TaskStatus[T]) -> None:
            try:
                async with context as value:
                    task_status.started(value)
                    await unwanted.wait()
            finally:
                left.set()

        async def let_go() -> None:
            unwanted.set()
            await left.wait()

        try:
            yield self.run(self._nursery.start, hold)
        finally:
            with suppress(trio.RunFinishedError):  # trio_thread says why
                self.run(let_go)


@contextmanager
def trio_thread() -> Iterator[TrioThread]:
    """A trio run beside the tests, as long as the block."""
    ready: Future[TrioThread] = Future()
    ended = trio.Event()

    async def live() -> None:
        async with trio.open_nursery() as nursery:
            ready.set_result(TrioThread(nursery))
            await ended.wait()

    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(trio.run, live)
        thread = ready.result()
        try:
            yield thread
        finally:
            with suppress(trio.RunFinishedError):
                thread.run(_set, ended)
            running.result()


async def _set(event: trio.Event) -> None:
    event.set()


class Tab:
    """A page over the DevTools pipe: what a test looks at it with, beside what it tests."""

    def __init__(self, thread: TrioThread, devtools: DevTools, page: Page) -> None:
        self._thread = thread
        self._devtools = devtools
        self.page = page

    def send(self, method: str, **params: Any) -> Params:
        """A DevTools command: `Page.send`."""
        return self._thread.run(self.page.send, method, params)

    def evaluate(self, expression: str) -> Any:
        """The JSON value of an expression: `Page.evaluate`."""
        return self._thread.run(self.page.evaluate, expression)

    def wait_until(self, expression: str) -> Any:
        """Until an expression is true in the page; its value."""
        return self._thread.run(self.page.wait_until, expression)

    def heard(self, event: str, expression: str) -> Params:
        """Evaluate the expression; the params of the first event of this name from then on."""

        async def hear() -> Params:
            with self._devtools.listen(event, self.page.session) as heard:
                await self.page.evaluate(expression)
                return await heard.next()

        return self._thread.run(hear)

    def load(self, url: str) -> None:
        """Go there; returns after the load event."""
        self._thread.run(self.page.load, url)

    def close(self) -> None:
        """Close it."""
        self._thread.run(self.page.close)


class Browser:
    """A running Chromium; made by `open_browser`."""

    def __init__(self, thread: TrioThread, chromium: Chromium) -> None:
        self._thread = thread
        self._chromium = chromium

    def open(self, url: str) -> Tab:
        """A new tab, loaded."""
        return self._tab(self._thread.run(self._chromium.open_page, url))

    def targets(self, kind: str = "page") -> list[Params]:
        """`Chromium.targets`."""
        return self._thread.run(self._chromium.targets, kind)

    def attach(self, target_id: str) -> Tab:
        """A tab, frame or worker that is there already."""
        return self._tab(self._thread.run(self._chromium.attach, target_id))

    def until_open(self, url: str) -> Tab:
        """Until there is a tab at this URL."""

        async def attach() -> Page:
            while True:
                for target in await self._chromium.targets():
                    if target["url"] == url:
                        return await self._chromium.attach(target["targetId"])
                await trio.sleep(POLL_SECONDS)

        return self._tab(self._thread.run(attach))

    def until(self, condition: Callable[[], bool]) -> None:
        """`peers.until`: for files, which tell nobody."""
        self._thread.run(until, condition)

    def send(self, method: str, **params: Any) -> Params:
        """A DevTools command to the browser itself."""
        return self._thread.run(self._chromium.send, method, params)

    def _tab(self, page: Page) -> Tab:
        return Tab(self._thread, self._chromium.devtools, page)


@contextmanager
def open_browser(thread: TrioThread) -> Iterator[Browser]:
    """A Chromium on a throw-away profile, without our extension."""
    with throw_away_directory() as home:
        chromium = open_chromium(home / "profile", env={"TMPDIR": str(home)})
        with thread.holding(chromium) as opened:
            yield Browser(thread, opened)
