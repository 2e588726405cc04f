"""Pointer: from an element or a point to trusted input: clicks, the wheel, drags.

All points are CSS pixels of the tab's viewport. An element is located again just before the press, because
pages move things when the pointer arrives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import trio
from msgspec import UnsetType

from bridge.browser_tools.page.bound_documents import has_left
from bridge.browser_tools.page.devtools import CommandError
from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.page.screenshots import Point
from bridge.browser_tools.tool_output import ToolError
from bridge.errors import CallError
from native_host.protocol import wire
from native_host.protocol.untrusted_text import quote

TRIES = 4
MAX_DEPTH = 8
DRAG_STEPS = 12
"""Moves between the two ends of a drag: elements below it receive events."""
DRAG_BEGINS = 6.0
"""Pixels from which a movement is a drag and not a click."""
MAX_NAME = 60
TICK = 100
"""CSS pixels of one click of a wheel, as on most systems."""

Button = Literal["left", "right"]
_BUTTON_BITS = {"none": 0, "left": 1, "right": 2}


@dataclass(frozen=True)
class PointedElement:
    """Element at a point."""

    what: str
    """For a sentence: `button “Save”`; empty: nothing."""
    frames: tuple[tuple[Frame, Point], ...]
    """The innermost frame last, each with the point in it."""
    opens: str = ""
    """Control that a click there opens outside of the page: list, files or colours."""
    is_meant: bool = False
    """A click there is one on the element that was meant."""


async def look_at(
    page: Page, frame: Frame, at: Point, meant: tuple[str, Ref] | None = None
) -> PointedElement:
    """Return the innermost element at a point. `meant`: a frame id, and the element wanted in it."""
    path: list[tuple[Frame, Point]] = []
    lies = await page.placement_of(frame)
    while True:
        path.append((frame, at))
        asked: dict[str, Any] = {"x": at.x, "y": at.y}
        if meant and meant[0] == frame.id:
            asked["ref"] = meant[1].number
        hit = await page.call_script("hit", asked, frame=frame)
        inner = await frame_of(page, frame, hit["ref"]) if hit["isFrame"] and len(path) < MAX_DEPTH else None
        if inner is None:
            break
        around, lies = lies, await page.placement_of(inner)
        at = Point(*lies.to_inside(*around.to_outside(*at)))
        frame = inner
    return PointedElement(in_words(hit), tuple(path), hit["opens"], hit["reached"])


async def frame_of(page: Page, frame: Frame, number: int) -> Frame | None:
    """Return the frame that an iframe element shows."""
    element = await page.evaluate(_element_expression(number), frame, by_value=False)
    if "objectId" not in element:
        return None
    described = await page.run_command(
        "DOM.describeNode", {"objectId": element["objectId"]}, session=frame.session
    )
    inner = described["node"].get("frameId")
    return next((each for each in await page.find_frames() if each.id == inner), None)


def _element_expression(number: int) -> str:
    return f"mcpb.element({json.dumps({'ref': number})})"


def in_words(found: dict[str, Any]) -> str:
    """Return an element's name for a sentence."""
    role, name = found.get("role", ""), found.get("name", "")
    return f"{role} {quote(name, MAX_NAME)}" if name else role


@dataclass(frozen=True)
class Spot:
    """Position of an element."""

    point: Point
    what: str


