"""`navigate`: to an address, or through a tab's history."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Annotated, Literal

import trio
from msgspec import UNSET, Meta, UnsetType, field

from bridge import origins
from bridge.browser_tools.page.bound_documents import BoundDocument, bind_document
from bridge.browser_tools.page.devtools import DOWNLOAD_S, brief_address, rest_of_address
from bridge.browser_tools.page.page import Page
from bridge.browser_tools.page.tab_downloads import WAIT_S
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.tab_access import TabRef
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.browser_tools.tools import gif_creator
from bridge.errors import CallError
from native_host.protocol import wire
from native_host.protocol.untrusted_text import quote, single_line
from native_host.protocol.wire import Code

LOAD_S = 30.0
ANSWER_S = 3.0
TOLD_S = 5.0
"""Seconds until DevTools report a navigation that the browser has reported: a busy machine takes over one."""
MAX_SHOWN = 80
"""Characters of an address within a sentence."""
MAX_TITLE = 500
MAX_URL = 2000
"""Characters of where a page has sent the tab."""
QUIET_MS = 500
"""Without a change of the page after which a navigation is over before its load event."""
_STILL_LOADING = " It is still loading, and can be used."
_NO_PAGE = "net::ERR_ABORTED"
_STEPS = {"back": "goBack", "forward": "goForward"}
_SCHEMES = ("http", "https")
"""Not the browser's own pages, some of which end it; not files, which no page could read either."""


class Navigate(ToolInput, kw_only=True):
    """Input of `navigate`."""

    url: Annotated[
        str,
        Meta(
            min_length=1,
            description="URL, `back` or `forward`. Without a scheme: https, for this machine http.",
        ),
    ]
    tab_id: MaybeTab = field(name="tabId", default=UNSET)
    wait: (
        Annotated[Literal["load"], Meta(description="Wait for the load event, at most 28 s.")] | UnsetType
    ) = UNSET


class NavigateOutput(ToolOutput, kw_only=True):
    """Page that the tab shows now."""

    tab_id: int
    url: str
    title: str
    loading: bool = False
    """True if its load event is still to come."""
    untrusted: tuple[str, ...] = ("url", "title")


async def navigate_tab(given: Navigate, context: CallContext) -> ToolResult:
    """Go there, in the tab that is meant; without any, in a new one."""
    step = _STEPS.get(given.url.strip().lower())
    url = "" if step else address_to_open(given.url)
    if url:
        await context.admit(url)
    if url and given.tab_id is UNSET and not _has_tab(context):
        place = await context.new_tab()
        with suppress(ToolError, CallError):  # without DevTools a download is not reported
            await context.page_of(place).wait_subscribed()
    else:
        place = await context.use_tab(given.tab_id, leaves=True)
    page = context.state.pages.get((place.browser.host, place.tab.tab_id))
    quiet_ms = QUIET_MS if given.wait is UNSET else None
    going = (
        partial(_step_history, context, place, step, quiet_ms)
        if step
        else partial(_load_address, context, place, url, quiet_ms)
    )
    downloads, documents = (page.downloads.count, page.documents) if page else (0, 0)
    try:
        here = await (page.unless_dialog(going) if page else going())
    except CallError as error:
        if error.code not in (Code.INTERNAL_ERROR, Code.TIMED_OUT):
            raise
        if _NO_PAGE in error.detail:
            return await _without_page(context, place, page, downloads)
        raise ToolError(await _not_loaded(context, place, error)) from None
    else:
        if origins.is_blank(here.url) and not origins.is_blank(url or here.url):
            return await _without_page(context, place, page, downloads)
        # Until DevTools and the tab's announcement report it, the next call would be judged by the site left.
        origin = origins.get_origin(here.url)
        if page:
            # A second document: the page has led on already.
            await page.wait_until(
                lambda: page.origin in ("", origin) or page.documents > documents + 1, TOLD_S
            )
            page.forget_load()
        left = BoundDocument(place.tab.document_id)
        await context.wait_announced({(place.browser.host, place.tab.tab_id): left}, origin)
    finally:
        if page:
            page.happened.notes.clear()  # that it has gone there is no news
    number = context.show_tab(place)
    await _check_arrival(context, here, number)
    with suppress(ToolError):  # without DevTools there are no pictures
        shown = context.page_of(place)
        bind_document((shown.host, shown.tab_id), here.document_id)
        await gif_creator.after_action(context, shown, f"navigate {here.url.partition('?')[0]}")
    url, title = single_line(here.url, MAX_URL), single_line(here.title, MAX_TITLE)
    message = f"Tab {number} is at {brief_address(here.url)}.{_STILL_LOADING * here.loading}"
    message += context.take_notes(page) if page else ""
    told = NavigateOutput(message=message, tab_id=number, url=url, title=title, loading=here.loading)
    said = "\n".join(filter(None, [rest_of_address(url), title]))
    return ToolResult(told, said, origins.get_origin(here.url))


def _has_tab(context: CallContext) -> bool:
    return any(tab.owner == context.session.id for tab in context.current_browser().tabs.values())


