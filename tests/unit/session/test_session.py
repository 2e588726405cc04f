"""McpSession while the mcp package is loaded: its answers, capabilities, and the lines it answers itself."""

from __future__ import annotations

import gc
import importlib
import json
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.lowlevel
import trio.testing

from bridge.errors import CallError
from bridge.hub.audit_records import FinishedCall, Record
from bridge.hub.page_tool import read_tools
from bridge.hub.registry import Frame
from bridge.mcp_session import client_messages
from bridge.mcp_session import session as mcp_session
from bridge.mcp_session.handover import GOODBYE_S
from bridge.mcp_session.mcp_server import browser_capabilities
from fake_transport import tools
from native_host.protocol import wire
from played_session import (
    GET_CART,
    HOLD,
    Played,
    Told,
    answer_all,
    asked,
    call,
    cancel,
    change,
    encoded,
    initialize,
    opened,
    report,
    session,
)
from wire_peers import until

SOON_S = 30
ERAS = ["2025-11-25", "2026-07-28"]
LISTEN = {"notifications": {"toolsListChanged": True}}


def usual_life(era: str) -> list[dict[str, Any]]:
    """What a client says that lives long and well."""
    start = [asked(era, 1, "server/discover"), asked(era, 2, "subscriptions/listen", LISTEN)]
    return [
        *(start if era == "2026-07-28" else [initialize(era), {"method": "notifications/initialized"}]),
        asked(era, 3, "tools/list"),
        call(era, 4, "list_page_tools", _meta={"progressToken": "four"}),
        call(era, 5, GET_CART),
        cancel(5),
        {"method": "notifications/roots/list_changed"},
    ]


@pytest.mark.parametrize("era", ERAS)
def test_a_bridge_needs_no_mcp_package_for_what_clients_usually_say(mcpb_home: Path, era: str) -> None:
    lines = b"".join(encoded(message) + b"\n" for message in usual_life(era))
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "bridge", "bridge"],
        input=lines,
        capture_output=True,
        check=True,
        timeout=30,
    )
    answered = {json.loads(line).get("id") for line in run.stdout.splitlines()}
    assert {3, 4} <= answered
    imported = {line.rpartition(b"|")[2].strip() for line in run.stderr.splitlines()}
    assert b"bridge.mcp_session.session" in imported
    assert not imported & {b"mcp", b"mcp_types", b"pydantic", b"anyio"}


