"""`computer`: screenshots of a tab, and trusted input into it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

import trio
from msgspec import UnsetType

from bridge.browser_tools.files import downloads
from bridge.browser_tools.page import keyboard
from bridge.browser_tools.page.devtools import DialogError
from bridge.browser_tools.page.page import Page
from bridge.browser_tools.page.pointer import Pointer
from bridge.browser_tools.page.screenshots import (
    MAX_PART,
    Point,
    Rect,
    SeenScreenshots,
    Shot,
    View,
    take_close_up,
    take_screenshot,
    view_of,
)
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.tab_access import TabRef
from bridge.browser_tools.tool import Tool
from bridge.browser_tools.tool_output import Image, Link, ToolError, ToolResult
from bridge.browser_tools.tools import gif_creator, page_changes
from bridge.browser_tools.tools.computer_action import (
    ActionContext,
    ActionResult,
    Computer,
    ComputerOutput,
    TakenPicture,
)
from bridge.browser_tools.tools.keyboard_actions import press_keys, type_text
from bridge.browser_tools.tools.pointer_actions import make_click, run_drag, run_hover, run_scroll, scroll_to
from native_host.protocol import wire

LIMIT_S = 60.0


async def computer(given: Computer, context: CallContext) -> ToolResult:
    """Do it, wait for what it has begun, and tell what came of it."""
    place = await context.use_tab(given.tab_id)
    if given.action == "wait":
        return await _wait_seconds(given, context, place)
    page = context.page_of(place)
    async with page.in_hand:
        return await _run_action(given, context, place, page)


async def _run_action(given: Computer, context: CallContext, place: TabRef, page: Page) -> ToolResult:
    if page.dialog:
        return await _answer_dialog(given, context, page)
    if page.is_leaving and given.action == "key" and _pressed_keys(given) == {"Escape"}:
        return await _stop_loading(given, context, page)
    tabs = set(place.browser.tabs)
    action = await _prepare_action(given, context, page)
    shows_changes = given.difference is not False and given.action not in _LOOKS
    if shows_changes:
        await page_changes.remember_outline(context, page)
    result = await _ACTIONS[given.action](action)
    if result.shot is not None:
        return await _store_picture(action, result, result.shot)
    await action.page.wait_still()
    news = await _describe_effects(context, place, page, tabs)
    await gif_creator.after_action(context, page, f"{given.action} {result.target}".strip())
    answer = _make_result(given, page, f"{result.said}{news}", result.target)
    if shows_changes:
        answer = await page_changes.with_changes(context, page, answer)
    # A download begins a moment after its click: by now it has.
    await page.wait_downloads()
    answer.output.message += context.take_notes(page)
    return answer


def _make_result(given: Computer, page: Page, message: str, target: str = "") -> ToolResult:
    return ToolResult(ComputerOutput(message=message, action=given.action, tab_id=page.number, target=target))


async def _prepare_action(given: Computer, context: CallContext, page: Page) -> ActionContext:
    held = (
        keyboard.modifier_bits(keyboard.modifiers_in(given.modifiers))
        if isinstance(given.modifiers, str)
        else 0
    )
    main = await page.main_frame()
    context.check_here(main.origin)
    return ActionContext(given, context, page, main, await view_of(page, main), Pointer(page, main, held))


async def _describe_effects(context: CallContext, place: TabRef, page: Page, tabs: set[int]) -> str:
    """Describe the effects of an action, for the end of its sentence."""
    opened = await _new_tabs(context, place, tabs)
    news = context.take_notes(page)
    for tab in opened:
        number = context.show_tab(TabRef(place.browser, tab))
        news += f" It opened tab {number}, which is yours; your current tab is still {page.number}."
    return f"{news} {page.dialog}" if page.dialog else news


async def _new_tabs(context: CallContext, place: TabRef, known: set[int]) -> list[wire.Tab]:
    """Return the session's new tabs; loaded, unless that takes long."""

    def find_fresh() -> list[wire.Tab]:
        return [tab for tab in place.browser.tabs.values() if tab.tab_id not in known]

    def list_own() -> list[wire.Tab]:
        return [tab for tab in find_fresh() if tab.owner == context.session.id]

    await context.wait_condition(
        lambda: all(tab.owner for tab in find_fresh())
    )  # they are announced before they are anybody's
    await context.wait_condition(lambda: all(tab.status == "complete" for tab in list_own()))
    return list_own()


