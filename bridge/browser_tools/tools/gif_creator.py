"""`gif_creator`: a recording of a session's actions, exported as an animated GIF.

Every tool that acts on a page calls `before_action`, if it points at something, and `after_action`. Without a
recording these cost nothing.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

import msgspec
import trio
from msgspec import UNSET, Meta, UnsetType
from msgspec import field as argument

from bridge.browser_tools.files import downloads
from bridge.browser_tools.page.page import Frame, Page, carry_chunks
from bridge.browser_tools.page.pointer import look_at
from bridge.browser_tools.page.screenshots import Point, SeenScreenshots, take_screenshot, view_of
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.session_state import Picture
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import Link, ToolError, ToolOutput, ToolResult
from bridge.browser_tools.tools import gif_encoder
from bridge.errors import CallError

MAX_FRAMES = 50
MAX_LABEL = 120
LIMIT_S = 90.0
GIF = "image/gif"


@dataclass
class Recording:
    """Recording of a session."""

    is_running: bool = False
    frames: deque[gif_encoder.Frame] = field(default_factory=lambda: deque(maxlen=MAX_FRAMES))
    left_out: int = 0

    def add_frame(self, frame: gif_encoder.Frame) -> None:
        """One more; the oldest goes when there are too many."""
        self.left_out += len(self.frames) == MAX_FRAMES
        self.frames.append(frame)

    def clear(self) -> None:
        """Nothing was recorded, and nothing is."""
        self.is_running, self.left_out = False, 0
        self.frames.clear()

    def describe_size(self) -> str:
        """Size of the recording, as text."""
        count = f"{len(self.frames)} frame{'s' * (len(self.frames) != 1)}"
        return f"{count}, the newest ({self.left_out} older ones were left out)" if self.left_out else count


async def before_action(context: CallContext, page: Page, label: str, *points: Point) -> None:
    """Record the page before an action, with a mark at its place.

    One point is drawn as a click, two as a drag. They are in CSS pixels of the tab's viewport.
    """
    await _add_frame(context, page, label, points)


async def after_action(context: CallContext, page: Page, label: str) -> None:
    """Record the page after an action."""
    await _add_frame(context, page, label, ())


async def _add_frame(context: CallContext, page: Page, label: str, points: tuple[Point, ...]) -> None:
    """Add a frame, unless the page cannot or may not be seen."""
    recording = context.state.state_of(Recording)
    if not recording.is_running:
        return
    with suppress(ToolError, CallError):
        if not await context.follow_page(page):
            return
        main = await page.main_frame()
        context.check_here(main.origin)
        await context.check_picture(page)
        frame = await _make_frame(page, main, label, points)
        context.check_here((await page.main_frame()).origin)  # it may be a picture of another page
        await context.check_picture(page)
        recording.add_frame(frame)


async def _make_frame(page: Page, main: Frame, label: str, points: tuple[Point, ...]) -> gif_encoder.Frame:
    view = await view_of(page, main)
    smaller = min(1.0, gif_encoder.LONGEST_EDGE / max(view.size))
    shot = await take_screenshot(page, view, smaller, "jpeg")
    scale = shot.width / view.width
    marks = tuple((point.x * scale, point.y * scale) for point in points)
    return gif_encoder.Frame(shot.data, label[:MAX_LABEL], marks)


# ── gif_creator ─────────────────────────────────────────────────────────────────────────────────────────────

Switch = bool | UnsetType


class Options(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """Parts that are drawn."""

    show_click_indicators: Switch = UNSET
    show_drag_paths: Switch = UNSET
    show_action_labels: Switch = UNSET
    show_progress_bar: Switch = UNSET
    show_watermark: Switch = UNSET
    quality: Annotated[float, Meta(ge=1, le=30, description="1 is best.")] | UnsetType = UNSET

    def make_style(self) -> gif_encoder.Style:
        """For the encoder."""
        return gif_encoder.Style(
            clicks=self.show_click_indicators is not False,
            drags=self.show_drag_paths is not False,
            labels=self.show_action_labels is not False,
            progress=self.show_progress_bar is not False,
            watermark=self.show_watermark is not False,
            quality=10 if isinstance(self.quality, UnsetType) else self.quality,
        )


class GifCreator(ToolInput):
    """Input of `gif_creator`."""

    action: Literal["start_recording", "stop_recording", "export", "clear"]
    tab_id: MaybeTab = argument(name="tabId", default=UNSET)
    coordinate: (
        Annotated[list[float], Meta(min_length=2, max_length=2, description="export: drop it here.")]
        | UnsetType
    ) = UNSET
    download: Annotated[Switch, Meta(description="export: save it among the downloads.")] = UNSET
    filename: str | UnsetType = UNSET
    options: Options | (UnsetType) = UNSET


class GifOutput(msgspec.Struct, rename="camel", kw_only=True):
    """The exported GIF."""

    image_id: str
    uri: str
    name: str
    mime_type: str
    size: int
    width: int
    height: int


class RecordingOutput(ToolOutput, kw_only=True):
    """State of the recording."""

    recording: bool
    frames: int
    gif: GifOutput | None = None


async def gif_creator(given: GifCreator, context: CallContext) -> ToolResult:
    """Start, stop, forget, or make the GIF."""
    page = await context.open_page(given.tab_id)
    recording = context.state.state_of(Recording)
    match given.action:
        case "start_recording":
            return _make_result(recording, await _start_recording(context, recording, page))
        case "stop_recording":
            return _make_result(recording, _stop_recording(recording))
        case "clear":
            recording.clear()
            return _make_result(recording, "The recording was thrown away; nothing is recorded now.")
        case "export":
            return await _export_gif(given, context, recording, page)


def _make_result(recording: Recording, message: str) -> ToolResult:
    return ToolResult(
        RecordingOutput(message=message, recording=recording.is_running, frames=len(recording.frames))
    )


async def _start_recording(context: CallContext, recording: Recording, page: Page) -> str:
    if recording.is_running:
        size = recording.describe_size()
        return f"It is recording already: {size}. export makes a GIF of them, clear begins anew."
    before = recording.describe_size() if recording.frames else ""
    recording.is_running = True
    await after_action(context, page, "start")
    goes_on = f" It goes on after the {before} that were there; clear would forget them." if before else ""
    return (
        f"Recording: what you do from now on is kept, in pictures of each action, the newest {MAX_FRAMES}."
        f"{goes_on} export makes a GIF of it."
    )


def _stop_recording(recording: Recording) -> str:
    if not recording.is_running:
        has = (
            f"There are {recording.describe_size()} to export."
            if recording.frames
            else "There is nothing to export."
        )
        return f"Nothing was being recorded. {has}"
    recording.is_running = False
    return f"Stopped with {recording.describe_size()}. export makes a GIF of them, start_recording goes on."


async def _export_gif(
    given: GifCreator, context: CallContext, recording: Recording, page: Page
) -> ToolResult:
    if not recording.frames:
        raise ToolError("There is nothing to export: begin with start_recording, then act on a page.")
    options = Options() if isinstance(given.options, UnsetType) else given.options
    data, size = await trio.to_thread.run_sync(
        gif_encoder.encode_gif, list(recording.frames), options.make_style(), abandon_on_cancel=True
    )
    picture = context.state.pictures.add_picture(data, GIF)
    wanted = given.filename if isinstance(given.filename, str) else ""
    name = downloads.file_name(wanted or f"recording-{datetime.now():%Y%m%d-%H%M%S}.gif", ".gif")  # noqa: DTZ005
    made = GifOutput(
        image_id=picture.id,
        uri=picture.uri,
        name=name,
        mime_type=GIF,
        size=len(data),
        width=size[0],
        height=size[1],
    )
    told = (
        f"{name}: a GIF of {recording.describe_size()}, {size[0]}x{size[1]}, {len(data) / 1024:.0f} KB. It "
        "can "
        f"be read at {picture.uri} and given to a page by upload_image with imageId {picture.id}."
    )
    try:
        told += await _deliver_gif(given, context, page, picture, name)
    except ToolError as error:
        raise ToolError(f"{error} The GIF is there nevertheless. {told}") from None
    return ToolResult(
        RecordingOutput(message=told, recording=recording.is_running, frames=len(recording.frames), gif=made),
        links=[Link(picture.uri, name, GIF, len(data))],
    )


async def _deliver_gif(
    given: GifCreator, context: CallContext, page: Page, picture: Picture, name: str
) -> str:
    told = ""
    main = await page.main_frame()
    if not isinstance(given.coordinate, UnsetType):
        view = await view_of(page, main)
        context.state.state_of(SeenScreenshots).check_current(page, view)
        frame, at = (await look_at(page, main, view.point_at(given.coordinate))).frames[-1]
        context.check_frame(frame.origin)
        file = {"transfer": await carry_chunks(page, frame, picture.data), "name": name, "mimeType": GIF}
        taken = await page.call_script("giveFiles", {"x": at.x, "y": at.y, "files": [file]}, frame=frame)
        told += f" It was dropped at ({given.coordinate[0]:g}, {given.coordinate[1]:g}) on {taken['role']}."
    if given.download is True:
        transfer = await carry_chunks(page, main, picture.data)
        await page.call_script("download", {"transfer": transfer, "name": name, "mimeType": GIF}, frame=main)
        told += f" The browser saves it as {name} in its folder of downloads."
    return told


TOOLS = (
    Tool(
        name="gif_creator",
        title="Record a GIF",
        description="Records a tab while you act in it, and exports a GIF.",
        search_hint="record screen gif animation video",
        input_type=GifCreator,
        output_type=RecordingOutput,
        run=gif_creator,
        limit_s=LIMIT_S,
    ),
)
