"""Page frames that a call may read, and the origins of their texts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import trio

from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.page.page import FRAME_S, Frame, GoneError, Page, look_inside
from bridge.browser_tools.session.call_context import CallContext
from bridge.origins import OPAQUE

MAX_FRAMES = 50
MAX_ORIGINS = 3
"""That are named as those whose words are in an answer."""
FRAMES_S = 15.0

_OF_PAGES = ("http", "https", "about", "", "blob", "filesystem", "data", "file")


class HasOrigin(Protocol):
    """What a document has answered, with its `self.origin`."""

    origin: str


T = TypeVar("T")
FromDocument = TypeVar("FromDocument", bound=HasOrigin)


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


def divide_frames(frames: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """Return the frames whose address is of the page's own origin or of none, and the others.

    Those without an address of their own may be of another origin all the same: see `divide_answers`.
    """
    own = [frame for frame in frames if frame.origin == frames[0].origin]
    return own, [frame for frame in frames if frame.origin != frames[0].origin]


def divide_answers(
    answers: Sequence[tuple[Frame, FromDocument]],
) -> tuple[list[tuple[Frame, FromDocument]], list[tuple[Frame, FromDocument]]]:
    """Return the answers of documents of the page's own origin, and the others; the page's own is first.

    Rules judge a `data:` address, `srcdoc` or a sandboxed document by the site around it; but it may be what
    another site has put there. Its `self.origin` is opaque then.
    """
    page_origin = answers[0][1].origin
    own = [
        (frame, answer)
        for frame, answer in answers
        if frame.number == 0 or answer.origin == page_origin != OPAQUE
    ]
    return own, [each for each in answers if each not in own]


async def look_in_frames(
    frames: Sequence[Frame], look: Callable[[Frame], Awaitable[T]]
) -> list[tuple[Frame, T]]:
    """Return what `look` returns in each frame; without frames that go away, have crashed or hang.

    Raises what `look` raises in the main frame.
    """
    found = []
    until = trio.current_time() + FRAMES_S
    for frame in frames:
        there = partial(look, frame)
        result = await (look_inside(there, remaining_patience(until)) if frame.number else there())
        if result is not None:
            found.append((frame, result))
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
