"""Registry of announcements: browser → tab → page frame → document → what it offers. Sans-IO.

The transport's events feed it. A list always replaces the whole list of its frame.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import msgspec

from bridge.hub.page_tool import PageTool, read_tools
from bridge.hub.primitives.page_prompt import PagePrompt, read_prompts
from bridge.hub.primitives.page_resource import PageResource, read_resources, read_templates
from bridge.hub.rules.pauses import Pauses, changes_in
from bridge.hub.transport import (
    DiscoveryFinished,
    Event,
    HostAnnouncement,
    HostDiscovered,
    HostLinked,
    HostLost,
)
from native_host.protocol import wire

GRACE_S = 3.0
"""Seconds for which the tools of a lost host stay listed: most hosts reconnect at once."""
FIRST_TAB_ID = 1_000_000
"""Smallest number that can be a browser's own id of a tab, where the extension numbers tabs."""
TAB_NUMBERS = "tabNumbers"
"""Capability of extensions that number tabs in their profile; earlier ones number them in each domain."""

_log = logging.getLogger(__name__)


class FrameAt(NamedTuple):
    """Identity of a page frame in a browser."""

    host: str
    tab_id: int
    frame_id: int


class Frame(msgspec.Struct, dict=True):
    """The document in a frame, and what it offers."""

    announced: wire.FrameTools
    tools: list[PageTool]
    """Tools; replaced by a new list whenever one of them changes."""
    lost_at: float | None = None
    """Time when the connection of its announcement ended; None once its page announces itself again."""
    resources: list[PageResource] = msgspec.field(default_factory=list)
    templates: list[PageResource] = msgspec.field(default_factory=list)
    """Resource templates."""
    prompts: list[PagePrompt] = msgspec.field(default_factory=list)

    @property
    def offers_anything(self) -> bool:
        """Return whether one of its lists has entries."""
        return bool(self.tools or self.resources or self.templates or self.prompts)

    @cached_property
    def address(self) -> str:
        """Address of its document, without the fragment."""
        return self.announced.url.partition("#")[0]

    def is_of(self, announced: wire.FrameTools) -> bool:
        """Return whether this document announces itself once more, from the same address."""
        ours = self.announced
        is_same = (ours.document_id, ours.origin, ours.url) == (
            announced.document_id,
            announced.origin,
            announced.url,
        )
        return is_same and self.lost_at is None


