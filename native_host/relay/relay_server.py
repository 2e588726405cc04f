"""Relay server: the browser's pipes on one side, socket clients on the other.

One nursery holds everything; it ends when the browser closes its end (or its pipe breaks). Every descriptor
has one reader and one writer. `message_router.py` decides which message goes where.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio

from native_host import __version__
from native_host.ipc import endpoint
from native_host.ipc.endpoint import Endpoint
from native_host.ipc.streams import FrameReader, MessageWriter
from native_host.protocol import jsonrpc, wire
from native_host.protocol.announcements import AnnouncementMeta
from native_host.protocol.framing import FrameError, split_frame
from native_host.protocol.wire import Code, DropReason
from native_host.relay.browser_adapter import AdapterOutput, BrowserAdapter
from native_host.relay.coalescing import AnnouncementCoalescer
from native_host.relay.message_router import Delivery, MessageRouter
from native_host.system import malloc
from native_host.system.private_files import PrivateFileError
from native_host.system.program_name import installed_command

logger = logging.getLogger(__name__)

_GIVEN_BYTES = 64 * 1024
"""Bytes that the browser's writer gets at once: few system calls, and little that cannot be withdrawn."""
_MESSAGE_BYTES = 512
"""Memory of a queued message beside its own bytes, so that many short messages count, too."""
_LOOK_SECONDS = 3.0
"""Seconds between checks of the endpoint's files, without which no bridge finds this host, and of memory."""
FIRST_CLIENT_SECONDS = 20.0
"""Seconds that a host that ends without clients waits for its first client."""
FIRST_MESSAGE_SECONDS = 0.5
"""Seconds after which an extension of unknown dialect counts as silent."""
_WANTED_LOOK_SECONDS = 1.0
_FAREWELL_SECONDS = 0.5
"""Seconds that a last message may take before its connection closes."""


def record_of(place: Endpoint, extension_origin: str, browser_pid: int, channel: str = "") -> endpoint.Record:
    """Return the record of this process."""
    return endpoint.Record(
        instance=place.instance,
        pid=os.getpid(),
        browser_pid=browser_pid,
        extension_origin=extension_origin,
        version=__version__,
        started_at=time.time(),
        channel=channel,
    )


class _Client:
    """One accepted connection."""

    def __init__(self, connection: str, stream: trio.SocketStream, on_dropped: Callable[[], None]) -> None:
        self.connection = connection
        self.reader = FrameReader(stream.socket.fileno(), wire.SOCKET_BYTES, "little")
        self.writer = MessageWriter(stream.socket.fileno())
        self._newest = AnnouncementCoalescer(self.writer.queue, on_dropped)
        self.is_closing = False
        self.introduced = trio.Event()
        self.scope = trio.CancelScope()

    @property
    def lags(self) -> bool:
        """Return whether more bytes are queued for it than the host can hold."""
        waiting = self.writer.queue
        return waiting.size + len(waiting) * _MESSAGE_BYTES > wire.CLIENT_BACKLOG_BYTES

    def put(self, parts: tuple[bytes, ...], meta: AnnouncementMeta | None = None) -> None:
        """Queue a message for the next flush; a later announcement with its key may replace it."""
        frame = split_frame(parts, "little")
        if meta is None:
            self.writer.put(*frame)
            return
        self.writer.flush()  # nothing is left out for a client that reads
        self._newest.put(frame, meta)

    def dismiss(self, *parts: bytes) -> None:
        """Send a last message, and close when it is written, or after _FAREWELL_SECONDS."""
        self.put(parts)
        self.writer.flush()
        self.writer.finish()
        self.is_closing = True
        self.scope.deadline = trio.current_time() + _FAREWELL_SECONDS


