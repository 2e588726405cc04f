"""Errors of a call, and their texts for MCP clients.

A tool's failure reaches the MCP client as a result with `isError` and one short text: what happened, whether
the tool may have run, what to do next. Only a name that was never offered is a protocol error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code


class CallError(Exception):
    """A call failed. `handed` is False only when nothing can have reached the page."""

    def __init__(
        self,
        code: int,
        detail: str = "",
        *,
        handed: bool,
        then: str = "",
        logged: str | None = None,
        what: str = "",
    ) -> None:
        """Describe a failed call.

        Args:
            code: the wire's error number.
            detail: what failed, for the client: it may quote arguments.
            handed: whether the page may have got the call.
            then: what to do next, where that is not what it usually is.
            logged: replaces `detail` in the audit log, for a `detail` that may quote a value of an argument.
            what: what happened, where that is not what the code usually means.
        """
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.handed = handed
        self.then = then
        self.what = what
        self._logged = logged

    @property
    def audit_detail(self) -> str:
        """The detail without any value of an argument."""
        if self._logged is not None:
            return self._logged
        return "" if self.code == Code.INVALID_PARAMS else self.detail


def session_ended(*, handed: bool) -> CallError:
    """Return the error of a call whose session ends before its result."""
    then = "Connect again, and look at the page first."
    return CallError(Code.GONE, "mcpb has ended this session", handed=handed, then=then)


class UnknownToolError(Exception):
    """Call of a name that is not offered and was never shown to this session."""

    def __init__(self, name: str, owner: str = "") -> None:
        """`owner` would offer it, for instance a remote server; empty: a page would."""
        super().__init__(name)
        self.name = name
        self.owner = owner


class NotOfferedError(Exception):
    """Request for a resource or prompt that neither a page nor mcpb offers."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        """URI, or name of the prompt, as the client wrote it."""


class ReportedError(CallError):
    """A request failed, and `detail` is the whole text for the client."""


class PageServerError(ReportedError):
    """A page's server answered a request with a JSON-RPC error. `detail` is its text behind the origin."""


class _Words(msgspec.Struct, frozen=True):
    what: str
    then: str
    """`{mcpb}` stands for the name that starts this mcpb."""


_AGAIN = "List the tools again, then call what is there now."
_LOOK = "Run `{mcpb} status` to see what is connected."

_WORDS: dict[int, _Words] = {
    Code.INVALID_PARAMS: _Words("Invalid arguments", "Correct them and call again."),
    Code.NO_SUCH_TAB: _Words("No such tab", _AGAIN),
    Code.TAB_NOT_CONTROLLABLE: _Words(
        "The browser lets no extension control that tab", "Open a web page in it, or use another tab."
    ),
    Code.GONE: _Words("The browser, or the connection to it, went away", _LOOK),
    Code.TIMED_OUT: _Words("The page did not answer in time", "Look at the page before calling again."),
    Code.TOO_LARGE: _Words("That is too large to be passed on", "Ask for less, or in parts."),
    Code.NAVIGATED: _Words("The page went to another document", _AGAIN),
    Code.NOT_ALLOWED: _Words("The policy does not allow this", "Ask the user who set it."),
    Code.RATE_LIMITED: _Words("Too many calls", "Wait, then call again."),
    Code.NOT_YOURS: _Words("That tab is not yours", "Use a tab of your own."),
    Code.WIRE_VERSION: _Words("mcpb and its extension have different versions", "Run `{mcpb} status`."),
    Code.NO_LONGER_OFFERED: _Words("The page no longer offers this tool", _AGAIN),
}
_LIST = "List what is offered again."
_REQUEST_WORDS: dict[int, _Words] = {
    Code.INVALID_PARAMS: _Words("Invalid request", "Correct it and ask again."),
    Code.NO_SUCH_TAB: _Words("No such tab", _LIST),
    Code.TIMED_OUT: _Words("The page did not answer in time", "Look at the page before you ask again."),
    Code.NAVIGATED: _Words("The page went to another document", _LIST),
    Code.RATE_LIMITED: _Words("Too many requests", "Wait, then ask again."),
    Code.NO_LONGER_OFFERED: _Words("The page no longer offers this", _LIST),
    Code.INTERNAL_ERROR: _Words("The page's answer is unusable", "Use another resource or prompt."),
}
"""Words for requests that call no tool, where they are others."""
_OTHER = _Words("The browser reported an error", _LOOK)

_DETAIL_CHARS = 500
_MAY_HAVE_RUN = "It may have run: check before you repeat it."
_DID_NOT_RUN = "Nothing was run."


def format_error(error: CallError) -> str:
    """Format a failed call for the user and the model."""
    has_run = _MAY_HAVE_RUN if error.handed else _DID_NOT_RUN
    if error.code == Code.PAUSED:
        return f"{paused_sentence(error.detail)} {has_run} {error.then or _resume(error.detail)}"
    words = _WORDS.get(error.code, _OTHER)
    detail = f": {_one_line(error.detail)}" if error.detail else ""
    stop = "" if detail.endswith("?") else "."
    return f"{error.what or words.what}{detail}{stop} {has_run} {error.then or _name_command(words.then)}"


def format_request_error(error: CallError) -> str:
    """Format a failed request for a resource, a prompt or a completion: unlike a call, it changes nothing."""
    if isinstance(error, ReportedError):
        return error.detail
    if error.code == Code.PAUSED:
        return f"{paused_sentence(error.detail)} {error.then or _resume(error.detail)}"
    words = _REQUEST_WORDS.get(error.code) or _WORDS.get(error.code, _OTHER)
    detail = f": {_one_line(error.detail)}" if error.detail else ""
    return f"{error.what or words.what}{detail}. {error.then or _name_command(words.then)}"


def _resume(site: str) -> str:
    # Not the command that resumes: a model with a shell would run it.
    return f"Ask the user; they can resume {'it' if site else 'you'} in the mcpb popup."


def _name_command(text: str) -> str:
    # A bridge without a failed call never imports it.
    from native_host.system.program_name import command_name  # noqa: PLC0415

    return text.format(mcpb=command_name())


def paused_sentence(site: str) -> str:
    """Return what is paused; `site` is the detail of a `CallError` of code PAUSED."""
    return f"The user paused {_one_line(site) or 'you'}."


def _one_line(text: str) -> str:
    return single_line(text, _DETAIL_CHARS).rstrip(".")


def make_failure_result(text: str) -> bytes:
    """Encode a CallToolResult that reports the failure."""
    return msgspec.json.encode({"content": [{"type": "text", "text": text}], "isError": True})


class ProtocolError(NamedTuple):
    """MCP error for an exception that is not a tool's failure."""

    code: int
    message: str
    data: Mapping[str, Any] | None = None


def to_mcp(error: Exception) -> ProtocolError:
    """Map an exception to an MCP error. The text of an unexpected one stays in our log."""
    match error:
        case UnknownToolError():
            where = (
                f"{error.owner} has no such tool" if error.owner else "list_page_tools says what pages offer"
            )
            text = f"Unknown tool: {_one_line(error.name)}. {where} now."
            return ProtocolError(Code.INVALID_PARAMS, text)
        case CallError():
            return ProtocolError(error.code, format_error(error))
        case _:
            return ProtocolError(Code.INTERNAL_ERROR, "Internal error: the log of mcpb has the details")
