"""Messages of calls through a WebSocket relay, encoded before they are timed: a burst of calls at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from benchmarks.loads import MB, RESULT_1MB
from benchmarks.websocket_peer import (
    Bytes,
    RelayEnd,
    frame,
    frame_head,
    mask,
    masked_frame,
    masked_head,
    transfer,
)

_LARGE_BYTES = 64 * 1024
_ids = itertools.count(1_000_000)
"""No id is used twice: a node would give the second one another suffix."""


@dataclass(frozen=True)
class RelayLoad:
    """A call: the params of its request, and its result."""

    name: str
    params: bytes
    result: bytes

    @property
    def is_large(self) -> bool:
        """Return whether its time is that of its bytes."""
        return len(self.result) > _LARGE_BYTES


_MOUSE = {
    "method": "Input.dispatchMouseEvent",
    "params": {"type": "mousePressed", "x": 412, "y": 305, "button": "left", "clickCount": 1},
}


def _image(size: int) -> bytes:
    return msgspec.json.encode(
        {"content": [{"type": "image", "mimeType": "image/png", "data": "iVBO" * (size // 4)}]}
    )


SMALL_COMMAND = RelayLoad(
    "small call", msgspec.json.encode(_MOUSE), b'{"root":{"nodeId":1,"nodeName":"#document"}}'
)
TEXT_1MB = RelayLoad("1 MB text", msgspec.json.encode(_MOUSE), RESULT_1MB.result)
IMAGE_16MB = RelayLoad("16 MB image", msgspec.json.encode(_MOUSE), _image(16 * MB))


class Burst(NamedTuple):
    """Calls that are on the way at once, as bytes: what each end sends, and what the other receives."""

    requests: Sequence[Bytes]
    forwarded: Sequence[Bytes]
    responses: Sequence[Bytes]
    returned: Sequence[Bytes]

    def run(self, client: RelayEnd, extension: RelayEnd, buffer: bytearray) -> None:
        """Make the calls. Raises EndError: the relay has made something else of them."""
        transfer(client, self.requests, extension, self.forwarded, buffer)
        transfer(extension, self.responses, client, self.returned, buffer)


class BurstMaker:
    """Makes bursts of a load. A large result is encoded once, and shared by all of them."""

    def __init__(self, load: RelayLoad, prefix: str | None) -> None:
        """Make bursts for a relay whose extension sees ids with this prefix; None: it copies bytes."""
        self._load = load
        self._prefix = prefix
        self._masked_result = mask(load.result)

    def make(self, depth: int) -> Burst:
        """Return the next calls."""
        ids = [next(_ids) for _ in range(depth)]
        requests = b"".join(masked_frame(_request(str(number), self._load.params)) for number in ids)
        responses = [part for number in ids for part in self._response(self._shared(number))]
        if self._prefix is None:
            return Burst([requests], [requests], *[_merge(responses)] * 2)
        forwarded = b"".join(frame(_request(self._shared(number), self._load.params)) for number in ids)
        returned = [part for number in ids for part in self._returned(str(number))]
        return Burst([requests], [forwarded], _merge(responses), _merge(returned))

    def _shared(self, number: int) -> str:
        return str(number) if self._prefix is None else f'"{self._prefix}{number}"'

    def _response(self, raw_id: str) -> tuple[bytes, bytes, bytes]:
        """Return the masked frame of a response in parts."""
        head = b'{"jsonrpc":"2.0","id":%b,"result":' % raw_id.encode()
        head += b" " * (-len(head) % 4)  # the mask of the shared result begins with its first byte
        tail = mask(bytes(len(self._load.result) % 4) + b"}")[-1:]
        return masked_head(len(head) + len(self._load.result) + 1) + mask(head), self._masked_result, tail

    def _returned(self, raw_id: str) -> tuple[bytes, bytes, bytes]:
        head = b'{"jsonrpc":"2.0","id":%b,"result":' % raw_id.encode()
        return frame_head(len(head) + len(self._load.result) + 1) + head, self._load.result, b"}"


def _request(raw_id: str, params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"forwardCDPCommand","params":%b}' % (raw_id.encode(), params)


def _merge(parts: Sequence[bytes]) -> list[bytes]:
    """Join neighboring short parts; long ones stay shared."""
    merged: list[bytes] = []
    short: list[bytes] = []
    for part in parts:
        if len(part) < _LARGE_BYTES:
            short.append(part)
            continue
        merged += [b"".join(short), part]
        short = []
    return [*merged, b"".join(short)]
