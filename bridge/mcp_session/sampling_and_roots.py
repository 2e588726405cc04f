"""Sampling and roots requests to the MCP client. Params and results pass unchanged."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from native_host.protocol.wire import RawOrUnset


class SamplingRequest:
    """Request of a completion from the client's model."""

    method = "sampling/createMessage"
    failure = "the MCP client's model did not answer"

    def __init__(self, params: RawOrUnset) -> None:
        """`params` are MCP's CreateMessageRequestParams."""
        self.params: Any = {} if params is msgspec.UNSET else params

    def read_result(self, result: bytes) -> bytes:
        """Return the client's result as it is.

        Raises:
            msgspec.DecodeError: it is not a CreateMessageResult.
        """
        msgspec.json.decode(result, type=_SamplingResult)
        return result


class RootsRequest:
    """Request of the directories that the client works in."""

    method = "roots/list"
    failure = "the MCP client did not list its roots"
    params: Any = msgspec.Raw(b"{}")

    def read_result(self, result: bytes) -> bytes:
        """Return the client's result as it is.

        Raises:
            msgspec.DecodeError: it is not a ListRootsResult.
        """
        msgspec.json.decode(result, type=_RootsResult)
        return result


class _Block(msgspec.Struct):
    type: str


class _SamplingResult(msgspec.Struct):
    role: Literal["assistant", "user"]
    content: _Block | list[_Block]
    model: str


class _Root(msgspec.Struct):
    uri: str


class _RootsResult(msgspec.Struct):
    roots: list[_Root]
