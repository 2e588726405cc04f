"""Page frames that a call may read, and the origins of their texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import trio

from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.page.page import FRAME_S, Frame, GoneError, Page
from bridge.browser_tools.session.call_context import CallContext

MAX_FRAMES = 50
MAX_ORIGINS = 3
"""That are named as those whose words are in an answer."""
FRAMES_S = 15.0

_OF_PAGES = ("http", "https", "about", "", "blob", "filesystem", "data", "file")


def remaining_patience(until: float) -> float:
    """Seconds for the next frame, of those that there are for all."""
    return max(0.0, min(FRAME_S, until - trio.current_time()))


def readable_frames(context: CallContext, frames: Sequence[Frame]) -> list[Frame]:
    """Without those of sites that may not be used, and what is in them; in the same order.

    DevTools would show what other extensions put into a page as well: a password manager's, for instance.

    Raises:
        ToolError: the tab itself is at such a site by now.
    """
    found: list[Frame] = []
    left_out: set[str] = set()
    for frame in frames:
        if not frame.number:
            context.check_here(frame.origin)
        scheme = frame.url.partition(":")[0]
        may_be_read = scheme in _OF_PAGES and context.may_read(frame.origin)
        if frame.parent in left_out or (frame.number and not may_be_read):
            left_out.add(frame.id)
        else:
            found.append(frame)
    return found


async def frame_of(context: CallContext, page: Page, ref: Ref) -> Frame:
    """Return the document of an element.

    Raises:
        GoneError: it is gone, or its site is forbidden.
    """
    for frame in readable_frames(context, await page.find_frames()):
        if frame.number == ref.frame:
            return frame
    raise GoneError(f"The frame of {ref} is gone. read_page and find give refs of what is there now.")


def origins_of(frames: Iterable[Frame]) -> str:
    """Return the origins whose texts a result contains."""
    found = list(dict.fromkeys(frame.origin for frame in frames if frame.origin))
    more = " and others" if len(found) > MAX_ORIGINS else ""
    return ", ".join(found[:MAX_ORIGINS]) + more


def read_refusal(context: CallContext, page: Page) -> str:
    """Return the rule that forbids `read_page` there, and so to learn of the page's text otherwise."""
    policy = context.services.policy
    return policy.provided_refusal("read_page", page.origin or None, is_read_only=True)
