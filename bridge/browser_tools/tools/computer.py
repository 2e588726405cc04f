"""`computer`: screenshots of a tab, and trusted input into it. One small function for each action."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import trio
from msgspec import UNSET, Meta, UnsetType
from msgspec import field as argument

from bridge.browser_tools.page import element_refs, keyboard
from bridge.browser_tools.page.bound_documents import has_left
from bridge.browser_tools.page.devtools import DialogError
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.page.pointer import MAX_DEPTH, TICK, Button, Pointer, Seen, frame_of, in_words, look
from bridge.browser_tools.page.screenshots import (
    MAX_PART,
    Point,
    Rect,
    Shot,
    Shown,
    View,
    close_up,
    screenshot,
    view_of,
)
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.clipboard import copy_selection, text_to_paste
from bridge.browser_tools.session.tab_access import TabRef
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import Image, Link, ToolError, ToolOutput, ToolResult
from bridge.browser_tools.tools import downloads, gif_creator, read_page
from bridge.errors import CallError
from native_host.protocol import wire

LIMIT_S = 60.0
MAX_PRESSES = 500
"""Of one `key`."""
MAX_KEYED = 500
"""Characters that `type` writes key by key: into editors, and where there is no field for text."""
DEFAULT_TICKS = 3.0

_LEFT = "Then the tab left for another document, and the rest was not done. Look at it before you go on."


class Computer(ToolInput):
    """What to do, and where."""

    always: ClassVar[tuple[str, ...]] = ("tabId",)
    action: Annotated[
        Literal[
            "left_click",
            "right_click",
            "type",
            "screenshot",
            "wait",
            "scroll",
            "key",
            "left_click_drag",
            "double_click",
            "triple_click",
            "zoom",
            "scroll_to",
            "hover",
        ],
        Meta(description="What to do."),
    ]
    tab_id: MaybeTab = argument(name="tabId", default=UNSET)
    coordinate: (
        Annotated[
            list[float],
            Meta(
                min_length=2,
                max_length=2,
                description="x, y in a screenshot's pixels: clicks, hover, scroll; the end of a drag.",
            ),
        ]
        | UnsetType
    ) = UNSET
    text: (
        Annotated[
            str, Meta(description="type: the text. key: keys with spaces between, such as `ctrl+a Delete`.")
        ]
        | UnsetType
    ) = UNSET
    duration: Annotated[float, Meta(ge=0, le=30, description="wait: seconds.")] | UnsetType = UNSET
    scroll_direction: (
        Annotated[Literal["up", "down", "left", "right"], Meta(description="scroll: which way.")] | UnsetType
    ) = UNSET
    scroll_amount: (
        Annotated[
            float, Meta(ge=1, le=10, description="scroll: clicks of the wheel, 100 px each. Default: 3.")
        ]
        | UnsetType
    ) = UNSET
    start_coordinate: (
        Annotated[
            list[float], Meta(min_length=2, max_length=2, description="left_click_drag: where it begins.")
        ]
        | UnsetType
    ) = UNSET
    region: (
        Annotated[
            list[float],
            Meta(
                min_length=4,
                max_length=4,
                description="zoom: x0, y0, x1, y1 in a screenshot's pixels; the page goes on beyond it.",
            ),
        ]
        | UnsetType
    ) = UNSET
    scale: (
        Annotated[
            float,
            Meta(
                ge=0.1,
                le=1,
                description="screenshot, zoom: a smaller picture. Coordinates stay those of scale 1.",
            ),
        ]
        | UnsetType
    ) = UNSET
    repeat: Annotated[int, Meta(ge=1, le=100, description="key: how often. Default: 1.")] | UnsetType = UNSET
    ref: (
        Annotated[
            str,
            Meta(description="An element (from read_page or find), instead of a point, or to be dragged."),
        ]
        | UnsetType
    ) = UNSET
    modifiers: (
        Annotated[str, Meta(description="Keys held meanwhile: ctrl, shift, alt, cmd, joined with +.")]
        | UnsetType
    ) = UNSET
    save_to_disk: (
        Annotated[
            bool,
            Meta(description="screenshot, zoom: also save it among the user's downloads, and say where."),
        ]
        | UnsetType
    ) = UNSET


class Taken(msgspec.Struct, rename="camel", kw_only=True):
    """A picture that was taken."""

    image_id: str
    uri: str
    mime_type: str
    width: int
    height: int
    path: str | None = None
    """Where it was saved."""


class Acted(ToolOutput, kw_only=True):
    """What was done."""

    action: str
    tab_id: int
    target: str = ""
    """What it was done to, in the page's words."""
    picture: Taken | None = None
    untrusted: tuple[str, ...] = ("target",)


