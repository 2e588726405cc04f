"""How a frame's viewport lies in the tab's: moved, scaled and turned, as the style of a page has it. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

NEARLY = 0.01
"""Sizes are told in whole pixels: a scale that is so near to 1 is 1."""


class Placement(NamedTuple):
    """An affine map, from CSS pixels of the frame's viewport to those around it."""

    x: float = 0.0
    """Where the frame's corner is."""
    y: float = 0.0
    right_x: float = 1.0
    """Where one of its pixels to the right leads."""
    right_y: float = 0.0
    down_x: float = 0.0
    """And one down."""
    down_y: float = 1.0

    def outward(self, x: float, y: float) -> tuple[float, float]:
        """A point of the frame, in what is around it."""
        return (
            self.x + self.right_x * x + self.down_x * y,
            self.y + self.right_y * x + self.down_y * y,
        )

    def inward(self, x: float, y: float) -> tuple[float, float]:
        """A point around it, in the frame. One that is scaled to nothing has all its points in its corner."""
        area = self.right_x * self.down_y - self.down_x * self.right_y
        if not area:
            return 0.0, 0.0
        x, y = x - self.x, y - self.y
        return (self.down_y * x - self.down_x * y) / area, (self.right_x * y - self.right_y * x) / area

    def within(self, around: Placement) -> Placement:
        """The same, if what is around it lies itself so."""
        x, y = around.outward(self.x, self.y)
        right_x, right_y = around.outward(self.x + self.right_x, self.y + self.right_y)
        down_x, down_y = around.outward(self.x + self.down_x, self.y + self.down_y)
        return Placement(x, y, right_x - x, right_y - y, down_x - x, down_y - y)


def placement(box: dict[str, Any]) -> Placement:
    """Of what DevTools call a box model, of the frame's element."""
    x, y = box["content"][:2]
    x0, y0, x1, y1, _, _, x3, y3 = box["border"]
    width, height = box["width"] or 1, box["height"] or 1
    found = Placement(x, y, (x1 - x0) / width, (y1 - y0) / width, (x3 - x0) / height, (y3 - y0) / height)
    upright = Placement(x, y)
    is_upright = all(abs(one - other) < NEARLY for one, other in zip(found, upright, strict=True))
    return upright if is_upright else found
