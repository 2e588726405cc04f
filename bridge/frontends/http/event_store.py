"""Event store: numbered messages of a stream that an HTTP client can resume.

A stream with one response only can be sent as that response; every other one is sent as server-sent events.
It does not write to the network: a response pumps it. Rules: MCP 2025-11-25, "Resumability and Redelivery".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from http_serving.server_sent_events import SendData
from native_host.protocol.framing import Part

MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""Limit of one stream's unsent bytes. A message over it breaks the stream."""
KEEP_ALIVE_S = 15.0
"""Seconds between comments that keep a silent response open."""
_COMMENT = b": still here\n\n"
MAX_STORED_EVENTS = 64
"""Limit of sent events that are stored, as many as can be on their way to a client that reads."""
RETRY_MS = 500
"""Milliseconds after which a client that lost its stream should resume it."""


class EventStream:
    """A `client_writer.Client` that numbers its messages from 1."""

    def __init__(self, name: str = "", on_broken: Callable[[], None] = lambda: None) -> None:
        self.name = name
        """With a name, events have ids, and the last sent ones are stored: a client may have lost them."""
        self._on_broken = on_broken
        self._events: deque[bytes] = deque()
        self._dropped = 0
        """Number of the oldest events, which are not stored any more."""
        self._sent = 0
        self._unsent_bytes = 0
        self._stored_bytes = 0
        self.error = 0
        """Error code of the response; 0 without an error."""
        self.is_finished = False
        self.is_broken = False
        self._reader = 0
        """Number of the HTTP response that sends the events. A later one ends an earlier one."""
        self.is_read = False
        self._changed = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    # ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def waiting_bytes(self) -> int:
        """Bytes that no response has sent."""
        return self._unsent_bytes

    @property
    def stored_bytes(self) -> int:
        """Bytes of all events in memory."""
        return self._stored_bytes

    def write(self, *parts: Part) -> None:
        """Add a message. A repetition of the last unsent message is dropped: it is the same notification."""
        line = b"".join(parts)
        if not (self._has_unsent() and self._events[-1] == line):
            self._add_event(line)

    def answer(self, *parts: Part, error: int = 0) -> None:
        """Add the response, which is the last message."""
        self.error = error
        self._add_event(b"".join(parts))
        self.finish()

    def forgo(self) -> None:
        """Finish the stream of a cancelled request: its client treats a response as an error."""
        self.finish()

    def finish(self) -> None:
        """Accept no further message."""
        self.is_finished = True
        self._changed.unpark_all()

    async def wait_room(self, limit: int = 0) -> None:
        """Wait until at most `limit` bytes are unsent.

        Raises:
            trio.BrokenResourceError: the client is gone for good.
        """
        while self._unsent_bytes > limit and not self.is_broken:
            await self._room.park()
        if self.is_broken:
            raise trio.BrokenResourceError("the client is gone")

    def mark_broken(self) -> None:
        """Drop all events and finish, because the client is gone for good."""
        self.is_broken = self.is_finished = True
        self._events.clear()
        self._unsent_bytes = self._stored_bytes = 0
        self._changed.unpark_all()
        self._room.unpark_all()

    def _add_event(self, line: bytes) -> None:
        if self.is_finished:
            return
        if self._unsent_bytes + len(line) > MAX_UNSENT_BYTES and self._unsent_bytes:
            self.mark_broken()
            self._on_broken()
            return
        self._events.append(line)
        self._unsent_bytes += len(line)
        self._stored_bytes += len(line)
        self._changed.unpark_all()

    # ── Sending ─────────────────────────────────────────────────────────────────────────────────────────────

    async def wait_written(self) -> None:
        """Wait until there is an unsent message, or the stream is finished."""
        while not (self.is_finished or self._has_unsent()):
            await self._changed.park()

    def pop_only_response(self) -> bytes | None:
        """Return the response and mark it as sent, if it is the only message and unsent."""
        if not (self.is_finished and self._has_unsent()) or self._written_count != 1:
            return None
        response = self._events[0]
        self._mark_sent(1)
        return response

    async def wait_last(self) -> bytes:
        """Wait until the stream is finished; return its last message and skip the others.

        Empty if the request was cancelled.
        """
        while not self.is_finished:
            await self._changed.park()
        if not self._events:
            return b""
        last = self._events[-1]
        self._mark_sent(self._written_count)
        return last

    @property
    def is_delivered(self) -> bool:
        """True if the stream is finished and everything was sent. The client may not have received it."""
        return self.is_finished and not self._has_unsent()

    def is_last_event(self, number: int) -> bool:
        """Return whether no event follows this one, now or later."""
        return self.is_finished and number >= self._written_count

    def has_event(self, number: int) -> bool:
        """Return whether an event of this number was written; 0 is the position before the first."""
        return 0 <= number <= self._written_count

    async def pump(
        self,
        send: SendData,
        *,
        after: int | None = None,
        opening: bytes = b"",
        keep_alive: Callable[[], bytes] = lambda: _COMMENT,
        keep_alive_s: float = KEEP_ALIVE_S,
    ) -> None:
        """Send events until the last one, or until a later HTTP response sends them.

        Args:
            send: sends a part of the response.
            after: number of the last event that the client has; None: the last one that was sent. The oldest
                events after it may not be stored any more; the last one always is.
            opening: text before the first event.
            keep_alive: returns the text to send after `keep_alive_s` seconds without an event.
        """
        self._reader = reader = self._reader + 1
        self.is_read = True
        self._changed.unpark_all()  # an earlier response ends
        number = self._sent if after is None else after
        try:
            if opening:
                await send(opening)
            while reader == self._reader:
                if text := self._format_events(number):
                    number = self._written_count
                    await send(text)
                    self._mark_sent(number)
                elif self.is_finished:
                    return
                else:
                    await self._wait_changed(send, keep_alive, keep_alive_s)
        finally:
            self.is_read = self.is_read and reader != self._reader

    async def _wait_changed(
        self, send: SendData, keep_alive: Callable[[], bytes], keep_alive_s: float
    ) -> None:
        with trio.move_on_after(keep_alive_s) as scope:
            await self._changed.park()
        if scope.cancelled_caught:
            await send(keep_alive())

    def _format_events(self, after: int) -> bytes:
        """Return the events after a number as text; empty if there are none."""
        first = max(0, after - self._dropped)
        return b"".join(
            self._format_event(self._dropped + index + 1, line)
            for index, line in enumerate(self._events)
            if index >= first
        )

    def _format_event(self, number: int, line: bytes) -> bytes:
        if not self.name:
            return b"event: message\ndata: %b\n" % line
        return b"id: %b\nevent: message\ndata: %b\n" % (self._format_id(number), line)

    def _format_id(self, number: int) -> bytes:
        return f"{self.name}-{number}".encode()

    def priming_event(self) -> bytes:
        """Return an event without a message, whose id the client needs to resume the stream (2025-11-25)."""
        return b"id: %b\nretry: %d\ndata: \n\n" % (self._format_id(self._sent), RETRY_MS)

    @property
    def _written_count(self) -> int:
        return self._dropped + len(self._events)

    def _has_unsent(self) -> bool:
        return self._sent < self._written_count

    def _mark_sent(self, number: int) -> None:
        if number > self._sent:
            new = list(self._events)[self._sent - self._dropped : number - self._dropped]
            self._unsent_bytes -= sum(map(len, new))
            self._sent = number
        keep = MAX_STORED_EVENTS if self.name else 0
        while self._events and self._dropped + keep < self._sent:
            self._stored_bytes -= len(self._events.popleft())
            self._dropped += 1
        self._room.unpark_all()


class SessionStream(EventStream):
    """Stream of a whole session: it continues after a response."""

    def answer(self, *parts: Part, error: int = 0) -> None:  # noqa: ARG002  (the client reads it)
        """Add a response."""
        self.write(*parts)

    def forgo(self) -> None:
        """Write nothing: a client that cancels expects no response."""
