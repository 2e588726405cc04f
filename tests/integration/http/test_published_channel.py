"""The socket of `mcpb serve --publish-channel`, and clients that keep the rules of another product's."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from bridge.errors import CallError
from bridge.frontends.existing_channel import channel_results
from bridge.frontends.existing_channel.channel_connection import MAX_OPEN
from bridge.frontends.existing_channel.channel_server import MAX_CONNECTIONS, ChannelServer, device_id
from bridge.frontends.existing_channel.channel_sessions import MAX_SESSIONS
from channel_client import RawChannelClient, bytes_of
from fake_tool_client import SHOP, PlayedTools
from fake_transport import Answer, Asked, tab, tools
from http_frontend import until
from install.removable_files import left_by_dead_hosts, runtime_directories
from installer_home import CONNECT, as_nobody, needs_root
from native_host.existing_channel import published_socket
from native_host.existing_channel.channel_messages import CLIENT_ID, FRAME_BYTES
from native_host.existing_channel.channel_sockets import check_socket, find_channels
from native_host.protocol import wire
from native_host.protocol.framing import frame
from native_host.protocol.wire import Code
from native_host.system.private_files import PrivateFileError
from serve_process import SOON_S, serving

ECHO = "website_tool_shop_example_tab1_echo"
HOLD = "website_tool_shop_example_tab1_hold"
DEVICE = str(uuid.UUID(int=7))


class Published:
    """A front end that serves on such a socket, over a browser with one page, whose tools are played."""

    def __init__(self, played: PlayedTools, path: Path) -> None:
        self.played = played
        self.transport = played.transport
        self.path = path
        self.told: list[wire.Session] = []
        """As the hosts were told last."""
        self.held: list[Asked] = []
        """Calls of `hold`, which the test answers."""
        self.page_answers: dict[str, Any] = {}
        """What `echo` answers in its place."""
        self.stop = trio.Event()
        self.stopped = trio.Event()
        self._obey = played.transport.on_request
        played.transport.on_request = self._answer
        played.connect(tab(1))
        played.transport.announce("h1", tools(1, "echo", "hold"))

    def connected(self, name: str = "") -> Any:
        return RawChannelClient.connected(self.path, name)

    def _answer(self, asked: Asked) -> Answer:
        match asked.params:
            case wire.ExecuteTool(tool_name="hold"):
                self.held.append(asked)
                return None
            case wire.ExecuteTool(args=args):
                said = json.loads(bytes(args)).get("say", "")
                return {"success": True, "payload": self.page_answers or text_result(said)}
            case wire.CreateTab(session=session):
                taken = sum(isinstance(each.params, wire.CreateTab) for each in self.transport.asked)
                opened = tab(100 + taken, "null", owner=session, group_id=5)
                self.transport.announce("h1", wire.TabChanged(tab=opened))
                return {"tabId": opened.tab_id, "windowId": 1, "groupId": 5, "url": "about:blank"}
            case _:
                return self._obey(asked)

    def let_go(self, said: str = "held") -> None:
        """Answer the oldest call of `hold`."""
        answer = {"success": True, "payload": text_result(said)}
        self.held.pop(0).on_done(msgspec.json.encode(answer))


@asynccontextmanager
async def published(home: Path, **settings: Any) -> AsyncIterator[Published]:
    """Serve until the block ends; see `Published`."""
    async with trio.open_nursery() as nursery:
        played = PlayedTools(nursery, home, **settings)
        with published_socket.publish_socket(home / "state", home / "channels") as socket_there:
            served = Published(played, socket_there.path)

            def tell_hosts(sessions: list[wire.Session]) -> None:
                served.told = sessions

            front = ChannelServer(played.router, played.transport, tell_hosts, DEVICE)

            async def serve() -> None:
                await front.serve(socket_there.listener, served.stop)
                served.stopped.set()

            nursery.start_soon(serve)
            with trio.fail_after(SOON_S):
                yield served
            served.stop.set()
            with trio.fail_after(SOON_S):
                await served.stopped.wait()
        nursery.cancel_scope.cancel()


def text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def execute(tool: str, tool_use_id: str | None = None, **params: Any) -> dict[str, Any]:
    """A request, as those clients send it; `args` are among its params."""
    named = {} if tool_use_id is None else {"tool_use_id": tool_use_id}
    given = {"client_id": "claude-code", "tool": tool, "args": {}, **named, **params}
    return {"method": "execute_tool", "params": given}


def texts(answer: dict[str, Any]) -> list[str]:
    """Of an answer's blocks, an error's as well."""
    content = answer["error" if "error" in answer else "result"]["content"]
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block["type"] == "text"]


# ── Whose answer it is ──────────────────────────────────────────────────────────────────────────────────────


async def test_of_eight_clients_at_once_each_gets_its_own_answers_and_nothing_else(short_tmp: Path) -> None:
    async def call_often(served: Published, name: str) -> None:
        async with served.connected(name) as client:
            due = 0
            for number in range(50):
                said = f"{name} {number} ".ljust(20_000, "x")
                answer = await client.call(ECHO, say=said)
                assert texts(answer) == [said]
                due += bytes_of(answer)
            assert (client.bytes_read, client.frames_read) == (due, 50)
            assert client.foreign == client.unexpected == client.notifications == []

    async with published(short_tmp) as served, trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(call_often, served, f"client{number}")


async def test_calls_with_an_id_run_at_once_and_are_answered_as_they_end(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        await client.say(**execute(HOLD, "first"))
        await client.say(**execute(ECHO, "second", args={"say": "quick"}))
        assert await client.hear() == {"tool_use_id": "second", "result": text_result("quick")}
        served.let_go("slow")
        assert await client.hear() == {"tool_use_id": "first", "result": text_result("slow")}


async def test_those_without_one_run_one_after_the_other_in_the_order_of_their_requests(
    short_tmp: Path,
) -> None:
    """Its clients take an answer without an id for that of the call which waits longest."""
    async with published(short_tmp) as served, served.connected() as client:
        await client.say(**execute(HOLD))
        await client.say(method="no_such_method")
        await client.say_frame(b"no JSON")
        await client.say(**execute(ECHO, args={"say": "last"}))
        await client.say(**execute(ECHO, "named", args={"say": "between"}))
        assert texts(await client.hear()) == ["between"]
        assert len(served.transport.executed()) == 2
        served.let_go("first")
        assert [texts(await client.hear())[0][:20] for _ in range(4)] == [
            "first",
            "Unknown method: no_s",
            "This is no request (",
            "last",
        ]
        assert len(served.transport.executed()) == 3


async def test_any_number_of_them_is_answered_when_their_turn_comes(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        await client.say(**execute(HOLD))
        for _ in range(MAX_OPEN - 1):
            await client.say(method="no_such_method")
        await until(lambda: served.held)
        served.let_go("first")
        assert texts(await client.hear()) == ["first"]
        for _ in range(MAX_OPEN - 1):
            assert texts(await client.hear())[0].startswith("Unknown method: no_such_method.")


async def test_an_id_in_use_is_refused_and_the_call_that_has_it_goes_on(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        await client.say(**execute(HOLD, "twice"))
        await client.say(**execute(HOLD, "twice"))
        refused = await client.hear()
        assert refused["tool_use_id"] == "twice"
        assert "no answer yet" in texts(refused)[0]
        served.let_go()
        assert texts(await client.hear()) == ["held"]
        assert served.held == []


async def test_what_is_open_is_bounded(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        for number in range(MAX_OPEN):
            await client.say(**execute(HOLD, f"call {number}"))
        await client.say(**execute(ECHO, "too many"))
        assert texts(await client.hear()) == [
            f"{MAX_OPEN} requests have no answer yet: wait for one. Nothing was run."
        ]
        await client.say(**execute(ECHO))  # which could not be refused in its order
        assert "The connection is closed" in texts(await client.hear())[0]
        await client.until_closed()
        await until(lambda: len(served.transport.given_up) == MAX_OPEN)


# ── What is no request, and what is too long ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"no JSON", "This is no request"),
        (b'"\xff"', "This is no request"),
        (b"[]", "This is no request"),
        (b'{"params":{}}', "method is missing): send {"),
        (b'{"method":"execute_tool","params":7}', "This is no request"),
        (b'{"method":"execute_tool"}', "tool is missing"),
        (b'{"method":"execute_tool","params":{"tool":"navigate","args":[]}}', "Invalid arguments"),
        (
            b'{"method":"execute_tool","params":{"tool":"no_such_tool","args":{}}}',
            "Unknown tool: no_such_tool",
        ),
        (b'{"method":"permission_response","params":{}}', "request_id is missing"),
        (b'{"method":"execute_tool","params":{"local_pairing":{}}}', "Pairing is not offered here"),
        (b'{"method":"execute_tool","params":{"sealed":{"sid":"1"}}}', "Pairing is not offered here"),
        (b"[" * 100_000, "This is no request"),
    ],
)
async def test_what_is_no_request_is_answered_with_what_is_wrong_and_the_connection_goes_on(
    short_tmp: Path, body: bytes, why: str
) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        await client.say_frame(body)
        (said,) = texts(await client.hear())
        assert why in said
        assert ("This channel knows execute_tool" in said) == ("This is no request" in said)
        assert texts(await client.call(ECHO, say="still here")) == ["still here"]


async def test_a_method_that_is_not_known_is_refused_by_its_id(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        await client.say(method="no_such_method", params={"tool_use_id": "mine"})
        refused = await client.hear()
        assert refused["tool_use_id"] == "mine"
        assert texts(refused)[0].startswith(
            "Unknown method: no_such_method. This channel knows execute_tool,"
        )
        assert texts(refused)[0].endswith("Nothing was run.")


async def test_an_answer_that_fits_into_no_frame_is_an_error_that_says_what_to_ask_for(
    short_tmp: Path,
) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        answer = await client.call(ECHO, say="x" * (FRAME_BYTES - 10_000))
        assert len(texts(answer)[0]) == FRAME_BYTES - 10_000
        served.page_answers = text_result("x" * FRAME_BYTES)
        answer = await client.call(ECHO)
        assert "error" in answer
        assert f"a message of this channel may have {FRAME_BYTES}" in texts(answer)[0]
        assert "Ask for less" in texts(answer)[0]


def test_of_a_picture_that_is_too_large_a_smaller_one_is_to_be_asked_for() -> None:
    picture = {"content": [{"type": "image", "data": "A" * FRAME_BYTES, "mimeType": "image/png"}]}
    content = channel_results.format_outcome("computer", msgspec.json.encode(picture))
    said = texts(json.loads(channel_results.make_message("1", content, "computer")))[0]
    assert said.startswith("computer has run")
    assert "`scale`" in said


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((FRAME_BYTES + 1).to_bytes(4, "little") + b"x" * FRAME_BYTES, f"the limit is {FRAME_BYTES}"),
        (b"\xff" * 100, f"the limit is {FRAME_BYTES}"),
        (bytes(4), "a frame of 0 bytes"),
    ],
)
async def test_who_breaks_the_frames_is_told_before_the_connection_is_closed(
    short_tmp: Path, said: bytes, why: str
) -> None:
    async with published(short_tmp) as served, served.connected() as client, served.connected() as other:
        await client.say(**execute(HOLD, "open"))
        await until(lambda: served.held)
        await client.say_raw(said)
        assert why in texts(await client.hear())[0]
        await client.until_closed()
        await until(lambda: served.transport.given_up)
        assert texts(await other.call(ECHO, say="undisturbed")) == ["undisturbed"]


async def test_a_request_of_the_largest_size_is_taken(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        body = msgspec.json.encode(execute(ECHO, args={"say": "", "rest": ""}))
        body = body[:-4] + b"x" * (FRAME_BYTES - len(body)) + body[-4:]
        assert len(body) == FRAME_BYTES
        await client.say_frame(body)
        assert "result" in await client.hear()


async def test_a_call_may_leave_its_arguments_out(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        await client.say(method="execute_tool", params={"tool": "tabs_context_mcp"})
        assert "error" not in await client.hear()


# ── What tools answer ───────────────────────────────────────────────────────────────────────────────────────


async def test_blocks_are_those_that_its_clients_know(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        served.page_answers = {
            "content": [
                {"type": "text", "text": "A picture:", "_meta": {"by": "page"}},
                {"type": "image", "data": "iVBORw0K", "mimeType": "image/png"},
                {"type": "resource_link", "name": "img_1", "uri": "mcpb://pictures/img_1"},
                {"type": "resource", "resource": {"uri": "file:///a", "text": "embedded"}},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            ],
            "structuredContent": {"left": "out"},
        }
        assert (await client.call(ECHO))["result"]["content"] == [
            {"type": "text", "text": "A picture:"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}},
            {"type": "text", "text": "img_1: mcpb://pictures/img_1"},
            {"type": "text", "text": "embedded"},
            {"type": "text", "text": "(What cannot be sent on this channel is left out: audio, audio/wav.)"},
        ]


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ({"content": [], "structuredContent": {"total": 3}}, {"result": text_result('{"total":3}')}),
        ({"content": []}, {"result": text_result(channel_results.NOTHING)}),
        ({"content": [{"type": "text", "text": "no"}], "isError": True}, {"error": {"content": "no"}}),
        ({"content": [], "isError": True}, {"error": {"content": channel_results.NOTHING}}),
        ({"cart": "no result of MCP"}, {"result": text_result('{"cart":"no result of MCP"}')}),
    ],
)
def test_no_answer_is_empty_and_nothing_of_it_is_lost(result: Any, content: Any) -> None:
    assert channel_results.format_outcome("any", msgspec.json.encode(result)) == content


async def test_tabs_are_told_in_the_words_that_its_clients_read_ids_from(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        none = await client.call("tabs_context_mcp")
        assert json.loads(texts(none)[0]) == {"availableTabs": []}
        assert "navigate opens one" in texts(none)[1]
        created = await client.call("tabs_create_mcp")
        assert texts(created)[0] == "Created new tab. Tab ID: 101"
        told = json.loads(texts(await client.call("tabs_context_mcp"))[0])
        assert told == {"availableTabs": [{"tabId": 101, "title": "", "url": "null/"}], "tabGroupId": 5}


def test_what_that_product_s_own_extension_says_of_tabs_is_told_in_its_words() -> None:
    """It may be behind us as well; then its words come marked as another's."""
    said = '{"availableTabs":[{"tabId":7,"title":"","url":""}],"tabGroupId":2}\nTab Context: 1 tab'
    told = {"message": "Claude in Chrome has answered.", "said": said}
    content = [{"type": "text", "text": each} for each in (told["message"], f"[1a2b: …]\n{said}")]
    result = msgspec.json.encode({"content": content, "structuredContent": told})
    assert texts(channel_results.format_outcome("tabs_context_mcp", result)) == [
        *said.splitlines(),
        told["message"],
    ]


