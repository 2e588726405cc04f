"""MCP headers of a request: protocol version, and the copies of its method and name.

Proxies route requests by these headers, so they must agree with the body. Rules: MCP 2026-07-28, "Streamable
HTTP". Sans-IO.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple

import msgspec
from starlette.datastructures import Headers

from bridge.mcp_session.mcp_server import HANDSHAKE_VERSIONS, STATELESS_VERSION
from native_host.protocol.wire import Code

VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Member of params that `Mcp-Name` repeats, by method."""
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_BASE64 = ("=?base64?", "?=")


class HeaderError(NamedTuple):
    """JSON-RPC error of a request whose headers are wrong."""

    code: int
    message: str
    data: Any = None


class CheckedRequest(NamedTuple):
    """A request whose headers and body agree."""

    tool: str
    """Name of the tool to call; empty for other methods."""
    arguments: bytes


class _Meta(msgspec.Struct):
    version: Any = msgspec.field(name=_VERSION_KEY, default=msgspec.UNSET)
    capabilities: msgspec.Raw = msgspec.field(name=_CAPABILITIES_KEY, default=msgspec.Raw(b""))


class _Params(msgspec.Struct):
    meta: _Meta = msgspec.field(name="_meta")
    name: Any = None
    uri: Any = None
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Request(msgspec.Struct):
    method: str
    params: _Params


_requests = msgspec.json.Decoder(_Request)


def is_of_handshake(headers: Headers) -> bool:
    """Return whether a request belongs to the handshake era. The header alone decides."""
    version = headers.get(VERSION)
    return version is None or version in HANDSHAKE_VERSIONS


def check_version(headers: Headers) -> HeaderError | None:
    """Return an error if the header names an unsupported revision outside the handshake era."""
    version = headers.get(VERSION, "")
    if version == STATELESS_VERSION:
        return None
    supported = [STATELESS_VERSION]
    data = {"supported": supported, "requested": version}
    versions = ", ".join([*HANDSHAKE_VERSIONS, *supported])
    text = f"the protocol version is not supported: use one of {versions}"
    return HeaderError(UNSUPPORTED_VERSION, text, data)


def read_headers(headers: Headers, body: bytes) -> CheckedRequest | HeaderError:
    """Compare headers and body; return what is to be called, or the first disagreement."""
    for name in (VERSION, METHOD, NAME):
        if len(headers.getlist(name)) > 1:
            return HeaderError(HEADER_MISMATCH, f"the header {name} occurs more than once")
    try:
        request = _requests.decode(body)
    except (msgspec.DecodeError, RecursionError):
        text = f"params._meta must be an object with {_VERSION_KEY} and {_CAPABILITIES_KEY}"
        return check_version(headers) or HeaderError(Code.INVALID_PARAMS, text)
    params, meta = request.params, request.params.meta
    if meta.version is msgspec.UNSET or not bytes(meta.capabilities):
        text = f"params._meta needs both {_VERSION_KEY} and {_CAPABILITIES_KEY}"
        return check_version(headers) or HeaderError(Code.INVALID_PARAMS, text)
    if error := _find_mismatch(headers, request) or check_version(headers):
        return error
    tool = params.name if request.method == "tools/call" and isinstance(params.name, str) else ""
    return CheckedRequest(tool, bytes(params.arguments))


def _find_mismatch(headers: Headers, request: _Request) -> HeaderError | None:
    if headers.get(VERSION) != request.params.meta.version:
        return HeaderError(HEADER_MISMATCH, "MCP-Protocol-Version differs from the version in params._meta")
    if headers.get(METHOD) != request.method:
        return HeaderError(HEADER_MISMATCH, "Mcp-Method is missing or differs from the method in the body")
    member = _NAMED_BY.get(request.method)
    named = getattr(request.params, member) if member else None
    if named is not None and _decode_value(headers.get(NAME)) != named:
        return HeaderError(
            HEADER_MISMATCH, f"Mcp-Name is missing or differs from params.{member} in the body"
        )
    return None


def _decode_value(value: str | None) -> str | None:
    """Decode a value in base64, which marks at both ends announce; None if it is not valid."""
    begin, end = _BASE64
    if value is None or not (value.startswith(begin) and value.endswith(end)):
        return value
    text = value[len(begin) : -len(end)]
    try:
        decoded = base64.b64decode(text, validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode() == text else None
    except (binascii.Error, UnicodeDecodeError):
        return None
