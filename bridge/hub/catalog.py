"""Public names ⇄ the tools that are there now. Pure; made anew when the registry has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bridge.errors import CallError, UnknownToolError
from bridge.hub.describing import describe, displayed
from bridge.hub.naming import MAX_NAME, Place, domain_name, public_names
from bridge.hub.registry import Offer, Registry
from bridge.hub.sessions import Meaning, Session
from native_host.wire import Code

_MAX_CHOICE = 4
"""Names to choose from in an error."""


@dataclass(frozen=True)
class Entry:
    """A tool under its public name."""

    name: str
    offer: Offer

    @cached_property
    def meaning(self) -> Meaning:
        """What the name stands for."""
        browser, frame = self.offer.browser, self.offer.frame
        at = frame.tab_id, frame.frame_id
        return Meaning(browser.profile, browser.pid, *at, frame.origin, self.offer.tool.name)

    @property
    def own_name(self) -> str:
        """What the page calls it."""
        return self.offer.tool.name

    @property
    def title(self) -> str:
        """The page's title for it, or empty."""
        title = self.offer.tool.definition.get("title")
        return title if isinstance(title, str) else ""

    @property
    def origin(self) -> str:
        """Where its document lives."""
        return self.offer.frame.origin

    @property
    def tab_title(self) -> str:
        """Of its tab, as that is now."""
        return self.offer.tab.title

    @property
    def ordinal(self) -> int:
        """Its tab's number within the domain."""
        return self.offer.tab.ordinal

    @property
    def is_active(self) -> bool:
        """Whether the person looks at its tab."""
        return self.offer.tab.active and self.offer.tab.focused

    @property
    def page_words(self) -> str:
        """The page's own description, as it came."""
        return self.offer.tool.description

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        schema: dict[str, Any] = self.offer.tool.definition["inputSchema"]
        return schema

    def definition(self) -> dict[str, Any]:
        """The MCP Tool that clients see: the page's, under the public name, described by where it lives."""
        shown = displayed(self.offer.frame.origin, self.offer.tool.definition)
        return {**shown, "name": self.name, "description": self.description()}

    def description(self) -> str:
        """Where it lives now, and the page's own words."""
        return describe(self.offer.frame.origin, self.offer.tab, self.offer.tool.description)


class Catalog:
    """The names of all tools in a registry."""

    def __init__(self, registry: Registry, max_name: int = MAX_NAME) -> None:
        self._registry = registry
        self._max_name = max_name
        self._version = -1
        self._entries: dict[str, Entry] = {}
        self._by_meaning: dict[Meaning, Entry] = {}
        self._by_domain_name: dict[str, list[Entry]] = {}
        """Made when first asked for."""

    def entries(self) -> list[Entry]:
        """All tools, one entry for each tab that offers it."""
        self._refresh()
        return list(self._entries.values())

    def listed(self) -> tuple[tuple[str, str, bytes], ...]:
        """What a client is told has changed when it has: not, for instance, which tab is active."""
        return tuple((e.name, e.offer.frame.origin, e.offer.tool.raw) for e in self.entries())

    def show(self, session: Session) -> list[Entry]:
        """All tools; from now on these names mean them for this session."""
        entries = self.entries()
        session.show({entry.name: entry.meaning for entry in entries})
        return entries

    def find(self, session: Session, name: str) -> Entry:
        """What `name` means to this session now; without a tab in it, the best tab's.

        Raises:
            CallError: it was shown to this session, and its tool is gone.
            UnknownToolError: it never was, and nobody offers it.
        """
        self._refresh()
        shown = session.shown.get(name)
        if shown is not None and (entry := self._by_meaning.get(shown)):
            return entry
        entry = self._entries.get(name)
        if entry and (shown is None or shown.is_continued_by(entry.meaning)):
            return entry
        if shown is not None:
            raise CallError(Code.NO_LONGER_OFFERED, name, handed=False)
        return self._best_of_domain(session, name)

    def _best_of_domain(self, session: Session, name: str) -> Entry:
        meant: dict[tuple[str, str], Entry] = {}
        for entry in sorted(self._of_domain(name), key=_nearness):
            if entry.offer.tab.owner in (None, session.id):
                meant[entry.offer.frame.origin, entry.offer.tool.name] = entry
        if not meant:
            raise UnknownToolError(name)
        if len(meant) > 1:
            raise CallError(Code.INVALID_PARAMS, _choice(name, list(meant.values())), handed=False)
        return next(iter(meant.values()))

    def _of_domain(self, name: str) -> list[Entry]:
        if not self._by_domain_name:
            for entry in self._entries.values():
                offer = entry.offer
                known_as = domain_name(offer.frame.origin, offer.tool.name, self._max_name)
                self._by_domain_name.setdefault(known_as, []).append(entry)
        return self._by_domain_name.get(name, [])

    def _refresh(self) -> None:
        if self._version == self._registry.version:
            return
        offers = list(self._registry.offers())
        names = public_names([_place(offer) for offer in offers], self._max_name)
        self._entries = {name: Entry(name, offer) for name, offer in zip(names, offers, strict=True)}
        self._by_meaning = {entry.meaning: entry for entry in self._entries.values()}
        self._by_domain_name = {}
        self._version = self._registry.version


def _nearness(entry: Entry) -> tuple[bool, bool, float]:
    """How near a tab is to the person: shown in the focused window, else by when it was last looked at."""
    offer = entry.offer
    return offer.lost_at is None, offer.tab.active and offer.tab.focused, offer.tab.last_accessed


def _choice(name: str, entries: Sequence[Entry]) -> str:
    """`http` and `https` of a host, say, look alike in a name, and are not the same site."""
    names = [f"{entry.name} ({entry.offer.frame.origin})" for entry in entries[-_MAX_CHOICE:]]
    return f"{name} may mean several tools; call one of them by its whole name: {', '.join(reversed(names))}"


def _place(offer: Offer) -> Place:
    return Place(
        profile=offer.browser.profile,
        browser_pid=offer.browser.pid,
        tab_id=offer.tab.tab_id,
        frame_id=offer.frame.frame_id,
        ordinal=offer.tab.ordinal,
        origin=offer.frame.origin,
        own_name=offer.tool.name,
    )
