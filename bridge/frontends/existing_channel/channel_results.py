"""Results for clients of Claude in Chrome's socket: its content blocks, and the texts that they search for.

Its clients pass blocks to a model, so other members of a block are removed.
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

Content = dict[str, Any]
"""`{"result": …}` or `{"error": …}`."""


class _Result(msgspec.Struct, rename="camel"):
    """An MCP CallToolResult."""

    content: list[dict[str, Any]]
    is_error: bool = False
    structured_content: Any = None


_log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder(_Result).decode


def format_outcome(tool: str, outcome: Outcome, left_out: Sequence[str] = ()) -> Content:
    """Return the content of a call's outcome; `left_out` names the ignored arguments."""
    try:
        if isinstance(outcome, Exception):
            return make_failure(to_mcp(outcome).message)
        if isinstance(outcome, PageResult):
            outcome = outcome.result  # of the result only its content goes on
        return _make_content(
            tool, outcome, [_text_block(_LEFT_OUT.format(", ".join(left_out)))] if left_out else []
        )
    except Exception as error:  # noqa: BLE001  (other calls go on)
        _log.exception("A result could not be encoded.")
        return make_failure(to_mcp(error).message)


def _make_content(tool: str, outcome: bytes, notes: list[dict[str, Any]]) -> Content:
    found = _decode(b"".join(call_results.of_bridge(outcome, Era.HANDSHAKE)))
    blocks = [_make_block(block) for block in found.content]
    if found.is_error:
        return {"error": {"content": _as_error([*(blocks or [_text_block(NOTHING)]), *notes])}}
    if expected := _searched_texts(tool, found.structured_content):
        make_message = blocks[:1]  # what follows it is in the structure as well
        return {"result": {"content": [*expected, *make_message, *notes]}}
    if found.structured_content is not None and not any(block["type"] == "text" for block in blocks):
        blocks.append(_text_block(msgspec.json.encode(found.structured_content).decode()))
    return {"result": {"content": [*(blocks or [_text_block(NOTHING)]), *notes]}}


def make_failure(text: str) -> Content:
    """Return an error as content."""
    return {"error": {"content": text}}


def make_message(tool_use_id: str | None, content: Mapping[str, Any], tool: str = "") -> bytes:
    """Return a response, which is an error if it exceeds a frame.

    A response without an id is identified by its order. `tool` is the called tool, if any.
    """
    named = {} if tool_use_id is None else {"tool_use_id": tool_use_id}
    body = msgspec.json.encode({**named, **content})
    if len(body) <= FRAME_BYTES:
        return body
    text = (
        f"{tool} has run, and its answer has {len(body)} bytes: a message of this channel may have "
        f"{FRAME_BYTES}. Ask for less: {_LESS.get(tool, 'a part of it')}."
    )
    return msgspec.json.encode({**named, **make_failure(text)})


def _searched_texts(tool: str, structured: Any) -> list[dict[str, Any]]:
    """Return the texts from which clients read tab ids, unless the result has them already."""
    match tool, structured:
        case "tabs_context" | "tabs_context_mcp", {"availableTabs": list(tabs), **others}:
            told: dict[str, Any] = {
                "availableTabs": [{name: tab[name] for name in ("tabId", "title", "url")} for tab in tabs]
            }
            if others.get("tabGroupId") is not None:
                told["tabGroupId"] = others["tabGroupId"]
            return [_text_block(msgspec.json.encode(told).decode())]
        case "tabs_create" | "tabs_create_mcp", {"tabId": int(tab_id)}:
            return [_text_block(f"Created new tab. Tab ID: {tab_id}")]
        case "tabs_context" | "tabs_context_mcp" | "tabs_create" | "tabs_create_mcp", {"said": str(said)}:
            return [
                _text_block(line) for line in said.splitlines()
            ]  # that product's own, through its channel
    return []


def _make_block(block: dict[str, Any]) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str(text)}:
            return _text_block(text)
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return {"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data}}
        case {"type": "resource", "resource": {"text": str(text)}}:
            return _text_block(text)
        case {"type": "resource_link", "name": str(name), "uri": str(uri)}:
            return _text_block(f"{name}: {uri}")
        case _:
            kind, mime_type = block.get("type"), block.get("mimeType", "no type given")
            return _text_block(f"(What cannot be sent on this channel is left out: {kind}, {mime_type}.)")


def _as_error(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return an error as text: some clients would show a list of blocks to the model as JSON."""
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
