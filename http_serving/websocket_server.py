"""Opening handshake of a WebSocket server. Rules: RFC 6455, 4.2.

The application checks the path, the Host header, the origin and its limits before, and responds to requests
that ask for no upgrade.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable
from http import HTTPStatus

import h11
from wsproto.utilities import generate_accept_token

from http_serving.error_responses import RequestRejected, method_not_allowed
from http_serving.http_connection import UpgradeRequest
from http_serving.websocket import WebSocketStream
from http_serving.websocket_protocol import DEFAULT_LIMITS, WebSocketLimits, WebSocketProtocol

_VERSION = b"13"
_KEY_BYTES = 16
_RESPONSE = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: %b\r\n\r\n"
)


def accept_websocket(
    request: UpgradeRequest,
    limits: WebSocketLimits = DEFAULT_LIMITS,
    refill: Callable[[], None] = lambda: None,
) -> WebSocketStream:
    """Accept a request. No offered extension or subprotocol is accepted, as RFC 6455 allows.

    Run its `run`, and call its `finish` at the end. See `WebSocketStream` for `refill`.

    Raises:
        RequestRejected: it is no valid opening handshake; no byte has been sent.
    """
    key = _check_request(request.head)
    protocol = WebSocketProtocol(is_client=False, limits=limits)
    protocol.feed(request.received)
    return WebSocketStream(
        request.stream, protocol, request.tls, _RESPONSE % generate_accept_token(key), refill
    )


def _check_request(head: h11.Request) -> bytes:
    """Return the key of a valid request."""
    if head.method != b"GET":
        # Without the query, which could have a token in it: the text is logged.
        path = head.target.decode().partition("?")[0]
        raise method_not_allowed(head.method.decode(), path, ["GET"])
    if head.http_version != b"1.1":
        raise _bad_request("a WebSocket needs HTTP/1.1")
    if _values(head, b"transfer-encoding") or any(each != b"0" for each in _values(head, b"content-length")):
        raise _bad_request("a request for a WebSocket has no body")
    if b"websocket" not in _tokens(head, b"upgrade") or b"upgrade" not in _tokens(head, b"connection"):
        raise _bad_request("a request for a WebSocket has Connection: Upgrade and Upgrade: websocket")
    if _values(head, b"sec-websocket-version") != [_VERSION]:
        text = "the version of WebSocket is not supported: use Sec-WebSocket-Version: 13"
        version = {"Sec-WebSocket-Version": _VERSION.decode()}
        raise RequestRejected(HTTPStatus.UPGRADE_REQUIRED, text, headers=version)
    keys = _values(head, b"sec-websocket-key")
    if len(keys) != 1 or not _is_key(keys[0]):
        raise _bad_request("Sec-WebSocket-Key is missing, repeated, or not 16 bytes in base64")
    return keys[0]


def _values(head: h11.Request, name: bytes) -> list[bytes]:
    return [value for each, value in head.headers if each == name]


def _tokens(head: h11.Request, name: bytes) -> set[bytes]:
    return {token.strip().lower() for value in _values(head, name) for token in value.split(b",")}


def _is_key(key: bytes) -> bool:
    try:
        return len(b64decode(key, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False


def _bad_request(text: str) -> RequestRejected:
    return RequestRejected(HTTPStatus.BAD_REQUEST, text)