@dataclass(frozen=True)
class ActionResult:
    """What an action has done."""

    said: str
    """A sentence."""
    target: str = ""
    shot: Shot | None = None


@dataclass
class ActionContext:
    """What an action works with."""

    given: Computer
    context: CallContext
    page: Page
    main: Frame
    view: View
    pointer: Pointer

    def at(self, coordinate: list[float]) -> Point:
        """A point that a model has seen in a screenshot, in the viewport.

        Raises:
            ToolError: it is outside, or the screenshot was of another size.
        """
        self.context.state.of(Shown).check(self.page, self.view)
        return self.view.point_at(coordinate)

    def told(self, point: Point) -> str:
        """A point in a screenshot's pixels."""
        x, y = self.view.shown_at(point)
        return f"({x:.0f}, {y:.0f})"

    async def frame(self, ref: element_refs.Ref) -> Frame:
        """The document that an element is in. Raises as `reading.frame_of`."""
        return await read_page.frame_of(self.context, self.page, ref)

    async def look(self, point: Point) -> Seen:
        """What is at a point.

        Raises:
            ToolError: it is of a site that may not be used, in a frame, or its site is not known.
        """
        seen = await look(self.page, self.main, point)
        self.context.check_silent_frames(self.page)
        for frame, _ in seen.frames[1:]:
            self.context.check_frame(frame.origin)
        return seen

    async def aim(self, what: str, *points: Point) -> None:
        """Something is about to be done there: the recording shows it."""
        label = f"{self.given.action} {what}".strip()
        await gif_creator.before_action(self.context, self.page, label, *points)

    @asynccontextmanager
    async def input(self) -> AsyncIterator[None]:
        """What is pressed here may open a dialog, which is then told of: the input has arrived.

        A file chooser would be the system's, in front of the user and out of our reach: it is not shown.
        """
        await self.page.keep_choosers()
        try:
            yield
        except DialogError:
            if self.page.dialog is None:
                raise


async def computer(given: Computer, context: CallContext) -> ToolResult:
    """Do it, wait for what it has begun, and tell what came of it."""
    place = await context.place(given.tab_id)
    if given.action == "wait":
        return await _wait(given, context, place)
    page = context.page_of(place)
    async with page.in_hand:
        return await _act(given, context, place, page)


async def _act(given: Computer, context: CallContext, place: TabRef, page: Page) -> ToolResult:
    if page.dialog:
        return await _answer_dialog(given, context, page)
    if page.is_leaving and given.action == "key" and _pressed(given) == {"Escape"}:
        return await _stop(given, context, page)
    tabs = set(place.browser.tabs)
    action = await _prepare_action(given, context, page)
    result = await _ACTIONS[given.action](action)
    if result.shot is not None:
        return await _shown(action, result, result.shot)
    await action.page.rest()
    news = await _news(context, place, page, tabs)
    await gif_creator.after_action(context, page, f"{given.action} {result.target}".strip())
    return _answer(given, page, f"{result.said}{news}", result.target)


def _answer(given: Computer, page: Page, message: str, target: str = "") -> ToolResult:
    return ToolResult(Acted(message=message, action=given.action, tab_id=page.tab_id, target=target))


async def _prepare_action(given: Computer, context: CallContext, page: Page) -> ActionContext:
    held = keyboard.bits(keyboard.modifiers_in(given.modifiers)) if isinstance(given.modifiers, str) else 0
    main = await page.main()
    context.check_here(main.origin)
    return ActionContext(given, context, page, main, await view_of(page, main), Pointer(page, main, held))


async def _news(context: CallContext, place: TabRef, page: Page, tabs: set[int]) -> str:
    """What has come of an action, for the end of its sentence."""
    news = context.take_notes(page)
    for tab in await _new_tabs(context, place, tabs):
        news += f" It opened tab {tab.tab_id}, which is yours; your current tab is still {page.tab_id}."
    return f"{news} {page.dialog}" if page.dialog else news


