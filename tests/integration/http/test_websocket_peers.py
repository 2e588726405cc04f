"""WebSockets with other implementations at the other end: websockets, trio-websocket, and Node's own."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import trio
import trio.testing
import trio_websocket
import websockets.sync.client
import websockets.sync.server

from foreign_clients import NODE
from http_frontend import CLOSES_EARLY, hello, serving_app
from http_serving.error_responses import RequestRejected
from http_serving.http_connection import UpgradeRequest
from http_serving.tls import CertificateProblem, load_client_context
from http_serving.websocket import WebSocketStream
from http_serving.websocket_client import (
    HttpStatusError,
    InvalidUpgradeError,
    InvalidUrlError,
    TlsFailedError,
    UnreachableError,
    connect,
)
from source_trees import ROOT
from websocket_ends import SOON_S, Authority, connected, echo, receive, serving_websockets, wait_end

pytestmark = CLOSES_EARLY

CLIENT = ROOT / "tests/data/websocket/client.mjs"
FIVE_MB = "x" * 5_000_000
TEXT = "€ and 𝄞"
TrioStream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=["plain", "tls"])
def trusted(request: pytest.FixtureRequest, authority: Authority) -> Authority | None:
    """The authority of a connection with TLS; None without."""
    return authority if request.param == "tls" else None


def server_context(trusted: Authority | None) -> ssl.SSLContext | None:
    return trusted.server if trusted else None


def client_context(trusted: Authority | None) -> ssl.SSLContext | None:
    return trusted.client if trusted else None


# ── Their clients ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_client_of_websockets_sends_and_closes(trusted: Authority | None) -> None:
    """It offers compression, which is declined, sends fragments, and pings."""
    ends: list[tuple[int, str]] = []

    async def talk(stream: WebSocketStream) -> None:
        await echo(stream)
        ends.append((stream.close_code, stream.close_reason))

    def call(url: str) -> None:
        with websockets.sync.client.connect(
            url, ssl=client_context(trusted), max_size=None, proxy=None
        ) as client:
            for text in (TEXT, FIVE_MB, ""):
                client.send(text)
                assert client.recv(SOON_S) == text
            client.send(["frag", "men", "", "ts"])
            assert client.recv(SOON_S) == "fragments"
            assert client.ping().wait(SOON_S)
            client.close(4321, "enough")

    async with serving_websockets(talk, server_context(trusted)) as url:
        await trio.to_thread.run_sync(call, url)
    assert ends == [(4321, "enough")]


@asynccontextmanager
async def open_trio_stream(url: str, trusted: Authority | None) -> AsyncIterator[TrioStream]:
    """A connection for trio-websocket, which would not close it."""
    plain = await trio.open_tcp_stream("localhost", int(url[:-1].rpartition(":")[2]))
    stream = trio.SSLStream(plain, trusted.client, server_hostname="localhost") if trusted else plain
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


def format_end(closed: trio_websocket.ConnectionClosed) -> tuple[int, str | None]:
    """Code and reason of a close frame."""
    assert closed.reason
    return closed.reason.code, closed.reason.reason


async def test_a_client_of_trio_websocket_is_closed(trusted: Authority | None) -> None:
    async def talk(stream: WebSocketStream) -> None:
        for message in await receive(stream, 2):
            stream.put(message)
        await stream.finish(1008, "Token expired")

    async with (
        serving_websockets(talk, server_context(trusted)) as url,
        open_trio_stream(url, trusted) as stream,
        trio.open_nursery() as nursery,
    ):
        client = await trio_websocket.wrap_client_stream(
            nursery, stream, "localhost", "/", max_message_size=10_000_000
        )
        await client.send_message(FIVE_MB)
        await client.send_message(TEXT)
        with trio.fail_after(SOON_S):
            assert await client.get_message() == FIVE_MB
            assert await client.get_message() == TEXT
            with pytest.raises(trio_websocket.ConnectionClosed) as closed:
                await client.get_message()
        assert format_end(closed.value) == (1008, "Token expired")


async def run_node(trusted: Authority | None, url: str, *commands: str) -> list[list[object]]:
    """What Node's client says."""
    environment = {**os.environ, "NODE_EXTRA_CA_CERTS": str(trusted.file) if trusted else ""}
    command = [str(NODE / "node"), "--no-warnings", str(CLIENT), url, *commands]
    with trio.fail_after(SOON_S):
        done = await trio.run_process(command, env=environment, capture_stdout=True)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


