"""What a client is told: messages as lines, and where they go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from bridge.errors import ProtocolError
from bridge.mcp_session.call_results import Parts
from native_host.protocol import jsonrpc
from native_host.protocol.framing import Part

_encode = msgspec.json.encode


class Client(Protocol):
    """The way to a client: each message one line, given in parts."""

    @property
    def waiting_bytes(self) -> int:
        """Of what the client has not taken yet."""
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
        """A request is cancelled: there will be no answer to it."""
        ...


def answer(client: Client, raw_id: bytes, found: Parts | ProtocolError) -> None:
    """Send the answer to a request; `raw_id` is JSON."""
    if isinstance(found, ProtocolError):
        refuse(client, raw_id, *found)
    else:
        client.answer(b'{"jsonrpc":"2.0","id":%b,"result":' % raw_id, *found, b"}\n")


def refuse(client: Client, raw_id: bytes, code: int, message: str) -> None:
    """Answer with an error; without an id it is not known to what."""
    client.answer(failure(raw_id, code, message), error=int(code))


def failure(raw_id: bytes, code: int, message: str) -> bytes:
    """An error answer; without an id it is not known whose."""
    error = _encode({"code": int(code), "message": message})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (raw_id or jsonrpc.NULL_ID, error)


def request(raw_id: bytes, method: str, params: Mapping[str, Any]) -> bytes:
    """A request of ours."""
    return _line({"jsonrpc": "2.0", "id": msgspec.Raw(raw_id), "method": method, "params": params})


def notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """News."""
    return _line({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})


def _line(message: Mapping[str, Any]) -> bytes:
    return _encode(message) + b"\n"
