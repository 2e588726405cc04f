"""Causes for which browsers of a WebSocket proxy are not connected, each with its remedy.

`mcpb status` and `mcpb doctor` show them. No text has a token.
"""

from __future__ import annotations

import enum

from bridge.links.remote_problem import Cause, RemoteProblem
from native_host.protocol.untrusted_text import single_line
from native_host.system.problem import Problem
from native_host.system.program_name import format_command

_MAX_DETAIL_CHARS = 300


class ProxyCause(enum.StrEnum):
    """Cause; each has one remedy. Those of tokens end with a reason of the protocol."""

    ADDRESS = "address"
    """Nothing responds there, or something that is no WebSocket proxy."""
    TLS = "tls"
    CLOCK = "clock"
    """The proxy rejects the time of a token that was issued a moment ago."""
    BUSY = "busy"
    VERSION = "version"
    """The proxy speaks another version of the native wire."""
    LOST = "lost"
    """The connection has ended; another attempt follows."""
    LOGIN_FILE = "login-file"
    NOT_SIGNED_IN = "not-signed-in"
    NO_BROWSER = "no-browser"
    EXTENSION_OLD = "extension-old"
    TOKEN_MALFORMED = "token-malformed"  # noqa: S105  (no token)
    TOKEN_SIGNATURE = "token-signature"  # noqa: S105
    TOKEN_ALGORITHM = "token-algorithm"  # noqa: S105
    TOKEN_UNKNOWN_KEY = "token-unknown-key"  # noqa: S105
    TOKEN_ISSUER = "token-issuer"  # noqa: S105
    TOKEN_AUDIENCE = "token-audience"  # noqa: S105
    TOKEN_EXPIRED = "token-expired"  # noqa: S105
    TOKEN_NOT_YET_VALID = "token-not-yet-valid"  # noqa: S105
    TOKEN_USER = "token-user"  # noqa: S105
    TOKEN_SCOPE = "token-scope"  # noqa: S105
    TOKEN_CONNECTION_URL = "token-connection-url"  # noqa: S105
    TOKEN_REVOKED = "token-revoked"  # noqa: S105
    TOKEN_MISSING = "token-missing"  # noqa: S105
    TOKEN_ANOTHER_USER = "token-another-user"  # noqa: S105

    @property
    def is_of_token(self) -> bool:
        """Return whether the proxy has rejected a token that another one may replace."""
        return self.name.startswith("TOKEN_") or self is ProxyCause.CLOCK


