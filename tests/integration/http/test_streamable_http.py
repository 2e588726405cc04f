"""`/mcp`: Streamable HTTP in both eras, spoken to a served front end by a foreign HTTP client."""

from __future__ import annotations

import gc
import json
from base64 import b64encode
from typing import Any

import httpx2
import msgspec
import pytest
import trio
import trio.testing
from starlette.requests import Request

from bridge.config.settings import HttpSettings
from bridge.frontends.http import http_sessions, streamable_http
from bridge.mcp_session.session import McpSession
from fake_transport import CART, MARKED_CART, Asked, one_page, tools
from http_frontend import (
    CLOSES_EARLY,
    ENVELOPE,
    GET_CART,
    HOLD,
    INITIALIZE,
    SOON_S,
    STATELESS,
    Events,
    call,
    hold_calls,
    open_front,
    request,
    shake_hands,
    stateless,
    until,
)
from http_serving.peer_credentials import Principal
from native_host.protocol import wire

pytestmark = CLOSES_EARLY

PING = request(9, "ping")
CART_RESULT = {"jsonrpc": "2.0", "id": 1, "result": MARKED_CART}


def report(asked: Asked, progress: wire.Progress) -> None:
    assert asked.caller.on_progress
    asked.caller.on_progress(progress)


def done(text: str) -> bytes:
    return json.dumps({"success": True, "payload": {"content": [{"type": "text", "text": text}]}}).encode()


# ── The handshake era ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_begins_with_a_handshake_and_an_id_that_nobody_can_guess() -> None:
    async with open_front() as served, served.client() as client:
        answer = await client.post("/mcp", json=request(0, "initialize", INITIALIZE))
        again = await client.post("/mcp", json=request(0, "initialize", INITIALIZE))
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["serverInfo"]["name"] == "mcpb"
    first, second = (each.headers["Mcp-Session-Id"] for each in (answer, again))
    assert first != second
    assert len(first.removeprefix("session_")) * 4 == 128


