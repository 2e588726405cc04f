"""The sessions of HTTP clients: who finds which, and when they end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
import trio
import trio.testing

from bridge.frontends.http import event_store
from bridge.frontends.http import http_sessions as module
from bridge.frontends.http.event_store import EventStream
from bridge.frontends.http.http_sessions import INITIALIZE_TIMEOUT_S, HttpSession, HttpSessions
from bridge.hub.router import Router, Terms
from bridge.hub.tool_schema import Era
from bridge.hub.transport import DiscoveryFinished
from bridge.mcp_session.client_messages import Implementation
from bridge.mcp_session.client_writer import UNREAD_BYTES
from fake_transport import PlayedTransport, browser_hello
from http_frontend import ENVELOPE, request
from http_serving.error_responses import RequestRejected
from http_serving.peer_credentials import Principal
from native_host.protocol import wire

IDLE_S = 600.0
US = Principal(process="process 7 100", is_local=True)
ANOTHER = Principal("0a1b", "laptop")
CLIENT = Implementation(name="by hand", version="1")
SOON_S = 30


class Played:
    def __init__(self, transport: PlayedTransport, router: Router) -> None:
        self.transport = transport
        self.told: list[list[str]] = []
        self.all = HttpSessions(router, self._tell, idle_s=IDLE_S)

    def _tell(self, sessions: list[wire.Session]) -> None:
        self.told.append([session.client.name for session in sessions])


@asynccontextmanager
async def open_sessions(closing: wire.Closing = "unused") -> AsyncIterator[Played]:
    transport = PlayedTransport()
    router = Router(transport, terms=Terms(closing=closing))
    transport.happen(DiscoveryFinished())
    transport.connect("h1")
    played = Played(transport, router)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.run)
        await nursery.start(played.all.run)
        yield played
        nursery.cancel_scope.cancel()


async def ended(session: HttpSession) -> None:
    with trio.fail_after(2 * IDLE_S):
        await session.wait_ended()
    await trio.testing.wait_all_tasks_blocked()


async def test_a_session_is_found_by_its_id_by_who_opened_it_over_the_transport_it_was_opened_on() -> None:
    async with open_sessions() as played:
        ours = await played.all.open("streamable", US)
        assert played.all.find("streamable", ours.key, US) is ours
        wrong = [("streamable", "session_0", US), ("sse", ours.key, US), ("streamable", ours.key, ANOTHER)]
        for transport, key, owner in wrong:
            with pytest.raises(RequestRejected) as refused:
                played.all.find(transport, key, owner)
            assert refused.value.status is HTTPStatus.NOT_FOUND


async def test_only_clients_of_our_user_are_on_this_machine() -> None:
    async with open_sessions() as played:
        for principal in (US, ANOTHER, ANOTHER._replace(is_local=True), Principal()):
            opened = await played.all.open("streamable", principal)
            shared = await played.all.open_shared(principal)
            assert opened.hub_session.is_local is shared.hub_session.is_local is principal.is_local


async def test_requests_of_one_principal_share_a_session_that_has_no_id() -> None:
    async with open_sessions() as played:
        shared = await played.all.open_shared(US)
        assert await played.all.open_shared(US) is shared
        others = [US._replace(process="process 8 100"), US._replace(process="process 7 101"), ANOTHER]
        for principal in (*others, ANOTHER._replace(token="0a1c"), ANOTHER._replace(is_local=True)):
            assert await played.all.open_shared(principal) is not shared
        with pytest.raises(RequestRejected):
            played.all.find(shared.transport, "session_", US)


async def test_nobody_finds_a_session_that_has_ended_and_the_next_of_its_name_stays() -> None:
    async with open_sessions() as played:
        ours, shared = await played.all.open("streamable", US), await played.all.open_shared(US)
        ours.end()
        shared.end()
        with pytest.raises(RequestRejected):
            played.all.find("streamable", ours.key, US)
        another = await played.all.open_shared(US)
        assert another is not shared
        await trio.testing.wait_all_tasks_blocked()
        assert await played.all.open_shared(US) is another


async def test_at_its_end_a_session_ends_its_streams() -> None:
    async with open_sessions() as played:
        session = await played.all.open("streamable", US)
        stream = session.create_stream()
        session.store_stream(stream)
        session.end()
        await trio.testing.wait_all_tasks_blocked()
        assert stream.is_finished
        assert session.standalone.is_finished


async def test_a_client_that_takes_nothing_loses_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "MAX_UNSENT_BYTES", 4)
    async with open_sessions() as played:
        session = await played.all.open("streamable", US)
        stream = session.create_stream()
        for text in (b"one\n", b"two\n"):
            stream.write(text)
        assert session.has_ended


async def test_requests_that_share_a_session_may_come_before_it_has_begun() -> None:
    found: list[HttpSession] = []
    async with open_sessions() as played:

        async def share() -> None:
            found.append(await played.all.open_shared(US))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(share)
            nursery.start_soon(share)
    assert found[0] is found[1]


async def test_a_client_that_reads_nothing_keeps_no_news_from_others_of_its_name() -> None:
    asked = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
    async with open_sessions() as played:
        shared = await played.all.open_shared(US)
        slow, listener = EventStream(), EventStream()
        shared.new_lane(slow, Era.STATELESS)
        slow.write(2 * UNREAD_BYTES * b"x")
        await shared.new_lane(listener, Era.STATELESS).handle_line(
            json.dumps(request(1, "subscriptions/listen", asked)).encode()
        )
        with trio.fail_after(SOON_S):
            await shared.server.tell_list_changed("tools")
        listener.finish()
        assert b"tools/list_changed" in await listener.wait_last()


async def test_hosts_hear_of_clients_that_have_said_who_they_are_and_of_their_end() -> None:
    async with open_sessions() as played:
        session = await played.all.open("streamable", US)
        assert not played.told
        session.server.set_client(CLIENT)
        session.end()
        await trio.testing.wait_all_tasks_blocked()
    assert played.told == [["by hand"], []]


async def test_a_session_that_nobody_uses_ends(autojump_clock: trio.testing.MockClock) -> None:
    async with open_sessions() as played:
        session = await played.all.open("streamable", US)
        session.server.set_client(CLIENT)
        with session.in_use():
            await trio.sleep(2 * IDLE_S)
        assert not session.has_ended
        began = trio.current_time()
        await ended(session)
        assert IDLE_S <= trio.current_time() - began <= IDLE_S + INITIALIZE_TIMEOUT_S
        assert not len(played.all)


async def test_a_client_that_says_nothing_is_not_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    async with open_sessions() as played:
        silent = await played.all.open("sse", US)
        listener = await played.all.open_shared(US)
        with silent.in_use(), listener.in_use():
            await ended(silent)
            assert trio.current_time() <= 2 * INITIALIZE_TIMEOUT_S
            await trio.sleep(IDLE_S)
        assert not listener.has_ended


async def test_when_all_places_are_taken_the_session_that_was_idle_longest_makes_room(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(module, "MAX_SESSIONS", 3)
    async with open_sessions() as played:
        busy, idle, later = [await played.all.open("streamable", US) for _ in range(3)]
        with busy.in_use():
            await trio.sleep(1)
            with later.in_use():
                pass
            await played.all.open("streamable", US)
            assert (busy.has_ended, idle.has_ended, later.has_ended) == (False, True, False)


async def test_when_all_places_are_in_use_a_new_session_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SESSIONS", 1)
    async with open_sessions() as played:
        busy = await played.all.open("streamable", US)
        with busy.in_use():
            with pytest.raises(RequestRejected) as refused:
                await played.all.open("streamable", US)
            busy.end()
            assert not (await played.all.open("streamable", US)).has_ended
    assert refused.value.status is HTTPStatus.TOO_MANY_REQUESTS


@pytest.mark.parametrize("closing", ["never", "unused", "ask", "always"])
async def test_the_tabs_of_a_session_that_ends_are_anybodys_or_closed_as_is_configured(
    closing: wire.Closing,
) -> None:
    async with open_sessions(closing) as played:
        session = await played.all.open("streamable", US)
        session.hub_session.opened[browser_hello().profile.id, "https://shop.example/"] = 1
        session.end()
        await trio.testing.wait_all_tasks_blocked()
    (ended,) = [
        asked.params for asked in played.transport.asked if isinstance(asked.params, wire.CloseSession)
    ]
    assert (ended.session, ended.closing) == (session.hub_session.id, closing)


async def test_streams_that_are_over_are_kept_until_there_are_too_many() -> None:
    async with open_sessions() as played:
        session = await played.all.open("streamable", US)
        streams = [session.create_stream() for _ in range(module.MAX_STORED_STREAMS + 2)]
        for stream in streams:
            stream.answer(b"{}\n")
            assert stream.pop_only_response()
            session.store_stream(stream)
        found = [session.find_stream(stream.name) for stream in streams]
    assert found[:2] == [None, None]
    assert found[2:] == streams[2:]


@pytest.mark.parametrize("is_taken", [True, False])
async def test_what_is_kept_has_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch, is_taken: bool) -> None:
    monkeypatch.setattr(module, "MAX_STORED_BYTES" if is_taken else "MAX_UNSENT_BYTES", 10)
    async with open_sessions() as played:
        session = await played.all.open("streamable", US)
        streams = [session.create_stream() for _ in range(2)]
        for stream in streams:
            stream.answer(b"{1234}\n")
            if is_taken:
                stream.pop_only_response()
            session.store_stream(stream)
        assert [session.find_stream(stream.name) for stream in streams] == [None, streams[1]]


async def test_an_answer_that_nobody_has_taken_is_kept_longer() -> None:
    async with open_sessions() as played:
        session = await played.all.open("streamable", US)
        lost = session.create_stream()
        session.store_stream(lost)
        lost.answer(b"{}\n")
        for _ in range(2 * module.MAX_STORED_STREAMS):
            taken = session.create_stream()
            taken.answer(b"{}\n")
            taken.pop_only_response()
            session.store_stream(taken)
        assert session.find_stream(lost.name) is lost


# ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_belongs_to_its_token_and_is_continued_by_no_other_one() -> None:
    async with open_sessions() as played:
        opened = await played.all.open("streamable", ANOTHER)
        assert played.all.find("streamable", opened.key, ANOTHER) is opened
        for principal in (US, ANOTHER._replace(token="0a1c"), ANOTHER._replace(is_local=True)):
            with pytest.raises(RequestRejected):
                played.all.find("streamable", opened.key, principal)


async def test_a_session_without_a_token_is_continued_by_other_processes_that_know_its_id() -> None:
    async with open_sessions() as played:
        opened = await played.all.open("streamable", US)
        assert played.all.find("streamable", opened.key, US._replace(process="process 9 900")) is opened


async def test_approvals_of_an_http_client_are_stored_under_its_token_or_process() -> None:
    async with open_sessions() as played:
        sessions = [(await played.all.open("streamable", each)).hub_session for each in (US, ANOTHER)]
        assert [session.principal for session in sessions] == ["process 7 100", "token laptop"]


async def test_sessions_of_a_revoked_token_end_and_the_others_stay() -> None:
    async with open_sessions() as played:
        ours, theirs = await played.all.open("sse", US), await played.all.open("sse", ANOTHER)
        shared = await played.all.open_shared(ANOTHER)
        played.all.end_revoked(lambda digest: digest != ANOTHER.token)
        assert [each.has_ended for each in (ours, theirs, shared)] == [False, True, True]


async def test_the_title_of_a_session_names_a_token_that_was_added() -> None:
    async with open_sessions() as played:
        for principal, title in (
            (US, "by hand (HTTP)"),
            (ANOTHER._replace(client="default"), "by hand (HTTP)"),
            (ANOTHER._replace(token="0a1c"), "by hand (HTTP, token laptop)"),
        ):
            opened = await played.all.open("streamable", principal)
            opened.server.set_client(CLIENT)
            assert opened.hub_session.title == title
