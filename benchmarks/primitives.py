"""Resources of pages: lists, reads beside calls, updates; sampling; and the opening of Claude Code."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from benchmarks import limits, page
from benchmarks.conversation import PATIENCE_S, Conversation, EndError
from benchmarks.driver import DrivenCaller, driven
from benchmarks.loads import MB, RESULT_1MB, SMALL, Load, text_of
from benchmarks.mcp_client import CLIENT_INFO, Era, McpClient
from benchmarks.measuring import Measure, Samples, take_turns
from benchmarks.memory import resident_mb
from benchmarks.processes import Corner, started
from benchmarks.routes import BRIDGE, HOST, duplex, hosting, running_bridge
from benchmarks.subject import Bench
from benchmarks.table import Compared, Row, Table
from native_host.protocol import jsonrpc, wire
from native_host.system.home_layout import HomeLayout

RESOURCES, TABS, FRAMES = 10_000, 4, 3
"""In all, and how many tabs with how many page frames: a frame may announce 1 024 entries, a tab 4 096."""
READS, UPDATES = 5, 50
_ROUTE = "client's stdio → bridge → native host → extension's end"
_DOCUMENT = "doc://report"
_ID = b"\0"
"""Stands for the id of a request."""
_PAUSE_S = 0.05


def tables(bench: Bench) -> Iterator[Table]:
    """Measure on the full path."""
    yield _lists(bench)
    yield _reads(bench)
    yield _updates(bench)
    yield _sampling(bench)
    yield _openings(bench)


# ── Lists ───────────────────────────────────────────────────────────────────────────────────────────────────


def _lists(bench: Bench) -> Table:
    corner = Corner.below(bench.directory)
    said = page.announcements(TABS, resources=_many_resources())
    with hosting(bench, corner, said, []), running_bridge(corner) as conversation:
        client = McpClient(conversation, Era.STATELESS)
        client.shake_hands()
        pages = [_page_load(cursor) for cursor in _cursors(client)]
        request = partial(_list_request, Era.STATELESS)
        with driven(bench, corner, conversation, request) as caller:
            measure = partial(_all_pages_ms, caller, pages, bench.count(5))
            measure()
            samples = take_turns({"lists": measure}, bench.rounds)["lists"]
    frames = TABS * FRAMES
    what = f"{RESOURCES:,} resources in {frames} page frames".replace(",", " ")
    compared = [Compared(samples.p50, "ms", limits.LIST_10_000_RESOURCES_MS)]
    row = Row(what, f"resources/list, all {len(pages)} pages", samples.p50, samples.p99, compared=compared)
    note = f"{_ROUTE}, 2026-07-28, again and again; {bench.programs.name}; {bench.rounds} rounds"
    return Table("Lists of many resources", [row], note)


def _many_resources() -> dict[page.FrameKey, list[dict[str, Any]]]:
    """Return all resources by page frame."""
    frames = [(tab, frame) for tab in range(1, TABS + 1) for frame in range(FRAMES)]
    return {
        key: [_entry(number) for number in range(at, RESOURCES, len(frames))] for at, key in enumerate(frames)
    }


def _entry(number: int) -> dict[str, Any]:
    return {
        "uri": f"cart://item/{number}",
        "name": f"Item {number}",
        "description": f"Number {number} in the cart: what it is, what it costs and when it arrives.",
        "mimeType": "application/json",
        "size": 1_000 + number,
    }


def _cursors(client: McpClient[Conversation]) -> list[str | None]:
    """Return the cursors of all pages, as soon as all resources are listed."""
    until = time.monotonic() + PATIENCE_S
    while True:
        count, cursors, cursor = 0, [], ""
        while True:
            cursors.append(cursor or None)
            more = {"cursor": cursor} if cursor else {}
            answer = client.conversation.ask("resources/list", {**Era.STATELESS.meta, **more})
            count += sum(entry["uri"].startswith("mcpb://page/") for entry in answer["resources"])
            if not (cursor := answer.get("nextCursor", "")):
                break
        if count >= RESOURCES:
            return cursors
        if time.monotonic() > until:
            raise EndError(f"{count} of {RESOURCES} resources were listed")
        time.sleep(_PAUSE_S)


def _page_load(cursor: str | None) -> Load:
    arguments = msgspec.json.encode({"cursor": cursor} if cursor else {})
    return Load("resources/list", "", arguments, b"")


def _list_request(era: Era, load: Load) -> bytes:
    params = {**era.meta, **msgspec.json.decode(load.arguments)}
    return jsonrpc.request(_ID, "resources/list", msgspec.json.encode(params))


def _all_pages_ms(caller: DrivenCaller, pages: Sequence[Load], count: int) -> list[float]:
    return [sum(caller.call(each, 1).seconds[0] for each in pages) * 1e3 for _ in range(count)]


# ── Reads ───────────────────────────────────────────────────────────────────────────────────────────────────


def _reads(bench: Bench) -> Table:
    rows = [row for era in Era for row in _reads_of(bench, era)]
    note = f"{_ROUTE} → back; texts of the same length; {bench.programs.name}; {bench.rounds} rounds"
    return Table("A read beside a call", rows, note)


def _reads_of(bench: Bench, era: Era) -> Iterator[Row]:
    """Measure a read, a call, and the same call once more: its distance from the first is the run's noise."""
    corner = Corner.below(bench.directory)
    text = text_of(RESULT_1MB)
    content = {"uri": _DOCUMENT, "mimeType": "application/jsonl", "text": text}
    executed = wire.Executed(success=True, payload=msgspec.Raw(msgspec.json.encode({"contents": [content]})))
    answer = (b'"uri":"%b"' % _DOCUMENT.encode(), jsonrpc.result(_ID, msgspec.json.encode(executed)))
    said = page.announcements(resources={(1, 0): [{"uri": _DOCUMENT, "name": "Report"}]})
    with hosting(bench, corner, said, [answer, *page.answers()]), running_bridge(corner) as conversation:
        client = McpClient(conversation, era)
        client.shake_hands()
        prefix = client.listed(RESULT_1MB).removesuffix(RESULT_1MB.tool)
        call = client.request_by(lambda load: prefix + load.tool)
        uri = _public_uri(client, era)
        params = msgspec.json.encode({"uri": uri, **era.meta})
        read_request = jsonrpc.request(_ID, "resources/read", params)
        read = replace(RESULT_1MB, name="1 MB read")

        def request(load: Load) -> bytes:
            return read_request if load is read else call(load)

        with driven(bench, corner, conversation, request) as caller:
            loads = {"resources/read": read, "tools/call": RESULT_1MB, "tools/call, once more": RESULT_1MB}
            measures: dict[str, Measure] = {
                name: partial(_took_ms, caller, load, bench.count(READS)) for name, load in loads.items()
            }
            for measure in measures.values():
                measure()
            found = take_turns(measures, bench.rounds)
    for name, samples in found.items():
        limit = limits.READ_1MB_TO_CALL if name == "resources/read" else limits.NONE
        beside = [Compared(samples.ratio_to(found["tools/call"]), "times the call", limit)]
        compared = beside if name != "tools/call" else ()
        yield Row(f"{name}, {era.value}", "1 MB", samples.p50, samples.p99, compared=compared)


