"""Sampling requests of pages: validation, limits, and the sentence that names the site. Sans-IO.

Rules: MCP 2025-11-25, "Sampling". All members pass unchanged, except `includeContext`, `systemPrompt`,
`maxTokens` above the user's limit, and what belongs to the page's own session (`task`, a progress token).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from bridge.errors import CallError
from bridge.hub.consent.page_request_consent import MAX_PREVIEW
from bridge.hub.primitives.sampling_budget import CHARS_PER_TOKEN, MEDIA_TOKENS
from bridge.hub.tool_definition import OWN_META
from native_host.protocol import wire
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code

MAX_MESSAGES = 20
MAX_BYTES = 4 * wire.MIB


class PageSamplingRequest:
    """A valid sampling request of a page."""

    def __init__(self, params: wire.RawOrUnset) -> None:
        """Read MCP's CreateMessageRequestParams.

        Raises:
            CallError: INVALID_PARAMS or TOO_LARGE; the text names the member, or the limit.
        """
        raw = b"" if params is UNSET else bytes(params)
        if len(raw) > MAX_BYTES:
            detail = f"the sampling request has {len(raw)} bytes, the limit is {MAX_BYTES}"
            raise CallError(Code.TOO_LARGE, detail, handed=False)
        try:
            self._checked = msgspec.json.decode(raw or b"{}", type=_Params)
            self._params: dict[str, Any] = msgspec.json.decode(raw or b"{}")
        except (msgspec.DecodeError, RecursionError) as error:
            detail = f"the sampling request is invalid: {describe_problem(error)}"
            raise CallError(Code.INVALID_PARAMS, detail, handed=False) from None
        if (count := len(self._checked.messages)) > MAX_MESSAGES:
            detail = f"the sampling request has {count} messages, the limit is {MAX_MESSAGES}"
            raise CallError(Code.INVALID_PARAMS, detail, handed=False)

    @property
    def preview(self) -> str:
        """Return the beginning of what the model would be asked, unsanitized."""
        texts = [*map(_text_of, self._blocks()), self._checked.system_prompt or ""]
        # Longer texts are cut before they are quoted: the rest is not shown.
        return " ".join(text[: 2 * MAX_PREVIEW] for text in texts if text)

    def max_tokens(self, limit: int) -> int:
        """Return the tokens that the response may have, at most the user's limit."""
        return min(self._checked.max_tokens, limit)

    def count_tokens(self, limit: int) -> int:
        """Return the tokens that the request may cost: its size, and the longest response that is allowed."""
        media = sum(block.get("type") in ("image", "audio") for block in self._blocks())
        size = len(
            msgspec.json.encode({**self._params, "messages": [_without_media(it) for it in self._blocks()]})
        )
        return size // CHARS_PER_TOKEN + media * MEDIA_TOKENS + self.max_tokens(limit)

    def for_client(self, site: str, limit: int) -> msgspec.Raw:
        """Return the params for the client (JSON): they name the site, and allow at most `limit` tokens."""
        params = {**self._params, "includeContext": "none", "maxTokens": self.max_tokens(limit)}
        params.pop("task", None)
        sentence = f"The web page {site} asks for this completion through mcpb; all other text is the page's."
        system = self._params.get("systemPrompt")
        params["systemPrompt"] = f"{sentence}\n\n{system}" if system else sentence
        if isinstance(meta := self._params.get("_meta"), dict):
            params["_meta"] = {
                key: value
                for key, value in meta.items()
                if key != "progressToken" and not key.startswith(OWN_META)
            }
        return msgspec.Raw(msgspec.json.encode(params))

    def _blocks(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for message in self._params["messages"]:
            content = message["content"]
            found += content if isinstance(content, list) else [content]
        return found


def _text_of(block: dict[str, Any]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else ""


def _without_media(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "data": ""} if block.get("type") in ("image", "audio") else block


# ── What MCP allows ─────────────────────────────────────────────────────────────────────────────────────────

_Share = Annotated[float, Meta(ge=0, le=1)]


class _TextBlock(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _ImageBlock(msgspec.Struct, tag_field="type", tag="image", rename="camel"):
    data: str
    mime_type: str


class _AudioBlock(msgspec.Struct, tag_field="type", tag="audio", rename="camel"):
    data: str
    mime_type: str


class _ToolUse(msgspec.Struct, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


class _ToolResult(msgspec.Struct, tag_field="type", tag="tool_result", rename="camel"):
    tool_use_id: str
    content: list[dict[str, Any]] = []


_Block = _TextBlock | _ImageBlock | _AudioBlock | _ToolUse | _ToolResult


class _Message(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: _TextBlock | _ImageBlock | _AudioBlock | _ToolUse | _ToolResult | list[_Block]


class _Hint(msgspec.Struct):
    name: str | UnsetType = UNSET


class _Preferences(msgspec.Struct, rename="camel"):
    hints: list[_Hint] | None = None
    cost_priority: _Share | None = None
    speed_priority: _Share | None = None
    intelligence_priority: _Share | None = None


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: dict[str, Any]


class _ToolChoice(msgspec.Struct):
    mode: Literal["auto", "required", "none"] | None = None


class _Params(msgspec.Struct, rename="camel"):
    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)]
    system_prompt: str | None = None
    temperature: _Share | None = None
    stop_sequences: list[str] | None = None
    model_preferences: _Preferences | None = None
    metadata: dict[str, Any] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _ToolChoice | None = None
