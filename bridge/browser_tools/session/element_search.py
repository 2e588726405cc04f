"""Search of a page's frames for elements by words (`find.js`), and the lines that show what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from bridge.browser_tools.page import shadow_roots
from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.session.readable_frames import look_in_frames
from native_host.protocol.untrusted_text import single_line

MAX_ADDRESS = 300
WORST_SHARE = 0.7
"""Of the best score: worse elements are left out, as `find.js` does in a document."""


class FoundElement(msgspec.Struct, rename="camel"):
    """One of the elements that `mcpb.find` or `mcpb.locate` has found in a document."""

    ref: int
    role: str
    name: str
    text: str
    context: str
    score: float = 0
    visible: bool = True


class Match(msgspec.Struct, rename="camel"):
    """An element that was found."""

    ref: str
    role: str
    name: str
    text: str
    context: str
    """What it is in, if others have its role and name."""
    visible: bool
    frame: str
    """The address of the frame that it is in; empty: the main one."""


class _Matches(msgspec.Struct, rename="camel"):
    """What fits one description, in one document."""

    matches: list[FoundElement]
    found: int
    complete: bool
    """The best one has all words of the description itself."""


class _Answer(msgspec.Struct, rename="camel"):
    """Result of `mcpb.find`."""

    results: list[_Matches]
    truncated: bool


@dataclass
class Ranking:
    """What fits some descriptions, in all frames."""

    matches: list[list[tuple[Frame, FoundElement]]]
    """Of each description, the best first."""
    counts: list[int]
    is_whole: bool = False
    """An element has all words of the first description itself."""
    is_cut: bool = False
    """A document is too large to look at all of it."""


async def rank_elements(page: Page, frames: Sequence[Frame], queries: Sequence[str], limit: int) -> Ranking:
    """Return the elements of these frames that fit each of the descriptions, at most so many of each frame.

    Raises as `Page.call_script` for the main frame; frames inside of it that do not answer are left out.
    """
    ranking = Ranking([[] for _ in queries], [0] * len(queries))
    for frame, answered in await look_in_frames(frames, partial(_find_in, page, queries, limit)):
        for number, result in enumerate(answered.results):
            ranking.matches[number] += [(frame, element) for element in result.matches]
            ranking.counts[number] += result.found
        ranking.is_whole |= answered.results[0].complete
        ranking.is_cut |= answered.truncated
    ranking.matches = [_drop_worse(found) for found in ranking.matches]
    return ranking


async def _find_in(page: Page, queries: Sequence[str], limit: int, frame: Frame) -> _Answer:
    await shadow_roots.adopt_roots(page, frame)
    answered = await page.call_script("find", {"queries": queries, "limit": limit}, frame=frame)
    return msgspec.convert(answered, _Answer)


def _drop_worse(found: list[tuple[Frame, FoundElement]]) -> list[tuple[Frame, FoundElement]]:
    """Return the best ones of all frames, the best first: each frame has judged its own only."""
    ordered = sorted(found, key=lambda each: (not each[1].visible, -each[1].score))
    least = WORST_SHARE * ordered[0][1].score if ordered else 0
    return [each for each in ordered if each[1].score >= least]


def make_match(frame: Frame, element: FoundElement) -> Match:
    """Return the match for an element of a frame."""
    return Match(
        ref=str(Ref(element.ref, frame.number)),
        role=element.role,
        name=element.name,
        text=element.text if element.text != element.name else "",
        context=element.context,
        visible=element.visible,
        frame=single_line(frame.url, MAX_ADDRESS) if frame.number else "",
    )


def format_match(match: Match) -> str:
    """Return the line of an element."""
    said = [match.role]
    if match.name:
        said.append(_quote_text(match.name))
    said.append(f"[{match.ref}]")
    if match.context:
        said.append(f"in {_quote_text(match.context)}")
    if match.text:
        said.append(f"text={_quote_text(match.text)}")
    if not match.visible:
        said.append("not visible")
    if match.frame:
        said.append(f"in the frame {match.frame}")
    return " ".join(said)


def _quote_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
