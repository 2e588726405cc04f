"""McpSession and the mcp package give the same answers to the same transcripts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import mcp_types
import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from bridge.mcp_session import input_required, mcp_server
from native_host.protocol import wire
from played_session import (
    CART_CALL,
    CLIENT,
    ENVELOPE,
    GET_CART,
    INITIALIZED,
    SOON_S,
    WHERE,
    Message,
    Played,
    answer_all,
    asked,
    call,
    cancel,
    change,
    change_resources,
    encoded,
    initialize,
    log,
    opened,
    put,
    report,
    session,
    update,
)


@pytest.fixture(autouse=True)
def suspend_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of a transcript follow as soon as all tasks are blocked."""
    monkeypatch.setattr(input_required, "COLLECT_S", 0)


async def heard(transcript: Sequence[Message], *, leaves_all: bool, at_once: bool) -> list[Any]:
    """Everything that a client is told, in an order that does not depend on which of two answers is first."""
    async with session(leaves_all=leaves_all) as played:
        for message in transcript:
            await played.take(message)
            if not at_once:
                await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked()
        await played.session.close()
        return sorted(json.dumps(named(message), sort_keys=True) for message in played.client.messages)


def named(message: dict[str, Any]) -> dict[str, Any]:
    """Without what is drawn at random: the states of parked calls."""
    if "requestState" in message.get("result", {}):
        return {**message, "result": {**message["result"], "requestState": "a state"}}
    return message


async def hear_the_same(transcript: Sequence[Message]) -> list[Any]:
    happens_between = any(callable(message) for message in transcript)
    with trio.fail_after(SOON_S):
        for at_once in (False,) if happens_between else (True, False):
            by_lane = await heard(transcript, leaves_all=False, at_once=at_once)
            by_package = await heard(transcript, leaves_all=True, at_once=at_once)
            assert by_lane == by_package
    return by_lane


# ── What is said ────────────────────────────────────────────────────────────────────────────────────────────


def ask(played: Played) -> None:
    """Every page that holds a call asks the person."""
    for held in played.pages.held:
        if held.caller.supports_elicitation:
            form = b'{"type":"object","properties":{"apples":{"type":"integer","minimum":1}}}'
            asked = wire.ElicitConfirmation(message="Buy?", requested_schema=msgspec.Raw(form))
            played.nursery.start_soon(put, held, asked)


def says_to_question(**answer: Any) -> Callable[[Played], None]:
    def say(played: Played) -> None:
        questions = [m for m in played.client.messages if str(m.get("id", "")).startswith("question-")]
        for question in questions:
            played.nursery.start_soon(played.session.handle_line, encoded({"id": question["id"], **answer}))

    return say


def comes_back(era: str, request_id: Any, **params: Any) -> Callable[[Played], None]:
    """The call once more, with the state of the first question."""

    def retry(played: Played) -> None:
        parked = [m for m in played.client.messages if "requestState" in m.get("result", {})]
        state = parked[0]["result"]["requestState"]
        message = call(era, request_id, requestState=state, **params)
        played.nursery.start_soon(played.session.handle_line, encoded(message))

    return retry


VERSION, CAPABILITIES = mcp_types.PROTOCOL_VERSION_META_KEY, mcp_types.CLIENT_CAPABILITIES_META_KEY
WHO = mcp_types.CLIENT_INFO_META_KEY
ERAS = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]
IDS: list[Any] = [0, 1, -7, "seven", "7", "", "é\n\u2028", 2**53, 2**64, 10**40, "x" * 2000]


def test_the_revisions_are_those_of_the_package() -> None:
    assert list(mcp_server.HANDSHAKE_VERSIONS) == list(HANDSHAKE_PROTOCOL_VERSIONS)
    assert mcp_server.HANDSHAKE_VERSIONS[-1] == LATEST_HANDSHAKE_VERSION
    assert list(MODERN_PROTOCOL_VERSIONS) == [mcp_server.STATELESS_VERSION]


