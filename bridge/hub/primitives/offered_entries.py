"""Resources and prompts of pages in the result of `list_page_tools`, for clients that list neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Literal

import msgspec

from bridge.hub.primitives.page_documents import PageDocument
from bridge.hub.primitives.prompt_catalog import PromptTarget
from bridge.hub.primitives.resource_catalog import public_uri
from bridge.hub.tool_search import in_turns, search_entries
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, format_description, single_line

MAX_TEXT = 10_000
"""Bytes of text about resources, and about prompts, in one answer."""


class OfferedEntry(msgspec.Struct, frozen=True):
    """A resource, a template or a prompt of a page, as `tool_search` reads it."""

    key: Literal["uri", "uriTemplate", "name"]
    name: str
    """Its public URI, URI template or name."""
    document: PageDocument
    own_name: str
    """The page's name for it."""
    title: str
    """The page's title for it, or empty."""
    page_words: str
    """The page's description of it, or empty."""
    is_listed: bool
    """False: the user has not approved its site yet, so none of the page's words are shown."""

    @property
    def origin(self) -> str:
        """Origin of the page."""
        return self.document.origin

    @property
    def tab_title(self) -> str:
        """Title of its tab, or empty."""
        return self.document.tab.title

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


def offered_resources(documents: Sequence[tuple[PageDocument, bool]]) -> list[OfferedEntry]:
    """Return the resources and templates of documents, each with whether its words may be shown."""
    return list(chain.from_iterable(_resources_of(document, is_listed) for document, is_listed in documents))


def _resources_of(document: PageDocument, is_listed: bool) -> Iterator[OfferedEntry]:
    frame = document.frame
    keyed = [("uri", each) for each in frame.resources] + [("uriTemplate", each) for each in frame.templates]
    for key, entry in keyed:
        name = public_uri(document, entry.uri)
        yield OfferedEntry(
            "uri" if key == "uri" else "uriTemplate",
            name,
            document,
            entry.name,
            entry.title,
            entry.description,
            is_listed,
        )


def offered_prompts(targets: Sequence[PromptTarget], listed: Sequence[PageDocument]) -> list[OfferedEntry]:
    """Return prompts; the words of those of `listed` documents may be shown."""
    among = set(listed)
    return [
        OfferedEntry(
            "name",
            target.public_name,
            target.document,
            target.prompt.name,
            target.prompt.title,
            target.prompt.description,
            target.document in among,
        )
        for target in targets
    ]


def list_entries(
    heading: str, entries: Sequence[OfferedEntry], query: str, limit: int
) -> tuple[str, list[dict[str, Any]]]:
    """Return the text about the entries that match a query, best first, and each of them as an object.

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
        shown.append({entry.key: entry.name, "description": entry.description, "origin": entry.origin})
    if not found:
        return "", []
    left = len(found) - len(shown)
    more = [f"{left} more: say what you look for in `query`."] if left else []
    return "\n".join([f"{heading}:", *lines, *more]), shown