async def test_a_quick_answer_is_json() -> None:
    async with open_front() as served, served.client() as client:
        headers = await shake_hands(client)
        answer = await client.post("/mcp", json=call(1, GET_CART), headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == CART_RESULT


async def test_errors_of_requests_are_answers_like_others() -> None:
    async with open_front() as served, served.client() as client:
        headers = await shake_hands(client)
        answer = await client.post("/mcp", json=call(1, "unknown_tool"), headers=headers)
    assert answer.status_code == 200
    assert answer.json()["error"]["code"] == -32602


async def test_what_takes_longer_is_a_stream_that_begins_with_a_place_to_come_back_to() -> None:
    async with open_front() as served, served.client() as client:
        held = hold_calls(served)
        headers = await shake_hands(client)
        async with client.stream("POST", "/mcp", json=call(1, HOLD), headers=headers) as response:
            events = Events(response)
            first = await events.next()
            held[0].on_done(done("at last"))
            answer = await events.next()
            end = await events.next()
    assert response.headers["content-type"] == "text/event-stream"
    assert first is not None
    assert answer is not None
    assert (first["id"], first["data"]) == ("2-0", "")
    assert (answer["id"], json.loads(answer["data"])["id"]) == ("2-1", 1)
    assert end is None


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_a_client_that_takes_no_events_gets_the_answer_alone(era: str) -> None:
    asked, headers = call(1, HOLD), {}
    if era == "2026":
        asked, headers = (
            request(1, "tools/call", envelope(name=HOLD, arguments={})),
            stateless("tools/call", HOLD),
        )
    asked["params"].setdefault("_meta", {})["progressToken"] = 7
    async with open_front() as served, served.client(Accept="application/json") as client:
        held = hold_calls(served)
        if era == "handshake":
            headers = await shake_hands(client)
        async with trio.open_nursery() as nursery:

            async def answer() -> None:
                await until(lambda: held)
                report(held[0], wire.Progress(progress=1))
                held[0].on_done(done("at last"))

            nursery.start_soon(answer)
            told = await client.post("/mcp", json=asked, headers=headers)
    assert told.headers["content-type"] == "application/json"
    assert told.json()["result"]["content"][0]["text"] == "at last"


async def test_clients_that_cannot_read_an_empty_event_get_none() -> None:
    async with open_front() as served, served.client() as client:
        held = hold_calls(served)
        headers = await shake_hands(client, protocolVersion="2025-06-18")
        async with client.stream("POST", "/mcp", json=call(1, HOLD), headers=headers) as response:
            held[0].on_done(done("at last"))
            first = await Events(response).next()
    assert first is not None
    assert json.loads(first["data"])["id"] == 1


async def test_reports_of_progress_come_before_the_answer_on_the_stream_of_their_call() -> None:
    async with open_front() as served, served.client() as client:
        held = hold_calls(served)
        headers = await shake_hands(client)
        asked = call(1, HOLD)
        asked["params"]["_meta"] = {"progressToken": 7}
        async with client.stream("POST", "/mcp", json=asked, headers=headers) as response:
            report(held[0], wire.Progress(progress=1, total=2))
            held[0].on_done(done("at last"))
            events = Events(response)
            told = [await events.message(), await events.message()]
    assert told[0]["params"] == {"progressToken": 7, "progress": 1, "total": 2}
    assert told[1]["id"] == 1


async def test_a_stream_that_broke_goes_on_where_its_client_says_and_repeats_nothing() -> None:
    async with open_front() as served, served.client() as client:
        held = hold_calls(served)
        headers = await shake_hands(client)
        asked = call(1, HOLD)
        asked["params"]["_meta"] = {"progressToken": 7}
        async with client.stream("POST", "/mcp", json=asked, headers=headers) as response:
            report(held[0], wire.Progress(progress=1))
            events = Events(response)
            last = await events.next()
            while last and not last["data"]:
                last = await events.next()
        assert last is not None
        report(held[0], wire.Progress(progress=2))
        held[0].on_done(done("at last"))
        again = {**headers, "Accept": "text/event-stream", "Last-Event-ID": last["id"]}
        async with client.stream("GET", "/mcp", headers=again) as response:
            events = Events(response)
            told = [await events.message(), await events.message()]
            assert await events.next() is None
        over = {**again, "Last-Event-ID": "2-3"}
        nothing = await client.get("/mcp", headers=over)
    assert held[0] not in served.transport.given_up
    assert told[0]["params"]["progress"] == 2
    assert told[1]["result"]["content"][0]["text"] == "at last"
    assert nothing.status_code == 204


async def test_an_event_that_never_was_cannot_be_come_back_to() -> None:
    async with open_front() as served, served.client() as client:
        headers = await shake_hands(client)
        for event_id in ("0-1", "0-7", "5-0", "nonsense", "0-²", "0--1", "0-" + 5000 * "9"):
            again = {**headers, "Accept": "text/event-stream"}
            raw = [*again.items(), ("Last-Event-ID", event_id)]
            answer = await client.get("/mcp", headers=httpx2.Headers(raw, encoding="utf-8"))
            assert answer.status_code == 400
            assert "no event" in answer.json()["error"]["message"]


async def test_a_changed_list_is_told_on_the_stream_of_the_session_alone() -> None:
    async with open_front() as served, served.client() as client:
        headers = await shake_hands(client)
        listening = {**headers, "Accept": "text/event-stream"}
        async with client.stream("GET", "/mcp", headers=listening) as response:
            events = Events(response)
            second = await client.get("/mcp", headers=listening)
            served.transport.announce("h1", *one_page("another"))
            told = await events.message()
    assert second.status_code == 409
    assert told == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def test_a_page_asks_the_person_on_the_stream_of_its_call() -> None:
    form = msgspec.Raw(b'{"type":"object","properties":{"size":{"type":"string"}}}')
    asked = wire.ElicitConfirmation(message="Which size?", requested_schema=form)
    answers: list[bytes] = []
    async with open_front() as served, served.client() as client, trio.open_nursery() as nursery:
        held = hold_calls(served)
        headers = await shake_hands(client)
        async with client.stream("POST", "/mcp", json=call(1, HOLD), headers=headers) as response:

            async def ask() -> None:
                answers.append(await held[0].caller.on_request(asked))

            nursery.start_soon(ask)
            events = Events(response)
            question = await events.message()
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
            accepted = await client.post("/mcp", json=answer, headers=headers)
            await until(lambda: answers)
            held[0].on_done(done("none, then"))
            told = await events.message()
    assert question["method"] == "elicitation/create"
    assert accepted.status_code == 202
    assert json.loads(answers[0])["action"] == "decline"
    assert told["id"] == 1


CANCELLED = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}


