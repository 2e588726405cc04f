"""Screenshots, and the coordinates that models use: pixels of the picture of the whole viewport.

A viewport above the limit is scaled down by a factor that depends on its size alone. So a coordinate stays
valid if the picture was requested smaller, in another format, or on a screen with finer pixels.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

import trio

from bridge.browser_tools.page.devtools import Params
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.tool_output import ToolError

MAX_EDGE = 1568
"""Pixels of a picture's longer edge: what is longer, models are shown scaled down."""
MAX_PIXELS = 1_150_000
MAX_BYTES = 3 * 1024 * 1024
"""Bytes of a picture: a larger PNG becomes a JPEG."""
MAX_PART = 20_000
"""CSS pixels of the longer edge of what is captured at once: the browser has to draw all of it."""
MAX_ENLARGED = 4.0
"""Largest enlargement of `zoom` relative to a screenshot."""
QUALITY = 80
CAPTURE_S = 20.0
BAR_S = 0.6
"""Seconds from the first command to the browser's debugger bar; measured: 0.2 to 0.4 s."""

Format = Literal["jpeg", "png"]

_VIEW = """[innerWidth, innerHeight, devicePixelRatio, visualViewport.pageLeft, visualViewport.pageTop,
    document.scrollingElement?.scrollWidth ?? innerWidth,
    document.scrollingElement?.scrollHeight ?? innerHeight, visualViewport.scale]"""

_RESIZED = """new Promise((resolve) => {
    addEventListener("resize", resolve, { once: true });
    setTimeout(resolve, %d);
}).then(() => true)"""


class Point(NamedTuple):
    """A point in CSS pixels of the tab's viewport, or in pixels of a screenshot."""

    x: float
    y: float


class Rect(NamedTuple):
    """A part of a page, in the same."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """From left to right."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """From top to bottom."""
        return self.bottom - self.top


def scale_to_limits(width: float, height: float) -> float:
    """Return the factor that scales a picture to the limits; at most 1."""
    return min(1.0, MAX_EDGE / max(width, height, 1), math.sqrt(MAX_PIXELS / max(width * height, 1)))


@dataclass(frozen=True)
class View:
    """Viewport of a tab, in CSS pixels."""

    width: int
    height: int
    ratio: float
    """The screen's pixels for each of them, with the browser's zoom."""
    left: float
    top: float
    page_width: float
    page_height: float
    pinch: float
    """Enlargement by two fingers; 1: none."""

    @property
    def factor(self) -> float:
        """A screenshot's pixels for each CSS pixel."""
        return scale_to_limits(self.width, self.height)

    @property
    def size(self) -> tuple[int, int]:
        """Size of a screenshot."""
        return max(1, round(self.width * self.factor)), max(1, round(self.height * self.factor))

    def point_at(self, coordinate: list[float]) -> Point:
        """Convert a point of the screenshot to the viewport.

        Raises:
            ToolError: it is outside.
        """
        x, y = coordinate
        width, height = self.size
        if not (0 <= x <= width and 0 <= y <= height):
            raise ToolError(
                f"({x:g}, {y:g}) is outside the screenshot, which is {width}x{height}: nothing was done. "
                "Scroll there first, or take a screenshot and point at what it shows."
            )
        return Point(min(x / self.factor, self.width - 0.5), min(y / self.factor, self.height - 0.5))

    def shown_at(self, point: Point) -> Point:
        """Convert a point of the viewport to the screenshot."""
        return Point(point.x * self.factor, point.y * self.factor)

    def region_at(self, region: list[float]) -> Rect:
        """Convert a region of the screenshot to the viewport, or to the page around it.

        Raises:
            ToolError: the region has no part of the page, or is too large.
        """
        left, top, right, bottom = (value / self.factor for value in region)
        whole = self.whole
        part = Rect(
            max(left, whole.left), max(top, whole.top), min(right, whole.right), min(bottom, whole.bottom)
        )
        if part.width < 1 or part.height < 1:
            width, height = self.size
            raise ToolError(
                "That region has nothing of the page in it. It is x0, y0, x1, y1 with x0 < x1 and y0 < y1, "
                f"in pixels of a screenshot, which is {width}x{height}; the page goes on beyond its edges."
            )
        if max(part.width, part.height) > MAX_PART + 1:
            raise ToolError(
                f"That region is too long for one picture: {MAX_PART * self.factor:.0f} pixels are the most. "
                "Take the page in parts."
            )
        return part

    @property
    def whole(self) -> Rect:
        """The page, counted from the viewport's corner."""
        return Rect(
            -self.left,
            -self.top,
            max(self.page_width - self.left, self.width),
            max(self.page_height - self.top, self.height),
        )

    def contains_region(self, part: Rect) -> bool:
        """Return whether all of it is in the viewport."""
        return part.left >= 0 and part.top >= 0 and part.right <= self.width and part.bottom <= self.height

    def is_as_shown(self, part: Rect, enlarged: float) -> bool:
        """Return whether a picture is what the screen shows, pixel for pixel."""
        return part == Rect(0, 0, self.width, self.height) and enlarged == self.ratio and self.pinch == 1


