"""client.c in Python, for where there is no C compiler. client.c describes its input and output."""

from __future__ import annotations

import struct
import sys
import time

import msgspec

from benchmarks.conversation import PATIENCE_S, Conversation, Framing

FIRST_ID = 1_000_000
_LENGTH = struct.Struct("=I")
_ORDER = struct.Struct("=III")
_CALL = struct.Struct("=qqq")


class _Answer(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


def main(framing: Framing, from_fd: int, to_fd: int) -> None:
    """Obey orders until stdin ends."""
    orders = sys.stdin.buffer
    read_before = orders.read(_LENGTH.unpack(orders.read(_LENGTH.size))[0])
    conversation = Conversation(framing, from_fd, to_fd, read_before)
    acknowledgements = Conversation("http", to_fd, to_fd) if framing == "events" else None
    first = FIRST_ID
    while order := orders.read(_ORDER.size):
        count, depth, length = _ORDER.unpack(order)
        calls = _make_calls(conversation, acknowledgements, count, depth, orders.read(length), first)
        first += count
        sys.stdout.buffer.write(b"".join(_CALL.pack(*call) for call in calls))
        sys.stdout.buffer.flush()


def _make_calls(
    conversation: Conversation,
    acknowledgements: Conversation | None,
    count: int,
    depth: int,
    request: bytes,
    first: int,
) -> list[tuple[int, int, int]]:
    """For each when it was written and answered (ns), and how long the answer was."""
    written: list[int] = []
    calls: dict[int, tuple[int, int, int]] = {}
    until = time.monotonic() + PATIENCE_S
    while len(calls) < count:
        while len(written) < count and len(written) - len(calls) < depth:
            body = request.replace(b"\0", b"%d" % (first + len(written)), 1)
            written.append(time.monotonic_ns())
            conversation.say(body)
        answer = conversation.next_body(until)
        number = _answered(answer, first) if b"\0" in request else len(calls)
        if 0 <= number < len(written):
            calls[number] = (written[number], time.monotonic_ns(), len(answer))
            if acknowledgements:
                acknowledgements.next_body(until)
    return [calls[number] for number in range(count)]


def _answered(answer: bytes, first: int) -> int:
    """Which call of this order a message answers; any other number: none of them."""
    message = msgspec.json.decode(answer or b"{}", type=_Answer)
    if bytes(message.error) or b'"isError":true' in answer[-1024:]:
        raise SystemExit(f"refused: {answer[:1024]!r}")
    digits = bytes(message.id).strip(b'"')
    return int(digits) - first if digits.isdigit() else -1


if __name__ == "__main__":
    _, how, from_, to = sys.argv
    main(msgspec.convert(how, Framing), int(from_), int(to))
