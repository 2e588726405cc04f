"""Input, output and context of one action of the `computer` tool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec import field as argument

from bridge.browser_tools.page.devtools import DialogError
from bridge.browser_tools.page.element_locator import ElementArgument, NamedElement
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.page.pointer import PointedElement, Pointer, look_at
from bridge.browser_tools.page.screenshots import Point, SeenScreenshots, Shot, View
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.located_element import LocatedElement, locate_element
from bridge.browser_tools.tool import MaybeTab, ToolInput
from bridge.browser_tools.tool_output import ToolOutput
from bridge.browser_tools.tools import gif_creator
from bridge.browser_tools.tools.page_changes import Difference

LEFT = "Then the tab left for another document, and the rest was not done. Look at it before you go on."
"""End of a sentence about an action that was interrupted."""


class Computer(ToolInput):
    """Input of `computer`."""

    action: Literal[
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
    ]
    tab_id: MaybeTab = argument(name="tabId", default=UNSET)
    coordinate: (
        Annotated[list[float], Meta(min_length=2, max_length=2, description="[x, y]; the end of a drag.")]
        | UnsetType
    ) = UNSET
    text: (
        Annotated[str, Meta(description="type: the text. key: keys, such as `ctrl+a Delete`.")] | UnsetType
    ) = UNSET
    duration: Annotated[float, Meta(ge=0, le=30, description="wait: seconds.")] | UnsetType = UNSET
    scroll_direction: Literal["up", "down", "left", "right"] | UnsetType = UNSET
    scroll_amount: Annotated[float, Meta(ge=1, le=10, description="Wheel clicks; default 3.")] | UnsetType = (
        UNSET
    )
    start_coordinate: (
        Annotated[list[float], Meta(min_length=2, max_length=2, description="left_click_drag: its start.")]
        | UnsetType
    ) = UNSET
    region: (
        Annotated[list[float], Meta(min_length=4, max_length=4, description="zoom: [x0, y0, x1, y1].")]
        | UnsetType
    ) = UNSET
    scale: (
        Annotated[float, Meta(ge=0.1, le=1, description="Smaller picture; coordinates stay.")] | UnsetType
    ) = UNSET
    repeat: Annotated[int, Meta(ge=1, le=100, description="key: times.")] | UnsetType = UNSET
    ref: (
        Annotated[
            ElementArgument,
            Meta(description='Element, instead of a coordinate: a ref, `button "Name"` or `css=…`.'),
        ]
        | UnsetType
    ) = UNSET
    modifiers: Annotated[str, Meta(description="Keys held, such as `ctrl+shift`.")] | UnsetType = UNSET
    difference: Difference = UNSET
    save_to_disk: Annotated[bool, Meta(description="Save the picture among the downloads.")] | UnsetType = (
        UNSET
    )


class TakenPicture(msgspec.Struct, rename="camel", kw_only=True):
    """A screenshot."""

    image_id: str
    uri: str
    mime_type: str
    width: int
    height: int
    path: str | None = None


class ComputerOutput(ToolOutput, kw_only=True):
    """The action and its target."""

    action: str
    tab_id: int
    target: str = ""
    picture: TakenPicture | None = None
    untrusted: tuple[str, ...] = ("target",)


@dataclass(frozen=True)
class ActionResult:
    """Effect of an action."""

    said: str
    target: str = ""
    shot: Shot | None = None


@dataclass
class ActionContext:
    """Page, view and input of an action."""

    given: Computer
    context: CallContext
    page: Page
    main: Frame
    view: View
    pointer: Pointer

    def to_viewport(self, coordinate: list[float]) -> Point:
        """Convert a point of a screenshot to the viewport.

        Raises:
            ToolError: it is outside, or the screenshot had another size.
        """
        self.context.state.state_of(SeenScreenshots).check_current(self.page, self.view)
        return self.view.point_at(coordinate)

    def format_point(self, point: Point) -> str:
        """Return a point in pixels of a screenshot, as text."""
        x, y = self.view.shown_at(point)
        return f"({x:.0f}, {y:.0f})"

    async def locate(self, given: str | int | NamedElement) -> LocatedElement:
        """Return the element that the call names. Raises as `locate_element`."""
        return await locate_element(self.context, self.page, given)

    async def look_at(self, point: Point) -> PointedElement:
        """Return the element at a point.

        Raises:
            ToolError: it belongs to a forbidden site, in a frame, or its site is unknown.
        """
        seen = await look_at(self.page, self.main, point)
        self.context.check_silent_frames(self.page)
        for frame, _ in seen.frames[1:]:
            self.context.check_frame(frame.origin)
        return seen

    async def aim_at(self, what: str, *points: Point) -> None:
        """Something is about to be done there: the recording shows it."""
        label = f"{self.given.action} {what}".strip()
        await gif_creator.before_action(self.context, self.page, label, *points)

    @asynccontextmanager
    async def run_input(self) -> AsyncIterator[None]:
        """Run an input; a dialog that it opens is reported, and the input counts as done.

        A file chooser would be the system's, in front of the user and out of reach: it is not shown.
        """
        await self.page.keep_choosers()
        try:
            yield
        except DialogError:
            if self.page.dialog is None:
                raise


def add_article(what: str) -> str:
    """Return the words for an element with an article; empty words mean that nothing is there."""
    return f"the {what}" if what else "nothing"
