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
        """Of the request to the client."""
        return "sampling/createMessage"

    @property
    def failure(self) -> str:
        """What the asker is told when the client has no answer."""
        return "the MCP client's model did not answer"

    @property
    def params(self) -> dict[str, Any]:
        """Of the request to the client."""
        asked = [{"role": "user", "content": {"type": "text", "text": it}} for it in self.prompt.messages]
        return {
            "messages": asked,
            "systemPrompt": self.prompt.system,
            "maxTokens": self.prompt.max_tokens,
        }

    def read(self, result: bytes) -> bytes:
        """What the asker gets of the client's result: the model's words.

        Raises:
            msgspec.DecodeError: there are none.
        """
        return msgspec.json.decode(result, type=_Sampled).content.text.encode()


class RootsRequest:
    """Request of the directories that the client works in."""

    method = "roots/list"
    """Of the request to the client."""
    failure = "the MCP client did not tell its roots"
    """What the asker is told when the client has no answer."""
    params: Mapping[str, Any] = {}
    """Of the request to the client."""

    def read(self, result: bytes) -> bytes:
        """What the asker gets of the client's result: URIs as a JSON array.

        Raises:
            msgspec.DecodeError: there are none.
        """
        told = msgspec.json.decode(result, type=_Roots).roots
        return msgspec.json.encode([root.uri for root in told[:MAX_ROOTS]])


MAX_ROOTS = 64
"""Of a client; further ones are not looked at."""


class _Words(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _Sampled(msgspec.Struct):
    """A CreateMessageResult whose content is one text."""

    content: _Words


class _Root(msgspec.Struct):
    uri: str


class _Roots(msgspec.Struct):
    """A ListRootsResult."""

    roots: list[_Root]
