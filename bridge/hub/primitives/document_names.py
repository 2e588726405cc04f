"""Names of documents in public URIs and prompt names: `shop.example/tab1`. Sans-IO.

They follow the rules of tool names (`public_names.py`), except that the domain keeps its dots. Documents that
would share a name all get a hash of their identity.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from bridge import origins
from bridge.hub.public_names import DIGEST_CHARS

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class DocumentPlace(NamedTuple):
    """Everything that the name of a document can depend on."""

    profile: str
    browser_pid: int
    tab_id: int
    frame_id: int
    ordinal: int
    origin: str
    mark: str = ""
    """Of the profile; empty if the profile has none."""


class DocumentName(NamedTuple):
    """Name of a document."""

    domain: str
    tab: str
    """`tab1`, with the profile's mark or a hash behind it where others have the same."""

    def __str__(self) -> str:
        return f"{self.domain}/{self.tab}"


def document_names(places: Iterable[DocumentPlace]) -> dict[DocumentPlace, DocumentName]:
    """Return a unique name for each document."""
    names = {place: plain_name(place) for place in places}
    for digest_chars in DIGEST_CHARS:
        counts = Counter(names.values())
        clashing = [place for place, name in names.items() if counts[name] > 1]
        if not clashing:
            break
        names |= {place: _hashed_name(place, digest_chars) for place in clashing}
    return names


def plain_name(place: DocumentPlace) -> DocumentName:
    """Return the name that a document has as long as no other one would have it too."""
    mark = f"-{place.mark}" if place.mark else ""
    return DocumentName(_domain_of(place.origin), f"tab{place.ordinal}{mark}")


def _hashed_name(place: DocumentPlace, digest_chars: int) -> DocumentName:
    identity = f"{place.profile}\n{place.tab_id}\n{place.frame_id}\n{place.origin}"
    if digest_chars > DIGEST_CHARS[0]:
        identity += f"\n{place.browser_pid}"  # of a copied profile; it changes with each start
    digest = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:digest_chars]
    return DocumentName(_domain_of(place.origin), f"tab{place.ordinal}-{digest}")


def _domain_of(origin: str) -> str:
    """Return the host, plus the port if it is not the scheme's default: `localhost_3000`."""
    return _UNSAFE.sub("_", origins.format_domain(origin))
