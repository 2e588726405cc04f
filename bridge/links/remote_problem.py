"""Causes of a remote server's failure, and the errors of its calls.

No text holds a header's value, a token, or the userinfo or query of a URL. Text of the server is one
sanitized line. This module imports nothing of the mcp package.
"""

from __future__ import annotations

import enum
from typing import Any

from bridge.errors import CallError
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code
from native_host.system.program_name import command_name

_MAX_DETAIL_CHARS = 300


class Cause(enum.StrEnum):
    """Cause of a failure; each has one remedy."""

    NO_SUCH_HOST = "no-such-host"
    REFUSED = "refused"
    """No connection: refused, or no route."""
    TLS = "tls"
    """No trusted certificate for this host."""
    NO_TLS = "no-tls"
    """The server does not speak TLS."""
    UNAUTHORIZED = "unauthorized"
    """HTTP status 401."""
    FORBIDDEN = "forbidden"
    """HTTP status 403."""
    NOT_MCP = "not-mcp"
    TOO_SLOW = "too-slow"
    TOO_LARGE = "too-large"
    REDIRECT = "redirect"
    """Redirect to another origin, or one that changes the method."""
    HEADERS = "headers"
    """The configured headers cannot be read or sent."""
    COMMAND = "command"
    """The server's process cannot be started, or has ended."""
    BAD_LIST = "bad-list"
    SELF = "self"
    """Another mcpb behind more than one hop."""
    CLOSED = "closed"


_CODES = {Cause.TOO_SLOW: Code.TIMED_OUT, Cause.TOO_LARGE: Code.TOO_LARGE, Cause.SELF: Code.NOT_ALLOWED}
_WHAT = {
    Cause.TOO_SLOW: "did not answer in time",
    Cause.TOO_LARGE: "sent more than mcpb passes on",
    Cause.CLOSED: "went away",
}
_MAY_RECOVER = frozenset({Cause.NO_SUCH_HOST, Cause.REFUSED, Cause.TOO_SLOW, Cause.COMMAND, Cause.CLOSED})


class RemoteProblem(Exception):  # noqa: N818 the agreed name; it is also a state, not only an exception
    """A remote server cannot be used, or has not answered a request."""

    def __init__(
        self, cause: Cause, detail: str, *, handed: bool = False, is_session_lost: bool = False
    ) -> None:
        """Describe a failure.

        Args:
            cause: the cause.
            detail: what happened; it is cut to one printable line.
            handed: whether the request may have reached the server.
            is_session_lost: the server rejected the session id, not the request.
        """
        self.cause = cause
        self.detail = single_line(detail, _MAX_DETAIL_CHARS)
        self.handed = handed
        self.is_session_lost = is_session_lost
        super().__init__(self.detail)

    @property
    def may_recover(self) -> bool:
        """Whether waiting may help: nothing has to be changed in the configuration."""
        return self.cause in _MAY_RECOVER


class RemoteCallError(CallError):
    """A request of a remote server got no response."""

    def __init__(self, server: str, problem: RemoteProblem, unauthorized_remedy: str = "") -> None:
        what = f"The remote server {server} {_WHAT.get(problem.cause, 'cannot be used')}"
        code = _CODES.get(problem.cause, Code.GONE)
        then = f"To find out why, run `{command_name()} remote test {server}`."
        if problem.cause is Cause.UNAUTHORIZED and unauthorized_remedy:
            then = unauthorized_remedy
        super().__init__(code, problem.detail, handed=problem.handed, what=what, then=then)
        self.cause = problem.cause


class RemoteReportedError(CallError):
    """A remote server answered a request with a JSON-RPC error. `detail` is its sanitized message."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, single_line(message, _MAX_DETAIL_CHARS), handed=True)
        self.data = data
        """As the server wrote it: untrusted."""


def describe_exit(status: int) -> str:
    """Return how a process with this exit status has ended, for a sentence."""
    return f"exited with status {status}" if status >= 0 else f"was ended by signal {-status}"