async def test_clients_of_node_send_close_and_are_closed(trusted: Authority | None) -> None:
    ends: list[tuple[int, str]] = []

    async def talk(stream: WebSocketStream) -> None:
        await echo(stream)
        ends.append((stream.close_code, stream.close_reason))

    async with serving_websockets(talk, server_context(trusted)) as url:
        said = await run_node(trusted, url, f"text {TEXT}", "large 5000000", "binary")
        assert said[:2] == [["message", TEXT], ["message", 5_000_000]]
        assert said[2][:2] == ["close", 1003]
        assert await run_node(trusted, url, "close 4000 done") == [["close", 4000, "done"]]
    assert ends == [(1003, "a message is binary: send text"), (4000, "done")]


# ── Their servers ───────────────────────────────────────────────────────────────────────────────────────────


def serve_websockets(connection: websockets.sync.server.ServerConnection) -> None:
    """Send everything back; `close` closes."""
    for message in connection:
        if message == "close":
            connection.close(4999, "as you wish")
        connection.send(message)


@contextmanager
def server_of_websockets(trusted: Authority | None) -> Iterator[str]:
    with websockets.sync.server.serve(
        serve_websockets, "localhost", 0, ssl=server_context(trusted), max_size=None
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            port = server.socket.getsockname()[1]
            yield f"{'wss' if trusted else 'ws'}://localhost:{port}/path?query=%20"
        finally:
            server.shutdown()
            thread.join()


async def test_a_server_of_websockets_answers_and_closes(trusted: Authority | None) -> None:
    with server_of_websockets(trusted) as url:
        async with connected(url, client_context(trusted)) as client:
            for text in (TEXT, FIVE_MB, ""):
                client.put(text.encode())
                client.flush()
                assert await receive(client) == [text.encode()]
            client.put(b"close")
            client.flush()
            assert await wait_end(client) == (4999, "as you wish")
            assert not client.is_closed_here


@asynccontextmanager
async def server_of_trio_websocket(trusted: Authority | None, ends: list[object]) -> AsyncIterator[str]:
    async def serve(request: trio_websocket.WebSocketRequest) -> None:
        assert (request.path, dict(request.headers)[b"x-hello"]) == ("/extension", b"there")
        connection = await request.accept()
        try:
            while True:
                await connection.send_message(await connection.get_message())
        except trio_websocket.ConnectionClosed as closed:
            ends.append(format_end(closed))

    async with trio.open_nursery() as nursery:
        context = server_context(trusted)
        open_server = partial(
            trio_websocket.serve_websocket, serve, "localhost", 0, context, max_message_size=10_000_000
        )
        server = await nursery.start(open_server)
        yield f"{'wss' if trusted else 'ws'}://localhost:{server.port}/extension"
        nursery.cancel_scope.cancel()


async def test_a_server_of_trio_websocket_is_closed(trusted: Authority | None) -> None:
    ends: list[object] = []
    async with server_of_trio_websocket(trusted, ends) as url:
        client = await connect(
            url, context=client_context(trusted), headers=[("X-Hello", "there")], timeout_s=SOON_S
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run)
            client.put(FIVE_MB[:1].encode(), FIVE_MB[1:].encode())
            client.flush()
            assert await receive(client) == [FIVE_MB.encode()]
            with trio.fail_after(SOON_S):
                await client.finish(1001, "the node shuts down")
        with trio.fail_after(SOON_S):
            while not ends:
                await trio.testing.wait_all_tasks_blocked(0.001)
    assert ends == [(1001, "the node shuts down")]


# ── Errors of a client ──────────────────────────────────────────────────────────────────────────────────────


async def connection_error(url: str, context: ssl.SSLContext | None = None) -> Exception:
    with pytest.raises(Exception) as error:  # noqa: PT011  (its type is what the tests assert)
        await connect(url, context=context, timeout_s=SOON_S)
    return error.value


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "ws:///path",
        "ws://localhost:99999/",
        "ws://user@localhost/",
        "ws://localhost/#part",
        "ws://localhost/a b",
        "ws://localhost/\u20ac",
        f"ws://{'a' * 64}.example/",
        "ws://[::1/",
        "",
    ],
)
async def test_what_is_no_url_is_rejected(url: str) -> None:
    assert isinstance(await connection_error(url), InvalidUrlError)