@pytest.fixture
def may_load(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The package is not loaded before this is set."""
    may_load = threading.Event()

    def load(name: str) -> object:
        may_load.wait(SOON_S)
        return importlib.import_module(name)

    monkeypatch.delitem(sys.modules, "bridge.mcp_session.sdk_session", raising=False)
    monkeypatch.setattr(mcp_session, "import_module", load)
    return may_load


@pytest.mark.parametrize("era", ERAS)
async def test_what_needs_no_package_is_answered_while_it_is_loaded(
    era: str, may_load: threading.Event
) -> None:
    with trio.fail_after(SOON_S):
        async with session(leaves_all=False) as played:
            for message in [
                *opened(era),
                call(era, 1),
                asked(era, 2, "logging/setLevel"),
                call(era, 3, GET_CART),
            ]:
                await played.take(message)
            await trio.testing.wait_all_tasks_blocked()
            assert 3 in played.client.answered()
            assert 2 not in played.client.answered()
            may_load.set()
            while 2 not in played.client.answered():
                await trio.lowlevel.checkpoint()
            answer_all(played)
            await trio.testing.wait_all_tasks_blocked()
            assert 1 in played.client.answered()


@pytest.mark.parametrize("leaves_all", [False, True])
@pytest.mark.parametrize("era", ERAS)
async def test_what_concerns_a_request_goes_to_who_made_it(era: str, leaves_all: bool) -> None:
    asker = Told()
    with trio.fail_after(SOON_S):
        async with session(leaves_all=leaves_all) as played:
            for message in opened(era):
                await played.take(message)
            await trio.testing.wait_all_tasks_blocked()
            await played.session.handle_line(encoded(call(era, 1, HOLD, _meta={"progressToken": 7})), asker)
            await trio.testing.wait_all_tasks_blocked()
            report(played)
            change(played)
            answer_all(played)
            await trio.testing.wait_all_tasks_blocked()
    assert [message.get("method", message.get("id")) for message in asker.messages] == [
        "notifications/progress",
        "notifications/progress",
        1,
    ]
    assert 1 not in played.client.answered()


@pytest.mark.parametrize("leaves_all", [False, True])
@pytest.mark.parametrize("era", ERAS)
async def test_calls_that_are_open_when_a_session_is_ended_say_that_they_may_have_run(
    era: str, leaves_all: bool
) -> None:
    with trio.fail_after(2 * SOON_S):
        async with session(leaves_all=leaves_all) as played:
            for message in [*opened(era), call(era, 1)]:
                await played.take(message)
            await until(lambda: len(played.pages.held) == 1)
            await played.session.close()
    (result,) = [message["result"] for message in played.client.messages if message.get("id") == 1]
    assert result["isError"] is True
    assert "mcpb has ended this session. It may have run" in result["content"][0]["text"]
    assert played.pages.held[0].is_over


async def test_a_subscription_that_is_open_when_a_session_is_ended_is_closed() -> None:
    era = "2026-07-28"
    with trio.fail_after(2 * SOON_S):
        async with session(leaves_all=False) as played:
            await played.take(asked(era, 2, "subscriptions/listen", LISTEN))
            await played.session.close()
    (closed,) = [message for message in played.client.messages if "error" in message]
    assert (closed["id"], closed["error"]["message"]) == (2, "Connection closed")


@pytest.mark.parametrize("leaves_all", [False, True])
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_leaves_calls_open_gets_no_further_message(era: str, leaves_all: bool) -> None:
    with trio.fail_after(2 * SOON_S):
        async with session(leaves_all=leaves_all) as played:
            for message in [*opened(era), call(era, 1, HOLD, _meta={"progressToken": 7})]:
                await played.take(message)
            await until(lambda: len(played.pages.held) == 1)
            before = list(played.client.messages)
            ended_at = trio.current_time()
            await played.session.end_input(is_script=False)
            change(played)
            answer_all(played)
            await trio.testing.wait_all_tasks_blocked()
    assert trio.current_time() - ended_at < GOODBYE_S
    assert played.client.messages == before
    assert played.pages.held[0].is_over


@pytest.mark.parametrize("leaves_all", [False, True])
@pytest.mark.parametrize("era", ERAS)
async def test_a_script_is_answered_after_its_last_message(era: str, leaves_all: bool) -> None:
    with trio.fail_after(2 * SOON_S):
        async with session(leaves_all=leaves_all) as played:
            messages = [*opened(era), asked(era, 1, "tools/list"), asked(era, 2, "prompts/list")]
            for message in [*messages, call(era, 3)]:
                await played.take(message)
            await until(lambda: len(played.pages.held) == 1)
            played.nursery.start_soon(partial(played.session.end_input, is_script=True))
            answer_all(played)
            await until(lambda: {1, 2, 3} <= set(played.client.answered()))


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_has_ended_is_forgotten_at_once(era: str) -> None:
    """What it answered may be large, and the collector that finds cycles comes seldom."""
    with trio.fail_after(SOON_S):
        async with session(leaves_all=False) as played:
            for message in [*opened(era), call(era, 0, GET_CART)]:
                await played.take(message)
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                for number in range(1, 9):
                    await played.take(call(era, number))
                answer_all(played)
                played.pages.held.clear()
                played.pages.asked.clear()
                gc.collect()
                kept = {type(thing) for thing in gc.garbage if type(thing).__module__.startswith("bridge")}
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
    assert {1, 8} <= set(played.client.answered())
    assert kept == set()


async def test_a_client_that_reads_nothing_hears_of_changes_once_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = trio.Event()
    with trio.fail_after(SOON_S):
        async with session(leaves_all=False) as played:
            for message in opened(ERAS[0]):
                await played.take(message)
            monkeypatch.setattr(played.client, "wait_room", lambda _: reads.wait())
            change(played)
            await trio.testing.wait_all_tasks_blocked()
            unread = len(played.client.messages)
            reads.set()
            await trio.testing.wait_all_tasks_blocked()
    told = [message.get("method") for message in played.client.messages[unread:]]
    assert told == ["notifications/tools/list_changed"]


async def test_of_requests_with_the_same_id_none_stays_open_without_an_answer() -> None:
    importlib.import_module("bridge.mcp_session.sdk_session")
    with trio.fail_after(SOON_S):
        async with session(leaves_all=False) as played:
            await played.take(initialize(ERAS[0]))
            for _ in range(100):
                await played.take(asked(ERAS[0], 1, "prompts/list"))
            await trio.testing.wait_all_tasks_blocked()
            assert 1 in played.client.answered()
            assert not list(played.session.requests)


@pytest.mark.parametrize(
    ("params", "name", "field"),
    [
        ({"name": GET_CART, "arguments": ["secret"]}, GET_CART, "arguments: type"),
        ({"name": "list_page_tools", "arguments": "secret"}, "list_page_tools", "arguments: type"),
        ({"name": "call_page_tool", "arguments": 7}, "call_page_tool", "arguments: type"),
        ({"name": ["secret"]}, "", "name: type"),
        ({"arguments": {"secret": 1}}, "", "name: required"),
    ],
)
@pytest.mark.parametrize("era", ERAS)
async def test_a_call_with_malformed_params_is_recorded_with_field_and_rule(
    era: str, params: dict[str, Any], name: str, field: str
) -> None:
    kept: list[Record] = []
    with trio.fail_after(SOON_S):
        async with session(leaves_all=False, keep=kept.append) as played:
            for message in [*opened(era), asked(era, 1, "tools/call", params)]:
                await played.take(message)
            while 1 not in played.client.answered():
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
    (call,) = [record for record in kept if isinstance(record, FinishedCall)]
    assert (call.name, call.detail, call.outcome, call.handed) == (name, field, "invalid_params", False)
    assert call.arguments.raw == b"{}"


async def test_an_opening_that_the_package_cannot_read_ends_nothing() -> None:
    importlib.import_module("bridge.mcp_session.sdk_session")
    opening = encoded(initialize(ERAS[0])).replace(b'"params": {', b'"params": {"x": %b, ' % (b"1" * 5000))
    with trio.fail_after(SOON_S):
        async with session(leaves_all=False) as played:
            await played.take(opening)
            await played.take(asked(ERAS[0], 1, "prompts/list"))
            await played.take(asked(ERAS[0], 2, "ping"))
            await trio.testing.wait_all_tasks_blocked()
    assert set(played.client.answered()) == {"hello", 1, 2}


@pytest.mark.parametrize("leaves_all", [False, True])
@pytest.mark.parametrize(
    "answer", [{"result": None}, {"error": {"message": "x"}}, {"result": {}, "error": 1}]
)
async def test_what_is_no_answer_to_a_question_ends_it(answer: dict[str, Any], leaves_all: bool) -> None:
    with trio.fail_after(SOON_S):
        async with session(leaves_all=leaves_all) as played:
            await played.take(initialize(ERAS[0]))
            await played.take(call(ERAS[0], 1, HOLD))
            await trio.testing.wait_all_tasks_blocked()
            failed: list[CallError] = []
            played.nursery.start_soon(put_question, played, failed)
            await trio.testing.wait_all_tasks_blocked()
            (question,) = [one for one in played.client.messages if one.get("method") == "elicitation/create"]
            await played.take({"id": question["id"], **answer})
            await trio.testing.wait_all_tasks_blocked()
            assert [error.detail for error in failed] == ["the MCP client failed to ask the user"]


async def put_question(played: Played, failed: list[CallError]) -> None:
    try:
        await played.pages.held[0].caller.on_request(wire.ElicitConfirmation(message="Sure?"))
    except CallError as error:
        failed.append(error)


@pytest.mark.parametrize("era", ERAS)
async def test_a_list_that_is_cancelled_before_it_was_begun_is_not_answered(era: str) -> None:
    with trio.fail_after(SOON_S):
        async with session(leaves_all=False) as played:
            for message in opened(era):
                await played.take(message)
            await played.take(asked(era, 7, "tools/list"))
            await played.take(cancel(7))
            await trio.testing.wait_all_tasks_blocked()
    assert 7 not in played.client.answered()


# ── What all pages together add to MCP's capabilities ───────────────────────────────────────────────────────


def page(*, capabilities: dict[str, Any] | None = None, **tool: Any) -> Frame:
    announced: wire.FrameTools = tools(1)
    announced.tools = [msgspec.Raw(msgspec.json.encode({"name": "getCart", **tool}))]
    announced.capabilities = capabilities
    return Frame(announced, read_tools(announced))


def test_without_pages_only_tabs_are_many() -> None:
    assert browser_capabilities([]) == {
        "multiTabSupport": True,
        "cacheSupported": False,
        "elicitation": False,
    }


@pytest.mark.parametrize("name", ["cacheSupported", "elicitation"])
@pytest.mark.parametrize("wrap", [lambda browser: browser, lambda browser: {"experimental": browser}])
def test_what_any_page_declares_holds_for_all(name: str, wrap: Any) -> None:
    declaring = page(capabilities=wrap({"browser": {name: True}}))
    found = browser_capabilities([page(), declaring, page(capabilities={"browser": {name: False}})])
    assert found == {**browser_capabilities([]), name: True}


def test_a_tool_that_may_be_cached_declares_it_by_itself() -> None:
    assert browser_capabilities([page(annotations={"cache": True})])["cacheSupported"]
    assert not browser_capabilities([page(annotations={"cache": "yes"})])["cacheSupported"]


@pytest.mark.parametrize(
    "odd",
    [{"browser": True}, {"experimental": []}, {"browser": {"elicitation": 1, "multiTabSupport": False}}],
    ids=str,
)
def test_what_is_no_declaration_declares_nothing(odd: dict[str, Any]) -> None:
    assert browser_capabilities([page(capabilities=odd)]) == browser_capabilities([])


# ── Client lines that McpSession answers itself ────────────────────────────────────────────────────────────


LONG = "{[" * 5_000
"""Brackets in a text nest nothing."""
READ_DEPTH = 200
"""So deep the package reads, or a little deeper."""


def nested(depth: int) -> Any:
    """Arrays and objects in turn."""
    value: Any = 1
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


def line_of(arguments: Any, meta: Any = None) -> bytes:
    params = {"name": "tool", "_meta": meta or {}, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


def is_taken(line: bytes) -> bool:
    return isinstance(client_messages.read_message(line), client_messages.CallTool)


@pytest.mark.parametrize("long", [{}, {"text": LONG}, {"texts": [LONG]}], ids=["short", "long", "in a list"])
def test_a_call_is_taken_as_deep_as_the_package_surely_reads(long: dict[str, Any]) -> None:
    assert is_taken(line_of({**long, "deep": nested(180)}))
    assert not is_taken(line_of({**long, "deep": nested(READ_DEPTH)}))


@pytest.mark.parametrize("long", [{}, {"text": LONG}, {"texts": [LONG]}], ids=["short", "long", "in a list"])
def test_what_stands_beside_long_arguments_is_not_overlooked(long: dict[str, Any]) -> None:
    assert is_taken(line_of(long, {"deep": nested(180)}))
    assert not is_taken(line_of(long, {"deep": nested(READ_DEPTH)}))


def test_long_arguments_are_found_where_another_member_has_their_name() -> None:
    assert is_taken(line_of({"text": LONG}, {"arguments": {"text": "other"}}))
    assert not is_taken(line_of({"text": LONG, "deep": nested(READ_DEPTH)}, {"arguments": {"text": "other"}}))
