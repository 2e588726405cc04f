"""Plays what happens to a real hub and to the model of its rules, and compares the two after each step."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import trio
import trio.testing

import hub_steps as steps
from bridge.errors import CallError, UnknownToolError
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import FinishedCall, Record
from bridge.hub.cached_tools import CachedToolRow, NoToolStore
from bridge.hub.catalog import Catalog
from bridge.hub.catalog_entries import CachedEntry, Entry, LiveEntry
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_settings import PageSettings, PageSite
from bridge.hub.meta_tools import TOOLS as META_TOOLS
from bridge.hub.operation import OnFinished, Operation
from bridge.hub.page_tool import PageTool
from bridge.hub.policy import Policy, PolicyRules, ToolRule
from bridge.hub.public_names import ProfileMarks
from bridge.hub.registry import Registry
from bridge.hub.router import Router, Terms
from bridge.hub.tool_list import Listing
from bridge.hub.tool_schema import Era
from bridge.hub.transport import (
    NO_OBSERVER,
    CallObserver,
    DiscoveryFinished,
    HostAnnouncement,
    HostDiscovered,
    HostLinked,
    HostLost,
    TabAddress,
)
from fake_transport import CART, Answer, Asked, PlayedTransport, announce, browser_hello, connect, host_hello
from hub_model import (
    DENIED,
    ELSEWHERE,
    FORBIDDEN,
    GRACE_S,
    MAX_NAME,
    TOOLS,
    Address,
    Here,
    Host,
    Kept,
    Model,
    Spot,
    Target,
    form_of,
    is_forbidden,
    is_website,
)
from native_host.protocol import wire
from native_host.protocol.wire import Code

MAX_ATTEMPTS = 3
TOLD_APART_S = 0.5
OPENING_S = 5.0
"""So long the page of a tab that was opened is waited for."""
LOADED_AGAIN = 3
"""So often, at most, within that time."""
POLICY = Policy(PolicyRules(deny=(DENIED,), tools=(ToolRule(name=FORBIDDEN, allow=False),)))
TERMS = Terms(policy=POLICY, pages=PageSettings(sites=(PageSite(origin="*", tools="on"),)))
"""No question about page tools comes between call and answer."""


class Memory(NoToolStore):
    """A store without a disk: of each tool that may be kept, what its page said last."""

    def __init__(self) -> None:
        self.kept: dict[Kept, CachedToolRow] = {}
        self.to_forget: list[str] = []
        """Origins, by another command: known here at the next look."""
        self.on_forgotten: Callable[[str], None] = lambda _: None

    def refresh(self) -> bool:
        forgotten, self.to_forget = self.to_forget, []
        for origin in forgotten:
            self.on_forgotten(origin)
        gone = [key for key in self.kept if key.origin in forgotten]
        for key in gone:
            del self.kept[key]
        return bool(gone)

    def tools(self) -> Sequence[CachedToolRow]:
        return [self.kept[key] for key in sorted(self.kept)]

    def record_offer(
        self, profile: str, tab_id: int, origin: str, url: str, tools: Sequence[PageTool]
    ) -> bool:
        del tab_id
        if not is_website(origin):
            return False
        before = dict(self.kept)
        for each in tools:
            key = Kept(profile, origin, each.name)
            if each.is_cacheable:
                self.kept[key] = CachedToolRow(profile, origin, url, each)
            else:
                self.kept.pop(key, None)
        return self.kept != before


class WatchedTransport(PlayedTransport):
    """Has each request judged before anything else can happen."""

    def __init__(self) -> None:
        super().__init__()
        self.player: Player

    def send(
        self,
        tab: TabAddress,
        method: str,
        params: wire.Wire,
        timeout_s: float,
        on_done: OnFinished[bytes | CallError],
        caller: CallObserver = NO_OBSERVER,
    ) -> Operation:
        self.player.judge(Asked(tab, method, params, timeout_s, caller, on_done))
        return super().send(tab, method, params, timeout_s, on_done, caller)


@dataclass
class Made:
    """A request of a call: where it went, and what was answered."""

    where: Here
    names_a_tab: bool
    answer: steps.Answer


@dataclass
class Attempt:
    """What a call may do until it is made."""

    since: float
    awaited: set[str] = field(default_factory=set)
    """Profiles whose host or page had to come back first, at any moment of it."""
    wanted: set[Address] = field(default_factory=set)
    """For any of these a tab was to be opened, at any moment of it."""
    away: set[str] = field(default_factory=set)
    """The profiles of both that did not run when something happened last."""
    opening: Address | None = None
    """For that one it was."""
    is_new: bool = False
    """Which was not there before."""
    times_loaded: int = 0
    """Again."""

    @property
    def has_waited(self) -> bool:
        return bool(self.awaited or self.wanted)


@dataclass
class Going:
    """A call on its way."""

    step: steps.Calls
    name: str
    attempt: Attempt
    made: list[Made] = field(default_factory=list)
    missed: set[Spot] = field(default_factory=set)
    open_failed: bool = False

    @property
    def profile(self) -> str | None:
        """Where it was tried first."""
        return self.made[0].where.spot.profile if self.made else None

    @property
    def goes_on(self) -> bool:
        """Whether the rules want one more attempt."""
        if not self.made:
            return True
        last = self.made[-1]
        code, handed = failure_of(last.answer)
        may_go_elsewhere = code in ELSEWHERE and (not handed or last.where.tool.is_repeatable)
        return may_go_elsewhere and not last.names_a_tab and len(self.made) < MAX_ATTEMPTS


def failure_of(answer: steps.Answer) -> tuple[Code | None, bool]:
    match answer:
        case steps.Fails(code, handed):
            return code, handed
        case "tab closes":
            return Code.NO_SUCH_TAB, False
        case "goes elsewhere":
            return Code.NAVIGATED, False
        case "host ends":
            return Code.GONE, True
        case "host ended before":
            return Code.GONE, False
    return None, True


class Player:
    """One hub, and all that happens to it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.model = Model()
        self.store = Memory()
        self.store.on_forgotten = self._forgotten
        self.transport = WatchedTransport()
        self.transport.player = self
        self.transport.on_request = self._answer
        self.records: list[FinishedCall] = []
        self.router = Router(self.transport, terms=TERMS, store=self.store, keep=self._keep)
        self.listing = Listing(self.router.catalog)
        self.sessions = {name: Session(name) for name in steps.SESSIONS}
        self._nursery = nursery
        self._hosts: dict[str, list[str]] = {browser: [] for browser in steps.BROWSERS}
        self._started_at: dict[str, float] = {}
        self._only_seen: dict[str, steps.Starts] = {}
        self._remembered: dict[str, tuple[dict[int, wire.Tab], list[wire.FrameTools]]] = {}
        """By browser: tabs and documents when its last host ended."""
        self._ever: set[str] = set()
        self._going: Going | None = None
        self._told_at = -1.0
        self._told: list[tuple[str, str, bytes]] = []
        self._told_frames: set[tuple[str, int, int, int]] = set()
        """A tool that moves from one to another is told of as well, though it may be called as before."""
        self._has_read_other = False
        """A list that was not the one told of was read since."""
        self._opened: dict[tuple[str, str, str], int] = {}
        """By session, profile and address: the tab that was opened last."""

    async def begin(self) -> None:
        self.transport.happen(DiscoveryFinished())
        self._nursery.start_soon(self.router.run)
        self._told = self._client_view()
        self._nursery.start_soon(self.router.notify_changes, self._tell)
        await self.check()

    async def play(self, step: steps.Step) -> None:
        match step:
            case steps.Passes(seconds):
                await trio.sleep(seconds)
            case steps.Lists():
                await self._list(step)
            case steps.Calls():
                await self._call(step)
            case _:
                self.happen(step)
        await self.check()

    # ── What happens ────────────────────────────────────────────────────────────────────────────────────────

    def happen(self, step: steps.News) -> None:
        self.model.time_is(trio.current_time())
        self._follow()
        self._happen(step)
        self._follow()

    def _happen(self, step: steps.News) -> None:
        match step:
            case steps.Starts():
                self._start(step)
            case steps.Replays(browser):
                if browser in self._only_seen:
                    self._replay(browser, self._only_seen.pop(browser))
            case steps.Ends(browser, is_oldest):
                if hosts := self._hosts[browser]:
                    self._end(browser, hosts[0] if is_oldest else hosts[-1])
            case steps.Forgets(origin):
                self.store.to_forget.append(origin)
            case _:
                if host := self._speaking(step.browser):
                    self._say(host, *_said(step, self.model.linked(host)))

    def _speaking(self, browser: str) -> str | None:
        """The newest host of a browser, when it has said who it is."""
        hosts = self._hosts[browser]
        return hosts[-1] if hosts and browser not in self._only_seen else None

    def _say(self, host: str, *messages: wire.Wire) -> None:
        for message in messages:
            self.model.said(host, message, trio.current_time())
            self.transport.happen(HostAnnouncement(host, type(message).__name__, message))

    def _forgotten(self, origin: str) -> None:
        self._follow()
        self.model.forgotten(origin)

    def _start(self, step: steps.Starts) -> None:
        if step.browser in self._only_seen:
            return
        hosts, known = self._hosts[step.browser], sorted(self._started_at)
        mine = [name for name in known if name.startswith(step.browser)]
        host = f"{step.browser}{len(mine)}"
        if step.is_known_host and mine and not hosts:
            host = mine[-1]
        if hosts:
            self._remember(step.browser, hosts[-1])
        started_at = self._started_at.setdefault(host, float(len(known) + 1))
        hosts.append(host)
        self.model.seen(host, started_at, *steps.BROWSERS[step.browser])
        self.transport.happen(HostDiscovered(host, started_at))
        self._only_seen[step.browser] = step
        if not step.is_only_seen:
            self._replay(step.browser, self._only_seen.pop(step.browser))

    def _replay(self, browser: str, step: steps.Starts) -> None:
        host = self._hosts[browser][-1]
        profile, pid = steps.BROWSERS[browser]
        self.transport.happen(HostLinked(host, host_hello(host, pid)))
        tabs, documents = self._remembered.get(browser, ({}, []))
        said: list[wire.Wire] = []
        if step.says != "nothing":
            said.append(wire.Tabs(tabs=list(tabs.values())))
        if step.says == "all":
            said += documents
        hello = browser_hello(profile)
        whole = [wire.HostReplayed(), hello, *said] if step.is_late else [hello, *said, wire.HostReplayed()]
        self._say(host, *whole)

    def _end(self, browser: str, host: str) -> None:
        if host == self._hosts[browser][-1]:
            self._remember(browser, host)
            self._only_seen.pop(browser, None)
        self._hosts[browser].remove(host)
        self.model.lost(host, trio.current_time())
        self.transport.happen(HostLost(host))

    def _remember(self, browser: str, host: str) -> None:
        there = self.model.linked(host)
        if there.is_known:
            self._remembered[browser] = dict(there.tabs), [each.said for each in there.documents.values()]

    # ── What sessions do ────────────────────────────────────────────────────────────────────────────────────

    async def _list(self, step: steps.Lists) -> None:
        session = self.sessions[step.session]
        if step.by_tool:
            await self.router.call(session, "list_page_tools", Arguments.of({}))
            names = [entry.name for entry in self.router.catalog.all_entries()]
        else:
            names = [
                str(each["name"])
                for each in (await self.router.list_tools_decoded(session))[len(META_TOOLS) :]
            ]
            self._has_read_other |= self._is_other_list()
        self.model.time_is(trio.current_time())  # a list waits for browsers that have not said everything
        bindings = self._bindings()
        assert sorted(names) == sorted(bindings)
        self.model.was_shown(step.session, bindings)

    async def _call(self, step: steps.Calls) -> None:
        names = self._names_for(step)
        if not names:
            return
        attempt = Attempt(trio.current_time())
        self._going = going = Going(step, names[step.which % len(names)], attempt)
        session = self.sessions[step.session]
        recorded = len(self.records)
        unknown = False
        self._follow()
        async with trio.open_nursery() as nursery:
            for after_s, news in step.meanwhile:
                nursery.start_soon(self._later, after_s, news)
            with trio.fail_after(120):
                try:
                    if step.by_tool:
                        called = {"name": going.name}
                        await self.router.call(session, "call_page_tool", Arguments.of(called))
                    else:
                        await self.router.call(session, going.name, Arguments.of({}))
                except UnknownToolError:
                    unknown = True
            (record,) = self.records[recorded:]
            assert unknown == (record.outcome == "unknown_tool" and not step.by_tool)
            if going.attempt.has_waited:
                # The hub forgets what is over at this very moment.
                await trio.testing.wait_all_tasks_blocked()
            self._check_outcome(going, record)
            self._going = None

    async def _later(self, after_s: float, news: steps.News) -> None:
        await trio.sleep(after_s)
        self.happen(news)

    def _names_for(self, step: steps.Calls) -> list[str]:
        match step.whose:
            case "shown":
                return sorted(self.model.shown.get(step.session, {}))
            case "live":
                return sorted(self._live_names())
            case "ever":
                return sorted(self._ever)
            case "domain":
                there = [(here.spot.origin, here.spot.own_name) for here in self.model.here()]
                there += [(kept.origin, kept.own_name) for kept in self.model.kept]
                return sorted({form for each in there if (form := form_of(*each))})
            case "nobody's":
                return ["website_tool_nobody_example_tab1_buy"]

    def _bindings(self) -> dict[str, Here | Kept]:
        """What a session that lists now is shown, by name."""
        there = {here.spot: here for here in self.model.here()}
        return {
            entry.name: there[_spot(entry)] if isinstance(entry, LiveEntry) else _kept(entry)
            for entry in self.router.catalog.all_entries()
        }

    def _live_names(self) -> dict[str, Spot]:
        return {entry.name: _spot(entry) for entry in self.router.catalog.live_entries()}

    def _target(self, going: Going) -> Target:
        self.model.time_is(trio.current_time())
        live = self._live_names()
        return self.model.target(going.step.session, going.name, live, going.missed, going.profile)

    def _follow(self) -> None:
        """What the present attempt may come to, as things are at this moment, and may be no more later."""
        if (going := self._going) is None:
            return
        attempt = going.attempt
        profiles = attempt.awaited | {each.kept.profile for each in attempt.wanted}
        attempt.away = {profile for profile in profiles if not self.model.is_running(profile)}
        target = self._target(going)
        if target.run and target.run.is_missing:
            attempt.awaited.add(target.run.spot.profile)
        attempt.wanted.update(target.open)

    def _in_opened(self, going: Going) -> dict[Address, Here | None]:
        """The tool in each tab that was opened for it, as far as the present attempt is about it."""
        session, attempt = going.step.session, going.attempt
        wanted = {attempt.opening} if attempt.opening else attempt.wanted
        return {
            each: self.model.in_tab(session, each.kept, tab_id)
            for each in wanted
            if (tab_id := self._opened.get((session, each.kept.profile, each.url))) is not None
        }

    # ── What the browser is asked ───────────────────────────────────────────────────────────────────────────

    def judge(self, asked: Asked) -> None:
        """Whether the hub may ask this, as things are at this moment."""
        going = self._going
        assert going, "nobody calls"
        assert going.goes_on, f"{going.name} was to be tried no more after {going.made}"
        self._follow()
        match asked.params:
            case wire.ExecuteTool():
                self._judge_run(going, asked.tab, asked.params)
            case wire.CreateTab():
                self._judge_opening(going, asked.tab, asked.params)
            case wire.Navigate():
                self._judge_loading(going, asked.tab, asked.params)
            case _:
                raise AssertionError(asked)

    def _judge_run(self, going: Going, tab: TabAddress, params: wire.ExecuteTool) -> None:
        at = tab.host, params.tab_id, params.frame_id, params.document_id, params.tool_name
        found = [
            here
            for here in self.model.here()
            if at == (here.host, here.spot.tab_id, here.spot.frame_id, here.document_id, here.spot.own_name)
        ]
        assert found, f"there is no {at}"
        (where,) = found
        assert not where.is_missing, f"{where} cannot be reached"
        assert not self.model.refusal(going.step.session, where), f"{where} is refused"
        target = self._target(going)
        if going.attempt.opening or where != target.run:
            assert where in self._in_opened(going).values(), f"{where} is neither {target} nor opened for it"
        names_a_tab = self.model.names_a_tab(going.step.session, going.name, self._live_names())
        answers = going.step.answers[len(going.made) :]
        going.made.append(Made(where, names_a_tab, answers[0] if answers else "result"))
        going.missed.add(where.spot)
        going.attempt = Attempt(trio.current_time())

    def _judge_opening(self, going: Going, at: TabAddress, params: wire.CreateTab) -> None:
        attempt, browser = going.attempt, self._asked_browser(at)
        assert attempt.opening is None, "a second tab is opened"
        found = [
            each for each in attempt.wanted if (each.kept.profile, each.url) == (browser.profile, params.url)
        ]
        assert found, f"{params} at {browser.profile} is none of {attempt.wanted}"
        attempt.opening, attempt.is_new = found[0], True
        assert not self._opened_tab(going, browser, found[0]), "the tab that was opened before is there"

    def _judge_loading(self, going: Going, at: TabAddress, params: wire.Navigate) -> None:
        attempt, browser = going.attempt, self._asked_browser(at)
        wanted = (each for each in attempt.wanted if each.kept.profile == browser.profile)
        opened = {each: self._opened_tab(going, browser, each) for each in wanted}
        found = [
            (each, tab)
            for each, tab in opened.items()
            if tab and (tab.tab_id, each.url) == (params.tab_id, params.url)
        ]
        assert found, f"{params} is none of {opened}"
        (address, tab), *_ = found
        assert tab.status == "complete", "it is still loading"
        assert (tab.tab_id, 0) not in browser.documents, "a page is there"
        assert attempt.opening in (None, address), "two pages are waited for"
        attempt.opening = address
        attempt.times_loaded += 1
        assert attempt.times_loaded <= LOADED_AGAIN + (not attempt.is_new), "loaded too often"

    def _asked_browser(self, at: TabAddress) -> Host:
        browser = self.model.linked(at.host)
        assert browser in self.model.shown_hosts()
        return browser

    def _opened_tab(self, going: Going, browser: Host, address: Address) -> wire.Tab | None:
        """The tab that was opened, if it is there and still the caller's."""
        session = going.step.session
        opened = self._opened.get((session, browser.profile, address.url), 0)
        return next(
            (tab for tab in browser.tabs.values() if (tab.tab_id, tab.owner) == (opened, session)), None
        )

    def _answer(self, asked: Asked) -> Answer:
        going = self._going
        assert going
        if not isinstance(asked.params, wire.ExecuteTool):
            return self._open(going, asked)
        answer = going.made[-1].answer
        host = asked.tab.host
        is_linked = any(host in hosts for hosts in self._hosts.values())
        browser = host.rstrip("0123456789")
        tab_id, frame_id = asked.params.tab_id, asked.params.frame_id
        match answer:
            case "result":
                return {"success": True, "payload": CART}
            case "throws":
                return {"success": False, "payload": "out of tea"}
            case "tab closes" if is_linked:
                self._say(host, wire.TabRemoved(tab_id=tab_id))
            case "goes elsewhere" if is_linked:
                gone = going.made[-1].where
                self._say(
                    host,
                    wire.FrameTools(
                        tab_id=tab_id,
                        frame_id=frame_id,
                        document_id="d9",
                        origin=gone.spot.origin,
                        url=f"{gone.spot.origin}/elsewhere",
                        tools=[msgspec.Raw(gone.tool.raw)],
                    ),
                )
            case "host ends" | "host ended before" if is_linked:
                self._end(browser, host)
        self._follow()
        code, handed = failure_of(answer)
        assert code is not None
        return CallError(code, handed=handed)

    def _open(self, going: Going, asked: Asked) -> Answer:
        address, session, opens = going.attempt.opening, going.step.session, going.step.opens
        assert address
        host = asked.tab.host
        is_linked = any(host in hosts for hosts in self._hosts.values())
        there = self.model.linked(host) if is_linked else None
        is_gone = asked.tab.tab_id is not None and there and asked.tab.tab_id not in there.tabs
        if opens == "fails" or there is None or is_gone:
            going.open_failed = True
            return CallError(Code.TIMED_OUT, handed=True)
        unused = (each for each in range(5, 99) if each not in there.tabs and each != steps.INCOGNITO_TAB)
        tab_id = asked.tab.tab_id or next(unused)
        self._opened[session, address.kept.profile, address.url] = tab_id
        tab = wire.Tab(
            tab_id=tab_id,
            window_id=1,
            origin=address.kept.origin,
            ordinal=tab_id,
            owner=session,
            status="loading" if opens == "late" else "complete",
        )
        self._say(host, wire.TabChanged(tab=tab))
        self._load(host, tab, address, opens, is_again=asked.tab.tab_id is not None)
        self._follow()
        return {"tabId": tab_id, "windowId": 1}

    def _load(self, host: str, tab: wire.Tab, address: Address, opens: steps.Opens, is_again: bool) -> None:
        offered = next(each for each in TOOLS if each.own_name == address.kept.own_name)
        page = wire.FrameTools(
            tab_id=tab.tab_id,
            frame_id=0,
            document_id=f"d{len(self.transport.asked)}",
            origin=tab.origin,
            url=address.url,
            tools=[] if opens == "without the tool" else [msgspec.Raw(offered.raw)],
        )
        match opens:
            case "at once" | "without the tool":
                self._say(host, page)
            case "when loaded again" if is_again:
                self._say(host, page)
            case "late":
                self._nursery.start_soon(self._dial, host, page)

    async def _dial(self, host: str, page: wire.FrameTools) -> None:
        await trio.sleep(steps.LATE_S)
        is_linked = any(host in hosts for hosts in self._hosts.values())
        tab = self.model.linked(host).tabs.get(page.tab_id) if is_linked else None
        if tab is None:
            return
        self._follow()
        self._say(host, wire.TabChanged(tab=msgspec.structs.replace(tab, status="complete")), page)
        self._follow()

    # ── What came of it ─────────────────────────────────────────────────────────────────────────────────────

    def _check_outcome(self, going: Going, record: FinishedCall) -> None:
        if not going.goes_on:
            code, handed = failure_of(going.made[-1].answer)
            ended = {"result": "ok", "throws": "tool_error"}.get(str(going.made[-1].answer))
            assert record.outcome == (ended or (code and code.name.lower()))
            assert record.handed == handed
            return
        self._follow()
        target = self._target(going)
        if target.is_unknown and going.made and not going.attempt.has_waited:
            code, handed = failure_of(going.made[-1].answer)
            assert code
            assert (record.outcome, record.handed) == (code.name.lower(), handed)
            return
        assert not record.handed, f"nothing was run: {record}"
        if going.open_failed:
            assert record.outcome == "timed_out"
            return
        opened = [here for here in self._in_opened(going).values() if here]
        refusals = {*target.refusals, *(self.model.refusal(going.step.session, here) for here in opened)}
        if record.outcome not in {code.name.lower() for code in refusals if code}:
            self._check_why_not(going, record, target)

    def _check_why_not(self, going: Going, record: FinishedCall, target: Target) -> None:
        """Why a call reached no page, when nobody refused it."""
        attempt = going.attempt
        match record.outcome:
            case "gone":
                assert self._is_away(going), f"{record} is there"
            case "no_longer_offered":
                is_missing = target.run is not None and target.run.is_missing
                is_still_away = attempt.awaited and (target.is_unknown or is_missing)
                assert is_still_away or self._has_waited_for_a_page(going), f"{record} is {target}"
            case _:
                assert record.outcome == "unknown_tool", f"{record} is not {target}"
                assert target.is_unknown

    def _is_away(self, going: Going) -> bool:
        """Whether a browser is not there, and was given time to come back if it has only just gone."""
        attempt = going.attempt
        not_running = [
            each.kept.profile for each in attempt.wanted if not self.model.is_running(each.kept.profile)
        ]
        is_late = trio.current_time() >= attempt.since + GRACE_S
        return bool(attempt.away & attempt.awaited) or any(
            is_late or not self.model.is_there(profile) for profile in {*attempt.away, *not_running}
        )

    def _has_waited_for_a_page(self, going: Going) -> bool:
        """In a tab that was opened for it, and that shows none or another one."""
        opened = self._in_opened(going)
        is_late = trio.current_time() >= going.attempt.since + OPENING_S
        return is_late and not all(opened.values()) and not self._is_left_blank(going, list(opened))

    def _is_left_blank(self, going: Going, opened: Sequence[Address]) -> bool:
        """Whether the tab has shown all the time that nothing came, and was not loaded again as often."""
        attempt = going.attempt
        running = [host for host in self.model.shown_hosts() if host.lost_at is None]
        tabs = [
            (host, self._opened_tab(going, host, each))
            for each in opened
            for host in running
            if host.profile == each.kept.profile
        ]
        if going.step.meanwhile or len(tabs) != 1:
            return False
        ((host, tab),) = tabs
        if tab is None or tab.status != "complete" or (tab.tab_id, 0) in host.documents:
            return False
        return attempt.times_loaded < LOADED_AGAIN + (not attempt.is_new)

    def _keep(self, record: Record) -> None:
        if isinstance(record, FinishedCall):
            self.records.append(record)

    # ── What is there ───────────────────────────────────────────────────────────────────────────────────────

    async def check(self) -> None:
        """The hub knows what the model knows, and nothing else."""
        await trio.testing.wait_all_tasks_blocked()
        self.model.time_is(trio.current_time())
        self._check_live()
        self._check_kept()
        self._check_forgotten()
        self._check_against_a_newcomer()

    def _check_live(self) -> None:
        entries = list(self.router.catalog.live_entries())
        there = {here.spot: here for here in self.model.here()}
        assert {_spot(entry) for entry in entries} == there.keys()
        assert len(entries) == len(there)
        plain = self.model.plain_names()
        for entry in entries:
            here = there[_spot(entry)]
            assert entry.offer.browser.host == here.host
            assert entry.offer.frame.document_id == here.document_id
            assert entry.tool.raw == here.tool.raw
            assert (entry.offer.lost_at is not None) == here.is_missing
            assert bool(entry.refusal) == is_forbidden(here)
            assert entry.name == (plain[here.spot] or entry.name)
            assert (entry.name in plain.values()) == (plain[here.spot] is not None)

    def _check_kept(self) -> None:
        assert self.store.kept.keys() == self.model.kept.keys()
        entries = self.router.catalog.all_entries()
        names = [entry.name for entry in entries]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}", name) for name in names)
        kept = {_kept(entry): entry.name for entry in entries if isinstance(entry, CachedEntry)}
        assert kept.keys() == self.model.without_tab()
        live = {entry.name for entry in self.router.catalog.live_entries()}
        for each, name in kept.items():
            is_plain = name == self.model.plain_name_of_kept(each)
            assert is_plain == self.model.has_plain_name(each, live)
            if not is_plain:
                self.model.marked[name] = each
        self._ever.update(names)

    def _check_forgotten(self) -> None:
        registry = self.router.registry
        assert sorted(link.host for link in registry.all_browsers()) == sorted(
            host.name for host in self.model.hosts
        )
        for link in registry.all_browsers():
            (known,) = [
                host
                for host in self.model.hosts
                if (host.name, host.lost_at is None) == (link.host, link.lost_at is None)
            ]
            announced = [frame.announced for frame in link.all_frames()]
            assert {(at.tab_id, at.frame_id) for at in announced} == known.documents.keys()
            assert link.tabs == known.tabs

    def _check_against_a_newcomer(self) -> None:
        """A bridge that starts now, with the stored order of profiles, and hears of everything in another
        order, makes the same of it."""
        newcomer = Registry()
        hosts = self.model.shown_hosts()
        for host in reversed(hosts):
            documents = [there.said for there in reversed(list(host.documents.values()))]
            tabs = wire.Tabs(tabs=list(reversed(host.tabs.values())))
            connect(
                newcomer,
                host.name,
                tabs,
                profile=host.profile,
                browser_pid=host.pid,
                started_at=host.started_at,
            )
            announce(newcomer, host.name, *documents)
        for host in hosts:
            if host.lost_at is not None:
                newcomer.on_event(HostLost(host.name), 0.0)
        profiles = ProfileMarks(self.router.profiles.rows)
        anew = Catalog(newcomer, policy=POLICY, store=self.store, profiles=profiles)
        assert [entry.name for entry in self.router.catalog.all_entries()] == [
            e.name for e in anew.all_entries()
        ]
        assert _inside(self.router.catalog) == _inside(anew)
        assert self.listing.listed_bindings() == Listing(anew).listed_bindings()
        for era in Era:
            assert self.listing.format_tools(era) == Listing(anew).format_tools(era)

    # ── What is told ────────────────────────────────────────────────────────────────────────────────────────

    def _client_view(self) -> list[tuple[str, str, bytes]]:
        return [(each.name, each.origin, each.tool.raw) for each in self.router.catalog.all_entries()]

    def _frames(self) -> set[tuple[str, int, int, int]]:
        """Where tools are, whichever host serves them."""
        spots = [_spot(entry) for entry in self.router.catalog.live_entries() if not entry.refusal]
        return {(spot.profile, spot.pid, spot.tab_id, spot.frame_id) for spot in spots}

    async def _tell(self, _kind: str) -> None:
        now = trio.current_time()
        assert now >= self._told_at + TOLD_APART_S, "told too often"
        assert self._is_other_list() or self._has_read_other, "told of nothing"
        self._told, self._told_frames, self._told_at = self._client_view(), self._frames(), now
        self._has_read_other = False

    def _is_other_list(self) -> bool:
        return self._client_view() != self._told or self._frames() != self._told_frames

    async def finish(self) -> None:
        """When all is quiet, clients have been told; when every browser is gone, what is kept is there."""
        for is_end in (False, True):
            for browser, hosts in self._hosts.items() if is_end else ():
                for host in list(hosts):
                    self._end(browser, host)
            await trio.sleep(GRACE_S + 2 * TOLD_APART_S)
            await self.check()
            assert sorted(self._told) == sorted(self._client_view()), "not told"
            assert not self._has_read_other, "not told of the end of what was read"
        assert not list(self.router.catalog.live_entries())


