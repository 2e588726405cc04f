"""JSON-RPC envelopes: encoder and decoder that leave payloads as bytes.

Sans-IO. What is written here is always valid JSON-RPC 2.0; what is read is judged by `decode`, whose error
says which code to answer with.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code, Wire

NULL_ID = b"null"
ID_BYTES = 1024
"""Of an id as JSON text: an answer must fit into a frame together with the id that its asker chose."""


class Envelope(msgspec.Struct):
    """One message. An absent member is empty bytes; `id` and `for_` are JSON text, quotes included."""

    method: str = ""
    id: msgspec.Raw = msgspec.Raw(b"")
    params: msgspec.Raw = msgspec.Raw(b"")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")
    for_: msgspec.Raw = msgspec.field(name="for", default=msgspec.Raw(b""))

    @property
    def is_request(self) -> bool:
        """Return whether it expects a response."""
        return bool(self.method and self.id)

    @property
    def is_response(self) -> bool:
        """Return whether it answers a request."""
        return not self.method and bool(self.id and (self.result or self.error))


AnyEnvelope = TypeVar("AnyEnvelope", bound=Envelope)


class Error(Wire, kw_only=True):
    """A JSON-RPC error object. `data.handed` is false only when nothing can have reached the page."""

    code: int
    message: str
    data: dict[str, object] = {}


class UndecodableError(ValueError):
    """The peer sent a body that is not a JSON-RPC message; answer with `code`."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


_envelopes = msgspec.json.Decoder(Envelope)
_encode = msgspec.json.encode


def decode(body: bytes) -> Envelope:
    """Read one body.

    Raises:
        UndecodableError: not UTF-8, not JSON, nested too deeply to read, or not a JSON-RPC object.
    """
    if not body.isascii():
        _check_utf8(body)
    envelope = decode_envelope(_envelopes, body)
    if not (envelope.method or envelope.is_response):
        raise UndecodableError(Code.INVALID_REQUEST, "neither a method nor an answer")
    return envelope


def decode_envelope(decoder: msgspec.json.Decoder[AnyEnvelope], body: bytes) -> AnyEnvelope:
    """Read one body of valid UTF-8 with a decoder of an envelope; the members are not judged.

    Raises:
        UndecodableError: not JSON, nested too deeply to read, or not an object with the members' types.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise UndecodableError(
            Code.INVALID_REQUEST, f"not a JSON-RPC message: {describe_problem(error)}"
        ) from None
    except msgspec.DecodeError as error:
        raise UndecodableError(Code.PARSE_ERROR, f"not JSON: {describe_problem(error)}") from None
    except RecursionError:
        raise UndecodableError(Code.PARSE_ERROR, "nested too deeply to read") from None


def _is_utf8(body: bytes) -> bool:
    try:
        return body.isascii() or bool(body.decode())
    except UnicodeDecodeError:
        return False


def _check_utf8(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError(Code.PARSE_ERROR, f"not UTF-8 at byte {error.start}") from None


def is_id(raw: bytes) -> bool:
    """Return whether JSON text can be a request id: a string or number within the length limit."""
    if len(raw) > ID_BYTES:
        return False
    return raw[:1] in (b'"', b"-") or raw[:1].isdigit()


def request(raw_id: bytes, method: str, params: bytes) -> bytes:
    """Encode a request; `raw_id` is JSON text."""
    return b"".join(request_parts(raw_id, method, params))


def request_parts(raw_id: bytes, method: str, params: bytes) -> tuple[bytes, bytes, bytes]:
    """Encode a request in parts; the middle one may be long and is not copied."""
    head = b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":' % (raw_id, _encode(method))
    return head, params or b"{}", b"}"


def notification(method: str, params: Wire | bytes) -> bytes:
    """Encode a notification."""
    raw = params if isinstance(params, bytes) else _encode(params)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_encode(method), raw or b"{}")


def address_to(message: Envelope, raw_for: bytes) -> bytes:
    """Encode a message of the extension to one client, with the client's own request id in `for`."""
    head = b'"id":%b,' % message.id if message.id else b""
    return b'{"jsonrpc":"2.0",%b"method":%b,"for":%b,"params":%b}' % (
        head, _encode(message.method), raw_for, message.params or b"{}",
    )  # fmt: skip


def answer(raw_id: bytes, message: Envelope) -> tuple[bytes, bytes, bytes]:
    """Encode a response under another id, in parts; the middle one may be long and is not copied."""
    member, value = (b"error", message.error) if message.error else (b"result", message.result)
    return b'{"jsonrpc":"2.0","id":%b,"%b":' % (raw_id, member), value, b"}"


def result(raw_id: bytes, raw_result: bytes) -> bytes:
    """Encode a successful response."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (raw_id, raw_result)


_BEFORE_ID, _BEFORE_RESULT = b'{"jsonrpc":"2.0","id":', b',"result":'


def read_result(body: bytes) -> tuple[bytes, bytes] | None:
    """Return id and result of a body that `answer` has encoded; None for others, which need `decode`.

    For callers with integer ids that decode the result: its JSON is unchecked.
    """
    end = body.find(_BEFORE_RESULT, len(_BEFORE_ID), len(_BEFORE_ID) + ID_BYTES)
    if end < 0:
        return None
    raw_id = body[len(_BEFORE_ID) : end]
    if not (raw_id.isdigit() and body.startswith(_BEFORE_ID) and body.endswith(b"}") and _is_utf8(body)):
        return None
    return raw_id, body[end + len(_BEFORE_RESULT) : -1]


def failure(raw_id: bytes, code: int, text: str, *, handed: bool = False, **data: object) -> bytes:
    """Encode an error response; `handed` states whether the page may have received the call."""
    error = Error(code=code, message=text, data={"handed": handed, **data})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (raw_id or NULL_ID, _encode(error))
