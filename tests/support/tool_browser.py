"""A browser, its tools and a site that all tests of a file share; tests are plain functions.

A fixture of pytest-trio ends with its test, because each test is a trio run. Here what is async runs in a
thread of its own (`trio_thread`), so that a fixture may live as long as its file:

    @pytest.fixture(scope="module")
    def browsing() -> Iterator[Browsing]:
        with open_browsing() as opened:
            yield opened

    @pytest.fixture(scope="module")
    def tools(browsing: Browsing) -> Iterator[Tools]:
        with browsing.client() as opened:
            yield opened

    def test_a_link_is_followed(tools: Tools) -> None:
        tab = tools.open_site("moves-on.html")
        tools.done("computer", action="left_click", ref=tools.ref_of("At once"))
        assert tools.look(tab).evaluate("location.pathname") == "/arrived.html"
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import trio
from mcp import Client
from mcp.types import BlobResourceContents, ImageContent, Implementation, ResourceLink, TextContent

from bridge.hub.registry import FIRST_TAB_ID
from demo.chromium import POLL_SECONDS, Chromium, Page, open_chromium
from demo.devtools import DevTools, Params
from demo.temporary_directory import throw_away_directory
from full_chain import Chain
from site_server import Site, serving_site
from wire_peers import until

T = TypeVar("T")

REF = re.compile(r"(?<=\[)(?:f\d+\.)?\d+(?=\])")
ACTIONS = ("computer", "form_input", "fill_form", "wait_for")
SECONDS = 60.0
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

        return self.run_within(SECONDS, function, *args)

    def run_within(self, seconds: float, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """The same with another bound.

        Raises:
            trio.TooSlowError: nothing within that time.
        """

        async def bounded() -> T:
            with trio.fail_after(seconds):
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

    def crash(self) -> None:
        """Its process ends, as if it had no memory left."""

        async def crash() -> None:
            await self.page.send("Inspector.enable")
            with self._devtools.listen("Inspector.targetCrashed", self.page.session) as heard:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.page.send, "Page.crash")  # there is no answer
                    await heard.next()
                    nursery.cancel_scope.cancel()

        self._thread.run(crash)

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function of the DevTools, this page and what else is given."""
        return self._thread.run(function, self._devtools, self.page, *args)

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

    @property
    def pid(self) -> int:
        """Of its main process."""
        return self._chromium.process.pid

    def load_extension(self, folder: Path) -> str:
        """Its id."""
        return self._thread.run(self._chromium.load_extension, folder)

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

    def stop_workers(self) -> None:
        """`Chromium.stop_workers`."""
        self._thread.run(self._chromium.stop_workers)

    def _tab(self, page: Page) -> Tab:
        return Tab(self._thread, self._chromium.devtools, page)


@contextmanager
def open_browser(thread: TrioThread, flags: Sequence[str] = ()) -> Iterator[Browser]:
    """A Chromium on a throw-away profile, without our extension."""
    with throw_away_directory() as home:
        chromium = open_chromium(home / "profile", flags, env={"TMPDIR": str(home)})
        with thread.holding(chromium) as opened:
            yield Browser(thread, opened)


@dataclass(frozen=True)
class Result:
    """What a tool answered."""

    text: str
    """Of all text blocks."""
    structured: dict[str, Any]
    images: Sequence[ImageContent]
    links: Sequence[ResourceLink]
    is_error: bool


