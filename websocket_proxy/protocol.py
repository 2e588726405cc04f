"""WebSocket proxy protocol: every message, code, close code and reason, as types.

`native_host.protocol.jsonrpc` encodes and decodes the envelopes. docs/PROXY_PROTOCOL.md describes the
messages with examples; docs/proxy.schema.json is generated from `METHODS`.
"""

from __future__ import annotations

import enum
from typing import Annotated, Literal

import msgspec

from native_host.protocol import jsonrpc, wire
from native_host.protocol.wire import Wire

PROTOCOL_VERSION = 1
EXTENSION_PATH = "/extension"
CLIENT_PATH = "/mcp"

EXTENSION_PREFIX = "ext"
CLIENT_PREFIX = "mcp"
CONNECTION_PREFIX = "conn"
"""Prefixes of the ids that the proxy makes: `<prefix>-<uuid>`."""
PROXY_ID_PREFIX = "proxy:"
"""Of the ids of the proxy's own requests."""
RESERVED_ID_PREFIXES = (PROXY_ID_PREFIX, "ext:")
"""Of request ids that a client may not use."""


class ProxyCode(enum.IntEnum):
    """Error codes beside those of the native wire (`native_host.protocol.wire.Code`)."""

    SERVER_ERROR = -32000
    """Not authenticated, no such extension, or not connected; and an extension's error without a code."""
    ALREADY_CONNECTED = -32001
    """In a response to `connect`. In a forwarded response, -32001 is the extension's."""


class CloseCode(enum.IntEnum):
    """WebSocket close codes."""

    GOING_AWAY = 1001
    """The node shuts down, or three pings are unanswered."""
    UNSUPPORTED_DATA = 1003
    """A binary message."""
    INVALID_UTF8 = 1007
    POLICY_VIOLATION = 1008
    """Authentication failed, token expired or revoked, too many rejected messages, a peer that reads too
    slowly, or too many bytes of a user in the proxy."""
    MESSAGE_TOO_BIG = 1009
    INTERNAL_ERROR = 1011
    TRY_AGAIN_LATER = 1013
    """A limit of sockets is reached."""
    REPLACED = 4001
    """A newer connection of the same browser took its place."""


class RejectionReason(enum.StrEnum):
    """Check of a token that failed: `data.reason` of the error, and the end of the close reason."""

    MALFORMED = "malformed"
    SIGNATURE = "signature"
    ALGORITHM = "algorithm"
    UNKNOWN_KEY = "unknown-key"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    USER = "user"
    SCOPE = "scope"
    CONNECTION_URL = "connection-url"
    REVOKED = "revoked"
    MISSING = "missing"
    ANOTHER_USER = "another-user"


class DisconnectReason(enum.StrEnum):
    """`reason` of `disconnected`."""

    EXTENSION_CLOSED = "Extension closed"
    EXTENSION_REPLACED = "Extension replaced"
    CONNECTION_LOST = "Connection lost"
    SHUTDOWN = "Proxy is going away"
    CLIENT_CLOSED = "MCP client closed"
    CLIENT_DISCONNECTED = "MCP client disconnected"


class Role(enum.StrEnum):
    """Role of a peer, as the scope of its token states it."""

    EXTENSION = "mcpb:extension"
    CLIENT = "mcpb:client"


