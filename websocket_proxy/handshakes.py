"""Openings of extensions and clients: authentication, renewal and expiry of tokens. Sans-IO.

A handshake returns steps for its owner to take in order. It verifies no token itself: after a `Verify` step
the owner reports `on_verified` or `on_rejected`. `now_s` is any clock that only goes forward; the times of
verified tokens are on the same clock. Rules: docs/PROXY_PROTOCOL.md, "Authentication".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from native_host.protocol import jsonrpc, wire
from native_host.protocol.jsonrpc import Envelope, UndecodableError
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code
from native_host.relay.request_ids import format_id
from websocket_proxy import protocol
from websocket_proxy.dialects import ClientEnvelope, decode_client, decode_extension, read_direct_handshake
from websocket_proxy.limits import KIB, Limits
from websocket_proxy.protocol import CloseCode, Credentials, Handshake, ProxyCode, RejectionReason

_credentials = msgspec.json.Decoder(Credentials)
_handshakes = msgspec.json.Decoder(Handshake)
_REPEAT_S = 30.0
"""Seconds between two requests for a new token: an extension may answer with its old one for a while."""
_MISSING = "The message has no accessToken: sign in, and send the token that you receive."
_OTHER_USER = "The new token belongs to another user: open a new connection with it."


class VerifiedToken(NamedTuple):
    """Content of a token whose verification succeeded."""

    user_id: str
    """Unique for the issuer."""
    expires_at_s: float
    """End of the token, tolerance for clocks included; infinite: it does not end."""
    issuer: str = ""
    tolerance_s: float = 0.0
    """Part of `expires_at_s` that the token itself does not state."""

    @property
    def owner(self) -> str:
        """Key of the user: the same user id of two issuers stands for two users."""
        return msgspec.json.encode([self.issuer, self.user_id]).decode()


class Rejection(NamedTuple):
    """Failed verification of a token."""

    reason: RejectionReason
    detail: str
    """One sentence: what was expected, and what to do."""


class Send(NamedTuple):
    """Step: send a message to the peer."""

    body: bytes


class Verify(NamedTuple):
    """Step: verify a token, then report the outcome. Handle nothing else of a peer before it is admitted."""

    token: str


class AdmitExtension(NamedTuple):
    """Step: the extension is authenticated."""

    token: VerifiedToken
    credentials: Credentials


class AdmitClient(NamedTuple):
    """Step: the client is authenticated; respond to its request."""

    token: VerifiedToken
    handshake: Handshake
    raw_id: bytes


class Renew(NamedTuple):
    """Step: the client's new token is accepted; respond to its request."""

    raw_id: bytes


class Close(NamedTuple):
    """Final step: close the socket."""

    code: CloseCode
    reason: str
    rejection: RejectionReason | None = None
    """Check of the token that failed."""


Step = Send | Verify | AdmitExtension | AdmitClient | Renew | Close


class _Opening:
    """Limits before authentication, and the end of the token after it."""

    def __init__(self, limits: Limits, now_s: float) -> None:
        self._limits = limits
        self._deadline_s = now_s + limits.authentication_s
        self._messages = 0
        self._token: VerifiedToken | None = None
        self._is_verifying = False
        self._is_closed = False

    @property
    def next_timer_s(self) -> float:
        """Time at which `on_timer` has something to do; infinite: never."""
        return math.inf if self._is_closed else self._end_s

    @property
    def _end_s(self) -> float:
        if self._token:
            return self._token.expires_at_s
        return math.inf if self._is_verifying else self._deadline_s

    def on_timer(self, now_s: float) -> list[Step]:
        """Close a socket that is not authenticated in time, or whose token has expired."""
        if self._is_closed or now_s < self._end_s:
            return []
        if self._token:
            return self._close("Token expired")
        return self._close(f"Not authenticated within {self._limits.authentication_s:g} s")

    def _count(self, body: bytes) -> list[Step]:
        """Count a message before authentication; close if it is one too many, or too long."""
        self._messages += 1
        if len(body) > (most := self._limits.unauthenticated_message_bytes):
            text = f"Message over {most // KIB} KiB before authentication"
            return self._close(text, CloseCode.MESSAGE_TOO_BIG)
        if self._messages > (most := self._limits.unauthenticated_messages):
            return self._close(f"More than {most} messages before authentication")
        return []

    def _reject(self, rejection: Rejection) -> list[Step]:
        self._is_closed = True
        text = f"Invalid token: {rejection.reason}"
        return [Close(CloseCode.POLICY_VIOLATION, text, rejection.reason)]

    def _close(self, reason: str, code: CloseCode = CloseCode.POLICY_VIOLATION) -> list[Step]:
        self._is_closed = True
        return [Close(code, reason)]

    def _renew(self, token: VerifiedToken) -> Rejection | None:
        """Replace the token by a newer one of the same user."""
        if self._token and token.owner != self._token.owner:
            return Rejection(RejectionReason.ANOTHER_USER, _OTHER_USER)
        self._token = token
        return None


