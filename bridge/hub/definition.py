"""A page's tool as the JSON that clients see: under its public name, its place before its description. Pure.

Members that nobody needs to change pass byte for byte, those that MCP does not know as well.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from bridge.hub.describing import MAX_ORIGIN, MAX_TITLE, cleaned

MAX_ICON = 64 * 1024
"""Characters of a `data:` URL."""

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_KEYWORDS = ("$schema", "properties", "required")
"""Of JSON Schema: those that MCP's models name, and not as null."""
_NULL = Raw(b"null")
_TRUTHS = (Raw(b"true"), Raw(b"false"))

_Members = dict[str, Any]
"""Each as `Raw`, or anew as a Python value."""
_members = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Raw])


class _Icon(msgspec.Struct, rename="camel"):
    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: Literal["dark", "light"] | UnsetType = UNSET


class _Execution(msgspec.Struct, rename="camel"):
    task_support: Literal["forbidden", "optional", "required"] | UnsetType = UNSET


_icon = msgspec.json.Decoder(_Icon)
_execution = msgspec.json.Decoder(_Execution)


def around_place(name: str, definition: bytes, origin: str, words: str) -> tuple[bytes, bytes]:
    """The MCP Tool that clients see, as JSON before and behind where it lives (see `in_text`).

    `definition` is a page's that has been found to be a tool. Titles say whose they are and are cut. What
    only decorates is left out where MCP would not take it, and so are icons that do not carry their picture:
    a client would fetch them from wherever the page says, and tell it so that somebody looks.
    """
    shown: _Members = {**_members.decode(definition)}
    shown.pop("name")
    shown.pop("description", None)
    shown["inputSchema"] = _of_object(shown.get("inputSchema", _NULL))
    _mark_title(shown, origin)
    _edit_annotations(shown, origin)
    _pick_icons(shown)
    if "execution" in shown and not _is_execution(shown["execution"]):
        del shown["execution"]
    if "outputSchema" in shown:
        shown["outputSchema"] = _without_nulls(shown["outputSchema"])
    for member in ("outputSchema", "_meta"):
        if shown.get(member) == _NULL:
            del shown[member]
    before = b'{"name":%b,"description":"' % msgspec.json.encode(name)
    return before, b'%b",%b' % (in_text(f" {words}"), msgspec.json.encode(shown)[1:])


def in_text(text: str) -> bytes:
    """As it stands between the quotation marks of a JSON string."""
    return msgspec.json.encode(text)[1:-1]


def input_schema(definition: bytes) -> bytes:
    """The JSON Schema of a tool's arguments, as JSON.

    MCP asks for the type; many pages leave it out, and arguments are an object anyway.
    """
    return bytes(_of_object(_members.decode(definition).get("inputSchema", _NULL)))


def _of_object(given: Raw) -> Raw:
    schema = _without_nulls(given) if given != _NULL else Raw(b"{}")
    members = _members.decode(schema)
    return schema if "type" in members else Raw(msgspec.json.encode({"type": "object", **members}))


def _without_nulls(schema: Raw) -> Raw:
    if b"null" not in bytes(schema) or schema == _NULL:
        return schema
    members = _members.decode(schema)
    kept = {key: value for key, value in members.items() if key not in _KEYWORDS or value != _NULL}
    return schema if len(kept) == len(members) else Raw(msgspec.json.encode(kept))


def _mark_title(shown: _Members, origin: str) -> None:
    if "title" not in shown:
        return
    title = msgspec.json.decode(shown["title"])
    if isinstance(title, str):
        shown["title"] = f"[{cleaned(origin, MAX_ORIGIN)}] {cleaned(title, MAX_TITLE)}"
    else:
        del shown["title"]


def _edit_annotations(shown: _Members, origin: str) -> None:
    if "annotations" not in shown:
        return
    try:
        annotations: _Members = {**_members.decode(shown["annotations"])}
    except msgspec.ValidationError:
        del shown["annotations"]
        return
    for hint in _HINTS:
        if annotations.get(hint, _TRUTHS[0]) not in _TRUTHS:
            del annotations[hint]
    _mark_title(annotations, origin)
    shown["annotations"] = annotations


def _pick_icons(shown: _Members) -> None:
    if "icons" not in shown:
        return
    try:
        pictures = [icon for icon in _list.decode(shown["icons"]) if _is_picture(icon)]
    except msgspec.ValidationError:
        pictures = []
    if pictures:
        shown["icons"] = pictures
    else:
        del shown["icons"]


def _is_picture(icon: Raw) -> bool:
    try:
        source = _icon.decode(icon).src
    except msgspec.ValidationError:
        return False
    return source.startswith("data:image/") and len(source) <= MAX_ICON


def _is_execution(given: Raw) -> bool:
    try:
        _execution.decode(given)
    except msgspec.ValidationError:
        return False
    return True
