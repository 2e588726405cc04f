"""Clipboard of a session: the text that it copied last, which its paste keys insert.

It never reads the system's clipboard, which belongs to the user. Text that a page's own button or script
copies is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bridge import origins
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool_output import ToolError

MAX_CHARS = 100_000
"""Characters of a session's text."""
_INSTEAD = "Use type with the text."


class CopiedText(NamedTuple):
    """A text with the sites that it comes from."""

    text: str
    origins: tuple[str, ...]
    """Origins of the frame and of the page around it."""


@dataclass
class SessionClipboard:
    """Text that a session copied last; None if unknown."""

    copied: CopiedText | None = None


async def copy_selection(context: CallContext, page: Page, main: Frame, frame: Frame) -> str:
    """Keep the text that is selected in a frame, before a copy key reaches it; return a sentence on it."""
    clipboard = context.state.state_of(SessionClipboard)
    clipboard.copied = None
    found = await page.call_script("copySelection", {"maxChars": MAX_CHARS}, frame=frame)
    text, chars = found["text"], found["chars"]
    if not chars:
        return "No text was selected: there is nothing that a paste key could insert."
    if not text:
        return f"The {chars} selected characters are too many for a paste key ({MAX_CHARS} are the most)."
    sites = dict.fromkeys((frame.origin, main.origin))
    clipboard.copied = CopiedText(text, tuple(filter(None, sites)))
    return f"Copied {chars} characters for your paste keys."


def text_to_paste(context: CallContext) -> str:
    """Return the text that a paste key inserts.

    Raises:
        ToolError: this session copied none, or a site that it comes from may not be used any more.
    """
    copied = context.state.state_of(SessionClipboard).copied
    if copied is None:
        raise ToolError(
            "A paste key inserts what you copied with a copy key (ctrl+c, ctrl+x) and never the user's "
            f"clipboard, and you have copied no text. {_INSTEAD}"
        )
    for origin in copied.origins:
        if not context.may_read(origin):
            raise ToolError(
                f"The text that you copied comes from {origins.format_origin(origin)}, which may not be "
                "used now."
            )
    return copied.text
