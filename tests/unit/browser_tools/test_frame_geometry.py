"""How frames lie in what is around them."""

from __future__ import annotations

import pytest

from bridge.browser_tools.page.frame_geometry import Placement, placement_of

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