class Pointer:
    """The mouse in a tab, with modifier keys held (DevTools' bits)."""

    def __init__(self, page: Page, main: Frame, held: int = 0) -> None:
        self._page = page
        self._main = main
        self._held = held

    # ── On an element ───────────────────────────────────────────────────────────────────────────────────────

    async def move_onto(
        self, ref: Ref, frame: Frame, *, also_disabled: bool = False
    ) -> tuple[Spot, PointedElement]:
        """Bring an element of this frame into view and the pointer onto it, so that a press now is one on it.

        Raises:
            ToolError: it is gone, hidden, covered, disabled, or does not stand still. Nothing was pressed.
        """
        for _ in range(TRIES):
            spot = await self.locate_element(ref, frame, also_disabled=also_disabled)
            await self.move_to(spot.point)
            seen = await look_at(self._page, self._main, spot.point, (frame.id, ref))
            if seen.is_meant:
                return spot, seen
        instead = f"{seen.what} was" if seen.what else "nothing was"
        raise ToolError(
            f"{spot.what} ({ref}) does not stay where it is: when the pointer came, {instead} there. Nothing "
            "was pressed. Look at the page again (read_page or screenshot)."
        )

    async def locate_element(self, ref: Ref, frame: Frame, *, also_disabled: bool = True) -> Spot:
        """Return the position of an element, scrolled into view.

        Raises:
            ToolError: it is gone, hidden or covered.
        """
        if frame.number:
            await self._show_element(ref, frame)
        found = await self._page.call_script("place", {"ref": ref.number}, frame=frame)
        what = in_words(found)
        if not found["visible"]:
            raise ToolError(
                f"{what} ({ref}) is not shown: it has no size, or is hidden. Nothing was pressed."
            )
        if found["disabled"] and not also_disabled:
            raise ToolError(f"{what} ({ref}) is disabled. Nothing was pressed.")
        if found["covered"]:
            raise ToolError(
                f"{what} ({ref}) is covered by {found['covered']}, which would get the click. Nothing was "
                "pressed. Close that first, or click by coordinate if it is what you want."
            )
        lies = await self._page.placement_of(frame)
        return Spot(Point(*lies.to_outside(found["x"], found["y"])), what)

    async def _show_element(self, ref: Ref, frame: Frame) -> None:
        """Scroll the frames around it as well; until they are seen, their timers are slow."""
        element = await self._page.evaluate(_element_expression(ref.number), frame, by_value=False)
        if object_id := element.get("objectId"):
            with suppress(CommandError):  # it has no box: who places it says so
                params = {"objectId": object_id}
                await self._page.run_command("DOM.scrollIntoViewIfNeeded", params, session=frame.session)

    # ── Pressing ────────────────────────────────────────────────────────────────────────────────────────────

    async def move_to(self, to: Point) -> None:
        """Without a button."""
        await self._send_mouse("mouseMoved", to)

    async def click_at(self, at: Point, button: Button = "left", times: int = 1) -> bool:
        """Click where the pointer is already; return whether the tab showed the document to the end.

        Raises:
            CallError: it had left before the first press.
        """
        sent = 0
        try:
            with trio.CancelScope(shield=True):  # Release the button, also after a cancellation.
                for count in range(1, times + 1):
                    for kind in ("mousePressed", "mouseReleased"):
                        await self._send_mouse(kind, at, button, count)
                        sent += 1
        except CallError as error:
            if not has_left(error) or sent == 0:
                raise
            return False
        return True

    async def turn_wheel(self, at: Point, right: float, down: float) -> None:
        """Turn the wheel there; the page may go on moving when this returns."""
        await self._send_mouse("mouseWheel", at, deltaX=right, deltaY=down)

    async def drag_to(self, start: Point, end: Point) -> bool:
        """Drag with the left button; return whether it was an HTML drag, with data.

        The browser would pass such a drag to the system, whose pointer belongs to the user: DevTools
        intercept it.
        """
        with _collect_drag_data(self._page) as carried:
            await self._page.run_command("Input.setInterceptDrags", {"enabled": True})
            try:
                await self.move_to(start)
                await self._send_mouse("mousePressed", start, "left", 1)
                await self._drag_along(start, end, carried)
                await self._send_mouse("mouseReleased", end, "left", 1)
            except BaseException:  # Also after a cancellation.
                self._give_up_drag(start, carried)
                raise
            finally:
                self._page.begin_command("Input.setInterceptDrags", {"enabled": False})
            return bool(carried)

    def _give_up_drag(self, start: Point, carried: list[Any]) -> None:
        """Back where it began, nothing is dropped."""
        if carried:
            self._page.begin_command(
                "Input.dispatchDragEvent", self._drag_event("dragCancel", start, carried[0])
            )
        self._page.begin_command(
            "Input.dispatchMouseEvent", self._mouse_event("mouseReleased", start, "left", 1)
        )

    async def _drag_along(self, start: Point, end: Point, carried: list[Any]) -> None:
        entered = False
        for point in drag_points(start, end):
            if not carried:
                await self._send_mouse("mouseMoved", point, "left")
                await self._page.wait_events()
            if carried:
                await self._send_drag("dragOver" if entered else "dragEnter", point, carried[0])
                entered = True
        if carried:
            await self._send_drag("dragOver", end, carried[0])
            await self._send_drag("drop", end, carried[0])

    async def _send_drag(self, kind: str, at: Point, data: Any) -> None:
        await self._page.run_command("Input.dispatchDragEvent", self._drag_event(kind, at, data))

    def _drag_event(self, kind: str, at: Point, data: Any) -> dict[str, Any]:
        return {"type": kind, "x": at.x, "y": at.y, "data": data, "modifiers": self._held}

    async def _send_mouse(
        self, kind: str, at: Point, button: str = "none", count: int = 0, **more: float
    ) -> None:
        params = self._mouse_event(kind, at, button, count, **more)
        await self._page.run_command("Input.dispatchMouseEvent", params)

    def _mouse_event(
        self, kind: str, at: Point, button: str = "none", count: int = 0, **more: float
    ) -> dict[str, Any]:
        is_up = kind == "mouseReleased"
        return {
            "type": kind,
            "x": at.x,
            "y": at.y,
            "button": button,
            "buttons": 0 if is_up else _BUTTON_BITS[button],
            "clickCount": count,
            "modifiers": self._held,
            **more,
        }


def drag_points(start: Point, end: Point) -> list[Point]:
    """Return the points of a drag, its end included; the first is far enough to start it."""
    across, down = end.x - start.x, end.y - start.y
    far = max(abs(across), abs(down))
    first = min(1.0, DRAG_BEGINS / far) if far else 1.0
    shares = [first + (1 - first) * step / DRAG_STEPS for step in range(DRAG_STEPS + 1)]
    return [Point(start.x + across * share, start.y + down * share) for share in shares]


@contextmanager
def _collect_drag_data(page: Page) -> Iterator[list[Any]]:
    """Collect the data of a drag that begins meanwhile."""
    carried: list[Any] = []

    def on_event(event: wire.CdpEvent) -> None:
        if not isinstance(event.params, UnsetType):
            carried.append(msgspec.json.decode(event.params)["data"])

    page.add_listener(on_event, ("Input.dragIntercepted",))
    try:
        yield carried
    finally:
        page.remove_listener(on_event)
