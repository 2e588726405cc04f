"""Pointer actions of the `computer` tool: clicks, hovering, drags, scrolling."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UnsetType

from bridge.browser_tools.page.bound_documents import has_left
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.page.pointer import TICK, Button, PointedElement, in_words, look_at
from bridge.browser_tools.page.screenshots import Point, view_of
from bridge.browser_tools.session.located_element import LocatedElement
from bridge.browser_tools.tool_output import ToolError
from bridge.browser_tools.tools.computer_action import LEFT, ActionContext, ActionResult, add_article
from bridge.errors import CallError

DEFAULT_TICKS = 3.0


async def _move_onto(action: ActionContext, *, also_disabled: bool = False) -> tuple[Point, PointedElement]:
    """Move the pointer to the ref or coordinate; return the point and the element."""
    await action.context.check_input(action.page)
    given = action.given
    if not isinstance(given.ref, UnsetType):
        ref, frame = await action.locate(given.ref)
        spot, seen = await action.pointer.move_onto(ref, frame, also_disabled=also_disabled)
        return spot.point, seen
    if isinstance(given.coordinate, UnsetType):
        raise ToolError(
            f"{given.action} needs coordinate (x, y in a screenshot's pixels) or ref (an element)."
        )
    point = action.to_viewport(given.coordinate)
    await action.pointer.move_to(point)
    return point, await action.look_at(point)


def make_click(
    verb: str, button: Button = "left", times: int = 1
) -> Callable[[ActionContext], Awaitable[ActionResult]]:
    """Return the action that clicks with a button, some times in a row."""

    async def run_click(action: ActionContext) -> ActionResult:
        point, seen = await _move_onto(action)
        if seen.opens == "files":
            raise ToolError(
                f"{seen.what} opens the system's file chooser, which only the user could see. Nothing was "
                "clicked: use file_upload."
            )
        await action.aim_at(seen.what, point)
        # A click by ref needs no coordinates: the ref is surer.
        at = "" if not isinstance(action.given.ref, UnsetType) else f" at {action.format_point(point)}"
        is_whole, what = True, add_article(seen.what)
        async with action.run_input():
            is_whole = await action.pointer.click_at(point, button, times)
        if not is_whole and times > 1:
            return ActionResult(f"Clicked {what}{at}. {LEFT}", seen.what)
        opened = _describe_opened(seen) if button == "left" else ""
        return ActionResult(f"{verb} {what}{at}.{opened}", seen.what)

    return run_click


def _describe_opened(seen: PointedElement) -> str:
    if not seen.opens:
        return ""
    return (
        f" Its {seen.opens} are shown outside of the page, where screenshots do not see them: use form_input."
        if seen.opens == "colours"
        else " Its list opens outside of the page, where screenshots do not see it: use form_input."
    )


async def run_hover(action: ActionContext) -> ActionResult:
    """Move the pointer to an element or point."""
    point, seen = await _move_onto(action, also_disabled=True)
    return ActionResult(
        f"The pointer is on {add_article(seen.what)} at {action.format_point(point)}.", seen.what
    )


async def run_drag(action: ActionContext) -> ActionResult:
    """Drag from one point to another with the left button."""
    given = action.given
    if isinstance(given.coordinate, UnsetType):
        raise ToolError("left_click_drag needs coordinate: where it ends, in a screenshot's pixels.")
    end = action.to_viewport(given.coordinate)
    if isinstance(given.start_coordinate, list):
        start = action.to_viewport(given.start_coordinate)
    elif not isinstance(given.ref, UnsetType):
        start = await _shown_spot(action, await action.locate(given.ref))
    else:
        raise ToolError("left_click_drag needs start_coordinate, or ref for an element to be dragged.")
    await action.context.check_input(action.page)
    seen = await action.look_at(start)
    await action.look_at(end)
    await action.aim_at(seen.what, start, end)
    is_html = False
    try:
        async with action.run_input():
            is_html = await action.pointer.drag_to(start, end)
    except CallError as error:
        if not has_left(error):
            raise
        raise ToolError(f"The drag was not completed; nothing was dropped. {LEFT}") from None
    kind = "with its data, as HTML's drag and drop" if is_html else "with the button held"
    way = f"from {action.format_point(start)} to {action.format_point(end)}"
    said = f"Dragged {add_article(seen.what)} {way}, {kind}."
    try:
        over = await look_at(action.page, action.main, end)
    except CallError as error:
        if not has_left(error):
            raise
        return ActionResult(f"{said} {LEFT}", seen.what)
    return ActionResult(f"{said} At its end is now {add_article(over.what)}.", seen.what)


async def _shown_spot(action: ActionContext, located: LocatedElement) -> Point:
    spot = await action.pointer.locate_element(located.ref, located.frame)
    now = await view_of(action.page, action.main)
    if (now.left, now.top) != (action.view.left, action.view.top):
        raise ToolError(
            f"{spot.what} was not in view, so the page was scrolled to it, and the end of the drag would be "
            "another one now. Nothing was dragged. Take a screenshot and give both ends."
        )
    return spot.point


# ── Scrolling ───────────────────────────────────────────────────────────────────────────────────────────────

_WAYS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


async def run_scroll(action: ActionContext) -> ActionResult:
    """Scroll what is at a point, and report what moved."""
    given = action.given
    if isinstance(given.scroll_direction, UnsetType):
        raise ToolError("scroll needs scroll_direction: up, down, left or right.")
    ticks = DEFAULT_TICKS if isinstance(given.scroll_amount, UnsetType) else given.scroll_amount
    point, seen = await _scrolled_at(action)
    before = await _find_scrollers(action.page, seen)
    right, down = _WAYS[given.scroll_direction]
    await action.pointer.turn_wheel(point, right * ticks * TICK, down * ticks * TICK)
    said = await _what_scrolled(action.page, before, given.scroll_direction)
    return ActionResult(f"{said} The pointer is at {action.format_point(point)}.")


async def _scrolled_at(action: ActionContext) -> tuple[Point, PointedElement]:
    given = action.given
    if isinstance(given.ref, UnsetType) and isinstance(given.coordinate, UnsetType):
        await action.context.check_input(action.page)
        point = Point(action.view.width / 2, action.view.height / 2)
        await action.pointer.move_to(point)
        return point, await action.look_at(point)
    return await _move_onto(action, also_disabled=True)


Scrollers = list[tuple[Frame, list[dict[str, Any]]]]


async def _find_scrollers(page: Page, seen: PointedElement) -> Scrollers:
    """Return the scrollable elements around a point, the innermost first."""
    found: Scrollers = []
    for frame, at in reversed(seen.frames):
        answer = await page.call_script("scrollers", {"x": at.x, "y": at.y}, frame=frame)
        found.append((frame, answer["scrollers"]))
    return found


async def _what_scrolled(page: Page, before: Scrollers, way: str) -> str:
    side, most = ("top", "maxTop") if way in ("up", "down") else ("left", "maxLeft")
    for frame, earlier in before:
        known = [scroller["ref"] for scroller in earlier]
        answer = (
            await page.call_script("scrollers", {"refs": known}, frame=frame) if known else {"scrollers": []}
        )
        was = {scroller["ref"]: scroller for scroller in earlier}
        for now in answer["scrollers"]:
            moved = now[side] - was[now["ref"]][side]
            if moved:
                what = "the page" if now["isPage"] else add_article(in_words(now))
                return f"Scrolled {what} {way} by {abs(moved):.0f} px, to {now[side]:.0f} of {now[most]:.0f}."
    return f"Nothing scrolled {way}: what is there has come to its end, or does not scroll that way."


async def scroll_to(action: ActionContext) -> ActionResult:
    """Scroll an element into view."""
    if isinstance(action.given.ref, UnsetType):
        raise ToolError("scroll_to needs ref: an element, from read_page or find.")
    ref, frame = await action.locate(action.given.ref)
    found = await action.page.call_script("scrollTo", {"ref": ref.number}, frame=frame)
    lies = await action.page.placement_of(frame)
    point = Point(*lies.to_outside(found["x"], found["y"]))
    what = in_words(found)
    covered = f" {found['covered']} covers it." if found["covered"] else ""
    return ActionResult(f"The {what} is in view, at {action.format_point(point)}.{covered}", what)
