"""What another product's extension answers, as MCP has it. Sans-IO."""

from __future__ import annotations

from typing import Any

import msgspec

NOTHING = "It answered nothing."


def tool_result(content: Any, *, is_error: bool) -> bytes:
    """A CallToolResult, as JSON, of text or a list of blocks."""
    result: dict[str, Any] = {"content": _blocks(content)}
    if is_error:
        result["isError"] = True
        result["content"] = result["content"] or [_text(NOTHING)]
    return msgspec.json.encode(result)


def content_of(member: Any) -> Any:
    """What a `result` or an `error` holds: its `content`, or itself where it has none."""
    if isinstance(member, dict) and "content" in member:
        return member["content"]
    return member


def _blocks(content: Any) -> list[dict[str, Any]]:
    match content:
        case None | "":
            return []
        case str():
            return [_text(content)]
        case list():
            return [_block(each) for each in content]
        case _:
            return [_block(content)]


def _block(block: Any) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str(text)}:
            return _text(text)
        case {"type": "image", "source": {"media_type": str(mime_type), "data": str(data)}}:
            return {"type": "image", "data": data, "mimeType": mime_type}
        case {"type": "image", "data": str(), "mimeType": str(), **_rest}:
            return dict(block)
        case {"type": ("audio" | "resource" | "resource_link"), **_rest}:
            return dict(block)
        case str():
            return _text(block)
        case _:  # nothing is lost: a model can read it
            return _text(msgspec.json.encode(block).decode())


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
