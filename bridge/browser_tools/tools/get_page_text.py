"""`get_page_text`: the text that a page is about."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec
import trio
from msgspec import UNSET, Meta, UnsetType, field

from bridge.browser_tools.page import shadow_roots
from bridge.browser_tools.page.page import Frame, Page, look_inside
from bridge.browser_tools.result_size import MAX_RESULT_CHARS, MaxChars, most_chars
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.readable_frames import (
    FRAMES_S,
    MAX_FRAMES,
    origins_of,
    readable_frames,
    remaining_patience,
)
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.browser_tools.tools.read_page import refuse_pdf
from native_host.protocol.untrusted_text import single_line

LITTLE_TEXT = 200
"""Characters; a main document with fewer is a frame's shell."""
MAX_ADDRESS = 300


class GetPageText(ToolInput):
    """Input of `get_page_text`."""

    tab_id: MaybeTab = field(name="tabId", default=UNSET)
    max_chars: MaxChars | UnsetType = UNSET
    offset: Annotated[int, Meta(ge=1, description="Characters to skip.")] | UnsetType = UNSET


class PageText(ToolOutput, kw_only=True):
    """Main text of a page."""

    tab_id: int
    title: str
    url: str
    source: str
    """`article`, `main`, `block` (where most paragraphs are), `body`, or `frames`."""
    text: str
    truncated: bool
    untrusted: tuple[str, ...] = ("title", "url", "text")


class _Text(msgspec.Struct, rename="camel"):
    """Result of `mcpb.text`."""

    text: str
    title: str
    url: str
    source: str
    truncated: bool
    pdf: bool


async def get_page_text(given: GetPageText, context: CallContext) -> ToolResult:
    """Return a page's main text; if its main document has nearly none, that of its frames."""
    page = await context.open_page(given.tab_id)
    frames = readable_frames(context, await page.find_frames())
    start = given.offset if isinstance(given.offset, int) else 0
    most = start + most_chars(given.max_chars)
    said = await _text_of(page, frames[0], most)
    refuse_pdf(page, is_pdf=said.pdf)
    text, source, is_cut = said.text, said.source, said.truncated
    if len(text) < LITTLE_TEXT and not is_cut:
        inner, is_cut = await _text_of_frames(page, frames[1 : MAX_FRAMES + 1], most - len(text) - 2)
        if inner:
            text, source = f"{text}\n\n{inner}".strip(), "frames"
    if start and len(text) <= start:
        raise ToolError(f"The text of tab {page.number} has {len(text)} characters: give a smaller offset.")
    text = text[start:]
    told = PageText(
        message=_format_message(page, text, _of_what(said.source, source), most if is_cut else 0)
        + context.take_notes(page),
        tab_id=page.number,
        title=said.title,
        url=said.url,
        source=source,
        text=text,
        truncated=is_cut,
    )
    origin = origins_of(frames[: MAX_FRAMES + 1] if source == "frames" else frames[:1])
    return ToolResult(told, page=f"{said.title}\n{said.url}\n\n{text}", origin=origin)


async def _text_of(page: Page, frame: Frame, max_chars: int) -> _Text:
    await shadow_roots.adopt_roots(page, frame)
    return msgspec.convert(await page.call_script("text", {"maxChars": max_chars}, frame=frame), _Text)


async def _text_of_frames(page: Page, frames: Sequence[Frame], left: int) -> tuple[str, bool]:
    """Each below its address; and whether something was cut off."""
    parts: list[str] = []
    is_cut = False
    until = trio.current_time() + FRAMES_S
    for frame in frames:
        head = f"[frame {single_line(frame.url, MAX_ADDRESS)}]\n"
        if left <= len(head):
            return "\n\n".join(parts), True
        said = await look_inside(partial(_text_of, page, frame, left - len(head)), remaining_patience(until))
        if said and said.text:
            parts.append(head + said.text)
            left -= len(parts[-1]) + 2
            is_cut |= said.truncated
    return "\n\n".join(parts), is_cut


_SOURCES = {
    "article": "The article of the page",
    "main": "The main part of the page",
    "block": "The part of the page with most of its paragraphs",
    "body": "All text of the page",
}


def _of_what(of_main: str, source: str) -> str:
    return f"{_SOURCES[of_main]} and its frames" if source == "frames" else _SOURCES[source]


def _format_message(page: Page, text: str, of_what: str, cut_at: int) -> str:
    """Describe the text; `cut_at` is where it was cut off, 0 if it was not."""
    if not text:
        return (
            f"Tab {page.number} shows no text, or none yet. A screenshot shows what is drawn; read_page what "
            "can be used."
        )
    message = f"{of_what} in tab {page.number}: {len(text)} characters."
    return f"{message} More was cut off: offset {cut_at} continues." if cut_at else message


TOOLS = (
    Tool(
        name="get_page_text",
        title="Read a page's text",
        description="The main text of a page (its article where there is one), for reading.",
        listed="core",
        max_result_chars=MAX_RESULT_CHARS,
        input_type=GetPageText,
        output_type=PageText,
        run=get_page_text,
        is_read_only=True,
    ),
)