async def test_a_cancelled_call_ends_its_response_without_an_answer_and_its_page_hears_of_it() -> None:
    """The clients of both SDKs in both of their versions take such an answer for an error."""
    async with open_front() as served, served.client() as client:
        held = hold_calls(served)
        headers = await shake_hands(client)
        async with client.stream("POST", "/mcp", json=call(1, HOLD), headers=headers) as response:
            events = Events(response)
            opening = await events.next()
            assert (await client.post("/mcp", json=CANCELLED, headers=headers)).status_code == 202
            assert await events.next() is None
        assert opening is not None
        again = {**headers, "Accept": "text/event-stream", "Last-Event-ID": opening["id"]}
        resumed = await client.get("/mcp", headers=again)
    assert resumed.status_code == 204, "a client that resumes such a stream learns that it is complete"
    assert served.transport.given_up == held


async def test_a_call_that_is_cancelled_at_once_has_an_empty_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streamable_http, "SOON_S", SOON_S)
    async with open_front() as served, served.client() as client:
        held = hold_calls(served)
        headers = await shake_hands(client)
        responses: dict[str, httpx2.Response] = {}

        async def call_accepting(number: int, accepted: str) -> None:
            asked = {**headers, "Accept": accepted}
            responses[accepted] = await client.post("/mcp", json=call(number, HOLD), headers=asked)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_accepting, 1, "application/json, text/event-stream")
            nursery.start_soon(call_accepting, 2, "application/json")
            await until(lambda: len(held) == 2)
            for number in (1, 2):
                told = {**CANCELLED, "params": {"requestId": number}}
                assert (await client.post("/mcp", json=told, headers=headers)).status_code == 202
    events, plain = responses.values()
    if events.headers["content-type"] == "application/json":
        events, plain = plain, events
    assert (events.status_code, events.content) == (200, b"")
    assert (plain.status_code, plain.content) == (202, b"")


async def test_a_client_that_goes_away_has_cancelled_nothing() -> None:
    async with open_front() as served, served.client() as client:
        hold_calls(served)
        headers = await shake_hands(client)
        async with client.stream("POST", "/mcp", json=call(1, HOLD), headers=headers) as response:
            assert await Events(response).next()
        other = await client.post("/mcp", json=PING, headers=headers)
        given_up = list(served.transport.given_up)
    assert other.json()["result"] == {}
    assert not given_up


async def test_a_session_whose_call_goes_on_without_a_reader_makes_no_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_sessions, "MAX_SESSIONS", 1)
    async with open_front() as served, served.client() as client:
        held = hold_calls(served)
        headers = await shake_hands(client)
        async with client.stream("POST", "/mcp", json=call(1, HOLD), headers=headers) as response:
            place = await Events(response).next()
        (session,) = served.front.sessions
        await until(lambda: not session.open_responses)
        other = await client.post("/mcp", json=request(0, "initialize", INITIALIZE))
        held[0].on_done(done("at last"))
        assert place is not None
        again = {**headers, "Accept": "text/event-stream", "Last-Event-ID": place["id"]}
        async with client.stream("GET", "/mcp", headers=again) as response:
            told = await Events(response).message()
    assert other.status_code == 429
    assert told["result"]["content"][0]["text"] == "at last"


async def test_what_the_package_answers_comes_back_on_its_own_response() -> None:
    async with open_front() as served, served.client() as client:
        headers = await shake_hands(client)
        async with client.stream(
            "POST", "/mcp", json=request(5, "tasks/list", {}), headers=headers
        ) as response:
            body = await response.aread() if "json" in response.headers["content-type"] else b""
            answer = json.loads(body) if body else await Events(response).message()
    assert (answer["id"], answer["error"]["code"]) == (5, -32601)


async def test_of_two_requests_with_one_id_that_the_package_answers_none_waits_for_ever() -> None:
    async with open_front() as served, served.client() as client:
        held = hold_calls(served)
        headers = await shake_hands(client)
        again = request(9, "initialize", INITIALIZE)  # after which it answers everything
        assert (await client.post("/mcp", json=again, headers=headers)).status_code == 200
        async with (
            client.stream("POST", "/mcp", json=call(1, HOLD), headers=headers) as first,
            client.stream("POST", "/mcp", json=call(1, HOLD), headers=headers) as second,
        ):
            events = Events(first)
            while await events.next():
                pass
            held[1].on_done(done("at last"))
            told = await Events(second).message()
    assert told["result"]["content"][0]["text"] == "at last"


