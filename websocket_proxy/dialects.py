"""Dialects of foreign peers: what differs between their messages and the specification.

Decoders return envelopes as the router expects them. Payloads stay bytes, except errors without a code.
Rules: decisions 74, 80 to 82, 92 and 103 in docs/PROXY_PROTOCOL.md.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from native_host.protocol import jsonrpc
from native_host.protocol.jsonrpc import Envelope, UndecodableError
from native_host.protocol.wire import Code
from websocket_proxy.protocol import ProxyCode, is_reserved

_NULL = b"null"


class ClientEnvelope(Envelope):
    """Message of a client, which may name its connection."""

    jsonrpc: str = ""
    connection_id: msgspec.Raw = msgspec.field(name="connectionId", default=msgspec.Raw(b""))

    @property
    def has_version(self) -> bool:
        """Return whether `jsonrpc` is there; requests need it."""
        return self.jsonrpc == "2.0"

    def is_for(self, connection_id: str) -> bool:
        """Return whether the message names this connection, or none."""
        named = bytes(self.connection_id)
        if not named or named == _NULL or named == b'"%b"' % connection_id.encode():
            return True
        try:
            return msgspec.json.decode(named, type=str) == connection_id
        except msgspec.DecodeError:
            return False


class DirectHandshake(msgspec.Struct, kw_only=True):
    """First message of an extension in the free mode of blueprint, which has no token."""

    type: Literal["handshake"]
    browser: str = ""
    version: str = ""


_client_envelopes = msgspec.json.Decoder(ClientEnvelope)
_envelopes = msgspec.json.Decoder(Envelope)
_direct_handshakes = msgspec.json.Decoder(DirectHandshake)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NO_RESULT = msgspec.Raw(
    b'{"code":%d,"message":"The extension answered without result and error","data":{"handed":true}}'
    % Code.INTERNAL_ERROR
)


def decode_client(body: bytes) -> ClientEnvelope:
    """Read one message of a client.

    Raises:
        UndecodableError: it is no JSON-RPC message; respond with its code and id null.
    """
    message = jsonrpc.decode_envelope(_client_envelopes, body)
    if not (message.method or message.is_response):
        raise UndecodableError(Code.INVALID_REQUEST, "neither a method nor a response")
    return message


def decode_extension(body: bytes) -> Envelope:
    """Read one message of an extension. `jsonrpc` may be missing, as in those of existing extensions.

    Raises:
        UndecodableError: it is no JSON-RPC message; respond with its code and id null.
    """
    message = jsonrpc.decode_envelope(_envelopes, body)
    if message.method:
        return message
    if not message.id:
        raise UndecodableError(Code.INVALID_REQUEST, "neither a method nor a response")
    if message.error:
        message.error = _normalize_error(message)
    if not (message.result or message.error):
        message.error = _NO_RESULT
    return message


def _normalize_error(response: Envelope) -> msgspec.Raw:
    """Return the error of a response with a code; empty if the error is null beside a result."""
    raw = bytes(response.error)
    if raw == _NULL:
        return msgspec.Raw(b"") if response.result else _NO_RESULT
    try:
        members = _members.decode(raw)
    except msgspec.DecodeError:  # a bare text, for instance
        members = {"message": response.error if raw.startswith(b'"') else _encode(raw.decode())}
    if "code" in members:
        return response.error
    members.pop("stack", None)
    members.setdefault("message", _encode(""))
    return _encode({"code": ProxyCode.SERVER_ERROR, **members})


def _encode(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def read_direct_handshake(body: bytes) -> DirectHandshake | None:
    """Return the first message of an extension in blueprint's free mode; None for any other message."""
    try:
        return _direct_handshakes.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def may_notify_clients(method: str) -> bool:
    """Return whether a notification of a foreign extension is forwarded to its clients.

    All are, `notifications/…` for instance, except those that a client could take for the proxy's, or for
    announcements of our own extension.
    """
    return not (is_reserved(method) or method.startswith("browser/"))
