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

APPEARS_S = 2.0
"""Seconds in which an element may appear: pages show the next step a moment after a click."""
LOOK_S = 0.1
MAX_CANDIDATES = 10
MAX_SIMILAR = 5


class LocatedElement(NamedTuple):
    """An element of a document, found for this call."""

    ref: Ref
    frame: Frame
    other_origin: str = ""
    """Origin of its frame if a locator has led to another origin than the page's; else empty."""


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


async def locate_element(context: CallContext, page: Page, given: str | int | NamedElement) -> LocatedElement:
    """Return the element that a call names, and note if it is in a frame of another origin.

    What is done with it in this call is bound to the same document.

    Raises:
        GoneError: the frame of a ref is gone, or its site is forbidden.
        ToolError: the locator has another form, or no element fits it, or several do.
    """
    located = await find_located(context, page, given)
    if located.other_origin:
        page.happened.add_note(f"It is in a frame of {located.other_origin}.")
    return located


async def find_located(context: CallContext, page: Page, given: str | int | NamedElement) -> LocatedElement:
    """Return the same without the note. Raises as `locate_element`."""
    locator = parse_locator(given)
    if isinstance(locator, Ref):
        return LocatedElement(locator, await frame_of(context, page, locator))
    until = trio.current_time() + APPEARS_S
    while True:
        frames = readable_frames(context, await page.find_frames())[:MAX_FRAMES]
        found = await _look_in_frames(page, frames, locator)
        # A frame of another site may have a likeness of what the page itself has not shown yet.
        if _has_own(found, frames[0].origin) or trio.current_time() >= until:
            break
        await trio.sleep(LOOK_S)
    if found.found != 1:
        raise await _make_error(context, page, frames, locator, found)
    ((frame, element),) = found.elements
    is_own = frame.origin == frames[0].origin
    return LocatedElement(Ref(element.ref, frame.number), frame, "" if is_own else frame.origin)


def _has_own(found: _Candidates, origin: str) -> bool:
    """Return whether an element that fits is in a frame of this origin."""
    return any(frame.origin == origin for frame, _ in found.elements)


async def _look_in_frames(page: Page, frames: Sequence[Frame], locator: Locator) -> _Candidates:
    """Return the elements of all frames that fit: controls, or texts where there is no control."""
    best: int | None = None
    found = _Candidates(0, [])
    until = trio.current_time() + FRAMES_S
    for frame in frames:
        look = partial(_look_in, page, frame, locator)
        there = await (look_inside(look, remaining_patience(until)) if frame.number else look())
        if there is None or (there.rank is not None and best is not None and there.rank > best):
            continue
        if there.rank is not None and (best is None or there.rank < best):
            best, found = there.rank, _Candidates(0, [])
        elements = [*found.elements, *((frame, element) for element in there.matches)]
        found = _Candidates(found.found + there.found, elements)
    shown = [each for each in found.elements if each[1].visible]
    return found._replace(elements=shown) if found.found else found


async def _look_in(page: Page, frame: Frame, locator: Locator) -> _LocatorResult:
    await shadow_roots.adopt_roots(page, frame)
    answered = await page.call_script("locate", msgspec.to_builtins(locator), frame=frame)
    return msgspec.convert(answered, _LocatorResult)


async def _make_error(
    context: CallContext, page: Page, frames: Sequence[Frame], locator: Locator, found: _Candidates
) -> LocatorError:
    """Return the error for a locator that fits no element, or several, with the lines of candidates."""
    shown = found.elements[:MAX_CANDIDATES]
    if found.found:
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
