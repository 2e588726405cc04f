"""Chunking of messages above the browser's 1 MiB limit. Sans-IO.

`Outbox` decides what the one writer towards the browser writes next, and cuts what is too long. `Joiner` is
the receiving end: the extension has the same in JavaScript, the simulated browser uses this one.
"""

from __future__ import annotations

import base64
import binascii
from collections import deque

from native_host.protocol import jsonrpc, wire

_PIECE_BYTES = 128 * 1024
"""Bytes of a chunk. Less than wire.CHUNK_BYTES allows: Chromium reads 4 KiB at a time, and the extension
handles one chunk while it reads the next."""
_REMEMBERED = 64
"""Written transfers that are remembered, because the browser may still reject them."""


class Transfer:
    """Body that is sent in chunks."""

    def __init__(self, number: int, key: str, body: bytes) -> None:
        self.number = number
        self.key = key
        self.body = body
        self.deadline_s = float("inf")
        self._seq = 0

    def next_piece(self) -> tuple[bytes, bool]:
        """Return the next `host/chunk` message, and whether it is the last."""
        start = self._seq * _PIECE_BYTES
        end = start + _PIECE_BYTES
        is_last = end >= len(self.body)
        size = b',"bytes":%d' % len(self.body) if self._seq == 0 else b""
        data = base64.b64encode(memoryview(self.body)[start:end])
        piece = b'{"transfer":%d,"seq":%d,"last":%b%b,"data":"%b"}' % (
            self.number, self._seq, b"true" if is_last else b"false", size, data,
        )  # fmt: skip
        self._seq += 1
        return jsonrpc.notification("host/chunk", piece), is_last


class Outbox:
    """Everything that waits for the browser, in the order in which it is written.

    Short messages keep their order; pieces of long ones take turns with them, so that one large call does not
    hold up the others. `key` names the request that a body belongs to ("" for the host's own messages).
    """

    def __init__(self, chunk_above_bytes: int = wire.TO_BROWSER_BYTES) -> None:
        self._chunk_above_bytes = chunk_above_bytes
        self._short: deque[tuple[str, bytes]] = deque()
        self._active: deque[Transfer] = deque()
        self._waiting: deque[Transfer] = deque()
        self._transfers = 0
        self._pieces_turn = False
        self._written: deque[Transfer] = deque(maxlen=_REMEMBERED)
        self.queued_bytes = 0
        """Bytes of all queued bodies, those of incomplete transfers included."""

    def __len__(self) -> int:
        """Return the number of queued messages."""
        return len(self._short) + len(self._active) + len(self._waiting)

    @property
    def is_transferring(self) -> bool:
        """Return whether a chunked body is being sent."""
        return bool(self._active)

    def put(self, key: str, body: bytes) -> None:
        """Queue a body of at most wire.CHUNKED_BYTES; the caller rejects longer ones."""
        if len(body) <= self._chunk_above_bytes:
            self._put_short(key, body)
            return
        self.queued_bytes += len(body)
        self._transfers += 1
        self._waiting.append(Transfer(self._transfers, key, body))

    def _put_short(self, key: str, body: bytes) -> None:
        self.queued_bytes += len(body)
        self._short.append((key, body))

    def put_newest(self, key: str, body: bytes) -> None:
        """Queue a message in place of a queued message with the same key."""
        self.abort(key, "superseded")
        self.put(key, body)

    def pop_next(self, now_s: float) -> tuple[bytes, str, int]:
        """Return the message to write now, and key and length of the body that it completes (0: not yet).

        Raises:
            IndexError: nothing waits.
        """
        self._admit(now_s)
        self._pieces_turn = bool(self._active) and not (self._short and self._pieces_turn)
        if not self._pieces_turn:
            key, body = self._short.popleft()
            self.queued_bytes -= len(body)
            return body, key, len(body)
        transfer = self._active.popleft()
        piece, last = transfer.next_piece()
        if not last:
            self._active.append(transfer)
            return piece, transfer.key, 0
        size, transfer.body = len(transfer.body), b""
        self.queued_bytes -= size
        self._written.append(transfer)
        return piece, transfer.key, size

    def abort(self, key: str, reason: str) -> int | None:
        """Withdraw a queued body; return the bytes that this frees, or None if it is written.

        What is taken back never reaches the page. A transfer that has begun leaves a `host/chunkAbort`.
        """
        for transfer in (*self._waiting, *self._active):
            if transfer.key == key:
                self._take_back(transfer, reason)
                return len(transfer.body)
        for entry in self._short:
            if entry[0] == key:
                self._short.remove(entry)
                self.queued_bytes -= len(entry[1])
                return len(entry[1])
        return None

    def clear(self) -> None:
        """Withdraw every queued body."""
        self.withdraw_keyed()
        self._short.clear()
        self.queued_bytes = 0

    def withdraw_keyed(self) -> set[str]:
        """Withdraw every queued body that has a key; return the keys."""
        keyed = {transfer.key for transfer in (*self._waiting, *self._active)}
        keyed |= {key for key, _ in self._short if key}
        self._short = deque(entry for entry in self._short if not entry[0])
        self._waiting.clear()
        self._active.clear()
        self.queued_bytes = sum(len(body) for _, body in self._short)
        return keyed

    def key_of(self, number: int) -> str | None:
        """Return the key of the body of a current or recent transfer."""
        known = (*self._active, *self._written)
        return next((transfer.key for transfer in known if transfer.number == number), None)

    def find_expired(self, now_s: float) -> list[str]:
        """Return the keys of transfers past their deadline; `abort` them."""
        return [transfer.key for transfer in self._active if transfer.deadline_s <= now_s]

    def next_deadline_s(self) -> float:
        """Return the time of the next deadline; infinite without a transfer."""
        return min((transfer.deadline_s for transfer in self._active), default=float("inf"))

    def _admit(self, now_s: float) -> None:
        while self._waiting and len(self._active) < wire.CHUNK_TRANSFERS:
            transfer = self._waiting.popleft()
            transfer.deadline_s = now_s + wire.CHUNK_SECONDS
            self._active.append(transfer)

    def _take_back(self, transfer: Transfer, reason: str) -> None:
        self.queued_bytes -= len(transfer.body)
        if transfer in self._waiting:
            self._waiting.remove(transfer)
            return
        self._active.remove(transfer)
        notice = wire.ChunkAbort(transfer=transfer.number, reason=reason)
        self._put_short("", jsonrpc.notification("host/chunkAbort", notice))


