"""Tool list of `tools/list`: as JSON, as bindings, and as a fingerprint for notifications. Sans-IO.

Each form is cached until a part of it changes, and rebuilt from the unchanged parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import msgspec

from bridge.hub.catalog import Catalog
from bridge.hub.catalog_entries import CachedEntry, DocumentTools
from bridge.hub.client_session import ListForm, ToolBinding
from bridge.hub.meta_tools import TOOLS
from bridge.hub.tool_schema import Era

PLAIN = ListForm()
"""All tools of the browser, without the schemas of structured results."""
MAX_SITE_BYTES = 32 * 1024
"""Bytes of one site's tools, without their locations. Beyond it tools are listed without their texts."""


class ListingConsent(Protocol):
    """Decides which page tools may be listed before the user approves their site."""

    @property
    def version(self) -> object:
        """Changes when an answer may."""
        ...

    def is_listed(self, document: DocumentTools) -> bool:
        """Return whether this document's tools may be listed."""
        ...

    def is_cached_listed(self, entry: CachedEntry) -> bool:
        """Return whether this cached tool may be listed."""
        ...


class ProvidedTools(Protocol):
    """Tools that no page offers."""

    @property
    def version(self) -> object:
        """Changes with the tools."""
        ...

    def definitions(self, era: Era, form: ListForm) -> Sequence[Any]:
        """Return the MCP Tools that a list of this era and form has."""
        ...


class NothingProvided:
    """`ProvidedTools` without a tool."""

    version: object = None

    def definitions(self, era: Era, form: ListForm) -> Sequence[Any]:  # noqa: ARG002
        """See `ProvidedTools`."""
        return ()


class EverythingListed:
    """A `ListingConsent` that leaves nothing out."""

    version = 0

    def is_listed(self, document: DocumentTools) -> bool:  # noqa: ARG002
        """See `ListingConsent`."""
        return True

    def is_cached_listed(self, entry: CachedEntry) -> bool:  # noqa: ARG002
        """See `ListingConsent`."""
        return True


class _ListedTools(NamedTuple):
    documents: Sequence[DocumentTools]
    cached: Sequence[CachedEntry]
    is_whole: bool
    """True if these are all tools of the catalog."""


class _Edition(msgspec.Struct):
    """Values made for one state of catalog and consent."""

    key: object
    shown: _ListedTools
    written: dict[tuple[Era, ListForm], bytes]
    bindings: Mapping[str, ToolBinding] | None = None
    fingerprint: object = None


class Listing:
    """The tools that clients are shown one by one: our own, then those of the pages' sites."""

    def __init__(
        self,
        catalog: Catalog,
        max_listed: int = 0,
        provided: ProvidedTools | None = None,
        consent: ListingConsent | None = None,
    ) -> None:
        """List at most `max_listed` tools, our own included; 0: no limit.

        When pages offer more, the sites with the fewest tools are listed: no site can hide the others. Cached
        tools fill the room that is left. What is `provided` stands behind ours and does not count: the user
        has chosen these tools.
        """
        self._catalog = catalog
        self._consent = consent or EverythingListed()
        self._provided: ProvidedTools = provided or NothingProvided()
        self._fixed: dict[tuple[Era, ListForm], bytes] = {}
        self._fixed_version: object = None
        self._room = max(0, max_listed - len(TOOLS)) if max_listed else None
        self._edition: _Edition | None = None

    def format_tools(self, era: Era, form: ListForm = PLAIN) -> bytes:
        """Return the MCP Tools as a JSON array in one line, without those that are invalid in this era."""
        edition = self._current_edition()
        if (era, form) not in edition.written:
            edition.written[era, form] = self._format_list(edition.shown, era, form)
        return edition.written[era, form]

    @property
    def version(self) -> object:
        """Changes with the tools that no page offers."""
        return self._provided.version

    def _fixed_part(self, era: Era, form: ListForm) -> bytes:
        """Return the beginning of a list: the tools that are not of pages."""
        if self._fixed_version != (version := self._provided.version):
            self._fixed, self._fixed_version = {}, version
        if (era, form) not in self._fixed:
            tools = [*TOOLS, *self._provided.definitions(era, form)]
            self._fixed[era, form] = msgspec.json.encode(tools)[:-1]
        return self._fixed[era, form]

    def listed_bindings(self) -> Mapping[str, ToolBinding]:
        """Return the bindings of the listed names; the same object while they do not change."""
        edition = self._current_edition()
        if edition.shown.is_whole:
            return self._catalog.all_bindings()
        if edition.bindings is None:
            live = chain.from_iterable(document.allowed_entries for document in edition.shown.documents)
            edition.bindings = {entry.name: entry.binding for entry in chain(live, edition.shown.cached)}
        return edition.bindings

    def fingerprint(self) -> object:
        """Return the fingerprint whose change clients are notified of: the active tab is not in it."""
        edition = self._current_edition()
        if edition.fingerprint is None:
            edition.fingerprint = self._make_fingerprint(*edition.shown)
        return edition.fingerprint

    def _make_fingerprint(
        self, documents: Sequence[DocumentTools], cached: Sequence[CachedEntry], _is_whole: bool
    ) -> object:
        live = {
            document.frame_of_browser: document.fingerprint
            for document in documents
            if document.allowed_entries
        }
        return (
            self._fixed_part(Era.STATELESS, PLAIN),
            live,
            [(entry.name, entry.origin, entry.tool.digest) for entry in cached],
        )

    def _current_edition(self) -> _Edition:
        key = self._catalog.edition, self._consent.version, self._provided.version
        if self._edition is None or self._edition.key != key:
            self._edition = _Edition(key, self._select_tools(), {})
        return self._edition

    def _format_list(self, shown: _ListedTools, era: Era, form: ListForm) -> bytes:
        rooms = defaultdict[str, int](int)
        """Bytes that a site has taken."""
        parts = [self._fixed_part(era, form)]
        for document in shown.documents:
            written, taken = document.format_tools(era, MAX_SITE_BYTES - rooms[document.site])
            rooms[document.site] += taken
            parts.append(written)
        for entry in shown.cached:
            if entry.tool.is_for(era):
                room = MAX_SITE_BYTES - rooms[entry.origin]
                rooms[entry.origin] += entry.shown_within(room).size
                parts += (b",", entry.format_definition(room))
        return b"".join([*parts, b"]"])

    def _select_tools(self) -> _ListedTools:
        documents, cached = self._catalog.documents(), self._catalog.cached_entries()
        listed = self._within_limit([it for it in documents if self._consent.is_listed(it)])
        may_be_listed = [entry for entry in cached if self._consent.is_cached_listed(entry)]
        if self._room is not None:
            may_be_listed = may_be_listed[: self._room - _count_tools(listed)]
        is_whole = len(listed) == len(documents) and len(may_be_listed) == len(cached)
        return _ListedTools(listed, may_be_listed, is_whole)

    def _within_limit(self, documents: Sequence[DocumentTools]) -> Sequence[DocumentTools]:
        """All of them, or those of the sites with the fewest tools as long as there is room."""
        if self._room is None or _count_tools(documents) <= self._room:
            return documents
        counts = Counter[str]()
        for document in documents:
            counts[document.site] += len(document.allowed_entries)
        left, admitted = self._room, set[str]()
        for site, count in sorted(counts.items(), key=lambda it: (it[1], it[0])):
            if count > left:
                break
            left -= count
            admitted.add(site)
        return [document for document in documents if document.site in admitted]


def _count_tools(documents: Sequence[DocumentTools]) -> int:
    return sum(len(document.allowed_entries) for document in documents)
