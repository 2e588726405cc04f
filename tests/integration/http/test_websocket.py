"""WebSockets between our two ends, and between ours and clients that send their own bytes."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from http_frontend import CLOSES_EARLY, hello, serving_app
from http_serving.http_connection import UpgradeRequest
from http_serving.tls import CertificateError, ServerCertificate
from http_serving.websocket import WebSocketStream
from http_serving.websocket_client import connect
from http_serving.websocket_protocol import NO_CLOSE_FRAME, WebSocketLimits, WebSocketProtocol
from http_serving.websocket_server import accept_websocket
from random_frames import LIMITS, random_frames
from random_input import count_inputs, named, random_parts
from raw_http import RawClient, head
from raw_http import connected as raw_connected
from websocket_ends import SOON_S, Authority, connected, echo, receive, running, serving_websockets, wait_end

pytestmark = CLOSES_EARLY

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""Key and its response in RFC 6455, 1.3."""
OFFER: dict[str, Any] = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": KEY,
}
FIVE_MB = b"x" * 5_000_000
HELLO = b"\x81\x85\0\0\0\0hello"
"""A frame of a client whose mask changes nothing."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=["plain", "tls"])
async def pair(
    request: pytest.FixtureRequest, authority: Authority, nursery: trio.Nursery
) -> tuple[WebSocketStream, WebSocketStream]:
    """The client's end and the server's, over TCP."""
    server, client = (authority.server, authority.client) if request.param == "tls" else (None, None)
    accepted: list[WebSocketStream] = []
    opened = trio.Event()

    async def keep(stream: WebSocketStream) -> None:
        accepted.append(stream)
        opened.set()
        await trio.sleep_forever()

    @asynccontextmanager
    async def both() -> AsyncIterator[WebSocketStream]:
        async with serving_websockets(keep, server) as url, connected(url, client) as stream:
            yield stream

    ready = trio.Event()

    async def hold() -> None:
        async with both() as stream:
            await opened.wait()
            accepted.append(stream)
            ready.set()
            await trio.sleep_forever()

    nursery.start_soon(hold)
    with trio.fail_after(SOON_S):
        await ready.wait()
    return accepted[1], accepted[0]


# ── The opening handshake of a server ───────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def by_hand(url: str) -> AsyncIterator[RawClient]:
    """A client that has completed its opening handshake by hand."""
    port = int(url.rstrip("/").rpartition(":")[2])
    async with raw_connected(port) as client:
        await client.say(head("GET /", port=port, **OFFER))
        status, headers = await client.head()
        assert (status, headers["sec-websocket-accept"]) == (101, ACCEPT.decode().lower())
        yield client


async def test_no_extension_and_no_subprotocol_is_accepted() -> None:
    async with serving_websockets() as url, raw_connected(int(url[:-1].rpartition(":")[2])) as client:
        offered = {"Sec_WebSocket_Extensions": "permessage-deflate", "Sec_WebSocket_Protocol": "mcp"}
        await client.say(head("GET /", port=1, **OFFER, **offered) + HELLO)
        status, headers = await client.head()
        assert (status, headers["upgrade"], headers["connection"]) == (101, "websocket", "upgrade")
        assert not {"sec-websocket-extensions", "sec-websocket-protocol"} & set(headers)
        await client.say(b"\x88\x80\0\0\0\0")
        assert await client.until_end() == b"\x81\x05hello\x88\x00"


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Sec_WebSocket_Version": "8"}, 426),
        ({"Sec_WebSocket_Version": None}, 426),
        ({"Sec_WebSocket_Key": None}, 400),
        ({"Sec_WebSocket_Key": "c2hvcnQ="}, 400),
        ({"Sec_WebSocket_Key": "not base64, 24 octets..."}, 400),
        ({"Connection": "keep-alive"}, 400),
        ({"Content_Length": "5"}, 400),
        ({"Transfer_Encoding": "chunked"}, 400),
        ({"method": "POST"}, 405),
    ],
)
async def test_an_invalid_opening_handshake_is_rejected(changed: dict[str, Any], status: int) -> None:
    offer = {name: value for name, value in {**OFFER, **changed}.items() if value is not None}
    method = offer.pop("method", "GET")
    async with serving_websockets() as url:
        port = int(url[:-1].rpartition(":")[2])
        async with raw_connected(port) as client:
            await client.say(head(f"{method} /", port=port, **offer))
            answer = await client.answer()
            assert answer.status == status
            if status == 426:
                assert answer.headers["sec-websocket-version"] == "13"
            assert await client.is_closed()


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_messages_pass_in_both_directions(pair: tuple[WebSocketStream, WebSocketStream]) -> None:
    for sender, receiver in (pair, pair[::-1]):
        for text in (b"{}", b"", "€ and 𝄞".encode(), FIVE_MB):
            sender.put(text[:1], memoryview(text)[1:])
        sender.flush()
        assert await receive(receiver, 4) == [b"{}", b"", "€ and 𝄞".encode(), FIVE_MB]


async def test_a_withdrawn_message_never_arrives(pair: tuple[WebSocketStream, WebSocketStream]) -> None:
    client, server = pair
    first = server.put(b"first")
    unwanted = server.put(b"unwanted")
    assert server.withdraw(unwanted)
    assert not unwanted.has_begun
    server.put(b"last")
    server.flush()
    assert first.has_begun
    assert not server.withdraw(first)
    assert await receive(client, 2) == [b"first", b"last"]


async def test_a_slow_reader_leaves_messages_that_can_be_withdrawn(
    pair: tuple[WebSocketStream, WebSocketStream],
) -> None:
    client, server = pair
    large = server.put(b"x" * 32 * 1024 * 1024)
    server.flush()
    last = server.put(b"last")
    server.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert (large.has_begun, last.has_begun) == (True, False)
    assert server.waiting_bytes > 16 * 1024 * 1024
    with trio.move_on_after(0) as scope:
        await server.wait_room(1024 * 1024)
    assert scope.cancelled_caught
    assert server.withdraw(last)
    server.put(b"next")
    server.flush()
    assert list(map(len, await receive(client, 2))) == [32 * 1024 * 1024, 4]
    with trio.fail_after(SOON_S):
        await server.wait_room()
    assert server.waiting_bytes == 0


async def test_a_ping_is_answered_while_the_other_end_receives(
    pair: tuple[WebSocketStream, WebSocketStream], nursery: trio.Nursery
) -> None:
    client, server = pair
    opened_at = server.last_pong_at
    nursery.start_soon(client.receive)
    nursery.start_soon(server.receive)
    server.ping()
    with trio.fail_after(SOON_S):
        while server.last_pong_at == opened_at:
            await trio.testing.wait_all_tasks_blocked(0.001)


async def test_a_server_changes_its_limit_after_the_first_message() -> None:
    async def authenticate(stream: WebSocketStream) -> None:
        assert await stream.receive() == [b"token"]
        stream.max_message_bytes = 64 * 1024 * 1024
        stream.put(b"authenticated")
        stream.flush()
        await echo(stream)

    limits = WebSocketLimits(message_bytes=64 * 1024)
    async with serving_websockets(authenticate, limits=limits) as url:
        async with connected(url) as client:
            client.put(b"token")
            client.flush()
            assert await receive(client) == [b"authenticated"]
            client.put(FIVE_MB)
            client.flush()
            assert await receive(client) == [FIVE_MB]
        async with connected(url) as client:
            client.put(b"x" * (64 * 1024 + 1))
            client.flush()
            code, reason = await wait_end(client)
            assert (code, reason, client.is_closed_here) == (
                1009,
                "a message is longer than 65536 bytes",
                False,
            )


# ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_code_and_a_reason_arrive(
    pair: tuple[WebSocketStream, WebSocketStream], nursery: trio.Nursery
) -> None:
    client, server = pair
    server.put(b"last words")
    nursery.start_soon(server.finish, 4001, "Replaced by a newer connection")
    assert await receive(client) == [b"last words"]
    assert await wait_end(client) == (4001, "Replaced by a newer connection")
    assert await wait_end(server) == (4001, "Replaced by a newer connection")
    assert (client.is_closed_here, server.is_closed_here) == (False, True)
    late = client.put(b"late")
    assert (late.has_begun, client.withdraw(late), client.waiting_bytes) == (False, False, 0)


async def test_both_ends_close_at_once(
    pair: tuple[WebSocketStream, WebSocketStream], nursery: trio.Nursery
) -> None:
    client, server = pair
    nursery.start_soon(client.finish, 1001, "leaving")
    with trio.fail_after(SOON_S):
        await server.finish(1001, "going away")
    assert (server.close_reason, await wait_end(client)) == ("going away", (1001, "leaving"))


async def test_a_task_that_receives_sees_the_end_that_another_one_begins(
    pair: tuple[WebSocketStream, WebSocketStream], nursery: trio.Nursery
) -> None:
    client, server = pair
    ends: list[tuple[int, str]] = []

    async def read() -> None:
        ends.append(await wait_end(server))

    nursery.start_soon(read)
    nursery.start_soon(wait_end, client)
    await trio.testing.wait_all_tasks_blocked()
    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as both:
            both.start_soon(server.finish, 1008, "Token revoked")
            both.start_soon(server.finish, 1008, "Token revoked")
    assert ends == [(1008, "Token revoked")]


async def test_an_end_without_a_close_frame_has_its_own_code(
    pair: tuple[WebSocketStream, WebSocketStream],
) -> None:
    client, server = pair
    await trio.aclose_forcefully(client._stream)
    assert await wait_end(server) == (1006, "")
    assert await wait_end(client) == (1006, "")
    assert not server.put(b"late").has_begun
    with pytest.raises(trio.BrokenResourceError):
        await server.wait_room()


async def test_an_end_that_reads_nothing_is_closed_after_the_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    finished = trio.Event()

    async def flood(stream: WebSocketStream) -> None:
        stream.put(b"x" * 32 * 1024 * 1024)
        stream.flush()
        began = trio.current_time()
        await stream.finish(timeout_s=3)
        assert trio.current_time() - began == pytest.approx(3)
        finished.set()

    async with serving_websockets(flood) as url, by_hand(url):
        await finished.wait()


async def test_a_server_that_stops_ends_open_connections() -> None:
    until = trio.Event()
    async with serving_websockets(until=until) as url, connected(url) as client:
        client.put(b"hello")
        client.flush()
        assert await receive(client) == [b"hello"]
        until.set()
        assert (await wait_end(client))[0] in {1000, 1006}


async def test_responses_to_messages_before_a_close_frame_are_sent(
    pair: tuple[WebSocketStream, WebSocketStream], nursery: trio.Nursery
) -> None:
    client, server = pair
    client.put(b"request")
    nursery.start_soon(client.finish, 1000, "done")
    await trio.testing.wait_all_tasks_blocked()  # the close frame follows at once
    assert await receive(server) == [b"request"]
    server.ping()
    response = server.put(b"response")
    server.flush()
    assert response.has_begun
    assert await wait_end(server) == (1000, "done")


async def test_a_violation_reaches_an_end_that_goes_on_sending() -> None:
    """Closed at once, the connection would be reset, and the close frame lost."""
    async with serving_websockets() as url, by_hand(url) as client:
        await client.say(b"\x82\x80\0\0\0\0" + HELLO * 1000)
        for _ in range(10):
            await client.say(HELLO * 1000)
        await client.stream.send_eof()
        received = await client.until_end()
        assert (received[:1], received[2:4]) == (b"\x88", struct.pack("!H", 1003))


# ── Hostile ends ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("flood", [b"\x89\x80\0\0\0\0" * 1000, b"\x00\x80\0\0\0\0" * 1000])
async def test_endless_control_frames_or_fragments_leave_others_alone(flood: bytes) -> None:
    async with serving_websockets() as url, by_hand(url) as hostile, connected(url) as quiet:
        await hostile.say(b"\x01\x80\0\0\0\0")
        hostile.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

        async def send() -> None:
            while True:
                await hostile.stream.send_all(flood)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            for number in range(50):
                quiet.put(b"%d" % number)
                quiet.flush()
                assert await receive(quiet) == [b"%d" % number]
            nursery.cancel_scope.cancel()


async def test_pings_of_an_end_that_reads_nothing_fill_no_queue() -> None:
    served: list[WebSocketStream] = []

    async def keep(stream: WebSocketStream) -> None:
        served.append(stream)
        stream.put(b"x" * 32 * 1024 * 1024)
        await echo(stream)

    async with serving_websockets(keep) as url, by_hand(url) as client:
        for _ in range(100):
            await client.stream.send_all((b"\x89\xfd\0\0\0\0" + b"p" * 125) * 100)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert served[0].waiting_bytes <= 32 * 1024 * 1024 + 1000


async def test_a_tls_handshake_of_single_bytes_is_completed(authority: Authority) -> None:
    async with serving_websockets(tls=authority.server) as url:
        port = int(url[:-1].rpartition(":")[2])
        near, far = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery, raw_connected(port) as client:

            async def carry() -> None:
                while data := await far.receive_some():
                    for byte in data:
                        await client.stream.send_all(bytes([byte]))

            async def carry_back() -> None:
                async for data in client.stream:
                    await far.send_all(bytes(data))

            nursery.start_soon(carry)
            nursery.start_soon(carry_back)
            slow = trio.SSLStream(near, authority.client, server_hostname="localhost")
            with trio.fail_after(SOON_S):
                await slow.send_all(head("GET /", port=port, **OFFER) + HELLO)
                received = b""
                while b"hello" not in received:
                    received += await slow.receive_some()
            nursery.cancel_scope.cancel()


# ── Certificates ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_certificate_is_replaced_while_connections_stay(tmp_path: Path) -> None:
    for name in ("old", "new", "file"):
        (tmp_path / name).mkdir()
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    files = tmp_path / "file" / "server.pem", tmp_path / "file" / "server.key"

    def install(authority: Authority) -> None:
        files[0].write_bytes(authority.certificate.read_bytes())
        files[1].write_bytes(authority.key.read_bytes())
        files[1].chmod(0o600)

    async def handle(request: UpgradeRequest) -> None:
        async with running(accept_websocket(request)) as stream:
            await echo(stream)

    install(old)
    certificate = ServerCertificate(*files)
    async with serving_app(hello, handle_upgrade=handle, tls=certificate) as port:
        open_client = partial(connected, f"wss://localhost:{port}/")
        async with open_client(old.client) as first:
            files[0].write_bytes(b"damaged")
            with pytest.raises(CertificateError):
                certificate.reload()
            async with open_client(old.client):
                pass
            install(new)
            certificate.reload()
            async with open_client(new.client) as second:
                for stream in (first, second):
                    stream.put(b"hello")
                    stream.flush()
                    assert await receive(stream) == [b"hello"]


async def test_connect_is_cancelled_in_time() -> None:
    sockets = socket.create_server(("127.0.0.1", 0))
    with sockets, pytest.raises(Exception, match="did not respond within"):
        await connect(f"ws://127.0.0.1:{sockets.getsockname()[1]}/", timeout_s=0.1)


async def test_random_frames_end_a_connection_in_order() -> None:
    for number in range(count_inputs(200)):
        with named(number), trio.fail_after(SOON_S):
            await receive_random_frames(Random(number))


async def receive_random_frames(random: Random) -> None:
    is_client = random.random() < 0.5
    ours, theirs = trio.socket.socketpair()
    with theirs:
        for part in random_parts(random, random_frames(random, are_masked=not is_client)):
            await theirs.send(part)
        theirs.shutdown(socket.SHUT_WR)
        protocol = WebSocketProtocol(is_client=is_client, limits=LIMITS)
        async with running(WebSocketStream(trio.SocketStream(ours), protocol)) as stream:
            while messages := await stream.receive():
                for message in messages:
                    message.decode()
        assert stream.close_code
        assert protocol.has_ended is (stream.close_code != NO_CLOSE_FRAME)