class Browser(msgspec.Struct):
    """One native host, and the browser profile behind it. Nothing is known of the latter before its hello."""

    host: str
    started_at: float
    """Start of the host, in seconds since the epoch."""
    proxy: str = ""
    """See `HostDiscovered`."""
    host_hello: wire.HostHello | None = None
    hello: wire.BrowserHello | None = None
    tabs: dict[int, wire.Tab] = msgspec.field(default_factory=dict)
    tab_ids: dict[int, int] = msgspec.field(default_factory=dict)
    """By number."""
    frames: dict[int, dict[int, Frame]] = msgspec.field(default_factory=dict)
    """By tab and frame id. A tab without one is not in it."""
    frames_lost_at: float = math.inf
    """Since when the first of them may be lost; infinity when none is."""
    paused: wire.Paused = msgspec.field(default_factory=wire.Paused)
    page_tools: dict[str, wire.Use] = msgspec.field(default_factory=dict)
    clients: list[wire.Client] = msgspec.field(default_factory=list)
    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    """Messages that its host has dropped, by the reason."""
    is_replayed: bool = False
    """Everything that was known before we came has been said."""
    lost_at: float | None = None

    @property
    def is_live(self) -> bool:
        """Return whether requests can reach it."""
        return self.host_hello is not None and self.lost_at is None

    @property
    def is_known(self) -> bool:
        """Return whether it has sent its hello and its replay."""
        return self.hello is not None and self.is_replayed

    @property
    def profile(self) -> str:
        """The profile's id, or empty before the extension has said it."""
        return self.hello.profile.id if self.hello else ""

    @property
    def pid(self) -> int:
        """The browser's process id: tells two browsers with a copied profile apart."""
        return self.host_hello.browser_pid if self.host_hello else 0

    @property
    def is_channel(self) -> bool:
        """Return whether it is the extension of Claude in Chrome, which only runs its own tools."""
        return self.hello is not None and bool(self.hello.capabilities.tools)

    def find_frame(self, tab_id: int, frame_id: int) -> Frame | None:
        """Return a frame that has announced its tools."""
        return self.frames.get(tab_id, {}).get(frame_id)

    def frames_of(self, tab_id: int) -> list[FrameAt]:
        """Return the frames of a tab that have announced their tools."""
        return [FrameAt(self.host, tab_id, frame_id) for frame_id in self.frames.get(tab_id, ())]

    @property
    def has_tab_numbers(self) -> bool:
        """Return whether each number stands for one tab."""
        return self.hello is not None and TAB_NUMBERS in self.hello.capabilities.commands

    def number_of(self, tab: wire.Tab) -> int:
        """Return the number of a tab for clients: the browser's id where the extension gives none."""
        return tab.ordinal if tab.ordinal and self.has_tab_numbers else tab.tab_id

    def find_tab(self, wanted: int) -> wire.Tab | None:
        """Return the tab with this number, or with this id of the browser.

        A number that is no tab's is not tried as an id: its tab is closed, and another one may have that id.
        """
        if not self.has_tab_numbers:
            return self.tabs.get(wanted)
        tab = self.tabs.get(self.tab_ids.get(wanted, wanted))
        return tab if tab and (tab.ordinal == wanted or wanted >= FIRST_TAB_ID) else None

    def set_tabs(self, tabs: Iterable[wire.Tab]) -> None:
        """Replace all tabs."""
        self.tabs, self.tab_ids = {}, {}
        for tab in tabs:
            self.put_tab(tab)

    def put_tab(self, tab: wire.Tab) -> None:
        """Store a new or changed tab."""
        self.tabs[tab.tab_id] = tab
        if tab.ordinal:
            self.tab_ids[tab.ordinal] = tab.tab_id

    def put_frame(self, frame: Frame) -> None:
        """Store the announcement of a frame."""
        at = frame.announced
        self.frames.setdefault(at.tab_id, {})[at.frame_id] = frame

    def drop_frame(self, tab_id: int, frame_id: int) -> None:
        """Remove a frame that offers nothing any more."""
        del self.frames[tab_id][frame_id]
        if not self.frames[tab_id]:
            del self.frames[tab_id]

    def drop_tab(self, tab_id: int) -> list[FrameAt]:
        """Remove a closed tab; return its frames."""
        gone = self.frames_of(tab_id)
        self.frames.pop(tab_id, None)
        tab = self.tabs.pop(tab_id, None)
        if tab and self.tab_ids.get(tab.ordinal) == tab_id:
            del self.tab_ids[tab.ordinal]
        return gone

    def keep_frames_of(self, tabs: Container[int]) -> None:
        """Drop what the frames of other tabs offer."""
        self.frames = {tab_id: frames for tab_id, frames in self.frames.items() if tab_id in tabs}

    def inherit_from(self, predecessor: Browser, now: float) -> None:
        """Keep what the same browser's earlier host knew, until each page has found its way to this one.

        Its worker was restarted: all tabs are known at once, but pages dial again in their own time.
        """
        if not self.tabs:  # until this host's whole list of them comes
            self.set_tabs(predecessor.tabs.values())
        lost_at = now if predecessor.lost_at is None else predecessor.lost_at
        for frame in predecessor.all_frames():
            at = frame.announced
            if at.tab_id in self.tabs and self.find_frame(at.tab_id, at.frame_id) is None:
                since = lost_at if frame.lost_at is None else frame.lost_at
                self.put_frame(msgspec.structs.replace(frame, lost_at=since))
                self.frames_lost_at = min(self.frames_lost_at, since)

    def forget_lost_frames(self, now: float) -> None:
        """Drop the frames whose pages have not come back within GRACE_S."""
        if now < self.frames_lost_at + GRACE_S:
            return
        self.frames_lost_at = math.inf
        for frame in list(self.all_frames()):
            if frame.lost_at is None:
                continue
            if now < frame.lost_at + GRACE_S:
                self.frames_lost_at = min(self.frames_lost_at, frame.lost_at)
            else:
                self.drop_frame(frame.announced.tab_id, frame.announced.frame_id)

    def all_frames(self) -> Iterator[Frame]:
        """Yield the frames that have announced their tools."""
        return chain.from_iterable(frames.values() for frames in self.frames.values())

    def is_replacement_of(self, other: Browser) -> bool:
        """Return whether it is the same browser on a newer connection, or restarted with this profile.

        A connection through a proxy only replaces one over a native host that is lost.
        """
        if self.profile != other.profile:
            return False
        if self._has_other_way_than(other):
            return (self.is_live, not self.proxy) > (other.is_live, not other.proxy)
        if (self.started_at, self.is_live) <= (other.started_at, other.is_live):
            return False
        return self._is_process_of(other) or (self.is_live and not other.is_live)

    def is_successor_of(self, other: Browser) -> bool:
        """Return whether it is the same running browser, whose tabs have kept their ids."""
        is_same = self._is_process_of(other) or self._has_other_way_than(other)
        return is_same and self.is_replacement_of(other)

    def _is_process_of(self, other: Browser) -> bool:
        """Return whether both are of one process. A proxy says nothing true about browsers at another one."""
        return (self.proxy, self.pid) == (other.proxy, other.pid)

    def _has_other_way_than(self, other: Browser) -> bool:
        """Return whether one of the two is connected through a proxy, which does not know the process."""
        return bool(self.proxy) != bool(other.proxy)


