"""`wait_for`: until a page shows a text, has another address, or stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import trio
from msgspec import UNSET, Meta, UnsetType
from msgspec import field as argument

from bridge.browser_tools.page.bound_documents import unbind_documents
from bridge.browser_tools.page.devtools import CommandError
from bridge.browser_tools.page.network_idle import RequestsUnderWay, watch_requests
from bridge.browser_tools.page.page import FRAME_S, Frame, GoneError, Page, look_inside
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.readable_frames import read_refusal, readable_frames
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.browser_tools.tools import page_changes
from bridge.browser_tools.tools.page_changes import Difference
from bridge.errors import CallError
from native_host.protocol.untrusted_text import quote
from native_host.protocol.wire import Code

LIMIT_S = 10.0
MAX_LIMIT_S = 60.0
LOOK_S = 0.2
QUIET_MS = 500
MAX_SAID = 80
"""Characters of a text within a sentence."""


class WaitFor(ToolInput, kw_only=True):
    """Input of `wait_for`."""

    text: Annotated[str, Meta(min_length=1, description="Text to appear.")] | UnsetType = UNSET
    text_gone: Annotated[str, Meta(min_length=1, description="Text to disappear.")] | UnsetType = argument(
        name="textGone", default=UNSET
    )
    url: Annotated[str, Meta(min_length=1, description="Part of the tab's URL.")] | UnsetType = UNSET
    idle: Annotated[bool, Meta(description="No request and no change of the page for 0.5 s.")] | UnsetType = (
        UNSET
    )
    timeout: Annotated[float, Meta(ge=0, le=MAX_LIMIT_S, description="Seconds; default 10.")] | UnsetType = (
        UNSET
    )
    tab_id: MaybeTab = argument(name="tabId", default=UNSET)
    difference: Difference = UNSET


class WaitOutput(ToolOutput, kw_only=True):
    """A wait that was fulfilled."""

    tab_id: int
    seconds: float


@dataclass
class _Waiting:
    """One wait."""

    given: WaitFor
    context: CallContext
    missing: list[str] = field(default_factory=list)
    """What was not so at the last look."""
    under_way: RequestsUnderWay | None = None
    page: Page | None = None

    async def is_over(self) -> bool:
        """Look at the page, whichever document it shows by now."""
        unbind_documents()
        page = self.page = await self.context.open_page(self.given.tab_id)
        frames = readable_frames(self.context, await page.find_frames())
        self.missing = [
            *self._missing_address(frames[0]),
            *await self._missing_texts(page, frames),
            *await self._missing_quiet(page, frames[0]),
        ]
        return not self.missing

    def _missing_address(self, main: Frame) -> list[str]:
        url = self.given.url
        return [] if url is UNSET or url in main.url else [f"the address has no {quote(url, MAX_SAID)}"]

    async def _missing_texts(self, page: Page, frames: list[Frame]) -> list[str]:
        wanted = [text for text in (self.given.text, self.given.text_gone) if isinstance(text, str)]
        if not wanted:
            return []
        if refusal := read_refusal(self.context, page):
            raise ToolError(f"Texts of this page may not be waited for: {refusal}.")
        seen = [False] * len(wanted)
        for frame in frames:
            found = await look_inside(partial(_look_for, page, frame, wanted), FRAME_S)
            seen = [was or now for was, now in zip(seen, found or seen, strict=True)]
        there = dict(zip(wanted, seen, strict=True))
        text, gone = self.given.text, self.given.text_gone
        missing = []
        if isinstance(text, str) and not there[text]:
            missing.append(f"{quote(text, MAX_SAID)} is not there")
        if isinstance(gone, str) and there[gone]:
            missing.append(f"{quote(gone, MAX_SAID)} is still there")
        return missing

    async def _missing_quiet(self, page: Page, main: Frame) -> list[str]:
        if self.given.idle is not True:
            return []
        quiet = (await page.call_script("quietness", frame=main))["quietMs"]
        if self.under_way is not None and len(self.under_way):
            return [f"{len(self.under_way)} requests are under way"]
        return [] if quiet >= QUIET_MS else ["the page has just changed"]


async def _look_for(page: Page, frame: Frame, texts: list[str]) -> list[bool]:
    found: list[bool] = await page.call_script("sees", {"texts": texts}, frame=frame)
    return found


async def wait_for(given: WaitFor, context: CallContext) -> ToolResult:
    """Look again and again until all of it is so."""
    if not any(isinstance(each, str) for each in (given.text, given.text_gone, given.url)) and not given.idle:
        raise ToolError("Say what to wait for: text, textGone, url or idle.")
    began = trio.current_time()
    limit_s = given.timeout if isinstance(given.timeout, float) else LIMIT_S
    waiting = _Waiting(given, context)
    async with _watched(waiting):
        while not await _is_over(waiting):
            if trio.current_time() - began >= limit_s:
                raise ToolError(
                    f"Waited {limit_s:g} s, and {' and '.join(waiting.missing)}. Look at the page "
                    "(read_page), or wait longer (timeout)."
                )
            await trio.sleep(LOOK_S)
    assert waiting.page
    seconds = round(trio.current_time() - began, 1)
    message = f"It is so, after {seconds:g} s.{context.take_notes(waiting.page)}"
    answer = ToolResult(WaitOutput(message=message, tab_id=waiting.page.number, seconds=seconds))
    if given.difference is False:
        return answer
    return await page_changes.with_changes(context, waiting.page, answer)


@asynccontextmanager
async def _watched(waiting: _Waiting) -> AsyncIterator[None]:
    """Watch the tab's requests while it waits, if that matters."""
    async with AsyncExitStack() as stack:
        if waiting.given.idle is True:
            page = await waiting.context.open_page(waiting.given.tab_id)
            waiting.under_way = await stack.enter_async_context(watch_requests(page))
        yield


async def _is_over(waiting: _Waiting) -> bool:
    """Look once; a document that goes away meanwhile is looked at again."""
    try:
        return await waiting.is_over()
    except (GoneError, CommandError):
        pass
    except CallError as error:
        if error.code not in (Code.NAVIGATED, Code.GONE, Code.TIMED_OUT):
            raise
    waiting.missing = ["the page is on its way to another document, or busy"]
    return False


TOOLS = (
    Tool(
        name="wait_for",
        title="Wait for a page",
        description="Waits until all that is given holds: a text, its absence, a URL, or idleness.",
        listed="core",
        input_type=WaitFor,
        output_type=WaitOutput,
        run=wait_for,
        is_read_only=True,
        limit_s=MAX_LIMIT_S + 5,
    ),
)
