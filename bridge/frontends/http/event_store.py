"""Messages on their way to a client of HTTP: kept until they are sent, and, where it can come back for what
it has not got, somewhat longer.

What a stream holds goes out in one of two forms: as server-sent events, or, when all it ever says is one
answer, as that answer alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from bridge.mcp_session import client_writer
from http_serving.server_sent_events import SendData
from native_host.protocol.framing import Part

MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""Of one stream; what comes on top finds it broken."""
KEEP_ALIVE_S = 15.0
"""Between signs of life of a stream that has nothing to say."""
_COMMENT = b": still here\n\n"
MAX_STORED_EVENTS = 64
"""Of those that were sent, the last; more are not on their way to a client that still reads."""
RETRY_MS = 500
"""After which a client that has lost its stream is to come back."""

CANCELLED = -32800
"""What a cancelled request is answered where a response that says nothing would be taken for a broken one."""


class EventStream:
    """The way to a client (`outgoing.Client`): its lines are numbered from 1, as they are written."""

    def __init__(
        self, name: str = "", on_broken: Callable[[], None] = lambda: None, raw_id: bytes = b""
    ) -> None:
        self.name = name
        """With one, events have ids, and the last that were sent are kept: a client may have lost them."""
        self._on_broken = on_broken
        self._raw_id = raw_id
        """Of the request that it answers, as JSON."""
        self._events: deque[bytes] = deque()
        self._gone = 0
        """Events that are not kept any more; they were the first ones."""
        self._sent = 0
        """Events that some response has passed on."""
        self._unsent_bytes = 0
        self._stored_bytes = 0
        self.error = 0
        """Of the answer, if it is one."""
        self.is_finished = False
        """Nothing more will be written."""
        self.is_broken = False
        self._reader = 0
        """Number of the response that takes the events; an earlier one ends when there is a later one."""
        self.is_read = False
        """A response takes the events now."""
        self._changed = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    # ── What the client is told ─────────────────────────────────────────────────────────────────────────────

    @property
    def waiting_bytes(self) -> int:
        """Of what no response has passed on."""
        return self._unsent_bytes

    @property
    def stored_bytes(self) -> int:
        """Of all that is held."""
        return self._stored_bytes

    def write(self, *parts: Part) -> None:
        """Add a message. The same twice, before anybody has taken the first, is one: news, told again."""
        line = b"".join(parts)
        if not (self._is_waiting() and self._events[-1] == line):
            self._add(line)

    def answer(self, *parts: Part, error: int = 0) -> None:
        """Add the last message."""
        self.error = error
        self._add(b"".join(parts))
        self.finish()

    def forgo(self) -> None:
        """The request is cancelled."""
        if self._raw_id and not self.is_finished:
            client_writer.refuse(self, self._raw_id, CANCELLED, "the request is cancelled")
        self.finish()

    def finish(self) -> None:
        """Nothing more will be written."""
        self.is_finished = True
        self._changed.unpark_all()

    async def wait_room(self, limit: int = 0) -> None:
        """Wait until at most `limit` bytes are not passed on.

        Raises:
            trio.BrokenResourceError: nobody will take them any more.
        """
        while self._unsent_bytes > limit and not self.is_broken:
            await self._room.park()
        if self.is_broken:
            raise trio.BrokenResourceError("the client is gone")

    def mark_broken(self) -> None:
        """The client is gone for good."""
        self.is_broken = self.is_finished = True
        self._events.clear()
        self._unsent_bytes = self._stored_bytes = 0
        self._changed.unpark_all()
        self._room.unpark_all()

    def _add(self, line: bytes) -> None:
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

    # ── What takes it ───────────────────────────────────────────────────────────────────────────────────────

    async def wait_written(self) -> None:
        """Until something is written, or the stream ends."""
        while not (self.is_finished or self._is_waiting()):
            await self._changed.park()

    def pop_only_response(self) -> bytes | None:
        """The answer, when it is all that was ever said and nobody has taken it: it is taken now."""
        if not (self.is_finished and self._is_waiting()) or self._gone + len(self._events) != 1:
            return None
        answer = self._events[0]
        self._is_passed_on(1)
        return answer

    async def wait_last(self) -> bytes:
        """The last message, once nothing more will be written; the others are passed over."""
        while not self.is_finished:
            await self._changed.park()
        if not self._events:
            return b""
        last = self._events[-1]
        self._is_passed_on(self._gone + len(self._events))
        return last

    @property
    def is_delivered(self) -> bool:
        """Everything is said and passed on, as far as can be told."""
        return self.is_finished and not self._is_waiting()

    def is_last_event(self, number: int) -> bool:
        """Whether nothing comes after this event, now or later."""
        return self.is_finished and number >= self._gone + len(self._events)

    def has_event(self, number: int) -> bool:
        """Whether there was an event of this number; 0 is the one before the first."""
        return 0 <= number <= self._gone + len(self._events)

    async def pump(
        self,
        send: SendData,
        *,
        after: int | None = None,
        opening: bytes = b"",
        keep_alive: Callable[[], bytes] = lambda: _COMMENT,
        keep_alive_s: float = KEEP_ALIVE_S,
    ) -> None:
        """Pass on events until the last one, or until another response does; what a later one needs is kept.

        Args:
            send: to the response.
            after: the last event that the client has; None means what was passed on so far. Of what came
                then, the oldest may not be kept any more; an answer, being the last, always is.
            opening: goes before the first event.
            keep_alive: makes what is sent when there was nothing to say for `keep_alive_s` seconds.
        """
        self._reader = reader = self._reader + 1
        self.is_read = True
        self._changed.unpark_all()  # an earlier one ends
        number = self._sent if after is None else after
        try:
            if opening:
                await send(opening)
            while reader == self._reader:
                if text := self._events_after(number):
                    number = self._gone + len(self._events)
                    await send(text)
                    self._is_passed_on(number)
                elif self.is_finished:
                    return
                else:
                    await self._wait_for_more(send, keep_alive, keep_alive_s)
        finally:
            self.is_read = self.is_read and reader != self._reader

    async def _wait_for_more(
        self, send: SendData, keep_alive: Callable[[], bytes], keep_alive_s: float
    ) -> None:
        with trio.move_on_after(keep_alive_s) as scope:
            await self._changed.park()
        if scope.cancelled_caught:
            await send(keep_alive())

    def _events_after(self, number: int) -> bytes:
        """As text; empty when there are none."""
        first = max(0, number - self._gone)
        return b"".join(
            self._event(self._gone + index + 1, line)
            for index, line in enumerate(self._events)
            if index >= first
        )

    def _event(self, number: int, line: bytes) -> bytes:
        if not self.name:
            return b"event: message\ndata: %b\n" % line
        return b"id: %b\nevent: message\ndata: %b\n" % (self._event_id(number), line)

    def _event_id(self, number: int) -> bytes:
        return f"{self.name}-{number}".encode()

    def priming_event(self) -> bytes:
        """An event without a message: its id lets a client come back that has got none (2025-11-25)."""
        return b"id: %b\nretry: %d\ndata: \n\n" % (self._event_id(self._sent), RETRY_MS)

    def _is_waiting(self) -> bool:
        return self._sent < self._gone + len(self._events)

    def _is_passed_on(self, number: int) -> None:
        if number > self._sent:
            new = list(self._events)[self._sent - self._gone : number - self._gone]
            self._unsent_bytes -= sum(map(len, new))
            self._sent = number
        keep = MAX_STORED_EVENTS if self.name else 0
        while self._events and self._gone + keep < self._sent:
            self._stored_bytes -= len(self._events.popleft())
            self._gone += 1
        self._room.unpark_all()


class SessionStream(EventStream):
    """For all that a client is told, not one request's: no answer is the last."""

    def answer(self, *parts: Part, error: int = 0) -> None:  # noqa: ARG002  (the client reads it)
        """Add a message that is an answer."""
        self.write(*parts)

    def forgo(self) -> None:
        """A client that cancels waits for nothing."""
