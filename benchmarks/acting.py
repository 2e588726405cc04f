"""What agents do most in a browser: go to a page, read it, click, look at it. By us, and by other products.

Each has a Chromium of its own, headless, on the same page. That of mcpb is like a user's, with the
extension; theirs are driven through a debugging port or pipe.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import trio

import extension
from benchmarks import calls, peers, routes
from benchmarks.conversation import PATIENCE_S, Conversation, EndError
from benchmarks.loads import Load
from benchmarks.mcp_client import McpClient
from benchmarks.processes import Corner
from benchmarks.subject import Bench, Caller, Calls, Role, Subject
from benchmarks.table import Row, Table
from demo.chromium import find_chromium, open_chromium
from demo.environment import Place
from demo.served_page import served_page

NAVIGATE = Load("navigate", "navigate", b"{}", b"")
READ = Load("read the page", "read_page", b"{}", b"")
CLICK = Load("click a button", "computer", b"{}", b"")
SCREENSHOT = Load("screenshot", "computer", b"{}", b"")
OPERATIONS = {NAVIGATE: 5, READ: 10, CLICK: 10, SCREENSHOT: 5}

_PAGE = Path(__file__).with_name("acting.html")
_TITLE = "What agents do in a real Chromium"
_BUTTON = "Count me"
_PAUSE_S = 0.05


@dataclass(frozen=True)
class Ways:
    """The tools of one product for the operations."""

    navigate: Callable[[str], tuple[str, dict[str, Any]]]
    read: tuple[str, dict[str, Any]]
    button: re.Pattern[str]
    """In what reading gives: the name of the button, as its first group."""
    click: Callable[[str], tuple[str, dict[str, Any]]]
    screenshot: tuple[str, dict[str, Any]]


OURS = Ways(
    navigate=lambda url: ("navigate", {"url": url}),
    read=("read_page", {}),
    button=re.compile(rf'button "{_BUTTON}".*?\[(\d+)'),
    click=lambda ref: ("computer", {"action": "left_click", "ref": ref}),
    screenshot=("computer", {"action": "screenshot"}),
)
PLAYWRIGHT = Ways(
    navigate=lambda url: ("browser_navigate", {"url": url}),
    read=("browser_snapshot", {}),
    button=re.compile(rf'button "{_BUTTON}".*?\[ref=(\w+)\]'),
    click=lambda ref: ("browser_click", {"element": _BUTTON, "target": ref}),
    screenshot=("browser_take_screenshot", {"type": "jpeg"}),
)
DEVTOOLS = Ways(
    navigate=lambda url: ("navigate_page", {"pageId": 1, "type": "url", "url": url}),
    read=("take_snapshot", {"pageId": 1}),
    button=re.compile(rf'uid=(\S+) button "{_BUTTON}"'),
    click=lambda ref: ("click", {"pageId": 1, "uid": ref}),
    screenshot=("take_screenshot", {"pageId": 1, "format": "jpeg"}),
)
"""The one page that it has opened is number 1."""


class Actor:
    """A `Caller` that does the operations in a product's way."""

    def __init__(self, client: McpClient[Conversation], ways: Ways, url: str) -> None:
        self._client = client
        self._ways = ways
        self._url = url
        self._button = ""
        self._number = 0

    def call(self, load: Load, count: int, depth: int = 1) -> Calls:  # noqa: ARG002 - one after the other
        """See `Caller`."""
        if not self._number:
            self._do(NAVIGATE)
        if load is CLICK:
            self._find_button()
        began = time.monotonic()
        seconds = [self._do(load) for _ in range(count)]
        return Calls(seconds, time.monotonic() - began, 0)

    def _find_button(self) -> None:
        """Its name in the document that is there: who clicks has read the page."""
        found = self._ways.button.search(text_of(self._ask(*self._ways.read)))
        if not found:
            raise EndError(f"{self._ways.read[0]} shows no button {_BUTTON}")
        self._button = found[1]

    def _do(self, load: Load) -> float:
        tool, arguments = self._asked(load)
        began = time.perf_counter()
        self._ask(tool, arguments)
        return time.perf_counter() - began

    def _asked(self, load: Load) -> tuple[str, dict[str, Any]]:
        if load is NAVIGATE:
            self._number += 1
            return self._ways.navigate(f"{self._url}?{self._number}")
        if load is CLICK:
            return self._ways.click(self._button)
        return self._ways.read if load is READ else self._ways.screenshot

    def _ask(self, tool: str, arguments: dict[str, Any]) -> Any:
        result = self._client.conversation.ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise EndError(f"{tool} failed: {text_of(result)[:300]}")
        return result


def text_of(result: dict[str, Any]) -> str:
    """Return the text of a CallToolResult."""
    return "\n".join(block.get("text", "") for block in result["content"])


def tables(bench: Bench) -> Iterator[Table]:
    """Each operation, by all."""
    if missing := peers.missing_chromium():
        yield Table(_TITLE, [Row("mcpb", note=missing)])
    else:
        yield trio.run(_measured, bench)


async def _measured(bench: Bench) -> Table:
    """Blocks while operations are done: there is nothing to hear from the browser meanwhile."""
    place = Place(Corner.below(bench.directory).directory)
    place.register_host()
    with served_page(_PAGE.read_text()) as url, place.browser_log.open("wb") as log:
        browser = open_chromium(
            place.profile, executable=find_chromium(), env=place.browser_environment, stderr=log.fileno()
        )
        async with browser as chromium:
            await chromium.load_extension(Path(next(iter(extension.__path__))))
            ours = Subject("mcpb", partial(_ours, place, url), Role.OURS, OPERATIONS)
            others = peers.driver_subjects(OPERATIONS, partial(_acting, url))
            rows = _rows(bench, [ours, *others])
    note = f"client's stdio → … → {chromium.version}, headless, and back; {bench.rounds} rounds"
    return Table(_TITLE, rows, note)


def _rows(bench: Bench, subjects: Sequence[Subject]) -> list[Row]:
    rows: list[Row] = []
    for load, count in OPERATIONS.items():
        measure = partial(_round, load, bench.count(count))
        found = calls.measured(bench, subjects, measure)
        rows += [calls.row(subject, load, found, {}) for subject in subjects]
    return rows


def _round(load: Load, count: int, caller: Caller) -> list[float]:
    return [seconds * 1e3 for seconds in caller.call(load, count).seconds]


@contextmanager
def _ours(place: Place, url: str, _bench: Bench) -> Iterator[Caller]:
    with routes.running_bridge(Corner(place.home)) as conversation:
        client = McpClient(conversation)
        client.shake_hands()
        _until_connected(client)
        yield Actor(client, OURS, url)


def _until_connected(client: McpClient[Conversation]) -> None:
    until = time.monotonic() + PATIENCE_S
    asked = {"name": "tabs_context_mcp", "arguments": {}}
    while client.conversation.ask("tools/call", asked).get("isError"):
        if time.monotonic() > until:
            raise EndError("the browser has not connected")
        time.sleep(_PAUSE_S)


def _acting(url: str, package: str, client: McpClient[Conversation]) -> Caller:
    return Actor(client, PLAYWRIGHT if "playwright" in package else DEVTOOLS, url)
