"""Another product's extension as a browser side: what bridges ask becomes what it is asked, and back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from native_host.existing_channel import channel_messages as theirs
from native_host.existing_channel.channel_adapter import ChannelAdapter, describe_extension
from native_host.existing_channel.pending_calls import OtherClients
from native_host.protocol.wire import Code
from native_host.relay.browser_adapter import AdapterOutput, DialectDetector, PassThroughAdapter, has_type


class Talk:
    """A channel, and what comes out of it as JSON."""

    def __init__(self, flavour: theirs.Flavour = "socket") -> None:
        self.other_clients = OtherClients.NONE
        hello = describe_extension("p1", "1.2.3", "linux")
        self.channel = ChannelAdapter(
            flavour, hello, computer="box", other_clients=lambda: self.other_clients, now_ms=lambda: 5
        )
        self.ours: list[dict[str, Any]] = []
        self.theirs: list[dict[str, Any]] = []

    def say(self, **message: Any) -> None:
        self._take(self.channel.translate(msgspec.json.encode({"jsonrpc": "2.0", **message})))

    def hear(self, **message: Any) -> None:
        self.hear_body(msgspec.json.encode(message))

    def hear_body(self, body: bytes) -> None:
        self._take(self.channel.on_message(body))

    def _take(self, turned: AdapterOutput) -> None:
        self.ours += map(msgspec.json.decode, turned.ours)
        self.theirs += map(msgspec.json.decode, turned.theirs)

    def call(self, number: int, tool: str = "find", session: str = "", **args: Any) -> str:
        """Ask for a call; its name on the channel, empty if it was not sent."""
        sent = len(self.theirs)
        params = {"name": tool, "args": args, "session": session, "asks": bool(session)}
        self.say(id=f"c-1:{number}", method="browser/callTool", params=params)
        return self.theirs[-1]["params"]["tool_use_id"] if len(self.theirs) > sent else ""

    def cancel(self, number: int) -> None:
        self.say(method="browser/cancel", params={"id": f"c-1:{number}"})

    def ask(self, use_id: str, request_id: str) -> None:
        """The extension wants to know whether a call may do what it is about to do."""
        params = {
            "request_id": request_id,
            "tool_use_id": use_id,
            "tool_type": "click",
            "url": "https://a.example",
        }
        self.hear(jsonrpc="2.0", method="permission_request", params=params)

    @property
    def answers(self) -> list[tuple[str, str]]:
        """Ids and texts of what was answered, errors marked."""
        return [(answer["id"], _text(answer)) for answer in self.ours if "method" not in answer]


def _text(answer: dict[str, Any]) -> str:
    if error := answer.get("error"):
        return f"error, handed {error['data']['handed']}: {error['message']}"
    return "".join(block["text"] for block in answer["result"]["content"])


# ── What it is for bridges ──────────────────────────────────────────────────────────────────────────────────


def test_it_is_introduced_as_a_browser_with_tools_and_without_commands_or_tabs() -> None:
    hello, tabs = map(msgspec.json.decode, Talk().channel.on_opened().ours)
    assert hello["params"]["browser"] == {"brand": "Claude in Chrome", "platform": "linux"}
    assert "commands" not in hello["params"]["capabilities"]
    assert {tool["name"] for tool in hello["params"]["capabilities"]["tools"]} == set(theirs.TOOLS)
    assert tabs == {"jsonrpc": "2.0", "method": "browser/tabs", "params": {"tabs": []}}


def test_what_is_no_call_of_a_tool_is_refused() -> None:
    talk = Talk()
    talk.say(id="c-1:1", method="createTab", params={})
    assert talk.ours[0]["error"]["code"] == Code.METHOD_NOT_FOUND
    assert talk.ours[0]["error"]["data"] == {"handed": False}
    assert talk.theirs == []


# ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_goes_out_under_a_name_of_its_own_for_its_session() -> None:
    talk = Talk()
    session = {"id": "s1", "title": "Claude in shop", "client": {"name": "x", "version": ""}}
    client = {"connection": "c-1", "pid": 7, "version": "1", "sessions": [session]}
    talk.say(method="host/clients", params={"clients": [client]})
    name = talk.call(1, "navigate", session="s1", url="https://a.example")
    assert talk.theirs == [
        {
            "method": "execute_tool",
            "params": {
                "tool": "navigate",
                "args": {"url": "https://a.example"},
                "client_id": "mcpb",
                "tool_use_id": name,
                "handle_permission_prompts": True,
                "session_scope": {"sessionId": "s1", "displayName": "Claude in shop"},
            },
        }
    ]


def test_a_request_that_the_other_host_could_not_carry_is_refused_with_its_size() -> None:
    talk = Talk()
    assert talk.call(1, query="x" * theirs.REQUEST_BYTES) == ""
    assert talk.ours[0]["error"]["code"] == Code.TOO_LARGE
    assert str(theirs.REQUEST_BYTES) in talk.answers[0][1]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


PNG = {"type": "base64", "media_type": "image/png", "data": "AA=="}


@pytest.mark.parametrize(
    ("answer", "blocks", "is_error"),
    [
        ({"result": {"content": "done"}}, [text("done")], False),
        ({"result": {"content": ""}}, [], False),
        ({"result": {}}, [text("{}")], False),
        ({}, [], False),
        ({"result": {"content": [text("a"), "b"]}}, [text("a"), text("b")], False),
        (
            {"result": {"content": [{"type": "image", "source": PNG}]}},
            [{"type": "image", "data": "AA==", "mimeType": "image/png"}],
            False,
        ),
        ({"result": {"content": [{"type": "odd", "n": 1}]}}, [text('{"type":"odd","n":1}')], False),
        ({"error": {"content": "no tab"}}, [text("no tab")], True),
        ({"error": {"content": [text("no")]}}, [text("no")], True),
        ({"error": "plain"}, [text("plain")], True),
        ({"error": {"content": ""}}, [text("It answered nothing.")], True),
    ],
)
def test_an_answer_becomes_a_tool_result_of_mcp(
    answer: dict[str, Any], blocks: list[dict[str, Any]], is_error: bool
) -> None:
    talk = Talk()
    name = talk.call(1)
    talk.hear(tool_use_id=name, **answer)
    result = {"content": blocks, "isError": True} if is_error else {"content": blocks}
    assert talk.ours == [{"jsonrpc": "2.0", "id": "c-1:1", "result": result}]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (rb'{"tool_use_id":"NAME","result":{"content":"cut \ud83d"}}', "cut ?"),
        (
            rb'{"tool_use_id":"NAME","result":{"content":"whole \ud83d\ude00, \\ud83d"}}',
            "whole \N{GRINNING FACE}, \\ud83d",
        ),
        (rb'{"result":{"content":[{"type":"text","text":"cut \udc00\ud83d"}]}}', "cut ??"),
        (b'{"result":{"content":"cut \xf0\x9f"}}', "cut \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_text_that_was_cut_amid_a_character_is_an_answer_like_others(body: bytes, said: str) -> None:
    """Pages have such texts, and that extension shortens by UTF-16 units."""
    talk = Talk()
    name = talk.call(1)
    talk.hear_body(body.replace(b"NAME", name.encode()))
    assert talk.answers == [("c-1:1", said)]


def test_no_depth_of_an_answer_ends_the_channel() -> None:
    for depth in range(900, 1010):
        talk = Talk()
        named = b'{"tool_use_id":"%b","result":{"content":%b}}'
        talk.hear_body(named % (talk.call(1).encode(), b"[" * depth + b"]" * depth))
        assert len(talk.answers) <= 1


def test_answers_that_name_their_call_find_it_in_any_order_and_others_are_passed_over() -> None:
    talk = Talk()
    talk.hear(tool_use_id=talk.call(1), result={"content": "first"})
    names = {number: talk.call(number) for number in (2, 3, 4)}
    talk.hear(tool_use_id="somebody else's", result={"content": "not ours"})
    for number in (4, 2, 3):
        talk.hear(tool_use_id=names[number], result={"content": f"answer {number}"})
    talk.hear(tool_use_id=names[2], result={"content": "again"})
    talk.hear(result={"content": "of nobody"})
    assert talk.answers == [
        ("c-1:1", "first"),
        ("c-1:4", "answer 4"),
        ("c-1:2", "answer 2"),
        ("c-1:3", "answer 3"),
    ]


@pytest.mark.parametrize("name", [7, True, ["a"], {"a": 1}])
def test_a_name_of_another_kind_is_the_name_of_anothers_call(name: Any) -> None:
    talk = Talk()
    use_id = talk.call(1)
    talk.hear(tool_use_id=name, result={"content": "not ours"})
    talk.hear(tool_use_id=use_id, result={"content": "ours"})
    assert talk.answers == [("c-1:1", "ours")]


def test_until_an_answer_has_named_its_call_one_is_under_way_at_a_time() -> None:
    talk = Talk()
    first = talk.call(1)
    assert [talk.call(2), talk.call(3)] == ["", ""]
    talk.hear(tool_use_id=first, result={"content": "a"})
    assert len(talk.theirs) == 3


def test_answers_without_a_name_are_those_of_the_one_call_that_is_under_way() -> None:
    talk = Talk()
    for number in (1, 2, 3):
        talk.call(number)
    for text in ("a", "b", "c"):
        talk.hear(result={"content": text})
    assert talk.answers == [("c-1:1", "a"), ("c-1:2", "b"), ("c-1:3", "c")]


def test_the_late_answer_of_a_call_that_was_given_up_is_handed_to_nobody() -> None:
    talk = Talk()
    talk.call(1, "javascript_tool")
    talk.call(2)
    talk.cancel(1)
    (refused,) = talk.answers
    assert refused[0] == "c-1:2"
    assert "a call of javascript_tool before this one was given up" in refused[1]
    talk.hear(result={"content": "late"})
    talk.call(3)
    talk.hear(result={"content": "right"})
    assert talk.answers[1:] == [("c-1:3", "right")]


def test_an_answer_is_owed_until_it_is_here_or_answers_bear_names() -> None:
    talk = Talk()
    owed = [talk.channel.is_owed_an_answer]
    for answer in ({"result": {"content": "late"}}, {"tool_use_id": "another's", "result": {"content": "x"}}):
        talk.call(1)
        talk.cancel(1)
        owed.append(talk.channel.is_owed_an_answer)
        talk.hear(**answer)
        owed.append(talk.channel.is_owed_an_answer)
    assert owed == [False, True, False, True, False]


def test_a_call_that_waits_for_its_turn_can_be_taken_back() -> None:
    talk = Talk()
    talk.call(1)
    talk.call(2)
    talk.cancel(2)
    talk.hear(result={"content": "a"})
    assert talk.answers == [("c-1:1", "a")]
    assert len(talk.theirs) == 1


@pytest.mark.parametrize("heard", [None, "an answer of theirs"])
def test_beside_another_program_nothing_is_asked_of_an_extension_that_may_not_name_calls(
    heard: str | None,
) -> None:
    talk = Talk()
    talk.other_clients = OtherClients.NOW
    if heard:
        talk.hear(result={"content": heard})
    assert talk.call(1) == ""
    assert "another program is connected to this channel" in talk.answers[0][1]
    assert "handed False" in talk.answers[0][1]


def test_beside_another_program_an_extension_that_names_calls_is_asked() -> None:
    talk = Talk()
    talk.other_clients = OtherClients.NOW
    talk.hear(tool_use_id="theirs", result={"content": "theirs"})
    talk.hear(tool_use_id=talk.call(1), result={"content": "mine"})
    assert talk.answers == [("c-1:1", "mine")]


def test_when_another_program_has_just_gone_a_harmless_question_tells_whether_calls_are_named() -> None:
    talk = Talk()
    talk.other_clients = OtherClients.LATELY
    probe = talk.call(1)
    assert talk.theirs[0]["params"]["tool"] == "tabs_context_mcp"
    assert talk.theirs[0]["params"]["args"] == {"createIfEmpty": False}
    talk.hear(tool_use_id=probe, result={"content": "no tabs"})
    assert talk.theirs[1]["params"]["tool"] == "find"
    talk.hear(tool_use_id=talk.theirs[1]["params"]["tool_use_id"], result={"content": "found"})
    assert talk.answers == [("c-1:1", "found")]


def test_what_another_program_that_has_just_gone_may_have_asked_is_waited_for() -> None:
    talk = Talk()
    talk.other_clients = OtherClients.LATELY
    talk.call(1)
    talk.hear(result={"content": "its late answer, or that to the harmless question"})
    talk.call(2)
    assert [answer.partition(":")[0] for _, answer in talk.answers] == ["error, handed False"] * 2
    assert "was connected to this channel a moment ago" in talk.answers[1][1]
    talk.hear(result={"content": "the other one of the two"})
    talk.other_clients = OtherClients.NONE
    talk.call(3)
    talk.hear(result={"content": "mine"})
    assert talk.answers[2:] == [("c-1:3", "mine")]


def test_an_answer_that_may_be_another_programs_is_handed_to_nobody() -> None:
    talk = Talk()
    talk.call(1)
    talk.other_clients = OtherClients.NOW
    talk.hear(result={"content": "whose?"})
    (first,) = talk.answers
    assert first[1].startswith("error, handed True: an answer came that may have been another program's")


def test_when_it_is_gone_each_open_call_says_whether_it_may_have_run() -> None:
    talk = Talk()
    talk.call(1)
    talk.call(2)
    ended = [msgspec.json.decode(body) for body in talk.channel.on_closed("its host has ended")]
    assert [(each["id"], each["error"]["data"]["handed"]) for each in ended] == [
        ("c-1:1", True),
        ("c-1:2", False),
    ]
    assert {each["error"]["message"] for each in ended} == {"its host has ended"}


def test_who_calls_when_it_is_gone_is_told_why_and_that_nothing_was_run() -> None:
    talk = Talk()
    talk.channel.on_closed("its host has ended")
    talk.call(1)
    assert talk.theirs == []
    assert talk.answers == [("c-1:1", "error, handed False: its host has ended")]


# ── Questions ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "is_allowed"),
    [
        ({"result": {"action": "accept", "content": {"allow": True}}}, True),
        ({"result": {"action": "accept", "content": {"allow": False}}}, False),
        ({"result": {"action": "accept", "content": {"allow": "no"}}}, False),
        ({"result": {"action": "accept", "content": {}}}, False),
        ({"result": {"action": "accept"}}, False),
        ({"result": {"action": "decline"}}, False),
        ({"result": {"action": "cancel"}}, False),
        ({"error": {"code": -32010, "message": "nobody can be asked"}}, False),
    ],
)
def test_what_it_asks_of_a_call_is_asked_of_who_called(answer: dict[str, Any], is_allowed: bool) -> None:
    talk = Talk()
    name = talk.call(1, session="s1")
    talk.ask(name, "q7")
    (question,) = talk.ours
    assert (question["method"], question["for"]) == ("browser/elicitConfirmation", "c-1:1")
    assert question["params"]["message"] == "Claude in Chrome asks: may click be used on https://a.example?"
    talk.say(id=question["id"], **answer)
    assert talk.theirs[-1] == {
        "method": "permission_response",
        "params": {"request_id": "q7", "allowed": is_allowed, "tool_use_id": name},
    }


def test_a_question_about_another_programs_call_is_not_ours_to_answer() -> None:
    talk = Talk()
    talk.call(1, session="s1")
    talk.ask("theirs", "q7")
    assert talk.ours == []
    assert len(talk.theirs) == 1


def test_a_call_that_is_given_up_has_its_question_answered_with_no() -> None:
    talk = Talk()
    talk.hear(tool_use_id=talk.call(1, session="s1"), result={"content": "x"})
    talk.ask(talk.call(2, session="s1"), "q8")
    talk.cancel(2)
    assert talk.theirs[-1]["params"]["allowed"] is False
    talk.say(id=talk.ours[-1]["id"], result={"action": "accept", "content": {"allow": True}})
    assert [each["method"] for each in talk.theirs].count("permission_response") == 1


# ── As the extension's own host ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b'{"type":"ping"}', {"type": "pong", "timestamp": 5}),
        (
            b'{"type":"get_status"}',
            {"type": "status_response", "native_host_version": "1.0.0", "computer_name": "box"},
        ),
        (b'{"type":"odd"}', {"type": "error", "error": "Unknown message type: odd"}),
        (b'{"no":"type"}', {"type": "error", "error": "Invalid message format"}),
        (b"not json", {"type": "error", "error": "Invalid message format"}),
        (b"[" * 5000, {"type": "error", "error": "Invalid message format"}),
    ],
)
def test_it_is_answered_as_its_own_host_would(said: bytes, answer: dict[str, Any]) -> None:
    talk = Talk("extension")
    talk.hear_body(said)
    assert talk.theirs == [answer]


def test_on_a_socket_what_cannot_be_read_is_passed_over() -> None:
    talk = Talk("socket")
    talk.hear_body(b"not json")
    assert talk.theirs == talk.ours == []


def test_it_hears_when_the_first_bridge_comes_and_when_the_last_has_gone() -> None:
    talk = Talk("extension")
    bridges: list[dict[str, Any]] = [
        {"connection": f"c-{n}", "pid": n, "version": "1", "sessions": []} for n in (1, 2)
    ]
    steps: list[list[dict[str, Any]]] = [[], bridges[:1], bridges, bridges[1:], []]
    for here in steps:
        talk.say(method="host/clients", params={"clients": here})
    assert talk.theirs == [{"type": "mcp_connected"}, {"type": "mcp_disconnected"}]


def test_a_call_is_a_tool_request_to_it_and_its_tool_response_the_answer() -> None:
    talk = Talk("extension")
    talk.call(1)
    assert talk.theirs[0]["type"] == "tool_request"
    talk.hear(type="tool_response", result={"content": "done"})
    assert talk.answers == [("c-1:1", "done")]


# ── Which dialect ───────────────────────────────────────────────────────────────────────────────────────────


def first_message() -> DialectDetector:
    return DialectDetector(has_type, Talk("extension").channel)


def test_a_first_message_with_a_type_is_of_the_other_dialect_and_hears_nothing_of_ours() -> None:
    side = first_message()
    assert side.translate(b'{"jsonrpc":"2.0","method":"host/hello","params":{}}') == AdapterOutput([], [])
    turned = side.on_message(b'{"type":"ping"}')
    assert turned.theirs == [b'{"type":"pong","timestamp":5}']
    assert [msgspec.json.decode(body)["method"] for body in turned.ours] == ["browser/hello", "browser/tabs"]


def test_a_first_message_of_ours_passes_as_it_is_after_what_was_held_back() -> None:
    side = first_message()
    hello = b'{"jsonrpc":"2.0","method":"host/hello","params":{}}'
    side.translate(hello)
    theirs_first = b'{"jsonrpc":"2.0","method":"browser/hello","params":{}}'
    assert side.on_message(theirs_first) == AdapterOutput([theirs_first], [hello])
    assert side.largest_bytes == PassThroughAdapter.largest_bytes


def test_one_that_waits_for_us_is_spoken_to_after_a_moment_and_may_still_be_either() -> None:
    side = first_message()
    hello = b'{"jsonrpc":"2.0","method":"host/hello","params":{}}'
    side.translate(hello)
    assert side.on_silence() == AdapterOutput([], [hello])
    assert side.translate(b"{}") == AdapterOutput([], [b"{}"])
    assert side.on_message(b'{"type":"ping"}').theirs == [b'{"type":"pong","timestamp":5}']
