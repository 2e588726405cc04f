"""Browsers at WebSocket proxies: for each proxy one socket for the list, and one for each extension.

A browser that is connected to this machine's native host is left out, by the id of its profile. When its
host ends, it is used through the proxy, and not any more once a host is there again. Nothing is sent twice.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.transport import (
    NO_OBSERVER,
    CallObserver,
    DiscoveryFinished,
    Event,
    HostAnnouncement,
    HostDiscovered,
    Listener,
    TabAddress,
)
from bridge.links.browsers.composite_transport import BrowserLinks
from bridge.links.browsers.host_connection import HostConnection
from bridge.links.browsers.link_problem import LinkProblem
from bridge.links.browsers.native_profiles import NativeProfiles
from bridge.links.browsers.proxied_browser import ProxiedBrowser
from bridge.links.browsers.proxy_credentials import ProxyCredentials, UsedProxy
from bridge.links.browsers.proxy_problem import ProxyCause, ProxyProblem
from bridge.links.browsers.proxy_sockets import OPENING_S, ProxySocket, open_socket
from bridge.links.remote_sync import Backoff
from native_host.protocol import wire
from native_host.protocol.wire import Code, Wire
from websocket_proxy.protocol import ListedExtension

POLL_S = 2.0
"""Seconds between two looks for sign-ins."""
FIRST_LIST_S = 4.0
"""Seconds for the first lists of all proxies, before discovery counts as finished."""
TAKEOVER_S = 0.5
"""Seconds for another native host of a browser to appear, before the proxy is used."""
MAX_BROWSERS = 32
"""Browsers that are used at one proxy: each is a connection. Proxies accept 16 of a user by default."""
STEADY_S = 5.0
"""Seconds after which a connection that ends is opened again soon."""

_log = logging.getLogger(__name__)


class ProxyState(msgspec.Struct, frozen=True):
    """State of a proxy, for `mcpb doctor`."""

    url: str
    browsers: tuple[str, ...]
    """Names of the user's connected browsers."""
    problems: tuple[ProxyProblem, ...]


