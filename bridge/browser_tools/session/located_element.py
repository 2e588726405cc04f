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
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.element_search import FoundElement, format_match, make_match, rank_elements
from bridge.browser_tools.session.readable_frames import (
    MAX_FRAMES,
    divide_answers,
    divide_frames,
    frame_of,
    look_in_frames,
    origins_of,
    read_refusal,
    readable_frames,
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

    origin: str
    rank: int | None
    found: int
    matches: list[FoundElement]


_Answer = tuple[Frame, _LocatorResult]
"""What fits in the document of a frame."""


class _Candidates(NamedTuple):
    """What fits best in some documents."""

    found: int
    elements: list[tuple[Frame, FoundElement]]


async def locate_element(context: CallContext, page: Page, given: str | int | NamedElement) -> LocatedElement:
    """Return the element that a call names.

    What is done with it in this call is bound to the same document. A locator never leads into a document of
    another origin, which could draw input to itself by a likeness of the page's own element; a ref may.

    Raises:
        GoneError: the frame of a ref is gone, or its site is forbidden.
        ToolError: the locator has another form, or not exactly one element fits it, of the page's own origin.
    """
    locator = parse_locator(given)
    if isinstance(locator, Ref):
        return LocatedElement(locator, await frame_of(context, page, locator))
    look = partial(_look_in, page, locator)
    until = trio.current_time() + APPEARS_S
    while True:
        frames = readable_frames(context, await page.find_frames())[:MAX_FRAMES]
        likely, others = divide_frames(frames)
        answers = await look_in_frames(likely, look)
        own, foreign = divide_answers(answers)
        found = _choose_best(own)
        if found.elements or trio.current_time() >= until:
            break
        await trio.sleep(LOOK_S)
    if found.found == 1:
        ((frame, element),) = found.elements
        return LocatedElement(Ref(element.ref, frame.number), frame)
    if found.elements:
        raise _make_error(context, page, _describe_several(locator, found), found.elements)
    elsewhere = await look_in_frames(others, look)
    is_incomplete = page.has_silent_frames or len(answers) + len(elsewhere) < len(frames)
    raise await _make_missing_error(context, page, frames, locator, [*foreign, *elsewhere], is_incomplete)


def _choose_best(answers: Sequence[_Answer]) -> _Candidates:
    """Return the elements that fit best: controls, or texts where there is no control."""
    ranks = [result.rank for _, result in answers if result.rank is not None]
    if not ranks:
        hidden = [(frame, element) for frame, result in answers for element in result.matches]
        return _Candidates(0, hidden)
    best = [(frame, result) for frame, result in answers if result.rank == min(ranks)]
    shown = [(frame, element) for frame, result in best for element in result.matches if element.visible]
    return _Candidates(sum(result.found for _, result in best), shown)


async def _look_in(page: Page, locator: Locator, frame: Frame) -> _LocatorResult:
    await shadow_roots.adopt_roots(page, frame)
    answered = await page.call_script("locate", msgspec.to_builtins(locator), frame=frame)
    return msgspec.convert(answered, _LocatorResult)


def _describe_several(locator: Locator, found: _Candidates) -> str:
    if not found.found:
        return f"No element that is shown fits {locator}. Nothing was done. Those that it selects are hidden."
    more = f" The first {MAX_CANDIDATES} are listed." if found.found > MAX_CANDIDATES else ""
    return (
        f"{found.found} elements fit {locator}. Nothing was done.{more} Give the ref of one, or say what "
        'it is in: button "Name" in "Text".'
    )


async def _make_missing_error(
    context: CallContext,
    page: Page,
    frames: Sequence[Frame],
    locator: Locator,
    foreign: Sequence[_Answer],
    is_incomplete: bool,
) -> LocatorError:
    """Return the error for a locator that fits nothing of the page's own; it lists what comes near."""
    shown = [each for each in _choose_best(foreign).elements if each[1].visible]
    if shown:
        origin_of = {frame.number: format_origin(result.origin) for frame, result in foreign}
        refs = [
            f"[{Ref(element.ref, frame.number)}] of {origin_of[frame.number]}"
            for frame, element in shown[:MAX_CANDIDATES]
        ]
        text = (
            f"Only elements in frames of other origins fit {locator}: {', '.join(refs)}. Nothing was done. "
            "Give the ref of one if it is meant."
        )
    elif locator.css:
        text = f"No element that is shown fits {locator}. Nothing was done."
    else:
        shown = await _find_similar(page, frames, locator)
        like = " Similar elements are listed." if shown else ""
        text = (
            f"No element fits {locator}. Nothing was done.{like} read_page with filter interactive shows all "
            "controls. A CSS selector begins with css=."
        )
    if is_incomplete:
        text += " A frame could not be searched."
    return _make_error(context, page, text, shown)


def _make_error(
    context: CallContext, page: Page, text: str, elements: Sequence[tuple[Frame, FoundElement]]
) -> LocatorError:
    if read_refusal(context, page):
        return LocatorError(text, [], "")
    shown = elements[:MAX_CANDIDATES]
    lines = [format_match(make_match(frame, element)) for frame, element in shown]
    return LocatorError(text, lines, origins_of(frame for frame, _ in shown))


async def _find_similar(
    page: Page, frames: Sequence[Frame], locator: Locator
) -> list[tuple[Frame, FoundElement]]:
    words = " ".join(filter(None, [locator.name, locator.role, locator.within and f"in {locator.within}"]))
    ranked = await rank_elements(page, frames, [words], MAX_SIMILAR)
    return [found for found in ranked.matches[0] if found[1].visible][:MAX_SIMILAR]
