"""URIs of pages that results of a session have linked to: it may read them as they stand there. Sans-IO."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

import msgspec

from bridge.hub.primitives.page_resource import is_uri

MAX_LINKED = 256
"""URIs that a session remembers, the latest."""
MAX_ORIGINS = 16
"""Origins that a session remembers of one URI, the latest."""
MAX_RESULT_BYTES = 1024 * 1024
"""A longer result is not searched for links."""


class _Block(msgspec.Struct):
    type: object = ""
    uri: object = ""


class _Result(msgspec.Struct):
    content: list[_Block] = []


_results = msgspec.json.Decoder(_Result)


class LinkedResources:
    """The links of one session."""

    def __init__(self) -> None:
        self._origins: dict[str, list[str]] = {}
        """By URI, the latest last."""

    def origins_of(self, uri: str) -> Collection[str]:
        """Return the origins of the pages that have linked to a URI."""
        return self._origins.get(uri, ())

    def read(self, result: bytes, origin: str) -> None:
        """Remember the links of a page's CallToolResult (JSON)."""
        if len(result) > MAX_RESULT_BYTES or b'"resource_link"' not in result:
            return
        try:
            blocks = _results.decode(result).content
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        for block in [block for block in blocks if block.type == "resource_link"][-MAX_LINKED:]:
            if isinstance(block.uri, str):
                self.add(block.uri, origin)

    def add(self, uri: str, origin: str) -> None:
        """Remember that a page of this origin has linked to a URI."""
        if not is_uri(uri):
            return
        others = [each for each in self._origins.pop(uri, ()) if each != origin]
        self._origins[uri] = [*others, origin][-MAX_ORIGINS:]
        for oldest in list(islice(self._origins, max(0, len(self._origins) - MAX_LINKED))):
            del self._origins[oldest]
