"""Size of results: the characters that a call shows by default, and what it may ask for.

Claude Code writes a result above 50 000 characters to a file, and shows its model the first 2 kB of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta, UnsetType

from bridge.browser_tools.tool_output import ToolResult, mark_page_text

MAX_CHARS = 20_000
"""Characters of page text that a call shows unless it names another number."""
MOST_CHARS = 1_000_000
MAX_SERIALIZED = 45_000
"""Characters of a result's texts as JSON, unless the caller asks for more."""
MAX_RESULT_CHARS = 500_000
"""Characters of a result that Claude Code still shows its model, for tools with `max_chars`."""
_NOTE_CHARS = 200

MaxChars = Annotated[int, Meta(ge=1, description="Default 20000.")]


def most_chars(max_chars: int | UnsetType) -> int:
    """Return the requested characters of a page, within the limits."""
    return min(max_chars, MOST_CHARS) if isinstance(max_chars, int) else MAX_CHARS


def serialized_size(text: str) -> int:
    """Return the characters of a text as JSON."""
    return len(msgspec.json.encode(text).decode())


def cut_page_text(answer: ToolResult, room: int, advice: str) -> ToolResult:
    """Return a result whose texts have at most `room` characters as JSON; `advice` says how to get the rest.

    Its page text is cut, and the message says so.
    """
    boundary = mark_page_text("", answer.origin)
    page_room = room - serialized_size(answer.output.message) - serialized_size(boundary) - _NOTE_CHARS
    excess = serialized_size(answer.page) - max(page_room, 0)
    if excess <= 0 or not answer.page or answer.is_marked:
        return answer
    shown = answer.page[: max(0, len(answer.page) - excess)]
    note = f" The answer is cut after {len(shown)} of {len(answer.page)} characters: {advice}."
    output = msgspec.structs.replace(answer.output, message=answer.output.message + note)
    return replace(answer, output=output, page=shown)
