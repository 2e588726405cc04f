"""One extension of another product, its own host and our clients: who hears what. Sans-IO.

The *child* is that product's host as it was registered; *ours* is a `Channel` that speaks to the extension as
a host does. Neither knows of the other. Answers go by their `tool_use_id`. An extension that has not shown
that it names calls hears one party at a time, so that an answer without a name has one possible asker.
"""

from __future__ import annotations

import enum
import logging
import math
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from native_host.channel_wire import FRAME_BYTES, UNREADABLE, mended

logger = logging.getLogger(__name__)

LOST_SECONDS = 60.0
"""Without a name, no answer is expected any longer: so long that product's own clients wait."""
OUR_WAIT_SECONDS = 5.0
"""For the child's calls to be answered. Below a bridge's patience: what it gave up must not run later."""
CHILD_WAITING_BYTES = 16 * 1024 * 1024
"""Of the child's calls that wait for an answer to ours."""
_OUR_OPEN_CALLS = 4096
"""Whose answers are known for ours; so many at once can only be calls that never had one."""

_UNANSWERED = (
    "nothing has run. An earlier call was never answered, and this version of the other product's extension "
    "does not say which call it answers: reload that extension"
)
_BUSY = (
    "nothing has run: the other product's own client is waiting for an answer, and this version of its "
    "extension does not say which call it answers. Try again when that call has ended"
)
_NOT_TOLD = (
    "it may have run. It had no answer for too long, the other product's own client has called since, and "
    "this version of its extension does not say which call it answers"
)
_FULL = "nothing has run: more than {limit} bytes of calls wait for an earlier one to be answered"
_TOO_LONG = "the answer has {size} bytes, and this program's native host takes at most {limit}"


class Party(enum.Enum):
    """Whom a message is for."""

    EXTENSION = "extension"
    CHILD = "child"
    OURS = "ours"


class Passed(NamedTuple):
    """A message, and who is to have it."""

    to: Party
    body: bytes


class _Message(msgspec.Struct):
    """What is read of a message. Its members may be anything: all of it is others' text."""

    type: Any = None
    tool_use_id: Any = None
    method: Any = None
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Params(msgspec.Struct):
    tool_use_id: Any = None


_message = msgspec.json.Decoder(_Message)
_params = msgspec.json.Decoder(_Params)
_encode = msgspec.json.encode


@dataclass
class _Call:
    asker: Party
    use_id: Any
    body: bytes
    until_s: float
    """Waiting: when it is refused. Sent: when no answer is expected any longer."""