class ChunkError(ValueError):
    """A transfer cannot be completed: its call fails with TOO_LARGE or TIMED_OUT."""


class _Incoming:
    def __init__(self, deadline_s: float) -> None:
        self.pieces = bytearray()
        self.next_seq = 0
        self.deadline_s = deadline_s


class Joiner:
    """Joins chunks to bodies. It allocates memory for received bytes only, not for announced ones."""

    def __init__(self) -> None:
        self._incoming: dict[int, _Incoming] = {}

    def add(self, chunk: wire.Chunk, now_s: float) -> bytes | None:
        """Add a chunk; return the whole body after its last chunk, else None.

        Raises:
            ChunkError: a gap, too much, too late, or not base64. The transfer is forgotten.
        """
        try:
            return self._add(chunk, now_s)
        except ChunkError:
            self.abort(chunk.transfer)
            raise

    def abort(self, transfer: int) -> None:
        """Drop a transfer; ignore an unknown one."""
        self._incoming.pop(transfer, None)

    def _add(self, chunk: wire.Chunk, now_s: float) -> bytes | None:
        incoming = self._incoming.get(chunk.transfer)
        if incoming is None:
            incoming = self._begin(chunk, now_s)
        if chunk.seq != incoming.next_seq:
            raise ChunkError(f"piece {chunk.seq} came where {incoming.next_seq} was due")
        if now_s > incoming.deadline_s:
            raise ChunkError(f"not complete after {wire.CHUNK_SECONDS:g} s")
        incoming.pieces += _decode_chunk(chunk.data)
        incoming.next_seq += 1
        if len(incoming.pieces) > wire.CHUNKED_BYTES:
            raise ChunkError(f"longer than {wire.CHUNKED_BYTES} bytes")
        if not chunk.last:
            return None
        self.abort(chunk.transfer)
        return bytes(incoming.pieces)

    def _begin(self, chunk: wire.Chunk, now_s: float) -> _Incoming:
        if len(self._incoming) >= wire.CHUNK_TRANSFERS:
            raise ChunkError(f"more than {wire.CHUNK_TRANSFERS} transfers at once")
        if (chunk.bytes or 0) > wire.CHUNKED_BYTES:
            raise ChunkError(f"{chunk.bytes} bytes announced, the limit is {wire.CHUNKED_BYTES}")
        return self._incoming.setdefault(chunk.transfer, _Incoming(now_s + wire.CHUNK_SECONDS))


def _decode_chunk(data: str) -> bytes:
    try:
        piece = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ChunkError(f"a piece is not base64: {error}") from None
    if len(piece) > wire.CHUNK_BYTES:
        raise ChunkError(f"a piece of {len(piece)} bytes, the limit is {wire.CHUNK_BYTES}")
    return piece
