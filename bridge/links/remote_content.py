"""Conversion of a CallToolResult of a remote MCP server to text.

`webmcp/content.js` converts in the same way; both are tested with tests/data/content_to_text.json.
"""

from __future__ import annotations

import json
from typing import Any

_UNKNOWN_TYPE = "application/octet-stream"


def to_text(result: dict[str, Any]) -> str:
    """Return the content blocks, joined by line feeds, or `structuredContent` if there is no block."""
    content = result.get("content")
    if isinstance(content, list) and content:
        return "\n".join(map(_convert_block, content))
    return _encode(result["structuredContent"]) if "structuredContent" in result else ""


def _convert_block(block: Any) -> str:
    """Convert a block; one of an unknown type or shape becomes compact JSON."""
    text: Any = None
    match block:
        case {"type": "text"}:
            text = block.get("text")
        case {"type": "image" | "audio"}:
            text = _make_data_url(block.get("mimeType"), block.get("data"))
        case {"type": "resource_link"}:
            text = block.get("uri")
        case {"type": "resource", "resource": {"text": embedded}} if embedded is not None:
            text = embedded
        case {"type": "resource", "resource": {"blob": blob} as resource}:
            text = _make_data_url(resource.get("mimeType"), blob)
    return text if isinstance(text, str) else _encode(block)


def _make_data_url(mime_type: Any, base64: Any) -> str | None:
    if not isinstance(base64, str):
        return None
    return f"data:{mime_type if isinstance(mime_type, str) else _UNKNOWN_TYPE};base64,{base64}"


def _encode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
