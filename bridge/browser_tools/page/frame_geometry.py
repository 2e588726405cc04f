"""Geometry of page frames: a frame's viewport in the tab's, moved, scaled and turned. Sans-IO."""

from __future__ import annotations

from typing import Any, NamedTuple

NEARLY = 0.01
"""Tolerance of a scale of 1: sizes are reported in whole pixels."""


class Placement(NamedTuple):
    """An affine map, from CSS pixels of the frame's viewport to those around it."""

    x: float = 0.0
    y: float = 0.0
    right_x: float = 1.0
    right_y: float = 0.0
    down_x: float = 0.0
    down_y: float = 1.0

    def to_outside(self, x: float, y: float) -> tuple[float, float]:
        """Convert a point of the frame to the surrounding viewport."""
        return (self.x + self.right_x * x + self.down_x * y, self.y + self.right_y * x + self.down_y * y)

    def to_inside(self, x: float, y: float) -> tuple[float, float]:
        """Convert a surrounding point to the frame. A frame scaled to nothing has only its corner."""
        area = self.right_x * self.down_y - self.down_x * self.right_y
        if not area:
            return 0.0, 0.0
        x, y = x - self.x, y - self.y
        return (self.down_y * x - self.down_x * y) / area, (self.right_x * y - self.right_y * x) / area

    def combine_with(self, around: Placement) -> Placement:
        """Return this placement in the viewport around `around`."""
        x, y = around.to_outside(self.x, self.y)
        right_x, right_y = around.to_outside(self.x + self.right_x, self.y + self.right_y)
        down_x, down_y = around.to_outside(self.x + self.down_x, self.y + self.down_y)
        return Placement(x, y, right_x - x, right_y - y, down_x - x, down_y - y)


def placement_of(box: dict[str, Any]) -> Placement:
    """Return the placement from the DevTools box model of the frame's element."""
    x, y = box["content"][:2]
    x0, y0, x1, y1, _, _, x3, y3 = box["border"]
    width, height = box["width"] or 1, box["height"] or 1
    found = Placement(x, y, (x1 - x0) / width, (y1 - y0) / width, (x3 - x0) / height, (y3 - y0) / height)
    upright = Placement(x, y)
    is_upright = all(abs(one - other) < NEARLY for one, other in zip(found, upright, strict=True))
    return upright if is_upright else found