async def _new_tabs(context: CallContext, place: TabRef, known: set[int]) -> list[wire.Tab]:
    """The session's tabs that were not there before; loaded, unless that takes long."""

    def fresh() -> list[wire.Tab]:
        return [tab for tab in place.browser.tabs.values() if tab.tab_id not in known]

    def own() -> list[wire.Tab]:
        return [tab for tab in fresh() if tab.owner == context.session.id]

    await context.seen(
        lambda: all(tab.owner for tab in fresh())
    )  # they are announced before they are anybody's
    await context.seen(lambda: all(tab.status == "complete" for tab in own()))
    return own()


# ── Dialogs ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _answer_dialog(given: Computer, context: CallContext, page: Page) -> ToolResult:
    """While a dialog is open, keys and text are for it."""
    dialog = page.dialog
    assert dialog is not None
    text = given.text if isinstance(given.text, str) else ""
    if given.action == "type" and dialog.kind == "prompt":
        page.dialog = replace(dialog, text=text)
        return _answer(given, page, "The text is in the prompt's field. key with text Return answers OK.")
    pressed = _pressed(given) if given.action == "key" else set()
    if pressed not in ({"Enter"}, {"Escape"}):
        raise DialogError(dialog)
    accepts = pressed == {"Enter"}
    await page.answer_dialog(accept=accepts)
    await page.settle()
    said = f"Answered the {dialog.kind} dialog with {'OK' if accepts else 'Cancel'}."
    news = context.take_notes(page)
    return _answer(given, page, f"{said}{news}{f' {page.dialog}' if page.dialog else ''}")


def _pressed(given: Computer) -> set[str]:
    """Raises a ToolError if something is no key."""
    text = given.text if isinstance(given.text, str) else ""
    return {chord.key.key for chord in keyboard.sequence_in(text)}


async def _stop(given: Computer, context: CallContext, page: Page) -> ToolResult:
    """As the browser's own Escape: a page that waits for the next one cannot be told of the key."""
    await page.command("Page.stopLoading")
    await page.rest()
    said = "Stopped the tab's way to another page; it stays on this one."
    return _answer(given, page, f"{said}{context.take_notes(page)}")


# ── Pictures ────────────────────────────────────────────────────────────────────────────────────────────────


def _scale(action: ActionContext) -> float:
    return 1.0 if isinstance(action.given.scale, UnsetType) else action.given.scale


async def _screenshot(action: ActionContext) -> ActionResult:
    view, page = action.view, action.page
    # Also before: the page may remove a frame while the picture is on its way.
    await action.context.check_picture(page)
    shot = await screenshot(page, view, _scale(action), action.context.services.settings.screenshot_format)
    action.context.state.of(Shown).note(page, view)
    width, height = view.size
    said = f"Tab {page.tab_id}, {width}x{height}: coordinates are pixels of it."
    if (shot.width, shot.height) != view.size:
        said += f" The picture is smaller ({shot.width}x{shot.height}), the coordinates are not."
    return ActionResult(said + _more_of_the_page(view), shot=shot)


def _more_of_the_page(view: View) -> str:
    whole = view.whole
    if view.shows(whole):
        return ""
    near = Rect(whole.left, whole.top, whole.right, min(whole.bottom, whole.top + MAX_PART))
    what = "it whole" if near == whole else "its beginning"
    return f" The page goes on beyond it: zoom with region {_region(view, near)} shows {what}."


def _region(view: View, part: Rect) -> str:
    """In a screenshot's pixels."""
    corners = (*view.shown_at(Point(part.left, part.top)), *view.shown_at(Point(part.right, part.bottom)))
    return f"[{', '.join(f'{value:.0f}' for value in corners)}]"


async def _zoom(action: ActionContext) -> ActionResult:
    region = action.given.region
    if isinstance(region, UnsetType):
        raise ToolError("zoom needs region: x0, y0, x1, y1 in the pixels of a screenshot.")
    action.context.state.of(Shown).check(action.page, action.view)
    await action.context.check_picture(action.page)
    part = action.view.part(region)
    kind = action.context.services.settings.screenshot_format
    shot = await close_up(action.page, action.view, part, _scale(action), kind)
    said = (
        f"{_region(action.view, part)} of tab {action.page.tab_id}, in {shot.width}x{shot.height} pixels. "
        "Coordinates stay those of the screenshot, not of this picture."
    )
    return ActionResult(said, shot=shot)