class ExtensionHandshake(_Opening):
    """Opening of an extension, which is asked for its credentials, and asked again before they expire."""

    def __init__(self, limits: Limits, now_s: float, *, direct_user: VerifiedToken | None = None) -> None:
        """Begin.

        Args:
            limits: limits of the node.
            now_s: the time.
            direct_user: user of the extension if it connected without a token, in blueprint's free mode.
        """
        super().__init__(limits, now_s)
        self._direct_user = direct_user
        self._asked = 0
        """Number of the latest `authenticate`."""
        self._is_asked = False
        """The latest `authenticate` has no response yet."""
        self._ask_at_s = math.inf
        self._credentials = Credentials()

    @property
    def next_timer_s(self) -> float:
        """Time at which `on_timer` has something to do; infinite: never."""
        return math.inf if self._is_closed else min(self._end_s, self._ask_at_s)

    def begin(self) -> list[Step]:
        """Ask for credentials; wait for the first message in blueprint's free mode."""
        return [] if self._direct_user else self._ask()

    def on_message(self, body: bytes) -> list[Step]:
        """Handle a message before the extension is admitted."""
        if self._is_closed:
            return []
        if steps := self._count(body):
            return steps
        if self._direct_user:
            return self._open_direct(self._direct_user, body)
        try:
            message = decode_extension(body)
        except UndecodableError as error:
            return [Send(jsonrpc.failure(jsonrpc.NULL_ID, error.code, str(error)))]
        if message.method and not message.id:
            return []  # some extensions send a notification before they are asked
        if message.method or not self._is_awaited(message):
            return self._close("Not authenticated")
        return self._read_credentials(message)

    def on_response(self, message: Envelope, now_s: float) -> list[Step]:
        """Handle a response to a later `authenticate`."""
        if self._is_closed or not self._is_awaited(message):
            return []
        self._ask_at_s = now_s + _REPEAT_S
        return self._read_credentials(message)

    def on_verified(self, token: VerifiedToken, now_s: float) -> list[Step]:
        """Admit the extension, or accept its new token."""
        if self._is_closed or not self._is_verifying:
            return []
        self._is_verifying = False
        is_first = self._token is None
        if rejection := self._renew(token):
            return self._reject(rejection)
        earliest_s = now_s if is_first else now_s + _REPEAT_S
        expires_at_s = token.expires_at_s - token.tolerance_s
        self._ask_at_s = max(expires_at_s - self._limits.renewal_s, earliest_s)
        return [AdmitExtension(token, self._credentials)] if is_first else []

    def on_rejected(self, rejection: Rejection) -> list[Step]:
        """Close: the token is invalid."""
        if self._is_closed or not self._is_verifying:
            return []
        return self._reject(rejection)

    def on_timer(self, now_s: float) -> list[Step]:
        """Ask for a new token, or close."""
        if steps := super().on_timer(now_s):
            return steps
        if self._is_closed or now_s < self._ask_at_s:
            return []
        self._ask_at_s = now_s + _REPEAT_S
        return [] if self._is_verifying else self._ask()

    def _ask(self) -> list[Step]:
        self._asked += 1
        self._is_asked = True
        return [Send(jsonrpc.request(b'"proxy:%d"' % self._asked, "authenticate", b"{}"))]

    def _is_awaited(self, message: Envelope) -> bool:
        return self._is_asked and bytes(message.id) == b'"proxy:%d"' % self._asked

    def _read_credentials(self, message: Envelope) -> list[Step]:
        self._is_asked = False
        try:
            self._credentials = _credentials.decode(bytes(message.result) or b"{}")
        except msgspec.DecodeError:
            return self._reject(Rejection(RejectionReason.MALFORMED, "")) if self._token is None else []
        if self._credentials.token:
            self._is_verifying = True
            return [Verify(self._credentials.token)]
        # A signed-in extension without a new token has until the end of the old one.
        return self._reject(Rejection(RejectionReason.MISSING, "")) if self._token is None else []

    def _open_direct(self, user: VerifiedToken, body: bytes) -> list[Step]:
        handshake = read_direct_handshake(body)
        if handshake is None:
            return self._close("Not authenticated")
        self._token = user
        return [AdmitExtension(user, Credentials(name=handshake.browser))]