@pytest.mark.parametrize("era", ERAS)
async def test_a_usual_conversation(era: str) -> None:
    told = await hear_the_same(
        [
            *opened(era),
            asked(era, 1, "server/discover"),
            asked(era, 2, "tools/list"),
            asked(era, 3, "tools/list", {"cursor": "more"}),
            asked(era, 4, "tools/call", CART_CALL),
            asked(era, 5, "tools/call", {"name": "list_page_tools", "arguments": {"limit": 1}}),
            asked(era, 6, "tools/call", {"name": "call_page_tool", "arguments": CART_CALL}),
            asked(era, 7, "tools/call", {"name": "nobody's"}),
            asked(era, 8, "tools/call", {"name": "list_page_tools", "arguments": {"limit": "no"}}),
            asked(era, 9, "ping"),
            asked(era, 10, "resources/list"),
            asked(era, 11, "resources/templates/list"),
            asked(era, 12, "resources/read", {"uri": "mcpb://pictures/img_1"}),
        ]
    )
    assert sum('"isError"' in line or '"content"' in line for line in told) >= 4


CART, BROKEN = (f"mcpb://page/shop.example/tab1/cart://{name}" for name in ("1", "broken"))


@pytest.mark.parametrize("era", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_resources(era: str) -> None:
    told = await hear_the_same(
        [
            *opened(era),
            asked(era, 1, "resources/list"),
            asked(era, 2, "resources/list", {"cursor": '[2,"mcpb://page/shop.example/tab1/cart://1"]'}),
            asked(era, 3, "resources/list", {"cursor": "nobody's"}),
            asked(era, 4, "resources/templates/list"),
            asked(era, 5, "resources/templates/list", {"cursor": ""}),
            asked(era, 6, "resources/read", {"uri": CART}),
            asked(era, 7, "resources/read", {"uri": "cart://1"}),
            asked(era, 8, "resources/read", {"uri": BROKEN}),
            asked(era, 9, "resources/read", {"uri": "cart://nobody's"}),
            asked(era, 10, "resources/read", {"uri": "no URI"}),
            asked(era, 11, "resources/read", {"uri": "mcpb://page/shop.example/order://a%2Fb"}),
        ]
    )
    assert sum('"text": "tea"' in line for line in told) == 3
    assert sum("boom" in line for line in told) == 1


PAY = "shop_example_tab1_pay"


@pytest.mark.parametrize("era", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_prompts_and_completion(era: str) -> None:
    of_prompt = {"ref": {"type": "ref/prompt", "name": PAY}, "argument": {"name": "place", "value": "B"}}
    template = {"type": "ref/resource", "uri": "mcpb://page/shop.example/tab1/order://{id}"}
    told = await hear_the_same(
        [
            *opened(era),
            asked(era, 1, "prompts/list"),
            asked(era, 2, "prompts/list", {"cursor": f'[2,"{PAY}"]'}),
            asked(era, 3, "prompts/list", {"cursor": "nobody's"}),
            asked(era, 4, "prompts/get", {"name": PAY, "arguments": {"place": "Bern"}}),
            asked(era, 5, "prompts/get", {"name": PAY, "arguments": {}}),
            asked(era, 6, "prompts/get", {"name": PAY}),
            asked(era, 7, "prompts/get", {"name": "nobody's"}),
            asked(era, 8, "prompts/get", {"name": "shop_example_tab1_broken"}),
            asked(era, 9, "completion/complete", of_prompt),
            asked(era, 10, "completion/complete", {**of_prompt, "context": {"arguments": {"a": "b"}}}),
            asked(era, 11, "completion/complete", {**of_prompt, "ref": template}),
            asked(era, 12, "completion/complete", {**of_prompt, "ref": {"type": "ref/prompt", "name": "x"}}),
            asked(
                era, 13, "completion/complete", {**of_prompt, "ref": {"type": "ref/resource", "uri": "x:"}}
            ),
        ]
    )
    assert sum('"text": "tea"' in line for line in told) == 1
    assert sum('"values": ["Bern"]' in line for line in told) == 3
    assert sum("needs the argument" in line for line in told) == 2


LOG_LEVEL = mcp_types.LOG_LEVEL_META_KEY


async def test_log_messages_of_a_session() -> None:
    era = "2025-11-25"
    told = await hear_the_same(
        [
            *opened(era),
            asked(era, 1, "tools/call", CART_CALL),
            log,
            asked(era, 2, "logging/setLevel", {"level": "warning"}),
            log,
            asked(era, 3, "logging/setLevel", {"level": "loud"}),
            asked(era, 4, "logging/setLevel", {}),
            asked(era, 5, "logging/setLevel"),
            log,
            asked(era, 6, "logging/setLevel", {"level": "debug"}),
            log,
            call(era, 7, _meta={LOG_LEVEL: "emergency"}),
            log,
            answer_all,
        ]
    )
    assert sum("notifications/message" in line for line in told) == 1 + 1 + 2 + 2
    assert sum('"logger": "https://shop.example cart"' in line for line in told) == 6


async def test_log_messages_of_a_request() -> None:
    era = "2026-07-28"
    told = await hear_the_same(
        [
            asked(era, 1, "logging/setLevel", {"level": "debug"}),
            call(era, 2),
            log,
            call(era, 3, _meta={LOG_LEVEL: "error"}),
            log,
            call(era, 4, _meta={LOG_LEVEL: "debug", CAPABILITIES: {}}),
            call(era, 5, _meta={LOG_LEVEL: "loud"}),
            log,
            answer_all,
            log,
        ]
    )
    assert sum("notifications/message" in line for line in told) == 1 + 1 + 2


async def test_log_messages_of_a_suspended_request() -> None:
    era = "2026-07-28"
    told = await hear_the_same(
        [
            call(era, 1, _meta={LOG_LEVEL: "debug"}),
            log,
            ask,
            log,
            comes_back(era, 2, arguments={"no": "call"}, _meta={LOG_LEVEL: "debug"}),
            log,
            ask,
            comes_back(era, 3, _meta={LOG_LEVEL: "debug"}),
            log,
            comes_back(
                era,
                4,
                inputResponses={"question": {"action": "accept", "content": {"apples": 2}}},
                _meta={LOG_LEVEL: "error"},
            ),
        ]
    )
    assert sum("notifications/message" in line for line in told) == 2


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_subscriptions_to_resources(era: str) -> None:
    listens = {
        "notifications": {"resourcesListChanged": True, "resourceSubscriptions": [CART, CART, "x://1"]}
    }
    told = await hear_the_same(
        [
            *opened(era),
            asked(era, 1, "resources/subscribe", {"uri": CART}),
            asked(era, 2, "resources/subscribe", {"uri": CART}),
            asked(era, 3, "resources/subscribe", {"uri": "cart://1"}),
            asked(era, 4, "resources/subscribe", {"uri": BROKEN}),
            asked(era, 5, "resources/subscribe", {"uri": "x://1"}),
            asked(era, 6, "resources/unsubscribe", {"uri": "x://1"}),
            asked(era, "news", "subscriptions/listen", listens),
            asked(era, "more", "subscriptions/listen", listens),
            update,
            asked(era, 7, "resources/unsubscribe", {"uri": CART}),
            cancel("more"),
            update,
            change_resources,
        ]
    )
    updated = [json.loads(line)["params"]["uri"] for line in told if "resources/updated" in line]
    assert sorted(updated) == (["cart://1"] * 2 + [CART] if era == "2025-11-25" else [CART] * 3)
    assert sum("resources/list_changed" in line for line in told) == 1


async def test_a_session_has_at_most_32_subscriptions() -> None:
    uris = [f"mcpb://page/shop.example/tab1/order://{number}" for number in range(33)]
    listens = {"notifications": {"resourceSubscriptions": uris}}
    told = await hear_the_same([asked("2026-07-28", 1, "subscriptions/listen", listens)])
    assert sum("a session may have 32 subscriptions" in line for line in told) == 1


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("request_id", IDS, ids=lambda request_id: repr(request_id)[:20])
async def test_every_id_comes_back_as_it_was(era: str, request_id: Any) -> None:
    await hear_the_same([*opened(era), call(era, request_id, GET_CART), asked(era, request_id, "tools/list")])


@pytest.mark.parametrize("request_id", [None, 1.5, 1e3, True, [], {}, "\ud800"], ids=repr)
async def test_what_is_no_id(request_id: Any) -> None:
    await hear_the_same([*opened("2025-11-25"), call("2025-11-25", request_id, GET_CART)])


BAD_PARAMS: list[Any] = [
    None,
    [],
    "no",
    {},
    {"name": 7},
    {"name": None},
    {"name": GET_CART, "arguments": []},
    {"name": GET_CART, "arguments": None},
    {"name": GET_CART, "arguments": "no"},
    {"name": GET_CART, "_meta": {"progressToken": []}},
    {"name": GET_CART, "_meta": {"progressToken": True}},
    {"name": GET_CART, "_meta": {"progressToken": None}},
    {"name": GET_CART, "_meta": {"progressToken": 1.5}},
    {"name": GET_CART, "task": {}},
    {"name": GET_CART, "task": {"ttl": "long"}},
    {"name": GET_CART, "task": None},
    {"name": GET_CART, "requestState": 7},
    {"name": GET_CART, "requestState": "nobody's"},
    {"name": GET_CART, "inputResponses": {"question": {"action": "perhaps"}}},
    {"name": GET_CART, "inputResponses": {"question": {"action": "accept", "content": {"a": {}}}}},
    {"name": GET_CART, "inputResponses": []},
    {"name": GET_CART, "unknown": {"a": [1]}, "arguments": {"a": 1}},
    {"cursor": 7},
    {"cursor": None},
    {"uri": 7},
    {"uri": ""},
    {"uri": "x://1", "_meta": {"progressToken": []}},
    {"uri": "x://1", "inputResponses": {"question": {"roots": []}}},
    {"notifications": {"resourceSubscriptions": [7]}},
    {"notifications": {"resourceSubscriptions": "x://1"}},
    {"name": PAY, "arguments": {"place": 7}},
    {"name": PAY, "arguments": {"place": None}},
    {"name": PAY, "inputResponses": {"question": {"roots": []}}},
    {"ref": {"type": "ref/prompt", "name": PAY}},
    {"ref": {"name": PAY}, "argument": {"name": "place", "value": "B"}},
    {"ref": {"uri": "x://1"}, "argument": {"name": "place", "value": "B"}},
    {"ref": {"type": "ref/tool", "name": PAY}, "argument": {"name": "place", "value": "B"}},
    {"ref": {"type": "ref/prompt", "name": PAY, "title": 7}, "argument": {"name": "place", "value": "B"}},
    {"ref": {"type": "ref/prompt", "name": PAY}, "argument": {"name": "place"}},
    {"ref": {"type": "ref/prompt", "name": PAY}, "argument": {"name": "place", "value": "B"}, "context": 7},
]


@pytest.mark.parametrize("era", ["2024-11-05", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    "method",
    [
        "tools/call",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "ping",
        "server/discover",
        "subscriptions/listen",
    ],
)
async def test_params_of_every_kind(era: str, method: str) -> None:
    asked_all = [asked(era, number, method, params) for number, params in enumerate(BAD_PARAMS, 1)]
    await hear_the_same([*opened(era), *asked_all])


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_members_that_nobody_knows_and_methods_that_nobody_has(era: str) -> None:
    await hear_the_same(
        [
            *opened(era),
            {**asked(era, 1, "tools/list"), "unknown": {"a": 1}},
            asked(era, 2, "tools/paint"),
            asked(era, 3, "prompts/list"),
            asked(era, 4, "logging/setLevel", {"level": "info"}),
            asked(era, 5, ""),
            {"method": "notifications/unheard/of", "params": {"a": 1}},
            {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
            {"method": "notifications/roots/list_changed"},
            {"method": "tools/list"},
            {"method": "notifications/unheard/of", "params": [1]},
            {"method": 7, "id": 6},
            {"id": 7, "result": {}},
            {"id": "question-1", "result": {"action": "accept"}},
            {"id": 8, "error": {"code": 1, "message": "no"}},
            {"id": 9, "error": {"code": "x"}},
            {"id": 10, "result": []},
            {"id": 11, "method": "ping", "result": {}},
            {"id": 12},
        ]
    )


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON",
        b"[]",
        b"7",
        b"null",
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"id":1,"method":"ping"}',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":NaN}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":%b}}}'
        % (b"[" * 300 + b"]" * 300),
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
        b' \t{"jsonrpc":"2.0","id":1 ,"method":"ping" }\r',
    ],
    ids=lambda line: line[:40].decode(errors="replace"),
)
async def test_lines_of_every_kind(line: bytes) -> None:
    await hear_the_same([*opened("2025-11-25"), line, asked("2025-11-25", 2, "ping")])
    await hear_the_same([line, *opened("2025-11-25"), asked("2025-11-25", 2, "ping")])


OPENINGS: dict[str, list[Message]] = {
    "an unknown revision": [initialize("1999-01-01"), INITIALIZED, asked("", 1, "tools/list")],
    "the newest revision": [initialize("2026-07-28"), INITIALIZED, asked("", 1, "tools/list")],
    "with an envelope": [initialize(_meta=ENVELOPE), asked("", 1, "tools/list")],
    "without a version": [initialize(protocolVersion=None), asked("", 1, "tools/list")],
    "without a client": [initialize(clientInfo={"name": "x"}), asked("", 1, "tools/list")],
    "with odd capabilities": [
        initialize(capabilities={"roots": {"listChanged": True}, "sampling": {}, "tasks": {"list": {}}}),
        asked("", 1, "tools/list"),
    ],
    "with bad capabilities": [initialize(capabilities={"elicitation": 7}), asked("", 1, "tools/list")],
    "with icons": [
        initialize(clientInfo={**CLIENT, "icons": [{"src": "a", "sizes": ["any"]}]}),
        asked("", 1, "tools/list"),
    ],
    "a request before": [asked("", 1, "tools/list"), initialize(), asked("", 2, "tools/list")],
    "a ping before": [asked("", 1, "ping"), initialize(), asked("", 2, "ping")],
    "only initialized": [INITIALIZED, asked("", 1, "tools/list"), asked("", 2, "ping")],
    "twice": [
        initialize(),
        INITIALIZED,
        initialize("2024-11-05", capabilities={}),
        asked("", 1, "tools/list"),
    ],
    "an envelope after a handshake": [
        initialize(),
        asked("2026-07-28", 1, "tools/list"),
        asked("", 2, "ping"),
    ],
    "a handshake after an envelope": [
        asked("2026-07-28", 1, "tools/list"),
        initialize(),
        asked("", 2, "ping"),
    ],
    "none after an envelope": [asked("2026-07-28", 1, "tools/list"), asked("", 2, "tools/list")],
    "a revision that nobody serves": [
        asked("2026-07-28", 1, "tools/list", {"_meta": {VERSION: "2030-01-01"}}),
        asked("2026-07-28", 2, "tools/list"),
    ],
    "half an envelope": [
        {"id": 1, "method": "tools/list", "params": {"_meta": {VERSION: "2026-07-28"}}},
        asked("2026-07-28", 2, "tools/list"),
    ],
    "a bad envelope": [
        asked("2026-07-28", 1, "tools/list", {"_meta": {CAPABILITIES: []}}),
        asked("2026-07-28", 2, "tools/list", {"_meta": {WHO: {"name": 1}}}),
        asked("2026-07-28", 3, "tools/list", {"_meta": {VERSION: 7}}),
        asked("2026-07-28", 4, "tools/list", {"_meta": {WHO: None}}),
    ],
    "answers to nobody": [{"id": 1, "result": {}}, initialize(), asked("", 2, "tools/list")],
}


@pytest.mark.parametrize("opening", OPENINGS)
async def test_openings_of_every_kind(opening: str) -> None:
    await hear_the_same(OPENINGS[opening])


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_64_at_once(era: str) -> None:
    told = await hear_the_same(
        [*opened(era), *(call(era, number, GET_CART, arguments={"n": number}) for number in range(64))]
    )
    assert len(told) == 64 + (era != "2026-07-28")


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("request_id", "cancelled"),
    [(1, 1), ("one", "one"), (7, "7"), ("7", 7), (1, 2), (1, None), (1, True), (1, {})],
)
async def test_cancelling(era: str, request_id: Any, cancelled: Any) -> None:
    told = await hear_the_same(
        [
            *opened(era),
            call(era, request_id),
            cancel(cancelled, reason="enough"),
            cancel(cancelled),
            answer_all,
            cancel(request_id),
            asked(era, "last", "tools/list"),
        ]
    )
    is_meant = str(request_id) == str(cancelled)
    assert sum(f'"id": {json.dumps(request_id)}' in line for line in told) == (not is_meant)


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("token", [7, "seven", "", 2**70, None, 1.5])
async def test_progress(era: str, token: Any) -> None:
    told = await hear_the_same(
        [*opened(era), call(era, 1, _meta={"progressToken": token}), call(era, 2), report, answer_all, report]
    )
    assert sum("notifications/progress" in line for line in told) == (
        2 if isinstance(token, int | str) else 0
    )


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_changes(era: str) -> None:
    listens = {"notifications": {"toolsListChanged": True, "promptsListChanged": False, "x": 1}}
    other = {"notifications": {"resourceSubscriptions": ["page://1"], "toolsListChanged": None}}
    told = await hear_the_same(
        [
            *opened(era),
            asked(era, "news", "subscriptions/listen", listens),
            asked(era, 2, "subscriptions/listen", other),
            asked(era, 3, "subscriptions/listen", listens),
            cancel(3),
            change,
        ]
    )
    assert any("list_changed" in line for line in told)