class Shot(NamedTuple):
    """A picture of a page."""

    data: bytes
    mime_type: str
    width: int
    height: int


@dataclass
class SeenScreenshots:
    """Screenshots that a session has seen: a point in an older one may be outdated."""

    sizes: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Size of the last screenshot of each tab, by native host and tab."""

    def add_screenshot(self, page: Page, view: View) -> None:
        """Record a screenshot."""
        self.sizes[page.host, page.tab_id] = view.size

    def check_current(self, page: Page, view: View) -> None:
        """Its last screenshot is of a viewport of this size; or it has none.

        Raises:
            ToolError: it is not, so that its coordinates mean nothing now.
        """
        seen = self.sizes.get((page.host, page.tab_id), view.size)
        if seen == view.size:
            return
        raise ToolError(
            f"The tab shows {view.size[0]}x{view.size[1]} pixels now, and your last screenshot of it has "
            f"{seen[0]}x{seen[1]}: nothing was done. Take another screenshot and point at what it shows."
        )


async def view_of(page: Page, main: Frame) -> View:
    """Return the current view of a tab.

    The browser's debugger bar appears a moment after attaching and reduces the height: an earlier screenshot
    would have another size, and its coordinates would be wrong.
    """
    until_bar = page.begun_at + BAR_S - trio.current_time()
    if page.is_shown and until_bar > 0:
        await page.evaluate(_RESIZED % (until_bar * 1000), main)
    found = (await page.evaluate(_VIEW, main))["value"]
    width, height, *rest = found
    if not width or not height:
        raise ToolError(
            "The tab shows nothing: its window has no size (it may be minimised). resize_window gives it one."
        )
    return View(width, height, *rest)


async def take_screenshot(page: Page, view: View, scale: float, kind: Format) -> Shot:
    """Take a picture of the viewport, scaled relative to the pixels that models use."""
    return await _capture_region(page, view, Rect(0, 0, view.width, view.height), view.factor * scale, kind)


async def take_close_up(page: Page, view: View, part: Rect, scale: float, kind: Format) -> Shot:
    """Take a picture of a part of the page as large as the limits allow, times `scale`."""
    edge, area = MAX_EDGE / max(part.width, part.height), math.sqrt(MAX_PIXELS / (part.width * part.height))
    return await _capture_region(page, view, part, min(edge, area, view.factor * MAX_ENLARGED) * scale, kind)


async def _capture_region(page: Page, view: View, part: Rect, enlarged: float, kind: Format) -> Shot:
    params: Params = {"format": kind, **({"quality": QUALITY} if kind == "jpeg" else {})}
    # For a clip the browser draws the page anew, which takes a frame more (16 ms in Chromium 150).
    if not view.is_as_shown(part, enlarged):
        params |= await _clip_params(page, view, part, enlarged / view.ratio)
    # Chromium 150 does not answer a capture during which the document changes.
    capture = partial(page.run_command, "Page.captureScreenshot", params, timeout_s=CAPTURE_S)
    answer = await page.within_document(capture)
    data = base64.b64decode(answer["data"])
    if len(data) > MAX_BYTES and kind == "png":
        return await _capture_region(page, view, part, enlarged, "jpeg")
    size = max(1, round(part.width * enlarged)), max(1, round(part.height * enlarged))
    return Shot(data, f"image/{kind}", *size)


async def _clip_params(page: Page, view: View, part: Rect, scale: float) -> Params:
    # What DevTools cut out is counted in the pixels that the page has without the browser's zoom.
    metrics = await page.run_command("Page.getLayoutMetrics")
    zoom = metrics["cssVisualViewport"].get("zoom", 1)
    return {
        "captureBeyondViewport": not view.contains_region(part),
        "clip": {
            "x": (part.left + view.left) * zoom,
            "y": (part.top + view.top) * zoom,
            "width": part.width * zoom,
            "height": part.height * zoom,
            "scale": scale,
        },
    }