class ClientHandshake(_Opening):
    """Opening of a client, which sends `mcp_handshake`, and again for a new token."""

    def __init__(self, limits: Limits, now_s: float) -> None:
        super().__init__(limits, now_s)
        self._raw_id = b""
        self._handshake = Handshake()

    def on_message(self, body: bytes) -> list[Step]:
        """Handle a message before the client is admitted."""
        if self._is_closed:
            return []
        if steps := self._count(body):
            return steps
        try:
            message = decode_client(body)
        except UndecodableError as error:
            return [Send(jsonrpc.failure(jsonrpc.NULL_ID, error.code, str(error)))]
        if not message.is_request:
            return []
        if problem := find_request_problem(message):
            return [Send(problem)]
        if message.method != "mcp_handshake":
            text = "Not authenticated"
            return [Send(jsonrpc.failure(bytes(message.id), ProxyCode.SERVER_ERROR, text))]
        return self.on_request(message)

    def on_request(self, message: Envelope) -> list[Step]:
        """Handle `mcp_handshake`, the first or a later one."""
        raw_id = bytes(message.id)
        if self._is_closed or self._is_verifying:
            return []
        try:
            self._handshake = _handshakes.decode(bytes(message.params) or b"{}")
        except msgspec.DecodeError as error:
            text = f"mcp_handshake: {describe_problem(error)}"
            return [Send(jsonrpc.failure(raw_id, Code.INVALID_PARAMS, text))]
        self._raw_id = raw_id
        if not self._handshake.token:
            return self._reject(Rejection(RejectionReason.MISSING, _MISSING))
        self._is_verifying = True
        return [Verify(self._handshake.token)]

    def on_verified(self, token: VerifiedToken) -> list[Step]:
        """Admit the client, or accept its new token."""
        if self._is_closed or not self._is_verifying:
            return []
        self._is_verifying = False
        is_first = self._token is None
        if self._handshake.wire not in (0, wire.WIRE_VERSION):
            return self._reject_wire()
        if rejection := self._renew(token):
            return self._reject(rejection)
        return [AdmitClient(token, self._handshake, self._raw_id) if is_first else Renew(self._raw_id)]

    def on_rejected(self, rejection: Rejection) -> list[Step]:
        """Respond with the failed check, and close."""
        if self._is_closed or not self._is_verifying:
            return []
        return self._reject(rejection)

    def _reject(self, rejection: Rejection) -> list[Step]:
        error = jsonrpc.failure(
            self._raw_id,
            ProxyCode.SERVER_ERROR,
            "Authentication failed: Invalid token",
            reason=rejection.reason,
            detail=rejection.detail,
        )
        return [Send(error), *super()._reject(rejection)]

    def _reject_wire(self) -> list[Step]:
        theirs, ours = self._handshake.wire, wire.WIRE_VERSION
        old_end = "the client" if theirs < ours else "the proxy"
        text = (
            f"The client speaks wire version {theirs}, the WebSocket proxy speaks {ours}: update {old_end}."
        )
        error = wire.HostError(code=Code.WIRE_VERSION, message=text)
        return [
            Send(jsonrpc.failure(self._raw_id, Code.WIRE_VERSION, text)),
            Send(jsonrpc.notification("host/error", error)),
            *self._close("Another wire version"),
        ]


def find_request_problem(message: ClientEnvelope) -> bytes | None:
    """Return the error response to a request with an invalid id or without `jsonrpc`; None: it is valid."""
    raw_id = bytes(message.id)
    if not jsonrpc.is_id(raw_id):
        text = f"an id is a string or a number of at most {jsonrpc.ID_BYTES} bytes"
        return jsonrpc.failure(jsonrpc.NULL_ID, Code.INVALID_REQUEST, text)
    if raw_id.startswith(b'"') and format_id(raw_id).startswith(protocol.RESERVED_ID_PREFIXES):
        text = f"an id must not begin with {' or '.join(protocol.RESERVED_ID_PREFIXES)}"
        return jsonrpc.failure(raw_id, Code.INVALID_REQUEST, text)
    if not message.has_version:
        return jsonrpc.failure(raw_id, Code.INVALID_REQUEST, 'a request needs "jsonrpc": "2.0"')
    return None