class Tools:
    """The browser's own tools, as a client sees them that nobody here wrote; made by `Browsing.client`."""

    def __init__(self, browsing: Browsing, client: Client) -> None:
        self._browsing = browsing
        self.client = client
        self.shows_changes = False
        """Whether actions report what they have changed, also where a test does not say so. It takes time."""
        self._first_tab: int | None = None
        """First tab of `open_site` in this test, which the next test uses again."""
        self._free_tab: int | None = None
        """That tab of the test before; none if it is in use again."""

    def call(self, name: str, /, **arguments: Any) -> Result:
        """Call one."""
        if name in ACTIONS and not self.shows_changes:
            arguments.setdefault("difference", False)
        result = self._browsing.thread.run(self.client.call_tool, name, arguments)
        blocks = result.content
        return Result(
            "\n".join(block.text for block in blocks if isinstance(block, TextContent)),
            result.structured_content or {},
            [block for block in blocks if isinstance(block, ImageContent)],
            [block for block in blocks if isinstance(block, ResourceLink)],
            bool(result.is_error),
        )

    def done(self, name: str, /, **arguments: Any) -> Result:
        """Call one that must do it."""
        result = self.call(name, **arguments)
        assert not result.is_error, f"{name} {arguments}: {result.text}"
        return result

    def refused(self, name: str, /, **arguments: Any) -> str:
        """Call one that must not; what it says."""
        result = self.call(name, **arguments)
        assert result.is_error, f"{name} {arguments}: {result.text}"
        return result.text

    def run(self, request: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Send a request of the client, and wait for the result."""
        return self._browsing.thread.run(request, *args)

    def read_resource(self, uri: str) -> bytes:
        """What a link leads to."""
        (content,) = self._browsing.thread.run(self.client.read_resource, uri).contents
        assert isinstance(content, BlobResourceContents)
        return b64decode(content.blob)

    def begin_test(self) -> None:
        """Let the next `open_site` use the first tab of the test before: a new one is a new process."""
        self._free_tab, self._first_tab = self._first_tab, None

    def open_site(self, path: str, *, in_new_tab: bool = False) -> int:
        """Load a page of the site in a tab, which is the current one from now on; return its id.

        The first call of a test may use the tab of the test before, with its history and what else belongs to
        a tab. A test says `in_new_tab` if that matters, or if it leaves the tab unfit for the next test.
        """
        tab_id = None if in_new_tab else self._free_tab
        if tab_id is None:
            tab_id = int(self.done("tabs_create").structured["tabId"])
        self._free_tab = None
        self.done("navigate", tabId=tab_id, url=f"{self._browsing.site.url}/{path}")
        if self._first_tab is None and not in_new_tab:
            self._first_tab = tab_id
        return tab_id

    def ref_of(self, words: str, tab_id: int | None = None) -> str:
        """The ref of the first line of `read_page` with these words; without a tab, of the current one."""
        where = {} if tab_id is None else {"tabId": tab_id}
        tree = self.done("read_page", filter="all", **where).text
        for line in tree.splitlines():
            if words in line and (found := REF.search(line)):
                return found[0]
        raise AssertionError(f"there is no ref with {words!r} in:\n{tree}")

    def look(self, tab_id: int) -> Tab:
        """The page in a tab, seen from beside the tools."""
        return self._browsing.look(tab_id)


class Browsing:
    """One user's machine: a Chromium with our extension, the site, any number of clients; `open_browsing`."""

    def __init__(self, thread: TrioThread, chain: Chain, browser: Browser, site: Site) -> None:
        self.thread = thread
        self.chain = chain
        self.browser = browser
        self.site = site

    @contextmanager
    def client(
        self,
        name: str = "tests",
        *,
        cwd: Path | None = None,
        settings: dict[str, str] | None = None,
        **more: Any,
    ) -> Iterator[Tools]:
        """A client with a bridge of its own. Clients of different names have different sessions.

        `cwd` is where the bridge runs, `settings` are for its environment, `more` is for mcp's `Client`.
        """
        env = {**self.chain.env, **(settings or {})}
        command = self.chain.command.model_copy(update={"cwd": cwd or self.chain.home, "env": env})
        info = Implementation(name=name, version="1")
        with self.thread.holding(Client(command, client_info=info, **more)) as opened:
            yield Tools(self, opened)

    def look(self, tab_id: int) -> Tab:
        """The page in a tab."""
        tab_id = self.browser_id_of(tab_id)
        targets = self.ask_extension("chrome.debugger.getTargets()")
        return self.browser.attach(next(each["id"] for each in targets if each.get("tabId") == tab_id))

    def browser_id_of(self, tab_id: int) -> int:
        """The browser's id of a tab, by the number that clients are shown, or by that id."""
        numbers = self._tab_numbers()
        if tab_id in numbers or tab_id >= FIRST_TAB_ID:
            return tab_id
        return next(browser_id for browser_id, number in numbers.items() if number == tab_id)

    def number_of(self, tab: Tab) -> int:
        """The number that clients are shown for the tab of a page, once the extension has given it one."""
        targets = self.ask_extension("chrome.debugger.getTargets()")
        browser_id = next(each["tabId"] for each in targets if each["id"] == tab.page.target_id)
        until = monotonic() + SECONDS
        while browser_id not in (numbers := self._tab_numbers()):
            assert monotonic() < until
        return numbers[browser_id]

    def _tab_numbers(self) -> dict[int, int]:
        """The numbers of all tabs by the browser's ids, as the extension has stored them."""
        stored = self.ask_extension("chrome.storage.session.get('tabNumbers')")["tabNumbers"]["numbers"]
        return dict(stored)

    def run_long(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run an async function beside the test; it may take four times SECONDS."""
        return self.thread.run_within(4 * SECONDS, function)

    def open_as_user(self, url: str) -> int:
        """Load a page in a tab that no client has opened; return the browser's id of it."""
        opened = self.browser.open(url)
        targets = self.ask_extension("chrome.debugger.getTargets()")
        tab_id: int = next(each["tabId"] for each in targets if each["id"] == opened.page.target_id)
        return tab_id

    def stop_extension(self) -> None:
        """Stop our service worker, as the browser does with one that is idle; an event starts it again."""
        worker = self._extension()
        self.browser.send("Target.closeTarget", targetId=worker["targetId"])

    def ask_extension(self, expression: str) -> Any:
        """Evaluate an expression in our service worker; return its JSON value."""
        extension = self.browser.attach(self._extension()["targetId"])
        try:
            return extension.evaluate(expression)
        finally:
            self.browser.send("Target.detachFromTarget", sessionId=extension.page.session)

    def _extension(self) -> Params:
        """Return the target of our service worker."""
        workers = self.browser.targets("service_worker")
        (worker,) = (each for each in workers if each["url"].startswith("chrome-extension:"))
        return worker


@contextmanager
def open_browsing(flags: Sequence[str] = (), *, forks_bridges: bool = True) -> Iterator[Browsing]:
    """A machine of its own, as long as the block; `flags` are for its Chromium."""
    with serving_site() as site, trio_thread() as thread, throw_away_directory() as home:
        chain = Chain(home, site.url, forks_bridges=forks_bridges)
        with thread.holding(chain.browser(flags=flags)) as chromium:
            thread.run(until, lambda: any((home / "run").glob("*.json")))  # the extension has called its host
            yield Browsing(thread, chain, Browser(thread, chromium), site)