async def test_answers_reach_the_session_that_asked_under_whatever_id() -> None:
    async with open_front() as served, served.client() as one, served.client() as two:
        held = hold_calls(served)
        one_is, two_is = await shake_hands(one), await shake_hands(two)
        async with (
            one.stream("POST", "/mcp", json=call(1, HOLD), headers=one_is) as first,
            two.stream("POST", "/mcp", json=call(1, HOLD), headers=two_is) as second,
        ):
            held[1].on_done(done("two's"))
            held[0].on_done(done("one's"))
            told = [await Events(response).message() for response in (first, second)]
    assert [each["result"]["content"][0]["text"] for each in told] == ["one's", "two's"]


@pytest.mark.parametrize("which", ["a call", "the stream of the session", "a subscription"])
async def test_a_session_is_in_use_while_a_response_of_it_is_open(which: str) -> None:
    async with open_front() as served, served.client() as client:
        hold_calls(served)
        headers = await shake_hands(client)
        listening = request(4, "subscriptions/listen", envelope(notifications={}))
        method, said, its_headers = {
            "a call": ("POST", call(1, HOLD), headers),
            "the stream of the session": ("GET", None, headers),
            "a subscription": ("POST", listening, stateless("subscriptions/listen")),
        }[which]
        async with client.stream(method, "/mcp", json=said, headers=its_headers):
            assert sum(each.open_responses for each in served.front.sessions) == 1


async def test_a_session_that_its_client_has_ended_is_gone() -> None:
    async with open_front() as served, served.client() as client:
        headers = await shake_hands(client)
        assert [session.client.name for session in served.sessions] == ["by hand"]
        ended = await client.delete("/mcp", headers=headers)
        after = await client.post("/mcp", json=PING, headers=headers)
        await until(lambda: not served.sessions)
    assert (ended.status_code, after.status_code) == (204, 404)
    assert "Send initialize to open one" in after.json()["error"]["message"]


@pytest.mark.parametrize(
    ("accept", "events_after_s", "response"),
    [
        ("application/json", streamable_http.SOON_S, "application/json"),
        ("text/event-stream, application/json", SOON_S, "application/json"),
        ("text/event-stream, application/json", 0, "text/event-stream"),
    ],
)
async def test_a_failed_handshake_leaves_no_session(
    monkeypatch: pytest.MonkeyPatch, accept: str, events_after_s: float, response: str
) -> None:
    monkeypatch.setattr(streamable_http, "SOON_S", events_after_s)
    async with open_front() as served, served.client(Accept=accept) as client:
        answer = await client.post("/mcp", json=request(0, "initialize", {"protocolVersion": "2025-11-25"}))
        await until(lambda: not len(served.front.sessions))
    assert answer.headers["content-type"].startswith(response)
    assert "-32602" in answer.text


async def test_a_client_without_a_name_has_a_session_like_others() -> None:
    async with open_front() as served, served.client() as client:
        headers = await shake_hands(client, clientInfo={"name": "", "version": ""})
        answer = await client.post("/mcp", json=PING, headers=headers)
        assert [session.client.name for session in served.sessions] == ["unnamed client"]
    assert answer.json()["result"] == {}


async def test_of_what_a_client_calls_itself_browsers_hear_the_beginning() -> None:
    """Else the names of a few would be more than a host takes, and all clients were without a browser."""
    long = {"name": "n" * 10_000, "version": "1" * 10_000, "title": "t" * 10_000}
    meta = {**ENVELOPE, "io.modelcontextprotocol/clientInfo": long}
    async with open_front() as served, served.client() as client:
        await shake_hands(client, clientInfo=long)
        asked = request(1, "tools/list", {"_meta": meta})
        await client.post("/mcp", json=asked, headers=stateless("tools/list"))
        said = msgspec.json.encode(served.sessions)
        assert len(served.sessions) == 2
    assert len(said) < 2000


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"{", 400),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400),
        (b'{"jsonrpc":"2.0","id":1}', 400),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400),
        (b"\xff", 400),
        (b"", 400),
        (b"[" * 100_000, 400),
    ],
)
async def test_what_is_no_message_is_refused_with_the_reason(said: bytes, status: int) -> None:
    async with open_front() as served, served.client() as client:
        headers = {**await shake_hands(client), "Content-Type": "application/json"}
        for its_headers in (headers, {**stateless("ping"), "Content-Type": "application/json"}):
            answer = await client.post("/mcp", content=said, headers=its_headers)
            assert answer.status_code == status
            assert answer.json()["error"]["message"]


