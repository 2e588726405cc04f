"""Results of calls: a page's result as an MCP CallToolResult, byte for byte where it is valid.

The rules are those of the mcp package's models, which a test compares. Where the package would convert a
value, the result is invalid here; an invalid result becomes text, so that nothing is lost. Members that only
a server may set are removed from a page's result. `_meta["dev.mcpb/untrusted"]` and
`_meta["dev.mcpb/origin"]` state that a page has written it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from bridge import __version__
from bridge.hub.tool_definition import OWN_META
from bridge.hub.tool_schema import Era
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, single_line

Parts = tuple[bytes | memoryview, ...]
"""JSON text in pieces, which together are one line: nothing large is copied to put something before it."""

SERVER = {"name": "mcpb", "title": "Browser", "version": __version__}
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_META = {_SERVER_KEY: SERVER}
"""Members of every result since 2026-07-28."""
_COMPLETE = b'{"resultType":"complete","_meta":'
_ABSENT = msgspec.Raw(b"")
_OF_THE_SERVER = ("resultType", "inputRequests", "requestState")


def make_result(era: Era, members: dict[str, Any]) -> Parts:
    """Return a result of the bridge; a `resultType` among its members is not `complete`."""
    whole = members if era is Era.HANDSHAKE else {"resultType": "complete", "_meta": _META, **members}
    return (msgspec.json.encode(whole),)


def make_volatile_result(era: Era, members: dict[str, Any]) -> Parts:
    """Return a result of the bridge that expires at once: since 2026-07-28 it says so."""
    return make_result(
        era, members if era is Era.HANDSHAKE else {"ttlMs": 0, "cacheScope": "private", **members}
    )


def make_tool_list(era: Era, tools: bytes) -> Parts:
    """Return the result of `tools/list`; `tools` is a JSON array."""
    if era is Era.HANDSHAKE:
        return (b'{"tools":', tools, b"}")
    # Immediately stale: pages change at any time, and clients that listen are notified.
    return (
        _COMPLETE,
        _make_envelope(era, None).stamp,
        b',"ttlMs":0,"cacheScope":"private","tools":',
        tools,
        b"}",
    )


def of_page(answer: bytes, era: Era, origin: str, *, is_mismatch: bool = False) -> Parts:
    """Return the client's result for a page's result (JSON), marked as written by a page of this origin.

    `is_mismatch`: its `structuredContent` does not fit the tool's `outputSchema`.
    """
    return _passed_on(answer, _make_envelope(era, origin, is_mismatch))


def of_bridge(answer: bytes, era: Era) -> Parts:
    """Return the client's result for a result (JSON) of the bridge or of a browser tool."""
    return _passed_on(answer, _make_envelope(era, None))


def of_read(result: bytes, era: Era) -> Parts:
    """Return the client's result for an MCP ReadResourceResult (JSON) without `_meta`."""
    if era is Era.HANDSHAKE:
        return (result,)
    stamp = _make_envelope(era, None).stamp
    return (_COMPLETE, stamp, b',"ttlMs":0,"cacheScope":"private",', memoryview(result)[1:])


def of_request(result: bytes, era: Era) -> Parts:
    """Return the client's result for a result (JSON) without `_meta` that the bridge has made."""
    if era is Era.HANDSHAKE:
        return (result,)
    return (_COMPLETE, _make_envelope(era, None).stamp, b",", memoryview(result)[1:])


class _Envelope(msgspec.Struct, frozen=True):
    """Members that the bridge writes around a result."""

    era: Era
    origin: str | None
    """Origin of the page that wrote the result; None: the bridge wrote it."""
    stamp: bytes
    """Its `_meta` as JSON; empty where it has none."""


@lru_cache(256)
def _make_envelope(era: Era, origin: str | None, is_mismatch: bool = False) -> _Envelope:
    meta: dict[str, Any] = {} if era is Era.HANDSHAKE else dict(_META)
    if origin is not None:
        meta |= {f"{OWN_META}untrusted": True, f"{OWN_META}origin": single_line(origin, MAX_ORIGIN_CHARS)}
    if is_mismatch:
        meta[f"{OWN_META}outputSchema"] = "mismatch"
    return _Envelope(era, origin, msgspec.json.encode(meta) if meta else b"")


def _passed_on(answer: bytes, envelope: _Envelope) -> Parts:
    found = _decode_result(answer, envelope.era)
    if found is None or not found.may_go_as_it_is(envelope):
        return _made_fit(answer, envelope)
    return _insert_envelope(answer, envelope.era, envelope.stamp)


def _insert_envelope(answer: bytes, era: Era, stamp: bytes) -> Parts:
    if b"\n" in answer or b"\r" in answer:
        answer = answer.translate(None, b"\r\n")  # inside of strings they are escaped
    if not stamp:
        return (answer,)
    lead = b'{"_meta":' if era is Era.HANDSHAKE else _COMPLETE
    return (lead, stamp, b",", memoryview(answer)[1:])


