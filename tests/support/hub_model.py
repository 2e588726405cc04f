"""The hub's rules once more, as plainly as they can be said: what tests compare the hub with.

Everything is worked out anew for each question from what hosts have said; nothing is kept up to date, and
nothing is shared with the hub but the messages of the wire. Public names are the hub's own, taken as they
are: the model says what they must mean.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from native_host.protocol import wire
from native_host.protocol.wire import Code

GRACE_S = 3.0
MAX_NAME = 44
FORBIDDEN = "forbidden"
"""The policy refuses tools that are called so."""
DENIED = "https://denied.example"
"""The policy denies this origin."""
ELSEWHERE = (Code.NO_SUCH_TAB, Code.GONE, Code.NAVIGATED, Code.NO_LONGER_OFFERED)
"""After these a call that names no tab, and did not run, may be made in another one."""


class Tool(NamedTuple):
    """A page's tool, as a page of these tests may define it."""

    own_name: str
    raw: bytes
    is_cached: bool
    is_repeatable: bool


def tool(own_name: str, description: str = "", **hints: bool) -> Tool:
    definition = {"name": own_name, "description": description, "annotations": hints}
    is_repeatable = bool({"readOnlyHint", "idempotentHint"} & hints.keys())
    return Tool(own_name, msgspec.json.encode(definition), "cache" in hints, is_repeatable)


TOOLS = [
    tool("buy"),
    tool("buy", "with another meaning"),
    tool("keep", cache=True),
    tool("keep", "no longer to be kept"),
    tool("read", cache=True, readOnlyHint=True),
    tool("again", idempotentHint=True),
    tool(FORBIDDEN),
    tool("tab1_buy"),  # without a tab in its name it is called like the first one with a tab
    tool("b.uy"),
    tool("b_uy"),
    tool("x" * 60),
    tool("x" * 61),
]
NO_TOOLS = [
    b"5",
    b"{}",
    b'{"name":""}',
    b'{"name":"buy","inputSchema":[]}',
    b'{"name":"keep","description":7}',
]
_BY_RAW = {each.raw: each for each in TOOLS}

DOMAINS = {
    "https://shop.example": "shop_example",
    "http://shop.example": "shop_example",
    "http://localhost:3000": "localhost_3000",
    "https://rather-long-host.example": "rather-long-host_example",
    DENIED: "denied_example",
    "null": "null",
}


class Spot(NamedTuple):
    """Which tool of which frame of which browser, whatever document is there."""

    profile: str
    pid: int
    tab_id: int
    frame_id: int
    origin: str
    own_name: str


class Kept(NamedTuple):
    """A tool that outlives its page."""

    profile: str
    origin: str
    own_name: str

    @property
    def origins(self) -> set[str]:
        return {self.origin}


class Address(NamedTuple):
    """Where a tab is opened for a tool."""

    kept: Kept
    url: str


class Here(NamedTuple):
    """A tool that is there now."""

    spot: Spot
    host: str
    document_id: str
    url: str
    """Without its fragment."""
    tool: Tool
    tab: wire.Tab
    is_missing: bool
    """Its host, or its page, has yet to come back."""

    @property
    def kept_as(self) -> Kept:
        return Kept(self.spot.profile, self.spot.origin, self.spot.own_name)

    @property
    def origins(self) -> set[str]:
        """Its own, and its tab's: the page around a frame may look over it."""
        return {self.spot.origin, self.tab.origin}

    @property
    def nearness(self) -> tuple[bool, bool, bool, bool, float, str, int, int]:
        """A site's own page before frames of it in others' pages; at the end any order, but a total one."""
        tab, spot = self.tab, self.spot
        is_shown = tab.active and tab.focused
        by_itself = self.host, -spot.tab_id, -spot.frame_id
        is_at_home = spot.origin == tab.origin
        return not self.is_missing, is_at_home, is_shown, spot.frame_id == 0, tab.last_accessed, *by_itself


class Target(NamedTuple):
    """What a call must come to, as things are now: one of these."""

    run: Here | None = None
    open: Collection[Address] = ()
    """A tab for any of these."""
    refusals: Collection[Code] = ()
    is_unknown: bool = False