async def test_requests_that_miss_what_they_need_say_what() -> None:
    async with open_front() as served, served.client() as client:
        headers = await shake_hands(client)
        refused = {
            "no session": await client.post("/mcp", json=PING),
            "an unknown session": await client.post("/mcp", json=PING, headers={"Mcp-Session-Id": "x"}),
            "a form": await client.post("/mcp", data={"a": "b"}, headers=headers),
            "no events": await client.get("/mcp", headers={**headers, "Accept": "application/json"}),
            "no such method": await client.put("/mcp", json=PING, headers=headers),
        }
    assert {why: answer.status_code for why, answer in refused.items()} == {
        "no session": 400,
        "an unknown session": 404,
        "a form": 415,
        "no events": 406,
        "no such method": 405,
    }
    assert refused["no such method"].headers["allow"] == "GET, POST, DELETE"


async def test_a_body_that_is_too_long_is_not_read() -> None:
    async with open_front() as served, served.client() as client:
        headers = await shake_hands(client)
        answer = await client.post("/mcp", json=call(1, GET_CART, item="x" * 9_000_000), headers=headers)
        after = await client.post("/mcp", json=PING, headers=headers)
    assert answer.status_code == 413
    assert "the limit is 8388608 bytes" in answer.json()["error"]["message"]
    assert after.status_code == 200


async def test_a_handshake_that_is_too_long_opens_no_session() -> None:
    capabilities = {"experimental": {"x": {"y": "z" * 300_000}}}
    async with open_front() as served, served.client() as client:
        asked = request(0, "initialize", {**INITIALIZE, "capabilities": capabilities})
        answer = await client.post("/mcp", json=asked)
        assert not len(served.front.sessions)
    assert answer.status_code == 413
    assert "the limit is 262144 bytes" in answer.json()["error"]["message"]


async def test_a_session_has_a_bound_on_what_it_asks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sessions, "MAX_OPEN_REQUESTS", 1)
    async with open_front() as served, served.client() as client:
        hold_calls(served)
        headers = await shake_hands(client)
        async with client.stream("POST", "/mcp", json=call(1, HOLD), headers=headers):
            answer = await client.post("/mcp", json=PING, headers=headers)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_a_client_that_calls_too_often_is_told_when_it_may_again_and_others_may_now(era: str) -> None:
    settings = HttpSettings(calls_per_minute=2)
    async with open_front(settings, admit=by_token) as served, served.client() as client:

        async def call_as(name: str) -> httpx2.Response:
            if era == "handshake":
                return await client.post("/mcp", json=call(1, GET_CART), headers=sessions[name])
            asked = request(1, "tools/call", {"_meta": ENVELOPE, "name": GET_CART, "arguments": {}})
            headers = {**stateless("tools/call", GET_CART), "Authorization": name}
            return await client.post("/mcp", json=asked, headers=headers)

        sessions = {name: await shake_hands(client) for name in ("one", "two")}
        told = [await call_as(name) for name in ("one", "one", "one", "two")]
    assert [answer.status_code for answer in told] == [200] * 4
    refused = [answer.json()["result"].get("isError", False) for answer in told]
    assert refused == [False, False, True, False]
    assert "Too many calls" in told[2].json()["result"]["content"][0]["text"]


async def by_token(asked: Request) -> dict[str, str]:
    """Take what a request has as Authorization for the digest of a valid token."""
    asked.scope["state"]["principal"] = Principal(asked.headers.get("authorization", ""))
    return {}


# ── Since 2026-07-28 ────────────────────────────────────────────────────────────────────────────────────────


def envelope(**params: Any) -> dict[str, Any]:
    return {"_meta": ENVELOPE, **params}


async def test_a_stateless_call_needs_no_session() -> None:
    async with open_front() as served, served.client() as client:
        asked = request(1, "tools/call", envelope(name=GET_CART, arguments={}))
        answer = await client.post("/mcp", json=asked, headers=stateless("tools/call", GET_CART))
    assert "mcp-session-id" not in answer.headers
    assert answer.json()["result"]["content"] == CART["content"]
    assert answer.json()["result"]["resultType"] == "complete"