def _made_fit(answer: bytes, envelope: _Envelope) -> Parts:
    era = envelope.era
    try:
        found = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return _insert_envelope(_as_text(answer), era, envelope.stamp)
    members = {name: raw for name, raw in found.items() if bytes(raw) != b"null"}
    for name in _OF_THE_SERVER:
        members.pop(name, None)
    members.setdefault("content", msgspec.Raw(_text_blocks(answer)))
    for fit in (msgspec.json.encode(members), _without_nulls(members)):
        if judged := _decode_result(fit, era):
            return _with_its_meta(fit, judged, envelope)
    is_error = bytes(members.get("isError", b"")) == b"true"
    return _insert_envelope(_as_text(answer, is_error=is_error), era, envelope.stamp)


def _with_its_meta(answer: bytes, judged: _Result, envelope: _Envelope) -> Parts:
    members = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
    meta = msgspec.json.decode(members.pop("_meta", b"{}"), type=dict[str, msgspec.Raw])
    if envelope.origin is not None:
        meta = {name: value for name, value in meta.items() if not name.startswith(OWN_META)}
        if judged.claims_marks:
            members["content"] = _without_marks(members["content"])
    own = msgspec.json.decode(envelope.stamp, type=dict[str, msgspec.Raw]) if envelope.stamp else {}
    stamp = msgspec.json.encode(meta | own) if meta or own else b""
    return _insert_envelope(msgspec.json.encode(members), envelope.era, stamp)


def _without_marks(content: msgspec.Raw) -> msgspec.Raw:
    """Return a page's blocks without members of `_meta` that only the bridge writes."""
    blocks = msgspec.json.decode(content, type=list[dict[str, msgspec.Raw]])
    return msgspec.Raw(msgspec.json.encode([_remove_marks(block) for block in blocks]))


def _remove_marks(holder: dict[str, msgspec.Raw]) -> dict[str, Any]:
    kept: dict[str, Any] = {**holder}
    if "resource" in kept:
        kept["resource"] = _remove_marks(msgspec.json.decode(kept["resource"], type=dict[str, msgspec.Raw]))
    if "_meta" in kept:
        meta = msgspec.json.decode(kept["_meta"], type=dict[str, msgspec.Raw])
        kept["_meta"] = {name: value for name, value in meta.items() if not name.startswith(OWN_META)}
    return kept


def _without_nulls(members: dict[str, msgspec.Raw]) -> bytes:
    """Encode members; an optional member that is null counts as missing, as in the package."""
    try:
        content = json.dumps(_clear_meta(json.loads(bytes(members["content"]))), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return b""
    return msgspec.json.encode({**members, "content": msgspec.Raw(content)})


def _clear_meta(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: member if name == "_meta" else _clear_meta(member)
                for name, member in value.items()
                if member is not None
            }
        case list():
            return [_clear_meta(item) for item in value]
        case _:
            return value


def _as_text(answer: bytes, *, is_error: bool = False) -> bytes:
    return b'{"content":%b,"isError":%b}' % (_text_blocks(answer), b"true" if is_error else b"false")


def _text_blocks(answer: bytes) -> bytes:
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

    def marks(self) -> Iterable[str]:
        """Yield the names in its `_meta`."""
        return self.meta


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

    def marks(self) -> Iterable[str]:
        """See `_Block`."""
        return (*self.meta, *self.resource.meta)


class _Result(msgspec.Struct, rename="camel"):
    content: list[_Text | _Image | _Audio | _ResourceLink | _EmbeddedResource]
    is_error: bool = False
    structured_content: msgspec.Raw = _ABSENT
    meta: dict[str, msgspec.Raw] | UnsetType = msgspec.field(name="_meta", default=UNSET)
    result_type: msgspec.Raw = _ABSENT
    input_requests: msgspec.Raw = _ABSENT
    request_state: msgspec.Raw = _ABSENT

    @property
    def claims_marks(self) -> bool:
        """Return whether a block has members of `_meta` that only the bridge writes."""
        for block in self.content:
            for name in block.marks():
                if name.startswith(OWN_META):
                    return True
        return False

    def may_go_as_it_is(self, envelope: _Envelope) -> bool:
        """Return whether it can be sent unchanged."""
        if (envelope.stamp and self.meta is not UNSET) or (envelope.origin is not None and self.claims_marks):
            return False
        return not (bytes(self.result_type) or bytes(self.input_requests) or bytes(self.request_state))


@cache
def _make_decoder() -> msgspec.json.Decoder[_Result]:
    return msgspec.json.Decoder(_Result)  # it takes 1 ms, which the first answer does not wait for


def _decode_result(answer: bytes, era: Era) -> _Result | None:
    try:
        found = _make_decoder().decode(answer)
    except (msgspec.DecodeError, RecursionError):
        return None
    structured = bytes(memoryview(found.structured_content)[:1])
    if era is Era.HANDSHAKE and structured and structured != b"{":
        return None  # any value, since 2026-07-28
    return found
