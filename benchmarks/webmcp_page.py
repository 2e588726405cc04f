"""The page module in a real Chromium: what it adds to a `fetch` of the same call."""

from __future__ import annotations

import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from benchmarks import routes
from benchmarks.measuring import Measure, take_turns
from benchmarks.peers import missing_chromium
from benchmarks.processes import Corner
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table
from demo.chromium import Page, find_chromium, open_chromium

CALLS = 40
"""Of each way in a round."""
MODULE = Path(__file__).parents[1] / "webmcp"
_PAGE = Path(__file__).with_name("webmcp_page.html")
_TITLE = "A call of a remote tool in a page, in a real Chromium"
_FETCH, _MODULE = "fetch", "module"


async def measure(bench: Bench, url: str) -> Table:
    """Call the tool `echo` of the server at an address."""
    if missing := missing_chromium():
        return Table(_TITLE, [Row("the page module", note=missing)])
    corner = Corner.below(bench.directory)
    with _served(corner.directory / "page") as page_url, corner.log.open("wb") as log:
        browser = open_chromium(
            corner.directory / "profile",
            [routes.WEBMCP],
            executable=find_chromium(),
            env=corner.env,
            stderr=log.fileno(),
        )
        async with browser as chromium:
            page = await chromium.open_page(page_url)
            await page.wait_until("window.isReady")
            await page.evaluate(f"connect({json.dumps(url)})")
            measures = {way: _measure(bench, page, way) for way in (_FETCH, _MODULE)}
            found = await trio.to_thread.run_sync(take_turns, measures, bench.rounds)
            route = f"page in {chromium.version} → server-everything at another origin → back"
    fetched, called = found[_FETCH], found[_MODULE]
    added = Compared(called.difference_to(fetched), "ms more than fetch")
    rows = [
        Row("the page module's execute", "small call, mean of a round", called.p50, compared=[added]),
        Row("fetch alone", "small call, mean of a round", fetched.p50),
    ]
    return Table(_TITLE, rows, f"{route}; {bench.rounds} rounds")


def _measure(bench: Bench, page: Page, way: str) -> Measure:
    arguments = [way, bench.count(CALLS), "echo", {"message": "apple"}, "Echo: apple"]
    script = f"measure({', '.join(map(json.dumps, arguments))})"

    def call() -> list[float]:
        return [float(trio.from_thread.run(page.evaluate, script))]

    return call


class _Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Log nothing."""


@contextmanager
def _served(directory: Path) -> Iterator[str]:
    """Serve the page and the module; yield the page's URL."""
    shutil.copytree(MODULE, directory / "webmcp")
    shutil.copy(_PAGE, directory)
    handler = partial(_Files, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}/{_PAGE.name}"
        server.shutdown()