ANSWERS: list[dict[str, Any]] = [
    {"result": {"action": "accept", "content": {"apples": 2}}},
    {"result": {"action": "decline", "_meta": {}}},
    {"result": {"action": "perhaps"}},
    {"result": {}},
    {"error": {"code": -32603, "message": "no screen"}},
]


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
async def test_questions_to_a_client_that_can_be_asked(answer: dict[str, Any]) -> None:
    era = "2025-06-18"
    told = await hear_the_same([*opened(era), call(era, 1), ask, says_to_question(**answer), answer_all])
    assert any("elicitation/create" in line for line in told)


ROOTS: list[dict[str, Any]] = [
    {"roots": [{"uri": "file:///srv/a%20b", "name": "b", "_meta": {}}, {"uri": "file:///srv"}]},
    {"roots": []},
    {"action": "accept"},
]


@pytest.mark.parametrize("answer", [*({"result": roots} for roots in ROOTS), ANSWERS[-1]], ids=str)
async def test_questions_for_the_roots_of_a_client(answer: dict[str, Any]) -> None:
    era = "2025-06-18"
    told = await hear_the_same([*opened(era), call(era, 1, WHERE), says_to_question(**answer)])
    assert any("roots/list" in line for line in told)


@pytest.mark.parametrize("roots", ROOTS, ids=str)
async def test_questions_of_parked_calls_for_the_roots_of_a_client(roots: dict[str, Any]) -> None:
    era = "2026-07-28"
    again = comes_back(era, 2, name=WHERE, inputResponses={"question": roots})
    told = await hear_the_same([call(era, 1, WHERE), again])
    assert any("roots/list" in line for line in told)


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_a_client_without_roots_is_not_asked_for_them(era: str) -> None:
    cannot: dict[str, Any] = {"_meta": {CAPABILITIES: {"elicitation": {}}}} if era == "2026-07-28" else {}
    begins = [initialize(era, capabilities={}), INITIALIZED] if not cannot else []
    told = await hear_the_same([*begins, call(era, 1, WHERE, **cannot)])
    assert any("nowhere" in line for line in told)


