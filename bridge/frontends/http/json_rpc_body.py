"""Request body as one JSON-RPC message.

It looks at the envelope alone: `client_messages.py` validates the message itself.
"""

from __future__ import annotations

from http import HTTPStatus

from http_serving.error_responses import RequestRejected
from http_serving.request_body import body_too_large
from native_host.protocol import jsonrpc

MAX_HANDSHAKE_BYTES = 256 * 1024
"""Limit of an `initialize` request: each of up to a thousand sessions keeps its own."""


def decode_message(body: bytes) -> jsonrpc.Envelope:
    """Decode a request body.

    Raises:
        RequestRejected: the body is not one message (400), or an `initialize` over the limit (413).
    """
    if body.lstrip()[:1] == b"[":
        text = "batches are not supported: send one message per request"
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text)
    try:
        message = jsonrpc.decode(body)
    except jsonrpc.UndecodableError as error:
        raise RequestRejected(HTTPStatus.BAD_REQUEST, str(error), code=error.code) from None
    if message.method == "initialize" and len(body) > MAX_HANDSHAKE_BYTES:
        raise body_too_large(MAX_HANDSHAKE_BYTES)
    return message