async def test_requests_of_one_client_are_one_session_to_the_person() -> None:
    async with open_front() as served, served.client() as client:
        for request_id in (1, 2):
            asked = request(request_id, "tools/list", envelope())
            await client.post("/mcp", json=asked, headers=stateless("tools/list"))
        assert [session.title for session in served.sessions] == ["by hand (HTTP)"]


async def test_a_client_of_2026_is_its_token_and_never_what_it_says_of_itself() -> None:
    """Also with another name in each request."""
    settings = HttpSettings(calls_per_minute=5)
    async with open_front(settings, admit=by_token) as served, served.client() as client:
        answers = [await client.post(**call_of_client("laptop", f"client {n}")) for n in range(20)]
        rejected = [answer.json()["result"].get("isError", False) for answer in answers]
        assert rejected == [False] * 5 + [True] * 15
        assert [session.title for session in served.sessions] == ["client 0 (HTTP)"]
        answer = await client.post(**call_of_client("other", "client 0"))
        assert not answer.json()["result"].get("isError", False)
        assert len({session.id for session in served.sessions}) == 2


async def test_a_call_of_2026_whose_token_is_revoked_ends_at_once() -> None:
    async with open_front(admit=by_token) as served, served.client() as client:
        held = hold_calls(served)
        asked = call_of_client("laptop", "by hand")
        asked["json"]["params"]["name"] = asked["headers"]["Mcp-Name"] = HOLD
        async with trio.open_nursery() as nursery:

            async def call_held() -> None:
                answers.append(await client.post(**asked))

            answers: list[httpx2.Response] = []
            nursery.start_soon(call_held)
            await until(lambda: held)
            served.front.sessions.end_revoked(lambda _: False)
        await until(lambda: len(served.front.sessions) == 0)
    assert CART["content"][0]["text"] not in answers[0].text


def call_of_client(token: str, name: str) -> dict[str, Any]:
    """A call of 2026-07-28 with this token, that says this name of its client."""
    meta = {**ENVELOPE, "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}
    asked = request(1, "tools/call", {"_meta": meta, "name": GET_CART, "arguments": {}})
    headers = {**stateless("tools/call", GET_CART), "Authorization": token}
    return {"url": "/mcp", "json": asked, "headers": headers}


@pytest.mark.parametrize("method", ["tools/list", "no/method"])  # the package answers the second
async def test_of_a_stateless_request_that_is_answered_nothing_stays(method: str) -> None:
    async with open_front() as served, served.client() as client:
        asked = request(1, method, envelope())
        await client.post("/mcp", json=asked, headers=stateless(method))
        await trio.testing.wait_all_tasks_blocked(0.01)
        tasks = trio.lowlevel.current_statistics().tasks_living
        for _ in range(3):
            await client.post("/mcp", json=asked, headers=stateless(method))
        await until(lambda: trio.lowlevel.current_statistics().tasks_living <= tasks)
        gc.collect()
        assert not [thing for thing in gc.get_objects() if type(thing) is McpSession]


async def test_stateless_requests_with_one_id_get_their_own_answers() -> None:
    async with open_front() as served, served.client() as client:
        held = hold_calls(served)
        told: dict[str, Any] = {}

        async def ask(which: str) -> None:
            asked = request(1, "tools/call", envelope(name=HOLD, arguments={"which": which}))
            answer = await client.post("/mcp", json=asked, headers=stateless("tools/call", HOLD))
            told[which] = answer.json()["result"]["content"][0]["text"]

        async with trio.open_nursery() as nursery:
            for which in ("a", "b"):
                nursery.start_soon(ask, which)
            await until(lambda: len(held) == 2)
            for asked in reversed(held):
                assert isinstance(asked.params, wire.ExecuteTool)
                asked.on_done(done(json.loads(bytes(asked.params.args))["which"]))
    assert told == {"a": "a", "b": "b"}


async def test_a_stateless_answer_that_comes_later_is_json_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streamable_http, "QUICK_S", 0)
    async with open_front() as served, served.client() as client:
        asked = request(1, "no/method", envelope())
        answer = await client.post("/mcp", json=asked, headers=stateless("no/method"))
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")


async def test_who_closes_a_stateless_response_has_cancelled_the_call() -> None:
    async with open_front() as served:
        held = hold_calls(served)
        async with served.client() as client, trio.open_nursery() as nursery:
            asked = request(1, "tools/call", envelope(name=HOLD, arguments={}))
            headers = stateless("tools/call", HOLD)

            async def ask() -> None:
                await client.post("/mcp", json=asked, headers=headers)

            nursery.start_soon(ask)
            await until(lambda: held)
            nursery.cancel_scope.cancel()
        await until(lambda: served.transport.given_up == held)


