"""WebSocket stream: one end of a connection after its handshake, of a server or a client.

`websocket_server.py` and `websocket_client.py` open it, `websocket_protocol.py` decodes and encodes frames.
It sends no ping by itself.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress

import trio

from http_serving.tls import TlsChannel
from http_serving.tls_writer import open_writer
from http_serving.websocket_protocol import NO_CLOSE_FRAME, CloseFrame, WebSocketProtocol
from native_host.ipc.send_queue import Outgoing, SendQueue
from native_host.protocol.framing import Part

NORMAL_CLOSURE = 1000
CLOSE_S = 5.0
"""Seconds that `finish` takes at most."""
LINGER_S = 1.0
"""Seconds that the other end has to read the last bytes. Closed at once, it may lose them."""
_READ_BYTES = 64 * 1024
"""Small messages that are handled before other tasks run."""
_LARGE_READ_BYTES = 256 * 1024
"""Bytes per read during a long message."""
_UNSENT_TLS_BYTES = 64 * 1024
"""Limit of what TLS itself has to send to an end that reads nothing."""
_LOST = CloseFrame(NO_CLOSE_FRAME, "")


class WebSocketStream:
    """Text messages in both directions. It sends while `run` runs, and what the kernel takes at once."""

    def __init__(
        self,
        stream: trio.SocketStream,
        protocol: WebSocketProtocol,
        tls: TlsChannel | None = None,
        head: bytes = b"",
        refill: Callable[[], None] = lambda: None,
    ) -> None:
        """Continue a connection after its handshake.

        Args:
            stream: the connection.
            protocol: its decoder and encoder.
            tls: its channel, if there is one.
            head: bytes to be sent first.
            refill: is called whenever all is written, and may `put` more.
        """
        self._stream = stream
        self._socket = stream.socket
        self._fd = stream.socket.fileno()
        self._tls = tls
        self._protocol = protocol
        self._writer = open_writer(self._fd, tls, refill)
        if head:
            self._writer.write(head)
        self._pong: Outgoing | None = None
        """Last response to a ping. A newer one replaces it if it has not been written."""
        self._is_receiving = False
        self._is_close_sent = False
        self._ended: trio.Event | None = None
        self._closed: trio.Event | None = None
        """Set when `finish`, which makes it, has closed the stream."""
        self._has_ended = False
        self.close_code = 0
        """Code of the first close frame, sent or received; 1006 if there was none. 0 before the end."""
        self.close_reason = ""
        self.is_closed_here = False
        """True if this end sent the first close frame: by `finish`, or because the other end broke a rule."""
        self.last_pong_at = trio.current_time()
        """Time of the last pong, or of the opening, on trio's clock. Pongs are seen by `receive` alone."""

    # ── Receiving ───────────────────────────────────────────────────────────────────────────────────────────

    async def receive(self) -> list[bytes]:
        """Return all text messages that have arrived, at least one; none at the end (see `close_code`).

        Messages are UTF-8. Their JSON is unchecked, and an empty one is possible. After `finish` has begun,
        messages are dropped. A variable that holds the list while the caller waits for the next one keeps its
        memory.
        """
        if self._is_receiving and not self._has_ended:  # by `finish`
            await self._wait_ended()
            return []
        self._is_receiving = True
        protocol = self._protocol
        try:
            while not self._has_ended:
                if not protocol.is_empty:
                    messages = protocol.next_messages()
                    if protocol.has_event:
                        self._handle_pings()
                    if messages:
                        return messages
                if protocol.has_ended:
                    self._end_in_order()  # only now: the caller may have responded to earlier messages
                elif protocol.has_more:
                    await trio.lowlevel.checkpoint()
                else:
                    await self._read()
        finally:
            self._is_receiving = False
        await trio.lowlevel.checkpoint()
        return []

    @property
    def max_message_bytes(self) -> int:
        """Limit of received messages; setting it affects those whose first bytes have not been decoded."""
        return self._protocol.max_message_bytes

    @max_message_bytes.setter
    def max_message_bytes(self, limit: int) -> None:
        self._protocol.max_message_bytes = limit

    @property
    def partial_bytes(self) -> int:
        """Bytes of a message that has not come completely."""
        return self._protocol.partial_bytes

    async def _read(self) -> None:
        """Read once, as soon as bytes have come."""
        size = min(max(self._protocol.missing, _READ_BYTES), _LARGE_READ_BYTES)
        data = b""
        if not (self._tls and self._tls.has_ended):
            try:
                await trio.lowlevel.wait_readable(self._fd)
                data = os.read(self._fd, size)
            except BlockingIOError:
                return
            except (OSError, trio.ClosedResourceError):
                pass  # it has gone without an end
        if not data:
            self._lose()
        elif self._tls:
            self._protocol.feed(self._decrypt(self._tls, data))
        else:
            self._protocol.feed(data)

    def _decrypt(self, tls: TlsChannel, data: bytes) -> bytes:
        text = tls.decrypt(data)
        if tls.outgoing_bytes:
            self._writer.flush()
            if tls.outgoing_bytes > _UNSENT_TLS_BYTES:
                self._lose()
        return text

    def _handle_pings(self) -> None:
        protocol = self._protocol
        protocol.has_event = False
        if protocol.has_pong:
            protocol.has_pong = False
            self.last_pong_at = trio.current_time()
        pings, protocol.pings = protocol.pings, []
        if pings and not (protocol.has_ended or self._is_close_sent):
            self._send_pongs(pings)

    def _end_in_order(self) -> None:
        if frame := self._protocol.violation:
            self._send_close(frame, is_first=not self.close_code)
        elif frame := self._protocol.received_close:
            self._send_close(frame, is_first=False)
        self._end(frame or _LOST)

    def _lose(self) -> None:
        self._shut_down()  # `run` ends, and with it each `wait_room`
        self._end(_LOST)

    def _shut_down(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _end(self, frame: CloseFrame) -> None:
        if not self.close_code:
            self.close_code, self.close_reason = frame
        self._has_ended = True
        self._protocol.discard()  # who has received the end may live on, with a reference to this
        if self._ended is not None:
            self._ended.set()

    async def _wait_ended(self) -> None:
        if self._ended is None:
            self._ended = trio.Event()
        await self._ended.wait()

    # ── Sending ─────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Send what is queued whenever the kernel takes data, until `finish` or the end of the connection."""
        try:
            await self._writer.run()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._shut_down()  # `receive` returns what has come, then the end

    def put(self, *parts: Part) -> Outgoing:
        """Queue a text message, in parts of UTF-8, for the next `flush`. After the end it is dropped."""
        if not self.accepts_messages:
            return Outgoing(parts)
        return self._writer.put(*self._protocol.encode_message(parts))

    @property
    def queue(self) -> SendQueue:
        """Queued messages, for those who coalesce them. It accepts what `encode` returns, until the end."""
        return self._writer.queue

    def encode(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return a text message as it is written."""
        return self._protocol.encode_message(parts)

    @property
    def accepts_messages(self) -> bool:
        """Return whether messages can still be sent."""
        return not (self._is_close_sent or self._has_ended)

    def flush(self) -> None:
        """Send queued messages as far as the kernel takes them."""
        self._writer.flush()

    def withdraw(self, outgoing: Outgoing) -> bool:
        """Withdraw a message; return whether the other end receives no byte of it."""
        return self._writer.withdraw(outgoing)

    def withdraw_all(self) -> None:
        """Withdraw all messages of which no byte has been written."""
        self._writer.withdraw_all()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self._writer.waiting_bytes

    @property
    def held_bytes(self) -> int:
        """Memory of all that the kernel has not taken yet: many short messages need more than their bytes."""
        return self._writer.held_bytes

    async def wait_room(self, limit: int = 0) -> None:
        """Wait until at most `limit` bytes of memory are held for what has to be sent.

        Raises:
            trio.BrokenResourceError: the connection has ended; `receive` says how.
        """
        await self._writer.wait_room(limit, counts_memory=True)
        if self._has_ended:
            raise trio.BrokenResourceError("the connection has ended")

    def ping(self) -> None:
        """Send a ping, unless the other end closes: `last_pong_at` changes when its response comes."""
        if self.accepts_messages and not self._protocol.has_ended:
            self._writer.write(self._protocol.encode_ping(b""))

    def _send_pongs(self, pings: list[bytes]) -> None:
        if self._pong and self._writer.waiting_bytes:
            # An end that reads nothing gets one response (RFC 6455, 5.5.3), so that the queue does not grow.
            self._writer.withdraw(self._pong)
            pings = pings[-1:]
        for content in pings:
            self._pong = self._writer.put(self._protocol.encode_pong(content))
        self._writer.flush()

    # ── The end ─────────────────────────────────────────────────────────────────────────────────────────────

    async def finish(self, code: int = NORMAL_CLOSURE, reason: str = "", timeout_s: float = CLOSE_S) -> None:
        """Close: after all queued messages, and with the close frame of the other end, or after a timeout.

        A connection that has ended already is closed without this code and reason. A second call waits for
        the first one.
        """
        if self._closed is not None:
            await self._closed.wait()
            return
        self._closed = trio.Event()
        try:
            with trio.move_on_after(timeout_s), suppress(trio.BrokenResourceError):
                if not self._has_ended:
                    self._send_close(CloseFrame(code, reason), is_first=True)
                while await self.receive():
                    pass
                await self._writer.wait_room()
                await self._close_in_order()
        finally:
            self._end(_LOST)
            self._writer.finish()
            try:
                await trio.aclose_forcefully(self._stream)
            finally:  # a cancelled call raises Cancelled here
                self._closed.set()

    def _send_close(self, frame: CloseFrame, *, is_first: bool) -> None:
        if self._is_close_sent:
            return
        self._is_close_sent = True
        if is_first:
            self.is_closed_here = True
            self.close_code, self.close_reason = frame
        self._writer.write(self._protocol.encode_close(frame))

    async def _close_in_order(self) -> None:
        """Close TLS and the stream after the last bytes, so that the other end can read all of them."""
        if self._tls:
            self._tls.close()
            self._writer.flush()
            await self._writer.wait_room()
        with suppress(OSError, trio.ClosedResourceError), trio.move_on_after(LINGER_S):
            self._socket.shutdown(socket.SHUT_WR)
            while True:
                await trio.lowlevel.wait_readable(self._fd)
                if not os.read(self._fd, _READ_BYTES):
                    return
