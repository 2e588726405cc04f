"""`make icons`: the icons of the extension, one for each state of the toolbar button.

An icon is a rounded square with an M, as on the status page. The states differ in color and in shape, because
some users do not see the colors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

FOLDER = Path(__file__).parents[2] / "extension/icons"
SIZES = {"connected": (16, 32, 48, 128), "active": (16, 32), "paused": (16, 32), "off": (16, 32)}
"""Pixels, by state. Only `connected` is shown on the extensions page, which needs large ones."""
COLORS = {"connected": "#316dca", "active": "#316dca", "paused": "#a86400", "off": "#7b8491"}
WHITE = "#ffffff"
GREEN = "#2ecc71"
CLEAR = "#00000000"
UNITS = 16
"""The coordinates below are those of a square with this side."""
OVERSAMPLING = 8
LETTER = ((4, 11.4), (4, 5), (8, 9), (12, 5), (12, 11.4))


def draw_icon(state: str, size: int) -> Image.Image:
    """Return the icon of a state, drawn larger and scaled down."""
    scale = size * OVERSAMPLING / UNITS
    image = Image.new("RGBA", (size * OVERSAMPLING,) * 2, CLEAR)
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle(_scaled(scale, (0, 0, UNITS, UNITS)), 4 * scale, COLORS[state])
    if state == "paused":
        for left in (4.5, 9):
            draw.rounded_rectangle(_scaled(scale, (left, 4, left + 2.5, 12)), 0.6 * scale, WHITE)
    else:
        _draw_letter(draw, scale)
    if state == "active":
        draw.ellipse(_scaled(scale, (7.5, 7.5, 17.5, 17.5)), CLEAR)
        draw.ellipse(_scaled(scale, (9, 9, 16, 16)), GREEN)
    return image.resize((size, size), Image.Resampling.LANCZOS)


def _draw_letter(draw: ImageDraw.ImageDraw, scale: float) -> None:
    width = 1.7 * scale
    points = [(x * scale, y * scale) for x, y in LETTER]
    draw.line(points, WHITE, round(width), "curve")
    for x, y in points:
        draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), WHITE)


def _scaled(scale: float, numbers: Sequence[float]) -> list[float]:
    return [number * scale for number in numbers]


def draw_all() -> Iterator[tuple[Path, Image.Image]]:
    """Yield each icon and its file."""
    for state, sizes in SIZES.items():
        for size in sizes:
            yield FOLDER / f"{state}-{size}.png", draw_icon(state, size)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, icon in draw_all():
        icon.save(file, optimize=True)
