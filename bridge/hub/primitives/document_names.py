"""Names of documents in public URIs and prompt names: `shop.example/tab1`. Sans-IO.

They follow the rules of tool names (`public_names.py`), except that the domain keeps its dots. A name without
a hash means one origin: `http` stands in front of the domain where the network could forge it. Documents in
frames, of other origins, and those that would share a name have a hash of their identity.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from bridge import origins
from bridge.hub.public_names import DIGEST_CHARS

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+")
"""Hosts that no other origin's domain looks like: without the `_` before a port, and the `:` of IPv6."""
_LOOPBACK = re.compile(r"(.+\.)?localhost|127(\.\d+){3}")
TOP_FRAME = 0


class DocumentPlace(msgspec.Struct, frozen=True):
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
        names |= {place: hashed_name(place, digest_chars) for place in clashing}
    return names


def plain_name(place: DocumentPlace) -> DocumentName:
    """Return the name that a document has as long as no other one would have it too."""
    if place.frame_id != TOP_FRAME or not _has_plain_domain(place.origin):
        return hashed_name(place)
    mark = f"-{place.mark}" if place.mark else ""
    return DocumentName(_domain_of(place.origin), f"tab{place.ordinal}{mark}")


def hashed_name(place: DocumentPlace, digest_chars: int = DIGEST_CHARS[0]) -> DocumentName:
    """Return the name that a document has while another one would have its plain name too."""
    identity = f"{place.profile}\n{place.tab_id}\n{place.frame_id}\n{place.origin}"
    if digest_chars > DIGEST_CHARS[0]:
        identity += f"\n{place.browser_pid}"  # of a copied profile; it changes with each start
    digest = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:digest_chars]
    return DocumentName(_domain_of(place.origin), f"tab{place.ordinal}-{digest}")


def _domain_of(origin: str) -> str:
    """Return the host, plus the port if it is not the scheme's default: `localhost_3000`, `http_intranet`."""
    scheme, host, _ = _parse(origin)
    is_forgeable = scheme == "http" and not _LOOPBACK.fullmatch(host)
    return f"{'http_' if is_forgeable else ''}{_UNSAFE.sub('_', origins.format_domain(origin))}"


def _has_plain_domain(origin: str) -> bool:
    scheme, host, _ = _parse(origin)
    return scheme in ("http", "https") and _PLAIN_HOST.fullmatch(host) is not None


def _parse(origin: str) -> origins.Origin:
    try:
        return origins.parse_address(origin).origin
    except origins.OriginError:
        return origins.Origin("", "", None)