def _said(step: steps.News, host: Host) -> list[wire.Wire]:
    """What a host says of it."""
    match step:
        case steps.Tab():
            tab = wire.Tab(
                tab_id=step.tab_id,
                window_id=1,
                origin=step.origin,
                ordinal=step.ordinal,
                owner=step.owner,
                active=step.is_shown,
                focused=step.is_shown,
                last_accessed=step.last_accessed,
                incognito=step.tab_id == steps.INCOGNITO_TAB,
            )
            return [wire.TabChanged(tab=tab)]
        case steps.Looks(_, tab_id, is_shown, last_accessed):
            seen = {"active": is_shown, "focused": is_shown, "last_accessed": last_accessed}
            tabs = [tab for tab in host.tabs.values() if tab.tab_id == tab_id]
            return [wire.TabChanged(tab=msgspec.structs.replace(tab, **seen)) for tab in tabs]
        case steps.Page():
            return _page(step, host)
        case steps.PageGoes(_, tab_id, frame_id, is_there):
            there = host.documents.get((tab_id, frame_id))
            document_id = there.said.document_id if there and is_there else "d0"
            return [wire.FrameAddress(tab_id=tab_id, frame_id=frame_id, document_id=document_id)]
        case steps.TabCloses(_, tab_id):
            return [wire.TabRemoved(tab_id=tab_id)]
        case steps.AllTabs(_, tab_ids):
            return [wire.Tabs(tabs=[tab for tab_id, tab in host.tabs.items() if tab_id in tab_ids])]
        case steps.Pauses(_, sites, sessions):
            return [wire.Paused(sites=list(sites), sessions=list(sessions))]
    raise AssertionError(step)


