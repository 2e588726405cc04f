"""Console and network captures of a session, and how their entries are counted and shown.

`event_capture.py` receives the events; `read_console_messages.py` and `read_network_requests.py` show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

import trio
from msgspec import Meta

from bridge.browser_tools.page import console_log, network_log
from bridge.browser_tools.page.console_log import Console
from bridge.browser_tools.page.event_capture import Capture, Switches
from bridge.browser_tools.page.frame_origins import FrameOrigins
from bridge.browser_tools.page.network_log import Network
from bridge.browser_tools.page.page import FRAME_S, Page
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool_output import ToolError
from bridge.errors import CallError

LIMIT = 100
"""Entries that a call shows unless it names another number."""
KEPT_BODY_BYTES = 1024 * 1024
"""Size of the largest response that the browser keeps."""
KEPT_BODIES_BYTES = 16 * 1024 * 1024
"""Size of all responses that the browser keeps for a tab."""
SENT_BODY_BYTES = 64 * 1024
"""Size of the largest request body that the browser reports."""

CONSOLE_SWITCHES: Switches = (("Runtime.enable", {}), ("Log.enable", {}))
NETWORK_SWITCHES: Switches = (
    (
        "Network.enable",
        {
            "maxTotalBufferSize": KEPT_BODIES_BYTES,
            "maxResourceBufferSize": KEPT_BODY_BYTES,
            "maxPostDataSize": SENT_BODY_BYTES,
        },
    ),
)

Limit = Annotated[int, Meta(ge=1, description=f"How many at most, the newest (default {LIMIT}).")]


@dataclass
class Captures:
    """Captures of a session: console and network, by tab."""

    consoles: dict[Page, Capture[Console]] = field(default_factory=dict)
    networks: dict[Page, Capture[Network]] = field(default_factory=dict)

    def console_of(self, page: Page, url: str) -> Capture[Console]:
        """Return the capture of a tab that is at `url`."""
        if page not in self.consoles:
            self.consoles[page] = Capture(page, Console(url), console_log.EVENTS, CONSOLE_SWITCHES)
        return self.consoles[page]

    def network_of(self, page: Page, url: str) -> Capture[Network]:
        """Return the capture of a tab that is at `url`."""
        if page not in self.networks:
            self.networks[page] = Capture(page, Network(url), network_log.EVENTS, NETWORK_SWITCHES)
        return self.networks[page]

    def keep_only(self, pages: Iterable[Page]) -> None:
        """Drop the captures of all other tabs, which are closed."""
        kept = set(pages)
        self.consoles = {page: capture for page, capture in self.consoles.items() if page in kept}
        self.networks = {page: capture for page, capture in self.networks.items() if page in kept}


def get_captures(context: CallContext) -> Captures:
    """Return the captures of the call's session, without those of closed tabs."""
    captures = context.state.state_of(Captures)
    captures.keep_only(context.state.pages.values())
    return captures


def make_origin_filter(context: CallContext) -> Callable[[str], bool]:
    """Return a cached test whether documents of an origin may be read: a tab has frames of other sites."""
    return cache(context.may_read)


async def learn_frames(page: Page, known: FrameOrigins) -> None:
    """Learn the frames of a page; those of a page that is busy or in a dialog stay unknown."""
    with suppress(CallError, ToolError), trio.move_on_after(FRAME_S):
        known.add_context(await page.find_frames())


def format_count(what: str, shown: int, found: int, capture: Capture[Any]) -> str:
    """Return a sentence on how many entries are shown, found, and left out."""
    more = ""
    if dropped := capture.log.dropped:
        more = f" {dropped} older ones were dropped for want of room."
    if capture.left_out:
        more += f" {capture.left_out} events of the tab were left out: too many at once, or too long."
    if not found:
        return f"No {what} that was captured fits.{more}"
    if shown < found:
        return f"The newest {shown} of {found} {what}s that fit; limit and max_chars show more.{more}"
    return f"{found} {what}{'s' * (found != 1)}.{more}"


def join_sentences(sentences: Sequence[str], tab_id: int) -> str:
    """Return the sentences as one text, with the tab's id in place of `{tab}`."""
    return " ".join(filter(None, sentences)).replace("{tab}", str(tab_id))


def fit_latest(limit: int, lines: list[str]) -> list[str]:
    """Return as many of the last lines as `limit` characters hold, at least one."""
    room = limit
    for place in range(len(lines) - 1, -1, -1):
        room -= len(lines[place])
        if room < 0:
            return lines[min(place + 1, len(lines) - 1) :]
    return lines