async def _shown(action: ActionContext, result: ActionResult, shot: Shot) -> ToolResult:
    """With the picture, kept for `upload_image` and for reading it by its link."""
    action.context.check_here((await action.page.main()).origin)  # it may be a picture of another page
    await action.context.check_picture(action.page)
    picture = action.context.state.pictures.keep(shot.data, shot.mime_type)
    suffix = ".jpg" if shot.mime_type == "image/jpeg" else ".png"
    name = f"{action.given.action}-{datetime.now():%Y%m%d-%H%M%S}{suffix}"  # noqa: DTZ005 - the person's clock
    said = f"{result.said} Image id {picture.id}."
    taken = Taken(
        image_id=picture.id,
        uri=picture.uri,
        mime_type=shot.mime_type,
        width=shot.width,
        height=shot.height,
    )
    if action.given.save_to_disk is True:
        saved = await trio.to_thread.run_sync(downloads.save, shot.data, name, downloads.downloads())
        taken.path = str(saved)
        said += f" Saved as {saved}."
    said += action.context.take_notes(action.page)
    acted = Acted(message=said, action=action.given.action, tab_id=action.page.tab_id, picture=taken)
    link = Link(picture.uri, name, shot.mime_type, len(shot.data))
    return ToolResult(acted, images=[Image(shot.data, shot.mime_type)], links=[link])


# ── The pointer ─────────────────────────────────────────────────────────────────────────────────────────────


async def _onto(action: ActionContext, *, also_disabled: bool = False) -> tuple[Point, Seen]:
    """The pointer on what is meant, by ref or coordinate, and what is there."""
    await action.context.check_input(action.page)
    given = action.given
    if isinstance(given.ref, str):
        ref = element_refs.read(given.ref)
        spot, seen = await action.pointer.onto(ref, await action.frame(ref), also_disabled=also_disabled)
        return spot.point, seen
    if isinstance(given.coordinate, UnsetType):
        raise ToolError(
            f"{given.action} needs coordinate (x, y in a screenshot's pixels) or ref (an element)."
        )
    point = action.at(given.coordinate)
    await action.pointer.move(point)
    return point, await action.look(point)


def _click(
    verb: str, button: Button = "left", times: int = 1
) -> Callable[[ActionContext], Awaitable[ActionResult]]:
    async def click(action: ActionContext) -> ActionResult:
        point, seen = await _onto(action)
        if seen.opens == "files":
            raise ToolError(
                f"{seen.what} opens the system's file chooser, which only the user could see. Nothing was "
                "clicked: use file_upload."
            )
        await action.aim(seen.what, point)
        is_whole = True
        async with action.input():
            is_whole = await action.pointer.click(point, button, times)
        if not is_whole and times > 1:
            return ActionResult(f"Clicked {_the(seen.what)} at {action.told(point)}. {_LEFT}", seen.what)
        said = f"{verb} {_the(seen.what)} at {action.told(point)}.{_opened(seen) if button == 'left' else ''}"
        return ActionResult(said, seen.what)

    return click


def _the(what: str) -> str:
    return f"the {what}" if what else "nothing"


def _opened(seen: Seen) -> str:
    if not seen.opens:
        return ""
    return (
        f" Its {seen.opens} are shown outside of the page, where screenshots do not see them: use form_input."
        if seen.opens == "colours"
        else " Its list opens outside of the page, where screenshots do not see it: use form_input."
    )


async def _hover(action: ActionContext) -> ActionResult:
    point, seen = await _onto(action, also_disabled=True)
    return ActionResult(f"The pointer is on {_the(seen.what)} at {action.told(point)}.", seen.what)


async def _drag(action: ActionContext) -> ActionResult:
    given = action.given
    if isinstance(given.coordinate, UnsetType):
        raise ToolError("left_click_drag needs coordinate: where it ends, in a screenshot's pixels.")
    end = action.at(given.coordinate)
    if isinstance(given.start_coordinate, list):
        start = action.at(given.start_coordinate)
    elif isinstance(given.ref, str):
        start = await _shown_spot(action, element_refs.read(given.ref))
    else:
        raise ToolError("left_click_drag needs start_coordinate, or ref for an element to be dragged.")
    await action.context.check_input(action.page)
    seen = await action.look(start)
    await action.look(end)
    await action.aim(seen.what, start, end)
    is_html = False
    try:
        async with action.input():
            is_html = await action.pointer.drag(start, end)
    except CallError as error:
        if not has_left(error):
            raise
        raise ToolError(f"The drag was not completed; nothing was dropped. {_LEFT}") from None
    kind = "with its data, as HTML's drag and drop" if is_html else "with the button held"
    said = f"Dragged {_the(seen.what)} from {action.told(start)} to {action.told(end)}, {kind}."
    try:
        over = await look(action.page, action.main, end)
    except CallError as error:
        if not has_left(error):
            raise
        return ActionResult(f"{said} {_LEFT}", seen.what)
    return ActionResult(f"{said} At its end is now {_the(over.what)}.", seen.what)