# ── Dialogs ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _answer_dialog(given: Computer, context: CallContext, page: Page) -> ToolResult:
    """While a dialog is open, keys and text are for it."""
    dialog = page.dialog
    assert dialog is not None
    text = given.text if isinstance(given.text, str) else ""
    if given.action == "type" and dialog.kind == "prompt":
        page.dialog = replace(dialog, text=text)
        return _make_result(
            given, page, "The text is in the prompt's field. key with text Return answers OK."
        )
    pressed = _pressed_keys(given) if given.action == "key" else set()
    if pressed not in ({"Enter"}, {"Escape"}):
        raise DialogError(dialog)
    accepts = pressed == {"Enter"}
    await page.answer_dialog(accept=accepts)
    await page.wait_settled()
    said = f"Answered the {dialog.kind} dialog with {'OK' if accepts else 'Cancel'}."
    news = context.take_notes(page)
    return _make_result(given, page, f"{said}{news}{f' {page.dialog}' if page.dialog else ''}")


def _pressed_keys(given: Computer) -> set[str]:
    """Return the pressed keys. Raises a ToolError for an unknown one."""
    text = given.text if isinstance(given.text, str) else ""
    return {chord.key.key for chord in keyboard.sequence_in(text)}


async def _stop_loading(given: Computer, context: CallContext, page: Page) -> ToolResult:
    """Stop loading like the browser's own Escape: a loading page cannot receive the key."""
    await page.run_command("Page.stopLoading")
    await page.wait_still()
    said = "Stopped the tab's way to another page; it stays on this one."
    return _make_result(given, page, f"{said}{context.take_notes(page)}")


# ── Pictures ────────────────────────────────────────────────────────────────────────────────────────────────


def _scale_of(action: ActionContext) -> float:
    return 1.0 if isinstance(action.given.scale, UnsetType) else action.given.scale


async def _take_screenshot(action: ActionContext) -> ActionResult:
    view, page = action.view, action.page
    # Also before: the page may remove a frame while the picture is on its way.
    await action.context.check_picture(page)
    shot = await take_screenshot(
        page, view, _scale_of(action), action.context.services.settings.screenshot_format
    )
    action.context.state.state_of(SeenScreenshots).add_screenshot(page, view)
    width, height = view.size
    said = f"Tab {page.number}, {width}x{height}: coordinates are pixels of it."
    if (shot.width, shot.height) != view.size:
        said += f" The picture is smaller ({shot.width}x{shot.height}), the coordinates are not."
    return ActionResult(said + _more_of_the_page(view), shot=shot)


def _more_of_the_page(view: View) -> str:
    whole = view.whole
    if view.contains_region(whole):
        return ""
    near = Rect(whole.left, whole.top, whole.right, min(whole.bottom, whole.top + MAX_PART))
    what = "it whole" if near == whole else "its beginning"
    return f" The page goes on beyond it: zoom with region {_region_of(view, near)} shows {what}."


def _region_of(view: View, part: Rect) -> str:
    """In a screenshot's pixels."""
    corners = (*view.shown_at(Point(part.left, part.top)), *view.shown_at(Point(part.right, part.bottom)))
    return f"[{', '.join(f'{value:.0f}' for value in corners)}]"