UNKNOWN = Target(is_unknown=True)


@dataclass
class Document:
    said: wire.FrameTools
    tools: list[Tool]
    missing_since: float | None = None

    def is_of(self, address: wire.FrameAddress) -> bool:
        said = self.said
        return (said.tab_id, said.frame_id, said.document_id) == msgspec.structs.astuple(address)


@dataclass
class Host:
    """A native host, and what has been said over it."""

    name: str
    started_at: float
    profile: str
    pid: int
    is_introduced: bool = False
    is_replayed: bool = False
    tabs: dict[int, wire.Tab] = field(default_factory=dict)
    documents: dict[tuple[int, int], Document] = field(default_factory=dict)
    paused: wire.Paused = field(default_factory=wire.Paused)
    lost_at: float | None = None

    @property
    def is_known(self) -> bool:
        return self.is_introduced and self.is_replayed

    @property
    def age(self) -> tuple[float, bool]:
        return self.started_at, self.lost_at is None

    def keep_documents_of(self, tab_ids: Collection[int]) -> None:
        self.documents = {at: document for at, document in self.documents.items() if at[0] in tab_ids}

    def hides(self, other: Host) -> bool:
        if not self.is_known or self.profile != other.profile or self.age <= other.age:
            return False
        return self.pid == other.pid or (self.lost_at is None and other.lost_at is not None)