def _took_ms(caller: DrivenCaller, load: Load, count: int) -> list[float]:
    calls = caller.call(load, count)
    if calls.answer_bytes < MB:
        raise EndError(f"{load.name}: of {MB} bytes came {calls.answer_bytes}")
    return [seconds * 1e3 for seconds in calls.seconds]


def _public_uri(client: McpClient[Conversation], era: Era) -> str:
    """Wait until the page's document is listed; return its URI for clients."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for entry in client.conversation.ask("resources/list", era.meta)["resources"]:
            uri: str = entry["uri"]
            if uri.endswith(f"/{_DOCUMENT}"):
                return uri
        time.sleep(_PAUSE_S)
    raise EndError(f"{_DOCUMENT} was not listed within {PATIENCE_S:g} s")


# ── Updates ─────────────────────────────────────────────────────────────────────────────────────────────────


def _updates(bench: Bench) -> Table:
    rows = [_updates_of(bench, era) for era in Era]
    note = f"extension's end → native host → bridge → client's stdio; {bench.rounds} rounds"
    return Table("An update of a resource", rows, note)


def _updates_of(bench: Bench, era: Era) -> Row:
    with _subscribed(bench, era) as notify:
        measure = partial(_updates_ms, notify, bench.count(UPDATES))
        measure()
        samples = take_turns({"updates": measure}, bench.rounds)["updates"]
    compared = [Compared(samples.p50, "ms", limits.UPDATE_MS)]
    what = f"a subscriber, {era.value}"
    return Row(what, "notifications/resources/updated", samples.p50, samples.p99, compared=compared)


def _updates_ms(notify: Callable[[], None], count: int) -> list[float]:
    took = []
    for _ in range(count):
        began = time.perf_counter()
        notify()
        took.append((time.perf_counter() - began) * 1e3)
    return took


@contextmanager
def _subscribed(bench: Bench, era: Era) -> Iterator[Callable[[], None]]:
    """Subscribe to a resource; yield a function that updates it and waits until the client has the line."""
    corner = Corner.below(bench.directory)
    said = page.announcements(resources={(1, 0): [{"uri": _DOCUMENT, "name": "Report"}]})
    with _extension(corner, said) as extension, running_bridge(corner) as conversation:
        client = McpClient(conversation, era)
        client.shake_hands()
        uri = _public_uri(client, era)
        if era is Era.HANDSHAKE:
            params: dict[str, Any] = {"uri": uri}
        else:
            params = {"notifications": {"resourceSubscriptions": [uri]}, **era.meta}
        method = "resources/subscribe" if era is Era.HANDSHAKE else _LISTENING
        conversation.say({"jsonrpc": "2.0", "id": "subscribed", "method": method, "params": params})
        asked = extension.hear(lambda message: message.get("method") == "browser/watchResource")
        raw_for = msgspec.json.encode(asked["id"])
        extension.say(_to_client("browser/watching", raw_for, {}))
        update = _to_client("browser/resourceUpdated", raw_for, {"uri": _DOCUMENT})

        def notify() -> None:
            extension.say(update)
            _next_with(conversation, b"notifications/resources/updated")

        yield notify


@contextmanager
def _extension(corner: Corner, said: Sequence[bytes]) -> Iterator[Conversation]:
    """Start a native host, and be its extension."""
    ours, theirs = duplex("pipes")
    with started(corner, HOST, theirs.from_fd, theirs.to_fd):
        extension = Conversation("frames", *ours)
        for body in said:
            extension.say(body)
        yield extension


# ── Sampling ────────────────────────────────────────────────────────────────────────────────────────────────

REQUESTS = 20
"""A call may send so many."""
_UNLIMITED = """[pages]
sampling = "on"
requests_per_minute = 1_000_000
tokens_per_hour = 1_000_000_000
"""
_ASKED = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Sum this cart up in one line."}}],
    "maxTokens": 60,
}
_SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Two apples."}, "model": "m"}


def _sampling(bench: Bench) -> Table:
    corner = Corner.below(bench.directory)
    HomeLayout(corner.directory).config.write_text(_UNLIMITED)
    with _extension(corner, page.announcements()) as extension, running_bridge(corner) as conversation:
        client = McpClient(conversation, Era.HANDSHAKE, {"sampling": {}})
        client.shake_hands()
        name = client.listed(SMALL)
        measure = partial(_sampling_ms, extension, conversation, name, bench.count(REQUESTS))
        measure()
        samples = take_turns({"requests": measure}, bench.rounds)["requests"]
    compared = [Compared(samples.p50, "ms", limits.SAMPLING_MS)]
    what = f"a page's request, {Era.HANDSHAKE.value}"
    row = Row(what, "sampling/createMessage", samples.p50, samples.p99, compared=compared)
    note = f"extension's end → native host → bridge → client's stdio, and back; {bench.rounds} rounds"
    return Table("What a sampling request takes besides the client", [row], note)


def _sampling_ms(extension: Conversation, client: Conversation, name: str, count: int) -> list[float]:
    """Make a call whose page sends so many sampling requests, one after the other."""
    arguments = msgspec.Raw(SMALL.arguments)
    params = {"name": name, "arguments": arguments}
    client.say({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": params})
    call = extension.hear(lambda message: message.get("method") == "browser/executeTool")
    raw_for = msgspec.json.encode(call["id"])
    took = [_sample_ms(extension, client, raw_for, f"ext:{number}") for number in range(count)]
    executed = wire.Executed(success=True, payload=msgspec.Raw(SMALL.result))
    extension.say(jsonrpc.result(raw_for, msgspec.json.encode(executed)))
    client.hear(lambda message: message.get("id") == "call")
    return took


def _sample_ms(extension: Conversation, client: Conversation, raw_for: bytes, number: str) -> float:
    """Return how long a request and its response were on the way: not how long the client had it."""
    raw_id = msgspec.json.encode(number)
    asked = {"method": "sampling/createMessage", "params": _ASKED}
    request = _to_client("browser/pageRequest", raw_for, asked, raw_id)
    sent = time.perf_counter()
    extension.say(request)
    body = _next_with(client, b'"sampling/createMessage"')
    received = time.perf_counter()
    response = {"jsonrpc": "2.0", "id": msgspec.json.decode(body)["id"], "result": _SAMPLED}
    answered = time.perf_counter()
    client.say(response)
    body = _next_with(extension, raw_id)
    over = time.perf_counter()
    if b'"error"' in body:
        raise EndError(f"a sampling request was rejected: {body.decode()}")
    return (received - sent + over - answered) * 1e3


def _next_with(conversation: Conversation, text: bytes) -> bytes:
    """Return the next message that contains a text, undecoded."""
    until = time.monotonic() + PATIENCE_S
    while text not in (body := conversation.next_body(until)):
        pass
    return body


def _to_client(method: str, raw_for: bytes, params: dict[str, Any], raw_id: bytes = b"") -> bytes:
    """Encode a message of the extension to the client with the request `raw_for`."""
    raw = msgspec.Raw(msgspec.json.encode(params))
    return jsonrpc.address_to(jsonrpc.Envelope(method, id=msgspec.Raw(raw_id), params=raw), raw_for)


# ── The opening of Claude Code ──────────────────────────────────────────────────────────────────────────────

_OF_CLAUDE_CODE = {
    "io.modelcontextprotocol/protocolVersion": Era.STATELESS.value,
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {
        "roots": {"listChanged": True},
        "elicitation": {"form": {}, "url": {}},
    },
}
_LISTENING = "subscriptions/listen"
"""A request whose response is not due."""
_OPENING: Mapping[str, dict[str, Any]] = {
    "server/discover": {},
    _LISTENING: {
        "notifications": {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    },
    "prompts/list": {},
    "resources/list": {},
    "tools/list": {},
}
_USES: Mapping[str, dict[str, Any]] = {
    "resources/read": {"uri": "mcpb://page/shop.example/tab1/cart://1"},
    "prompts/get": {"name": "debug-page", "arguments": {"tab": "tab=7"}},
}
"""Of its resource tool, and of a slash command."""


def _openings(bench: Bench) -> Table:
    requests = {"its opening": _OPENING, "its opening, a read and a slash command": {**_OPENING, **_USES}}
    with _beside_browser(bench) as corner:
        alone = Corner.below(bench.directory)
        resident: dict[str, list[float]] = {}
        measures: dict[str, Measure] = {}
        for where, at in (("no browser", alone), ("one browser", corner)):
            for said, asked in requests.items():
                name = f"mcpb bridge, {where}: {said}"
                resident[name] = []
                measures[name] = partial(_opening_ms, at, asked, resident[name])
        for measure in measures.values():
            measure()
        found = take_turns(measures, bench.rounds)
    rows = [_opening_row(name, samples, max(resident[name])) for name, samples in found.items()]
    note = (
        f"from the start of the process to the last response, as Claude Code {CLIENT_INFO['version']} "
        f"sends them, in one burst; {bench.rounds} rounds"
    )
    return Table("The opening of Claude Code", rows, note)


def _opening_row(name: str, samples: Samples, megabytes: float) -> Row:
    compared = [Compared(megabytes, "MB afterwards", limits.OPENING_MB)]
    if name.endswith("its opening"):
        compared.insert(0, Compared(samples.p50, "ms", limits.OPENING_MS))
    what, _, load = name.partition(": ")
    return Row(what, load, samples.p50, samples.p99, compared=compared)


@contextmanager
def _beside_browser(bench: Bench) -> Iterator[Corner]:
    corner = Corner.below(bench.directory)
    said = page.announcements(resources={(1, 0): [{"uri": "cart://1", "name": "Cart"}]})
    contents = {"contents": [{"uri": "cart://1", "text": "2 apples"}]}
    executed = wire.Executed(success=True, payload=msgspec.Raw(msgspec.json.encode(contents)))
    answer = (b'"uri":"cart://1"', jsonrpc.result(_ID, msgspec.json.encode(executed)))
    with hosting(bench, corner, said, [answer]):
        yield corner


def _opening_ms(corner: Corner, asked: Mapping[str, dict[str, Any]], resident: list[float]) -> list[float]:
    """Start a bridge and wait for its responses; `resident` gets its memory after the last of them, in MB."""
    messages = [
        {"jsonrpc": "2.0", "id": method, "method": method, "params": {**params, "_meta": _OF_CLAUDE_CODE}}
        for method, params in asked.items()
    ]
    lines = b"".join(msgspec.json.encode(message) + b"\n" for message in messages)
    due = set(asked) - {_LISTENING}
    began = time.perf_counter()
    with started(corner, BRIDGE, subprocess.PIPE, subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(lines)
        process.stdin.flush()
        conversation = Conversation("lines", process.stdout.fileno(), process.stdin.fileno())
        while due:
            due.discard(conversation.hear(lambda message: message.get("id") in due)["id"])
        took = (time.perf_counter() - began) * 1e3
        resident.append(resident_mb(process.pid))
    return [took]