async def test_a_host_that_does_not_exist_and_a_closed_port_are_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert isinstance(await connection_error(f"ws://127.0.0.1:{port}/"), UnreachableError)
    assert isinstance(await connection_error("ws://nonexistent.invalid/"), UnreachableError)


@pytest.mark.parametrize("problem", list(CertificateProblem))
async def test_each_problem_of_a_certificate_is_recognized(
    tmp_path: Path, problem: CertificateProblem
) -> None:
    now = datetime.now(UTC)
    begins = now + timedelta(days=1) if problem is CertificateProblem.NOT_YET_VALID else None
    expires = now - timedelta(days=1) if problem is CertificateProblem.EXPIRED else None
    names = ["other.example"] if problem is CertificateProblem.WRONG_NAME else []
    authority = Authority(tmp_path, *names, begins=begins, expires=expires)
    context = None if problem is CertificateProblem.UNTRUSTED else load_client_context(authority.file)
    async with serving_websockets(tls=authority.server) as url:
        for each in (url, url.replace("localhost", "127.0.0.1")):
            error = await connection_error(each, context)
            assert isinstance(error, TlsFailedError)
            assert error.problem is problem


async def test_a_server_without_tls_is_no_problem_of_a_certificate(authority: Authority) -> None:
    async with serving_websockets() as url:
        error = await connection_error(url.replace("ws:", "wss:"), authority.client)
    assert isinstance(error, TlsFailedError)
    assert error.problem is None


async def test_ipv6_addresses_work(authority: Authority) -> None:
    async def handle(request: UpgradeRequest) -> None:
        host = dict(request.head.headers)[b"host"].decode()
        raise RequestRejected(HTTPStatus.FORBIDDEN, host)

    async with serving_app(hello, handle_upgrade=handle, tls=authority.server, host="::1") as port:
        error = await connection_error(f"wss://[::1]:{port}/", authority.client)
    assert isinstance(error, HttpStatusError)
    assert f"[::1]:{port}".encode() in error.body


async def test_another_status_is_reported_with_the_beginning_of_its_body() -> None:
    async def reject(_: UpgradeRequest) -> None:
        raise RequestRejected(HTTPStatus.SERVICE_UNAVAILABLE, "x" * 10_000, headers={"Retry-After": "5"})

    async with serving_app(hello, handle_upgrade=reject) as port:
        error = await connection_error(f"ws://127.0.0.1:{port}/")
    assert isinstance(error, HttpStatusError)
    assert (error.status, len(error.body)) == (503, 1024)


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"x" * 20_000,
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: \xff\r\nConnection: \xff\r\n\r\n",
    ],
)
async def test_what_is_no_websocket_server_is_recognized(response: bytes) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(response)

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
        error = await connection_error(f"ws://127.0.0.1:{listener.socket.getsockname()[1]}/")
        nursery.cancel_scope.cancel()
    assert isinstance(error, InvalidUpgradeError)