class Model:
    """What every session must be shown, and what each of its calls must come to."""

    def __init__(self) -> None:
        self.hosts: list[Host] = []
        self.kept: dict[Kept, str] = {}
        """What is kept, and the address that is opened for it."""
        self.shown: dict[str, dict[str, Here | Kept]] = {}
        """By session and name."""
        self.marked: dict[str, Kept] = {}
        """Names with a hash that kept tools have had."""
        self.profiles: dict[str, str] = {}
        """Those that were met, in order, with the mark of each: empty for the first of those met at once."""

    # ── What happens ────────────────────────────────────────────────────────────────────────────────────────

    def seen(self, name: str, started_at: float, profile: str, pid: int) -> None:
        self.hosts.append(Host(name, started_at, profile, pid))
        self._meet_profiles()

    def lost(self, name: str, now: float) -> None:
        host = self.linked(name)
        host.lost_at = now
        succeeded = (other for other in self.hosts if other.lost_at is None and other.pid == host.pid)
        if not host.is_known or any(other.hides(host) for other in succeeded):
            self.hosts.remove(host)
        self._meet_profiles()

    def time_is(self, now: float) -> None:
        self.hosts = [host for host in self.hosts if not _is_over(host.lost_at, now)]
        for host in self.hosts:
            host.documents = {
                at: document
                for at, document in host.documents.items()
                if not _is_over(document.missing_since, now)
            }

    def said(self, name: str, message: wire.Wire, now: float) -> None:
        host = self.linked(name)
        match message:
            case wire.BrowserHello():
                host.is_introduced = True
                self._take_over(host, now)
            case wire.HostReplayed():
                host.is_replayed = True
                self._take_over(host, now)
            case wire.Tabs(tabs=tabs):
                host.tabs = {tab.tab_id: tab for tab in tabs}
                host.keep_documents_of(host.tabs)
            case wire.TabChanged(tab=tab):
                host.tabs[tab.tab_id] = tab
            case wire.TabRemoved(tab_id=tab_id):
                host.tabs.pop(tab_id, None)
                host.keep_documents_of({at[0] for at in host.documents} - {tab_id})
            case wire.FrameTools():
                self._register(host, message)
            case wire.FrameAddress():
                host.documents = {at: d for at, d in host.documents.items() if not d.is_of(message)}
            case wire.Paused():
                host.paused = message
        self._meet_profiles()

    def forgotten(self, origin: str) -> None:
        """By another command."""
        self.kept = {kept: url for kept, url in self.kept.items() if kept.origin != origin}

    def was_shown(self, session: str, listed: Mapping[str, Here | Kept]) -> None:
        self.shown.setdefault(session, {}).update(listed)

    def _meet_profiles(self) -> None:
        """Once all have said what they have: who is met beside an unmarked earlier one is marked for ever."""
        if not all(host.is_replayed for host in self.hosts if host.lost_at is None):
            return
        there = sorted(self.shown_hosts(), key=lambda host: (host.started_at, host.name))
        for host in there:
            self.profiles.setdefault(host.profile, "")
        present = {host.profile for host in there}
        unmarked = [each for each, mark in self.profiles.items() if each in present and not mark]
        for each in unmarked[1:]:
            self.profiles[each] = hashlib.sha256(each.encode()).hexdigest()[:6]

    def _mark(self, profile: str) -> str:
        mark = self.profiles.get(profile)
        return f"_{mark}" if mark else ""

    def _register(self, host: Host, said: wire.FrameTools) -> None:
        offered: dict[str, Tool] = {}
        for raw in said.tools:
            if (is_tool := _BY_RAW.get(bytes(raw))) is not None:
                offered.setdefault(is_tool.own_name, is_tool)
        host.documents[said.tab_id, said.frame_id] = Document(said, list(offered.values()))
        tab = host.tabs.get(said.tab_id)
        if tab is None or tab.incognito or said.frame_id != 0 or not host.is_introduced:
            return
        if said.origin == DENIED or not is_website(said.origin):
            return
        for each in offered.values():
            kept = Kept(host.profile, said.origin, each.own_name)
            if each.is_cached:
                self.kept[kept] = said.url
            else:
                self.kept.pop(kept, None)

    def _take_over(self, host: Host, now: float) -> None:
        """A worker was restarted: what its browser's earlier host knew is waited for."""
        if not host.is_known:
            return
        earlier = [other for other in self.hosts if other.pid == host.pid and host.hides(other)]
        for other in sorted(earlier, key=lambda other: other.age, reverse=True):
            host.tabs = host.tabs or dict(other.tabs)
            for at, there in other.documents.items():
                if at[0] in host.tabs and at not in host.documents:
                    since = there.missing_since if there.missing_since is not None else other.lost_at
                    host.documents[at] = Document(there.said, there.tools, now if since is None else since)
            if other.lost_at is not None:
                self.hosts.remove(other)

    # ── What there is ───────────────────────────────────────────────────────────────────────────────────────

    def linked(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name and host.lost_at is None)

    def shown_hosts(self) -> list[Host]:
        known = [host for host in self.hosts if host.is_known]
        return [host for host in known if not any(other.hides(host) for other in known)]

    def is_there(self, profile: str) -> bool:
        """Its browser runs, or has only just gone."""
        return any(host.profile == profile for host in self.shown_hosts())

    def is_running(self, profile: str) -> bool:
        return any(host.profile == profile and host.lost_at is None for host in self.shown_hosts())

    def here(self) -> list[Here]:
        """Every tool that pages offer now, those included that the policy refuses."""
        return [
            self._here(host, host.tabs[tab_id], there, each)
            for host in self.shown_hosts()
            for (tab_id, _), there in host.documents.items()
            if tab_id in host.tabs and not host.tabs[tab_id].incognito
            for each in there.tools
        ]

    def without_tab(self) -> set[Kept]:
        """What is kept and offered by no page."""
        return self.kept.keys() - {here.kept_as for here in self.here()}

    @staticmethod
    def _here(host: Host, tab: wire.Tab, there: Document, each: Tool) -> Here:
        said = there.said
        is_missing = host.lost_at is not None or there.missing_since is not None
        return Here(
            spot=Spot(host.profile, host.pid, tab.tab_id, said.frame_id, said.origin, each.own_name),
            host=host.name,
            document_id=said.document_id,
            url=said.url.split("#")[0],
            tool=each,
            tab=tab,
            is_missing=is_missing,
        )

    # ── Names ───────────────────────────────────────────────────────────────────────────────────────────────

    def plain_names(self) -> dict[Spot, str | None]:
        """The name that each tool must have; None where it has to be marked or shortened."""
        plain = {here.spot: self._plain_name(here) for here in self.here()}
        times = Counter(plain.values())
        return {
            spot: name if times[name] == 1 and len(name) <= MAX_NAME else None for spot, name in plain.items()
        }

    def has_plain_name(self, kept: Kept, live_names: Collection[str]) -> bool:
        """Whether a kept tool is called by its domain alone."""
        form, name = form_of(kept.origin, kept.own_name), self.plain_name_of_kept(kept)
        if name in live_names or sum(self.plain_name_of_kept(k) == name for k in self.kept) > 1:
            return False
        sharing = [here.spot for here in self.here() if form_of(here.spot.origin, here.spot.own_name) == form]
        return all((spot.origin, spot.own_name) == (kept.origin, kept.own_name) for spot in sharing)

    def plain_name_of_kept(self, kept: Kept) -> str | None:
        """None where it is too long to be said here."""
        return form_of(kept.origin, kept.own_name, self._mark(kept.profile))

    def _plain_name(self, here: Here) -> str:
        return plain_name(here.spot, here.tab.ordinal, self._mark(here.spot.profile))

    # ── What a call must come to ────────────────────────────────────────────────────────────────────────────

    def target(
        self,
        session: str,
        name: str,
        live: Mapping[str, Spot],
        missed: Collection[Spot] = (),
        profile: str | None = None,
    ) -> Target:
        """`live`: what the hub's names mean now. `missed`: where the call has failed without running.
        `profile`: where it was tried first; another profile is another account."""
        target = self._meant(session, name, live, missed, profile)
        run = target.run
        if run and run.is_missing:
            return target
        found: list[Here | Kept] = [each.kept for each in target.open]
        if run:
            found.append(run)
        refusals = [*target.refusals, *(code for each in found if (code := self.refusal(session, each)))]
        if run and self.refusal(session, run):
            run = None
        to_open = [each for each in target.open if not self.refusal(session, each.kept)]
        return Target(run, to_open, refusals, target.is_unknown)

    def names_a_tab(self, session: str, name: str, live: Mapping[str, Spot]) -> bool:
        shown = self.shown.get(session, {}).get(name)
        return name in live if shown is None else isinstance(shown, Here)

    def in_tab(self, session: str, kept: Kept, tab_id: int) -> Here | None:
        """The tool in a tab that was opened for it."""
        there = [here for here in self.here() if (here.kept_as, here.spot.tab_id) == (kept, tab_id)]
        return _nearest(here for here in _usable(session, there) if not here.is_missing)

    def refusal(self, session: str, found: Here | Kept) -> Code | None:
        if is_forbidden(found):
            return Code.NOT_ALLOWED
        for host in self.shown_hosts():
            if not found.origins.isdisjoint(host.paused.sites) or session in host.paused.sessions:
                return Code.PAUSED
        if isinstance(found, Here) and not _usable(session, [found]):
            return Code.NOT_YOURS
        return None

    def _meant(
        self, session: str, name: str, live: Mapping[str, Spot], missed: Collection[Spot], profile: str | None
    ) -> Target:
        by_spot = {here.spot: here for here in self.here()}
        match self.shown.get(session, {}).get(name):
            case Here() as shown:
                return self._meant_in_tab(shown, by_spot, live.get(name))
            case Kept() as shown:
                return self._meant_as_kept(session, shown, missed)
        if name in live:
            return Target(run=by_spot[live[name]])
        meant = self._meant_by_domain(session, name, missed, profile) or self._meant_by_hash(
            session, name, missed, live
        )
        return self._meant_by_several(name) if meant.is_unknown else meant

    def _meant_by_several(self, name: str) -> Target:
        """Tools that would be called so, were it not for a mark or a hash."""
        there = [here for here in self.here() if not is_forbidden(here)]
        alike = [h for h in there if name in (plain_name(h.spot, h.tab.ordinal), self._plain_name(h))]
        return Target(refusals=[Code.INVALID_PARAMS]) if alike else UNKNOWN

    def _meant_in_tab(self, shown: Here, by_spot: Mapping[Spot, Here], now_called_so: Spot | None) -> Target:
        there = by_spot.get(shown.spot)
        if there is None and now_called_so is not None and self._continues(shown, by_spot[now_called_so]):
            there = by_spot[now_called_so]
        if there is None:
            return Target(refusals=[Code.NO_LONGER_OFFERED])
        is_reload = (there.url, there.tool.raw) == (shown.url, shown.tool.raw)
        if there.document_id != shown.document_id and not is_reload:
            return Target(refusals=[Code.NAVIGATED])
        return Target(run=there)

    def _continues(self, shown: Here, now: Here) -> bool:
        """A frame made anew, or a browser restarted: not one with a copied profile beside the first."""
        if shown.kept_as != now.kept_as:
            return False
        if shown.spot.pid == now.spot.pid:
            return shown.spot.tab_id == now.spot.tab_id
        return all(host.pid != shown.spot.pid for host in self.shown_hosts())

    def _meant_as_kept(self, session: str, kept: Kept, missed: Collection[Spot]) -> Target:
        there = [here for here in self.here() if here.kept_as == kept and here.spot not in missed]
        if nearest := _nearest(_usable(session, there)):
            return Target(run=nearest)
        if kept not in self.kept:
            return Target(refusals=[Code.NO_LONGER_OFFERED])
        return Target(open=[Address(kept, self.kept[kept])])

    def _meant_by_domain(
        self, session: str, name: str, missed: Collection[Spot], profile: str | None
    ) -> Target | None:
        """None: no tool is called so."""
        there = [
            here
            for here in self.here()
            if form_of(here.spot.origin, here.spot.own_name) == name and profile in (None, here.spot.profile)
        ]
        kept = [
            Address(each, url)
            for each, url in self.kept.items()
            if form_of(each.origin, each.own_name) == name and profile in (None, each.profile)
        ]
        usable = _usable(session, there)
        elsewhere = [Address(h.kept_as, f"{h.spot.origin}/") for h in there if is_website(h.spot.origin)]
        kinds = {here.kept_as[1:] for here in usable} | {each.kept[1:] for each in (*kept, *elsewhere)}
        if not kinds:
            return None
        if len(kinds) > 1:
            return Target(refusals=[Code.INVALID_PARAMS])
        if nearest := _nearest(here for here in usable if here.spot not in missed):
            return Target(run=nearest)
        if kept:
            return Target(open=[each for each in kept if self.is_running(each.kept.profile)] or kept)
        if nearest := _nearest(usable):
            return Target(run=nearest)
        # What is refused where others have it may be refused in a tab of its own as well.
        return Target(open=elsewhere, refusals=[Code.NOT_ALLOWED for here in there if is_forbidden(here)])

    def _meant_by_hash(
        self, session: str, name: str, missed: Collection[Spot], live_names: Collection[str]
    ) -> Target:
        kept = self.marked.get(name)
        if kept not in self.kept or self.has_plain_name(kept, live_names):
            return UNKNOWN
        return self._meant_as_kept(session, kept, missed)


def plain_name(spot: Spot, ordinal: int, mark: str = "") -> str:
    return f"website_tool_{DOMAINS[spot.origin]}{mark}_tab{ordinal}_{_safe(spot.own_name)}"


def form_of(origin: str, own_name: str, mark: str = "") -> str | None:
    """The name without a tab; None where it is too long to be said here."""
    name = f"website_tool_{DOMAINS[origin]}{mark}_{_safe(own_name)}"
    return name if len(name) <= MAX_NAME else None


def _safe(text: str) -> str:
    return re.sub("[^A-Za-z0-9_-]", "_", text)


def _is_over(since: float | None, now: float) -> bool:
    return since is not None and now >= since + GRACE_S


def is_forbidden(found: Here | Kept) -> bool:
    own_name = found.spot.own_name if isinstance(found, Here) else found.own_name
    return own_name == FORBIDDEN or DENIED in found.origins


def is_website(origin: str) -> bool:
    """Whether a tab can be opened there."""
    return origin.startswith(("http://", "https://"))


def _usable(session: str, there: Iterable[Here]) -> list[Here]:
    return [here for here in there if here.tab.owner in (None, session)]


def _nearest(there: Iterable[Here]) -> Here | None:
    return max(there, key=lambda here: here.nearness, default=None)
