"""URIs of pages that results of a session have linked to: it may read them as they stand there. Sans-IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from bridge.hub.primitives.page_resource import is_uri

MAX_LINKED = 256
"""URIs that a session remembers, the latest."""
MAX_ORIGINS = 16
"""Origins that a session remembers of one URI, the latest."""


class LinkedResources:
    """The links of one session."""

    def __init__(self) -> None:
        self._origins: dict[str, list[str]] = {}
        """By URI, the latest last."""

    def origins_of(self, uri: str) -> Sequence[str]:
        """Return the origins of the pages and remote servers that have linked to a URI, the latest last."""
        return self._origins.get(uri, ())

    def add(self, uris: Sequence[str], origin: str) -> None:
        """Remember that a page of this origin has linked to these URIs, the latest last."""
        for uri in filter(is_uri, uris[-MAX_LINKED:]):
            others = [each for each in self._origins.pop(uri, ()) if each != origin]
            self._origins[uri] = [*others, origin][-MAX_ORIGINS:]
        if len(self._origins) > MAX_LINKED:
            self._forget_some()

    def _forget_some(self) -> None:
        """Forget the oldest links of the origins with the most, so that none displaces those of others."""
        counts = Counter(chain.from_iterable(self._origins.values()))
        while len(self._origins) > MAX_LINKED:
            greediest = max(counts, key=counts.__getitem__)
            counts[greediest] -= 1
            uri = next(uri for uri, origins in self._origins.items() if greediest in origins)
            self._origins[uri].remove(greediest)
            if not self._origins[uri]:
                del self._origins[uri]
