"""What `make bench` measures over HTTP: all of it comes back whole, whatever serves it and in which way."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from functools import cache
from pathlib import Path

import pytest

from bench_ends import bench_in
from benchmarks import calls, http_routes, over_http, programs
from benchmarks.conversation import Conversation, EndError
from benchmarks.driver import DrivenCaller, driven
from benchmarks.http_routes import HANDSHAKE, SSE, STATELESS, Way
from benchmarks.loads import ALL, SMALL
from benchmarks.processes import Corner
from benchmarks.responses import RefusedError, take_events, take_response
from benchmarks.routes import running_host
from benchmarks.subject import Bench, Role, Subject
from demo.temporary_directory import throw_away_directory

WAYS = pytest.mark.parametrize("way", [HANDSHAKE, STATELESS, SSE], ids=lambda way: way.name)


@pytest.fixture
def bench(short_tmp: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench_in(short_tmp, tmp_path_factory)


@pytest.fixture
def python_bench(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """On a machine without a C compiler."""
    monkeypatch.setattr(programs, "COMPILERS", ())
    return Bench(short_tmp, programs.build(short_tmp), is_quick=True)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every server is started once, when the first client wants it, and serves the clients of all tests."""
    running_serve, running_asgi = http_routes.running_serve, http_routes.running_asgi
    with throw_away_directory() as directory, ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        bench = bench_in(directory, tmp_path_factory)

        @cache
        def serve() -> tuple[int, int]:
            corner = Corner.below(directory)
            stack.enter_context(running_host(bench, corner))
            return stack.enter_context(running_serve(corner))

        @cache
        def asgi(module: str) -> int:
            return stack.enter_context(running_asgi(Corner.below(directory), module))

        patch.setattr(http_routes, "running_host", lambda *_: nullcontext())
        patch.setattr(http_routes, "running_serve", lambda _: nullcontext(serve()))
        patch.setattr(http_routes, "running_asgi", lambda _, module: nullcontext(asgi(module)))
        yield


# ── Routes ──────────────────────────────────────────────────────────────────────────────────────────────────


@WAYS
@pytest.mark.usefixtures("servers")
def test_every_load_comes_back_whole_whatever_serves_it(bench: Bench, way: Way) -> None:
    for subject in http_routes.subjects([way]):
        answers_all(subject, bench)


@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize("way", [HANDSHAKE, SSE], ids=lambda way: way.name)
def test_the_clients_end_in_python_does_the_same(python_bench: Bench, way: Way) -> None:
    answers_all(http_routes.subjects([way])[0], python_bench)


def answers_all(subject: Subject, bench: Bench) -> None:
    with subject.open(bench) as caller:
        for load in ALL:
            made = caller.call(load, 2)
            assert len(made.seconds) == 2
            assert made.answer_bytes >= len(load.result), (subject.name, load.name)


@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize("way", [HANDSHAKE, SSE], ids=lambda way: way.name)
def test_several_clients_call_at_once_and_each_gets_its_answers(bench: Bench, way: Way) -> None:
    *_, bare = http_routes.subjects([way], clients=3)
    with bare.open(bench) as caller:
        assert len(caller.call(SMALL, 30).seconds) == 30


@pytest.mark.usefixtures("servers")
def test_tables_stand_beside_a_bare_server_and_ours_has_a_limit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    subjects = [subject for subject in http_routes.subjects([SSE]) if subject.role is not Role.PACKAGE]
    monkeypatch.setattr(over_http, "subjects", lambda *_: subjects)
    monkeypatch.setattr(calls, "CALLS", {SMALL: 10})
    monkeypatch.setattr(Bench, "rounds", 1)
    streamable, legacy, at_once = over_http.tables(bench)
    assert [row.what for row in legacy.rows] == ["mcpb, SSE", "bare hypercorn, SSE"]
    assert [str(one.limit) for one in streamable.rows[0].compared] == ["", "≤ 1"]
    assert [(one.unit, str(one.limit)) for one in legacy.rows[0].compared] == [
        ("times the bare server", ""),
        ("ms", "≤ 1.2"),
    ]
    assert [row.unit for row in at_once.rows] == ["calls/s", "calls/s"]


# ── Responses ───────────────────────────────────────────────────────────────────────────────────────────────

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'event: message\ndata: {"id":1}\n\n'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def answered_in_pieces(caller: DrivenCaller, server: socket.socket, pieces: list[bytes]) -> None:
    """The next call, by these bytes."""
    caller.order(SMALL, 1)
    assert server.recv(1 << 16).endswith(b'{"id":1000000}')
    for piece in pieces:
        server.sendall(piece)
    assert len(caller.wait(SMALL, 1)) == 1


@pytest.fixture
def server(bench: Bench) -> Iterator[tuple[DrivenCaller, socket.socket]]:
    """A client of HTTP in C, and what it is connected to."""
    if not bench.programs.are_in_c:
        pytest.skip("no C compiler")
    near, far = socket.socketpair()
    far.settimeout(10)
    descriptor = near.detach()
    corner, conversation = Corner.below(bench.directory), Conversation("http", descriptor, descriptor)
    with far, driven(bench, corner, conversation, lambda _: b'POST /\r\n\r\n{"id":\0}') as caller:
        yield caller, far


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"id":1000000}',
        HEAD + chunk(b'{"id":') + chunk(b"1000000}") + chunk(b""),
        HEAD + chunk(b"id: 0\ndata: \n\n") + chunk(b'id: 1\ndata: {"id":1000000}\n\n') + chunk(b""),
    ],
    ids=["length", "chunks", "events"],
)
def test_the_client_in_c_reads_an_answer_in_any_form_and_in_any_pieces(
    server: tuple[DrivenCaller, socket.socket], answer: bytes
) -> None:
    answered_in_pieces(*server, [answer[at : at + 1] for at in range(len(answer))])


def test_an_answer_that_is_no_success_ends_the_run_and_is_shown(
    server: tuple[DrivenCaller, socket.socket],
) -> None:
    caller, far = server
    caller.order(SMALL, 1)
    far.sendall(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")
    with pytest.raises(EndError, match=r"not all calls were answered.*429 Too Many Requests"):
        caller.wait(SMALL, 1)


def test_the_client_in_python_takes_a_response_once_all_of_it_is_there() -> None:
    whole = HEAD + chunk(b'{"id":') + chunk(b"1}") + chunk(b"")
    for end in range(len(whole)):
        assert take_response(bytearray(whole[:end])) is None
    read = bytearray(whole + b"HTTP")
    assert take_response(read) == b'{"id":1}'
    assert read == b"HTTP"


def test_the_client_in_python_takes_events_one_after_the_other() -> None:
    read = bytearray(chunk(b": still here\n\n") + chunk(EVENT[:20]) + chunk(EVENT[20:]) + chunk(EVENT)[:-3])
    assert take_events(read) == b""
    assert take_events(read) == b'{"id":1}'
    assert take_events(read) is None


def test_the_client_in_python_takes_no_refusal_for_an_answer() -> None:
    with pytest.raises(RefusedError, match="403 Forbidden"):
        take_response(bytearray(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"))
