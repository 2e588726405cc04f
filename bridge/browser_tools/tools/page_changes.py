"""Changes of a page since the session has seen its outline: the end of an action's answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

import trio
from msgspec import Meta, UnsetType

from bridge.browser_tools.page.devtools import CommandError
from bridge.browser_tools.page.outline_difference import OutlineLine, compare_outlines, format_changes
from bridge.browser_tools.page.page import Page
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.readable_frames import origins_of, read_refusal
from bridge.browser_tools.session.seen_outlines import SeenOutlines
from bridge.browser_tools.tool_output import ToolError, ToolResult, mark_page_text
from bridge.browser_tools.tools.read_page import OutlineOptions, OutlineReading
from bridge.errors import CallError

MAX_LINES = 30
MAX_READ = 200_000
"""Characters of an outline that is compared."""
QUIET_MS = 60
STILL_S = 1.0
"""Seconds that a page may take to stand still after an action."""
LOOK_S = 5.0

Difference = Annotated[bool, Meta(description="false: without the changes of the page.")] | UnsetType


async def remember_outline(context: CallContext, page: Page) -> None:
    """Read the outline of a page before an action, unless the session has seen it."""
    if read_refusal(context, page):
        return
    with suppress(ToolError, CallError, CommandError), trio.move_on_after(LOOK_S):
        main = await page.main_frame()
        await page.call_script("quietness", frame=main)  # from now on it is known whether anything changes
        if context.state.state_of(SeenOutlines).find(page, main) is None:
            await _read_outline(context, page)


async def with_changes(context: CallContext, page: Page, answer: ToolResult) -> ToolResult:
    """Return the answer of an action with what has changed on the page, as far as it can be read."""
    if page.dialog or page.is_leaving:
        return answer
    text = origin = ""
    with suppress(ToolError, CallError, CommandError), trio.move_on_after(LOOK_S):
        if await context.follow_page(page) and not read_refusal(context, page):
            await _wait_quiet(page)
            text, origin = await _describe_changes(context, page)
    if not text:
        return answer
    own = answer.page if answer.is_marked or not answer.page else mark_page_text(answer.page, answer.origin)
    marked = "\n".join(filter(None, [own, mark_page_text(text, origin)]))
    return replace(answer, page=marked, is_marked=True)


async def _wait_quiet(page: Page) -> None:
    """Wait until the page stands still, at most STILL_S."""
    with trio.move_on_after(STILL_S):
        while (quiet := (await page.call_script("quietness"))["quietMs"]) < QUIET_MS:  # noqa: ASYNC110
            await trio.sleep((QUIET_MS - quiet) / 1000)


async def _describe_changes(context: CallContext, page: Page) -> tuple[str, str]:
    """Return the difference to the outline that the session has seen, and the origins of its texts."""
    main = await page.main_frame()
    before = context.state.state_of(SeenOutlines).find(page, main)
    reading = await _read_outline(context, page)
    origin = origins_of(reading.read)
    if before is None:
        return _describe_new(reading.outline.lines), origin
    changes = compare_outlines(before, reading.outline.lines)
    if changes is None:
        return "(The page has changed in thousands of lines: read_page.)", origin
    return format_changes(changes, MAX_LINES), origin


def _describe_new(lines: Sequence[OutlineLine]) -> str:
    """Return the beginning of another document's outline."""
    shown = [line.text for line in lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        shown.append(f"… {len(lines) - MAX_LINES} more lines: read_page")
    return "\n".join(shown)


async def _read_outline(context: CallContext, page: Page) -> OutlineReading:
    """Read the outline and keep it as seen."""
    reading = await OutlineReading.prepare(context, page, OutlineOptions(max_chars=MAX_READ))
    main = reading.readable_frames[0]
    await reading.read_document(main, reading.options.depth)
    context.state.state_of(SeenOutlines).keep(page, main, reading.outline.lines)
    return reading