async def _shown_spot(action: ActionContext, ref: element_refs.Ref) -> Point:
    spot = await action.pointer.spot(ref, await action.frame(ref))
    now = await view_of(action.page, action.main)
    if (now.left, now.top) != (action.view.left, action.view.top):
        raise ToolError(
            f"{spot.what} was not in view, so the page was scrolled to it, and the end of the drag would be "
            "another one now. Nothing was dragged. Take a screenshot and give both ends."
        )
    return spot.point


# ── Scrolling ───────────────────────────────────────────────────────────────────────────────────────────────

_WAYS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


async def _scroll(action: ActionContext) -> ActionResult:
    given = action.given
    if isinstance(given.scroll_direction, UnsetType):
        raise ToolError("scroll needs scroll_direction: up, down, left or right.")
    ticks = DEFAULT_TICKS if isinstance(given.scroll_amount, UnsetType) else given.scroll_amount
    point, seen = await _scrolled_at(action)
    before = await _scrollers(action.page, seen)
    right, down = _WAYS[given.scroll_direction]
    await action.pointer.wheel(point, right * ticks * TICK, down * ticks * TICK)
    said = await _what_scrolled(action.page, before, given.scroll_direction)
    return ActionResult(f"{said} The pointer is at {action.told(point)}.")


async def _scrolled_at(action: ActionContext) -> tuple[Point, Seen]:
    given = action.given
    if isinstance(given.ref, UnsetType) and isinstance(given.coordinate, UnsetType):
        await action.context.check_input(action.page)
        point = Point(action.view.width / 2, action.view.height / 2)
        await action.pointer.move(point)
        return point, await action.look(point)
    return await _onto(action, also_disabled=True)


Scrollers = list[tuple[Frame, list[dict[str, Any]]]]


async def _scrollers(page: Page, seen: Seen) -> Scrollers:
    """What scrolls around a point, the innermost first."""
    found: Scrollers = []
    for frame, at in reversed(seen.frames):
        answer = await page.call("scrollers", {"x": at.x, "y": at.y}, frame=frame)
        found.append((frame, answer["scrollers"]))
    return found


async def _what_scrolled(page: Page, before: Scrollers, way: str) -> str:
    side, most = ("top", "maxTop") if way in ("up", "down") else ("left", "maxLeft")
    for frame, earlier in before:
        known = [scroller["ref"] for scroller in earlier]
        answer = await page.call("scrollers", {"refs": known}, frame=frame) if known else {"scrollers": []}
        was = {scroller["ref"]: scroller for scroller in earlier}
        for now in answer["scrollers"]:
            moved = now[side] - was[now["ref"]][side]
            if moved:
                what = "the page" if now["isPage"] else _the(in_words(now))
                return f"Scrolled {what} {way} by {abs(moved):.0f} px, to {now[side]:.0f} of {now[most]:.0f}."
    return f"Nothing scrolled {way}: what is there has come to its end, or does not scroll that way."


async def _scroll_to(action: ActionContext) -> ActionResult:
    if isinstance(action.given.ref, UnsetType):
        raise ToolError("scroll_to needs ref: an element, from read_page or find.")
    ref = element_refs.read(action.given.ref)
    frame = await action.frame(ref)
    found = await action.page.call("scrollTo", {"ref": ref.number}, frame=frame)
    lies = await action.page.placement(frame)
    point = Point(*lies.outward(found["x"], found["y"]))
    what = in_words(found)
    covered = f" {found['covered']} covers it." if found["covered"] else ""
    return ActionResult(f"The {what} is in view, at {action.told(point)}.{covered}", what)


# ── The keyboard ────────────────────────────────────────────────────────────────────────────────────────────


