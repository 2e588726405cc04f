"""Encoder of animated GIFs: actions drawn on screenshots. Sans-IO, but slow: run it in a thread."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

FRAME_MS = 1000
AIM_MS = 700
"""Milliseconds of a frame before an action. @bridge/browser_tools/tools/gif_encoder.py:(BEST, WORST) Range of
`quality`.
"""
LAST_MS = 2500
"""The last one stays longer, so that the end is seen."""
MOST_COLOURS, FEWEST_COLOURS = 256, 32
LONGEST_EDGE, SHORTEST_EDGE = 800, 400
BEST, WORST = 1, 30
"""Of `quality`."""
WATERMARK = "mcpb"

_MARK = (230, 60, 30)
_BAR = (20, 24, 32)
_WHITE = (255, 255, 255)


@dataclass(frozen=True)
class Frame:
    """Screenshot before or after an action."""

    data: bytes
    label: str = ""
    marks: tuple[tuple[float, float], ...] = ()
    """Marks in the picture's pixels: one point of a click, two of a drag."""


@dataclass(frozen=True)
class Style:
    """Parts that are drawn, and quality."""

    clicks: bool = True
    drags: bool = True
    labels: bool = True
    progress: bool = True
    watermark: bool = True
    quality: float = 10

    @property
    def edge(self) -> int:
        """Pixels of the longer edge at most."""
        return round(LONGEST_EDGE - self._coarse * (LONGEST_EDGE - SHORTEST_EDGE))

    @property
    def colours(self) -> int:
        """Colours of each frame."""
        return round(MOST_COLOURS - self._coarse * (MOST_COLOURS - FEWEST_COLOURS))

    @property
    def _coarse(self) -> float:
        return (min(max(self.quality, BEST), WORST) - BEST) / (WORST - BEST)


def encode_gif(frames: Sequence[Frame], style: Style) -> tuple[bytes, tuple[int, int]]:
    """Return the GIF and its size. Frames of other sizes are fitted into the first one's.

    Only one frame at a time is in memory in full colours.
    """
    from PIL import Image  # noqa: PLC0415 - heavy, and seldom needed

    with Image.open(io.BytesIO(frames[0].data)) as first:
        size = _fit_size(first.size, style.edge)
    drawn = _draw_frames(frames, size, style)
    out = io.BytesIO()
    durations = [*(AIM_MS if frame.marks else FRAME_MS for frame in frames[:-1]), LAST_MS]
    next(drawn).save(
        out, "GIF", save_all=True, append_images=drawn, duration=durations, loop=0, optimize=False
    )
    return out.getvalue(), size


def _fit_size(size: tuple[int, int], edge: int) -> tuple[int, int]:
    scale = min(1.0, edge / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _draw_frames(frames: Sequence[Frame], size: tuple[int, int], style: Style) -> Iterator[Image]:
    from PIL import Image, ImageDraw  # noqa: PLC0415

    for number, frame in enumerate(frames, 1):
        canvas = Image.new("RGB", size, _BAR)
        with Image.open(io.BytesIO(frame.data)) as seen:
            scale = min(size[0] / seen.width, size[1] / seen.height)
            fitted = max(1, round(seen.width * scale)), max(1, round(seen.height * scale))
            canvas.paste(seen.convert("RGB").resize(fitted, Image.Resampling.LANCZOS))
        draw = ImageDraw.Draw(canvas, "RGBA")
        _draw_marks(draw, [(x * scale, y * scale) for x, y in frame.marks], style)
        if style.labels and frame.label:
            _draw_label(draw, frame.label, size)
        if style.watermark:
            _draw_watermark(draw, size)
        if style.progress:
            draw.rectangle((0, size[1] - 4, size[0] * number / len(frames), size[1]), fill=_MARK)
        yield canvas.quantize(style.colours, dither=Image.Dither.NONE)


def _draw_marks(draw: ImageDraw, points: list[tuple[float, float]], style: Style) -> None:
    if len(points) > 1 and style.drags:
        draw.line(points, fill=(*_MARK, 200), width=4)
        _draw_disc(draw, points[0], 5, (*_WHITE, 255))
        _draw_disc(draw, points[-1], 7, (*_MARK, 255))
    elif len(points) == 1 and style.clicks:
        _draw_disc(draw, points[0], 15, (*_MARK, 90))
        _draw_disc(draw, points[0], 5, (*_MARK, 255))


def _draw_disc(draw: ImageDraw, at: tuple[float, float], radius: float, fill: tuple[int, ...]) -> None:
    x, y = at
    box = (x - radius, y - radius, x + radius, y + radius)
    draw.ellipse(box, fill=fill, outline=(*_MARK, 255), width=2)


def _draw_label(draw: ImageDraw, label: str, size: tuple[int, int]) -> None:
    from PIL import ImageFont  # noqa: PLC0415

    font = ImageFont.load_default(14)
    text = label
    while len(text) > 1 and draw.textlength(text, font=font) > size[0] - 24:
        text = f"{text[: int(len(text) * 0.9)].rstrip('…')}…" if len(text) > 4 else text[:-1]
    bottom = size[1] - 10
    width = draw.textlength(text, font=font)
    draw.rounded_rectangle((6, bottom - 26, 22 + width, bottom), radius=6, fill=(*_BAR, 210))
    draw.text((14, bottom - 13), text, font=font, fill=_WHITE, anchor="lm")


def _draw_watermark(draw: ImageDraw, size: tuple[int, int]) -> None:
    from PIL import ImageFont  # noqa: PLC0415

    at = (size[0] - 8, 8)
    font = ImageFont.load_default(13)
    draw.text(
        at, WATERMARK, font=font, fill=(*_WHITE, 200), anchor="rt", stroke_width=2, stroke_fill=(*_BAR, 160)
    )
