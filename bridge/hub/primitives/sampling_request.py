"""Sampling requests of pages: validation, limits, and the sentence that names the site. Sans-IO.

Rules: MCP 2025-11-25, "Sampling". All members pass unchanged, except `includeContext`, `systemPrompt`,
`maxTokens` above the user's limit, and what belongs to the page's own session (`task`, a progress token).
Only the bytes of a request are kept: while the user is asked, decoded values would take 40 times as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from bridge.errors import CallError
from bridge.hub.consent.page_request_consent import MAX_PREVIEW
from bridge.hub.primitives.sampling_budget import BYTES_PER_TOKEN, count_media_tokens
from bridge.hub.tool_definition import OWN_META
from native_host.protocol import wire
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code

MAX_MESSAGES = 20
MAX_BYTES = 4 * wire.MIB
_READ_CHARS = 64 * 1024
"""Characters of a text in which the preview is looked for."""


class PageSamplingRequest:
    """A valid sampling request of a page."""

    def __init__(self, params: wire.RawOrUnset) -> None:
        """Read MCP's CreateMessageRequestParams.

        Raises:
            CallError: INVALID_PARAMS or TOO_LARGE; the text names the member, or the limit.
        """
        self._raw = b"{}" if params is UNSET else bytes(params)
        if len(self._raw) > MAX_BYTES:
            detail = f"the sampling request has {len(self._raw)} bytes, the limit is {MAX_BYTES}"
            raise CallError(Code.TOO_LARGE, detail, handed=False)
        try:
            checked = msgspec.json.decode(self._raw, type=_Params)
        except (msgspec.DecodeError, RecursionError) as error:
            detail = f"the sampling request is invalid: {describe_problem(error)}"
            raise CallError(Code.INVALID_PARAMS, detail, handed=False) from None
        if (count := len(checked.messages)) > MAX_MESSAGES:
            detail = f"the sampling request has {count} messages, the limit is {MAX_MESSAGES}"
            raise CallError(Code.INVALID_PARAMS, detail, handed=False)
        blocks = list(_iter_blocks(checked))
        self.preview = _make_preview(checked.system_prompt, blocks)
        """Beginning of what the model would be asked, on one line and otherwise unsanitized."""
        self.more = _describe_more(checked, blocks)
        """What else the model would be asked, such as `1 image, 2 tools`; may be empty."""
        self.uses_tools = _uses_tools(checked, blocks)
        """True if the client has to support `sampling.tools`."""
        self._max_tokens = checked.max_tokens
        media = [len(block.data) for block in blocks if isinstance(block, _ImageBlock | _AudioBlock)]
        self._size_tokens = (len(self._raw) - sum(media)) // BYTES_PER_TOKEN
        self._size_tokens += sum(map(count_media_tokens, media))

    def count_tokens(self, limit: int) -> int:
        """Return the tokens that the request may cost: its size, and the longest response that is allowed."""
        return self._size_tokens + min(self._max_tokens, limit)

    def for_client(self, sender: str, limit: int) -> Raw:
        """Return the params for the client (JSON): they name the sender, and allow at most `limit` tokens."""
        # A line break is whitespace here, and would end the line of a client on stdio.
        given = self._raw.replace(b"\n", b" ").replace(b"\r", b" ")
        params: dict[str, Any] = msgspec.json.decode(given, type=dict[str, Raw])
        system = msgspec.json.decode(params.pop("systemPrompt", b"null"))
        sentence = f"{sender} asks for this completion through mcpb; all other text is not the user's."
        params["systemPrompt"] = f"{sentence}\n\n{system}" if system else sentence
        params["includeContext"] = "none"
        params["maxTokens"] = min(self._max_tokens, limit)
        params.pop("task", None)
        if "_meta" in params:
            params["_meta"] = _filter_meta(params["_meta"])
        return Raw(msgspec.json.encode(params))


def _filter_meta(meta: Raw) -> dict[str, Raw]:
    """Return a page's `_meta` without its progress token and without members that are the bridge's."""
    try:
        given = msgspec.json.decode(meta, type=dict[str, Raw])
    except msgspec.DecodeError:
        return {}
    return {
        name: value
        for name, value in given.items()
        if name != "progressToken" and not name.startswith(OWN_META)
    }


# ── What the user sees ──────────────────────────────────────────────────────────────────────────────────────


def _make_preview(system: str | None, blocks: list[_Block]) -> str:
    texts = [system or "", *(block.text for block in blocks if isinstance(block, _TextBlock))]
    shown = ""
    for text in texts:
        shown = f"{shown} {' '.join(text[:_READ_CHARS].split())}".strip()
        if len(text) > _READ_CHARS or len(shown) > MAX_PREVIEW:
            return f"{shown[:MAX_PREVIEW]}…"
    return shown


def _describe_more(checked: _Params, blocks: list[_Block]) -> str:
    texts = [checked.system_prompt or "", *(block.text for block in blocks if isinstance(block, _TextBlock))]
    counts = {
        "more character": max(0, sum(map(len, texts)) - MAX_PREVIEW),
        "image": sum(isinstance(block, _ImageBlock) for block in blocks),
        "audio clip": sum(isinstance(block, _AudioBlock) for block in blocks),
        "tool result": sum(isinstance(block, _ToolResult) for block in blocks),
        "tool": len(checked.tools or ()),
    }
    return ", ".join(f"{count} {what}{'s' * (count > 1)}" for what, count in counts.items() if count)


def _uses_tools(checked: _Params, blocks: list[_Block]) -> bool:
    has_blocks = any(isinstance(block, _ToolUse | _ToolResult) for block in blocks)
    return has_blocks or checked.tools is not None or checked.tool_choice is not None


def _iter_blocks(checked: _Params) -> Iterator[_Block]:
    for message in checked.messages:
        yield from message.content if isinstance(message.content, list) else [message.content]


# ── What MCP allows ─────────────────────────────────────────────────────────────────────────────────────────

_Share = Annotated[float, Meta(ge=0, le=1)]


class _Object(msgspec.Struct):
    """An object whose members are not read."""


class _TextBlock(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _ImageBlock(msgspec.Struct, tag_field="type", tag="image", rename="camel"):
    data: str
    mime_type: Annotated[str, Meta(pattern="^image/")]


class _AudioBlock(msgspec.Struct, tag_field="type", tag="audio", rename="camel"):
    data: str
    mime_type: Annotated[str, Meta(pattern="^audio/")]


class _ToolUse(msgspec.Struct, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: _Object


class _ToolResult(msgspec.Struct, tag_field="type", tag="tool_result", rename="camel"):
    tool_use_id: str
    content: list[_Object] = []


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
    input_schema: _Object


class _ToolChoice(msgspec.Struct):
    mode: Literal["auto", "required", "none"] | None = None


class _Params(msgspec.Struct, rename="camel"):
    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)]
    system_prompt: str | None = None
    temperature: _Share | None = None
    stop_sequences: list[str] | None = None
    model_preferences: _Preferences | None = None
    metadata: _Object | None = None
    tools: list[_Tool] | None = None
    tool_choice: _ToolChoice | None = None
