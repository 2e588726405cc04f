"""`/sse` and `/message`: what a client of MCP 2024-11-05 finds, over a real port."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import mcp
import pytest
import trio
import trio.testing
from mcp.client.sse import sse_client
from starlette.types import Message, Receive, Scope, Send

from bridge.frontends.http import http_sessions, legacy_sse
from bridge.frontends.http.http_sessions import HttpSession, HttpSessions
from bridge.hub.router import Router
from fake_transport import CART, MARKED_CART, PlayedTransport
from http_frontend import (
    CLOSES_EARLY,
    GET_CART,
    HOLD,
    SOON_S,
    Events,
    Served,
    call,
    hold_calls,
    open_front,
    request,
    shake_hands,
    until,
)
from http_serving.peer_credentials import Kind, Peer
from native_host.protocol import wire

pytestmark = CLOSES_EARLY
JSON = {"Content-Type": "application/json"}
INITIALIZE = {
    "protocolVersion": "2024-11-05",
    "capabilities": {},
    "clientInfo": {"name": "old", "version": "1"},
}


class Listening:
    """A client of this transport, made by hand: it hears events, and says messages."""

    def __init__(self, client: httpx2.AsyncClient, response: httpx2.Response) -> None:
        self.response = response
        self.events = Events(response)
        self.path = ""
        self._client = client

    @property
    def session_id(self) -> str:
        return self.response.headers["X-Session-Id"]

    async def next(self) -> tuple[str, Any]:
        """The next event's name and data."""
        with trio.fail_after(SOON_S):
            event = await self.events.next()
        assert event
        return event["event"], event["data"] if event["event"] == "endpoint" else json.loads(event["data"])

    async def has_ended(self) -> bool:
        with trio.fail_after(SOON_S):
            return await self.events.next() is None

    async def say(self, message: dict[str, Any]) -> None:
        answer = await self._client.post(self.path, json=message)
        assert (answer.status_code, answer.json()) == (202, {"status": "accepted"})

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result of a request, which is the next thing that it hears."""
        await self.say(request(1, method, params))
        name, message = await self.next()
        assert (name, message["id"]) == ("message", 1)
        return message["result"]

    async def shake_hands(self) -> Any:
        found = await self.ask("initialize", INITIALIZE)
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return found


@asynccontextmanager
async def listening(served: Served) -> AsyncIterator[Listening]:
    """It has been told where to say things."""
    async with served.client() as client, client.stream("GET", "/sse") as response:
        listener = Listening(client, response)
        name, listener.path = await listener.next()
        assert name == "endpoint"
        yield listener


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Served, Listening]]:
    """A client that has shaken hands."""
    async with open_front() as served, listening(served) as client:
        await client.shake_hands()
        yield served, client


# ── The stream ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_stream_begins_with_the_bare_path_to_say_things_to() -> None:
    async with open_front() as served, listening(served) as client:
        assert client.response.status_code == 200
        assert client.response.headers["content-type"] == "text/event-stream"
        assert client.response.headers["cache-control"] == "no-cache"
        assert client.path == f"/message?sessionId={client.session_id}"
        assert len(bytes.fromhex(client.session_id.removeprefix("session_"))) * 8 == 128


async def test_a_client_shakes_hands_lists_and_calls() -> None:
    async with open_front() as served, listening(served) as client:
        hello = await client.shake_hands()
        listed = await client.ask("tools/list")
        result = await client.ask("tools/call", {"name": GET_CART, "arguments": {}})
    assert (hello["protocolVersion"], hello["serverInfo"]["name"]) == ("2024-11-05", "mcpb")
    assert GET_CART in {tool["name"] for tool in listed["tools"]}
    assert result == MARKED_CART


async def test_messages_is_an_alias_of_message() -> None:
    async with connected() as (served, client), served.client() as other:
        client.path = client.path.replace("/message", "/messages")
        assert await client.ask("ping") == {}
        assert (await other.get(client.path)).status_code == 405
        assert (await other.post("/messages", content=b"{}", headers=JSON)).status_code == 400


async def test_all_data_of_an_event_is_on_one_line() -> None:
    """So the specification; a result of a page may hold line ends of any kind."""
    text = "one\ntwo\r\nthree\u2028four"
    async with connected() as (served, client):
        served.transport.answer = {"success": True, "payload": {"content": [{"type": "text", "text": text}]}}
        result = await client.ask("tools/call", {"name": GET_CART, "arguments": {}})
    assert result["content"][0]["text"] == text


@asynccontextmanager
async def listening_in_process(send: Send) -> AsyncIterator[HttpSession]:
    """The session of a client without a socket, so that the test may say what time it is."""
    state = {"connection": ConnectionOf(Peer(Kind.OURS, "127.0.0.1"))}
    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": "/sse",
        "query_string": b"",
        "headers": [],
        "state": state,
    }
    running = HttpSessions(Router(PlayedTransport()), lambda _: None, idle_s=60)
    (listen, *_) = legacy_sse.build_routes(running)
    async with trio.open_nursery() as nursery:
        await nursery.start(running.run)
        nursery.start_soon(listen.app, scope, trio.sleep_forever, send)
        await trio.testing.wait_all_tasks_blocked()
        (session,) = running
        yield session
        nursery.cancel_scope.cancel()


async def test_a_ping_comes_every_30_seconds_whatever_else_comes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    parts: list[tuple[float, bytes]] = []

    async def send(message: Message) -> None:
        if part := message.get("body"):
            parts.append((trio.current_time() - began, part))

    began = trio.current_time()
    async with listening_in_process(send) as session:
        await trio.sleep(20)
        session.standalone.write(b'{"jsonrpc":"2.0","method":"notifications/x"}\n')
        await trio.sleep(38)
    assert [at for at, _ in parts] == [0, 20, 30]
    name, data = parts[-1][1].split(b"\n")[:2]
    assert name == b"event: ping"
    timestamp = json.loads(data.removeprefix(b"data: "))["timestamp"]
    assert isinstance(timestamp, int)
    assert abs(timestamp / 1000 - time.time()) < 60


async def test_no_pings_wait_for_a_client_that_reads_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async def send(message: Message) -> None:
        if message.get("body"):
            await trio.sleep_forever()

    async with listening_in_process(send) as session:
        session.hub_session.client = wire.ClientInfo(name="old")
        unread = session.standalone.waiting_bytes
        await trio.sleep(300)
        assert session.standalone.waiting_bytes == unread > 0


async def test_an_answer_reaches_the_client_that_asked_under_whatever_id() -> None:
    async with open_front() as served, listening(served) as one, listening(served) as two:
        await one.shake_hands()
        await two.shake_hands()
        held = hold_calls(served)
        await one.say(call(7, HOLD))
        await until(lambda: len(held) == 1)
        await two.say(call(7, GET_CART))
        assert (await two.next())[1]["result"] == MARKED_CART
        held[0].on_done(b'{"success":true,"payload":{"content":[]}}')
        assert (await one.next())[1] == {"jsonrpc": "2.0", "id": 7, "result": {**MARKED_CART, "content": []}}


async def test_a_changed_list_is_told_on_the_stream() -> None:
    async with connected() as (served, client):
        await client.ask("tools/list")
        served.transport.announce("h1", wire.TabRemoved(tab_id=1))
        told = await client.next()
    assert told == ("message", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


async def test_what_is_wrong_with_a_message_of_nobody_knows_which_request_is_an_error_event() -> None:
    async with connected() as (_, client):
        await client.say({"jsonrpc": "2.0", "id": {"no": "id"}, "method": "resources/list"})
        name, error = await client.next()
    assert name == "error"
    assert error["code"] == -32600
    assert error["message"]


async def test_hosts_know_the_session_under_its_client_s_name_until_it_ends() -> None:
    async with open_front() as served:
        async with listening(served) as client:
            await client.shake_hands()
            assert [each.client.name for each in served.sessions] == ["old"]
        await until(lambda: not served.sessions)


# ── Its end ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_client_that_says_shutdown_is_answered_and_its_session_ends() -> None:
    async with connected() as (served, client):
        assert await client.ask("shutdown") == {}
        assert await client.has_ended()
        async with served.client() as other:
            late = await other.post(client.path, json=request(2, "ping"))
    assert late.status_code == 404


async def test_a_client_that_goes_away_has_cancelled_its_calls_and_ended_its_session() -> None:
    async with open_front() as served:
        async with listening(served) as client:
            await client.shake_hands()
            held = hold_calls(served)
            await client.say(call(1, HOLD))
            await until(lambda: held)
        await until(lambda: served.transport.given_up)
        await until(lambda: not len(served.front.sessions))
        assert served.transport.given_up == held


async def test_a_cancelled_call_has_no_answer_and_the_stream_goes_on() -> None:
    async with connected() as (served, client):
        held = hold_calls(served)
        await client.say(call(1, HOLD))
        await until(lambda: held)
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        await client.say(told)
        assert await client.ask("ping") == {}
        assert served.transport.given_up == held


async def test_a_client_that_never_says_who_it_is_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sessions, "INITIALIZE_TIMEOUT_S", 0.01)
    async with open_front() as served, listening(served) as client:
        assert await client.has_ended()
        await until(lambda: not len(served.front.sessions))


async def test_when_the_server_ends_open_calls_are_answered_and_the_stream_ends_whole() -> None:
    async with connected() as (served, client):
        held = hold_calls(served)
        await client.say(call(1, HOLD))
        await until(lambda: held)
        served.stop.set()
        name, answer = await client.next()
        assert (name, answer["id"]) == ("message", 1)
        assert "It may have run" in answer["result"]["content"][0]["text"]
        assert await client.has_ended()  # httpx2 raises for a body that breaks off


# ── What is refused ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "content", "headers", "status", "code", "says"),
    [
        ("/message", b"{}", JSON, 400, -32600, "sessionId is missing"),
        ("/message?sessionId=", b"{}", JSON, 400, -32600, "sessionId is missing"),
        ("/message?session_id=1", b"{}", JSON, 400, -32600, "sessionId is missing"),
        ("/message?sessionId=session_0", b"{}", JSON, 404, -32600, "no such session"),
        ("", b"{", JSON, 400, -32700, "not JSON"),
        ("", b"\xff", JSON, 400, -32700, "not UTF-8"),
        ("", b'{"params":' + b"[" * 100_000, JSON, 400, -32700, "nested too deeply"),
        ("", b'{"method":1}', JSON, 400, -32600, "not a JSON-RPC message"),
        ("", b'[{"method":"x"}]', JSON, 400, -32600, "batches are not supported"),
        ("", b"{}", JSON, 400, -32600, "neither a method nor an answer"),
        ("", b"{}", {"Content-Type": "text/plain"}, 415, -32600, "send Content-Type: application/json"),
        ("", b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, 415, -32600, "application/json"),
        ("", b"{}", {"Content-Type": ""}, 415, -32600, "application/json"),
        ("", b" " * (8 * 1024 * 1024 + 1), JSON, 413, -32600, "too long"),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_what_cannot_be_taken_is_refused_in_the_answer_to_the_post(
    path: str, content: bytes, headers: dict[str, str], status: int, code: int, says: str
) -> None:
    async with connected() as (served, client), served.client() as other:
        answer = await other.post(path or client.path, content=content, headers=headers)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (status, code)
        assert says in error["message"]
        assert await client.ask("ping") == {}  # the session does not notice


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
async def test_the_stream_is_there_to_be_listened_to_and_for_nothing_else(method: str) -> None:
    async with open_front() as served, served.client() as client:
        answer = await client.request(method, "/sse")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
        assert not len(served.front.sessions)


async def test_nothing_is_said_but_by_post() -> None:
    async with open_front() as served, served.client() as client:
        answer = await client.get("/message?sessionId=1")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


class ConnectionOf(NamedTuple):
    """Of somebody else, as the server hands it to each request."""

    peer: Peer


async def test_who_did_not_open_a_session_cannot_speak_in_it() -> None:
    """The id is not enough: here somebody has it who was let in with a token."""

    async def stranger(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"connection": ConnectionOf(Peer(Kind.ANOTHERS, "127.0.0.1"))}
        await served.front.app(scope, receive, send)

    transport = httpx2.ASGITransport(stranger)
    async with (
        connected() as (served, client),
        httpx2.AsyncClient(transport=transport, base_url=served.url) as other,
    ):
        answer = await other.post(client.path, json=call(1, GET_CART))
        assert answer.status_code == 404
        assert not served.transport.executed()


async def test_a_session_belongs_to_its_transport() -> None:
    async with connected() as (served, old), served.client() as client:
        new = await shake_hands(client)
        session_id = new["Mcp-Session-Id"]
        crossed = await client.post(f"/message?sessionId={session_id}", json=request(1, "ping"))
        assert crossed.status_code == 404
        crossed = await client.post(
            "/mcp", json=request(1, "ping"), headers={**new, "Mcp-Session-Id": old.session_id}
        )
        assert crossed.status_code == 404


async def test_a_session_has_a_bound_on_what_it_asks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sessions, "MAX_OPEN_REQUESTS", 1)
    async with connected() as (served, client), served.client() as other:
        held = hold_calls(served)
        await client.say(call(1, HOLD))
        await until(lambda: held)
        refused = await other.post(client.path, json=call(2, HOLD))
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        await client.say(told)
        assert await client.ask("ping") == {}


# ── A foreign client ────────────────────────────────────────────────────────────────────────────────────────


async def test_the_mcp_package_s_own_client_of_this_transport_is_served() -> None:
    with trio.fail_after(SOON_S):
        async with (
            open_front() as served,
            sse_client(f"{served.url}/sse") as streams,
            mcp.ClientSession(*streams) as session,
        ):
            hello = await session.initialize()
            listed = await session.list_tools()
            result = await session.call_tool(GET_CART, {})
    assert hello.server_info.name == "mcpb"
    assert GET_CART in {tool.name for tool in listed.tools}
    assert result.model_dump(by_alias=True, exclude_unset=True)["content"] == CART["content"]
