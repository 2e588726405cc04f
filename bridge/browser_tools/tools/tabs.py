"""Tabs: which there are and whose, new ones, closing them, the size of their window."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from bridge import origins
from bridge.browser_tools.session import tab_access
from bridge.browser_tools.session.call_context import Turn
from bridge.browser_tools.tool import Given, MaybeTab, Tool
from bridge.browser_tools.tool_output import Answer, Told
from bridge.hub.registry import Browser
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line

MAX_TITLE = 100
MAX_URL = 500


class ListedTab(msgspec.Struct, rename="camel"):
    """A tab that the session may use."""

    tab_id: int
    title: str
    url: str
    access: str
    """`own`, or `handed over` by the person."""
    status: str


class Context(Told, kw_only=True):
    """The session's tabs, and how many it may not use."""

    browser: str
    available_tabs: list[ListedTab]
    selected_tab_id: int | None
    tab_group_id: int | None
    tabs_of_others: int
    """Of other clients, and of the person."""
    untrusted: tuple[str, ...] = ("availableTabs",)


class NoArguments(Given, kw_only=True):
    """Nothing."""


class TabsContext(Given, kw_only=True):
    """Of `tabs_context_mcp`."""

    create_if_empty: (
        Annotated[bool, Meta(description="Open an empty tab in a new tab group if you have no tab yet.")]
        | UnsetType
    ) = field(name="createIfEmpty", default=UNSET)


class NewTab(Told, kw_only=True):
    """A tab was opened."""

    tab_id: int
    tab_group_id: int | None


class CloseTab(Given, kw_only=True):
    """Which one."""

    always: ClassVar[tuple[str, ...]] = ("tabId",)
    tab_id: MaybeTab = field(name="tabId", default=UNSET)


class Closed(Told, kw_only=True):
    """A tab was closed."""

    tab_id: int


async def tabs_context(_given: NoArguments, turn: Turn) -> Answer:
    """What there is."""
    return _context(turn, turn.browser())


async def tabs_context_mcp(given: TabsContext, turn: Turn) -> Answer:
    """What there is, with at least one tab if so asked."""
    browser = turn.browser()
    if given.create_if_empty is True and not _own(turn, browser):
        await turn.new_tab(browser=browser)
    return _context(turn, browser)


async def tabs_create(_given: NoArguments, turn: Turn) -> Answer:
    """One more."""
    place = await turn.new_tab()
    tab = place.tab
    message = f"Opened tab {tab.tab_id}, empty. navigate loads a page in it."
    return Answer(NewTab(message=message, tab_id=tab.tab_id, tab_group_id=tab.group_id))


async def tabs_close(given: CloseTab, turn: Turn) -> Answer:
    """One less."""
    place = await turn.place(given.tab_id, leaves=True)
    tab_id, browser = place.tab.tab_id, place.browser
    session = turn.session.id if place.is_mine(turn.session) else ""
    if page := turn.kept.pages.pop((browser.host, tab_id), None):
        page.let_go()
    await turn.ask_browser(browser, "closeTab", wire.OfTab(session=session, tab_id=tab_id), wire.Nothing)
    await turn.seen(lambda: tab_id not in browser.tabs)
    return Answer(Closed(message=f"Closed tab {tab_id}.", tab_id=tab_id))


def _own(turn: Turn, browser: Browser) -> list[wire.Tab]:
    return [tab for tab in browser.tabs.values() if tab.owner == turn.session.id]


def _context(turn: Turn, browser: Browser) -> Answer:
    places = list(tab_access.visible_tabs(browser))
    mine = [place for place in places if place.is_mine(turn.session)]
    tabs = [_listed(turn, place.tab) for place in mine]
    groups = [place.tab.group_id for place in mine if place.tab.owner == turn.session.id]
    chosen = turn.kept.tab_id if turn.kept.tab_id in {tab.tab_id for tab in tabs} else None
    selected = chosen if chosen is not None else (tabs[0].tab_id if tabs else None)
    others = len(places) - len(mine)
    told = Context(
        message=_told(len(tabs), others, may_open=not turn.around.policy.is_read_only),
        browser=tab_access.called(browser),
        available_tabs=tabs,
        selected_tab_id=selected,
        tab_group_id=groups[0] if groups else None,
        tabs_of_others=others,
    )
    lines = [_line(tab, is_current=tab.tab_id == selected) for tab in tabs]
    return Answer(told, page="\n".join(lines), origin="the pages' titles")


def _listed(turn: Turn, tab: wire.Tab) -> ListedTab:
    whose = "own" if tab.owner is not None else "handed over"
    title, url = single_line(tab.title, MAX_TITLE), tab.url[:MAX_URL]
    if not turn.may_read(origins.get_tab_origin(tab)):
        title, url = "", origins.get_tab_origin(tab)
    return ListedTab(tab.tab_id, title, url, whose, tab.status)


def _line(tab: ListedTab, *, is_current: bool) -> str:
    current = ", current" if is_current else ""
    return f"tab {tab.tab_id} ({tab.access}{current}) “{tab.title}” {tab.url}"


def _told(own: int, others: int, *, may_open: bool) -> str:
    have = "You have no tab yet: tabs_create_mcp opens one."
    if not may_open:
        have = "You have no tab, and policy.read_only lets you open none."
    if own:
        have = f"You can use {own} tab{'s' * (own != 1)}."
    if not others:
        return have
    return f"{have} Tabs of the user or of other clients: {others}; the user can hand one over in the popup."


_CONTEXT_WORDS = (
    "Lists the tabs that you can use in the user's browser, which one is current, and how many are others'. "
)

TOOLS = (
    Tool(
        name="tabs_context",
        title="Your tabs",
        description=_CONTEXT_WORDS + "The same as tabs_context_mcp.",
        given=NoArguments,
        told=Context,
        run=tabs_context,
        reads_only=True,
    ),
    Tool(
        name="tabs_create",
        title="New tab",
        description="Opens an empty tab in your own tab group. The same as tabs_create_mcp.",
        given=NoArguments,
        told=NewTab,
        run=tabs_create,
    ),
    Tool(
        name="tabs_context_mcp",
        title="Your tabs",
        description=_CONTEXT_WORDS + "Call it first: other tools take tab ids from here.",
        given=TabsContext,
        told=Context,
        run=tabs_context_mcp,
        only_reads=lambda given: given.create_if_empty is not True,
    ),
    Tool(
        name="tabs_create_mcp",
        title="New tab",
        description="Opens an empty tab in your tab group, in the background. It becomes your current tab.",
        given=NoArguments,
        told=NewTab,
        run=tabs_create,
    ),
    Tool(
        name="tabs_close_mcp",
        title="Close a tab",
        description="Closes one of your tabs. With the last one your tab group is gone.",
        given=CloseTab,
        told=Closed,
        run=tabs_close,
        destroys=True,
    ),
)
