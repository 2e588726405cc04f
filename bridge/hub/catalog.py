"""Public names ⇄ the tools that are there now, and those that are kept. Pure.

Brought up to date when the registry has changed; what that costs depends on the frames that changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from bridge.errors import CallError, UnknownToolError
from bridge.hub.caching import CachedTool, NothingKept, ToolStore
from bridge.hub.entry import NO_TAB, CachedEntry, Entry, LiveEntry
from bridge.hub.naming import DIGEST_CHARS, MAX_NAME, Place, ToolNamer, domain_name, kept_name
from bridge.hub.policy import Policy
from bridge.hub.registry import Browser, Frame, FrameAt, Offer, Registry
from bridge.hub.sessions import Identity, Meaning, Session
from native_host import wire
from native_host.wire import Code

_MAX_CHOICE = 4
"""Names to choose from in an error."""


_Shown = tuple[tuple[str, str, bytes], ...]
"""Name, origin and definition of tools."""
Listed = dict[tuple[str, int, int, int] | None, _Shown]
"""By frame, whichever host serves it, and None for what is kept."""


@dataclass(frozen=True, eq=False)
class _Shelf:
    """The tools of one document."""

    browser: Browser
    frame: Frame
    ordinal: int
    tab_origin: str
    places: list[Place]
    entries: list[LiveEntry]
    listed: _Shown

    @cached_property
    def frame_of_browser(self) -> tuple[str, int, int, int]:
        """Which frame this is, also behind another host of the same browser."""
        announced = self.frame.announced
        return self.browser.profile, self.browser.pid, announced.tab_id, announced.frame_id

    def holds(self, browser: Browser, tab: wire.Tab, frame: Frame) -> bool:
        """Whether nothing in it would be different."""
        is_same_tab = (self.ordinal, self.tab_origin) == (tab.ordinal, tab.origin)
        return self.browser is browser and self.frame is frame and is_same_tab


class Catalog:
    """The names of all tools in a registry and a store."""

    def __init__(
        self,
        registry: Registry,
        max_name: int = MAX_NAME,
        policy: Policy | None = None,
        store: ToolStore | None = None,
    ) -> None:
        self._registry = registry
        self._policy = policy or Policy()
        self._store = store or NothingKept()
        self._namer = ToolNamer(max_name)
        self._version = self._store_version = -1
        self._changes_of_store = 0
        self._shelves: dict[FrameAt, _Shelf] = {}
        self._where: dict[Place, FrameAt] = {}
        self._by_name: dict[str, LiveEntry] = {}
        self._by_identity: dict[Identity, LiveEntry] = {}
        self._by_domain: dict[str, dict[Identity, LiveEntry]] = {}
        """By the name without a tab."""
        self._kept: dict[str, CachedEntry] = {}
        self._kept_by_domain: dict[str, list[CachedEntry]] = {}
        self._listed_kept: _Shown = ()
        self._touched_forms: set[str] = set()
        """The names without a tab whose meaning may have changed."""

    # ── What there is ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> int:
        """Changes whenever the entries may have."""
        return self._registry.version + self._changes_of_store

    def store_changed(self) -> None:
        """The store's tools are others now."""
        self._changes_of_store += 1

    def entries(self) -> list[Entry]:
        """All tools that may be called: one for each tab that offers it, and those that have no tab."""
        self._refresh()
        return [entry for entry in chain(self.live(), self._kept_without_tab()) if not entry.refusal]

    def live(self) -> Iterator[LiveEntry]:
        """All tools that pages offer now, forbidden ones included, by browser, tab and frame."""
        self._refresh()
        rank = {browser.host: rank for rank, browser in enumerate(self._registry.browsers())}
        for at in sorted(self._shelves, key=lambda at: (rank[at.host], at)):
            yield from self._shelves[at].entries

    def listed(self) -> Listed:
        """What a client is told has changed when it has: not, for instance, which tab is active."""
        self._refresh()
        listed: Listed = {
            shelf.frame_of_browser: shelf.listed for shelf in self._shelves.values() if shelf.listed
        }
        listed[None] = self._listed_kept
        return listed

    def show(self, session: Session, entries: Sequence[Entry] | None = None) -> Sequence[Entry]:
        """These entries, by default all; from now on their names mean them for this session."""
        shown = self.entries() if entries is None else entries
        session.show({entry.name: entry.meaning for entry in shown})
        return shown

    # ── What a name means ───────────────────────────────────────────────────────────────────────────────────

    def find(
        self, session: Session, name: str, passing_by: Collection[Identity] = (), profile: str | None = None
    ) -> Entry:
        """What `name` means to this session now; without a tab in it, the best tab's.

        `passing_by` are tools that were not there when they were called: the last to be taken. `profile`, if
        it is given, is the only one to look in.

        Raises:
            CallError: it was shown to this session, and its tool is gone; or it could be several.
            UnknownToolError: it never was, and nobody offers it.
        """
        self._refresh()
        shown = session.shown.get(name)
        if shown is None:
            return self._by_name.get(name) or self._best_of_domain(session, name, passing_by, profile)
        if shown.identity.tab_id == NO_TAB:
            return self._best_of_kept(session, name, shown.identity, passing_by)
        return self._shown_in_tab(name, shown)

    def names_a_tab(self, session: Session, name: str) -> bool:
        """Whether `name` means the tool of one tab, and of no other."""
        shown = session.shown.get(name)
        return name in self._by_name if shown is None else shown.identity.tab_id != NO_TAB

    def in_tab(self, session: Session, wanted: CachedEntry, tab_id: int) -> LiveEntry | None:
        """The tool of an entry without a tab, in this tab of its profile, if it can be called there."""
        self._refresh()
        alike = self._alike(wanted.profile, wanted.origin, wanted.own_name)
        there = (entry for entry in alike if entry.offer.tab_id == tab_id and entry.offer.lost_at is None)
        return self._best(session, there)

    def _shown_in_tab(self, name: str, shown: Meaning) -> LiveEntry:
        entry = self._by_identity.get(shown.identity)
        if entry is None:
            entry = self._by_name.get(name)
            if entry is None or not self._is_continued(shown.identity, entry.meaning.identity):
                raise CallError(Code.NO_LONGER_OFFERED, name, handed=False)
        if not shown.still_holds(entry.meaning):
            raise CallError(Code.NAVIGATED, f"{name} was listed for another one", handed=False)
        return entry

    def _is_continued(self, shown: Identity, now: Identity) -> bool:
        """A copied profile in another browser that runs beside the first is not its continuation."""
        still_runs = any(browser.pid == shown.browser_pid for browser in self._registry.browsers())
        return shown.is_continued_by(now) and (shown.browser_pid == now.browser_pid or not still_runs)

    def _best_of_domain(
        self, session: Session, name: str, passing_by: Collection[Identity], profile: str | None
    ) -> Entry:
        live = [
            entry
            for key, entry in self._by_domain.get(name, {}).items()
            if profile is None or key.profile == profile
        ]
        kept = [entry for entry in self._kept_by_domain.get(name, ()) if profile in (None, entry.profile)]
        kept.sort(key=lambda entry: self._registry.live_browser(entry.profile) is not None)
        missed = [entry for entry in live if entry.meaning.identity in passing_by]
        ranked = chain(
            (self._elsewhere(entry) for entry in live if entry.origin.startswith("http")),
            self._of_session(session, missed),
            kept,
            self._of_session(session, (entry for entry in live if entry not in missed)),
        )
        meant: dict[tuple[str, str], Entry] = {(entry.origin, entry.own_name): entry for entry in ranked}
        if not meant:
            found = self._kept.get(name)
            if found is None or profile not in (None, found.profile):
                raise UnknownToolError(name)
            return self._best_of_kept(session, name, found.meaning.identity, passing_by)
        if len(meant) > 1:
            raise CallError(Code.INVALID_PARAMS, _choice(name, list(meant.values())), handed=False)
        return next(iter(meant.values()))

    def _elsewhere(self, entry: LiveEntry) -> CachedEntry:
        """The tool of a tab that the asker may not use, in one still to be opened at its own site."""
        url, refusal = f"{entry.origin}/", self._policy.refusal(entry.origin, entry.tool)
        cached = CachedTool(entry.offer.browser.profile, entry.origin, url, entry.tool)
        return CachedEntry.of(entry.name, cached, refusal, entry.own_words)

    def _best_of_kept(
        self, session: Session, name: str, shown: Identity, passing_by: Collection[Identity]
    ) -> Entry:
        alike = self._alike(shown.profile, shown.origin, shown.own_name)
        there = (live for live in alike if live.meaning.identity not in passing_by)
        if (best := self._best(session, there)) is not None:
            return best
        form = domain_name(shown.origin, shown.own_name, self._namer.max_name)
        for kept in self._kept_by_domain.get(form, ()):
            if kept.meaning.identity == shown:
                return kept
        raise CallError(Code.NO_LONGER_OFFERED, name, handed=False)

    @staticmethod
    def _of_session(session: Session, entries: Iterable[LiveEntry]) -> list[LiveEntry]:
        """Those whose tab a session may use, the nearest last."""
        usable = (entry for entry in entries if entry.offer.tab.owner in (None, session.id))
        return sorted(usable, key=_nearness)

    def _best(self, session: Session, entries: Iterable[LiveEntry]) -> LiveEntry | None:
        return next(reversed(self._of_session(session, entries)), None)

    def _alike(self, profile: str, origin: str, own_name: str) -> Iterator[LiveEntry]:
        form = domain_name(origin, own_name, self._namer.max_name)
        for key, live in self._by_domain.get(form, {}).items():
            if (key.profile, key.origin, key.own_name) == (profile, origin, own_name):
                yield live

    # ── Keeping up ──────────────────────────────────────────────────────────────────────────────────────────

    def _refresh(self) -> None:
        if self._version == self._registry.version and self._store_version == self._changes_of_store:
            return
        if self._version != self._registry.version:
            self._refresh_live()
        has_store_changed = self._store_version != self._changes_of_store
        if has_store_changed or not self._touched_forms.isdisjoint(self._kept_by_domain):
            self._refresh_kept()
        self._touched_forms.clear()
        self._version, self._store_version = self._registry.version, self._changes_of_store

    def _refresh_live(self) -> None:
        touched = self._registry.take_touched()
        if touched is None:
            touched = self._shelves.keys() | {_at(*frame) for frame in self._registry.frames()}
        there = {at: frame for at, frame in self._registry.frames_among(touched) if frame[2].tools}
        known = touched & self._shelves.keys()
        gone = [at for at in known if at not in there or not self._shelves[at].holds(*there[at])]
        places_gone = [place for at in gone for place in self._take_down(at)]
        come = {at: _places(*there[at]) for at in sorted(there) if at not in self._shelves}
        renamed = self._namer.change(places_gone, chain.from_iterable(come.values()))
        again = {self._where[place] for place in renamed if place in self._where}
        there.update(self._registry.frames_among(again))
        come.update({at: self._take_down(at) for at in again})
        for at, places in come.items():
            self._where.update(dict.fromkeys(places, at))
            self._shelves[at] = self._put_up(places, *there[at])

    def _take_down(self, key: FrameAt) -> list[Place]:
        shelf = self._shelves.pop(key)
        for place in shelf.places:
            del self._where[place]
        for entry in shelf.entries:
            identity = entry.meaning.identity
            if self._by_name.get(entry.name) is entry:
                del self._by_name[entry.name]
            if self._by_identity.get(identity) is entry:
                del self._by_identity[identity]
            self._forget_domain(
                domain_name(entry.origin, entry.own_name, self._namer.max_name), identity, entry
            )
        return shelf.places

    def _forget_domain(self, form: str, identity: Identity, entry: LiveEntry) -> None:
        self._touched_forms.add(form)
        sharing = self._by_domain.get(form, {})
        if sharing.get(identity) is entry:
            del sharing[identity]
        if not sharing:
            self._by_domain.pop(form, None)

    def _put_up(self, places: list[Place], browser: Browser, tab: wire.Tab, frame: Frame) -> _Shelf:
        offers = (Offer(browser, tab.tab_id, frame, tool) for tool in frame.tools)
        pairs = zip(places, offers, strict=True)
        host_refusal = self._policy.origin_refusal(tab.origin) if tab.origin else ""
        entries = [self._live_entry(self._namer.name(place), offer, host_refusal) for place, offer in pairs]
        for entry in entries:
            identity = entry.meaning.identity
            self._by_name[entry.name] = entry
            self._by_identity[identity] = entry
            form = domain_name(entry.origin, entry.own_name, self._namer.max_name)
            self._touched_forms.add(form)
            self._by_domain.setdefault(form, {})[identity] = entry
        return _Shelf(browser, frame, tab.ordinal, tab.origin, places, entries, _listed(entries))

    def _live_entry(self, name: str, offer: Offer, host_refusal: str) -> LiveEntry:
        """A frame needs leave for its own site and for the page that it is in, which may look over it."""
        origin = offer.frame.origin
        refusal = host_refusal or self._policy.refusal(origin, offer.tool)
        own_words = self._policy.description(origin, offer.tool.name)
        return LiveEntry(name, offer.tool, origin, refusal, own_words, offer)

    def _refresh_kept(self) -> None:
        sharing: dict[str, list[CachedTool]] = {}
        for cached in self._store.tools():
            form = domain_name(cached.origin, cached.tool.name, self._namer.max_name)
            sharing.setdefault(form, []).append(cached)
        self._kept, self._kept_by_domain = {}, {}
        for form, alike in sharing.items():
            for cached in alike:
                name = self._name_kept(form, cached, alike)
                refusal = self._policy.refusal(cached.origin, cached.tool)
                own_words = self._policy.description(cached.origin, cached.tool.name)
                self._kept[name] = CachedEntry.of(name, cached, refusal, own_words)
                self._kept_by_domain.setdefault(form, []).append(self._kept[name])
        self._listed_kept = _listed(self._kept_without_tab())

    def _name_kept(self, form: str, cached: CachedTool, alike: Sequence[CachedTool]) -> str:
        """The form without a tab where that can only mean this tool, else one with a hash."""
        wanted = cached.origin, cached.tool.name
        others = ((live.origin, live.own_name) for live in self._by_domain.get(form, {}).values())
        if len(alike) == 1 and form not in self._by_name and all(other == wanted for other in others):
            return form
        names = [kept_name(cached.profile, *wanted, self._namer.max_name, chars) for chars in DIGEST_CHARS]
        return next(
            (name for name in names if name not in self._by_name and name not in self._kept), names[-1]
        )

    def _kept_without_tab(self) -> Iterator[CachedEntry]:
        for kept in self._kept.values():
            if not any(self._alike(kept.profile, kept.origin, kept.own_name)):
                yield kept