_SIGN_IN = "Sign in again: {login}"
_OPERATOR = "Ask the operator of the proxy to correct {what} in its [[proxy.issuers]]."
_WHAT_AND_REMEDY = {
    ProxyCause.ADDRESS: (
        "it cannot be reached",
        "Check that it runs there, and the address; for another one: {login}",
    ),
    ProxyCause.TLS: (
        "no trusted TLS connection",
        (
            "Use a name that its certificate has. If the certificate is your own, set SSL_CERT_FILE to the "
            "file of its authority."
        ),
    ),
    ProxyCause.CLOCK: (
        "it rejects the time of a new token",
        "Set the clocks of this machine and of the proxy.",
    ),
    ProxyCause.BUSY: ("it takes no more connections", "Close clients or browsers that use it, or wait."),
    ProxyCause.VERSION: ("it has another version", "Update mcpb on both machines: install/install.sh"),
    ProxyCause.LOST: ("the connection has ended", "mcpb connects again."),
    ProxyCause.LOGIN_FILE: ("the stored sign-in cannot be used", "Correct that, or sign in again: {login}"),
    ProxyCause.NOT_SIGNED_IN: ("no user is signed in here", "Sign in: {login}"),
    ProxyCause.NO_BROWSER: (
        "no browser of yours is connected to it",
        (
            "Open the popup of the extension, enter this address under WebSocket proxy, and sign in as the "
            "same user."
        ),
    ),
    ProxyCause.EXTENSION_OLD: (
        "a browser there has an extension that is too old, or is not mcpb's",
        "Update the extension on its machine: {extension}",
    ),
    ProxyCause.TOKEN_MALFORMED: ("it cannot read the token", _SIGN_IN),
    ProxyCause.TOKEN_SIGNATURE: ("the signature of the token is wrong", _SIGN_IN),
    ProxyCause.TOKEN_ALGORITHM: (
        "it does not accept the algorithm of the token",
        _OPERATOR.format(what="algorithm and keys"),
    ),
    ProxyCause.TOKEN_UNKNOWN_KEY: (
        "it does not know the key of the token",
        "If the key was replaced, sign in again: {login}",
    ),
    ProxyCause.TOKEN_ISSUER: ("it does not trust the issuer of the token", _OPERATOR.format(what="issuer")),
    ProxyCause.TOKEN_AUDIENCE: ("the token is for another service", _OPERATOR.format(what="audience")),
    ProxyCause.TOKEN_EXPIRED: ("the token has expired", _SIGN_IN),
    ProxyCause.TOKEN_NOT_YET_VALID: (
        "the token is not valid yet",
        "Set the clock of the machine that has issued it, then sign in again: {login}",
    ),
    ProxyCause.TOKEN_USER: ("the token names no user", _OPERATOR.format(what="user_claim")),
    ProxyCause.TOKEN_SCOPE: (
        "the token is not one of an MCP client",
        "Use a token with the scope mcpb:client, or sign in: {login}",
    ),
    ProxyCause.TOKEN_CONNECTION_URL: (
        "the token is for another address",
        "Use the address that its connection_url states, or sign in here: {login}",
    ),
    ProxyCause.TOKEN_REVOKED: ("the sign-in was revoked", _SIGN_IN),
    ProxyCause.TOKEN_MISSING: ("it has received no token", _SIGN_IN),
    ProxyCause.TOKEN_ANOTHER_USER: ("the new token belongs to another user", _SIGN_IN),
}
_REMOTE = {
    Cause.TLS: ProxyCause.TLS,
    Cause.NO_TLS: ProxyCause.TLS,
    Cause.HEADERS: ProxyCause.LOGIN_FILE,
    Cause.CLOSED: ProxyCause.TOKEN_EXPIRED,
}


class ProxyProblem(Exception):  # noqa: N818  (it is also a state, not only an exception)
    """A proxy, or a browser at it, is not connected."""

    def __init__(self, cause: ProxyCause, detail: str = "") -> None:
        """Describe a failure; the detail is cut to one printable line."""
        self.cause = cause
        self.detail = single_line(detail, _MAX_DETAIL_CHARS)
        super().__init__(f"{cause}: {self.detail}")

    @classmethod
    def of_token(cls, reason: str, detail: str) -> ProxyProblem:
        """Return the problem of a rejected token, by the reason that the proxy states."""
        known = f"token-{reason}" in ProxyCause.__members__.values()
        return cls(ProxyCause(f"token-{reason}") if known else ProxyCause.TOKEN_MALFORMED, detail)

    @classmethod
    def of_sign_in(cls, problem: RemoteProblem) -> ProxyProblem:
        """Return the problem of a request to an authorization server, or of the stored sign-in."""
        return cls(_REMOTE.get(problem.cause, ProxyCause.ADDRESS), problem.detail)

    @property
    def what_in_general(self) -> str:
        """Return what is wrong, as a clause without the detail."""
        return _WHAT_AND_REMEDY[self.cause][0]

    @property
    def what(self) -> str:
        """Return what is wrong, as a clause."""
        what = self.what_in_general
        return f"{what} ({self.detail})" if self.detail else what

    @property
    def remedy(self) -> str:
        """Return what the user does, as a template with `{login}` or `{extension}` for a command."""
        return _WHAT_AND_REMEDY[self.cause][1]

    def describe(self, url: str) -> Problem:
        """Return a sentence about the proxy at an address, with its command."""
        commands = {"login": format_command(f"proxy login {url}"), "extension": format_command("extension")}
        used = [command for name, command in commands.items() if f"{{{name}}}" in self.remedy]
        return Problem(f"WebSocket proxy {url}: {self.what}. {self.remedy.format_map(commands)}", *used)