def _page(step: steps.Page, host: Host) -> list[wire.Wire]:
    """Its tab is opened for it, or navigates to it."""
    page = wire.FrameTools(
        tab_id=step.tab_id,
        frame_id=step.frame_id,
        document_id=step.document_id,
        origin=step.origin,
        url=f"{step.origin}{step.path}",
        tools=[msgspec.Raw(raw) for raw in step.tools],
    )
    tab = host.tabs.get(step.tab_id)
    if tab is None:
        return [*_said(steps.Tab(step.browser, step.tab_id, step.origin, step.tab_id), host), page]
    if step.frame_id == 0 and tab.origin != step.origin:
        return [wire.TabChanged(tab=msgspec.structs.replace(tab, origin=step.origin)), page]
    return [page]


def _spot(entry: LiveEntry) -> Spot:
    return Spot(*entry.binding.identity)


def _kept(entry: Entry) -> Kept:
    identity = entry.binding.identity
    return Kept(identity.profile, identity.origin, identity.own_name)


def _inside(catalog: Catalog) -> object:
    """Everything that it holds, whatever order it came in."""
    catalog.all_entries()
    return (
        {name: entry.binding for name, entry in catalog._by_name.items()},
        {identity: entry.name for identity, entry in catalog._by_identity.items()},
        {
            form: {identity: entry.name for identity, entry in sharing.items()}
            for form, sharing in catalog._by_form.items()
        },
        catalog._where,
        Listing(catalog).fingerprint(),
        {name: entry.binding for name, entry in catalog._kept.items()},
        catalog._namer._names,
        catalog._namer._holders,
        {plain: set(sharing) for plain, sharing in catalog._namer._sharing.items()},
    )
