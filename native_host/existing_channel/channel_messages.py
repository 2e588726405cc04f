"""Messages, names and directories of the existing channel (Claude in Chrome). Sans-IO.

Frames are those of native messaging, little-endian on the socket. Between
extension and host each message has a `type`; on the socket requests have a `method`, and answers are what the
extension said without its `type`. Read in its host, version 2.1.329; docs/COEXISTENCE.md has it as a table.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

FRAME_BYTES = 1_048_576
"""Longest body in both directions. The host ends after a longer one of the extension, and closes a client."""
REQUEST_BYTES = FRAME_BYTES - 4096
"""Longest request: the host adds a type, and a browser closes the port after a longer message."""
ABOVE = "/tmp"  # noqa: S108 - its own choice
DIRECTORIES = "claude-mcp-browser-bridge-*"
"""Directories with the sockets of hosts, each named after its process id."""
OLD_SOCKETS = "claude-code-mcp-*.sock"
"""Sockets of the hosts of 2025."""
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
"""Tools of any version. The extension announces none, and rejects those that it lacks."""


UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""Raised by decoders, and by `replace_surrogates`."""


def replace_surrogates(body: bytes) -> bytes:
    """Replace lone surrogates, which JavaScript reads and strict decoders reject.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deep.
    """
    message = json.loads(body.decode(errors="replace"))
    return json.dumps(message, ensure_ascii=False).encode(errors="replace")


class SessionScope(msgspec.Struct, rename="camel", omit_defaults=True):
    """Session of a call's tab group; older versions have one group for all."""

    session_id: str
    display_name: str = ""


class ExecuteTool(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Params of `execute_tool`."""

    tool: str
    args: Raw = msgspec.field(default_factory=lambda: Raw(b"{}"))
    client_id: str = ""
    tool_use_id: str | UnsetType = UNSET
    """Name of the call, which its response repeats; versions up to 1.0.36 omit it there."""
    handle_permission_prompts: bool = False
    """The client asks the user for permissions; otherwise the extension does."""
    session_scope: SessionScope | UnsetType = UNSET


class Request(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Request of a client, on the socket."""

    method: str
    params: Raw | UnsetType = UNSET


class ToolRequest(msgspec.Struct, tag="tool_request", omit_defaults=True, kw_only=True):
    """Request of a host to its extension."""

    method: str
    params: Raw | UnsetType = UNSET


class Blocks(msgspec.Struct):
    """Result of a tool: text, or a list of blocks."""

    content: Any = ""


class ExtensionMessage(msgspec.Struct, kw_only=True):
    """Message of an extension, with or without its `type`: a response to a call, or a notification.

    Its host looks at the `type` alone.
    """

    type: str | UnsetType = UNSET
    tool_use_id: Any = UNSET
    result: Any = UNSET
    error: Any = UNSET
    method: Any = ""
    params: Raw | UnsetType = UNSET


class PermissionRequest(msgspec.Struct, kw_only=True):
    """Params of the notification `permission_request`, with which a call asks the user."""

    request_id: str
    tool_use_id: str = ""
    tool_type: str = ""
    url: str = ""


class PermissionResponse(msgspec.Struct, kw_only=True):
    """Params of `permission_response`."""

    request_id: str
    allowed: bool
    tool_use_id: str = ""


Flavour = Literal["socket", "extension"]
"""Peer: the socket of a host, whose client we are, or the extension, whose host we are."""


NOTHING = "It answered nothing."


def tool_result(content: Any, *, is_error: bool) -> bytes:
    """Encode a CallToolResult with text or a list of blocks."""
    result: dict[str, Any] = {"content": _blocks(content)}
    if is_error:
        result["isError"] = True
        result["content"] = result["content"] or [_text(NOTHING)]
    return msgspec.json.encode(result)


def content_of(member: Any) -> Any:
    """Return the `content` of a `result` or an `error`, or the member itself if it has none."""
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
