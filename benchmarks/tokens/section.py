"""Tables of `make bench-tokens`: what an agent pays with mcpb, and with other products.

Tokens are o200k, of the texts that a model gets: those of mcpb are in the request bodies of Claude Code.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import trio

import extension
from benchmarks import limits, peers
from benchmarks.conversation import EndError
from benchmarks.mcp_client import McpClient
from benchmarks.processes import Corner
from benchmarks.routes import BRIDGE, running_bridge
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table
from benchmarks.tokens.drivers import (
    Cost,
    Driver,
    ThroughClaudeCode,
    ThroughMcp,
    count_tokens,
    open_agent_browser,
)
from benchmarks.tokens.pages import SIZES, make_page
from benchmarks.tokens.task_site import REPORT, Site, parsed_at, serving_site
from benchmarks.tokens.tasks import OURS, REPORT_NAME, TASKS, Call, Script, Task
from demo.chromium import find_chromium, open_chromium
from demo.environment import Place

_CONNECTED = "Tokens of being connected"
_READING = "Tokens of reading six pages"
_DOING = "Tokens and calls of five tasks"
_HANGING = "Navigating to a page whose script never comes"
_WHOLE = 200_000
"""Characters: `max_chars` of a read that leaves nothing out."""
_PAUSE_S = 0.05


def tables(bench: Bench) -> Iterator[Table]:
    """Being connected, reading, doing, and the navigation to a page that does not end."""
    if missing := _find_missing():
        yield Table(_CONNECTED, [Row(OURS, note=missing)])
        return
    yield from trio.run(_measured, bench)


def _find_missing() -> str:
    if missing := peers.missing_chromium():
        return missing
    packages = (peers.CLAUDE, peers.PLAYWRIGHT, peers.DEVTOOLS, peers.AGENT_BROWSER, "gpt-tokenizer")
    return "" if all(map(peers.version, packages)) else peers.NOT_INSTALLED


async def _measured(bench: Bench) -> list[Table]:
    """Blocks while scripts run: there is nothing to hear from the browser meanwhile."""
    place = Place(Corner.below(bench.directory).directory)
    place.register_host()
    files = place.directory / "files"
    files.mkdir()
    (files / REPORT_NAME).write_bytes(REPORT)
    (place.home / "config.toml").write_text(f'[browser]\nupload_dirs = ["{files}"]\n')
    with serving_site() as site, place.browser_log.open("wb") as log:
        browser = open_chromium(
            place.profile, executable=find_chromium(), env=place.browser_environment, stderr=log.fileno()
        )
        async with browser as chromium:
            await chromium.load_extension(Path(next(iter(extension.__path__))))
            return _all_tables(bench, place, site, files)


def _all_tables(bench: Bench, place: Place, site: Site, files: Path) -> list[Table]:
    with ExitStack() as stack:
        ours = ThroughClaudeCode(place.directory / "claude", BRIDGE, Corner(place.home).env)
        servers = {
            package: ThroughMcp(stack.enter_context(_open_server(bench, package)))
            for package in peers.DRIVERS
        }
        shell = stack.enter_context(open_agent_browser(bench.directory))
        drivers: dict[str, Driver] = {OURS: ours, **servers, peers.AGENT_BROWSER: shell}
        hanging = _hanging(place, site)
        return [
            _connected(place, ours, servers),
            _reading(drivers, site),
            _doing(drivers, shell.with_boundaries(), site, files),
            hanging,
        ]


@contextmanager
def _open_server(bench: Bench, package: str) -> Iterator[McpClient[Any]]:
    corner = Corner.below(bench.directory)
    with peers.serving(corner, peers.DRIVERS[package](corner)) as client:
        yield client


@contextmanager
def running_bridge_of(place: Place) -> Iterator[McpClient[Any]]:
    """Run a bridge that the browser has connected to."""
    with running_bridge(Corner(place.home)) as conversation:
        client = McpClient(conversation)
        client.shake_hands()
        until = time.monotonic() + 30
        while client.conversation.ask("tools/call", {"name": "tabs_context", "arguments": {}}).get("isError"):
            if time.monotonic() > until:
                raise EndError("the browser has not connected")
            time.sleep(_PAUSE_S)
        yield client


def _name(product: str) -> str:
    return " ".join((product, peers.version(product))).rstrip()


# ── Being connected ─────────────────────────────────────────────────────────────────────────────────────────


def _connected(place: Place, ours: ThroughClaudeCode, servers: Mapping[str, ThroughMcp]) -> Table:
    given = ours.converse([]).requests[0]["tools"]
    core = [tool for tool in given if tool["name"].startswith("mcp__") and not tool.get("defer_loading")]
    with running_bridge_of(place) as client:
        everything = ThroughMcp(client).list_tools()
    lists = {
        (OURS, "loaded at once, in Claude Code's request"): [_visible(tool, "input_schema") for tool in core],
        (OURS, "all tools"): [_visible(tool, "inputSchema") for tool in everything],
        **{
            (_name(package), "all tools"): [_visible(tool, "inputSchema") for tool in server.list_tools()]
            for package, server in servers.items()
        },
    }
    allowed = [limits.CONNECTED_CORE, limits.CONNECTED_ALL, *[limits.NONE] * len(servers)]
    counted = count_tokens([_dump(tools) for tools in lists.values()])
    rows = [
        Row(what, load, p50=tokens, unit="tokens", compared=[Compared(tokens, "tokens", limit)])
        for (what, load), tokens, limit in zip(lists, counted, allowed, strict=True)
    ]
    return Table(_CONNECTED, rows, "name, description and input schema of each tool, as JSON")


def _dump(tools: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(tools, ensure_ascii=False, separators=(",", ":"))


def _visible(tool: Mapping[str, Any], schema: str) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool.get("description", ""), "input_schema": tool[schema]}


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────

_READS: dict[str, dict[str, Callable[[str], list[Call]]]] = {
    "all": {
        OURS: lambda url: [Call("navigate", {"url": url}), Call("read_page", {"max_chars": _WHOLE})],
        peers.PLAYWRIGHT: lambda url: [Call("browser_navigate", {"url": url}), Call("browser_snapshot")],
        peers.DEVTOOLS: lambda url: [
            Call("navigate_page", {"pageId": 1, "type": "url", "url": url}),
            Call("take_snapshot", {"pageId": 1}),
        ],
        peers.AGENT_BROWSER: lambda url: [Call(f"agent-browser open {url}"), Call("agent-browser snapshot")],
    },
    "interactive": {
        OURS: lambda url: [
            Call("navigate", {"url": url}),
            Call("read_page", {"max_chars": _WHOLE, "filter": "interactive"}),
        ],
        peers.AGENT_BROWSER: lambda url: [
            Call(f"agent-browser open {url}"),
            Call("agent-browser snapshot -i"),
        ],
    },
}
_SUMS = {
    "all": (limits.PAGES_TOKENS, limits.PAGES_TO_BEST_PEER),
    "interactive": (limits.INTERACTIVE_TOKENS, limits.PAGES_TO_BEST_PEER),
}


def _reading(drivers: Mapping[str, Driver], site: Site) -> Table:
    rows: list[Row] = []
    for kind, ways in _READS.items():
        texts = {product: _read_pages(drivers[product], ways[product], site) for product in ways}
        sums = {product: sum(count_tokens(list(read.values()))) for product, read in texts.items()}
        best = min(tokens for product, tokens in sums.items() if product != OURS)
        for product, read in texts.items():
            counted = count_tokens(list(read.values()))
            rows += [
                Row(
                    _name(product),
                    f"{page}, {kind}",
                    p50=tokens,
                    unit="tokens",
                    note=_coverage(page, read[page]),
                )
                for page, tokens in zip(read, counted, strict=True)
            ]
            compared = _compare_sum(sums[product], best, *_SUMS[kind]) if product == OURS else []
            rows.append(
                Row(_name(product), f"sum, {kind}", p50=sums[product], unit="tokens", compared=compared)
            )
    return Table(_READING, rows, "after navigating; coverage: links and controls whose name is in the text")


def _read_pages(driver: Driver, way: Callable[[str], list[Call]], site: Site) -> dict[str, str]:
    def script() -> Script:
        for page in SIZES:
            for call in way(f"{site.url}/{page}"):  # noqa: UP028 - a list cannot be sent the texts
                yield call
        return ""

    cost = driver.run(script())
    return dict(zip(SIZES, cost.texts[1::2], strict=True))


def _compare_sum(tokens: int, best: int, most: limits.Limit, ratio: limits.Limit) -> list[Compared]:
    return [Compared(tokens, "tokens", most), Compared(tokens / best, "times the best peer", ratio)]


def _coverage(page: str, text: str) -> str:
    """Return the share of the names of links, buttons and labels that are in the text."""
    names = re.findall(
        r"<(?:a|button|label)\b[^>]*>(?:<[^>]*>)*([^<>]{2,})<", make_page(page, with_hidden=False)
    )
    found = sum(name.strip() in text for name in names)
    return f"coverage {100 * found / len(names):.0f} %"


# ── Doing ───────────────────────────────────────────────────────────────────────────────────────────────────


def _doing(drivers: Mapping[str, Driver], marking: Driver, site: Site, files: Path) -> Table:
    rows: list[Row] = []
    for task in TASKS:
        costs = {product: _do(task, product, drivers[product], site, files) for product in task.scripts}
        tokens = {product: sum(count_tokens(cost.texts)) for product, cost in costs.items()}
        rows += [
            Row(
                _name(product),
                task.name,
                p50=tokens[product],
                unit="tokens",
                compared=_compare_task(task, costs, tokens) if product == OURS else [],
                note=f"{cost.calls} calls, {sum(count_tokens(cost.arguments))} tokens of arguments",
            )
            for product, cost in costs.items()
        ]
        marked = _do(task, peers.AGENT_BROWSER, marking, site, files)
        name = f"{_name(peers.AGENT_BROWSER)} --content-boundaries"
        rows.append(Row(name, task.name, p50=sum(count_tokens(marked.texts)), unit="tokens"))
    return Table(_DOING, rows, "tokens of the results; the site's log shows that each task was done")


def _do(task: Task, product: str, driver: Driver, site: Site, files: Path) -> Cost:
    site.log.clear()
    cost = driver.run(task.scripts[product](site, files))
    if not task.is_done(site.log, cost.outcome):
        raise EndError(
            f"{product} has not done: {task.name}. Outcome {cost.outcome!r}; {cost.texts[-1][:2000]}"
        )
    return cost


def _compare_task(task: Task, costs: Mapping[str, Cost], tokens: Mapping[str, int]) -> list[Compared]:
    others = [product for product in costs if product != OURS]
    calls = costs[OURS].calls / min(costs[product].calls for product in others)
    ratio = tokens[OURS] / min(tokens[product] for product in others)
    compared = [
        Compared(calls, "times the calls of the best peer", limits.TASK_CALLS_TO_BEST_PEER),
        Compared(ratio, "times its tokens", limits.TASK_TOKENS_TO_BEST_PEER),
    ]
    if task is TASKS[0]:
        compared.append(Compared(costs[OURS].calls, "calls", limits.FORM_CALLS))
        compared.append(Compared(tokens[OURS], "tokens", limits.FORM_TOKENS))
    return compared


# ── Not waiting ─────────────────────────────────────────────────────────────────────────────────────────────


def _hanging(place: Place, site: Site) -> Table:
    with running_bridge_of(place) as client:
        seconds = {
            load: _navigate(client, site, wait)
            for load, wait in (("default", {}), ("wait: load", {"wait": "load"}))
        }
    allowed = {"default": limits.HANGING_S, "wait: load": limits.WAITING_FOR_LOAD_S}
    rows = [
        Row(OURS, load, p50=taken, unit="s", compared=[Compared(taken, "s", allowed[load])])
        for load, taken in seconds.items()
    ]
    return Table(
        _HANGING, rows, "from the parsed document, as the page reported it to its server, to the answer"
    )


def _navigate(client: McpClient[Any], site: Site, wait: Mapping[str, str]) -> float:
    site.log.clear()
    given = {"url": f"{site.url}/hanging", **wait}
    result = client.conversation.ask("tools/call", {"name": "navigate", "arguments": given})
    answered = time.monotonic()
    if result.get("isError"):
        raise EndError(f"navigate failed: {result['content']}")
    return answered - parsed_at(site.log)