async def test_a_retry_receives_what_the_page_logs_from_its_own_level_on() -> None:
    def at(level: str) -> dict[str, Any]:
        capabilities: Any = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
        return {**ENVELOPE, **capabilities, "io.modelcontextprotocol/logLevel": level}

    async with open_front() as served, served.client() as client:
        held, headers = hold_calls(served), stateless("tools/call", HOLD)

        def log(level: str, data: str) -> None:
            params = msgspec.Raw(msgspec.json.encode({"level": level, "data": data}))
            notification = wire.PageNotification(
                tab_id=1, frame_id=0, document_id="d1", method="notifications/message", params=params
            )
            served.transport.announce("h1", notification)

        async def ask_user() -> None:
            await until(lambda: held)
            await held[0].caller.on_request(wire.ElicitConfirmation(message="Buy?"))
            log("info", "too little")
            log("error", "after the retry")
            held[0].on_done(done("bought"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_user)
            params = {"_meta": at("debug"), "name": HOLD, "arguments": {}}
            first = await client.post("/mcp", json=request(1, "tools/call", params), headers=headers)
            suspended = first.json()["result"]
            log("error", "while nobody listens")
            responses = {key: {"action": "accept", "content": {}} for key in suspended["inputRequests"]}
            again = {"requestState": suspended["requestState"], "inputResponses": responses}
            retried = request(2, "tools/call", {**params, "_meta": at("warning"), **again})
            async with client.stream("POST", "/mcp", json=retried, headers=headers) as response:
                events = Events(response)
                message, answer = await events.message(), await events.message()
    assert message["params"]["data"] == "after the retry"
    assert answer["result"]["content"][0]["text"] == "bought"


async def test_a_stateless_client_hears_of_changes_for_as_long_as_it_listens() -> None:
    async with open_front() as served, served.client() as client:
        asked = request(4, "subscriptions/listen", envelope(notifications={"toolsListChanged": True}))
        headers = {**stateless("subscriptions/listen"), "Accept": "application/json, text/event-stream"}
        refused = await client.post("/mcp", json=asked, headers={**headers, "Accept": "application/json"})
        async with client.stream("POST", "/mcp", json=asked, headers=headers) as response:
            events = Events(response)
            told = [await events.message()]
            served.transport.announce("h1", *one_page("another"))
            told.append(await events.message())
    assert refused.status_code == 406
    assert [each["method"] for each in told] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    ]


@pytest.mark.parametrize(
    ("headers", "params", "status", "code"),
    [
        (stateless("tools/list"), {}, 400, -32602),
        (stateless("tools/list"), {"_meta": {}}, 400, -32602),
        (stateless("tools/call"), envelope(), 400, -32020),
        ({"MCP-Protocol-Version": "9"}, {}, 400, -32022),
        ({"MCP-Protocol-Version": STATELESS}, envelope(), 400, -32020),
        ({**stateless("tools/list"), "MCP-Protocol-Version": "2026-01-01"}, envelope(), 400, -32020),
        (
            {**stateless("tools/list"), "MCP-Protocol-Version": "9"},
            {"_meta": {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "9"}},
            400,
            -32022,
        ),
    ],
)
async def test_what_a_stateless_request_says_twice_has_to_agree(
    headers: dict[str, str], params: dict[str, Any], status: int, code: int
) -> None:
    async with open_front() as served, served.client() as client:
        answer = await client.post("/mcp", json=request(6, "tools/list", params), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["id"]) == (status, code, 6)


@pytest.mark.parametrize(
    ("named", "status"),
    [
        (GET_CART, 200),
        (f"=?base64?{b64encode(GET_CART.encode()).decode()}?=", 200),
        ("=?base64?Z2V0?=", 400),
        (f"=?base64?{b64encode(GET_CART.encode()).decode()[:-2]}R=?=", 400),  # decodes to the same
        ("", 400),
        ("=?base64?!?=", 400),
        (HOLD, 400),
    ],
)
async def test_the_header_names_the_tool_that_the_body_calls(named: str, status: int) -> None:
    async with open_front() as served, served.client() as client:
        asked = request(1, "tools/call", envelope(name=GET_CART, arguments={}))
        answer = await client.post("/mcp", json=asked, headers=stateless("tools/call", named))
    assert answer.status_code == status