async def _load_address(
    context: CallContext, place: TabRef, url: str, quiet_ms: int | None
) -> wire.Navigated:
    session = context.session.id if place.is_mine(context.session) else ""
    asked = wire.Navigate(
        session=session,
        tab_id=place.tab.tab_id,
        url=url,
        quiet_ms=quiet_ms,
        timeout_ms=int((LOAD_S - 2) * 1000),
    )
    return await context.ask_browser(place.browser, "browser_navigate", asked, wire.Navigated, LOAD_S)


async def _without_page(context: CallContext, place: TabRef, page: Page | None, downloads: int) -> ToolResult:
    """Return the result of an address without a page; `downloads`: their number before.

    Raises:
        ToolError: the outcome is unknown.
    """
    tab = place.browser.tabs.get(place.tab.tab_id, place.tab)
    url = single_line(tab.url, MAX_URL)
    number = context.show_tab(place)
    stays = f" Tab {number} stays where it was."
    if page is None or not await page.wait_until(lambda: page.downloads.count > downloads, DOWNLOAD_S):
        text = "That has led to no page: it is a download, it has nothing to show, or it was stopped."
        raise ToolError(text + stays)
    await page.wait_downloads()
    message = f"That address is no page.{context.take_notes(page)}{stays}"
    if context.may_read(origins.get_tab_origin(tab)):
        return ToolResult(NavigateOutput(message=message, tab_id=number, url=url, title=tab.title))
    return ToolResult(
        NavigateOutput(message=message, tab_id=number, url=origins.get_tab_origin(tab), title="")
    )


async def _not_loaded(context: CallContext, place: TabRef, error: CallError) -> str:
    detail = error.detail.rstrip(".")
    if error.code == Code.TIMED_OUT:
        detail += await _after_a_wait(context, place)
    return f"{detail}. Look at tab {context.show_tab(place)} (screenshot), check the address, or try later."


async def _after_a_wait(context: CallContext, place: TabRef) -> str:
    """Describe the tab after a timeout, as the end of a sentence.

    Until a new document commits, the old one does not respond: then the load is stopped.
    """
    with suppress(ToolError, CallError):
        page = context.page_of(place)
        with trio.move_on_after(ANSWER_S):
            await page.wait_events()
            return "; what has come of it can be used"
        await page.run_command("Page.stopLoading")
        return ", and nothing had come of it: the tab stays where it was"
    return ""


async def _step_history(
    context: CallContext, place: TabRef, method: str, quiet_ms: int | None
) -> wire.Navigated:
    session = context.session.id if place.is_mine(context.session) else ""
    asked = wire.StepHistory(session=session, tab_id=place.tab.tab_id, quiet_ms=quiet_ms)
    try:
        return await context.ask_browser(place.browser, method, asked, wire.Navigated, LOAD_S)
    except CallError as error:
        if error.code != Code.INVALID_PARAMS:
            raise
        tab = context.show_tab(place)
        text = f"Tab {tab} stays where it is: its history ends here. navigate to a URL instead."
        raise ToolError(text) from None


async def _check_arrival(context: CallContext, here: wire.Navigated, number: int) -> None:
    """Check the final address: a page may redirect, and its address is reported only if it is allowed."""
    try:
        await context.admit(here.url)
    except CallError as error:
        there = origins.format_origin(origins.get_origin(here.url))
        raise ToolError(
            f"Tab {number} was sent on to {there}, and your rules hide that page: "
            f"{error.detail}. navigate to another address, or close the tab."
        ) from None


def address_to_open(url: str) -> str:
    """Return the address to load, written so that the browser requests the site that the bridge judges.

    Raises:
        ToolError: it is not an address that can be loaded, or its site is not certain.
    """
    url = complete_address(url)
    if origins.is_blank(url):
        return url
    try:
        return origins.parse_address(url).url
    except origins.OriginError as error:
        raise ToolError(
            f"The site of {quote(url, MAX_SHOWN)} cannot be determined for certain: {error}. Nothing was "
            "loaded. Write the address as browsers show it, such as https://shop.example/."
        ) from None


def complete_address(url: str) -> str:
    """Return an address with the scheme that a user means who leaves it out.

    Raises:
        ToolError: web pages cannot have that scheme.
    """
    url = origins.trim_url(url)
    scheme, separator, rest = url.partition(":")
    if scheme.lower() in _SCHEMES or url == "about:blank":
        return url
    is_port = rest[:1].isdigit() and "//" not in rest
    if separator and scheme[:1].isalpha() and not is_port:
        raise ToolError(
            f"navigate loads web addresses, not {single_line(scheme, 20)}: ones; nothing was loaded. Give "
            "one such as https://example.com/."
        )
    host = url.partition("/")[0].partition(":")[0]
    is_here = host in ("localhost", "127.0.0.1", "[") or host.endswith(".localhost")
    return f"{'http' if is_here else 'https'}://{url}"


TOOLS = (
    Tool(
        name="navigate",
        title="Go to an address",
        description=(
            "Opens a URL in a tab (your first call opens a tab of yours), or steps through its "
            "history. The user is signed in there as usual."
        ),
        listed="core",
        input_type=Navigate,
        output_type=NavigateOutput,
        run=navigate_tab,
        limit_s=LOAD_S + WAIT_S + 5,
    ),
)
