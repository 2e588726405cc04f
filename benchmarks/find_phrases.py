"""Descriptions of elements whose first result is the right one: `find` of mcpb beside `browser_find`.

Their author saw only pictures of the pages (tests/data/phrases.json). Those for `develop` may be read by
developers of `find`; of those for `score` only the count is shown.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec
import trio

import extension
from benchmarks import limits, peers
from benchmarks.mcp_client import McpClient
from benchmarks.processes import Corner
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table
from benchmarks.tokens.section import running_bridge_of
from demo.chromium import Page, find_chromium, open_chromium
from demo.devtools import DevTools
from demo.environment import Place

_DATA = Path(__file__).parents[1] / "tests/data"
_PAGES = _DATA / "phrases"
_TITLE = "The first result for a description of an element"
_WORLD = re.compile(r"mcpb [0-9a-f]{8}")
"""Name of the isolated world of a session; the extension has one as well, of another name."""
_JUDGE_S = 30
_REF = re.compile(r"\[(?:ref=)?([a-z]*\d[\w.]*)\]")


class Phrase(msgspec.Struct):
    """A description of an element of a page."""

    id: int
    page: str
    phrase: str
    expected: list[str]
    """CSS selectors; each element that one of them selects is right."""
    use: Literal["develop", "score"]


def read_phrases() -> list[Phrase]:
    """Return all descriptions, in the order of their pages."""
    phrases = msgspec.json.decode((_DATA / "phrases.json").read_bytes(), type=list[Phrase])
    return sorted(phrases, key=lambda each: (each.page, each.id))


def first_ref(text: str, phrase: str = "") -> str:
    """Return the first ref of a result; with a phrase, that of the first line that has it. Empty: none."""
    for line in text.splitlines():
        if phrase.lower() in line.lower() and (found := _REF.search(line)):
            return found[1]
    return ""


def is_meant(expected: Sequence[str], element: str) -> str:
    """Return the JavaScript expression for whether an element is one of those that are meant."""
    selectors = json.dumps(list(expected))
    return f"{selectors}.some((selector) => [...document.querySelectorAll(selector)].includes({element}))"


async def judge_ref(devtools: DevTools, page: Page, ref: str, expected: Sequence[str]) -> bool:
    """Return whether a ref of mcpb, in the main document of this page, is of an element that is meant."""
    if not ref.isdigit():
        return False
    with (
        trio.fail_after(_JUDGE_S),
        devtools.listen("Runtime.executionContextCreated", page.session) as created,
    ):
        await page.send("Runtime.enable")
        while not _WORLD.fullmatch((context := (await created.next())["context"])["name"]):
            pass
    await page.send("Runtime.disable")
    expression = is_meant(expected, f"mcpb.element({{ref: {ref}}})")
    answer = await page.send(
        "Runtime.evaluate", {"expression": expression, "contextId": context["id"], "returnByValue": True}
    )
    return answer["result"].get("value") is True


@dataclass
class _Counts:
    first: dict[str, int]
    total: dict[str, int]

    @classmethod
    def empty(cls) -> _Counts:
        uses = ("develop", "score")
        return cls(dict.fromkeys(uses, 0), dict.fromkeys(uses, 0))

    def add(self, phrase: Phrase, *, is_right: bool) -> None:
        self.first[phrase.use] += is_right
        self.total[phrase.use] += 1


def tables(bench: Bench) -> Iterator[Table]:
    """Both products on all descriptions."""
    if missing := peers.missing_chromium():
        yield Table(_TITLE, [Row("mcpb", note=missing)])
        return
    with serving_pages() as url:
        rows = _rows("mcpb find", trio.run(_count_ours, bench, url), limits.FOUND_FIRST)
        if missing := peers.missing_node() or (
            "" if peers.version(peers.PLAYWRIGHT) else peers.NOT_INSTALLED
        ):
            rows.append(Row(peers.PLAYWRIGHT, note=missing))
        else:
            name = f"{peers.PLAYWRIGHT} {peers.version(peers.PLAYWRIGHT)} browser_find"
            rows += _rows(name, _count_playwright(bench, url), limits.NONE)
    yield Table(_TITLE, rows, "descriptions for which it is the element that is meant")


def _rows(name: str, counts: _Counts, limit: limits.Limit) -> list[Row]:
    rows = [
        Row(name, f"{use}, {counts.total[use]} descriptions", p50=counts.first[use], unit="first")
        for use in counts.first
    ]
    every = sum(counts.first.values())
    compared = [Compared(every, "first", limit)]
    return [*rows, Row(name, f"all {sum(counts.total.values())}", p50=every, unit="first", compared=compared)]


@contextmanager
def serving_pages() -> Iterator[str]:
    """Serve the pages; the value is the address of their directory, without a slash at its end."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(_PAGES)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def _count_ours(bench: Bench, url: str) -> _Counts:
    place = Place(Corner.below(bench.directory).directory)
    place.register_host()
    counts = _Counts.empty()
    with place.browser_log.open("wb") as log:
        browser = open_chromium(
            place.profile, executable=find_chromium(), env=place.browser_environment, stderr=log.fileno()
        )
        async with browser as chromium:
            await chromium.load_extension(Path(next(iter(extension.__path__))))
            with running_bridge_of(place) as client:
                ask = partial(_ask, client)
                for name, phrases in groupby(read_phrases(), lambda each: each.page):
                    await trio.to_thread.run_sync(ask, "navigate", {"url": f"{url}/{name}"})
                    (target,) = [it for it in await chromium.targets() if it["url"] == f"{url}/{name}"]
                    page = await chromium.attach(target["targetId"])
                    for phrase in phrases:
                        text = await trio.to_thread.run_sync(ask, "find", {"query": phrase.phrase})
                        is_right = await judge_ref(chromium.devtools, page, first_ref(text), phrase.expected)
                        counts.add(phrase, is_right=is_right)
    return counts


def _count_playwright(bench: Bench, url: str) -> _Counts:
    corner = Corner.below(bench.directory)
    counts = _Counts.empty()
    with peers.serving(corner, peers.DRIVERS[peers.PLAYWRIGHT](corner)) as client:
        for name, phrases in groupby(read_phrases(), lambda each: each.page):
            _ask(client, "browser_navigate", {"url": f"{url}/{name}"})
            for phrase in phrases:
                text = _ask(client, "browser_find", {"text": phrase.phrase})
                ref = first_ref(text.partition("\n\n")[2], phrase.phrase)
                counts.add(phrase, is_right=bool(ref) and _judge_in_playwright(client, ref, phrase))
    return counts


def _judge_in_playwright(client: McpClient[Any], ref: str, phrase: Phrase) -> bool:
    function = f"(element) => 'meant: ' + {is_meant(phrase.expected, 'element')}"
    given = {"element": "the first result", "target": ref, "function": function}
    return "meant: true" in _ask(client, "browser_evaluate", given)


def _ask(client: McpClient[Any], tool: str, arguments: dict[str, Any]) -> str:
    result = client.conversation.ask("tools/call", {"name": tool, "arguments": arguments})
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
