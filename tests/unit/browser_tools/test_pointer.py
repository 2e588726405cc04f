"""Positions in a page: pixels of screenshots, the way of a drag, and the geometry of frames."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
import trio
from trio.testing import MockClock

from bridge.browser_tools.page.frame_geometry import Placement, placement_of
from bridge.browser_tools.page.page import Frame, Numbering, Page
from bridge.browser_tools.page.pointer import DRAG_BEGINS, drag_points
from bridge.browser_tools.page.screenshots import BAR_S, MAX_EDGE, MAX_PIXELS, Point, Rect, View, view_of
from bridge.browser_tools.tool_output import ToolError


def view(
    width: int,
    height: int,
    *,
    left: float = 0,
    top: float = 0,
    page: float = 0,
    ratio: float = 1,
    pinch: float = 1,
) -> View:
    return View(width, height, ratio, left, top, width, page or height, pinch)


@pytest.mark.parametrize(
    ("viewport", "shown"),
    [
        ((780, 437), (780, 437)),
        ((1280, 800), (1280, 800)),
        ((1568, 733), (1568, 733)),
        ((1920, 1080), (1430, 804)),
        ((3136, 100), (1568, 50)),
        ((100, 3136), (50, 1568)),
        ((7680, 4320), (1430, 804)),
    ],
)
def test_a_screenshot_is_the_viewport_scaled_down_to_a_bound(
    viewport: tuple[int, int], shown: tuple[int, int]
) -> None:
    size = view(*viewport).size
    assert size == shown
    assert max(size) <= MAX_EDGE
    assert size[0] * size[1] <= MAX_PIXELS * 1.001


def test_the_pixels_of_a_screenshot_do_not_depend_on_the_screens() -> None:
    assert view(1920, 1080, ratio=2).size == view(1920, 1080).size


@pytest.mark.parametrize(
    ("seen", "scale", "is_as_shown"),
    [
        (view(1280, 800), 1, True),
        (view(1280, 800), 0.5, False),
        (view(1280, 800, ratio=2), 1, False),
        (view(1280, 800, pinch=1.5), 1, False),
        (view(1920, 1080), 1, False),
    ],
)
def test_a_picture_is_as_shown_if_it_has_the_pixels_of_the_screen(
    seen: View, scale: float, is_as_shown: bool
) -> None:
    whole = Rect(0, 0, seen.width, seen.height)
    assert seen.is_as_shown(whole, seen.factor * scale) is is_as_shown
    assert not seen.is_as_shown(Rect(0, 0, 10, 10), seen.factor * scale)


def test_a_pixel_of_the_screenshot_is_a_point_of_the_page_and_back() -> None:
    seen = view(1920, 1080)
    point = seen.point_at([715, 402])
    assert point == pytest.approx((960, 540), abs=1)
    assert seen.shown_at(point) == pytest.approx((715, 402))


def test_the_last_pixel_is_still_in_the_page() -> None:
    assert view(780, 437).point_at([780, 437]) == Point(779.5, 436.5)


@pytest.mark.parametrize("outside", [[-1, 0], [0, -0.5], [781, 10], [10, 438], [5000, 5000]])
def test_a_coordinate_outside_is_refused_with_the_size(outside: list[float]) -> None:
    with pytest.raises(ToolError, match="outside the screenshot, which is 780x437: nothing was done"):
        view(780, 437).point_at(outside)


def test_a_region_may_go_beyond_the_screenshot_as_far_as_the_page_does() -> None:
    seen = view(780, 437, top=100, page=2000)
    assert seen.region_at([0, 0, 100, 100]) == Rect(0, 0, 100, 100)
    assert seen.region_at([-50, -5000, 9999, 9999]) == seen.whole == Rect(0, -100, 780, 1900)
    assert seen.contains_region(Rect(0, 0, 780, 437))
    assert not seen.contains_region(seen.whole)


@pytest.mark.parametrize(
    "nothing", [[10, 10, 10, 20], [20, 10, 10, 20], [900, 0, 1000, 10], [0, 437, 10, 500]]
)
def test_a_region_without_any_of_the_page_is_refused(nothing: list[float]) -> None:
    with pytest.raises(ToolError, match="nothing of the page in it"):
        view(780, 437).region_at(nothing)


def test_a_drag_begins_with_a_move_that_no_click_makes_and_ends_where_it_should() -> None:
    way = drag_points(Point(0, 0), Point(100, 50))
    assert way[0] == Point(DRAG_BEGINS, DRAG_BEGINS / 2)
    assert way[-1] == pytest.approx((100, 50))
    assert [point.x for point in way] == sorted(point.x for point in way)


@pytest.mark.parametrize("end", [(0, 0), (3, 1)])
def test_a_drag_of_nearly_nothing_ends_where_it_should(end: tuple[float, float]) -> None:
    assert drag_points(Point(0, 0), Point(*end))[-1] == end


def test_more_of_a_page_than_can_be_drawn_at_once_is_refused_with_the_most() -> None:
    with pytest.raises(ToolError, match="20000 pixels are the most"):
        view(780, 437, page=100_000).region_at([0, 0, 780, 30_000])


class Barred(Page):
    """A tab of a browser whose bar comes 0.2 s after it was attached to, where it is shown."""

    def __init__(self, *, is_shown: bool) -> None:
        super().__init__(Mock(), "host", 1, "", Numbering())
        self.begun_at = trio.current_time()
        self.is_shown = is_shown
        self.bar_at = self.begun_at + 0.2

    async def evaluate(self, expression: str, *_: Any, **__: Any) -> Any:
        has_bar = self.is_shown and trio.current_time() >= self.bar_at
        if "innerHeight" in expression:
            return {"value": [1042, 1033 if has_bar else 1089, 1, 0, 0, 1042, 2000, 1]}
        await trio.sleep_until(self.bar_at if self.is_shown and not has_bar else self.begun_at + BAR_S)
        return {"value": True}


async def test_a_tab_that_is_shown_is_seen_with_the_browser_s_bar_which_comes_a_moment_later(
    autojump_clock: MockClock,
) -> None:
    main = Frame("main", "https://example.org/", "1")
    shown, behind = Barred(is_shown=True), Barred(is_shown=False)
    assert (await view_of(behind, main)).height == 1089
    assert trio.current_time() == behind.begun_at  # no bar comes into it: it is not waited for
    assert (await view_of(shown, main)).height == 1033
    await trio.sleep(BAR_S)
    before = trio.current_time()
    await view_of(shown, main)
    assert trio.current_time() == before


# ── Geometry of frames ──────────────────────────────────────────────────────────────────────────────────────


TURNED = {
    # 100 x 50 with a border of 2, scaled by a half and turned to the right: its corner is at the upper right
    "border": [200, 10, 200, 60, 175, 60, 175, 10],
    "content": [199, 11, 199, 59, 176, 59, 176, 11],
    "width": 100,
    "height": 50,
}


def test_a_point_of_a_frame_that_is_turned_and_scaled_is_found_in_the_tab_and_back() -> None:
    lies = placement_of(TURNED)
    assert lies.to_outside(40, 10) == (199 - 5, 11 + 20)
    assert lies.to_inside(199 - 5, 11 + 20) == pytest.approx((40, 10))


def test_a_frame_in_a_frame_lies_as_both_do() -> None:
    inner, outer = Placement(10, 20), placement_of(TURNED)
    assert inner.combine_with(outer).to_outside(3, 4) == outer.to_outside(13, 24)


def test_sizes_in_whole_pixels_scale_nothing() -> None:
    square = [5, 5, 300.4, 5, 300.4, 105, 5, 105]
    assert placement_of({"border": square, "content": square, "width": 295, "height": 100}) == Placement(5, 5)


def test_a_frame_of_no_size_has_all_points_in_its_corner() -> None:
    assert Placement(5, 5, 0, 0, 0, 0).to_inside(7, 7) == (0, 0)
