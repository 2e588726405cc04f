"""Resources and resource templates of a page, validated; invalid entries are left out and logged."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw

from bridge.hub.tool_definition import edit_meta, is_hiding, pick_icons
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.validation_errors import describe_problem

MAX_URI_BYTES = 2048
"""Bytes of a URI or URI template of a page."""
MAX_ENTRIES = 1024
"""Entries of all lists of a frame. The extension has the same limit."""
MAX_COMPARED = 32
"""Parts of a template between its expressions that are compared with a URI."""
MAX_MIME_CHARS = 255
"""Characters of a media type: twice those of the longest names that RFC 6838 permits."""
_MAX_COMPLAINTS = 5
_MAX_SAID = 100
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]*")
"""A scheme, then printable ASCII without spaces."""
_EXPRESSION = re.compile(r"\{[^{}]*\}")

_log = logging.getLogger(__name__)
_definitions = msgspec.json.Decoder(dict[str, Raw])


class _Annotations(msgspec.Struct, rename="camel"):
    audience: list[Literal["assistant", "user"]] = []
    priority: Annotated[float, Meta(ge=0, le=1)] = 0
    last_modified: datetime | None = None

    def __post_init__(self) -> None:
        if self.last_modified and self.last_modified.tzinfo is None:
            raise ValueError("lastModified has no time zone")


CONTENT_TYPES: dict[str, Any] = {
    "mimeType": Annotated[str, Meta(max_length=MAX_MIME_CHARS)],
    "annotations": _Annotations,
}
"""Optional members of a content, which are dropped where they have another type."""
_TYPES: dict[str, Any] = {**CONTENT_TYPES, "size": int}
"""The same of a resource."""
_TEXTS = ("name", "title", "description")


class PageResource(msgspec.Struct, frozen=True):
    """A resource as its page offers it, or a resource template."""

    uri: str
    """The page's own URI, or URI template."""
    name: str
    title: str
    """The page's own, or empty."""
    description: str
    """The page's own words, or empty."""
    mime_type: str
    """Empty: unknown."""
    members: bytes
    """The other members as JSON: an object whose values are valid or unknown to MCP."""
    raw: bytes
    """The entry byte for byte: two that are equal here are the same."""


class UriTemplate:
    """A URI template (RFC 6570), as far as it says which URIs it may have been expanded to.

    No regular expression is built of it: a page could write one that takes forever. Of a template with many
    expressions only the ends are compared.
    """

    def __init__(self, template: str) -> None:
        self._first, *others = _EXPRESSION.split(template)
        self._last = others.pop() if others else None
        self._inner = [literal for literal in others if literal] if len(others) <= MAX_COMPARED else []

    def may_expand_to(self, uri: str) -> bool:
        """Return whether the literal parts stand in a URI in their order, the first and last at its ends."""
        if not uri.startswith(self._first):
            return False
        if self._last is None:
            return uri == self._first
        at = len(self._first)
        for literal in self._inner:
            found = uri.find(literal, at)
            if found < 0:
                return False
            at = found + len(literal)
        return uri.endswith(self._last) and at <= len(uri) - len(self._last)


def read_resources(announced: wire.FrameTools, known: Sequence[PageResource] = ()) -> list[PageResource]:
    """Return the resources of a frame in order; of two with one URI the first.

    `known` are those of an earlier list: an equal one is not decoded again and stays the same object.
    """
    return _read_entries(announced, announced.resources, "uri", "resources", known)


def read_templates(announced: wire.FrameTools, known: Sequence[PageResource] = ()) -> list[PageResource]:
    """Return the resource templates of a frame: as `read_resources`."""
    return _read_entries(announced, announced.resource_templates, "uriTemplate", "resource templates", known)


def _read_entries(
    announced: wire.FrameTools, given: Sequence[Raw], key: str, what: str, known: Sequence[PageResource]
) -> list[PageResource]:
    if not given:
        return []
    known_by_definition = {entry.raw: entry for entry in known}
    entries: dict[str, PageResource] = {}
    complaints: list[str] = []
    for each in given[:MAX_ENTRIES]:
        raw = bytes(each)
        try:
            entry = known_by_definition.get(raw) or read_entry(raw, key)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            complaints.append(single_line(describe_problem(error), 2 * _MAX_SAID))
            continue
        if entry.uri in entries:
            complaints.append(f"{single_line(entry.uri, _MAX_SAID)!r} is there twice, the first one counts")
            continue
        entries[entry.uri] = entry
    log_invalid(announced.origin, what, len(given) - len(entries), len(given), complaints)
    return list(entries.values())


def log_invalid(origin: str, what: str, left_out: int, given: int, complaints: Sequence[str]) -> None:
    """Write one log line for a list with invalid entries: a page decides how much is wrong with it."""
    if not complaints:
        return
    why = "; ".join([*complaints[:_MAX_COMPLAINTS], *("…" for _ in complaints[_MAX_COMPLAINTS:][:1])])
    _log.warning("%s: %d of %d %s left out: %s", single_line(origin, _MAX_SAID), left_out, given, what, why)


def read_entry(raw: bytes, key: str) -> PageResource:
    """Return the resource, or template, with this definition (JSON); `key` is the member that names it.

    Raises:
        ValueError: it is invalid; the text says why, and may quote its page.
        msgspec.DecodeError, UnicodeDecodeError, RecursionError: it is not a JSON object.
    """
    found = _definitions.decode(raw)
    uri, name = text_in(found, key), text_in(found, "name")
    said = single_line(uri, _MAX_SAID)
    if not is_uri(uri):
        raise ValueError(
            f"{said!r} is no URI: it needs a scheme, and at most {MAX_URI_BYTES} printable ASCII characters"
        )
    if not name:
        raise ValueError(f"{said!r} has no name")
    return PageResource(
        uri,
        name,
        text_in(found, "title"),
        text_in(found, "description"),
        text_in(found, "mimeType"),
        msgspec.json.encode(dict(_other_members(found, key))),
        raw,
    )


def is_uri(uri: str) -> bool:
    """Return whether a page may name a resource so."""
    return len(uri) <= MAX_URI_BYTES and _URI.fullmatch(uri) is not None


def text_in(members: dict[str, Raw], name: str) -> str:
    """Return a text member of an entry; empty where it is missing or something else."""
    try:
        return msgspec.json.decode(members.get(name, b'""'), type=str)
    except msgspec.DecodeError:
        return ""


def _other_members(found: dict[str, Raw], key: str) -> Iterable[tuple[str, Any]]:
    shown: dict[str, Any] = {
        name: value
        for name, value in found.items()
        if name not in (key, *_TEXTS) and not is_hiding(name, value)
    }
    drop_malformed(shown, _TYPES)
    pick_icons(shown)
    edit_meta(shown)
    return shown.items()


def drop_malformed(members: dict[str, Any], types: Mapping[str, Any]) -> None:
    """Drop the members whose values are of other types than these."""
    for name, expected in types.items():
        if name in members and not _is_of_type(members[name], expected):
            del members[name]


def _is_of_type(value: Raw, expected: Any) -> bool:
    try:
        msgspec.json.decode(value, type=expected)
    except msgspec.DecodeError:
        return False
    return True
