"""Full path of the WebSocket proxy: foreign client → node → Chromium → page tool; beside it the native host.

One browser has both ways at once, and the same tool is called over both in the same rounds.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

import extension
from benchmarks import routes
from benchmarks.browser import page_html
from benchmarks.conversation import PATIENCE_S, Conversation, EndError
from benchmarks.loads import RESULT_1MB, SMALL, Load
from benchmarks.measuring import Measure, Samples, take_turns
from benchmarks.peers import missing_chromium
from benchmarks.processes import Corner
from benchmarks.proxy_relays import MCPB, ProxyNode, running_node
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table
from benchmarks.websocket_peer import HOST, WebSocketPeer
from demo.chromium import Chromium, Page, find_chromium, open_chromium
from demo.environment import Place
from demo.served_page import served_page
from native_host.protocol.wire import EXTENSION_ID

CALLS = {SMALL: 40, RESULT_1MB: 5}
"""Of each way in a round."""
_TITLE = "Calls of a page tool in a real Chromium, through the proxy and over the native host"
_PROXY, _NATIVE = "client → mcpb proxy → browser", "client → native host → browser"
_ANNOUNCED = ("browser/registerTools", "browser/updateTools")

Peer = WebSocketPeer | Conversation


def tables(bench: Bench) -> Iterator[Table]:
    """Measure calls of a page tool."""
    if missing := missing_chromium():
        yield Table(_TITLE, [Row(_PROXY, note=missing)])
    else:
        yield trio.run(_measured, bench)


async def _measured(bench: Bench) -> Table:
    place, corner = Place(Corner.below(bench.directory).directory), Corner.below(bench.directory)
    place.register_host()
    with (
        running_node(corner, has_home_issuer=True) as node,
        served_page(page_html()) as url,
        place.browser_log.open("wb") as log,
    ):
        browser = open_chromium(
            place.profile, executable=find_chromium(), env=place.browser_environment, stderr=log.fileno()
        )
        async with browser as chromium:
            await chromium.load_extension(Path(next(iter(extension.__path__))))
            await chromium.open_page(url)
            await _sign_in(chromium, node, corner)
            rows = await trio.to_thread.run_sync(_call_both, bench, node, corner, Corner(place.home))
            note = f"the page in {chromium.version}; no TLS; {bench.rounds} rounds"
    return Table(_TITLE, rows, note)


# ── Sign-in ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _sign_in(chromium: Chromium, node: ProxyNode, corner: Corner) -> None:
    """Connect the browser to the node, as its user does in the popup."""
    popup = await chromium.open_page(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
    await popup.evaluate("document.getElementById('show-details').click()")
    await popup.wait_until("!document.getElementById('proxy-address').readOnly")
    address = json.dumps(f"http://{HOST}:{node.port}")
    field = "document.getElementById('proxy-address')"
    await popup.evaluate(f"({field}.focus(), {field}.value = {address}, 0)")
    await _press(popup, "Connect")
    step = "document.getElementById('proxy-step').innerText"
    text = str(await popup.wait_until(f"{step}.includes('mcpb proxy approve') && {step}"))
    await trio.to_thread.run_sync(_run, corner, "approve", text.split("mcpb proxy approve ")[1][:9])
    await popup.wait_until("document.getElementById('proxy-state').textContent.startsWith('Connected')")
    await popup.close()


async def _press(popup: Page, text: str) -> None:
    button = "document.getElementById('proxy-button')"
    await popup.wait_until(f"{button}.textContent === '{text}'")
    await popup.evaluate(f"{button}.click()")


def _run(corner: Corner, *arguments: str) -> str:
    """Run a command of `mcpb proxy` in the home of the node; return its output."""
    command = [MCPB, "proxy", *arguments]
    run = subprocess.run(
        command, env=corner.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if run.returncode:
        raise EndError(f"mcpb proxy {arguments[0]} failed: {run.stderr}")
    return run.stdout.strip()


# ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────


def _call_both(bench: Bench, node: ProxyNode, corner: Corner, native: Corner) -> list[Row]:
    client = node.connect_client(_run(corner, "token", "--scope", "client"), wire=1)
    rows: list[Row] = []
    with closing(client):
        ways: dict[str, Peer] = {_PROXY: _connected(client), _NATIVE: routes.introduce(native)}
        documents = {way: _find_document(peer) for way, peer in ways.items()}
        for load, count in CALLS.items():
            measures: dict[str, Measure] = {
                way: partial(_call, peer, load, documents[way], bench.count(count))
                for way, peer in ways.items()
            }
            for measure in measures.values():
                measure()  # what happens once, happens before
            rows += _rows(load, take_turns(measures, bench.rounds))
    return rows


def _connected(client: WebSocketPeer) -> WebSocketPeer:
    """Connect a client to the only browser, as soon as that is there."""
    until = time.monotonic() + PATIENCE_S
    while not (listed := client.ask("list_extensions", {})["extensions"]):
        if time.monotonic() > until:
            raise EndError("no browser is connected to the proxy")
        time.sleep(0.05)
    client.ask("connect", {"extension_id": listed[0]["id"]})
    return client


def _find_document(peer: Peer) -> dict[str, Any]:
    """Wait until the page's tools are announced; return the address of its document."""

    def has_tools(message: dict[str, Any]) -> bool:
        return message.get("method") in _ANNOUNCED and any(
            each["name"] == SMALL.tool for each in message["params"]["tools"]
        )

    params = peer.hear(has_tools)["params"]
    return {name: params[name] for name in ("tabId", "frameId", "documentId")}


def _call(peer: Peer, load: Load, document: dict[str, Any], count: int) -> list[float]:
    """Return the ms of each call."""
    params = {**document, "toolName": load.tool, "args": msgspec.Raw(load.arguments)}
    took: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        result = peer.ask("browser/executeTool", params)
        took.append((time.perf_counter() - began) * 1e3)
        if not result.get("success"):
            raise EndError(f"{load.name}: {str(result)[:300]}")
    return took


def _rows(load: Load, found: dict[str, Samples]) -> Iterator[Row]:
    ratio = Compared(found[_PROXY].ratio_to(found[_NATIVE]), "times the native host")
    for way, samples in found.items():
        compared = [ratio] if way == _PROXY else []
        yield Row(way, load.name, samples.p50, samples.p99, compared=compared)
