"""answerer.c in Python, for where there is no C compiler. answerer.c describes its input and output.

It speaks on no WebSocket.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.conversation import Conversation, EndError, Framing
from benchmarks.copier import write_all
from native_host.protocol import wire
from native_host.protocol.chunking import Joiner

EDGE_BYTES = 1024
_CHUNK = b'"host/chunk"'


class _Chunk(msgspec.Struct):
    params: wire.Chunk


def main(framing: Framing, from_fd: int, to_fd: int, rules: Path, member: str = '"id":') -> None:
    """Answer until the other side goes."""
    conversation = Conversation(framing, from_fd, to_fd)
    opening, *texts = _strings(rules.read_bytes())
    answers = list(zip(texts[::2], texts[1::2], strict=True))
    id_of = re.compile(re.escape(member.encode()) + rb' *("[^"]*"|[^,}]*)')
    joiner = Joiner()
    write_all(to_fd, opening)
    while True:
        body: bytes | None = conversation.next_body()
        if body and _CHUNK in body[:EDGE_BYTES]:
            body = joiner.add(msgspec.json.decode(body, type=_Chunk).params, 0.0)
        answer = body and _prepared(body, answers)
        if body and answer:
            found = id_of.search(body)
            conversation.say(answer.replace(b"\0", found[1], 1) if found else answer)


def _prepared(body: bytes, answers: list[tuple[bytes, bytes]]) -> bytes | None:
    return next((answer for text, answer in answers if text in body[:EDGE_BYTES]), None)


def _strings(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("=I", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


if __name__ == "__main__":
    _, how, from_, to, path, *ids = sys.argv
    if how not in ("lines", "frames"):
        sys.exit(f"no C compiler, and this program does not speak {how}")
    try:
        main("frames" if how == "frames" else "lines", int(from_), int(to), Path(path), *ids)
    except EndError:
        sys.exit(0)  # the other side has gone