async def _key(action: ActionContext) -> ActionResult:
    text = action.given.text if isinstance(action.given.text, str) else ""
    chords = keyboard.sequence_in(text)
    times = 1 if isinstance(action.given.repeat, UnsetType) else action.given.repeat
    if len(chords) * times > MAX_PRESSES:
        raise ToolError(
            f"That are {len(chords) * times} keys; {MAX_PRESSES} in one call are the most. None was pressed."
        )
    first = next((chord for chord in chords if keyboard.is_copy(chord) or keyboard.is_paste(chord)), None)
    if first and keyboard.is_paste(first):
        text_to_paste(action.context)  # before the keys that come before it are pressed
    await _focused(action)
    notes: dict[str, str] = {}
    pressed = 0
    async with action.input():
        pressed = await _press_sequence(action, chords * times, notes)
    often = f", {times} times" if times > 1 else ""
    if 0 < pressed < len(chords) * times:
        return ActionResult(
            " ".join([f"Pressed {pressed} of {len(chords) * times} keys.", *notes.values(), _LEFT]), text
        )
    said = f"Pressed {' '.join(text.split()) or 'space'}{often}.{keyboard.browsers_own(chords)}"
    return ActionResult(" ".join([said, *notes.values()]), text)


async def _paste(action: ActionContext, pressed: int) -> str:
    """Insert what this session copied; the key itself would insert the user's clipboard.

    Raises:
        ToolError: there is no text or no field for it. So many keys of the sequence were pressed before.
    """
    before = f" The {pressed} keys before it were pressed." if pressed else ""
    try:
        text = text_to_paste(action.context)
    except ToolError as error:
        raise ToolError(f"{error}{before}") from None
    _, focus = await _focused(action)
    if not focus["editable"]:
        raise ToolError(
            f"No field for text has the focus, so nothing was pasted. Click the field first.{before}"
        )
    await action.page.command("Input.insertText", {"text": text})
    return f"Pasted the {len(text)} characters that you copied."


async def _press_sequence(action: ActionContext, chords: list[keyboard.Chord], notes: dict[str, str]) -> int:
    """Press keys until the tab leaves its document; return how many were pressed.

    `notes` takes sentences about what was copied and pasted.

    Raises:
        CallError: it had left before the first.
    """
    for pressed, chord in enumerate(chords):
        is_there = True
        try:
            await _check_input(action, f"The {pressed} keys before it were pressed.")
            if keyboard.is_paste(chord):
                notes["paste"] = await _paste(action, pressed)
                continue
            if keyboard.is_copy(chord):
                frame, _ = await _focused(action)
                notes["copy"] = await copy_selection(action.context, action.page, action.main, frame)
            is_there = await _press_chord(action.page, chord)
        except CallError as error:
            if not has_left(error) or pressed == 0:
                raise
            return pressed
        if not is_there:
            return pressed + 1
    return len(chords)


async def _press_chord(page: Page, chord: keyboard.Chord) -> bool:
    """Press and release; return whether the tab still shows the document then."""
    events = list(keyboard.events(chord))
    with trio.CancelScope(shield=True):  # what is down goes up, also if nobody waits any more
        for sent, event in enumerate(events):
            try:
                await page.command("Input.dispatchKeyEvent", event)
            except CallError as error:
                if has_left(error) and sent >= len(events) // 2:  # the first half goes down
                    return False
                raise
    return True


async def _type(action: ActionContext) -> ActionResult:
    if not isinstance(action.given.text, str) or not action.given.text:
        raise ToolError("type needs text. To empty a field, use form_input with the value “”.")
    text = action.given.text.replace("\r\n", "\n")
    _, focus = await _focused(action)
    what, is_field = in_words(focus), focus["editable"]
    if not is_field and len(text) > MAX_KEYED:
        raise ToolError(
            f"No field for text has the focus, and {len(text)} characters are too many to be pressed one by "
            f"one ({MAX_KEYED} are the most). Nothing was typed. Click the field first."
        )
    async with action.input():
        # Editors make lists and menus of what is written, as it is written; dates have parts.
        by_key = not is_field or (focus["takesKeys"] and len(text) <= MAX_KEYED)
        typed = await _type_parts(action, keyboard.parts_of(text, by_key=by_key))
        if typed < len(text):
            return ActionResult(f"Typed {typed} of {len(text)} characters into {_the(what)}. {_LEFT}", what)
    count = f"{len(text)} character{'s' * (len(text) != 1)}"
    if is_field:
        return ActionResult(f"Typed {count} into {_the(what)}.", what)
    why = f"The {what} has the focus and is no field for text" if what else "Nothing has the focus"
    return ActionResult(f"Pressed the keys of {count}. {why}: the page got key presses.", what)


