"""Elements that calls name: by a ref, or by a locator that fits a single element of the page's frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import trio

from bridge.browser_tools.page import shadow_roots
from bridge.browser_tools.page.element_locator import Locator, NamedElement, parse_locator
from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.page.page import Frame, Page, look_inside
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.element_search import FoundElement, format_match, make_match, rank_elements
from bridge.browser_tools.session.readable_frames import (
    FRAMES_S,
    MAX_FRAMES,
    frame_of,
    origins_of,
    read_refusal,
    readable_frames,
    remaining_patience,
)
from bridge.browser_tools.tool_output import Quote, ToolError
from bridge.origins import format_origin

APPEARS_S = 2.0
"""Seconds in which an element may appear: pages show the next step a moment after a click."""
LOOK_S = 0.1
MAX_CANDIDATES = 10
MAX_SIMILAR = 5


class LocatedElement(NamedTuple):
    """An element of a document, found for this call."""

    ref: Ref
    frame: Frame


class LocatorError(ToolError):
    """No element, or more than one, fits a locator; the lines of some are quoted."""

    def __init__(self, text: str, lines: Sequence[str], origin: str) -> None:
        super().__init__(text)
        self.quotes = [Quote("\n".join(lines), origin)] if lines else []


class _LocatorResult(msgspec.Struct, rename="camel"):
    """Result of `mcpb.locate`."""

    rank: int | None
    found: int
    matches: list[FoundElement]


class _Candidates(NamedTuple):
    found: int
    elements: list[tuple[Frame, FoundElement]]
    has_silent_frames: bool
    """True if a frame did not respond: its elements are missing."""


async def locate_element(context: CallContext, page: Page, given: str | int | NamedElement) -> LocatedElement:
    """Return the element that a call names.

    What is done with it in this call is bound to the same document. A locator never leads into a frame of
    another origin, which could draw input to itself by a likeness of the page's own element; a ref may.

    Raises:
        GoneError: the frame of a ref is gone, or its site is forbidden.
        ToolError: the locator has another form, or not exactly one element fits it, of the page's own origin.
    """
    locator = parse_locator(given)
    if isinstance(locator, Ref):
        return LocatedElement(locator, await frame_of(context, page, locator))
    until = trio.current_time() + APPEARS_S
    while True:
        frames = readable_frames(context, await page.find_frames())[:MAX_FRAMES]
        found = await _look_in_frames(page, frames, locator)
        own = [(frame, element) for frame, element in found.elements if frame.origin == frames[0].origin]
        if own or trio.current_time() >= until:
            break
        await trio.sleep(LOOK_S)
    if found.found != 1 or not own:
        raise await _make_error(context, page, frames, locator, found)
    ((frame, element),) = own
    return LocatedElement(Ref(element.ref, frame.number), frame)


async def _look_in_frames(page: Page, frames: Sequence[Frame], locator: Locator) -> _Candidates:
    """Return the elements of all frames that fit: controls, or texts where there is no control."""
    best: int | None = None
    count = 0
    elements: list[tuple[Frame, FoundElement]] = []
    has_silent_frames = page.has_silent_frames
    until = trio.current_time() + FRAMES_S
    for frame in frames:
        look = partial(_look_in, page, frame, locator)
        there = await (look_inside(look, remaining_patience(until)) if frame.number else look())
        if there is None:
            has_silent_frames = True
            continue
        if there.rank is not None and best is not None and there.rank > best:
            continue
        if there.rank is not None and (best is None or there.rank < best):
            best, count, elements = there.rank, 0, []
        count += there.found
        elements += [(frame, element) for element in there.matches]
    shown = [each for each in elements if each[1].visible]
    return _Candidates(count, shown if count else elements, has_silent_frames)


async def _look_in(page: Page, frame: Frame, locator: Locator) -> _LocatorResult:
    await shadow_roots.adopt_roots(page, frame)
    answered = await page.call_script("locate", msgspec.to_builtins(locator), frame=frame)
    return msgspec.convert(answered, _LocatorResult)


async def _make_error(
    context: CallContext, page: Page, frames: Sequence[Frame], locator: Locator, found: _Candidates
) -> LocatorError:
    """Return the error for a locator without exactly one element of the page's own; it lists candidates."""
    shown = found.elements[:MAX_CANDIDATES]
    if found.found == 1:
        ((frame, element),) = shown
        where = f"[{Ref(element.ref, frame.number)}] in a frame of {format_origin(frame.origin)}"
        text = f"Only {where} fits {locator}. Nothing was done. Give this ref if that element is meant."
    elif found.found:
        more = f" The first {len(shown)} are listed." if found.found > len(shown) else ""
        text = (
            f"{found.found} elements fit {locator}. Nothing was done.{more} Give the ref of one, or say what "
            'it is in: button "Name" in "Text".'
        )
    elif locator.css:
        like = " Those that it selects are hidden." if shown else ""
        text = f"No element that is shown fits {locator}. Nothing was done.{like}"
    else:
        shown = await _find_similar(page, frames, locator)
        like = " Similar elements are listed." if shown else ""
        text = (
            f"No element fits {locator}. Nothing was done.{like} read_page with filter interactive shows all "
            "controls. A CSS selector begins with css=."
        )
    if found.has_silent_frames:
        text += " A frame did not respond and was not searched."
    if read_refusal(context, page):
        return LocatorError(text, [], "")
    lines = [format_match(make_match(frame, element)) for frame, element in shown]
    return LocatorError(text, lines, origins_of(frame for frame, _ in shown))


async def _find_similar(
    page: Page, frames: Sequence[Frame], locator: Locator
) -> list[tuple[Frame, FoundElement]]:
    words = " ".join(filter(None, [locator.name, locator.role, locator.within and f"in {locator.within}"]))
    ranked = await rank_elements(page, frames, [words], MAX_SIMILAR)
    return [found for found in ranked.matches[0] if found[1].visible][:MAX_SIMILAR]