async def test_a_question_that_is_taken_back() -> None:
    era = "2025-06-18"
    told = await hear_the_same([*opened(era), call(era, 1), ask, cancel(1)])
    assert len(told) == 2


@pytest.mark.parametrize(
    "params",
    [
        {"inputResponses": {"question": {"action": "accept", "content": {"apples": 2}}}},
        {"inputResponses": {"question": {"action": "decline", "_meta": {}}}},
        {"inputResponses": {"question": {"roots": []}}},
        {"inputResponses": {}},
        {},
        {"arguments": {"other": 1}, "inputResponses": {"question": {"action": "accept"}}},
    ],
    ids=str,
)
async def test_questions_of_parked_calls(params: dict[str, Any]) -> None:
    era = "2026-07-28"
    transcript: list[Message] = [call(era, 1), ask, comes_back(era, 2, **params), answer_all]
    by_lane = await hear_the_same(transcript)
    assert any("input_required" in line for line in by_lane)


PAYLOADS: list[Any] = [
    {"content": [{"type": "text", "text": "é\n\u2028", "unknown": 1}], "unknown": {"a": None}},
    {"content": [], "_meta": {"page": 1}, "isError": None},
    {"content": [], "resultType": "input_required", "inputRequests": {}, "requestState": "x"},
    {"structuredContent": {"total": 12}},
    {"structuredContent": [12]},
    [12],
    None,
]


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
async def test_results_of_every_kind(era: str, payload: Any) -> None:
    def answers(played: Played) -> None:
        played.pages.answer = {"success": True, "payload": payload}

    await hear_the_same([answers, *opened(era), call(era, 1, GET_CART)])


