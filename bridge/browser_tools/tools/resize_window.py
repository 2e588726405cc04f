"""`resize_window`: the size of a tab's window, and so of the page's viewport."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

from msgspec import UNSET, Meta, field

from bridge.browser_tools.page.screenshots import View, view_of
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.tab_access import TabRef
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.errors import CallError
from native_host.protocol import wire
from native_host.protocol.wire import Code

RESIZED_MS = 1000
"""For the page to be laid out anew, if it is at all."""

_OTHER_SIZE = """new Promise((resolve) => {
    if (innerWidth !== %d || innerHeight !== %d) resolve(true);
    addEventListener("resize", () => resolve(true), { once: true });
    setTimeout(() => resolve(false), %d);
})"""


class ResizeWindow(ToolInput):
    """Input of `resize_window`."""

    width: Annotated[int, Meta(ge=1, le=7680, description="CSS pixels.")]
    height: Annotated[int, Meta(ge=1, le=4320)]
    tab_id: MaybeTab = field(name="tabId", default=UNSET)


class ResizeOutput(ToolOutput, kw_only=True):
    """New size of a window."""

    tab_id: int
    width: int
    height: int
    viewport_width: int | None
    """Width of the viewport; None if unknown, as for the browser's own pages."""
    viewport_height: int | None


async def resize_window(given: ResizeWindow, context: CallContext) -> ToolResult:
    """Make it so, and wait until the page knows."""
    place = await context.use_tab(given.tab_id)
    before = await _wait_view(context, place)
    async with _in_front(context, place):
        window = await _set_bounds(given, context, place)
        after = await _wait_view(context, place, other_than=before)
    told = ResizeOutput(
        message=_format_message(given, window, before, after),
        tab_id=context.show_tab(place),
        width=window.width,
        height=window.height,
        viewport_width=after.width if after else None,
        viewport_height=after.height if after else None,
    )
    return ToolResult(told)


async def _set_bounds(given: ResizeWindow, context: CallContext, place: TabRef) -> wire.WindowBounds:
    session = context.session.id if place.is_mine(context.session) else ""
    asked = wire.SetWindowBounds(
        session=session, tab_id=place.tab.tab_id, width=given.width, height=given.height
    )
    try:
        return await context.ask_browser(place.browser, "setWindowBounds", asked, wire.WindowBounds)
    except CallError as error:
        if error.code != Code.INVALID_PARAMS:
            raise
        raise ToolError(
            f"The browser does not make its window {given.width}x{given.height}: {error.detail} Give a size "
            "that fits the screen."
        ) from None


@asynccontextmanager
async def _in_front(context: CallContext, place: TabRef) -> AsyncIterator[None]:
    """Meanwhile its window shows the tab: only what is shown is laid out anew."""
    shown = [
        tab for tab in place.browser.tabs.values() if tab.window_id == place.tab.window_id and tab.active
    ]
    if not shown or shown[0].tab_id == place.tab.tab_id:
        yield
        return
    await _activate_tab(context, place, place.tab.tab_id)
    try:
        yield
    finally:
        with suppress(CallError):  # The user has closed it.
            await _activate_tab(context, place, shown[0].tab_id)


async def _activate_tab(context: CallContext, place: TabRef, tab_id: int) -> None:
    # Without a session: any tab may have been in front, and it returns there.
    await context.ask_browser(place.browser, "activateTab", wire.ActivateTab(tab_id=tab_id), wire.Nothing)


async def _wait_view(context: CallContext, place: TabRef, *, other_than: View | None = None) -> View | None:
    """Return the view of the tab if it can be determined, after a change of size if there is one."""
    with suppress(ToolError, CallError):
        page = context.page_of(place)
        main = await page.main_frame()
        if other_than:
            await page.evaluate(_OTHER_SIZE % (other_than.width, other_than.height, RESIZED_MS), main)
        return await view_of(page, main)
    return None


def _format_message(
    given: ResizeWindow, window: wire.WindowBounds, before: View | None, view: View | None
) -> str:
    told = f"The window is {window.width}x{window.height} now"
    if (window.width, window.height) != (given.width, given.height):
        told += ", which is as near as the screen and the browser let it"
    if view is None:
        return f"{told}."
    told += f", and shows {view.width}x{view.height} of the page."
    is_same = before is not None and before.size == view.size
    return (
        told if is_same else f"{told} Coordinates of earlier screenshots mean nothing any more: take another."
    )


TOOLS = (
    Tool(
        name="resize_window",
        title="Resize the window",
        description="Changes the size of a tab's window, for instance to that of a phone.",
        search_hint="window viewport size mobile responsive",
        input_type=ResizeWindow,
        output_type=ResizeOutput,
        run=resize_window,
        is_repeatable=True,
    ),
)