def _nearness(entry: LiveEntry) -> tuple[bool, bool, bool, bool, float, str, int, int]:
    """How near a tool is to the person: its tab shown in the focused window, else by when it was looked at.

    A site's own page comes before a frame of it in another's, whoever shows that: such a page may look over
    what its frames answer. Behind that any order, the same in every bridge.
    """
    offer, tab = entry.offer, entry.offer.tab
    is_whole_page = offer.frame.frame_id == 0
    by_itself = offer.browser.host, -tab.tab_id, -offer.frame.frame_id
    is_shown = tab.active and tab.focused
    is_at_home = entry.origin == tab.origin
    return offer.lost_at is None, is_at_home, is_shown, is_whole_page, tab.last_accessed, *by_itself


def _choice(name: str, entries: Sequence[Entry]) -> str:
    """`http` and `https` of a host, say, look alike in a name, and are not the same site."""
    names = [f"{entry.name} ({entry.origin})" for entry in entries[-_MAX_CHOICE:]]
    return f"{name} may mean several tools; call one of them by its whole name: {', '.join(reversed(names))}"


def _listed(entries: Iterable[Entry]) -> _Shown:
    return tuple((entry.name, entry.origin, entry.tool.raw) for entry in entries if not entry.refusal)


def _at(browser: Browser, tab: wire.Tab, frame: Frame) -> FrameAt:
    return FrameAt(browser.host, tab.tab_id, frame.announced.frame_id)


def _places(browser: Browser, tab: wire.Tab, frame: Frame) -> list[Place]:
    announced = frame.announced
    at = browser.profile, browser.pid, tab.tab_id, announced.frame_id, tab.ordinal, announced.origin
    return [Place(*at, tool.name) for tool in frame.tools]
