"""What tools answer, as clients of another product's socket take it: its blocks, and the texts they look for.

Whoever reads it sends it on to a model, so what stands in a block besides is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bridge.errors import to_mcp
from bridge.hub.page_call import Outcome, PageResult
from bridge.hub.tool_schema import Era
from bridge.mcp_session import call_results
from native_host.existing_channel.channel_messages import FRAME_BYTES

NOTHING = "The tool has run, and answered nothing."
_LEFT_OUT = "(Left out, because the tool takes no such argument: {}.)"
_LESS = {
    "computer": "a smaller picture (`scale`), or a part of it (action zoom with a `region`)",
    "read_page": "one element (`ref_id`), less `depth`, or fewer `max_chars`",
    "get_page_text": "fewer characters (`max_chars`), or an element with read_page",
    "read_console_messages": "a smaller `limit`, or a `pattern`",
    "read_network_requests": "a smaller `limit`, or a `urlPattern`",
    "javascript_tool": "a part of the value",
    "browser_batch": "fewer steps at once",
}
"""What to ask for instead where an answer is too long, by tool."""

Content = dict[str, Any]
"""`{"result": …}` or `{"error": …}`."""


class _Result(msgspec.Struct, rename="camel"):
    """An MCP CallToolResult."""

    content: list[dict[str, Any]]
    is_error: bool = False
    structured_content: Any = None


_log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder(_Result).decode


def of_call(tool: str, outcome: Outcome, left_out: Sequence[str] = ()) -> Content:
    """What came of a call; `left_out` are names of arguments that meant nothing to the tool."""
    try:
        if isinstance(outcome, Exception):
            return failure(to_mcp(outcome).message)
        if isinstance(outcome, PageResult):
            outcome = outcome.result  # of the result only its content goes on
        return _content(tool, outcome, [_text(_LEFT_OUT.format(", ".join(left_out)))] if left_out else [])
    except Exception as error:  # noqa: BLE001  (whoever has the outcome has other calls to serve)
        _log.exception("a result could not be told")
        return failure(to_mcp(error).message)


def _content(tool: str, outcome: bytes, notes: list[dict[str, Any]]) -> Content:
    found = _decode(b"".join(call_results.of_bridge(outcome, Era.HANDSHAKE)))
    blocks = [_block(block) for block in found.content]
    if found.is_error:
        return {"error": {"content": _as_error([*(blocks or [_text(NOTHING)]), *notes])}}
    if expected := _looked_for(tool, found.structured_content):
        message = blocks[:1]  # what follows it is in the structure as well
        return {"result": {"content": [*expected, *message, *notes]}}
    if found.structured_content is not None and not any(block["type"] == "text" for block in blocks):
        blocks.append(_text(msgspec.json.encode(found.structured_content).decode()))
    return {"result": {"content": [*(blocks or [_text(NOTHING)]), *notes]}}


def failure(text: str) -> Content:
    """An error of ours."""
    return {"error": {"content": text}}


def message(tool_use_id: str | None, content: Mapping[str, Any], tool: str = "") -> bytes:
    """An answer, which is an error where it would not fit into a frame.

    Without an id it is known by its turn. `tool` is what was asked for, where it was a tool.
    """
    named = {} if tool_use_id is None else {"tool_use_id": tool_use_id}
    body = msgspec.json.encode({**named, **content})
    if len(body) <= FRAME_BYTES:
        return body
    text = (
        f"{tool} has run, and its answer has {len(body)} bytes: a message of this channel may have "
        f"{FRAME_BYTES}. Ask for less: {_LESS.get(tool, 'a part of it')}."
    )
    return msgspec.json.encode({**named, **failure(text)})


def _looked_for(tool: str, structured: Any) -> list[dict[str, Any]]:
    """The texts that clients read tab ids from; none where the answer has them already."""
    match tool, structured:
        case "tabs_context" | "tabs_context_mcp", {"availableTabs": list(tabs), **others}:
            told: dict[str, Any] = {
                "availableTabs": [{name: tab[name] for name in ("tabId", "title", "url")} for tab in tabs]
            }
            if others.get("tabGroupId") is not None:
                told["tabGroupId"] = others["tabGroupId"]
            return [_text(msgspec.json.encode(told).decode())]
        case "tabs_create" | "tabs_create_mcp", {"tabId": int(tab_id)}:
            return [_text(f"Created new tab. Tab ID: {tab_id}")]
        case "tabs_context" | "tabs_context_mcp" | "tabs_create" | "tabs_create_mcp", {"said": str(said)}:
            return [_text(line) for line in said.splitlines()]  # that product's own, through its channel
    return []


def _block(block: dict[str, Any]) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str(text)}:
            return _text(text)
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return {"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data}}
        case {"type": "resource", "resource": {"text": str(text)}}:
            return _text(text)
        case {"type": "resource_link", "name": str(name), "uri": str(uri)}:
            return _text(f"{name}: {uri}")
        case _:
            kind, mime_type = block.get("type"), block.get("mimeType", "no type given")
            return _text(f"(What cannot be sent on this channel is left out: {kind}, {mime_type}.)")


def _as_error(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Some of its clients show an error as it came: a list of blocks would be JSON to a model."""
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
