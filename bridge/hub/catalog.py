"""Catalog: public names of the live tools and of the cached ones. Sans-IO.

It is updated when the registry has changed, at a cost that depends on the changed frames only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from bridge.errors import CallError, UnknownToolError
from bridge.hub.cached_tools import CachedToolRow, NoToolStore, ToolStore
from bridge.hub.catalog_entries import NO_TAB, CachedEntry, DocumentTools, Entry, LiveEntry
from bridge.hub.client_session import Session, ToolBinding, ToolIdentity
from bridge.hub.page_tool import PageTool
from bridge.hub.policy import Policy
from bridge.hub.public_names import (
    DIGEST_CHARS,
    MAX_NAME,
    Place,
    ProfileMarks,
    ToolNamer,
    domain_name,
    kept_name,
    public_names,
)
from bridge.hub.registry import GRACE_S, Browser, Frame, FrameAt, LeftDocument, Offer, Registry
from native_host.protocol import wire
from native_host.protocol.wire import Code

_MAX_CHOICE = 4


_Where = tuple[Browser, wire.Tab, Frame]


class _Edition(msgspec.Struct):
    """Values made of all entries on demand, valid until an entry changes."""

    number: int
    documents: Sequence[DocumentTools] | None = None
    kept: Sequence[CachedEntry] | None = None
    bindings: Mapping[str, ToolBinding] | None = None


class Catalog:
    """The names of all tools in a registry and a store."""

    def __init__(
        self,
        registry: Registry,
        max_name: int = MAX_NAME,
        policy: Policy | None = None,
        store: ToolStore | None = None,
        profiles: ProfileMarks | None = None,
    ) -> None:
        self._registry = registry
        self._profiles = profiles or ProfileMarks()
        self._policy = policy or Policy()
        self._store = store or NoToolStore()
        self._namer = ToolNamer(max_name)
        self._version = self._store_version = -1
        self._changes_of_store = 0
        self._policy_version = self._policy.version
        self._marks_version = self._profiles.version
        self._documents: dict[FrameAt, DocumentTools] = {}
        self._order: list[FrameAt] | None = None
        """None when frames have come or gone."""
        self._where: dict[Place, FrameAt] = {}
        self._by_name: dict[str, LiveEntry] = {}
        self._by_identity: dict[ToolIdentity, LiveEntry] = {}
        self._by_form: dict[str, dict[ToolIdentity, LiveEntry]] = {}
        self._stored: dict[str, list[CachedToolRow]] = {}
        self._kept: dict[str, CachedEntry] = {}
        self._kept_by_form: dict[str, list[CachedEntry]] = {}
        self._touched: set[str] = set()
        """The names and forms whose meaning may have changed."""
        self._edition = _Edition(0)

    def set_max_name(self, max_name: int) -> None:
        """Give all tools names of at most this many characters."""
        if max_name == self._namer.max_name:
            return
        self._namer = ToolNamer(max_name)
        for known in (self._documents, self._where, self._by_name, self._by_identity, self._by_form):
            known.clear()
        self._order = None
        self._policy_version = self._store_version = -1  # all are named again

    # ── What there is ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> int:
        """Changes whenever the entries may have; nothing is looked at for it."""
        changes = self._changes_of_store + self._profiles.version
        return self._registry.version + changes + self._policy.version

    @property
    def edition(self) -> tuple[int, int]:
        """Changes only when the entries have, or what they say of their tabs."""
        self._update_entries()
        return self._edition.number, self._registry.version_of_tabs

    def store_changed(self) -> None:
        """Read the store's tools again before the next lookup."""
        self._changes_of_store += 1

    def documents(self) -> Sequence[DocumentTools]:
        """Return the tools that pages offer now, forbidden ones included, by browser, tab and frame."""
        self._update_entries()
        if self._order is None:
            rank = {browser.host: rank for rank, browser in enumerate(self._registry.browsers())}
            self._order = sorted(self._documents, key=lambda at: (rank[at.host], at))
        if self._edition.documents is None:
            self._edition.documents = [self._documents[at] for at in self._order]
        return self._edition.documents

    def cached_entries(self) -> Sequence[CachedEntry]:
        """Return the callable tools without a tab."""
        self._update_entries()
        if self._edition.kept is None:
            self._edition.kept = [kept for kept in self._kept_without_tab() if not kept.refusal]
        return self._edition.kept

    def live_entries(self) -> Iterator[LiveEntry]:
        """All tools that pages offer now, forbidden ones included, by browser, tab and frame."""
        return chain.from_iterable(document.entries.values() for document in self.documents())

    def all_entries(self) -> list[Entry]:
        """All tools that may be called: one for each tab that offers it, and those that have no tab."""
        live = chain.from_iterable(document.allowed_entries for document in self.documents())
        return [*live, *self.cached_entries()]

    def all_bindings(self) -> Mapping[str, ToolBinding]:
        """Return the bindings of all names; the same object while they do not change."""
        self._update_entries()
        if self._edition.bindings is None:
            bindings = {entry.name: entry.binding for entry in self.cached_entries()}
            for document in self.documents():
                bindings |= document.bindings
            self._edition.bindings = bindings
        return self._edition.bindings

    # ── What a name means ───────────────────────────────────────────────────────────────────────────────────

    def find_entry(
        self,
        session: Session,
        name: str,
        passing_by: Collection[ToolIdentity] = (),
        profile: str | None = None,
    ) -> Entry:
        """Return the tool that `name` stands for in this session; without a tab in the name, the best tab's.

        `passing_by` are tools that vanished when they were called: they are tried last. `profile` restricts
        the lookup to one profile.

        Raises:
            CallError: this session was shown the name, and its tool is gone or ambiguous.
            UnknownToolError: this session was never shown the name, and no page offers it.
        """
        self._update_entries()
        shown = session.find_binding(name)
        if shown is None:
            return self._by_name.get(name) or self._best_of_domain(session, name, passing_by, profile)
        if shown.identity.tab_id == NO_TAB:
            return self._best_of_kept(session, name, shown.identity, passing_by)
        return self._shown_in_tab(name, shown)

    def names_a_tab(self, session: Session, name: str) -> bool:
        """Return whether `name` stands for the tool of exactly one tab."""
        shown = session.find_binding(name)
        return name in self._by_name if shown is None else shown.identity.tab_id != NO_TAB

    def reloading_until(self, session: Session, name: str) -> float | None:
        """Return how long a reload may bring the tool of this name back; None: its page is not reloading."""
        shown = session.find_binding(name)
        until = (
            left.left_at + GRACE_S for left in self._registry.left_documents() if self._had(left, name, shown)
        )
        return max(until, default=None)

    def _had(self, left: LeftDocument, name: str, shown: ToolBinding | None) -> bool:
        """Return whether a document that has left its frame offered a tool under this name."""
        at, browser = left.frame.announced, left.browser
        mark = self._profiles.mark_of(browser.profile)
        where = browser.profile, browser.pid, at.tab_id, at.frame_id, left.tab.ordinal, at.origin
        places = [Place(*where, tool.name, mark) for tool in left.frame.tools]
        if shown is None:
            longest = self._namer.max_name
            domain_names = {
                domain_name(at.origin, place.own_name, longest, each)
                for place in places
                for each in ("", mark)
            }
            return name in domain_names or name in public_names(places, longest)
        wanted = shown.identity
        return wanted.tab_id in (at.tab_id, NO_TAB) and any(
            (place.profile, place.origin, place.own_name) == (wanted.profile, wanted.origin, wanted.own_name)
            for place in places
        )

    def in_tab(self, session: Session, wanted: CachedEntry, tab_id: int) -> LiveEntry | None:
        """Return the callable tool of a cached entry in this tab of its profile, or None."""
        self._update_entries()
        alike = self._find_alike(wanted.profile, wanted.origin, wanted.own_name)
        there = (entry for entry in alike if entry.offer.tab_id == tab_id and entry.offer.lost_at is None)
        return self._best_entry(session, there)

    def _shown_in_tab(self, name: str, shown: ToolBinding) -> LiveEntry:
        entry = self._by_identity.get(shown.identity)
        if entry is None:
            entry = self._by_name.get(name)
            if entry is None or not self._is_continued(shown.identity, entry.binding.identity):
                raise CallError(Code.NO_LONGER_OFFERED, name, handed=False)
        if not shown.still_holds(entry.binding):
            raise CallError(Code.NAVIGATED, f"{name} was listed for another one", handed=False)
        return entry

    def _is_continued(self, shown: ToolIdentity, now: ToolIdentity) -> bool:
        """Return whether a tool continues the shown one; a copied profile in a second browser does not."""
        still_runs = any(browser.pid == shown.browser_pid for browser in self._registry.browsers())
        return shown.is_continued_by(now) and (shown.browser_pid == now.browser_pid or not still_runs)

    def _best_of_domain(
        self, session: Session, name: str, passing_by: Collection[ToolIdentity], profile: str | None
    ) -> Entry:
        live = [
            entry
            for key, entry in self._by_form.get(name, {}).items()
            if profile is None or key.profile == profile
        ]
        kept = [entry for entry in self._kept_by_form.get(name, ()) if profile in (None, entry.profile)]
        kept.sort(key=lambda entry: self._registry.live_browser(entry.profile) is not None)
        missed = [entry for entry in live if entry.binding.identity in passing_by]
        ranked = chain(
            (self._without_tab(entry) for entry in live if entry.origin.startswith("http")),
            self._of_session(session, missed),
            kept,
            self._of_session(session, (entry for entry in live if entry not in missed)),
        )
        meant: dict[tuple[str, str], Entry] = {(entry.origin, entry.own_name): entry for entry in ranked}
        if not meant:
            found = self._kept.get(name)
            if found is None or profile not in (None, found.profile):
                raise self._explain_unknown(session, name)
            return self._best_of_kept(session, name, found.binding.identity, passing_by)
        if len(meant) > 1:
            raise CallError(Code.INVALID_PARAMS, _name_choices(name, list(meant.values())), handed=False)
        return next(iter(meant.values()))

    def _explain_unknown(self, session: Session, name: str) -> Exception:
        """Return the error for a name that no tool has: it may be ambiguous but for a mark or a hash."""
        alike = (self._documents[self._where[at]].entries[at] for at in self._namer.find_alike(name))
        choices = [entry for entry in alike if not entry.refusal]
        if choices and self.reloading_until(session, name) is None:  # else its own tool comes back
            return CallError(Code.INVALID_PARAMS, _profile_choices(name, choices), handed=False)
        return UnknownToolError(name)

    def _without_tab(self, entry: LiveEntry) -> CachedEntry:
        """Return the tool of a tab that the session may not use, in a tab to be opened at its own site."""
        url, refusal = f"{entry.origin}/", self._policy.find_refusal(entry.origin, entry.tool)
        cached = CachedToolRow(entry.offer.browser.profile, entry.origin, url, entry.tool)
        found = CachedEntry.of(entry.name, cached, refusal, entry.own_words, entry.form)
        return msgspec.structs.replace(found, live=entry)

    def _best_of_kept(
        self, session: Session, name: str, shown: ToolIdentity, passing_by: Collection[ToolIdentity]
    ) -> Entry:
        alike = self._find_alike(shown.profile, shown.origin, shown.own_name)
        there = (live for live in alike if live.binding.identity not in passing_by)
        if (best := self._best_entry(session, there)) is not None:
            return best
        form = self._name_without_tab(shown.origin, shown.own_name)
        for kept in self._kept_by_form.get(form, ()):
            if kept.binding.identity == shown:
                return kept
        raise CallError(Code.NO_LONGER_OFFERED, name, handed=False)

    @staticmethod
    def _of_session(session: Session, entries: Iterable[LiveEntry]) -> list[LiveEntry]:
        """Return the entries whose tabs a session may use, the nearest last."""
        usable = (entry for entry in entries if entry.offer.tab.owner in (None, session.id))
        return sorted(usable, key=_rank_nearness)

    def _best_entry(self, session: Session, entries: Iterable[LiveEntry]) -> LiveEntry | None:
        return next(reversed(self._of_session(session, entries)), None)

    def _find_alike(self, profile: str, origin: str, own_name: str) -> Iterator[LiveEntry]:
        form = self._name_without_tab(origin, own_name)
        for key, live in self._by_form.get(form, {}).items():
            if (key.profile, key.origin, key.own_name) == (profile, origin, own_name):
                yield live

    # ── Keeping up ──────────────────────────────────────────────────────────────────────────────────────────

    def _update_entries(self) -> None:
        has_other_rules = self._policy_version != self._policy.version
        has_other_marks = self._marks_version != self._profiles.version
        is_same = self._version == self._registry.version and self._store_version == self._changes_of_store
        if is_same and not has_other_rules and not has_other_marks:
            return
        is_other = False
        if self._version != self._registry.version or has_other_rules or has_other_marks:
            is_other = self._refresh_live()
        touched = self._touched & self._stored.keys()
        if self._store_version != self._changes_of_store:
            touched |= self._sort_store()
        if has_other_rules or has_other_marks:
            touched |= self._kept_by_form.keys()
        for form in sorted(touched):
            self._name_alike(form)
        self._touched.clear()
        self._version, self._store_version = self._registry.version, self._changes_of_store
        self._policy_version, self._marks_version = self._policy.version, self._profiles.version
        if is_other or touched:
            self._edition = _Edition(self._edition.number + 1)

    def _refresh_live(self) -> bool:
        """Bring the documents up to date that may have changed; whether any had to be."""
        touched = self._registry.take_touched()
        is_same_naming = self._marks_version == self._profiles.version
        if touched is None or self._policy_version != self._policy.version or not is_same_naming:
            touched = self._documents.keys() | {_frame_at(*frame) for frame in self._registry.frames()}
        there = {at: where for at, where in self._registry.frames_among(touched) if where[2].tools}
        others = {at for at in touched if not self._is_up_to_date(at, there.get(at))}
        come = {at: self._tools_by_place(*there[at]) for at in sorted(others & there.keys())}
        renamed = self._rename_entries(others, come)
        again = {self._where[place] for place in renamed if place in self._where} - others
        there.update(self._registry.frames_among(again))
        come.update({at: self._tools_by_place(*there[at]) for at in again})
        for at in sorted(others | again):
            self._replace_document(at, come.get(at, {}), there.get(at))
        return bool(others)

    def _is_up_to_date(self, at: FrameAt, where: _Where | None) -> bool:
        known = self._documents.get(at)
        if known is not None and self._policy_version != self._policy.version:
            return False
        if known is None or where is None:
            return known is None and where is None
        mark = self._profiles.mark_of(where[0].profile)
        return known.mark == mark and known.is_up_to_date(*where)

    def _tools_by_place(self, browser: Browser, tab: wire.Tab, frame: Frame) -> dict[Place, PageTool]:
        announced, mark = frame.announced, self._profiles.mark_of(browser.profile)
        at = browser.profile, browser.pid, tab.tab_id, announced.frame_id, tab.ordinal, announced.origin
        return {Place(*at, tool.name, mark): tool for tool in frame.tools}

    def _rename_entries(self, others: set[FrameAt], come: dict[FrameAt, dict[Place, PageTool]]) -> set[Place]:
        """Let names go and give names, where documents have other tools; the places with another name."""
        before = {place for at in others if at in self._documents for place in self._documents[at].entries}
        now = {place: at for at, placed in come.items() for place in placed}
        for place in before - now.keys():
            del self._where[place]
        self._where.update(now)
        return self._namer.change_places(before - now.keys(), [place for place in now if place not in before])

    def _replace_document(self, at: FrameAt, placed: dict[Place, PageTool], where: _Where | None) -> None:
        """Put another document's tools in a frame; entries that stay as they are stay the same object."""
        before = self._documents.pop(at, None)
        after = self._make_document(before, placed, *where) if where else None
        were, are = before.entries if before else {}, after.entries if after else {}
        for place, entry in were.items():
            if are.get(place) is not entry:
                self._remove_entry(entry)
        for place, entry in are.items():
            if were.get(place) is not entry:
                self._add_entry(entry)
        if after:
            self._documents[at] = after
        if before is None or after is None:
            self._order = None

    def _make_document(
        self,
        before: DocumentTools | None,
        placed: dict[Place, PageTool],
        browser: Browser,
        tab: wire.Tab,
        frame: Frame,
    ) -> DocumentTools:
        has_same_rules = self._policy_version == self._policy.version
        is_same_page = has_same_rules and before is not None and before.is_of(browser, tab, frame)
        known = before.entries if before and is_same_page else {}
        host_refusal = self._policy.origin_refusal(tab.origin) if tab.origin else ""
        entries: dict[Place, LiveEntry] = {}
        for place, tool in placed.items():
            entry, name = known.get(place), self._namer.name_of(place)
            if entry is None or entry.tool is not tool or entry.name != name:
                entry = self._live_entry(name, place, Offer(browser, tab.tab_id, frame, tool), host_refusal)
            entries[place] = entry
        mark = self._profiles.mark_of(browser.profile)
        return DocumentTools(browser, frame, frame.tools, tab.ordinal, tab.origin, mark, entries)

    def _remove_entry(self, entry: LiveEntry) -> None:
        identity = entry.binding.identity
        self._touched |= {entry.name, entry.form}
        if self._by_name.get(entry.name) is entry:
            del self._by_name[entry.name]
        if self._by_identity.get(identity) is entry:
            del self._by_identity[identity]
        sharing = self._by_form.get(entry.form, {})
        if sharing.get(identity) is entry:
            del sharing[identity]
        if not sharing:
            self._by_form.pop(entry.form, None)

    def _add_entry(self, entry: LiveEntry) -> None:
        identity = entry.binding.identity
        self._touched |= {entry.name, entry.form}
        self._by_name[entry.name] = entry
        self._by_identity[identity] = entry
        self._by_form.setdefault(entry.form, {})[identity] = entry

    def _live_entry(self, name: str, place: Place, offer: Offer, host_refusal: str) -> LiveEntry:
        """Make an entry. A frame needs permission for its own site and for the page around it."""
        origin = offer.frame.origin
        refusal = host_refusal or self._policy.find_refusal(origin, offer.tool)
        own_words = self._policy.description_of(origin, offer.tool.name)
        form = self._name_without_tab(origin, offer.tool.name)
        return LiveEntry(name, offer.tool, origin, refusal, own_words, form, offer, place)

    def _sort_store(self) -> set[str]:
        """Sort the cached tools by name without a tab; return the names whose tools changed."""
        before = self._stored
        forms = {(one.origin, one.tool.name): form for form, alike in before.items() for one in alike}
        self._stored = {}
        for cached in self._store.tools():
            named = cached.origin, cached.tool.name
            self._stored.setdefault(forms.get(named) or self._name_without_tab(*named), []).append(cached)
        in_order = chain(self._stored, before)
        self._kept_by_form = {form: self._kept_by_form.get(form, []) for form in in_order}
        return {form for form in self._kept_by_form if before.get(form) != self._stored.get(form)}

    def _name_alike(self, form: str) -> None:
        """Name the kept tools of a form anew."""
        for entry in self._kept_by_form[form]:
            if self._kept.get(entry.name) is entry:
                del self._kept[entry.name]
        if form not in self._stored:
            del self._kept_by_form[form]
            return
        named: list[CachedEntry] = []
        for cached in self._stored[form]:
            name = self._name_kept(form, cached, self._stored[form])
            refusal = self._policy.find_refusal(cached.origin, cached.tool)
            own_words = self._policy.description_of(cached.origin, cached.tool.name)
            self._kept[name] = CachedEntry.of(name, cached, refusal, own_words, form)
            named.append(self._kept[name])
        self._kept_by_form[form] = named

    def _name_kept(self, form: str, cached: CachedToolRow, alike: Sequence[CachedToolRow]) -> str:
        """Return the name without a tab if only this tool can have it, else one with a hash."""
        wanted, mark = (cached.origin, cached.tool.name), self._profiles.mark_of(cached.profile)
        name = domain_name(*wanted, self._namer.max_name, mark) if mark else form
        others = ((live.origin, live.own_name) for live in self._by_form.get(form, {}).values())
        sharing = [other for other in alike if self._profiles.mark_of(other.profile) == mark]
        if len(sharing) == 1 and name not in self._by_name and all(other == wanted for other in others):
            return name
        names = [kept_name(cached.profile, *wanted, self._namer.max_name, chars) for chars in DIGEST_CHARS]
        return next(
            (name for name in names if name not in self._by_name and name not in self._kept), names[-1]
        )

    def _kept_without_tab(self) -> Iterator[CachedEntry]:
        for form, alike in self._kept_by_form.items():
            live = {(key.profile, key.origin, key.own_name) for key in self._by_form.get(form, ())}
            yield from (kept for kept in alike if (kept.profile, kept.origin, kept.own_name) not in live)

    def _name_without_tab(self, origin: str, own_name: str) -> str:
        return domain_name(origin, own_name, self._namer.max_name)


