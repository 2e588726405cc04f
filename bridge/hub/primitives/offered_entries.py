"""Resources of pages in the answer of `list_page_tools`, for clients that list no resources. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from bridge.hub.primitives.page_documents import PageDocument
from bridge.hub.primitives.page_resource import PageResource
from bridge.hub.primitives.resource_catalog import public_uri
from bridge.hub.tool_search import in_turns, search_entries
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, format_description, single_line

MAX_TEXT = 10_000
"""Bytes of text about resources in one answer."""


class OfferedResource(NamedTuple):
    """A resource or template of a page, as `tool_search` reads it."""

    name: str
    """Its public URI, or URI template."""
    document: PageDocument
    resource: PageResource
    is_template: bool
    is_listed: bool
    """False: the user has not approved its site yet, so none of the page's words are shown."""

    @property
    def own_name(self) -> str:
        """The page's name for it."""
        return self.resource.name

    @property
    def title(self) -> str:
        """The page's title for it, or empty."""
        return self.resource.title

    @property
    def origin(self) -> str:
        """Origin of the page."""
        return self.document.origin

    @property
    def tab_title(self) -> str:
        """Title of its tab, or empty."""
        return self.document.tab.title

    @property
    def page_words(self) -> str:
        """The page's description of it, or empty."""
        return self.resource.description

    @property
    def is_active(self) -> bool:
        """Return whether its tab is active."""
        return self.document.tab.active

    @property
    def description(self) -> str:
        """What it is, in one line."""
        where = f"Of {self.document.shown_origin}. {self.document.place}"
        if not self.is_listed:
            return where
        words = [
            single_line(self.title or self.own_name, MAX_TITLE_CHARS),
            format_description(self.page_words),
        ]
        said = ". ".join(" ".join(each.split()) for each in words if each)
        return f"{where} The page says: {said}"


def offered_resources(documents: Sequence[tuple[PageDocument, bool]]) -> list[OfferedResource]:
    """Return the resources and templates of documents, each with whether its words may be shown."""
    return list(chain.from_iterable(_offered_by(document, is_listed) for document, is_listed in documents))


def _offered_by(document: PageDocument, is_listed: bool) -> Iterator[OfferedResource]:
    for source, is_template in ((document.frame.resources, False), (document.frame.templates, True)):
        for resource in source:
            name = public_uri(document, resource.uri)
            yield OfferedResource(name, document, resource, is_template, is_listed)


def list_resources(
    entries: Sequence[OfferedResource], query: str, limit: int
) -> tuple[str, list[dict[str, Any]]]:
    """Return the text about the resources that match a query, best first, and each of them as an object.

    Among equals origins take turns. The text is empty if none matches.
    """
    found = list(chain.from_iterable(map(in_turns, search_entries(entries, query))))
    lines: list[str] = []
    shown: list[dict[str, Any]] = []
    room = MAX_TEXT
    for entry in found[:limit]:
        line = f"{entry.name}: {entry.description}"
        room -= len(line.encode(errors="replace")) + 1
        if room < 0:
            break
        lines.append(line)
        kind = "uriTemplate" if entry.is_template else "uri"
        shown.append({kind: entry.name, "description": entry.description, "origin": entry.origin})
    if not found:
        return "", []
    more = (
        f"\n{len(found) - len(shown)} more: say what you look for in `query`."
        if len(shown) < len(found)
        else ""
    )
    return f"Resources of pages, for read_resource:\n{chr(10).join(lines)}{more}", shown
