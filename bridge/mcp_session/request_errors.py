"""MCP errors of requests for resources and prompts, with the codes of each protocol era."""

from __future__ import annotations

from bridge.errors import (
    CallError,
    NotOfferedError,
    PageServerError,
    ProtocolError,
    format_request_error,
    to_mcp,
)
from bridge.hub.tool_schema import Era
from native_host.protocol.wire import Code

UNKNOWN_URI = {Era.HANDSHAKE: -32002, Era.STATELESS: int(Code.INVALID_PARAMS)}
"""Code for a resource that does not exist (MCP 2025-11-25, "Resources: Error Handling"; SEP-2164)."""

BAD_CURSOR = ProtocolError(
    Code.INVALID_PARAMS, "No page of this list has that cursor: begin again without one"
)


def prompt_error(error: Exception) -> ProtocolError:
    """Return the MCP error of a failed request for a prompt, or for a completion."""
    if isinstance(error, NotOfferedError):
        text = "This prompt or template does not exist, or no longer: list what is offered again"
        return ProtocolError(Code.INVALID_PARAMS, text)
    return read_error(error, Era.STATELESS)


def read_error(error: Exception, era: Era, uri: str = "") -> ProtocolError:
    """Return the MCP error of a failed request for a resource; `uri` is empty if it names several."""
    data = {"uri": uri} if uri else None
    match error:
        case NotOfferedError():
            text = (
                "This resource does not exist, or no longer. resources/list says which do; of pictures, a "
                "session keeps the latest: take another one."
            )
            return ProtocolError(UNKNOWN_URI[era], text, data)
        case PageServerError(code=Code.INVALID_PARAMS):
            return ProtocolError(UNKNOWN_URI[era], error.detail, data)
        case CallError():
            return ProtocolError(error.code, format_request_error(error), data)
        case _:
            return to_mcp(error)