def _rank_nearness(entry: LiveEntry) -> tuple[bool, bool, bool, bool, float, str, int, int]:
    """Return how near a tool is to the user: shown in the focused window, else by the time of the last look.

    A site's own page comes before a frame of it in another page, which may read the results of its frames.
    The remaining order is arbitrary, but equal in every bridge.
    """
    offer, tab = entry.offer, entry.offer.tab
    is_whole_page = offer.frame.frame_id == 0
    by_itself = offer.browser.host, -tab.tab_id, -offer.frame.frame_id
    is_shown = tab.active and tab.focused
    is_at_home = entry.origin == tab.origin
    return offer.lost_at is None, is_at_home, is_shown, is_whole_page, tab.last_accessed, *by_itself


def _name_choices(name: str, entries: Sequence[Entry]) -> str:
    """`http` and `https` of a host, say, look alike in a name, and are not the same site."""
    names = [f"{entry.name} ({entry.origin})" for entry in entries[-_MAX_CHOICE:]]
    return f"{name} may mean several tools; call one of them by its whole name: {', '.join(reversed(names))}"


def _profile_choices(name: str, entries: Sequence[LiveEntry]) -> str:
    """Describe tools that differ by their profile, or by their frame, in what a name has for it."""
    names = [f"{entry.name} ({entry.origin} in {entry.site.browser})" for entry in entries[:_MAX_CHOICE]]
    return f"{name} does not stand for a single tool; call one of these by its whole name: {', '.join(names)}"


def _frame_at(browser: Browser, tab: wire.Tab, frame: Frame) -> FrameAt:
    return FrameAt(browser.host, tab.tab_id, frame.announced.frame_id)
