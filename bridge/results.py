"""A page's answer as an MCP CallToolResult: its very bytes, when they are one.

The rules are those of the mcp package's models, which a test compares; where the package would change a value
to make it fit (a number for a yes), the answer is no result here. What is none becomes text, so that nothing
of it is lost. A page does not speak for the server: what only a server may say is left out of its answer.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from bridge import __version__
from bridge.hub.tool_shape import Era

Parts = tuple[bytes | memoryview, ...]
"""JSON text in pieces, which together are one line: nothing large is copied to put something before it."""

SERVER = {"name": "mcpb", "title": "Browser", "version": __version__}
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_META = {_SERVER_KEY: SERVER}
"""Of every result since 2026-07-28."""
_STAMP = msgspec.json.encode(_META)
_COMPLETE = b'{"resultType":"complete","_meta":'
_ABSENT = msgspec.Raw(b"")
_OF_THE_SERVER = ("resultType", "inputRequests", "requestState")


def result(era: Era, members: dict[str, Any]) -> Parts:
    """A result of ours; a `resultType` among its members is not `complete`."""
    whole = members if era is Era.HANDSHAKE else {"resultType": "complete", "_meta": _META, **members}
    return (msgspec.json.encode(whole),)


def passing(era: Era, members: dict[str, Any]) -> Parts:
    """A result of ours that is another in a moment: since 2026-07-28 it says so."""
    return result(era, members if era is Era.HANDSHAKE else {"ttlMs": 0, "cacheScope": "private", **members})


def listing(era: Era, tools: bytes) -> Parts:
    """The result of `tools/list`; `tools` is a JSON array."""
    if era is Era.HANDSHAKE:
        return (b'{"tools":', tools, b"}")
    # Immediately stale: pages change at any time, and a client that can hear is told.
    return (_COMPLETE, _STAMP, b',"ttlMs":0,"cacheScope":"private","tools":', tools, b"}")


def of_page(answer: bytes, era: Era) -> Parts:
    """What goes to the client; `answer` is JSON."""
    found = _judged(answer, era)
    if found is None or not found.may_go_as_it_is(era):
        return _made_fit(answer, era)
    return _around(answer, era, _STAMP)


def _around(answer: bytes, era: Era, stamp: bytes) -> Parts:
    if b"\n" in answer or b"\r" in answer:
        answer = answer.translate(None, b"\r\n")  # inside of strings they are escaped
    if era is Era.HANDSHAKE:
        return (answer,)
    return (_COMPLETE, stamp, b",", memoryview(answer)[1:])


def _made_fit(answer: bytes, era: Era) -> Parts:
    try:
        found = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return _around(_as_text(answer), era, _STAMP)
    members = {name: raw for name, raw in found.items() if bytes(raw) != b"null"}
    for name in _OF_THE_SERVER:
        members.pop(name, None)
    members.setdefault("content", msgspec.Raw(_texts(answer)))
    for fit in (msgspec.json.encode(members), _without_nulls(members)):
        if _judged(fit, era):
            return _with_its_meta(fit, era)
    is_error = bytes(members.get("isError", b"")) == b"true"
    return _around(_as_text(answer, is_error=is_error), era, _STAMP)


def _with_its_meta(answer: bytes, era: Era) -> Parts:
    if era is Era.HANDSHAKE:
        return _around(answer, era, b"")
    members = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
    meta = msgspec.json.decode(members.pop("_meta", b"{}"), type=dict[str, msgspec.Raw])
    stamp = msgspec.json.encode({**meta, _SERVER_KEY: SERVER})
    return _around(msgspec.json.encode(members), era, stamp)


def _without_nulls(members: dict[str, msgspec.Raw]) -> bytes:
    """A member that may be missing and is null is as good as missing: the package says so."""
    try:
        content = json.dumps(_cleared(json.loads(bytes(members["content"]))), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return b""
    return msgspec.json.encode({**members, "content": msgspec.Raw(content)})


def _cleared(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: member if name == "_meta" else _cleared(member)
                for name, member in value.items()
                if member is not None
            }
        case list():
            return [_cleared(item) for item in value]
        case _:
            return value


def _as_text(answer: bytes, *, is_error: bool = False) -> bytes:
    return b'{"content":%b,"isError":%b}' % (_texts(answer), b"true" if is_error else b"false")


def _texts(answer: bytes) -> bytes:
    return msgspec.json.encode([{"type": "text", "text": answer.decode()}])


# ── What a result is ────────────────────────────────────────────────────────────────────────────────────────


def _check_string(raw: msgspec.Raw) -> None:
    # Not typed as text: what may be long is neither copied nor are its escapes undone.
    if bytes(memoryview(raw)[:1]) != b'"':
        raise ValueError("expected text")


class _Annotations(msgspec.Struct, rename="camel"):
    audience: list[Literal["assistant", "user"]] = []
    last_modified: str = ""
    priority: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0


class _Block(msgspec.Struct, tag_field="type", kw_only=True, rename="camel"):
    meta: dict[str, msgspec.Raw] = msgspec.field(name="_meta", default_factory=dict)
    annotations: _Annotations | UnsetType = UNSET


class _Text(_Block, tag="text"):
    text: msgspec.Raw

    def __post_init__(self) -> None:
        _check_string(self.text)


class _Media(_Block, kw_only=True):
    data: msgspec.Raw
    mime_type: str

    def __post_init__(self) -> None:
        _check_string(self.data)


class _Image(_Media, tag="image"):
    pass


class _Audio(_Media, tag="audio"):
    pass


class _Icon(msgspec.Struct, rename="camel"):
    src: str
    mime_type: str = ""
    sizes: list[str] = []
    theme: Literal["dark", "light"] = "dark"


class _ResourceLink(_Block, tag="resource_link"):
    name: str
    uri: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int = 0
    icons: list[_Icon] = []


class _Resource(msgspec.Struct, rename="camel"):
    uri: str
    mime_type: str = ""
    text: msgspec.Raw = _ABSENT
    blob: msgspec.Raw = _ABSENT
    meta: dict[str, msgspec.Raw] = msgspec.field(name="_meta", default_factory=dict)

    def __post_init__(self) -> None:
        _check_string(self.text if bytes(memoryview(self.text)[:1]) else self.blob)


class _EmbeddedResource(_Block, tag="resource"):
    resource: _Resource


class _Result(msgspec.Struct, rename="camel"):
    content: list[_Text | _Image | _Audio | _ResourceLink | _EmbeddedResource]
    is_error: bool = False
    structured_content: msgspec.Raw = _ABSENT
    meta: dict[str, msgspec.Raw] | UnsetType = msgspec.field(name="_meta", default=UNSET)
    result_type: msgspec.Raw = _ABSENT
    input_requests: msgspec.Raw = _ABSENT
    request_state: msgspec.Raw = _ABSENT

    def may_go_as_it_is(self, era: Era) -> bool:
        """Whether nothing has to be taken out of it."""
        if era is Era.STATELESS and self.meta is not UNSET:
            return False
        return not (bytes(self.result_type) or bytes(self.input_requests) or bytes(self.request_state))


_results = msgspec.json.Decoder(_Result)


def _judged(answer: bytes, era: Era) -> _Result | None:
    try:
        found = _results.decode(answer)
    except (msgspec.DecodeError, RecursionError):
        return None
    structured = bytes(memoryview(found.structured_content)[:1])
    if era is Era.HANDSHAKE and structured and structured != b"{":
        return None  # any value, since 2026-07-28
    return found