class Message(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Base of params and results: names as in Python, defaults left out, unknown members ignored."""


class Nothing(Message, kw_only=True):
    """`{}`."""


# ── Authentication ──────────────────────────────────────────────────────────────────────────────────────────


class TokenBearer(Message, kw_only=True):
    """Part of an opening that has the token, under one of two names."""

    access_token: str = msgspec.field(default="", name="accessToken")
    access_token_alias: str = msgspec.field(default="", name="access_token")
    """The same, as most implementations name it. mcpb sends `accessToken`."""

    @property
    def token(self) -> str:
        """Return the token; empty: the message has no token."""
        return self.access_token or self.access_token_alias


class Credentials(TokenBearer, kw_only=True):
    """Answer of an extension to `authenticate`."""

    name: str = ""
    """Name of the browser, for users."""
    client_id: str = ""
    """Id of the profile, which makes the extension's id stable; empty: the id is random."""


class AuthenticatedNotice(Message, kw_only=True):
    """Confirmation to an extension."""

    user_id: str
    extension_id: str
    wire: int
    """Version of the native wire; for our own extension."""
    version: str
    """Version of the proxy; for our own extension."""


class Handshake(TokenBearer, kw_only=True):
    """First message of a client."""

    client_id: str = ""
    """Name for display, if `client` is absent."""
    client: wire.ClientInfo | None = None
    wire: int = 0
    """1: the client speaks the native wire. 0: it is foreign."""


class HandshakeResult(Message, kw_only=True):
    """Confirmation to a client."""

    authenticated: bool
    user_id: str
    mcp_client_id: str


# ── Control ─────────────────────────────────────────────────────────────────────────────────────────────────


class ListedExtension(Message, kw_only=True):
    """A connected extension of the client's user."""

    id: str
    name: str
    connected: bool
    """Always true: disconnected extensions are not remembered."""
    wire: int = 0
    """1: the extension speaks the native wire."""


class ExtensionList(Message, kw_only=True):
    """Extensions of the client's user."""

    extensions: list[ListedExtension]
    incomplete: bool = False
    """True if a node did not answer."""


class Connect(Message, kw_only=True):
    """Choice of an extension."""

    extension_id: str


class ConnectResult(Message, kw_only=True):
    """Confirmation of a connection."""

    connection_id: str
    extension_id: str
    extension_name: str


class DisconnectResult(Message, kw_only=True):
    """Confirmation of the end of a connection, also if there was none."""

    disconnected: bool


class Status(Message, kw_only=True):
    """State of a socket."""

    connected: bool
    """False if the node is about to close the socket."""
    peer_count: int
    """Connections of an extension; 1 or 0 for a client."""
    timestamp: str
    """RFC 3339 in UTC."""


class DisconnectNotice(Message, kw_only=True):
    """End of a connection."""

    connection_id: str
    reason: DisconnectReason


# ── Requests that our extension answers to connections without sessions ─────────────────────────────────────


class SelectTab(Wire, kw_only=True):
    """Make a tab the connection's current one; one of the two members names it."""

    tab_id: int | None = None
    tab_index: int | None = None
    activate: bool = False


class AimedInput(Wire, kw_only=True):
    """Where input goes: an element, or a point in CSS pixels of the viewport."""

    tab_id: int | None = None
    """None: the current tab."""
    selector: str = ""
    x: float | None = None
    y: float | None = None


class Click(AimedInput, kw_only=True):
    """Click with the mouse."""

    button: Literal["left", "middle", "right"] = "left"
    click_count: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1


class Hover(AimedInput, kw_only=True):
    """Move the mouse."""


class TypeText(Wire, kw_only=True):
    """Type text into an element, or into the focused one."""

    tab_id: int | None = None
    """None: the current tab."""
    text: str
    selector: str = ""
    submit: bool = False
    """Press Enter afterwards."""


class TakeScreenshot(Wire, kw_only=True):
    """Take a picture of a tab."""

    tab_id: int | None = None
    """None: the current tab."""
    format: Literal["png", "jpeg"] = "png"
    quality: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    """Of a JPEG."""
    full_page: bool = False


class Screenshot(Wire, kw_only=True):
    """A picture."""

    data: str
    """Base64."""
    mime_type: str
    width: int
    height: int


# ── The whole list ──────────────────────────────────────────────────────────────────────────────────────────

Route = Literal["proxy → extension", "proxy → client", "proxy → all", "client → proxy", "client → extension"]


class Method(msgspec.Struct, frozen=True):
    """One message: its route and its types. `result` is set for requests only."""

    name: str
    route: Route
    params: type[msgspec.Struct]
    result: type[msgspec.Struct] | None = None


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("authenticate", "proxy → extension", Nothing, Credentials),
        Method("authenticated", "proxy → extension", AuthenticatedNotice),
        Method("mcp_handshake", "client → proxy", Handshake, HandshakeResult),
        Method("list_extensions", "client → proxy", Nothing, ExtensionList),
        Method("connect", "client → proxy", Connect, ConnectResult),
        Method("disconnect", "client → proxy", Nothing, DisconnectResult),
        Method("status", "proxy → all", Status),
        Method("disconnected", "proxy → all", DisconnectNotice),
        Method("extensions", "proxy → client", ExtensionList),
        Method("selectTab", "client → extension", SelectTab, wire.TabResult),
        Method("click", "client → extension", Click, Nothing),
        Method("hover", "client → extension", Hover, Nothing),
        Method("type", "client → extension", TypeText, Nothing),
        Method("screenshot", "client → extension", TakeScreenshot, Screenshot),
    )
}
"""Messages of this protocol. Between our own ends those of the native wire pass as well."""
CONTROL_METHODS = frozenset(name for name, method in METHODS.items() if method.route == "client → proxy")
"""Requests of a client that the proxy answers."""
PROXY_METHODS = frozenset(name for name, method in METHODS.items() if method.route.startswith("proxy"))
"""Messages that only the proxy sends."""
_NATIVE_PREFIXES = ("host/", "bridge/")


def is_reserved(method: str) -> bool:
    """Return whether neither a client may request a method, nor an extension notify clients of it.

    A peer could take such a message for one of the proxy's own.
    """
    return method in PROXY_METHODS or method.startswith(_NATIVE_PREFIXES)


def notification(method: str, params: Message) -> bytes:
    """Encode a notification of the proxy."""
    return jsonrpc.notification(method, msgspec.json.encode(params))


def result(raw_id: bytes, value: Message) -> bytes:
    """Encode a successful response of the proxy."""
    return jsonrpc.result(raw_id, msgspec.json.encode(value))