class RelayServer:
    """Serves one browser and its clients on their descriptors."""

    def __init__(
        self,
        place: Endpoint,
        record: endpoint.Record,
        adapter: BrowserAdapter,
        browser_in: int,
        browser_out: int,
        *,
        lingers_s: float = math.inf,
        why_ended: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """Relay between a browser and the clients of an endpoint.

        Args:
            place: where bridges connect.
            record: what they read there.
            side: how the browser's end speaks.
            browser_in: a descriptor to read from; the caller's to close, as `browser_out` is.
            browser_out: the one to write to; it may be the same.
            lingers_s: without a client for so long, it ends; at first it waits FIRST_CLIENT_SECONDS.
            why_ended: is asked when the browser's end is gone.
        """
        self._place = place
        self._record = record
        self._adapter = adapter
        self._lingers_s = lingers_s
        self._wanted_until = 0.0
        self._why_ended = why_ended
        self._router = MessageRouter(_hello(self._record))
        self._clients: dict[str, _Client] = {}
        self._unflushed: set[_Client] = set()
        """Clients with messages queued since the last flush."""
        self._accepted = 0
        self._from_browser = FrameReader(browser_in, wire.FROM_BROWSER_BYTES, adapter.byte_order)
        self._to_browser = MessageWriter(browser_out, refill=self._refill_browser)
        self._being_written: list[tuple[str, int]] = []
        """Keys and lengths of the messages that the browser's writer has."""
        self._room_in_browser = trio.lowlevel.ParkingLot()
        """Clients that are not read, because too many bytes of theirs wait for the browser."""
        self._transferring = trio.Event()
        self._until_ended = trio.CancelScope()

    async def serve(self) -> None:
        """Relay until the browser closes its pipe, SIGTERM comes, or the endpoint's files are gone."""
        with trio.open_signal_receiver(signal.SIGTERM) as signals:  # before anybody can know of us
            self._place.publish(self._record)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_end_at, signals, nursery.cancel_scope)
                nursery.start_soon(self._write_to_browser)
                nursery.start_soon(self._expire_transfers)
                nursery.start_soon(self._look_now_and_then, nursery.cancel_scope)
                nursery.start_soon(self._accept)
                if self._lingers_s < math.inf:
                    nursery.start_soon(self._end_unwanted, nursery.cancel_scope)
                nursery.start_soon(self._watch_beginning)
                with self._until_ended:
                    await self._read_from_browser()
                self._hear_last(await self._why_ended() if self._why_ended else "")
                nursery.cancel_scope.cancel()

    # ── The browser ─────────────────────────────────────────────────────────────────────────────────────────

    async def _read_from_browser(self) -> None:
        try:
            while self._handle_all(await self._from_browser.receive(), self._hear_browser):
                pass
        except FrameError as error:
            await self._complain_to_browser(str(error))
        except trio.BrokenResourceError:
            logger.info("the browser's pipe broke")

    async def _watch_beginning(self) -> None:
        self._pass_on(self._adapter.on_opened())
        self._flush()
        await trio.sleep(FIRST_MESSAGE_SECONDS)
        self._pass_on(self._adapter.on_silence())
        self._flush()

    def _hear_browser(self, body: bytes) -> None:
        self._pass_on(self._adapter.on_message(body))

    def _pass_on(self, turned: AdapterOutput) -> None:
        """Pass on the output of the adapter; call `_flush` when all received messages are handled."""
        for frame_body in turned.theirs:
            self._to_browser.put(*split_frame((frame_body,), self._adapter.byte_order))
        for body in turned.ours:
            self._hear(body)

    def _hear_last(self, why: str) -> None:
        for body in self._adapter.on_closed(why):
            self._hear(body)
        while why and self._router.outbox:  # what clients have said since
            body, _, _ = self._router.outbox.pop_next(trio.current_time())
            self._pass_on(self._adapter.translate(body))
        self._flush_clients()

    def _hear(self, body: bytes) -> None:
        known = self._router.browser
        self._deliver(self._router.from_browser(body))
        browser = self._router.browser
        if browser is not None and browser is not known:
            self._introduce(browser)

    def _introduce(self, browser: wire.BrowserHello) -> None:
        self._router.largest_bytes = self._adapter.largest_bytes
        self._record.browser = f"{browser.browser.brand} {browser.browser.version}".strip()
        self._record.profile_id = browser.profile.id
        self._record.profile_label = browser.profile.label
        try:
            self._place.publish(self._record)
        except PrivateFileError as error:  # bridges receive all of it over the socket as well
            logger.warning("%s", error)

    async def _complain_to_browser(self, text: str) -> None:
        logger.warning("the browser broke its frames: %s", text)
        self._router.outbox.put("", _error(Code.TOO_LARGE, text))
        self._flush()
        with trio.move_on_after(_FAREWELL_SECONDS), suppress(trio.BrokenResourceError):
            await self._to_browser.wait_room()

    async def _write_to_browser(self) -> None:
        self._to_browser.flush()
        with suppress(trio.BrokenResourceError):  # EPIPE says the same as an end of input
            await self._to_browser.run()
        self._until_ended.cancel()

    def _refill_browser(self) -> None:
        """Give the writer the next messages. Messages in the outbox can still be withdrawn."""
        for key, size in self._being_written:
            self._router.on_written(key, size)
        self._being_written.clear()
        outbox, given = self._router.outbox, 0
        while outbox and given < _GIVEN_BYTES:
            body, key, done = outbox.pop_next(trio.current_time())
            self._pass_on(self._adapter.translate(body))
            self._being_written.append((key, done))
            given += len(body)
        self._flush_clients()  # who was refused
        if outbox.is_transferring:
            self._transferring.set()
        if self._room_in_browser:
            self._room_in_browser.unpark_all()

    async def _expire_transfers(self) -> None:
        while True:
            await self._transferring.wait()
            deadline_s = self._router.outbox.next_deadline_s()
            if deadline_s == math.inf:
                self._transferring = trio.Event()
                continue
            await trio.sleep_until(deadline_s)
            self._deliver(self._router.expire(trio.current_time()))
            self._flush()

    async def _look_now_and_then(self, host: trio.CancelScope) -> None:
        while self._place.is_in_place():
            malloc.trim_malloc()
            await trio.sleep(_LOOK_SECONDS)
        logger.warning(
            "the files in %s are gone: ending, so that the next host makes new ones", self._place.directory
        )
        host.cancel()

    async def _end_unwanted(self, host: trio.CancelScope) -> None:
        """End a host that has had no client for some time."""
        self._wanted_until = trio.current_time() + FIRST_CLIENT_SECONDS
        while True:
            await trio.sleep(_WANTED_LOOK_SECONDS)
            is_over = trio.current_time() >= self._wanted_until
            if is_over and not self._clients and not self._adapter.is_owed_an_answer:
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
        on_dropped = partial(self._router.count_dropped, DropReason.PAGE_NOTIFICATION)
        client = _Client(f"{self._place.instance}-{self._accepted}", stream, on_dropped)
        self._clients[client.connection] = client
        self._deliver(self._router.on_connected(client.connection))
        self._flush()
        try:
            with client.scope:
                await self._talk(client)
        finally:
            del self._clients[client.connection]
            self._wanted_until = trio.current_time() + self._lingers_s
            self._deliver(self._router.on_disconnected(client.connection))
            self._flush()

    async def _talk(self, client: _Client) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write_to_client, client)
            nursery.start_soon(self._watch_opening, client)
            await self._read_from_client(client)
            nursery.cancel_scope.cancel()

    async def _watch_opening(self, client: _Client) -> None:
        """Reject a client without `bridge/hello` in time; send the replay also if the extension is silent."""
        with trio.move_on_after(wire.HELLO_SECONDS):
            await client.introduced.wait()
        if not client.introduced.is_set():
            client.dismiss(_error(Code.INVALID_REQUEST, f"no bridge/hello within {wire.HELLO_SECONDS:g} s"))
            return
        await trio.sleep(wire.REPLAY_WAIT_SECONDS)
        self._deliver(self._router.replay(client.connection))
        self._flush()

    async def _read_from_client(self, client: _Client) -> None:
        try:
            while self._handle_all(await client.reader.receive(), partial(self._hear_client, client)):
                await self._wait_until_read(client)
        except FrameError as error:
            client.dismiss(_error(Code.TOO_LARGE, str(error)))
            await trio.sleep_forever()  # the writer closes when that is said
        except trio.BrokenResourceError:
            logger.info("client %s broke off", client.connection)

    def _hear_client(self, client: _Client, body: bytes) -> None:
        if client.is_closing:
            return
        self._deliver(self._router.from_client(client.connection, body))
        if not client.introduced.is_set() and self._router.has_said_hello(client.connection):
            client.introduced.set()

    async def _wait_until_read(self, client: _Client) -> None:
        while self._router.waiting_bytes(client.connection) > wire.CLIENT_WAITING_BYTES:
            await self._room_in_browser.park()

    async def _write_to_client(self, client: _Client) -> None:
        try:
            await client.writer.run()
        except trio.BrokenResourceError:
            logger.info("client %s does not listen any more", client.connection)
        client.scope.cancel()

    # ── Both ────────────────────────────────────────────────────────────────────────────────────────────────

    def _deliver(self, deliveries: list[Delivery]) -> None:
        """Queue messages for clients; call `_flush` when all received messages are handled."""
        for delivery in deliveries:
            client = self._clients.get(delivery.connection)
            if client is None or client.is_closing:
                continue
            if delivery.is_last:
                client.dismiss(*delivery.parts)
                continue
            client.put(delivery.parts, delivery.meta)
            self._unflushed.add(client)

    def _handle_all(self, bodies: list[bytes], hear: Callable[[bytes], None]) -> bool:
        """Handle messages, keep none of them; return whether there were any."""
        for body in bodies:
            hear(body)
        self._flush()
        return bool(bodies)

    def _flush(self) -> None:
        """Write the queued messages of all clients as far as the kernel takes them."""
        self._flush_clients()
        if self._router.outbox or self._to_browser.queue:
            self._to_browser.flush()
        if self._room_in_browser:
            self._room_in_browser.unpark_all()

    def _flush_clients(self) -> None:
        for client in self._unflushed:
            client.writer.flush()
            if client.lags and not client.is_closing:
                self._drop_laggard(client)
        self._unflushed.clear()

    def _drop_laggard(self, client: _Client) -> None:
        logger.warning("client %s is dropped: it does not read what it asked for", client.connection)
        self._router.count_dropped(DropReason.SLOW_CLIENT)
        client.writer.withdraw_all()
        text = f"more than {wire.CLIENT_BACKLOG_BYTES} bytes waited to be read by this client"
        client.dismiss(_error(Code.TOO_LARGE, text))


async def _end_at(signals: AsyncIterator[int], host: trio.CancelScope) -> None:
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
            to_browser=wire.TO_BROWSER_BYTES, from_browser=wire.FROM_BROWSER_BYTES, socket=wire.SOCKET_BYTES
        ),
        command=installed_command(),
    )


def _error(code: Code, text: str) -> bytes:
    return jsonrpc.notification("host/error", wire.HostError(code=code, message=text))