class Splitter:
    """One connection of the extension. Times are those of one clock, in seconds."""

    def __init__(self) -> None:
        self._names_calls = False
        """The extension has answered a call by its name."""
        self._asks = False
        """It has asked for a permission: then it takes the answer, and says nothing to it."""
        self._our_calls: dict[str, None] = {}
        """Names of ours without an answer, the oldest first."""
        self._open: deque[_Call] = deque()
        """Without names: sent and not answered, all by the same party."""
        self._waiting: deque[_Call] = deque()
        self._lost: deque[Party] = deque()
        """Whose calls were never answered. They may be yet."""
        self._clients: Counter[Party] = Counter()

    # ── From the extension ──────────────────────────────────────────────────────────────────────────────────

    def from_extension(self, body: bytes, now_s: float) -> list[Passed]:
        """The extension has said `body`. What is no answer to ours is the child's, readable or not."""
        message = _read(body) or _Message()
        if message.type == "tool_response":
            return self._answer(message, body, now_s)
        self._asks = self._asks or (message.type, message.method) == ("notification", "permission_request")
        if message.type == "notification" and _is_one_of(_named_in(message), self._our_calls):
            return [Passed(Party.OURS, body)]
        return _to_child(body, message)

    def _answer(self, message: _Message, body: bytes, now_s: float) -> list[Passed]:
        asker = self._asker(message.tool_use_id)
        passed = [Passed(Party.OURS, body)] if asker is Party.OURS else _to_child(body, message)
        return passed + self._send_waiting(now_s)

    def _asker(self, use_id: Any) -> Party:
        if use_id is not None:
            self._names_calls = True
            self._open.clear()
            return Party.OURS if self._is_our_call(use_id) else Party.CHILD
        if self._names_calls:
            return Party.CHILD  # to a call without a name: ours have one
        if self._open:
            call = self._open.popleft()
            if call.asker is Party.OURS:
                self._is_our_call(call.use_id)
            return call.asker
        return self._lost.popleft() if self._lost else Party.CHILD

    def _is_our_call(self, use_id: Any) -> bool:
        """Whether it was, until now."""
        is_ours = _is_one_of(use_id, self._our_calls)
        if is_ours:
            del self._our_calls[use_id]
        return is_ours

    # ── From the two hosts ──────────────────────────────────────────────────────────────────────────────────

    def from_child(self, body: bytes, now_s: float) -> list[Passed]:
        """The child has said `body` to the extension."""
        return self._from_host(Party.CHILD, body, now_s)

    def from_ours(self, body: bytes, now_s: float) -> list[Passed]:
        """We have said `body` to the extension."""
        return self._from_host(Party.OURS, body, now_s)

    def _from_host(self, asker: Party, body: bytes, now_s: float) -> list[Passed]:
        message = _read(body) or _Message()
        match message.type:
            case "mcp_connected":
                return self._count_clients(asker, 1, body)
            case "mcp_disconnected":
                return self._count_clients(asker, -1, body)
            case "tool_request" if not (self._asks and message.method == "permission_response"):
                return self._call(_Call(asker, _named_in(message), body, math.inf), now_s)
        return [Passed(Party.EXTENSION, body)]

    def _count_clients(self, asker: Party, more: int, body: bytes) -> list[Passed]:
        """The extension hears of the first that comes and of the last that goes, whosever they are."""
        had = self._clients.total()
        self._clients[asker] = max(0, self._clients[asker] + more)
        return [Passed(Party.EXTENSION, body)] if bool(had) != bool(self._clients.total()) else []

    def _call(self, call: _Call, now_s: float) -> list[Passed]:
        if self._names_calls or (not self._waiting and self._may_go(call)):
            return self._send(call, now_s)
        if call.asker is Party.OURS:
            if self._lost:
                return [_refused(call, _UNANSWERED)]
            call.until_s = now_s + OUR_WAIT_SECONDS
        elif self._waiting_bytes(Party.CHILD) + len(call.body) > CHILD_WAITING_BYTES:
            return [_refused(call, _FULL.format(limit=CHILD_WAITING_BYTES))]
        self._waiting.append(call)
        return []

    def _may_go(self, call: _Call) -> bool:
        """Where an answer was lost the child goes on, no worse off than alone; ours could get that answer."""
        if self._lost and call.asker is Party.OURS:
            return False
        return not self._open or self._open[0].asker is call.asker

    def _waiting_bytes(self, asker: Party) -> int:
        return sum(len(call.body) for call in self._waiting if call.asker is asker)

    def _send(self, call: _Call, now_s: float) -> list[Passed]:
        given_up = self._give_up_ours() if call.asker is Party.CHILD else []
        if call.asker is Party.OURS:
            self._our_calls[call.use_id] = None
            while len(self._our_calls) > _OUR_OPEN_CALLS:
                del self._our_calls[next(iter(self._our_calls))]
        if not self._names_calls:
            call.until_s = now_s + LOST_SECONDS
            self._open.append(call)
        return [*given_up, Passed(Party.EXTENSION, call.body)]

    def _give_up_ours(self) -> list[Passed]:
        """Of the lost: once the child has called, an answer could be to either."""
        ours = self._lost.count(Party.OURS)
        self._lost = deque([Party.CHILD] * len(self._lost))
        return [Passed(Party.OURS, _error(_NOT_TOLD, None))] * ours

    def _send_waiting(self, now_s: float) -> list[Passed]:
        passed: list[Passed] = []
        while self._waiting and (self._names_calls or self._may_go(self._waiting[0])):
            passed += self._send(self._waiting.popleft(), now_s)
        return passed

    # ── Time ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def next_deadline_s(self) -> float:
        """When `expire` has something to do; infinite: never."""
        waiting_s = next((call.until_s for call in self._waiting if call.asker is Party.OURS), math.inf)
        return min(self._open[0].until_s, waiting_s) if self._open else waiting_s

    def expire(self, now_s: float) -> list[Passed]:
        """Expect no answer any longer to calls without a name, and refuse ours that wait too long."""
        while self._open and self._open[0].until_s <= now_s:
            self._lost.append(self._open.popleft().asker)
        passed = []
        for call in [call for call in self._waiting if call.asker is Party.OURS]:
            if self._lost or call.until_s <= now_s:
                self._waiting.remove(call)
                passed.append(_refused(call, _UNANSWERED if self._lost else _BUSY))
        return passed + self._send_waiting(now_s)


def _read(body: bytes) -> _Message | None:
    with suppress(*UNREADABLE):
        return _message.decode(body)
    with suppress(*UNREADABLE):
        return _message.decode(mended(body))
    return None


def _named_in(message: _Message) -> Any:
    """The call that a request is, or that a notification is about; None where it does not say."""
    try:
        return _params.decode(bytes(message.params)).tool_use_id
    except UNREADABLE:
        return None


def _is_one_of(use_id: Any, calls: dict[str, None]) -> bool:
    return isinstance(use_id, str) and use_id in calls


def _to_child(body: bytes, message: _Message) -> list[Passed]:
    """A frame that is too long would end it for good: it closes its socket, and stays."""
    if len(body) <= FRAME_BYTES:
        return [Passed(Party.CHILD, body)]
    logger.warning("%d bytes of the extension are too long for its own host", len(body))
    if message.type != "tool_response":
        return []
    text = _TOO_LONG.format(size=len(body), limit=FRAME_BYTES)
    return [Passed(Party.CHILD, _error(text, message.tool_use_id))]


def _refused(call: _Call, text: str) -> Passed:
    """Towards ours without its name, as all answers have been so far: it judges the extension by them."""
    return Passed(call.asker, _error(text, call.use_id if call.asker is Party.CHILD else None))


def _error(text: str, use_id: Any) -> bytes:
    name = {} if use_id is None else {"tool_use_id": use_id}
    return _encode({"type": "tool_response", **name, "error": {"content": text}})