async def test_what_a_tool_does_not_take_is_left_out_and_that_is_told(short_tmp: Path) -> None:
    """That product's extension passes over it, and takes a tab and a group with every tool."""
    async with published(short_tmp) as served, served.connected() as client:
        created = await client.call("tabs_create_mcp", tabId=7, tabGroupId=5)
        assert texts(created) == [
            "Created new tab. Tab ID: 101",
            "Opened tab 101, empty. navigate loads a page in it.",
        ]
        created = await client.call("tabs_create", url=SHOP, tabId=7)
        assert texts(created)[-1] == "(Left out, because the tool takes no such argument: url.)"
        refused = await client.call("javascript_tool", code="1 + 1")
        assert "action is missing" in texts(refused)[0]
        assert texts(refused)[0].endswith("no such argument: code.)")
        assert texts(await client.call(ECHO, say="all of it", tabGroupId=5)) == ["all of it"]


async def test_a_call_that_fails_is_an_error(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        served.transport.on_request = lambda _: CallError(Code.NAVIGATED, "the page went on", handed=False)
        answer = await client.call(ECHO)
        assert "the page went on" in texts(answer)[0]
        assert "error" in answer


# ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_each_connection_is_a_session_that_people_can_tell_from_others(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        assert served.told == []  # it has called nothing yet
        await client.call("tabs_create_mcp")
        (session,) = served.told
        assert session.client.name == "claude-code"
        assert session.title.startswith("claude-code (")
        assert f"pid {os.getpid()})" in session.title or sys.platform != "linux"
        async with served.connected() as other:
            assert json.loads(texts(await other.call("tabs_context_mcp"))[0]) == {"availableTabs": []}
            assert len(served.told) == 2
        await until(lambda: served.told == [session])


async def test_each_scope_of_a_connection_has_tabs_of_its_own(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        for scope in ("one", "two"):
            named = {"sessionId": scope, "displayName": f"Agent {scope}"}
            await client.say(**execute("tabs_create_mcp", scope, session_scope=named))
            await client.hear()
        await client.say(**execute("tabs_context_mcp", "seen", session_scope={"sessionId": "two"}))
        (seen,) = json.loads(texts(await client.hear())[0])["availableTabs"]
        assert seen["tabId"] == 102
        assert [session.title.partition(" (")[0] for session in served.told] == ["Agent one", "Agent two"]


async def test_of_too_many_scopes_the_one_that_was_used_longest_ago_ends(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        await client.say(**execute(HOLD, "at work", session_scope={"sessionId": "at work"}))
        await until(lambda: len(served.told) == 1)
        at_work = served.told[0].id
        for number in [*range(MAX_SESSIONS - 1), 0]:
            await client.say(**execute(ECHO, f"{number}", session_scope={"sessionId": f"scope {number}"}))
            await client.hear()
        used_again, longest_ago = served.told[1].id, served.told[2].id
        await client.say(**execute(ECHO, "new", session_scope={"sessionId": "new"}))
        await client.hear()
        left = [session.id for session in served.told]
        assert len(left) == MAX_SESSIONS
        assert at_work in left
        assert used_again in left
        assert longest_ago not in left
        served.let_go()
        assert texts(await client.hear()) == ["held"]


async def test_what_a_client_leaves_behind_is_cancelled_and_let_go(short_tmp: Path) -> None:
    async with published(short_tmp) as served:
        async with served.connected() as client:
            await client.say(**execute("tabs_create_mcp", "tab"))
            await client.hear()
            await client.say(**execute(HOLD, "never"))
            await until(lambda: served.held)
        await until(lambda: served.transport.given_up)
        await until(lambda: not served.told)
        assert served.played.sent("closeSession") or served.played.sent("setOwner")


async def test_more_connections_than_there_is_room_for_are_told_so(short_tmp: Path) -> None:
    async with published(short_tmp) as served, trio.open_nursery() as nursery:
        connected = 0

        async def stay() -> None:
            nonlocal connected
            async with served.connected() as client:
                await client.call(ECHO)
                connected += 1
                await trio.sleep_forever()

        for _ in range(MAX_CONNECTIONS):
            nursery.start_soon(stay)
        await until(lambda: connected == MAX_CONNECTIONS)
        async with served.connected() as one_more:
            assert f"{MAX_CONNECTIONS} clients are connected" in texts(await one_more.hear())[0]
            await one_more.until_closed()
        nursery.cancel_scope.cancel()


async def test_at_the_end_every_open_call_is_told_that_it_is_one(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        await client.say(**execute(HOLD, "open"))
        await until(lambda: served.held)
        served.stop.set()
        ended = await client.hear()
        assert ended["tool_use_id"] == "open"
        assert "may have run" in texts(ended)[0]
        await client.until_closed()


# ── The person ──────────────────────────────────────────────────────────────────────────────────────────────


async def permission(client: RawChannelClient) -> dict[str, Any]:
    asked = await client.hear()
    assert (asked["jsonrpc"], asked["method"]) == ("2.0", "permission_request")
    params: dict[str, Any] = asked["params"]
    return params


async def respond(client: RawChannelClient, asked: dict[str, Any], *, allowed: bool) -> None:
    params = {"request_id": asked["request_id"], "allowed": allowed, "tool_use_id": asked["tool_use_id"]}
    await client.say(method="permission_response", params=params)


async def test_who_puts_questions_to_its_person_is_asked_and_nobody_else_hears_of_it(short_tmp: Path) -> None:
    plan = {"domains": [SHOP], "approach": ["Look around."]}
    async with (
        published(short_tmp, sites="ask") as served,
        served.connected() as client,
        served.connected() as other,
    ):
        await client.say(**execute("update_plan", "plan", args=plan, handle_permission_prompts=True))
        asked = await permission(client)
        assert (asked["tool_use_id"], asked["tool_type"]) == ("plan", "update_plan")
        assert "plans to work on" in asked["action_data"]["message"]
        await respond(client, asked, allowed=True)
        assert f"approved the plan, and {SHOP} for this session" in texts(await client.hear())[0]
        await client.say(**execute("permissions_check", "check", args={"url": f"{SHOP}/"}))
        assert "Allowed" in texts(await client.hear())[0]
        assert other.frames_read == 0


async def test_a_no_is_one_and_without_the_prompts_nobody_is_asked(short_tmp: Path) -> None:
    plan = {"domains": [SHOP], "approach": ["Look around."]}
    async with published(short_tmp, sites="ask") as served, served.connected() as client:
        await client.say(**execute("update_plan", "plan", args=plan, handle_permission_prompts=True))
        await respond(client, await permission(client), allowed=False)
        assert "declined the plan" in texts(await client.hear())[0]
        assert "cannot ask the user" in texts(await client.call("update_plan", **plan))[0]
        await client.say(method="permission_response", params={"request_id": "late", "allowed": True})
        assert texts(await client.call(ECHO, say="still here")) == ["still here"]


YES_OR_NO = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
SIZES = {"type": "object", "properties": {"size": {"type": "string", "enum": ["S", "M"]}}}


async def test_a_page_s_question_is_put_where_a_yes_or_a_no_answers_it(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        await client.say(**execute(HOLD, "held", handle_permission_prompts=True))
        await until(lambda: served.held)
        ask = served.held[0].caller.on_request
        answered: list[Any] = []

        async def put(schema: dict[str, Any]) -> None:
            question = wire.ElicitConfirmation(
                message="Buy it?", requested_schema=msgspec.Raw(msgspec.json.encode(schema))
            )
            try:
                answered.append(json.loads(await ask(question)))
            except CallError as refusal:
                answered.append(refusal.detail)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(put, YES_OR_NO)
            asked = await permission(client)
            assert asked["url"] == SHOP
            await respond(client, asked, allowed=True)
        await put(SIZES)
        assert answered[0] == {"action": "accept", "content": {"sure": True}}
        assert "only be asked for a yes or a no" in answered[1]
        served.let_go()


# ── Its other methods ───────────────────────────────────────────────────────────────────────────────────────


async def test_it_says_by_which_name_it_is_known(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        await client.say(method="get_bridge_identity", params={"echo": "abc", "tool_use_id": "who"})
        told = {"echo": "abc", "bridge_device_id": DEVICE}
        assert await client.hear() == {"tool_use_id": "who", "result": told}


def test_that_name_is_random_and_stays(short_tmp: Path) -> None:
    assert device_id(short_tmp) == device_id(short_tmp)
    assert uuid.UUID(device_id(short_tmp)).version == 4
    assert stat.S_IMODE((short_tmp / "device-id").stat().st_mode) == 0o600


async def test_a_session_s_tab_is_shown_if_there_is_one(short_tmp: Path) -> None:
    async with published(short_tmp) as served, served.connected() as client:
        show = {"echo": 1, "tool_use_id": "show", "session_keys": ["one"], "account_uuid": "none"}
        await client.say(method="show_session_tab", params=show)
        assert await client.hear() == {"tool_use_id": "show", "result": {"echo": 1, "shown": False}}
        await client.say(**execute("tabs_create_mcp", "tab", session_scope={"sessionId": "one"}))
        await client.hear()
        await client.say(method="show_session_tab", params=show)
        assert (await client.hear())["result"]["shown"] is True
        (shown,) = served.played.sent("activateTab")
        assert (shown.tab_id, shown.session) == (101, served.told[0].id)


# ── Who may connect, and who must not ───────────────────────────────────────────────────────────────────────


SPEAK_AND_HEAR = """
heard = b""
try:
    s.sendall(bytes.fromhex(sys.argv[2]))
    heard = s.recv(100)
except OSError:
    pass  # it was cut off before it had spoken, or heard
print(heard)
"""


@needs_root
async def test_another_user_is_not_served_even_where_the_socket_was_opened_to_all(short_tmp: Path) -> None:
    speak = f"{CONNECT}\n{SPEAK_AND_HEAR}"
    async with published(short_tmp) as served:
        for opened_up in (short_tmp, served.path.parent, served.path):
            opened_up.chmod(0o777)
        said = frame(msgspec.json.encode(execute(ECHO)), "little").hex()
        attempt = await trio.to_thread.run_sync(as_nobody, speak, served.path, said)
        assert (attempt.stdout, attempt.stderr) == ("b''\n", "")
        assert served.transport.executed() == []


async def test_no_holder_of_ours_takes_it_for_that_product_s(short_tmp: Path) -> None:
    """It would speak with itself, round and round."""
    async with published(short_tmp) as served, served.connected() as client:
        assert find_channels(served.path.parent) == []
        assert check_socket(served.path).fault == "mcpb has put it there itself"
        holder = [sys.executable, "-I", "-m", "native_host.existing_channel.holder", str(served.path)]
        env = {**os.environ, "MCPB_HOME": str(short_tmp)}
        done = await trio.run_process(holder, env=env, capture_stderr=True, check=False)
        assert done.returncode == 1
        assert b"mcpb has put it there itself" in done.stderr
        await client.say(**execute(ECHO, "loop", client_id=CLIENT_ID))
        assert "speak with itself" in texts(await client.hear())[0]
        assert served.transport.executed() == []


# ── The files ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_directory_is_the_one_of_the_user_s_name_or_another_that_is_there(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published_socket, "ABOVE", str(short_tmp))
    named = published_socket.choose_directory()
    assert named.parent == short_tmp
    assert named.name.startswith("claude-mcp-browser-bridge-")
    other = short_tmp / "claude-mcp-browser-bridge-unknown"
    open_to_all = short_tmp / "claude-mcp-browser-bridge-a"
    for directory in (other, open_to_all):
        directory.mkdir(mode=0o700)
    open_to_all.chmod(0o755)
    assert published_socket.choose_directory() == other
    named.mkdir()
    assert published_socket.choose_directory() == named
    assert published_socket.choose_directory("/tmp/elsewhere") == Path("/tmp/elsewhere")


@pytest.mark.parametrize("plant", ["open", "link", "file"])
def test_a_directory_that_is_not_private_is_refused_and_left_alone(short_tmp: Path, plant: str) -> None:
    directory = short_tmp / "channels"
    match plant:
        case "open":
            directory.mkdir()
            directory.chmod(0o777)
        case "link":
            directory.symlink_to(short_tmp)
        case "file":
            directory.write_text("")
    before = directory.lstat().st_ino, directory.lstat().st_mode
    with (
        pytest.raises(PrivateFileError, match="channels"),
        published_socket.publish_socket(short_tmp / "state", directory),
    ):
        pass
    assert (directory.lstat().st_ino, directory.lstat().st_mode) == before
    assert list((short_tmp / "state").iterdir()) == []


def test_a_directory_with_that_product_s_sockets_is_to_be_closed_and_never_removed(short_tmp: Path) -> None:
    directory = short_tmp / "channels"
    directory.mkdir()
    directory.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(directory / "4711.sock"))
        with (
            pytest.raises(PrivateFileError) as refused,
            published_socket.publish_socket(short_tmp / "state", directory),
        ):
            pass
    assert f"Run: chmod 700 {directory}" in str(refused.value)
    assert "emove" not in str(refused.value)
    assert list(directory.iterdir()) == [directory / "4711.sock"]


def test_a_socket_that_another_has_left_under_our_pid_stays(short_tmp: Path) -> None:
    directory = short_tmp / "channels"
    directory.mkdir(mode=0o700)
    theirs = directory / f"{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(theirs))
    with (
        pytest.raises(PrivateFileError, match="not ours to remove"),
        published_socket.publish_socket(short_tmp / "state", directory),
    ):
        pass
    assert list(directory.iterdir()) == [theirs]
    assert not published_socket.is_ours(theirs)


KILLED = """
import os, signal, sys
from pathlib import Path
from native_host.existing_channel import published_socket
with published_socket.publish_socket(Path(sys.argv[1]), Path(sys.argv[2])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_server(home: Path) -> Path:
    """The socket that a killed one leaves."""
    command = [sys.executable, "-c", KILLED, str(home / "state"), str(home / "channels")]
    assert subprocess.run(command, check=False, timeout=SOON_S).returncode == -signal.SIGKILL
    (left,) = (home / "channels").iterdir()
    return left


def test_what_a_killed_server_left_is_known_to_the_uninstallation_and_only_that(short_tmp: Path) -> None:
    left = killed_server(short_tmp)
    with published_socket.publish_socket(short_tmp / "state", short_tmp / "channels"):
        found = left_by_dead_hosts({"MCPB_HOME": str(short_tmp)}, short_tmp)
        assert left in found
        assert {path.name for path in found} == {left.name, f"channel-{left.stem}.json"}
        assert runtime_directories({"MCPB_HOME": str(short_tmp)}, short_tmp) == [left.parent]


def test_who_looks_is_told_of_a_server_s_socket_and_of_what_a_killed_one_left(short_tmp: Path) -> None:
    left = killed_server(short_tmp)
    state = short_tmp / "state"
    with published_socket.publish_socket(state, left.parent) as served:
        found = {
            each.path: (each.pid, each.is_left) for each in published_socket.read_published_sockets(state)
        }
    assert found == {str(left): (int(left.stem), True), str(served.path): (os.getpid(), False)}
    published_socket.sweep(state)
    assert published_socket.read_published_sockets(state) == []


def test_where_the_disk_is_full_nothing_is_left(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    publishing = published_socket.publish_socket(short_tmp / "state", short_tmp / "channels")
    with pytest.raises(PrivateFileError, match="No space left"), publishing:
        pass
    assert list((short_tmp / "state").iterdir()) == []


def test_a_socket_that_took_its_place_stays(short_tmp: Path) -> None:
    left = killed_server(short_tmp)
    left.unlink()
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(left))
        published_socket.sweep(short_tmp / "state")
        assert list(left.parent.iterdir()) == [left]
    assert list((short_tmp / "state").iterdir()) == []


# ── As a process ────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_socket_is_there_as_long_as_the_server_and_gone_after_it(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = mcpb_home / "channels"
    monkeypatch.setenv("MCPB_EXISTING_CHANNEL_DIRECTORY", str(directory))
    async with serving() as server:
        assert not directory.exists()  # nobody has asked for it
        assert await server.end() == 0
    async with serving("--publish-channel") as server:
        path = directory / f"{server.process.pid}.sock"
        assert str(path) in server.said
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        async with RawChannelClient.connected(path) as client:
            with trio.fail_after(SOON_S):
                assert "error" in await client.call("tabs_context_mcp")  # there is no browser
            await server.end()
    assert not directory.exists()
    assert not list((mcpb_home / "state").glob("channel-*"))


async def test_what_a_killed_server_left_is_removed_by_the_next(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = mcpb_home / "channels"
    monkeypatch.setenv("MCPB_EXISTING_CHANNEL_DIRECTORY", str(directory))
    monkeypatch.setenv("MCPB_EXISTING_CHANNEL_PUBLISH", "true")
    async with serving() as server:
        await server.end(signal.SIGKILL)
    assert list(directory.iterdir())
    monkeypatch.setenv("MCPB_EXISTING_CHANNEL_PUBLISH", "false")
    async with serving() as server:
        assert not directory.exists()
        await server.end()
