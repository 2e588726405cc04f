"""Marks in the `_meta` of what a page has written: that it is untrusted, and its origin. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from bridge.hub.tool_definition import OWN_META
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, single_line

_members = msgspec.json.Decoder(dict[str, Raw])


def mark_meta(members: Mapping[str, Raw], origin: str) -> dict[str, Any]:
    """Return the `_meta` for an object of a page: the page's own, except members that are the bridge's."""
    try:
        given = _members.decode(members.get("_meta", b"{}"))
    except msgspec.DecodeError:
        given = {}
    kept: dict[str, Any] = {name: value for name, value in given.items() if not name.startswith(OWN_META)}
    return kept | {f"{OWN_META}untrusted": True, f"{OWN_META}origin": single_line(origin, MAX_ORIGIN_CHARS)}
