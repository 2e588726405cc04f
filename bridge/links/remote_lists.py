"""Lists of a remote server: pages, limits and entries. Sans-IO.

An entry that MCP does not allow is left out alone, with a reason that names it. At most 2000 tools and 4 MiB
of all lists are kept, in the server's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bridge.links.remote_problem import Cause, RemoteProblem
from native_host.protocol.untrusted_text import is_single_line, quote

MAX_TOOLS = 2000
MAX_LIST_BYTES = 4 << 20
"""Bytes of all entries of a server as JSON."""
MAX_PAGES = 200
MAX_KEY_CHARS = 4096
"""Characters of a name or a URI."""
_MAX_REASONS = 50
_MAX_SHOWN_CHARS = 80

Definition = dict[str, Any]
"""Tool, resource, resource template or prompt with all its members."""


class RemoteEntry(msgspec.Struct, frozen=True):
    """Entry of a list."""

    key: str
    """Name, URI or URI template, as the server has it."""
    definition: Definition
    raw: bytes
    """`definition` as JSON."""


Entries = tuple[RemoteEntry, ...]


class RemoteLists(msgspec.Struct, frozen=True):
    """All lists of a server, as of its last sync."""

    tools: Entries = ()
    resources: Entries = ()
    templates: Entries = ()
    prompts: Entries = ()
    left_out: tuple[str, ...] = ()
    """One line for each entry that is not offered, with its name and the reason."""


class ListKind(msgspec.Struct, frozen=True):
    """One of the lists."""

    method: str
    member: str
    """Member of the result that holds the entries."""
    key: str
    """Member of an entry that identifies it."""
    capability: str
    noun: str


TOOLS = ListKind("tools/list", "tools", "name", "tools", "tool")
RESOURCES = ListKind("resources/list", "resources", "uri", "resources", "resource")
TEMPLATES = ListKind(
    "resources/templates/list", "resourceTemplates", "uriTemplate", "resources", "resource template"
)
PROMPTS = ListKind("prompts/list", "prompts", "name", "prompts", "prompt")
KINDS = (TOOLS, RESOURCES, TEMPLATES, PROMPTS)
"""In the order in which they share MAX_LIST_BYTES."""

Accept = Callable[[Definition], Definition | str | None]
"""Returns the definition to offer, the reason to leave it out, or None: left out by the user's choice."""


class ListReader:
    """Collects the pages of one list."""

    def __init__(
        self,
        kind: ListKind,
        budget_bytes: int,
        accept: Accept | None = None,
        mask: Callable[[str], str] = str,
    ) -> None:
        """Start a list.

        Args:
            kind: the list.
            budget_bytes: bytes that its entries may have together.
            accept: checks and changes an entry.
            mask: removes secrets from a name before it is cut.
        """
        self.entries: list[RemoteEntry] = []
        self.left_out: list[str] = []
        self.used_bytes = 0
        self._kind = kind
        self._budget_bytes = budget_bytes
        self._accept = accept
        self._mask = mask
        self._keys: set[str] = set()
        self._cursors: set[str] = set()
        self._left_out_entries = 0
        self._position = 0

    def add_page(self, result: Mapping[str, Any]) -> str | None:
        """Add one result; return the cursor of the next page, or None after the last one.

        Raises:
            RemoteProblem: the result is no list, repeats a cursor, or is one page too many.
        """
        entries = result.get(self._kind.member)
        if not isinstance(entries, list):
            raise RemoteProblem(Cause.BAD_LIST, f"{self._kind.method} returned no list")
        for entry in entries:
            self._position += 1
            if not self._add(entry):
                return None
        return self._next_cursor(result.get("nextCursor"))

    def close(self) -> tuple[str, ...]:
        """Return the reasons for what was left out."""
        more = self._left_out_entries - len(self.left_out)
        return (*self.left_out, f"{more} more") if more > 0 else tuple(self.left_out)

    def _next_cursor(self, cursor: Any) -> str | None:
        if cursor is None or cursor == "":
            return None
        if not isinstance(cursor, str) or cursor in self._cursors:
            raise RemoteProblem(Cause.BAD_LIST, f"{self._kind.method} returned the same cursor again")
        self._cursors.add(cursor)
        if len(self._cursors) >= MAX_PAGES:
            raise RemoteProblem(Cause.BAD_LIST, f"{self._kind.method} has more than {MAX_PAGES} pages")
        return cursor

    def _add(self, entry: Any) -> bool:
        """Add an entry; return False if there is space for neither it nor a later one."""
        reason = self._find_fault(entry)
        if reason:
            self._leave_out(entry, reason)
            return True
        offered = self._accept(entry) if self._accept is not None else entry
        if not isinstance(offered, dict):
            if offered is not None:
                self._leave_out(entry, offered)
            return True
        raw = msgspec.json.encode(offered)
        limit = self._find_limit(len(raw))
        if limit:
            self._leave_out(entry, f"{limit}; later ones are left out too")
            return False
        self.used_bytes += len(raw)
        self._keys.add(entry[self._kind.key])
        self.entries.append(RemoteEntry(entry[self._kind.key], offered, raw))
        return True

    def _find_limit(self, size_bytes: int) -> str:
        if self._kind is TOOLS and len(self.entries) >= MAX_TOOLS:
            return f"more than {MAX_TOOLS} tools"
        if self.used_bytes + size_bytes > self._budget_bytes:
            return f"more than {MAX_LIST_BYTES >> 20} MiB of lists"
        return ""

    def _find_fault(self, entry: Any) -> str:
        if not isinstance(entry, dict):
            return "not an object"
        key = entry.get(self._kind.key)
        if not isinstance(key, str) or not key:
            return f"no {self._kind.key}"
        if len(key) > MAX_KEY_CHARS:
            return f"{self._kind.key} of {len(key)} characters"
        if not is_single_line(key):
            return f"hidden characters in its {self._kind.key}"
        if key in self._keys:
            return f"a second one with this {self._kind.key}"
        return _find_wrong_member(self._kind, entry)

    def _leave_out(self, entry: Any, reason: str) -> None:
        self._left_out_entries += 1
        if len(self.left_out) >= _MAX_REASONS:
            return
        key = entry.get(self._kind.key) if isinstance(entry, dict) else None
        shown = f"number {self._position}"
        if isinstance(key, str) and key:
            shown = quote(self._mask(key), _MAX_SHOWN_CHARS)
        self.left_out.append(f"{self._kind.noun} {shown}: {reason}")


_TEXTS = ("title", "description", "mimeType")
_OBJECTS = ("annotations", "_meta")


def _find_wrong_member(kind: ListKind, entry: Mapping[str, Any]) -> str:
    for name in _TEXTS:
        if not isinstance(entry.get(name, ""), str):
            return f"{name} is not a string"
    for name in _OBJECTS:
        if not isinstance(entry.get(name, {}), dict):
            return f"{name} is not an object"
    if kind is TOOLS:
        return _find_wrong_schema(entry)
    if kind is PROMPTS and not isinstance(entry.get("arguments", []), list):
        return "arguments is not a list"
    return ""


def _find_wrong_schema(tool: Mapping[str, Any]) -> str:
    for name in ("inputSchema", "outputSchema"):
        schema = tool.get(name, {})
        if not isinstance(schema, dict):
            return f"{name} is not an object"
    if tool.get("inputSchema", {}).get("type", "object") != "object":
        return "inputSchema does not describe an object"
    return ""
