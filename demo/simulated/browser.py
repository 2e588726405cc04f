"""Simulated browser with the extension, which speaks the real wire to a real native host process.

The demo uses it without a browser, tests use it where a real one would add nothing:

    async with SimulatedBrowser([sys.executable, "-I", "-m", "native_host"], env=env) as browser:
        tab = browser.add_tab("http://localhost:8123/", "Shop")
        tab.offer("getCart", get_cart, description="What is in the cart")

A handler is an async function of the arguments: it returns the result, and raises what the page throws.
`current_call().request("roots/list")` sends a request to the client of its call. It does not simulate
rendering, and the 60 s after which tabs of an ended session are released.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Self

import msgspec
import trio

from demo.simulated.commands import COMMANDS, RefusedError
from demo.simulated.port import NativePort, open_port
from demo.simulated.tabs import SimulatedFrame, SimulatedTab
from demo.simulated.worker import FRAME_COMMANDS, Worker
from native_host import __version__
from native_host.protocol import jsonrpc, wire
from native_host.protocol.chunking import ChunkError
from native_host.protocol.framing import FrameError
from native_host.protocol.jsonrpc import Envelope
from native_host.protocol.wire import Code

SUPPORTED = ["documentId", "tabNumbers"]
"""What our extension announces beside its commands."""


class SimulatedBrowser:
    """One browser profile with one window. What becomes of its tabs is announced while a port is open.

    `command` starts the native host (the browser adds the extension's origin), `env` is added to our own
    environment, `stderr` is the host's (ours by default).
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stderr: int | None = None,
        brand: str = "Simulated browser",
        profile_id: str = "",
        profile_label: str = "",
        extension_id: str = wire.EXTENSION_ID,
    ) -> None:
        self.command = list(command)
        self.env = dict(env or {})
        self.stderr = stderr
        self.hello = wire.BrowserHello(
            wire=wire.WIRE_VERSION,
            extension=wire.ExtensionInfo(id=extension_id, version=__version__),
            browser=wire.BrowserInfo(brand=brand, version=__version__),
            profile=wire.Profile(id=profile_id or secrets.token_hex(16), label=profile_label),
            capabilities=wire.Capabilities(commands=[*FRAME_COMMANDS, *COMMANDS, *SUPPORTED]),
        )
        self.tabs: dict[int, SimulatedTab] = {}
        self.sites: dict[str, Callable[[SimulatedTab], None]] = {}
        """By origin: what a page there does when it has been loaded (offer its tools)."""
        self.paused = wire.Paused()
        self.received: list[Envelope] = []
        """Every message of every host; one that came in pieces follows its last piece."""
        self.dropped = 0
        """Bodies that made no sense. Chromium drops them silently as well."""
        self.port: NativePort | None = None
        self.port_error = ""
        """Reason why the browser closed the last port; empty without one."""
        self._worker: Worker | None = None
        self._port_scope = trio.CancelScope()
        self._port_ended = trio.Event()
        self._heard_before = 0
        self._news = trio.Event()
        self._tab_ids = itertools.count(1)
        self._tab_numbers = itertools.count(1)
        self._groups: dict[str, int] = {}
        self._clock_ms = time.time() * 1000
        self._lifetime: AbstractAsyncContextManager[Self]
        self._nursery: trio.Nursery

    async def __aenter__(self) -> Self:
        """Open the first port.

        Raises:
            OSError: the command cannot be started.
            EOFError: the host ended before it said hello.
        """
        self._lifetime = self._live()
        return await self._lifetime.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._lifetime.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[Self]:
        async with trio.open_nursery() as self._nursery:
            await self.connect()
            yield self
            await self.close()

    # ── The port ────────────────────────────────────────────────────────────────────────────────────────────

    async def connect(self) -> wire.HostHello:
        """Start a host, as a worker does that wakes up, and tell it everything; returns the host's hello.

        Raises:
            EOFError: the host ended before it said hello.
        """
        if self.port is not None:
            raise RuntimeError("a port is open already")
        await self._nursery.start(self._keep_port)
        while not (hellos := self._heard_on_port("host/hello")):
            if self._port_ended.is_set():
                raise EOFError(f"the native host ended before its hello: {' '.join(self.command)}")
            await self._news.wait()
        return msgspec.json.decode(hellos[-1].params, type=wire.HostHello)

    async def close(self) -> None:
        """Close the port, as when a browser ends or a worker is stopped, and see the host end."""
        if self.port is not None:
            self._port_scope.cancel()
            await self._port_ended.wait()

    async def kill_host(self) -> None:
        """SIGKILL the host. `connect` starts the next one."""
        if self.port is not None:
            self.port.process.kill()
            await self._port_ended.wait()

    async def wait_port_ended(self) -> None:
        """Wait until the host has ended."""
        await self._port_ended.wait()

    async def _keep_port(self, *, task_status: trio.TaskStatus[None]) -> None:
        self._port_scope, self._port_ended = trio.CancelScope(), trio.Event()
        self._heard_before, self.port_error = len(self.received), ""
        try:
            with self._port_scope:
                async with open_port(self.command, self._origin(), self.env, self.stderr) as self.port:
                    await self._use_port(self.port, task_status)
        finally:
            self.port = self._worker = None
            self._port_ended.set()
            self._tell()

    async def _use_port(self, port: NativePort, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            self._worker = Worker(self, port, nursery)
            self._worker.greet()
            nursery.start_soon(port.write_forever)
            task_status.started()
            try:
                await port.read_until_end(self._hear)
            except FrameError as error:
                self.port_error = str(error)
            nursery.cancel_scope.cancel()  # the calls end with their port

    def _origin(self) -> str:
        return f"chrome-extension://{self.hello.extension.id}/"

    # ── Received messages ──────────────────────────────────────────────────────────────────────────────────

    def heard(self, method: str) -> list[Envelope]:
        """Return the received messages with this method."""
        return [message for message in self.received if message.method == method]

    async def wait_heard(self, method: str, count: int = 1) -> Envelope:
        """Until so many messages with this method have come; returns the last of those."""
        while len(heard := self.heard(method)) < count:
            await self._news.wait()
        return heard[count - 1]

    def _heard_on_port(self, method: str) -> list[Envelope]:
        return [message for message in self.received[self._heard_before :] if message.method == method]

    def _hear(self, body: bytes) -> None:
        assert self._worker is not None
        try:
            self.received += self._worker.hear(body)
        except (jsonrpc.UndecodableError, msgspec.DecodeError, ChunkError):
            self.dropped += 1
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()

    # ── Tabs ────────────────────────────────────────────────────────────────────────────────────────────────

    def add_tab(
        self, url: str, title: str = "", *, active: bool = True, incognito: bool = False
    ) -> SimulatedTab:
        """Open a page in a new tab."""
        state = wire.Tab(
            tab_id=next(self._tab_ids),
            window_id=1,
            url=url,
            title=title,
            focused=True,
            ordinal=0 if incognito else next(self._tab_numbers),
            incognito=incognito,
        )
        tab = self.tabs[state.tab_id] = SimulatedTab(state, self)
        tab.load()
        if active:
            self.activate(tab)
        return tab

    def remove_tab(self, tab: SimulatedTab) -> None:
        """Close a tab."""
        del self.tabs[tab.tab_id]
        tab.close_documents()
        if self._worker:
            self._worker.notify("browser/tabRemoved", wire.TabRemoved(tab_id=tab.tab_id))

    def activate(self, tab: SimulatedTab) -> None:
        """Bring a tab to the front."""
        for other in self.tabs.values():
            if other.state.active and other is not tab:
                other.change(active=False)
        self._clock_ms += 1  # no two tabs are equally recent
        tab.change(active=True, last_accessed=self._clock_ms)

    def tab(self, tab_id: int) -> SimulatedTab:
        """Return a tab by its number.

        Raises:
            RefusedError: it does not exist.
        """
        if tab := self.tabs.get(tab_id):
            return tab
        raise RefusedError(Code.NO_SUCH_TAB, f"there is no tab {tab_id}")

    def pause(self, *, site: str = "", session: str = "", paused: bool = True) -> None:
        """Pause or resume a site or a session, as the user does in the popup."""
        before = self.paused
        self.paused = wire.Paused(
            sites=_with(before.sites, site, paused), sessions=_with(before.sessions, session, paused)
        )
        if self._worker and self.paused != before:
            self._worker.notify("browser/paused", self.paused)

    def group_of(self, session: str) -> int:
        """Return the tab group of a session, created on first use."""
        return self._groups.setdefault(session, len(self._groups) + 1)

    def all_tabs(self) -> wire.Tabs:
        """Return the announcement `browser/tabs`."""
        return wire.Tabs(tabs=[tab.state for tab in self.tabs.values()])

    # ── What the tabs tell (simulated_tabs.Listener) ────────────────────────────────────────────────────────

    def tab_changed(self, tab: SimulatedTab) -> None:
        """Announce it."""
        if self._worker:
            self._worker.notify("browser/tabChanged", wire.TabChanged(tab=tab.state))

    def tools_changed(self, frame: SimulatedFrame) -> None:
        """Announce them."""
        if self._worker:
            self._worker.announce(frame)

    def resource_updated(self, frame: SimulatedFrame, uri: str) -> None:
        """Tell the clients that watch it."""
        if self._worker:
            self._worker.resource_updated(frame, uri)

    def server_stopped(self, frame: SimulatedFrame) -> None:
        """End its watches."""
        if self._worker:
            self._worker.end_watches(frame)

    def document_gone(self, frame: SimulatedFrame) -> None:
        """Announce it, and end its calls."""
        if self._worker:
            self._worker.document_gone(frame)

    def page_loaded(self, tab: SimulatedTab) -> None:
        """Let the page there begin."""
        if load := self.sites.get(tab.state.origin):
            load(tab)


def _with(names: list[str], name: str, is_in: bool) -> list[str]:
    """Return the list with or without the name."""
    others = [other for other in names if other != name]
    return [*others, name] if name and is_in else others