async def _zoom_region(action: ActionContext) -> ActionResult:
    region = action.given.region
    if isinstance(region, UnsetType):
        raise ToolError("zoom needs region: x0, y0, x1, y1 in the pixels of a screenshot.")
    action.context.state.state_of(SeenScreenshots).check_current(action.page, action.view)
    await action.context.check_picture(action.page)
    part = action.view.region_at(region)
    kind = action.context.services.settings.screenshot_format
    shot = await take_close_up(action.page, action.view, part, _scale_of(action), kind)
    said = (
        f"{_region_of(action.view, part)} of tab {action.page.number}, in {shot.width}x{shot.height} pixels. "
        "Coordinates stay those of the screenshot, not of this picture."
    )
    return ActionResult(said, shot=shot)


async def _store_picture(action: ActionContext, result: ActionResult, shot: Shot) -> ToolResult:
    """Return the result with the picture, stored for `upload_image` and for its link."""
    action.context.check_here((await action.page.main_frame()).origin)  # it may be a picture of another page
    await action.context.check_picture(action.page)
    picture = action.context.state.pictures.add_picture(shot.data, shot.mime_type)
    suffix = ".jpg" if shot.mime_type == "image/jpeg" else ".png"
    name = f"{action.given.action}-{datetime.now():%Y%m%d-%H%M%S}{suffix}"  # noqa: DTZ005 - the user's clock
    said = f"{result.said} Image id {picture.id}."
    taken = TakenPicture(
        image_id=picture.id, uri=picture.uri, mime_type=shot.mime_type, width=shot.width, height=shot.height
    )
    if action.given.save_to_disk is True:
        saved = await trio.to_thread.run_sync(
            downloads.save_file, shot.data, name, downloads.download_directory()
        )
        taken.path = str(saved)
        said += f" Saved as {saved}."
    said += action.context.take_notes(action.page)
    acted = ComputerOutput(message=said, action=action.given.action, tab_id=action.page.number, picture=taken)
    link = Link(picture.uri, name, shot.mime_type, len(shot.data))
    return ToolResult(acted, images=[Image(shot.data, shot.mime_type)], links=[link])


# ── Waiting ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _wait_seconds(given: Computer, context: CallContext, place: TabRef) -> ToolResult:
    """Wait without touching the page."""
    if isinstance(given.duration, UnsetType):
        raise ToolError("wait needs duration, in seconds (at most 30).")
    tab_id, tabs, number = place.tab.tab_id, place.browser.tabs, context.show_tab(place)
    until = trio.current_time() + given.duration
    if await context.services.news.wait_until(lambda: tab_id not in tabs, until=until):
        raise ToolError(f"Tab {number} was closed meanwhile. tabs_context lists your tabs.")
    acted = ComputerOutput(message=f"Waited {given.duration:g} s.", action="wait", tab_id=number)
    if page := context.state.pages.get((place.browser.host, tab_id)):
        acted.message += context.take_notes(page)
    return ToolResult(acted)


_LOOKS = ("screenshot", "zoom", "wait")


def _only_looks(given: Computer) -> bool:
    return given.action in _LOOKS and given.save_to_disk is not True


_ACTIONS: dict[str, Callable[[ActionContext], Awaitable[ActionResult]]] = {
    "left_click": make_click("Clicked"),
    "right_click": make_click("Right-clicked", "right"),
    "double_click": make_click("Double-clicked", times=2),
    "triple_click": make_click("Triple-clicked", times=3),
    "type": type_text,
    "screenshot": _take_screenshot,
    "scroll": run_scroll,
    "key": press_keys,
    "left_click_drag": run_drag,
    "zoom": _zoom_region,
    "scroll_to": scroll_to,
    "hover": run_hover,
}

TOOLS = (
    Tool(
        name="computer",
        title="Use the page",
        description=(
            "Mouse, keyboard and screenshots of a tab. A ref is surer than a coordinate: its "
            "element is scrolled into view, and not clicked if something covers it. Coordinates "
            "are pixels of the last screenshot. type writes where the focus is. key also answers "
            "the page's dialogs: Return for OK, Escape for Cancel."
        ),
        listed="core",
        input_type=Computer,
        output_type=ComputerOutput,
        run=computer,
        is_read_only_for=_only_looks,
        is_destructive=True,
        limit_s=LIMIT_S,
    ),
)