class ProxyLinks(BrowserLinks):
    """All proxies, as one `TabTransport`."""

    def __init__(self, find_proxies: Callable[[], Mapping[str, UsedProxy]], native: NativeProfiles) -> None:
        """Connect to what `find_proxies` returns, by address; it is called again and again.

        Browsers that are connected to native hosts are left out.
        """
        self.changes = native.changes
        """Changes of native hosts, of proxies and of their browsers."""
        self.native = native
        self._find_proxies = find_proxies
        self._proxies: dict[str, _Proxy] = {}
        self._listeners: list[Listener] = []
        self._connections: dict[str, HostConnection] = {}
        self._announced = wire.BridgeSessions(sessions=[])

    async def run(self) -> None:
        """Connect to proxies as users sign in and out. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            self._update(nursery)
            nursery.start_soon(self._finish_discovery)
            while True:
                await trio.sleep(POLL_S)
                self._update(nursery)

    def _update(self, nursery: trio.Nursery) -> None:
        used = self._find_proxies()
        for url in self._proxies.keys() - used.keys():
            self._proxies.pop(url).stop()
        for url in used.keys() - self._proxies.keys():
            self._proxies[url] = proxy = _Proxy(self, used[url])
            nursery.start_soon(proxy.run)

    async def _finish_discovery(self) -> None:
        until, proxies = trio.current_time() + FIRST_LIST_S, self._proxies
        await self.changes.wait_until(lambda: all(each.is_scanned for each in proxies.values()), until=until)
        self.emit_event(DiscoveryFinished())

    # ── BrowserLinks ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def problems(self) -> Mapping[str, LinkProblem]:
        """See `BrowserLinks`."""
        return {
            f"{proxy.url} {number}": LinkProblem(problem.describe(proxy.url), proxy.retry_at)
            for proxy in self._proxies.values()
            for number, problem in enumerate(proxy.problems)
        }

    @property
    def states(self) -> list[ProxyState]:
        """States of all proxies."""
        return [
            ProxyState(proxy.url, tuple(proxy.names), tuple(proxy.problems))
            for proxy in self._proxies.values()
        ]

    def set_listener(self, listener: Listener) -> None:
        """See `TabTransport`."""
        self._listeners.append(listener)

    def scan_hosts(self) -> None:
        """See `TabTransport`: proxies report changes by themselves."""

    def set_sessions(self, sessions: list[wire.Session]) -> None:
        """See `BrowserLinks`."""
        self._announce(msgspec.structs.replace(self._announced, sessions=sessions))

    def set_rules(self, digest: str) -> None:
        """See `BrowserLinks`."""
        self._announce(msgspec.structs.replace(self._announced, rules=digest))

    def _announce(self, announced: wire.BridgeSessions) -> None:
        self._announced = announced
        for connection in self._connections.values():
            connection.send_notification("bridge/sessions", announced)

    def send(
        self,
        tab: TabAddress,
        method: str,
        params: Wire,
        timeout_s: float,
        on_finished: OnFinished[bytes | CallError],
        observer: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """See `TabTransport`."""
        connection = self._connections.get(tab.host)
        if connection is None:
            on_finished(CallError(Code.GONE, handed=False))
            return FINISHED
        return connection.send(method, params, timeout_s, on_finished, observer)

    def disconnect(self, tab: TabAddress) -> None:
        """See `TabTransport`."""
        if tab.host in self._connections and tab.tab_id is not None:
            removed = wire.TabRemoved(tab_id=tab.tab_id)
            self.emit_event(HostAnnouncement(tab.host, "browser/tabRemoved", removed))

    # ── For its proxies ─────────────────────────────────────────────────────────────────────────────────────

    def emit_event(self, event: Event) -> None:
        """See `HostTable`."""
        for listener in self._listeners:
            listener(event)

    def open_host(self, host: str, connection: HostConnection) -> None:
        """See `HostTable`."""
        self._connections[host] = connection
        connection.send_notification("bridge/sessions", self._announced)

    def close_host(self, host: str) -> None:
        """See `HostTable`."""
        self._connections.pop(host, None)


def make_proxy_links(native: NativeProfiles, home: Path, environ: Mapping[str, str]) -> ProxyLinks:
    """Return the links to the proxies of a user. Raises ProxyAddressError."""
    return ProxyLinks(ProxyCredentials(home, environ).find_proxies, native)


class _Proxy:
    """One proxy."""

    def __init__(self, links: ProxyLinks, used: UsedProxy) -> None:
        self.url = used.address.url
        self.links = links
        self.used = used
        self.retry_at = 0.0
        self.is_listed = False
        """Its list, or the reason why it sends no list, is known."""
        self._problem: ProxyProblem | None = None
        self._listed: dict[str, ListedExtension] = {}
        self._browsers: dict[str, _Browser] = {}
        """Browsers by the id of the extension, as long as it is in the list or connected."""
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery

    def stop(self) -> None:
        """End all connections: the user has signed out."""
        self._scope.cancel()

    @property
    def is_scanned(self) -> bool:
        """Return whether its first browsers are discovered, or none can be."""
        return self.is_listed and all(each.is_discovered for each in self._browsers.values())

    @property
    def names(self) -> Iterable[str]:
        """Names of the user's browsers."""
        return [each.name for each in self._listed.values()]

    @property
    def problems(self) -> list[ProxyProblem]:
        """Return what keeps the proxy or its browsers from being used."""
        if self._problem:
            return [self._problem]
        if not self.is_listed:
            return []
        found = [browser.problem for browser in self._browsers.values() if browser.problem]
        foreign = [each.name for each in self._listed.values() if each.wire != wire.WIRE_VERSION]
        if foreign:
            found.append(ProxyProblem(ProxyCause.EXTENSION_OLD, ", ".join(foreign)))
        return found or ([] if self._listed else [ProxyProblem(ProxyCause.NO_BROWSER)])

    def is_open_to(self, extension_id: str) -> bool:
        """Return whether an extension of this version is in the list."""
        listed = self._listed.get(extension_id)
        return listed is not None and listed.wire == wire.WIRE_VERSION

    async def run(self) -> None:
        """Connect, again and again, until it is stopped."""
        backoff = Backoff()
        with self._scope:
            async with trio.open_nursery() as self._nursery:
                while True:
                    began = trio.current_time()
                    self._note(await self._watch())
                    if trio.current_time() - began > STEADY_S:
                        backoff.reset()
                    delay_s = backoff.next_delay_s() * random.uniform(0.5, 1)  # noqa: S311  (no secret)
                    self.retry_at = trio.current_time() + delay_s
                    await self._wait_retry()

    async def _wait_retry(self) -> None:
        """Wait until the next attempt, or until there are new tokens."""
        before = self.used.file_identity()
        while trio.current_time() < self.retry_at and self.used.file_identity() == before:  # noqa: ASYNC110
            await trio.sleep(min(POLL_S, max(0.0, self.retry_at - trio.current_time())))

    async def _watch(self) -> ProxyProblem:
        """Receive lists until the end, and return the reason."""
        try:
            socket = await open_socket(self.used)
        except ProxyProblem as problem:
            return problem
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(socket.run)
                reason = await self._receive_lists(socket)
                await socket.finish()
                nursery.cancel_scope.cancel()
        finally:
            await socket.close()
        return reason

    async def _receive_lists(self, socket: ProxySocket) -> ProxyProblem:
        try:
            with trio.fail_after(OPENING_S):
                extensions = await socket.receive_list()
            while extensions is not None:
                self._listed = {each.id: each for each in extensions[:MAX_BROWSERS]}
                self._serve_listed()
                self._note(None)
                extensions = await socket.receive_list()
        except ProxyProblem as problem:
            return problem
        except trio.TooSlowError:
            return ProxyProblem(ProxyCause.ADDRESS, "it sends no list of browsers")
        return socket.end_problem()

    def _serve_listed(self) -> None:
        for extension_id in self._listed:
            is_new = extension_id not in self._browsers and self.is_open_to(extension_id)
            if is_new and len(self._browsers) < MAX_BROWSERS:
                self._browsers[extension_id] = browser = _Browser(self, extension_id)
                self._nursery.start_soon(self._serve_browser, browser)

    async def _serve_browser(self, browser: _Browser) -> None:
        await browser.run(self._nursery)
        del self._browsers[browser.extension_id]
        self._serve_listed()  # it may have come back meanwhile, or another one has waited

    def _note(self, problem: ProxyProblem | None) -> None:
        if problem:
            self._listed = {}
            if not self._problem or problem.cause is not self._problem.cause:
                level = logging.INFO if problem.cause is ProxyCause.LOST else logging.WARNING
                _log.log(level, "%s", problem.describe(self.url))
        self._problem = problem
        self.is_listed = True
        self.links.changes.notify()


