"""What a request says in its headers: its revision of MCP, and since 2026-07-28 once more what its body says.

There the headers let who stands between route a request without reading it, so both have to agree
(MCP 2026-07-28, "Streamable HTTP"). Pure.
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
"""Methods whose `Mcp-Name` is this member of their params."""
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_BASE64 = ("=?base64?", "?=")


class Disagreement(NamedTuple):
    """A JSON-RPC error that says what is wrong."""

    code: int
    message: str
    data: Any = None


class Asked(NamedTuple):
    """A request whose headers and body agree."""

    tool: str
    """That is to be called; else empty."""
    arguments: bytes
    """Its arguments, as JSON."""


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
    """Whether a request is of the era that begins with a handshake; the header alone decides."""
    version = headers.get(VERSION)
    return version is None or version in HANDSHAKE_VERSIONS


def unsupported(headers: Headers) -> Disagreement | None:
    """That we do not serve the revision which a request of the other era names."""
    version = headers.get(VERSION, "")
    if version == STATELESS_VERSION:
        return None
    supported = [STATELESS_VERSION]
    data = {"supported": supported, "requested": version}
    text = f"unsupported protocol version: here are {', '.join([*HANDSHAKE_VERSIONS, *supported])}"
    return Disagreement(UNSUPPORTED_VERSION, text, data)


def read(headers: Headers, body: bytes) -> Asked | Disagreement:
    """What a request asks; or how its headers and its body disagree, if they do."""
    for name in (VERSION, METHOD, NAME):
        if len(headers.getlist(name)) > 1:
            return Disagreement(HEADER_MISMATCH, f"the header {name} is there more than once")
    try:
        request = _requests.decode(body)
    except (msgspec.DecodeError, RecursionError):
        text = f"params._meta has to be an object with {_VERSION_KEY} and {_CAPABILITIES_KEY}"
        return unsupported(headers) or Disagreement(Code.INVALID_PARAMS, text)
    params, meta = request.params, request.params.meta
    if meta.version is msgspec.UNSET or not bytes(meta.capabilities):
        text = f"params._meta needs both {_VERSION_KEY} and {_CAPABILITIES_KEY}"
        return unsupported(headers) or Disagreement(Code.INVALID_PARAMS, text)
    if found := _mismatch(headers, request) or unsupported(headers):
        return found
    tool = params.name if request.method == "tools/call" and isinstance(params.name, str) else ""
    return Asked(tool, bytes(params.arguments))


def _mismatch(headers: Headers, request: _Request) -> Disagreement | None:
    if headers.get(VERSION) != request.params.meta.version:
        return Disagreement(HEADER_MISMATCH, "MCP-Protocol-Version is not the version that _meta names")
    if headers.get(METHOD) != request.method:
        return Disagreement(HEADER_MISMATCH, "Mcp-Method is not the method of the body, or is missing")
    member = _NAMED_BY.get(request.method)
    named = getattr(request.params, member) if member else None
    if named is not None and _decoded(headers.get(NAME)) != named:
        return Disagreement(HEADER_MISMATCH, f"Mcp-Name is not the {member} of the body, or is missing")
    return None


def _decoded(value: str | None) -> str | None:
    """A header's value; what a header cannot carry is written in base64 between two marks."""
    begin, end = _BASE64
    if value is None or not (value.startswith(begin) and value.endswith(end)):
        return value
    text = value[len(begin) : -len(end)]
    try:
        decoded = base64.b64decode(text, validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode() == text else None
    except (binascii.Error, UnicodeDecodeError):
        return None
