"""Hops between mcpb bridges: what is behind more than one is not listed. Pure.

Two bridges that are remote servers of each other would else list their own tools, longer with each sync. An
entry that comes from an mcpb is marked, and a bridge leaves out entries that arrive with the mark: they are
behind more than one hop. Calls carry the number of their hops in the same member.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bridge.hub.transport import HOPS
from bridge.links.remote_lists import RemoteEntry

OWN_NAME = "mcpb"
"""Name with which an mcpb introduces itself."""


class EntryForm(msgspec.Struct, frozen=True):
    """Form of a server's entries for clients."""

    server: str
    is_mcpb: bool = False

    def select_entries(self, entries: Iterable[RemoteEntry]) -> list[RemoteEntry]:
        """Return the entries that are not behind more than one hop."""
        return [entry for entry in entries if not _is_behind_hop(entry.definition)]

    def mark_definition(self, definition: bytes) -> bytes:
        """Return an entry (JSON) with the mark, if its server is an mcpb."""
        if not self.is_mcpb:
            return definition
        found = msgspec.json.decode(definition, type=dict[str, msgspec.Raw])
        meta = msgspec.json.decode(found.get("_meta", b"{}"), type=dict[str, msgspec.Raw])
        marked: dict[str, Any] = {**found, "_meta": {**meta, HOPS: 1}}
        return msgspec.json.encode(marked)


def _is_behind_hop(definition: dict[str, Any]) -> bool:
    meta = definition.get("_meta")
    return isinstance(meta, dict) and HOPS in meta
