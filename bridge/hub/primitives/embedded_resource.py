"""A resource as the result of a tool, for clients that read no resources, cut for a model. Sans-IO."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_CHARS = 20_000
"""Default of `max_chars`."""
MAX_BLOB = 1024 * 1024
"""Characters (base64) of one binary content; a longer one is left out and named."""


def embed_contents(result: bytes, offset: int, max_chars: int) -> bytes:
    """Return an MCP CallToolResult with a ReadResourceResult (both JSON) as embedded resources.

    `offset` and `max_chars` count the characters of all texts together, in their order; binary contents come
    with the beginning. What is left out is named in a last text.
    """
    contents = msgspec.json.decode(result)["contents"]
    total = sum(len(content.get("text", "")) for content in contents)
    end = min(offset + max_chars, total)
    embedded: list[dict[str, Any]] = []
    notes: list[str] = []
    start = 0
    for content in contents:
        if "blob" in content:
            if offset == 0 and len(content["blob"]) <= MAX_BLOB:
                embedded.append(content)
            elif offset == 0:
                notes.append(f"{content['uri']} is left out: {len(content['blob'])} characters of base64.")
            continue
        text, here = content["text"], start
        start += len(text)
        if (start > offset and here < end) or total == 0:
            embedded.append({**content, "text": text[max(0, offset - here) : max(0, end - here)]})
    if offset > 0 or end < total:
        rest = f" The rest: offset {end}." if end < total else ""
        notes.append(f"Characters {min(offset, total)} to {end} of {total}.{rest}")
    blocks: list[dict[str, Any]] = [{"type": "resource", "resource": content} for content in embedded]
    if notes:
        blocks.append({"type": "text", "text": " ".join(notes)})
    return msgspec.json.encode({"content": blocks})
