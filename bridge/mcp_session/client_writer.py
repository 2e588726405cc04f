"""Writer of one client: JSON-RPC messages as lines, and their destination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from bridge.errors import ProtocolError
from bridge.mcp_session.call_results import Parts
from native_host.protocol import jsonrpc
from native_host.protocol.framing import Part

UNREAD_BYTES = 64 * 1024
"""Unread bytes from which notifications of changes wait until the client reads."""
_encode = msgspec.json.encode


class Client(Protocol):
    """The way to a client: each message one line, given in parts."""

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes that the client has not read yet."""
        ...

    async def wait_room(self, limit: int = 0) -> None:
        """Wait until the client has left at most `limit` bytes unread.

        Raises:
            trio.BrokenResourceError: it is gone.
        """
        ...

    def write(self, *parts: Part) -> object:
        """Send a line. Never waits, never raises: that the client is gone is noticed elsewhere."""
        ...

    def answer(self, *parts: Part, error: int = 0) -> object:
        """Send the answer to a request; the code of the error, if it is one."""
        ...

    def forgo(self) -> None:
        """Note that a cancelled request gets no response."""
        ...


def make_answer(client: Client, raw_id: bytes, found: Parts | ProtocolError) -> None:
    """Send the answer to a request; `raw_id` is JSON."""
    if isinstance(found, ProtocolError):
        make_rejection(client, raw_id, *found)
    else:
        client.answer(b'{"jsonrpc":"2.0","id":%b,"result":' % raw_id, *found, b"}\n")


def make_rejection(
    client: Client, raw_id: bytes, code: int, message: str, data: Mapping[str, Any] | None = None
) -> None:
    """Answer with an error; without an id it is not known to what."""
    client.answer(make_failure(raw_id, code, message, data), error=int(code))


def make_failure(raw_id: bytes, code: int, message: str, data: Mapping[str, Any] | None = None) -> bytes:
    """Return an error response; without an id the failed request is unknown."""
    error = _encode({"code": int(code), "message": message, **({"data": data} if data else {})})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (raw_id or jsonrpc.NULL_ID, error)


def make_request(raw_id: bytes, method: str, params: Mapping[str, Any] | msgspec.Raw) -> bytes:
    """Return a server request."""
    return _encode_line({"jsonrpc": "2.0", "id": msgspec.Raw(raw_id), "method": method, "params": params})


def make_notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """News."""
    return _encode_line({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})


def _encode_line(message: Mapping[str, Any]) -> bytes:
    return _encode(message) + b"\n"
