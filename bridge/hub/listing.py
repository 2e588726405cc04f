"""What `tools/list` shows: as JSON, as what its names mean, and as what clients are told of. Pure.

Each is kept until something in it is another. It is put together anew of parts that are as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from bridge.hub.catalog import Catalog
from bridge.hub.document_tools import DocumentTools
from bridge.hub.entry import CachedEntry
from bridge.hub.sessions import Meaning
from bridge.hub.tool_shape import Era
from bridge.hub.toolbox import TOOLS


class Listing:
    """The tools that clients are shown one by one: our own, then the pages' unless they are too many."""

    def __init__(
        self, catalog: Catalog, max_listed: int = 0, provided: Sequence[dict[str, Any]] = ()
    ) -> None:
        """When pages offer more than `max_listed`, ours included, none of theirs is shown; 0: no limit.

        What is kept without a tab fills the room that is left. What is `provided` stands behind ours and does
        not count: its number is always the same.
        """
        self._catalog = catalog
        self._fixed = msgspec.json.encode([*TOOLS, *provided])[:-1]
        """Without the bracket that ends the array."""
        self._room = max(0, max_listed - len(TOOLS)) if max_listed else None
        self._written: dict[Era, tuple[object, bytes]] = {}

    def written(self, era: Era) -> bytes:
        """The MCP Tools as a JSON array in one line; what is no tool in this era is left out."""
        edition, written = self._written.get(era, (None, b""))
        if edition != self._catalog.edition:
            written = self._write(era)
            self._written[era] = self._catalog.edition, written
        return written

    def meanings(self) -> Mapping[str, Meaning]:
        """What the pages' names on it mean; the same object as long as it is the list of everything."""
        documents, kept = self._shown()
        if documents is self._catalog.documents() and len(kept) == len(self._catalog.kept()):
            return self._catalog.meanings()
        live = chain.from_iterable(document.allowed for document in documents)
        return {entry.name: entry.meaning for entry in chain(live, kept)}

    def told(self) -> object:
        """What clients are to be told of when it is another: not, for instance, which tab is active."""
        documents, kept = self._catalog.documents(), self._catalog.kept()
        if self._room is not None and _count(documents) > self._room:
            return None
        live = {document.frame_of_browser: document.told for document in documents if document.allowed}
        return live, [(entry.name, entry.origin, entry.tool.digest) for entry in kept]

    def _write(self, era: Era) -> bytes:
        documents, kept = self._shown()
        live = (document.written(era) for document in documents)
        without_tab = (b",%b" % entry.definition() for entry in kept if entry.tool.is_for(era))
        return b"".join(chain((self._fixed,), live, without_tab, (b"]",)))

    def _shown(self) -> tuple[Sequence[DocumentTools], Sequence[CachedEntry]]:
        documents, kept = self._catalog.documents(), self._catalog.kept()
        if self._room is None:
            return documents, kept
        left = self._room - _count(documents)
        return (documents, kept[:left]) if left >= 0 else ((), ())


def _count(documents: Sequence[DocumentTools]) -> int:
    return sum(len(document.allowed) for document in documents)
