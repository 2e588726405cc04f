"""Tools for tabs: list them with their owners, open and close them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from bridge import origins
from bridge.browser_tools.session import tab_access
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.tab_access import TabRef
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolOutput, ToolResult
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
    """`own`, or `handed over` by the user."""
    status: str


class Context(ToolOutput, kw_only=True):
    """The session's tabs, and how many it may not use."""

    browser: str
    available_tabs: list[ListedTab]
    selected_tab_id: int | None
    tab_group_id: int | None
    tabs_of_others: int
    """Number of tabs of other clients and of the user."""
    untrusted: tuple[str, ...] = ("availableTabs",)


class NoArguments(ToolInput, kw_only=True):
    """Nothing."""


class TabsContext(ToolInput, kw_only=True):
    """Input of `tabs_context_mcp`."""

    create_if_empty: Annotated[bool, Meta(description="Open a tab if you have none.")] | UnsetType = field(
        name="createIfEmpty", default=UNSET
    )


class NewTab(ToolOutput, kw_only=True):
    """A tab was opened."""

    tab_id: int
    tab_group_id: int | None


class CloseTab(ToolInput, kw_only=True):
    """Input of `tabs_close_mcp`."""

    tab_id: MaybeTab = field(name="tabId", default=UNSET)


class CloseOutput(ToolOutput, kw_only=True):
    """A closed tab."""

    tab_id: int


async def tabs_context(_given: NoArguments, context: CallContext) -> ToolResult:
    """List the tabs."""
    return await _make_context(context, context.current_browser())


async def tabs_context_mcp(given: TabsContext, context: CallContext) -> ToolResult:
    """List the tabs; open one first if requested and the session has no tab."""
    browser = context.current_browser()
    if given.create_if_empty is True and not _own_tabs(context, browser):
        await context.new_tab(browser=browser)
    return await _make_context(context, browser)


async def tabs_create(_given: NoArguments, context: CallContext) -> ToolResult:
    """One more."""
    place = await context.new_tab()
    number = context.show_tab(place)
    message = f"Opened tab {number}, empty. navigate loads a page in it."
    return ToolResult(NewTab(message=message, tab_id=number, tab_group_id=place.tab.group_id))


async def tabs_close(given: CloseTab, context: CallContext) -> ToolResult:
    """One less."""
    place = await context.use_tab(given.tab_id, leaves=True)
    tab_id, browser, number = place.tab.tab_id, place.browser, context.show_tab(place)
    session = context.session.id if place.is_mine(context.session) else ""
    if page := context.state.pages.pop((browser.host, tab_id), None):
        page.release()
    await context.ask_browser(browser, "closeTab", wire.OfTab(session=session, tab_id=tab_id), wire.Nothing)
    await context.wait_condition(lambda: tab_id not in browser.tabs)
    return ToolResult(CloseOutput(message=f"Closed tab {number}.", tab_id=number))


def _own_tabs(context: CallContext, browser: Browser) -> list[wire.Tab]:
    return [tab for tab in browser.tabs.values() if tab.owner == context.session.id]


async def _make_context(context: CallContext, browser: Browser) -> ToolResult:
    roots = await context.list_root_sites()
    places = list(tab_access.visible_tabs(browser))
    places.sort(key=lambda place: not roots.includes(origins.get_tab_origin(place.tab)))
    mine = [place for place in places if place.is_mine(context.session)]
    tabs = [_list_tab(context, place) for place in mine]
    groups = [place.tab.group_id for place in mine if place.tab.owner == context.session.id]
    numbers = {place.tab.tab_id: tab.tab_id for place, tab in zip(mine, tabs, strict=True)}
    chosen = None if context.state.tab_id is None else numbers.get(context.state.tab_id)
    selected = chosen if chosen is not None else (tabs[0].tab_id if tabs else None)
    others = len(places) - len(mine)
    told = Context(
        message=_format_message(len(tabs), others, may_open=not context.services.policy.is_read_only),
        browser=tab_access.browser_name(browser),
        available_tabs=tabs,
        selected_tab_id=selected,
        tab_group_id=groups[0] if groups else None,
        tabs_of_others=others,
    )
    lines = [_format_tab(tab, is_current=tab.tab_id == selected) for tab in tabs]
    return ToolResult(told, page="\n".join(lines), origin="the pages' titles")


def _list_tab(context: CallContext, place: TabRef) -> ListedTab:
    tab = place.tab
    whose = "own" if tab.owner is not None else "handed over"
    title, url = single_line(tab.title, MAX_TITLE), tab.url[:MAX_URL]
    if not context.may_read(origins.get_tab_origin(tab)):
        title, url = "", origins.get_tab_origin(tab)
    return ListedTab(context.show_tab(place), title, url, whose, tab.status)


def _format_tab(tab: ListedTab, *, is_current: bool) -> str:
    current = ", current" if is_current else ""
    loading = ", loading" if tab.status == "loading" else ""
    return f"tab {tab.tab_id} ({tab.access}{current}{loading}) “{tab.title}” {tab.url}"


def _format_message(own: int, others: int, *, may_open: bool) -> str:
    have = "You have no tab yet: navigate opens one."
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
        description="Lists the tabs that you may use, and the current one.",
        listed="core",
        input_type=NoArguments,
        output_type=Context,
        run=tabs_context,
        is_read_only=True,
    ),
    Tool(
        name="tabs_create",
        title="New tab",
        description="Opens an empty tab in the background; it becomes your current tab.",
        search_hint="open new tab",
        input_type=NoArguments,
        output_type=NewTab,
        run=tabs_create,
    ),
    Tool(
        name="tabs_context_mcp",
        title="Your tabs",
        description="The same as tabs_context, by the name that Claude in Chrome gives it.",
        listed="claude-in-chrome",
        input_type=TabsContext,
        output_type=Context,
        run=tabs_context_mcp,
        is_read_only_for=lambda given: given.create_if_empty is not True,
    ),
    Tool(
        name="tabs_create_mcp",
        title="New tab",
        description="The same as tabs_create, by the name that Claude in Chrome gives it.",
        listed="claude-in-chrome",
        input_type=NoArguments,
        output_type=NewTab,
        run=tabs_create,
    ),
    Tool(
        name="tabs_close_mcp",
        title="Close a tab",
        description="Closes one of your tabs.",
        search_hint="close tab",
        input_type=CloseTab,
        output_type=CloseOutput,
        run=tabs_close,
        is_destructive=True,
    ),
)
