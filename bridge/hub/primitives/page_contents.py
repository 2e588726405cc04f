"""Contents that the server of a page returns for `resources/read`, or a remote one: validated, marked."""

from __future__ import annotations

import re
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from bridge.errors import CallError
from bridge.hub.primitives.page_marks import mark_meta
from bridge.hub.primitives.page_resource import CONTENT_TYPES, drop_malformed, is_uri
from bridge.hub.tool_definition import OWN_META
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code

MAX_RESOURCE_BYTES = 8 * 1024 * 1024
"""Default of `max_resource_bytes`: what is read ends up in a model."""
_BASE64 = re.compile(rb'"[A-Za-z0-9+/]*={0,2}"')


class ContentSource(Protocol):
    """What was read, and how its server's URIs are written for clients."""

    @property
    def own_uri(self) -> str:
        """The server's own URI."""
        ...

    @property
    def public_uri(self) -> str:
        """As the client named it."""
        ...

    @property
    def origin(self) -> str:
        """Origin of the page, or the remote server."""
        ...

    def name_uri(self, own_uri: str) -> str:
        """Return the public URI of another URI of the server."""
        ...


class _Result(msgspec.Struct):
    contents: list[dict[str, Raw]] = []


_results = msgspec.json.Decoder(_Result)
_uris = msgspec.json.Decoder(str)


def read_contents(payload: bytes, target: ContentSource, max_bytes: int) -> bytes:
    """Return an MCP ReadResourceResult without its `_meta`: `{"contents":[…]}`.

    Args:
        payload: the server's result, as JSON.
        target: what was read; URIs are written as the client wrote this one.
        max_bytes: of `payload`.

    Raises:
        CallError: it is too large or invalid.
    """
    check_size(payload, max_bytes)
    try:
        # Once: a text of 1 MB takes 1.1 ms to be decoded.
        shown = [_mark_content(each, target) for each in _results.decode(payload).contents]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _invalid(describe_problem(error)) from None
    if not shown:
        raise _invalid("it has no contents")
    return msgspec.json.encode({"contents": shown})


def check_size(result: bytes, max_bytes: int) -> None:
    """Check the size of what was read, before it ends up in a model.

    Raises:
        CallError: it has more than `max_bytes`, which is `max_resource_bytes` in config.toml.
    """
    if len(result) > max_bytes:
        detail = f"the resource has {len(result)} bytes, and max_resource_bytes in config.toml is {max_bytes}"
        raise CallError(Code.TOO_LARGE, detail, handed=True)


def _mark_content(members: dict[str, Raw], target: ContentSource) -> dict[str, Any]:
    _check_content(members)
    own_uri = _uris.decode(members.get("uri", b"null"))
    uri = _known_uri(own_uri, target)
    meta = mark_meta(members, target.origin)
    if uri != own_uri:
        meta[f"{OWN_META}uri"] = own_uri
    drop_malformed(members, CONTENT_TYPES)
    rest = {name: value for name, value in members.items() if name not in ("uri", "_meta")}
    return {"uri": uri, **rest, "_meta": meta}


def _check_content(members: dict[str, Raw]) -> None:
    text, blob = members.get("text"), members.get("blob")
    if (text is None) == (blob is None):
        raise _invalid("a content has either text or blob")
    if text is not None and not _is_string(text):
        raise _invalid("the text of a content is no text")
    if blob is not None and not _is_base64(blob):
        raise _invalid("the blob of a content is not base64")


def _known_uri(own_uri: str, target: ContentSource) -> str:
    """Return a URI of a result as the client knows it: that of its request, else the public one."""
    if own_uri == target.own_uri:
        return target.public_uri
    if not is_uri(own_uri):
        raise _invalid("a content has no valid uri")
    return target.name_uri(own_uri)


def _is_string(raw: Raw) -> bool:
    return bytes(memoryview(raw)[:1]) == b'"'


def _is_base64(raw: Raw) -> bool:
    text = bytes(raw)
    if b"\\" in text:  # a slash may be written as \/
        text = text.replace(b"\\/", b"/")
    return len(text) % 4 == 2 and _BASE64.fullmatch(text) is not None


def _invalid(why: str) -> CallError:
    return CallError(Code.INTERNAL_ERROR, f"the server's answer is no resource: {why}", handed=True)