async def test_a_header_that_is_there_twice_is_refused() -> None:
    async with open_front() as served, served.client() as client:
        twice = [*stateless("tools/list").items(), ("Mcp-Method", "tools/list")]
        answer = await client.post("/mcp", json=request(1, "tools/list", envelope()), headers=twice)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize(
    ("headers", "arguments", "status"),
    [
        ({"Mcp-Param-Region": "eu"}, {"region": "eu"}, 200),
        ({}, {}, 200),
        ({"Mcp-Param-Region": "us"}, {"region": "eu"}, 400),
        ({}, {"region": "eu"}, 400),
        ({"Mcp-Param-Region": "eu"}, {}, 400),
    ],
)
async def test_an_argument_that_a_page_wants_in_a_header_too_is_the_same_there(
    headers: dict[str, str], arguments: dict[str, str], status: int
) -> None:
    region = {"type": "string", "x-mcp-header": "Region"}
    definition = {"name": "find", "inputSchema": {"type": "object", "properties": {"region": region}}}
    name = "website_tool_shop_example_tab1_find"
    async with open_front() as served, served.client() as client:
        found = tools(1)
        found.tools = [msgspec.Raw(msgspec.json.encode(definition))]
        served.transport.announce("h1", found)
        asked = request(1, "tools/call", envelope(name=name, arguments=arguments))
        answer = await client.post("/mcp", json=asked, headers={**stateless("tools/call", name), **headers})
    assert answer.status_code == status
    assert status == 200 or answer.json()["error"]["code"] == -32020


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "unknown/method"])
async def test_methods_that_the_stateless_era_does_not_have_are_not_found(method: str) -> None:
    async with open_front() as served, served.client() as client:
        answer = await client.post("/mcp", json=request(1, method, envelope()), headers=stateless(method))
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, -32601)


async def test_stateless_notifications_are_accepted_and_answers_are_not() -> None:
    async with open_front() as served, served.client() as client:
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        headers = stateless("notifications/cancelled")
        accepted = await client.post("/mcp", json=told, headers=headers)
        answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
        refused = await client.post("/mcp", json=answer, headers=headers)
        other = await client.post("/mcp", json=told, headers={**headers, "MCP-Protocol-Version": "9"})
        got = await client.get("/mcp", headers=headers)
    assert [each.status_code for each in (accepted, refused, other, got)] == [202, 400, 400, 405]


# ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_when_the_server_ends_open_calls_are_answered_and_streams_end() -> None:
    async with open_front() as served, served.client() as client:
        held = hold_calls(served)
        headers = await shake_hands(client)
        listening = {**headers, "Accept": "text/event-stream"}
        async with (
            client.stream("POST", "/mcp", json=call(1, HOLD), headers=headers) as calling,
            client.stream("GET", "/mcp", headers=listening) as listening_to,
        ):
            served.stop.set()
            answer = await Events(calling).message()
            events = Events(listening_to)
            with trio.fail_after(SOON_S):
                while await events.next():
                    pass
    assert answer["result"]["isError"] is True
    assert "mcpb has ended this session. It may have run" in answer["result"]["content"][0]["text"]
    assert served.transport.given_up == held


# ── Structured results ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("setting", "url", "is_structured"),
    [
        (False, "/mcp", False),
        (False, "/mcp?structured=1", True),
        (True, "/mcp", True),
        (True, "/mcp?structured=0", False),
    ],
)
async def test_results_are_structured_where_the_url_or_the_setting_says_so(
    setting: bool, url: str, is_structured: bool
) -> None:
    async with open_front(HttpSettings(structured=setting)) as served, served.client() as client:
        name = "list_page_tools"
        asked = request(1, "tools/call", {"_meta": ENVELOPE, "name": name, "arguments": {}})
        response = await client.post(url, json=asked, headers=stateless("tools/call", name))
        assert ("structuredContent" in response.json()["result"]) is is_structured


async def test_another_value_than_0_or_1_is_a_bad_request() -> None:
    async with open_front() as served, served.client() as client:
        response = await client.post("/mcp?structured=yes", json=request(1, "initialize", INITIALIZE))
        assert response.status_code == 400
        assert "structured in the URL must be 1 or 0" in response.text