class _Browser:
    """One browser at a proxy. Its connections have one host name."""

    def __init__(self, proxy: _Proxy, extension_id: str) -> None:
        self.extension_id = extension_id
        self.problem: ProxyProblem | None = None
        self.is_discovered = False
        self._proxy = proxy
        self._links = proxy.links
        self._native = proxy.links.native
        self._host = f"{extension_id}@{proxy.url.partition('://')[2]}"
        self._profile = ""
        """Id of the profile; empty: not known yet."""

    async def run(self, nursery: trio.Nursery) -> None:
        """Keep it connected while it is in the list and has no native host."""
        backoff = Backoff()
        while self._is_listed():
            if self._profile and self._native.has(self._profile):
                self.problem = None
                await self._wait_native_lost()
                continue
            began = trio.current_time()
            self.problem = await self._connect(nursery)
            self._links.changes.notify()
            if trio.current_time() - began > STEADY_S:
                backoff.reset()
            if not self._native.has(self._profile):
                until = trio.current_time() + backoff.next_delay_s() * random.uniform(0.5, 1)  # noqa: S311
                await self._wait_until(lambda: not self._is_listed(), until)

    def _is_listed(self) -> bool:
        return self._proxy.is_open_to(self.extension_id)

    async def _wait_native_lost(self) -> None:
        """Wait until the browser has lost its native host, and has had the time for another one."""
        await self._wait_until(lambda: not (self._is_listed() and self._native.has(self._profile)))
        until = trio.current_time() + TAKEOVER_S
        await self._wait_until(lambda: not self._is_listed() or self._native.has(self._profile), until)

    async def _wait_until(self, is_so: Callable[[], bool], until: float = math.inf) -> None:
        await self._links.changes.wait_until(is_so, until=until)

    async def _connect(self, nursery: trio.Nursery) -> ProxyProblem | None:
        """Use the browser until it is gone or has a native host; return why it could not be used."""
        self._links.emit_event(HostDiscovered(self._host, time.time(), self._proxy.url))
        self.is_discovered = True
        self._links.changes.notify()
        browser = ProxiedBrowser(self._host, self._links, self._native)
        try:
            await browser.open(self._proxy.used, self.extension_id)
            await browser.use(nursery)
        except ProxyProblem as problem:
            return None if problem.cause is ProxyCause.LOST else problem
        finally:
            self._profile = browser.profile or self._profile
            browser.leave()
        return browser.problem
