"""What nobody with good intentions sends: each gets a status and a reason, and others do not notice."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import trio
import trio.testing
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bridge.config.settings import HttpSettings
from bridge.frontends.http.asgi_app import Admit
from bridge.frontends.http.authorization import Authorization
from http_frontend import (
    CLOSES_EARLY,
    ENVELOPE,
    INITIALIZE,
    SOON_S,
    STATELESS,
    OneToken,
    Served,
    hello,
    open_front,
    request,
    serving_app,
    shake_hands,
    stateless,
)
from http_serving import http_connection, http_server, request_tasks
from http_serving.http_connection import UpgradeRequest
from http_serving.http_server import ConnectionLimits
from http_serving.peer_credentials import Kind, Peer
from http_serving.request_body import MAX_BODY_BYTES, MAX_BODY_S
from raw_http import RawClient, asked, connected, head

pytestmark = CLOSES_EARLY

TOKEN = "the-token-that-is-right"
POST = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
SAME_USER = HttpSettings(auth="same-user")
JSON = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}


def gate(settings: HttpSettings) -> Admit:
    """As `mcpb serve` builds it, for whatever port the request came in at."""

    async def admit(request: Request) -> dict[str, str]:
        gate = Authorization(settings, request.scope["server"][1], OneToken(TOKEN), lambda _: False)
        return await gate.admit(request)

    return admit


@asynccontextmanager
async def guarded(settings: HttpSettings = SAME_USER) -> AsyncIterator[Served]:
    """A front end behind its gate, which others can still use when the block has done what it does."""
    async with open_front(settings, admit=gate(settings)) as served:
        yield served
        assert (await asked(served.port, head(port=served.port))).status == 200


def post(body: bytes, *, port: int, **headers: str) -> bytes:
    """An MCP request, or what somebody takes for one."""
    return head("POST /mcp", port=port, Content_Length=str(len(body)), **(JSON | headers)) + body


INITIALIZING = json.dumps(request(0, "initialize", INITIALIZE)).encode()


# ── Who may not speak to us ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "host", ["evil.example:{port}", "localhost:1", "127.0.0.1.evil.example", "localhost"]
)
async def test_a_name_that_is_not_ours_is_misdirected(host: str) -> None:
    async with guarded() as served:
        said = post(INITIALIZING, port=served.port, Host=host.format(port=served.port))
        answer = await asked(served.port, said)
    assert answer.status == 421
    assert "the Host header does not name this server" in answer.why


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:8080", "null"])
async def test_a_page_gets_in_from_no_origin_of_the_web_nor_from_another_local_port(origin: str) -> None:
    async with guarded() as served:
        answer = await asked(served.port, post(INITIALIZING, port=served.port, Origin=origin))
    assert answer.status == 403
    assert "cors_origins" in answer.why


@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer guessed"}, {"Authorization": TOKEN}])
async def test_where_a_token_is_asked_for_nobody_gets_in_without_it(given: dict[str, str]) -> None:
    async with guarded(HttpSettings()) as served:
        answer = await asked(served.port, post(INITIALIZING, port=served.port, **given))
        let_in = await asked(
            served.port, post(INITIALIZING, port=served.port, Authorization=f"Bearer {TOKEN}")
        )
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("bearer")
    assert "mcpb serve --print-config" in answer.why
    assert TOKEN not in answer.why
    assert let_in.status == 200


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")
async def test_another_user_of_the_machine_is_not_let_in() -> None:
    program = """
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
connection = socket.socket()
connection.connect((b"127.0.0.1", int(sys.argv[1])))
connection.sendall(sys.stdin.buffer.read())
sys.stdout.buffer.write(connection.recv(4096))
"""
    async with guarded() as served:
        said = post(INITIALIZING, port=served.port)
        command = [sys.executable, "-c", program, str(served.port)]
        with trio.fail_after(SOON_S):
            done = await trio.run_process(command, stdin=said, capture_stdout=True)
    assert done.stdout.startswith(b"HTTP/1.1 403 ")
    assert b"this connection belongs to a different user" in done.stdout


# ── What is no request ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "status", "why"),
    [
        (b"hello\r\n\r\n", 400, "not valid HTTP/1.1"),
        (b"GET /health HTTP/1.1\r\n\r\n", 400, "one Host"),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400, "one Host"),
        (POST + b"Transfer-Encoding: gzip\r\n\r\n", 501, "use chunked"),
        (POST + b"Content-Length: -1\r\n\r\n", 400, "one length"),
        (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "one length"),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000, 431, "limit is 16384 bytes"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "use HTTP/1.1"),
    ],
    ids=["no head", "no host", "two hosts", "encoding", "length", "smuggling", "endless header", "HTTP/2"],
)
async def test_what_is_no_request_is_told_why_and_cut_off(said: bytes, status: int, why: str) -> None:
    async with guarded() as served, connected(served.port) as client:
        await client.say(said)
        answer = await client.answer()
        assert await client.until_end() == b""
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert why in answer.why


async def is_cut_off_by(client: RawClient, data: bytes) -> bool:
    """Whether the server has enough of it some time."""
    with trio.fail_after(SOON_S), suppress(trio.BrokenResourceError):
        while True:
            await client.say(data)
    return True


async def test_a_header_without_end_is_refused_while_it_comes() -> None:
    async with guarded() as served, connected(served.port) as client:
        await client.say(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
        assert await is_cut_off_by(client, b"x" * 65536)


@pytest.mark.parametrize(
    "more",
    [
        {"Sec_WebSocket_Version": "13", "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ=="},
        {"Sec_WebSocket_Version": "13"},
        {},
        {"Content_Length": "5"},
    ],
    ids=["in order", "no key", "no version", "with a body"],
)
async def test_a_websocket_is_refused_and_cut_off(more: dict[str, str]) -> None:
    upgrade = {"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket", **more}
    async with guarded() as served, connected(served.port) as client:
        await client.say(head("GET /mcp", port=served.port, **upgrade))
        answer = await client.answer()
        assert await client.until_end() == b""
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert "WebSocket is not supported: send POST requests to /mcp" in answer.why


async def test_an_offer_to_change_to_http_2_is_ignored() -> None:
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2_Settings": "AAMAAABkAAQAAP__"}
    async with guarded() as served:
        assert (await asked(served.port, head(port=served.port, **offer))).status == 200


async def test_requests_that_come_at_once_are_answered_one_after_the_other() -> None:
    async with guarded() as served, connected(served.port) as client:
        await client.say(head(port=served.port) * 50 + head("GET /nothing", port=served.port))
        assert [(await client.answer()).status for _ in range(51)] == [200] * 50 + [404]


async def test_who_asks_for_more_during_an_endless_answer_and_is_gone_is_missed() -> None:
    async with guarded() as served:
        async with connected(served.port) as client:
            await client.say(2 * head("GET /sse", port=served.port))
            await client.head()
            (session,) = served.front.sessions
        with trio.fail_after(SOON_S):
            while len(served.front.sessions):
                session.standalone.write(b"{}\n")
                await trio.testing.wait_all_tasks_blocked(0.001)


# ── Bodies ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_10_mb_are_refused_before_they_are_read_and_their_sender_hears_it() -> None:
    async with guarded() as served, connected(served.port) as client:
        await client.say(post(b"x" * 10_000_000, port=served.port))
        answer = await client.answer()
        await client.say(head(port=served.port))
        assert (await client.answer()).status == 200
    assert answer.status == 413
    assert f"the limit is {MAX_BODY_BYTES} bytes" in answer.why


async def test_a_body_of_no_stated_length_is_refused_when_it_has_become_too_long() -> None:
    chunk = b"10000\r\n%b\r\n" % (b"x" * 0x10000)
    async with guarded() as served, connected(served.port) as client:
        await client.say(head("POST /mcp", port=served.port, Transfer_Encoding="chunked", **JSON))
        for _ in range(MAX_BODY_BYTES // 0x10000 + 1):
            await client.say(chunk)
        await client.say(b"0\r\n\r\n")
        assert (await client.answer()).status == 413


async def test_a_body_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_tasks, "DRAINED_BYTES", 1024 * 1024)
    async with guarded() as served, connected(served.port) as client:
        await client.say(head("POST /nothing", port=served.port, Transfer_Encoding="chunked"))
        assert await is_cut_off_by(client, b"10000\r\n%b\r\n" % (b"x" * 0x10000))


async def test_a_head_that_comes_too_slowly_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with guarded() as served, connected(served.port) as client:
        began = trio.current_time()
        await client.say(b"GET /health HTTP/1.1\r\nHost: ")
        await trio.sleep(http_connection.HEAD_S - 1)
        await client.say(b"localhost\r\n")
        answer = await client.answer()
        assert trio.current_time() - began == pytest.approx(http_connection.HEAD_S, abs=0.5)
    assert answer.status == 408
    assert "the head of the request took longer than 10 s" in answer.why


async def test_a_body_that_comes_too_slowly_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    # Without the gate: it looks a process up in a thread, for which this clock does not wait.
    async with open_front() as served, connected(served.port) as client:
        await client.say(head("POST /mcp", port=served.port, Content_Length="100", **JSON))
        await trio.sleep(MAX_BODY_S)
        answer = await client.answer()
        await trio.sleep(request_tasks.DRAINED_S)
        assert await client.is_closed()
    assert answer.status == 408
    assert "the body took longer than 30 s" in answer.why


async def test_a_new_connection_that_says_nothing_is_closed_after_30_seconds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with guarded() as served, connected(served.port) as silent:
        with trio.move_on_after(29):
            raise AssertionError(await silent.stream.receive_some())
        await trio.sleep(1)
        assert await silent.until_end() == b""


async def test_a_used_connection_that_says_nothing_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    async with guarded() as served, connected(served.port) as used:
        await used.say(head(port=served.port))
        assert (await used.answer()).status == 200
        await trio.sleep(http_connection.KEEP_ALIVE_S)
        assert await used.until_end() == b""


async def test_a_stream_lasts_however_long_its_client_says_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def until_it_goes(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    async with serving_app(until_it_goes) as port, connected(port) as client:
        await open_stream(client, port)
        with trio.move_on_after(3 * http_connection.KEEP_ALIVE_S) as waiting:
            while await client.stream.receive_some():
                pass
    assert waiting.cancelled_caught


# ── What is no MCP ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"jsonrpc":', "JSON"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', "one message per request"),
    ],
    ids=["malformed", "no UTF-8", "deep", "a batch"],
)
async def test_a_body_that_is_no_message_is_a_bad_request(body: bytes, why: str) -> None:
    async with guarded() as served:
        answer = await asked(served.port, post(body, port=served.port))
    assert answer.status == 400
    assert why in answer.why


async def test_a_form_is_no_message() -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    async with guarded() as served:
        answer = await asked(served.port, post(b"a=b", port=served.port, **form))
    assert answer.status == 415
    assert "send Content-Type: application/json" in answer.why


async def test_a_revision_that_nobody_knows_is_a_bad_request() -> None:
    meta = ENVELOPE | {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}
    headers = stateless("tools/list") | {"MCP-Protocol-Version": "1999-01-01"}
    async with guarded() as served, served.client() as client:
        asking = request(1, "tools/list", {"_meta": meta})
        answer = await client.post("/mcp", json=asking, headers=headers)
    assert answer.status_code == 400
    assert "1999-01-01" in answer.text
    assert STATELESS in answer.json()["error"]["data"]["supported"]


async def test_a_session_that_is_not_there_is_not_found_by_guessing() -> None:
    async with guarded() as served, served.client() as client:
        await shake_hands(client)
        guessed = {"Mcp-Session-Id": "session_" + "0" * 32}
        answer = await client.post("/mcp", json=request(1, "ping"), headers=guessed)
    assert answer.status_code == 404
    assert "no such session" in answer.json()["error"]["message"]


# ── Connections ─────────────────────────────────────────────────────────────────────────────────────────────


async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
    """Has a stream that does not end, and a path that gets no answer."""
    if scope["path"] == "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
    elif scope["path"] != "/waiting":
        await hello(scope, receive, send)
        return
    await trio.sleep_forever()


async def open_stream(client: RawClient, port: int) -> None:
    await client.say(head("GET /stream", port=port))
    assert (await client.head())[0] == 200


async def test_a_connection_that_does_nothing_gives_way_to_a_new_one() -> None:
    """So who opens many and says nothing, or half a request, keeps nobody out."""
    limits = ConnectionLimits(total=2)
    async with serving_app(streaming, limits) as port, connected(port) as busy, connected(port) as slow:
        await open_stream(busy, port)
        await slow.say(b"GET / HTTP/1.1\r\n")
        for _ in range(10):
            assert (await asked(port, head(port=port))).status == 200
        assert await slow.until_end() == b""


async def test_with_as_many_requests_open_as_there_is_room_for_others_are_told_to_come_back() -> None:
    limits = ConnectionLimits(total=2)
    async with serving_app(streaming, limits) as port, connected(port) as first, connected(port) as second:
        for client in (first, second):
            await open_stream(client, port)
        refused = await asked(port, head(port=port))
    assert (refused.status, refused.headers["retry-after"]) == (429, "10")
    assert refused.why == "2 requests are open: end one"


async def test_where_requests_are_short_the_oldest_open_one_gives_way_to_a_new_connection() -> None:
    limits = ConnectionLimits(total=2, ends_requests=True)
    async with serving_app(streaming, limits) as port, connected(port) as first, connected(port) as second:
        for client in (first, second):
            await open_stream(client, port)
        assert (await asked(port, head(port=port))).status == 200
        assert await first.is_closed()
        async with connected(port) as third:
            await open_stream(third, port)


async def test_others_than_our_user_have_room_of_their_own_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = ConnectionLimits(other_users=1)
    async with serving_app(streaming, limits) as port, connected(port) as ours, AsyncExitStack() as others:
        await open_stream(ours, port)
        monkeypatch.setattr(http_server, "peer_of", lambda _: Peer(Kind.ANOTHERS, "127.0.0.1"))
        stranger = await others.enter_async_context(connected(port))
        await open_stream(stranger, port)
        refused = await asked(port, head(port=port))
        monkeypatch.undo()
        assert (await asked(port, head(port=port))).status == 200
    assert refused.status == 429
    assert refused.why == "1 requests of other users are open: end one"


async def test_where_there_is_little_room_others_than_our_user_do_not_take_it_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving_app(streaming, ConnectionLimits(total=4)) as port, AsyncExitStack() as others:
        monkeypatch.setattr(http_server, "peer_of", lambda _: Peer(Kind.ANOTHERS, "127.0.0.1"))
        await open_stream(await others.enter_async_context(connected(port)), port)
        assert (await asked(port, head(port=port))).status == 429
        monkeypatch.undo()
        assert (await asked(port, head(port=port))).status == 200


async def test_a_flood_of_connections_is_told_how_long_to_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving_app(hello, ConnectionLimits(opened_per_minute=60)) as port:
        for _ in range(60):
            assert (await asked(port, head(port=port))).status == 200
        refused = await asked(port, head(port=port))
        await trio.sleep(int(refused.headers["retry-after"]))
        assert (await asked(port, head(port=port))).status == 200
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert "60 connections were opened in a minute" in refused.why


async def test_a_client_that_takes_nothing_of_a_long_answer_is_cut_off(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def long(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"x" * 64 * 1024 * 1024)(scope, receive, send)

    async with serving_app(long) as port, connected(port) as client:
        await client.say(head(port=port))
        await trio.sleep(http_connection.STALLED_S + 1)
        with pytest.raises(trio.BrokenResourceError):
            await client.until_end()


async def test_an_answer_that_does_not_want_the_body_takes_it_all_the_same() -> None:
    """A client may send the whole of it before it reads a word."""
    async with serving_app(hello) as port, connected(port) as client:
        for _ in range(3):
            await client.say(head("POST /", port=port, Content_Length="3000000") + b"x" * 3_000_000)
            assert (await client.answer()).body == b"hello"


# ── Upgrades ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_upgrade_handler_takes_the_connection_over() -> None:
    async def echo(upgrade: UpgradeRequest) -> None:
        assert upgrade.head.target == b"/socket"
        await upgrade.stream.send_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + upgrade.received)
        await upgrade.stream.send_all(await upgrade.stream.receive_some())

    async with serving_app(hello, handle_upgrade=echo) as port, connected(port) as client:
        await client.say(head("GET /socket", port=port, Connection="Upgrade", Upgrade="websocket") + b"one,")
        assert (await client.head())[0] == 101
        await client.say(b"two")
        assert await client.until_end() == b"one,two"


async def test_without_an_upgrade_handler_an_upgrade_is_rejected() -> None:
    async with serving_app(hello) as port:
        offer = head(port=port, Connection="Upgrade", Upgrade="websocket")
        assert (await asked(port, offer)).status == 400


# ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_at_the_end_an_open_stream_gets_its_last_chunk_and_a_request_that_waits_a_reason() -> None:
    until = trio.Event()
    async with (
        serving_app(streaming, until=until) as port,
        connected(port) as stream,
        connected(port) as waiting,
        connected(port) as idle,
    ):
        await open_stream(stream, port)
        await waiting.say(head("GET /waiting", port=port))
        await trio.testing.wait_all_tasks_blocked(0.01)  # with the request
        until.set()
        refused = await waiting.answer()
        assert await stream.until_end() == b"9\r\n: hello\n\n\r\n0\r\n\r\n"
        assert await waiting.until_end() == await idle.until_end() == b""
    assert refused.status == 503
    assert "the server stopped before it sent a response" in refused.why


async def test_at_the_end_nobody_is_let_in_any_more() -> None:
    until = trio.Event()
    async with serving_app(hello, until=until) as port, connected(port) as client:
        await client.say(head("POST /", port=port, Content_Length="1"))
        until.set()
        with trio.fail_after(SOON_S):
            while not await refuses_connections(port):
                await trio.lowlevel.checkpoint()
        await client.say(b"x")
        assert (await client.answer()).body == b"hello"


async def refuses_connections(port: int) -> bool:
    try:
        async with connected(port):
            return False
    except OSError:
        return True


async def test_the_end_does_not_wait_for_clients_that_read_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 1024 * 1024, "more_body": True})

    until = trio.Event()
    async with AsyncExitStack() as clients:
        async with serving_app(endless, until=until) as port:
            client = await clients.enter_async_context(connected(port))
            await client.say(head(port=port))
            await trio.sleep(1)
            until.set()
            began = trio.current_time()
        assert trio.current_time() - began < 2
