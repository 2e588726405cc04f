"""What another product's extension, its native host and their clients say: as far as we speak it.

Its users call it Claude in Chrome. Frames are those of native messaging, little-endian on the socket. Between
extension and host each message has a `type`; on the socket requests have a `method`, and answers are what the
extension said without its `type`. Read in its host, version 2.1.329; docs/COEXISTENCE.md has it as a table.

What another product's extension answers, as MCP has it. Sans-IO.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

FRAME_BYTES = 1_048_576
"""Of a body, either way: its host closes for good over an extension's longer one, and cuts a client off."""
REQUEST_BYTES = FRAME_BYTES - 4096
"""Of a request: its host adds a type and writes it anew, and a browser closes the port over a longer one."""
ABOVE = "/tmp"  # noqa: S108 - its own choice
"""Where all of it is."""
DIRECTORIES = "claude-mcp-browser-bridge-*"
"""In which its hosts have their sockets, each called by its pid."""
OLD_SOCKETS = "claude-code-mcp-*.sock"
"""Which its hosts of 2025 had."""
BRAND = "Claude in Chrome"
CLIENT_ID = "mcpb"

TOOLS = (
    "navigate",
    "computer",
    "read_page",
    "find",
    "form_input",
    "get_page_text",
    "tabs_context",
    "tabs_create",
    "tabs_context_mcp",
    "tabs_create_mcp",
    "tabs_close_mcp",
    "resize_window",
    "read_console_messages",
    "read_network_requests",
    "upload_image",
    "file_upload",
    "gif_creator",
    "update_plan",
    "shortcuts_list",
    "shortcuts_execute",
    "javascript_tool",
    "browser_batch",
    "turn_answer_start",
)
"""What one of its versions or another runs; it announces none, and refuses what it does not have."""


UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""Raised by decoders, and by `mended`."""


def mended(body: bytes) -> bytes:
    """What JavaScript can read and strict decoders cannot: a text may be cut amid a character.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deep.
    """
    message = json.loads(body.decode(errors="replace"))
    return json.dumps(message, ensure_ascii=False).encode(errors="replace")


class SessionScope(msgspec.Struct, rename="camel", omit_defaults=True):
    """Whose tab group a call is about; versions that do not know it have one group for all."""

    session_id: str
    display_name: str = ""


class ExecuteTool(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The `params` of `execute_tool`."""

    tool: str
    args: Raw = msgspec.field(default_factory=lambda: Raw(b"{}"))
    """Whoever has none may leave them out."""
    client_id: str = ""
    tool_use_id: str | UnsetType = UNSET
    """By which the answer is known; versions up to 1.0.36 leave it out of that."""
    handle_permission_prompts: bool = False
    """The asker puts the extension's questions to its person; otherwise the extension does."""
    session_scope: SessionScope | UnsetType = UNSET


class Request(msgspec.Struct, omit_defaults=True, kw_only=True):
    """On the socket, from a client."""

    method: str
    params: Raw | UnsetType = UNSET


class ToolRequest(msgspec.Struct, tag="tool_request", omit_defaults=True, kw_only=True):
    """The same, from a host to its extension."""

    method: str
    params: Raw | UnsetType = UNSET


class Blocks(msgspec.Struct):
    """What a tool answered: text, or a list of blocks."""

    content: Any = ""


class Said(msgspec.Struct, kw_only=True):
    """What an extension says, with or without its `type`: an answer to a call, or a notification.

    Its host looks at the `type` alone.
    """

    type: str | UnsetType = UNSET
    tool_use_id: Any = UNSET
    result: Any = UNSET
    error: Any = UNSET
    method: Any = ""
    params: Raw | UnsetType = UNSET


class PermissionRequest(msgspec.Struct, kw_only=True):
    """The `params` of the notification `permission_request`: may a call do what it is about to do?"""

    request_id: str
    tool_use_id: str = ""
    tool_type: str = ""
    url: str = ""


class PermissionResponse(msgspec.Struct, kw_only=True):
    """The `params` of `permission_response`."""

    request_id: str
    allowed: bool
    tool_use_id: str = ""


Flavour = Literal["socket", "extension"]
"""To whom we speak: a host's socket as its client, or the extension as its host."""


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


# Anthropic's extension asks these two, in this order, and stays with the first one that answers.
CLAUDE_DESKTOP = "com.anthropic.claude_browser_extension"
CLAUDE_CODE = "com.anthropic.claude_code_browser_extension"
CLAUDES = {CLAUDE_DESKTOP: "Claude Desktop", CLAUDE_CODE: "Claude Code"}