async def _type_parts(action: ActionContext, parts: Iterable[str | keyboard.Chord]) -> int:
    """Type until the tab leaves its document; return the number of characters.

    Raises:
        CallError: it had left before the first.
    """
    typed = 0
    for part in parts:
        try:
            await _check_input(action, f"The {typed} characters before it were typed.")
            if isinstance(part, str):
                await action.page.command("Input.insertText", {"text": part})
            else:
                await _press_chord(action.page, part)
        except CallError as error:
            if not has_left(error) or typed == 0:
                raise
            break
        typed += len(part) if isinstance(part, str) else 1
    return typed


async def _focused(action: ActionContext) -> tuple[Frame, dict[str, Any]]:
    """The frame that has the focus, and what `focusInfo` says of what has it there.

    Raises:
        ToolError: it is in a frame of a site that may not be used.
    """
    frame = action.main
    for _ in range(MAX_DEPTH):
        found: dict[str, Any] = await action.page.call("focusInfo", frame=frame)
        inner = await frame_of(action.page, frame, found["ref"]) if found["isFrame"] else None
        if inner is None:
            break
        action.context.check_frame(inner.origin)
        frame = inner
    return frame, found


async def _check_input(action: ActionContext, before: str) -> None:
    """Check that the next key is for a page that may be used: keys and the page itself move the focus.

    Raises:
        ToolError: it may be for a frame of a site that may not be used; `before` says what was done.
    """
    try:
        await action.context.check_input(action.page)
    except ToolError as error:
        raise ToolError(f"{error} {before}") from None


# ── Waiting ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _wait(given: Computer, context: CallContext, place: TabRef) -> ToolResult:
    """The page is left alone meanwhile."""
    if isinstance(given.duration, UnsetType):
        raise ToolError("wait needs duration, in seconds (at most 30).")
    tab_id, tabs = place.tab.tab_id, place.browser.tabs
    until = trio.current_time() + given.duration
    if await context.services.news.wait_until(lambda: tab_id not in tabs, until=until):
        raise ToolError(f"Tab {tab_id} was closed meanwhile. tabs_context_mcp lists your tabs.")
    acted = Acted(message=f"Waited {given.duration:g} s.", action="wait", tab_id=tab_id)
    if page := context.state.pages.get((place.browser.host, tab_id)):
        acted.message += context.take_notes(page)
    return ToolResult(acted)


def _only_looks(given: Computer) -> bool:
    return given.action in ("screenshot", "zoom", "wait") and given.save_to_disk is not True


_ACTIONS: dict[str, Callable[[ActionContext], Awaitable[ActionResult]]] = {
    "left_click": _click("Clicked"),
    "right_click": _click("Right-clicked", "right"),
    "double_click": _click("Double-clicked", times=2),
    "triple_click": _click("Triple-clicked", times=3),
    "type": _type,
    "screenshot": _screenshot,
    "scroll": _scroll,
    "key": _key,
    "left_click_drag": _drag,
    "zoom": _zoom,
    "scroll_to": _scroll_to,
    "hover": _hover,
}

TOOLS = (
    Tool(
        name="computer",
        title="Use the page",
        description=(
            "Sees a tab and acts on it as a person does: screenshot, clicks, typing, keys, scrolling, drags, "
            "waiting. Points are pixels of the screenshot, so take one first; a ref of read_page or find is "
            "surer, because the element is scrolled to, and not clicked if something covers it. type goes to "
            "what has the focus (click that first); a line break in it is the Enter key, a tab the Tab key. "
            "key presses keys (`Return`, `ctrl+a`, `Tab Tab space`) and answers the page's dialogs: Return "
            "for OK, Escape for Cancel. Paste keys insert what you copied with ctrl+c or ctrl+x, never the "
            "user's clipboard. For drop-down lists, dates and colours use form_input."
        ),
        input_type=Computer,
        output_type=Acted,
        run=computer,
        is_read_only_for=_only_looks,
        is_destructive=True,
        limit_s=LIMIT_S,
    ),
)
