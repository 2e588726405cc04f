"""Sampling and roots requests to the MCP client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from bridge.hub.transport import Prompt


class SamplingRequest(NamedTuple):
    """Request of a completion from the client's model."""

    prompt: Prompt

    @property
    def method(self) -> str:
        """Method of the server request."""
        return "sampling/createMessage"

    @property
    def failure(self) -> str:
        """Error text if the client has no answer."""
        return "the MCP client's model did not answer"

    @property
    def params(self) -> dict[str, Any]:
        """Params of the server request."""
        asked = [{"role": "user", "content": {"type": "text", "text": it}} for it in self.prompt.messages]
        return {"messages": asked, "systemPrompt": self.prompt.system, "maxTokens": self.prompt.max_tokens}

    def read_result(self, result: bytes) -> bytes:
        """Decode the client's result; return the model's text.

        Raises:
            msgspec.DecodeError: it has no text.
        """
        return msgspec.json.decode(result, type=_SamplingResult).content.text.encode()


class RootsRequest:
    """Request of the directories that the client works in."""

    method = "roots/list"
    failure = "the MCP client did not tell its roots"
    params: Mapping[str, Any] = {}

    def read_result(self, result: bytes) -> bytes:
        """Decode the client's result; return the URIs as a JSON array.

        Raises:
            msgspec.DecodeError: it has no roots.
        """
        told = msgspec.json.decode(result, type=_Roots).roots
        return msgspec.json.encode([root.uri for root in told[:MAX_ROOTS]])


MAX_ROOTS = 64


class _Words(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _SamplingResult(msgspec.Struct):
    """A CreateMessageResult whose content is one text."""

    content: _Words


class _Root(msgspec.Struct):
    uri: str


class _Roots(msgspec.Struct):
    """A ListRootsResult."""

    roots: list[_Root]