class Offer(msgspec.Struct, frozen=True):
    """A tool that is there now, and everything about where. Tabs change under it without a new one."""

    browser: Browser
    tab_id: int
    source: Frame
    tool: PageTool

    @property
    def tab(self) -> wire.Tab:
        """Its tab as it is now."""
        return self.browser.tabs[self.tab_id]

    @property
    def frame(self) -> wire.FrameTools:
        """Its document, as that announced itself."""
        return self.source.announced

    @property
    def lost_at(self) -> float | None:
        """Since when it cannot be called, by the clock of `Registry.on_event`; None when it can."""
        return self.browser.lost_at if self.source.lost_at is None else self.source.lost_at


class LeftDocument(msgspec.Struct, frozen=True):
    """A document that has left its frame, and what it offered: a reload brings the same page back."""

    browser: Browser
    tab: wire.Tab
    frame: Frame
    left_at: float

    @property
    def may_come_back(self) -> bool:
        """Return whether its tab is still there, and shows no other address."""
        tab = self.browser.tabs.get(self.tab.tab_id)
        is_top = self.frame.announced.frame_id == 0
        return tab is not None and (not is_top or tab.url.partition("#")[0] == self.frame.address)


class Registry:
    """All that is known of all browsers."""

    def __init__(self) -> None:
        self._browsers: dict[str, Browser] = {}
        self._lost: list[Browser] = []
        self._left: dict[FrameAt, LeftDocument] = {}
        """The documents that left their frames last: those within GRACE_S, and perhaps earlier ones."""
        self._has_looked = False
        self._touched: set[FrameAt] | None = None
        self._pauses = Pauses()
        self._are_pauses_current = True
        self._stored_pauses: Sequence[wire.PauseChange] = ()
        self.version = 0
        """Changes with the offers, but not with titles and activity of their tabs."""
        self.version_of_tabs = 0

        self.version_of_page_tools = 0
        """Changes whenever what the user has set in a popup does."""

    # ── Questions ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_settled(self) -> bool:
        """Return whether every live host has sent its replay."""
        return self._has_looked and all(browser.is_replayed for browser in self._browsers.values())

    def find_browser(self, host: str) -> Browser:
        """Return the browser behind a known host."""
        return self._browsers[host]

    def all_browsers(self) -> list[Browser]:
        """Everything that is linked, with or without an extension behind it, oldest first."""
        everything = [*self._lost, *self._browsers.values()]
        return sorted(everything, key=lambda browser: (browser.started_at, browser.host))

    def browsers(self) -> list[Browser]:
        """Return the browsers whose tools count, oldest first; replaced ones are omitted."""
        known = [browser for browser in self.all_browsers() if browser.is_known]
        return [browser for browser in known if not any(other.is_replacement_of(browser) for other in known)]

    def profiles(self) -> tuple[str, ...]:
        """Return the ids of the profiles whose pages may offer tools, that of the oldest host first."""
        return tuple(browser.profile for browser in self.browsers() if not browser.is_channel)

    def offers(self) -> Iterator[Offer]:
        """All tools, by browser, tab and frame, each frame's in the page's own order."""
        for browser, tab, frame in self.frames():
            yield from (Offer(browser, tab.tab_id, frame, tool) for tool in frame.tools)

    def frames(self) -> Iterator[tuple[Browser, wire.Tab, Frame]]:
        """Yield all frames that clients may see; those of incognito tabs are private."""
        for browser in self.browsers():
            for tab_id, frames in sorted(browser.frames.items(), key=itemgetter(0)):
                tab = browser.tabs.get(tab_id)
                if tab is not None and not tab.incognito:
                    yield from ((browser, tab, frames[frame_id]) for frame_id in sorted(frames))

    def left_documents(self) -> list[LeftDocument]:
        """Return the documents that left their frames last, in tabs that may be reloading."""
        return [left for left in self._left.values() if left.may_come_back]

    def live_browser(self, profile: str) -> Browser | None:
        """Return the browser with this profile if requests can reach it."""
        found = (browser for browser in self.browsers() if browser.is_live and browser.profile == profile)
        return next(found, None)

    def frames_among(
        self, wanted: Iterable[FrameAt]
    ) -> Iterator[tuple[FrameAt, tuple[Browser, wire.Tab, Frame]]]:
        """Yield those of these frames that `frames` yields."""
        browsers = {browser.host: browser for browser in self.browsers()}
        for at in wanted:
            browser = browsers.get(at.host)
            frame = browser.find_frame(at.tab_id, at.frame_id) if browser else None
            tab = browser.tabs.get(at.tab_id) if browser else None
            if browser and frame and tab and not tab.incognito:
                yield at, (browser, tab, frame)

    @property
    def pauses(self) -> Pauses:
        """Pauses of all browsers and commands; the same object until they change."""
        if not self._are_pauses_current:
            known = (changes_in(browser.paused) for browser in self.browsers())
            found = Pauses(chain(self._stored_pauses, *known))
            if found.changes != self._pauses.changes:
                self._pauses = found
            self._are_pauses_current = True
        return self._pauses

    def set_stored_pauses(self, changes: Sequence[wire.PauseChange]) -> None:
        """Set what is paused besides what browsers announce."""
        self._stored_pauses = changes
        self._are_pauses_current = False

    def take_touched(self) -> set[FrameAt] | None:
        """Return the frames whose offers may have changed since the last call; None: all."""
        touched, self._touched = self._touched, set()
        return touched

    def is_missed(self, profile: str) -> bool:
        """Return whether the browser with this profile has just disconnected and may reconnect at once."""
        return any(browser.profile == profile and not browser.is_live for browser in self.browsers())

    def next_expiry(self) -> float:
        """Return the time when `expire` has something to remove; infinity without a lost host."""
        browsers = (browser.lost_at for browser in self._lost if browser.lost_at is not None)
        frames = (browser.frames_lost_at for browser in self.all_browsers())
        return min(chain(browsers, frames), default=math.inf) + GRACE_S

    # ── News ────────────────────────────────────────────────────────────────────────────────────────────────

    def on_event(self, event: Event, now: float) -> None:
        """Fold one event in. `now` is of the clock that `expire` is asked by."""
        match event:
            case HostDiscovered():
                self._browsers[event.host] = Browser(event.host, event.started_at, event.proxy)
            case HostLinked():
                self._browsers[event.host].host_hello = event.hello
            case HostAnnouncement():
                self._handle_announcement(self._browsers[event.host], event.message, event.method, now)
                return
            case HostLost():
                self._lose_host(event.host, now)
            case DiscoveryFinished():
                self._has_looked = True
        self._note_change(None)

    def expire_lost(self, now: float) -> None:
        """Forget what has been gone for GRACE_S."""
        self._lost = [lost for lost in self._lost if lost.lost_at is None or now < lost.lost_at + GRACE_S]
        for browser in self.all_browsers():
            browser.forget_lost_frames(now)
        self._note_change(None)

    def _lose_host(self, host: str, now: float) -> None:
        browser = self._browsers.pop(host)
        browser.lost_at = now
        was_shown = browser.is_known and not any(
            other.is_known and other.is_successor_of(browser) for other in self._browsers.values()
        )
        if was_shown:
            self._lost.append(browser)

    def _note_change(self, touched: Iterable[FrameAt] | None) -> None:
        """Note that the offers of `touched` may have changed; None: of any frame."""
        self.version += 1
        self._are_pauses_current = False
        if touched is None or self._touched is None:
            self._touched = None
        else:
            self._touched.update(touched)

    def _handle_announcement(self, browser: Browser, message: wire.Wire, method: str, now: float) -> None:
        touched: Iterable[FrameAt] | None = None
        match message:
            case wire.Paused() | wire.PageTools():
                self._set_by_user(browser, message)
                return
            case wire.HostClients():
                browser.clients, browser.dropped = message.clients, message.dropped
                return
            case wire.TabChanged():
                self._tab_changed(browser, message.tab)
                return
            case wire.Tabs():
                browser.set_tabs(message.tabs)
                browser.keep_frames_of(browser.tabs)
                self.version_of_tabs += 1
            case wire.TabRemoved():
                touched = browser.drop_tab(message.tab_id)
            case wire.FrameTools():
                touched = [FrameAt(browser.host, message.tab_id, message.frame_id)]
                self._register_tools(browser, message, now)
            case wire.FrameAddress() if type(message) is wire.FrameAddress:  # else of a frame that stays
                touched = [FrameAt(browser.host, message.tab_id, message.frame_id)]
                self._unregister_frame(browser, message, now)
            case wire.BrowserHello():
                browser.hello = message
                self._take_over(browser, now)
            case wire.HostReplayed():
                browser.is_replayed = True
                self._take_over(browser, now)
            case _:
                _log.debug("nothing to keep of %s", method)
                return
        self._note_change(touched)

    def _set_by_user(self, browser: Browser, message: wire.Paused | wire.PageTools) -> None:
        if isinstance(message, wire.Paused):
            browser.paused = message
            self._are_pauses_current = False
            return
        browser.page_tools = message.sites
        self.version_of_page_tools += 1

    def _tab_changed(self, browser: Browser, tab: wire.Tab) -> None:
        before = browser.tabs.get(tab.tab_id)
        browser.put_tab(tab)
        self.version_of_tabs += 1
        if before is None or _tab_place(before) != _tab_place(tab):
            self._note_change(browser.frames_of(tab.tab_id))

    def _take_over(self, browser: Browser, now: float) -> None:
        """Let a host that has introduced its browser take over from that browser's earlier host."""
        if not browser.is_known:
            return
        for other in reversed(self.all_browsers()):
            if browser.is_successor_of(other):
                browser.inherit_from(other, now)
                self._lost = [lost for lost in self._lost if lost is not other]

    def _register_tools(self, browser: Browser, announced: wire.FrameTools, now: float) -> None:
        tab = browser.tabs.get(announced.tab_id)
        before = browser.find_frame(announced.tab_id, announced.frame_id)
        # What is never offered is not looked into either: complaints would name the site in the log.
        found = _read_frame(_without_lists(announced) if tab and tab.incognito else announced, before)
        if before and before.is_of(announced):
            before.announced = found.announced
            before.tools = before.tools if found.tools == before.tools else found.tools
            before.resources, before.templates = found.resources, found.templates
            before.prompts = found.prompts
        else:
            if before and before.announced.document_id != announced.document_id:
                self._note_left(browser, before, now)
            browser.put_frame(found)

    def _unregister_frame(self, browser: Browser, gone: wire.FrameAddress, now: float) -> None:
        frame = browser.find_frame(gone.tab_id, gone.frame_id)
        # By then another document may be there, which stays.
        if frame and frame.announced.document_id == gone.document_id:
            self._note_left(browser, frame, now)
            browser.drop_frame(gone.tab_id, gone.frame_id)

    def _note_left(self, browser: Browser, frame: Frame, now: float) -> None:
        self._left = {at: left for at, left in self._left.items() if now < left.left_at + GRACE_S}
        at = frame.announced
        if frame.offers_anything and frame.lost_at is None and (tab := browser.tabs.get(at.tab_id)):
            self._left[FrameAt(browser.host, at.tab_id, at.frame_id)] = LeftDocument(browser, tab, frame, now)


def _read_frame(announced: wire.FrameTools, before: Frame | None) -> Frame:
    """Return a frame with its validated lists; equal entries of the lists before stay the same objects."""
    return Frame(
        _without_lists(announced),
        read_tools(announced, before.tools if before else ()),
        resources=read_resources(announced, before.resources if before else ()),
        templates=read_templates(announced, before.templates if before else ()),
        prompts=read_prompts(announced, before.prompts if before else ()),
    )


def _without_lists(announced: wire.FrameTools) -> wire.FrameTools:
    """Return an announcement without the bytes of all entries, which each of them would hold on to."""
    return msgspec.structs.replace(announced, tools=[], resources=[], resource_templates=[], prompts=[])


def _tab_place(tab: wire.Tab) -> tuple[int, str, bool]:
    """Return the part of a tab that offers depend on: not its title, not its activity."""
    return tab.ordinal, tab.origin, tab.incognito