# ── What nobody thought of ──────────────────────────────────────────────────────────────────────────────────

SEEDS = [
    *(asked(era, 1, "tools/call", CART_CALL) for era in ("2025-11-25", "2026-07-28")),
    *(asked(era, 2, "tools/list", {"cursor": "x"}) for era in ("2025-11-25", "2026-07-28")),
    asked("2026-07-28", 3, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    *(asked(era, 5, "resources/read", {"uri": CART}) for era in ("2025-11-25", "2026-07-28")),
    asked("2025-11-25", 6, "resources/subscribe", {"uri": CART}),
    asked("2026-07-28", 7, "subscriptions/listen", {"notifications": {"resourceSubscriptions": [CART]}}),
    initialize(),
    cancel(1),
    {"id": 4, "result": {"action": "accept"}},
]
ODD = st.sampled_from(
    ["null", "true", "0", "-1", "1.5", '""', '"7"', "[]", "{}", "[1]", '{"a":1}', '"ping"', '"initialize"']
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a message."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *itertools.chain.from_iterable(places(member, (*path, key)) for key, member in inner)]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    message = json.loads(json.dumps({"jsonrpc": "2.0", **draw(st.sampled_from(SEEDS))}))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in places(message) if path]))
        parent = message
        for step in path[:-1]:
            parent = parent[step]
        if draw(st.booleans()):
            parent[path[-1]] = json.loads(draw(ODD))
        else:
            del parent[path[-1]]
    assert isinstance(message, dict)
    return message


STARTS: dict[str, list[Message]] = {
    "": [],
    "2025-11-25": opened("2025-11-25"),
    "2026-07-28": [asked("2026-07-28", "start", "tools/list")],
}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(list(STARTS)), st.lists(mutated(), min_size=1, max_size=3))
def test_messages_that_somebody_has_damaged(era: str, messages: list[dict[str, Any]]) -> None:
    transcript: list[Message] = [*STARTS[era], *messages, asked(era, "end", "tools/list")]

    async def play() -> None:
        by_lane, by_package = [
            await heard(transcript, leaves_all=leaves_all, at_once=False) for leaves_all in (False, True)
        ]
        assert by_lane == by_package

    trio.run(play)
