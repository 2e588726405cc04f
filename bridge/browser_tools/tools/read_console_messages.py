"""`read_console_messages`: what a page has written to its console, and thrown."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from bridge.browser_tools.page.console_log import Entry
from bridge.browser_tools.page.credential_masking import masked_url
from bridge.browser_tools.page.event_capture import Began
from bridge.browser_tools.page.safe_regex import compile_pattern
from bridge.browser_tools.result_size import MAX_RESULT_CHARS, MaxChars, most_chars
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolOutput, ToolResult
from bridge.browser_tools.tools.captured_events import (
    LIMIT,
    Limit,
    fit_latest,
    format_count,
    get_captures,
    join_sentences,
    learn_frames,
    make_origin_filter,
)
from native_host.protocol.untrusted_text import multi_line


class ReadConsole(ToolInput):
    """Input of `read_console_messages`."""

    tab_id: MaybeTab = msgspec.field(name="tabId", default=UNSET)
    only_errors: bool | UnsetType = msgspec.field(name="onlyErrors", default=UNSET)
    clear: Annotated[bool, Meta(description="Forget them afterwards.")] | UnsetType = UNSET
    pattern: Annotated[str, Meta(description="Regular expression.")] | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET
    max_chars: MaxChars | UnsetType = UNSET


class Message(msgspec.Struct, rename="camel", omit_defaults=True):
    """A console message or an exception."""

    level: str
    text: str
    time: str
    place: str = ""
    count: int = 1
    stack: list[str] = []


class Messages(ToolOutput):
    """The newest that were wanted, the oldest of them first."""

    tab_id: int
    messages: list[Message]
    found: int


async def read_console_messages(given: ReadConsole, context: CallContext) -> ToolResult:
    """Begin to capture, and tell what was captured."""
    has_match = compile_pattern(given.pattern) if given.pattern else None
    place = await context.use_tab(given.tab_id)
    page = context.page_of(place)
    capture = get_captures(context).console_of(page, place.tab.url)
    await learn_frames(page, capture.log.frames)
    began = await capture.continue_capture()
    may_read = make_origin_filter(context)

    def matches_entry(entry: Entry) -> bool:
        return all(map(may_read, entry.possible_origins)) and (has_match is None or has_match(entry.text))

    newest, found = capture.log.find_latest(
        given.limit or LIMIT, only_errors=given.only_errors is True, fits=matches_entry
    )
    messages = [_make_message(entry) for entry in newest]
    lines = fit_latest(most_chars(given.max_chars), [_message_line(message) for message in messages])
    messages = messages[len(messages) - len(lines) :]
    sentences = [_BEGAN_CONSOLE[began], format_count("message", len(lines), found, capture)]
    if given.clear is True:
        capture.clear()
        sentences.append("All are forgotten now.")
    told = Messages(
        message=join_sentences(sentences, page.number),
        tab_id=page.number,
        messages=messages,
        found=found,
        untrusted=("messages",),
    )
    return ToolResult(told, "\n".join(lines), place.tab.origin)


_BEGAN_CONSOLE = {
    Began.NOW: (
        "The console of tab {tab} is captured from now on; of what was written before, what the browser "
        "still had is here. To see how the page begins, load it again."
    ),
    Began.AGAIN: "The browser had let go of tab {tab} meanwhile; its console is captured again now.",
    Began.EARLIER: "",
}


def _make_message(entry: Entry) -> Message:
    return Message(
        entry.level,
        multi_line(entry.text),
        entry.time,
        masked_url(multi_line(entry.place)),
        entry.count,
        [masked_url(multi_line(line)) for line in entry.stack],
    )


def _message_line(message: Message) -> str:
    times = f" (x{message.count})" if message.count > 1 else ""
    place = f"  [{message.place}]" if message.place else ""
    stack = "".join(f"\n    at {line}" for line in message.stack)
    return f"{message.time} {message.level}{times}: {message.text}{place}{stack}"


TOOLS = (
    Tool(
        name="read_console_messages",
        title="Read the console",
        description=(
            "What a page has written to its console and thrown, with place and stack. Capturing "
            "begins with the first call for a tab."
        ),
        search_hint="console log error exception debug",
        max_result_chars=MAX_RESULT_CHARS,
        input_type=ReadConsole,
        output_type=Messages,
        run=read_console_messages,
        is_read_only=True,
    ),
)
