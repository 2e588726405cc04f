"""Contents that a page's server returns for `resources/read`: validated, with public URIs, marked."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from bridge.errors import CallError
from bridge.hub.primitives.page_marks import mark_meta
from bridge.hub.primitives.page_resource import CONTENT_TYPES, drop_malformed, is_uri
from bridge.hub.primitives.resource_catalog import ResourceTarget, public_uri
from bridge.hub.tool_definition import OWN_META
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code

MAX_RESOURCE_BYTES = 8 * 1024 * 1024
"""Default of `max_resource_bytes`: what is read ends up in a model."""
_BASE64 = re.compile(rb'"[A-Za-z0-9+/]*={0,2}"')


class _Contents(msgspec.Struct, rename="camel"):
    uri: str
    text: Raw | UnsetType = UNSET
    blob: Raw | UnsetType = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.text, UnsetType) == isinstance(self.blob, UnsetType):
            raise ValueError("a content has either text or blob")
        if isinstance(self.text, Raw) and not _is_string(self.text):
            raise ValueError("the text of a content is no text")
        if isinstance(self.blob, Raw) and not _is_base64(self.blob):
            raise ValueError("the blob of a content is not base64")


_members = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Raw])
_contents = msgspec.json.Decoder(_Contents)


def read_contents(payload: bytes, target: ResourceTarget, max_bytes: int) -> bytes:
    """Return an MCP ReadResourceResult without its `_meta`: `{"contents":[…]}`.

    Args:
        payload: the page's result, as JSON.
        target: what was read; URIs are written as the client wrote this one.
        max_bytes: of `payload`.

    Raises:
        CallError: it is too large or invalid.
    """
    check_size(payload, max_bytes)
    try:
        given = _list.decode(_members.decode(payload).get("contents", b"[]"))
        shown = [_mark_content(bytes(each), target) for each in given]
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


def _mark_content(raw: bytes, target: ResourceTarget) -> dict[str, Any]:
    content, members = _contents.decode(raw), dict(_members.decode(raw))
    uri = _known_uri(content.uri, target)
    meta = mark_meta(members, target.document.origin)
    if uri != content.uri:
        meta[f"{OWN_META}uri"] = content.uri
    drop_malformed(members, CONTENT_TYPES)
    rest = {name: value for name, value in members.items() if name not in ("uri", "_meta")}
    return {"uri": uri, **rest, "_meta": meta}


def _known_uri(own_uri: str, target: ResourceTarget) -> str:
    """Return a URI of a result as the client knows it: that of its request, else the public one."""
    if own_uri == target.own_uri:
        return target.public_uri
    if not is_uri(own_uri):
        raise _invalid("a content has no valid uri")
    return public_uri(target.document, own_uri)


def _is_string(raw: Raw) -> bool:
    return bytes(memoryview(raw)[:1]) == b'"'


def _is_base64(raw: Raw) -> bool:
    text = bytes(raw)
    if b"\\" in text:  # a slash may be written as \/
        text = text.replace(b"\\/", b"/")
    return len(text) % 4 == 2 and _BASE64.fullmatch(text) is not None


def _invalid(why: str) -> CallError:
    return CallError(Code.INTERNAL_ERROR, f"the page's answer is no resource: {why}", handed=True)
