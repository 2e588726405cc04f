"""The edges of the native host: the browser's pipes on one side, socket clients on the other.

One nursery holds everything; it ends when the browser closes its end (or its pipe breaks). Every stream has
one reader and one writer. What is said to whom is the switchboard's business.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from collections import deque

import trio

from native_host import __version__, endpoint, envelope, wire
from native_host.endpoint import Endpoint
from native_host.framing import FrameDecoder, FrameError, frame
from native_host.switchboard import Delivery, Switchboard
from native_host.wire import Code

logger = logging.getLogger(__name__)

_READ_BYTES = 1024 * 1024
_LOOK_SECONDS = 3.0
"""Between looks at our own files. Without them no bridge finds us, and a new host is better than this one."""
_FAREWELL_SECONDS = 0.5
"""How long a last message may take before its connection is closed regardless."""


async def run(browser_in: int, browser_out: int, extension_origin: str) -> None:
    """Serve one browser until it closes its end. Takes over the two descriptors.

    Raises:
        EndpointError: there is no private directory for the socket.
    """
    place = endpoint.open_first(endpoint.candidates())
    try:
        async with (
            trio.lowlevel.FdStream(browser_in) as from_browser,
            trio.lowlevel.FdStream(browser_out) as to_browser,
        ):
            await Relay(place, extension_origin).serve(from_browser, to_browser)
    finally:
        place.close()


class _Client:
    """One accepted connection: its stream, and what waits to be written to it."""

    def __init__(self, connection: str, stream: trio.SocketStream) -> None:
        self.connection = connection
        self.stream = stream
        self.backlog: deque[bytes] = deque()
        self.backlog_bytes = 0
        self.is_closing = False
        self.introduced = trio.Event()
        self.wake_writer = trio.Event()
        self.wake_reader = trio.Event()
        self.scope = trio.CancelScope()

    def put(self, body: bytes) -> None:
        """Queue a message."""
        self.backlog.append(body)
        self.backlog_bytes += len(body)
        self.wake_writer.set()

    def dismiss(self, body: bytes) -> None:
        """Say `body` and close: when it is written, or after _FAREWELL_SECONDS."""
        self.put(body)
        self.is_closing = True
        self.scope.deadline = trio.current_time() + _FAREWELL_SECONDS


class Relay:
    """One browser and its clients, as streams."""

    def __init__(self, place: Endpoint, extension_origin: str) -> None:
        self._place = place
        self._record = endpoint.Record(
            instance=place.instance,
            pid=os.getpid(),
            browser_pid=os.getppid(),
            extension_origin=extension_origin,
            version=__version__,
            started_at=time.time(),
        )
        self._switchboard = Switchboard(_hello(self._record))
        self._clients: dict[str, _Client] = {}
        self._waiting_readers: set[_Client] = set()
        """Clients that are not read, because too much of theirs waits for the browser."""
        self._accepted = 0
        self._wake_browser_writer = trio.Event()
        self._browser_has_heard_all = trio.Event()
        self._transferring = trio.Event()

    async def serve(self, from_browser: trio.abc.ReceiveStream, to_browser: trio.abc.SendStream) -> None:
        """Relay until the browser closes or breaks its pipe, SIGTERM comes, or our files are gone."""
        self._place.publish(self._record)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write_to_browser, to_browser, nursery.cancel_scope)
            nursery.start_soon(self._expire_transfers)
            nursery.start_soon(_end_on_sigterm, nursery.cancel_scope)
            nursery.start_soon(self._end_when_out_of_place, nursery.cancel_scope)
            nursery.start_soon(self._accept)
            await self._read_from_browser(from_browser)
            nursery.cancel_scope.cancel()

    # ── The browser ─────────────────────────────────────────────────────────────────────────────────────────

    async def _read_from_browser(self, stream: trio.abc.ReceiveStream) -> None:
        decoder = FrameDecoder(wire.FROM_BROWSER_BYTES, "native")
        try:
            while data := await stream.receive_some(_READ_BYTES):
                decoder.feed(data)
                while (body := decoder.next_frame()) is not None:
                    self._hear_browser(body)
        except FrameError as error:
            await self._complain_to_browser(str(error))
        except trio.BrokenResourceError:
            logger.info("the browser's pipe broke")

    def _hear_browser(self, body: bytes) -> None:
        known = self._switchboard.browser
        self._deliver(self._switchboard.from_browser(body))
        browser = self._switchboard.browser
        if browser is not None and browser is not known:
            self._introduce(browser)

    def _introduce(self, browser: wire.BrowserHello) -> None:
        self._record.browser = f"{browser.browser.brand} {browser.browser.version}".strip()
        self._record.profile_id = browser.profile.id
        self._record.profile_label = browser.profile.label
        try:
            self._place.publish(self._record)
        except endpoint.EndpointError as error:  # bridges hear all of it over the socket as well
            logger.warning("%s", error)

    async def _complain_to_browser(self, text: str) -> None:
        logger.warning("the browser broke its frames: %s", text)
        self._switchboard.outbox.put("", _error(Code.TOO_LARGE, text))
        self._browser_has_heard_all = trio.Event()
        self._wake_browser_writer.set()
        with trio.move_on_after(_FAREWELL_SECONDS):
            await self._browser_has_heard_all.wait()

    async def _write_to_browser(self, stream: trio.abc.SendStream, host: trio.CancelScope) -> None:
        outbox = self._switchboard.outbox
        try:
            while True:
                while outbox:
                    body, key, done = outbox.take(trio.current_time())
                    if outbox.next_deadline_s() < math.inf:
                        self._transferring.set()
                    await stream.send_all(frame(body, "native"))
                    self._switchboard.written(key, done)
                    self._wake_readers()
                self._browser_has_heard_all.set()
                self._wake_browser_writer = trio.Event()
                await self._wake_browser_writer.wait()
        except trio.BrokenResourceError:  # EPIPE says the same as an end of input
            host.cancel()

    def _wake_readers(self) -> None:
        for client in self._waiting_readers:
            client.wake_reader.set()

    async def _expire_transfers(self) -> None:
        while True:
            await self._transferring.wait()
            deadline_s = self._switchboard.outbox.next_deadline_s()
            if deadline_s == math.inf:
                self._transferring = trio.Event()
                continue
            await trio.sleep_until(deadline_s)
            self._deliver(self._switchboard.expire(trio.current_time()))

    async def _end_when_out_of_place(self, host: trio.CancelScope) -> None:
        while self._place.is_in_place():  # noqa: ASYNC110 - the file system tells nobody
            await trio.sleep(_LOOK_SECONDS)
        logger.warning(
            "the files in %s are gone: ending, so that the next host makes new ones", self._place.directory
        )
        host.cancel()

    # ── Clients ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _accept(self) -> None:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._place.listener))
        await trio.serve_listeners(self._serve_client, [listener])

    async def _serve_client(self, stream: trio.SocketStream) -> None:
        try:
            endpoint.check_peer(stream)
        except endpoint.EndpointError as error:
            logger.warning("refused a connection: %s", error)
            return
        endpoint.tune(stream)
        self._accepted += 1
        client = _Client(f"{self._place.instance}-{self._accepted}", stream)
        self._clients[client.connection] = client
        self._deliver(self._switchboard.connected(client.connection))
        try:
            with client.scope:
                await self._talk(client)
        finally:
            del self._clients[client.connection]
            self._waiting_readers.discard(client)
            self._deliver(self._switchboard.disconnected(client.connection))

    async def _talk(self, client: _Client) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write_to_client, client)
            nursery.start_soon(self._watch_opening, client)
            await self._read_from_client(client)
            nursery.cancel_scope.cancel()

    async def _watch_opening(self, client: _Client) -> None:
        """A client introduces itself in time, and has its replay even where the extension is silent."""
        with trio.move_on_after(wire.HELLO_SECONDS):
            await client.introduced.wait()
        if not client.introduced.is_set():
            client.dismiss(_error(Code.INVALID_REQUEST, f"no bridge/hello within {wire.HELLO_SECONDS:g} s"))
            return
        await trio.sleep(wire.REPLAY_WAIT_SECONDS)
        self._deliver(self._switchboard.replay(client.connection))

    async def _read_from_client(self, client: _Client) -> None:
        decoder = FrameDecoder(wire.SOCKET_BYTES, "little")
        try:
            while data := await client.stream.receive_some(_READ_BYTES):
                decoder.feed(data)
                while not client.is_closing and (body := decoder.next_frame()) is not None:
                    await self._hear_client(client, body)
        except FrameError as error:
            client.dismiss(_error(Code.TOO_LARGE, str(error)))
            await trio.sleep_forever()  # the writer closes when that is said
        except trio.BrokenResourceError:
            logger.info("client %s broke off", client.connection)

    async def _hear_client(self, client: _Client, body: bytes) -> None:
        self._deliver(self._switchboard.from_client(client.connection, body))
        if self._switchboard.has_said_hello(client.connection):
            client.introduced.set()
        self._waiting_readers.add(client)
        while self._switchboard.waiting_bytes(client.connection) > wire.CLIENT_WAITING_BYTES:
            client.wake_reader = trio.Event()
            await client.wake_reader.wait()
        self._waiting_readers.discard(client)

    async def _write_to_client(self, client: _Client) -> None:
        try:
            while True:
                while client.backlog:
                    body = client.backlog.popleft()
                    await client.stream.send_all(frame(body, "little"))
                    client.backlog_bytes -= len(body)
                if client.is_closing:
                    break
                client.wake_writer = trio.Event()
                await client.wake_writer.wait()
        except trio.BrokenResourceError:
            logger.info("client %s does not listen any more", client.connection)
        client.scope.cancel()

    def _deliver(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            client = self._clients.get(delivery.connection)
            if client is None or client.is_closing:
                continue
            if delivery.is_last:
                client.dismiss(delivery.body)
            else:
                client.put(delivery.body)
            if client.backlog_bytes > wire.CLIENT_BACKLOG_BYTES and not client.is_closing:
                self._drop_laggard(client)
        self._wake_readers()
        if self._switchboard.outbox:
            self._browser_has_heard_all = trio.Event()
            self._wake_browser_writer.set()

    def _drop_laggard(self, client: _Client) -> None:
        logger.warning("client %s is dropped: it does not read what it asked for", client.connection)
        client.backlog.clear()
        text = f"more than {wire.CLIENT_BACKLOG_BYTES} bytes waited to be read by this client"
        client.dismiss(_error(Code.TOO_LARGE, text))


async def _end_on_sigterm(host: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            host.cancel()


def _hello(record: endpoint.Record) -> wire.HostHello:
    return wire.HostHello(
        wire=wire.WIRE_VERSION,
        instance=record.instance,
        version=record.version,
        pid=record.pid,
        browser_pid=record.browser_pid,
        extension_origin=record.extension_origin,
        limits=wire.Limits(
            to_browser=wire.TO_BROWSER_BYTES,
            from_browser=wire.FROM_BROWSER_BYTES,
            socket=wire.SOCKET_BYTES,
        ),
    )


def _error(code: Code, text: str) -> bytes:
    return envelope.notification("host/error", wire.HostError(code=code, message=text))
