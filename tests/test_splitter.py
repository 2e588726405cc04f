"""One extension, its own host (the child) and our clients (ours): who hears what."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_host.channel_wire import FRAME_BYTES
from native_host.splitter import (
    CHILD_WAITING_BYTES,
    LOST_SECONDS,
    OUR_WAIT_SECONDS,
    Party,
    Passed,
    Splitter,
)

EXTENSION, CHILD, OURS = Party.EXTENSION, Party.CHILD, Party.OURS


class Conversation:
    """A splitter, and what each party has heard and not been asked for yet, as JSON."""

    def __init__(self) -> None:
        self.splitter = Splitter()
        self.now_s = 0.0
        self._heard: dict[Party, list[Any]] = {party: [] for party in Party}

    def extension(self, **message: Any) -> None:
        self.extension_raw(_body(message))

    def extension_raw(self, body: bytes) -> None:
        self._pass(self.splitter.from_extension(body, self.now_s))

    def child(self, **message: Any) -> None:
        self._pass(self.splitter.from_child(_body(message), self.now_s))

    def ours(self, **message: Any) -> None:
        self._pass(self.splitter.from_ours(_body(message), self.now_s))

    def call(self, asker: Party, name: str, *, is_named: bool = True) -> None:
        say = self.child if asker is CHILD else self.ours
        say(**request(name, is_named=is_named))

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self._pass(self.splitter.expire(self.now_s))

    def heard(self, party: Party) -> list[Any]:
        heard, self._heard[party] = self._heard[party], []
        return heard

    def _pass(self, passed: list[Passed]) -> None:
        for to, body in passed:
            self._heard[to].append(_read(body))


def _body(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


def request(name: str, *, is_named: bool = True, method: str = "execute_tool") -> dict[str, Any]:
    params = {"tool": "navigate", "args": {"for": name}, **({"tool_use_id": name} if is_named else {})}
    return {"type": "tool_request", "method": method, "params": params}


def answer(name: str, text: str = "done") -> dict[str, Any]:
    return {"type": "tool_response", "tool_use_id": name, "result": {"content": text}}


def bare_answer(text: str) -> dict[str, Any]:
    return {"type": "tool_response", "result": {"content": text}}


def refusals(heard: list[Any]) -> list[str]:
    return [message["error"]["content"] for message in heard]


@pytest.fixture
def talk() -> Conversation:
    return Conversation()


@pytest.fixture
def named(talk: Conversation) -> Conversation:
    """With an extension that has shown that it names the call that it answers."""
    talk.call(CHILD, "first")
    talk.extension(**answer("first"))
    for party in Party:
        talk.heard(party)
    return talk


# ── What is no call ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "message",
    [
        {"type": "ping"},
        {"type": "get_status"},
        {"type": "notification", "jsonrpc": "2.0", "method": "tab_group_changed", "params": {}},
        {"type": "something new", "tool_use_id": "x"},
        {"no": "type"},
        {"type": {"not": "text"}},
        ["a list"],
        {"type": "notification", "method": "permission_request", "params": {"tool_use_id": ["no", "text"]}},
        {"type": "notification", "method": "permission_request", "params": 7},
    ],
)
def test_what_is_no_answer_is_the_child_s(talk: Conversation, message: Any) -> None:
    talk.extension_raw(_body(message))
    assert (talk.heard(CHILD), talk.heard(OURS)) == ([message], [])


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"type":"tool_response","x":' + b"[" * 5000])
def test_what_cannot_be_read_is_the_child_s_to_complain_about(talk: Conversation, body: bytes) -> None:
    talk.extension_raw(body)
    assert talk.heard(CHILD) == [body]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "pong", "timestamp": 1},
        {"type": "status_response", "native_host_version": "1.0.0"},
        {"type": "error", "error": "Unknown message type: x"},
        {"type": "what comes next year"},
    ],
)
def test_what_the_child_says_passes_at_once_though_a_call_of_ours_is_open(
    talk: Conversation, message: Any
) -> None:
    talk.call(OURS, "mine")
    talk.heard(EXTENSION)
    talk.child(**message)
    assert talk.heard(EXTENSION) == [message]


def test_what_the_child_s_person_permits_passes_at_once_where_the_extension_asks(talk: Conversation) -> None:
    talk.extension(type="notification", method="permission_request", params={"tool_use_id": "theirs"})
    talk.call(OURS, "mine")
    talk.heard(EXTENSION)
    permitted = request("theirs", method="permission_response")
    talk.child(**permitted)
    assert talk.heard(EXTENSION) == [permitted]


def test_where_it_never_asks_it_answers_that_as_any_call_and_the_answer_is_the_child_s(
    talk: Conversation,
) -> None:
    """Version 1.0.36: "Unknown method", without a name."""
    talk.child(**request("p", method="permission_response"))
    talk.call(OURS, "mine")
    unknown = bare_answer("Unknown method: permission_response")
    talk.extension(**unknown)
    talk.extension(**bare_answer("mine"))
    assert (talk.heard(CHILD), talk.heard(OURS)) == ([unknown], [bare_answer("mine")])


def test_a_frame_of_the_child_passes_whole_however_long_it_is(talk: Conversation) -> None:
    talk.child(type="tool_request", method="execute_tool", params={"args": "x" * (2 * FRAME_BYTES)})
    (heard,) = talk.heard(EXTENSION)
    assert len(heard["params"]["args"]) == 2 * FRAME_BYTES


# ── Who is there ────────────────────────────────────────────────────────────────────────────────────────────

CONNECTED, DISCONNECTED = {"type": "mcp_connected"}, {"type": "mcp_disconnected"}


def test_one_leaving_does_not_look_like_all_leaving(talk: Conversation) -> None:
    talk.child(**CONNECTED)
    talk.child(**CONNECTED)
    talk.ours(**CONNECTED)
    talk.child(**DISCONNECTED)
    talk.ours(**DISCONNECTED)
    assert talk.heard(EXTENSION) == [CONNECTED]
    talk.child(**DISCONNECTED)
    assert talk.heard(EXTENSION) == [DISCONNECTED]


def test_a_party_that_leaves_more_often_than_it_came_takes_nobody_along(talk: Conversation) -> None:
    talk.ours(**CONNECTED)
    talk.child(**DISCONNECTED)
    talk.child(**DISCONNECTED)
    assert talk.heard(EXTENSION) == [CONNECTED]


# ── Answers with names ──────────────────────────────────────────────────────────────────────────────────────


def test_answers_with_names_reach_who_asked_in_whatever_order(named: Conversation) -> None:
    named.call(CHILD, "a")
    named.call(OURS, "b")
    named.call(CHILD, "c")
    assert len(named.heard(EXTENSION)) == 3
    for name in "cba":
        named.extension(**answer(name))
    assert named.heard(CHILD) == [answer("c"), answer("a")]
    assert named.heard(OURS) == [answer("b")]


def test_an_answer_to_nobody_s_call_is_the_child_s_as_it_would_be_without_us(named: Conversation) -> None:
    named.extension(**answer("unheard of"))
    assert (named.heard(CHILD), named.heard(OURS)) == ([answer("unheard of")], [])


def test_an_answer_without_a_name_of_an_extension_that_gives_names_is_the_child_s(
    named: Conversation,
) -> None:
    named.call(OURS, "mine")
    named.call(CHILD, "", is_named=False)
    named.extension(**bare_answer("for the child"))
    assert (named.heard(CHILD), named.heard(OURS)) == ([bare_answer("for the child")], [])


def test_a_second_answer_to_one_call_is_not_given_to_ours(named: Conversation) -> None:
    named.call(OURS, "mine")
    named.extension(**answer("mine"))
    named.extension(**answer("mine", "again"))
    assert named.heard(OURS) == [answer("mine")]


def test_a_late_answer_to_ours_is_never_the_child_s(named: Conversation) -> None:
    named.call(OURS, "slow")
    named.wait(100 * LOST_SECONDS)
    named.extension(**answer("slow"))
    assert (named.heard(CHILD), named.heard(OURS)) == ([], [answer("slow")])


@pytest.mark.parametrize(("name", "asker"), [("mine", OURS), ("theirs", CHILD), ("unknown", CHILD)])
def test_what_a_call_needs_permission_for_is_asked_of_its_asker(
    named: Conversation, name: str, asker: Party
) -> None:
    named.call(OURS, "mine")
    named.call(CHILD, "theirs")
    params = {"tool_use_id": name, "request_id": "r", "tool_type": "click"}
    asked = {"type": "notification", "jsonrpc": "2.0", "method": "permission_request", "params": params}
    named.extension(**asked)
    assert {party: named.heard(party) for party in (CHILD, OURS)} == {
        party: [asked] if party is asker else [] for party in (CHILD, OURS)
    }


# ── Answers without names ───────────────────────────────────────────────────────────────────────────────────


def test_until_an_answer_has_a_name_one_party_asks_at_a_time(talk: Conversation) -> None:
    talk.call(CHILD, "a")
    talk.call(OURS, "b")
    talk.call(CHILD, "c")
    assert talk.heard(EXTENSION) == [request("a")]
    talk.extension(**bare_answer("to a"))
    assert talk.heard(EXTENSION) == [request("b")]
    talk.extension(**bare_answer("to b"))
    assert talk.heard(EXTENSION) == [request("c")]
    talk.extension(**bare_answer("to c"))
    assert talk.heard(CHILD) == [bare_answer("to a"), bare_answer("to c")]
    assert talk.heard(OURS) == [bare_answer("to b")]


def test_the_first_answer_with_a_name_lets_all_go_that_waits(talk: Conversation) -> None:
    talk.call(CHILD, "a")
    talk.call(OURS, "b")
    talk.call(CHILD, "c")
    talk.extension(**answer("a"))
    assert talk.heard(EXTENSION) == [request("a"), request("b"), request("c")]
    assert talk.splitter.next_deadline_s == math.inf  # from now on nothing is waited for


def test_while_we_ask_nothing_the_child_s_calls_pass_as_they_come(talk: Conversation) -> None:
    for name in "abc":
        talk.call(CHILD, name, is_named=False)
    assert talk.heard(EXTENSION) == [request(name, is_named=False) for name in "abc"]


def test_ours_waits_shortly_and_is_then_told_that_nothing_has_run(talk: Conversation) -> None:
    talk.call(CHILD, "slow")
    talk.call(OURS, "mine")
    talk.heard(EXTENSION)
    assert talk.splitter.next_deadline_s == OUR_WAIT_SECONDS
    talk.wait(OUR_WAIT_SECONDS)
    (told,) = talk.heard(OURS)
    assert told["error"]["content"].startswith("nothing has run")
    assert "tool_use_id" not in told  # else ours would believe that this extension names calls
    talk.extension(**bare_answer("to slow"))
    assert (talk.heard(CHILD), talk.heard(EXTENSION)) == ([bare_answer("to slow")], [])


def test_a_call_that_is_never_answered_keeps_the_child_waiting_no_longer_than_its_clients_wait(
    talk: Conversation,
) -> None:
    talk.call(OURS, "mine")
    talk.call(CHILD, "theirs")
    talk.wait(LOST_SECONDS)
    assert talk.heard(EXTENSION) == [request("mine"), request("theirs")]


def test_where_an_answer_may_still_come_ours_gets_none_that_could_be_it(talk: Conversation) -> None:
    talk.call(CHILD, "lost")
    talk.wait(LOST_SECONDS)
    talk.call(OURS, "mine")
    assert talk.heard(EXTENSION) == [request("lost")]
    assert "reload that extension" in refusals(talk.heard(OURS))[0]
    talk.extension(**bare_answer("late"))
    assert talk.heard(CHILD) == [bare_answer("late")]
    talk.call(OURS, "again")
    assert talk.heard(EXTENSION) == [request("again")]


def test_a_late_answer_to_ours_is_ours_when_nobody_else_can_be_meant(talk: Conversation) -> None:
    talk.call(OURS, "mine")
    talk.wait(LOST_SECONDS)
    talk.extension(**bare_answer("late"))
    assert (talk.heard(OURS), talk.heard(CHILD)) == ([bare_answer("late")], [])


def test_ours_gets_no_answer_of_the_child_s_once_its_own_is_late(talk: Conversation) -> None:
    talk.call(OURS, "mine")
    talk.wait(LOST_SECONDS)
    talk.call(CHILD, "theirs")
    (refusal,) = refusals(talk.heard(OURS))
    assert "it may have run" in refusal
    talk.extension(**bare_answer("mine, late"))
    talk.extension(**bare_answer("theirs"))
    assert talk.heard(OURS) == []
    assert bare_answer("theirs") in talk.heard(CHILD)


def test_the_child_s_calls_that_wait_are_bounded_in_bytes(talk: Conversation) -> None:
    talk.call(OURS, "mine")
    talk.heard(EXTENSION)
    long = "x" * (CHILD_WAITING_BYTES // 2)
    for name in "ab":
        talk.child(type="tool_request", method="execute_tool", params={"tool_use_id": name, "args": long})
    (refused,) = talk.heard(CHILD)
    assert refused["tool_use_id"] == "b"
    assert str(CHILD_WAITING_BYTES) in refused["error"]["content"]


# ── Too long ────────────────────────────────────────────────────────────────────────────────────────────────

LONG = "x" * FRAME_BYTES


@pytest.mark.parametrize("name", [{"tool_use_id": "big"}, {}])
def test_an_answer_that_would_end_the_child_for_good_becomes_an_error_of_the_same_name(
    talk: Conversation, name: dict[str, str]
) -> None:
    talk.call(CHILD, "big")
    talk.extension(type="tool_response", **name, result={"content": LONG})
    (heard,) = talk.heard(CHILD)
    assert heard | {"error": None} == {"type": "tool_response", **name, "error": None}
    assert str(FRAME_BYTES) in heard["error"]["content"]


def test_the_longest_frame_that_the_child_takes_is_passed(talk: Conversation) -> None:
    message = bare_answer("")
    message["result"]["content"] = "x" * (FRAME_BYTES - len(_body(message)))
    talk.extension(**message)
    assert talk.heard(CHILD) == [message]


def test_an_answer_to_ours_is_passed_whole(named: Conversation) -> None:
    named.call(OURS, "mine")
    named.extension(**answer("mine", LONG))
    assert named.heard(OURS) == [answer("mine", LONG)]


@pytest.mark.parametrize("type_", ["ping", "notification", "anything"])
def test_what_is_too_long_and_nobody_s_answer_is_dropped(talk: Conversation, type_: str) -> None:
    talk.extension(type=type_, params=LONG)
    assert (talk.heard(CHILD), talk.heard(OURS)) == ([], [])


# ── Any order ───────────────────────────────────────────────────────────────────────────────────────────────


@given(
    doings=st.lists(st.sampled_from(["child", "child without a name", "ours", "answer"]), max_size=60),
    picks=st.lists(st.integers(0, 99), min_size=60, max_size=60),
    gives_names=st.booleans(),
)
def test_every_answer_reaches_who_asked_and_nobody_else(
    doings: list[str], picks: list[int], gives_names: bool
) -> None:
    talk = Conversation()
    open_calls: list[dict[str, Any]] = []
    asked: dict[Party, Counter[str]] = {CHILD: Counter(), OURS: Counter()}
    answered: dict[Party, Counter[str]] = {CHILD: Counter(), OURS: Counter()}

    def exchange() -> None:
        open_calls.extend(call["params"] for call in talk.heard(EXTENSION))
        for party, counted in answered.items():
            counted.update(message["result"]["content"] for message in talk.heard(party))

    def answer_one(pick: int) -> None:
        call = open_calls.pop(pick % len(open_calls))
        name = {"tool_use_id": call["tool_use_id"]} if gives_names and "tool_use_id" in call else {}
        talk.extension(type="tool_response", **name, result={"content": call["args"]["for"]})
        exchange()

    for number, (doing, pick) in enumerate(zip(doings, picks, strict=False)):
        if doing == "answer":
            if open_calls:
                answer_one(pick)
            continue
        asker = OURS if doing == "ours" else CHILD
        is_named = doing != "child without a name"
        asked[asker][str(number)] += 1
        talk.call(asker, str(number), is_named=is_named)
        exchange()
    while open_calls:
        answer_one(0)
    assert answered == asked


@pytest.mark.parametrize("is_named", [True, False])
def test_an_answer_that_was_cut_amid_a_character_goes_to_who_asked(is_named: bool) -> None:
    between = Conversation()
    between.call(OURS, "a")
    cut = answer("a", "cut \ud83d") if is_named else bare_answer("cut \ud83d")
    between.extension(**cut)
    assert between.heard(OURS) == [cut]
    between.call(CHILD, "b")
    assert between.heard(EXTENSION)[-1] == request("b")
    assert between.heard(CHILD) == []
