"""`file_upload`, `upload_image`: files of the user's machine, and pictures of the session for pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Annotated, Any

import msgspec
import trio
from msgspec import UNSET, Meta, UnsetType, field

from bridge.browser_tools.files import upload_sources
from bridge.browser_tools.files.upload_sources import MAX_BYTES, TOO_LARGE, Folders, LocalFile, OutsideError
from bridge.browser_tools.page.devtools import DialogError
from bridge.browser_tools.page.element_locator import ElementArgument, parse_locator
from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.page.page import ELSEWHERE, Frame, GoneError, Page, carry_chunks
from bridge.browser_tools.page.pointer import look_at
from bridge.browser_tools.page.screenshots import Point, SeenScreenshots, view_of
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.located_element import locate_element
from bridge.browser_tools.session.readable_frames import frame_of
from bridge.browser_tools.session.upload_permission import admit_upload
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.browser_tools.tools import gif_creator
from native_host.protocol.untrusted_text import quote, single_line

LIMIT_S = 60.0
MAX_NAME = 200


class Content(msgspec.Struct):
    """A file that comes with the call."""

    data: bytes
    name: str
    mime_type: str | UnsetType = field(name="mimeType", default=UNSET)


class FileUpload(ToolInput, kw_only=True):
    """Input of `file_upload`."""

    paths: Annotated[list[str], Meta(description="Files of the user's machine.")] | UnsetType = UNSET
    files: Annotated[list[Content], Meta(description="Or their content, in base64.")] | UnsetType = UNSET
    ref: Annotated[ElementArgument, Meta(description="File input, its label, or a drop target.")]
    tab_id: MaybeTab = field(name="tabId", default=UNSET)


class UploadImage(ToolInput, kw_only=True):
    """Input of `upload_image`."""

    image_id: Annotated[str, Meta(description="img_… of a screenshot or GIF.")] = field(name="imageId")
    tab_id: MaybeTab = field(name="tabId", default=UNSET)
    ref: (
        Annotated[ElementArgument, Meta(description="File input or drop target; or a coordinate.")]
        | UnsetType
    ) = UNSET
    coordinate: (
        Annotated[list[float], Meta(min_length=2, max_length=2, description="[x, y] of a screenshot.")]
        | UnsetType
    ) = UNSET
    filename: Annotated[str, Meta(description="File name for the page.")] | UnsetType = UNSET


class UploadOutput(ToolOutput, kw_only=True):
    """Files that the page accepted."""

    tab_id: int
    files: list[str]
    role: str
    name: str
    shows: str
    untrusted: tuple[str, ...] = ("files", "name", "shows")


class _GivenFiles(msgspec.Struct, rename="camel"):
    """Result of `mcpb.giveFiles`."""

    how: str
    accepted: list[str]
    role: str
    name: str
    shows: str


async def file_upload(given: FileUpload, context: CallContext) -> ToolResult:
    """Give files to an element."""
    parse_locator(given.ref)
    page = await context.open_page(given.tab_id)
    ref, frame = await locate_element(context, page, given.ref)
    await page.call_script(
        "describe", {"ref": ref.number}, frame=frame
    )  # before anything is read for nothing
    files = await _collect_files(given, context)
    if paths := unconfigured_paths(files):
        origin = frame.origin
        if await admit_upload(context, origin, paths):
            page, frame = await _same_frame(given, context, ref, frame)
    return await _give_files(context, page, frame, {"ref": ref.number}, files)


def unconfigured_paths(files: Sequence[LocalFile]) -> list[str]:
    """Return the paths of those files that the user did not name in `browser.upload_dirs`."""
    return [file.path for file in files if file.path and not file.is_configured]


async def _same_frame(given: FileUpload, context: CallContext, ref: Ref, asked: Frame) -> tuple[Page, Frame]:
    """Return the frame that the user was asked about, judged again: the prompt took its time."""
    page = await context.open_page(given.tab_id)
    frame = await frame_of(context, page, ref)
    if (frame.id, frame.loader) != (asked.id, asked.loader):
        raise GoneError(ELSEWHERE)
    return page, frame


async def _collect_files(given: FileUpload, context: CallContext) -> list[LocalFile]:
    if bool(given.paths) == bool(given.files):
        raise ToolError("Give either paths or files, with at least one file. Nothing was given to the page.")
    if given.paths:
        return await files_at(given.paths, context)
    assert isinstance(given.files, list)
    if sum(len(content.data) for content in given.files) > MAX_BYTES:
        raise ToolError(TOO_LARGE)
    return [_decode_content(content) for content in given.files]


async def files_at(paths: Sequence[str], context: CallContext) -> list[LocalFile]:
    """Read files of this machine. The client is asked for its roots if a file is in no known directory."""
    folders = Folders(context.session.folder, context.services.settings.upload_dirs)
    try:
        return await _read_files(paths, folders)
    except OutsideError:
        if not context.session.is_local:
            raise
        listed = await context.prompts.list_roots() or ()
        roots = tuple(path for uri in listed if (path := upload_sources.path_of(uri)))
        if not roots:
            raise
    return await _read_files(paths, replace(folders, roots=roots))


async def _read_files(paths: Sequence[str], folders: Folders) -> list[LocalFile]:
    return await trio.to_thread.run_sync(upload_sources.read_files, paths, folders, abandon_on_cancel=True)


def _decode_content(content: Content) -> LocalFile:
    name = _plain_name(content.name)
    kind = content.mime_type if isinstance(content.mime_type, str) else upload_sources.guess_mime_type(name)
    return LocalFile(name, content.data, kind)


async def upload_image(given: UploadImage, context: CallContext) -> ToolResult:
    """Give a picture to an element, or drop it at a point."""
    if isinstance(given.ref, UnsetType) == isinstance(given.coordinate, UnsetType):
        raise ToolError("Give either a ref or a coordinate. Nothing was given to the page.")
    picture = context.state.pictures.get_picture(given.image_id.strip())
    if picture is None:
        newest = [picture.id for picture in context.state.pictures.newest_first()[:5]]
        there = f"The newest are {', '.join(newest)}" if newest else "No picture exists yet"
        raise ToolError(
            f"There is no picture {single_line(given.image_id, 60)} of this session. {there}: computer with "
            "action screenshot makes one and tells its id."
        )
    page = await context.open_page(given.tab_id)
    frame, target = await _find_target(given, context, page)
    wanted = given.filename if isinstance(given.filename, str) else ""
    name = _plain_name(wanted or f"image.{picture.mime_type.rpartition('/')[2]}")
    return await _give_files(context, page, frame, target, [LocalFile(name, picture.data, picture.mime_type)])


async def _find_target(given: UploadImage, context: CallContext, page: Page) -> tuple[Frame, dict[str, Any]]:
    """Return the frame, and the target in it."""
    if not isinstance(given.ref, UnsetType):
        ref, frame = await locate_element(context, page, given.ref)
        return frame, {"ref": ref.number}
    assert isinstance(given.coordinate, list)
    main = await page.main_frame()
    view = await view_of(page, main)
    context.state.state_of(SeenScreenshots).check_current(page, view)
    frame, at = (await look_at(page, main, view.point_at(given.coordinate))).frames[-1]
    context.check_frame(frame.origin)
    return frame, {"x": at.x, "y": at.y}


async def _give_files(
    context: CallContext, page: Page, frame: Frame, target: dict[str, Any], files: Sequence[LocalFile]
) -> ToolResult:
    sent = [
        {
            "transfer": await carry_chunks(page, frame, file.data),
            "name": file.name,
            "mimeType": file.guess_mime_type,
        }
        for file in files
    ]
    names = [file.name for file in files]
    label = f"upload {_format_names(names)}"
    if points := _points_of(frame, target):
        await gif_creator.before_action(context, page, label, *points)
    try:
        answered = await page.call_script("giveFiles", {**target, "files": sent}, frame=frame)
    except DialogError as dialog:
        taken = _GivenFiles("", names, "", "", "")
        message = f"{_format_names(names)} was given to the page. {dialog}"
    else:
        taken = msgspec.convert(answered, _GivenFiles)
        message = _format_message(taken, names)
        await page.wait_still()
    await gif_creator.after_action(context, page, label)
    told = UploadOutput(
        message=message + context.take_notes(page),
        tab_id=page.number,
        files=taken.accepted,
        role=taken.role,
        name=taken.name,
        shows=taken.shows,
    )
    return ToolResult(told, taken.shows, frame.origin)


def _points_of(frame: Frame, target: dict[str, Any]) -> list[Point]:
    return [Point(target["x"], target["y"])] if "x" in target and frame.number == 0 else []


def _format_message(taken: _GivenFiles, names: Sequence[str]) -> str:
    what = f"{taken.role} {quote(taken.name, MAX_NAME)}" if taken.name else taken.role
    if taken.how == "drop":
        return (
            f"{_format_names(names)} was dropped on {what}, which takes what is dropped. What the page does "
            "with it shows in read_page or a screenshot."
        )
    if not taken.accepted:
        given = _format_names(names)
        return f"{given} was given to {what}, and the page has taken it out again, or used it at once."
    return f"{what} has {_format_names(taken.accepted)} now. The page sends it when its form is sent."


def _format_names(names: Sequence[str]) -> str:
    shown = ", ".join(quote(name, MAX_NAME) for name in names[:5])
    return f"{shown} and {len(names) - 5} more files" if len(names) > 5 else shown


def _plain_name(name: str) -> str:
    """Return a file's name without directories."""
    return single_line(PurePosixPath(name.replace("\\", "/")).name, MAX_NAME) or "file"


TOOLS = (
    Tool(
        name="file_upload",
        title="Give files to a page",
        description=(
            "Gives files to a file input, or drops them on an element. By path only from your "
            "folders and those that the user allows; the user is asked once per site. At most 10 "
            "MB."
        ),
        search_hint="upload attach local file",
        input_type=FileUpload,
        output_type=UploadOutput,
        run=file_upload,
        is_destructive=True,
        limit_s=LIMIT_S,
    ),
    Tool(
        name="upload_image",
        title="Give a picture to a page",
        description=(
            "Gives a picture of this session (screenshot, zoom, GIF) to a file input, or drops it "
            "on an element or a point."
        ),
        search_hint="upload screenshot picture drop",
        input_type=UploadImage,
        output_type=UploadOutput,
        run=upload_image,
        is_destructive=True,
        limit_s=LIMIT_S,
    ),
)
