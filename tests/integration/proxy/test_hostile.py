"""Hostile peers at one node: each gets its code, and quiet connections beside them notice nothing."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import trio

from certificates import make_certificate
from proxy_node import SOON_S, ForeignClient, ProxyNode, running_node, token_of, write_config
from raw_websocket import RawPeer, open_stream, raw_connected, raw_opened

KIB, MIB = 1024, 1024 * 1024
QUIET = 20
PATIENCE_S = 20.0
"""Seconds that a call of a quiet connection may take, on a busy machine."""
SETTINGS = """
authentication_s = 5
slow_reader_s = 1
ping_interval_s = 30
"""
MOST_GROWTH_BYTES = 50 * MIB


async def sign_in(peer: RawPeer, user: str = "mallory") -> None:
    await peer.send(id=1, method="mcp_handshake", params={"accessToken": token_of(user, "client")})
    assert (await peer.receive())["result"]["authenticated"]


@asynccontextmanager
async def hostile_client(node: ProxyNode, **options: Any) -> AsyncIterator[RawPeer]:
    """A client that is signed in."""
    async with raw_connected(f"{node.base}/mcp", **options) as peer:
        await sign_in(peer)
        yield peer


def frame(opcode: int, body: bytes, *, is_final: bool = True, is_masked: bool = True) -> bytes:
    """A frame of a client, masked with zeros."""
    head = bytes([opcode | 0x80 * is_final])
    mask = 0x80 * is_masked
    if len(body) < 126:
        head += bytes([mask | len(body)])
    elif len(body) < 1 << 16:
        head += bytes([mask | 126]) + struct.pack("!H", len(body))
    else:
        head += bytes([mask | 127]) + struct.pack("!Q", len(body))
    return head + bytes(4) * is_masked + body


# ── Before authentication ───────────────────────────────────────────────────────────────────────────────────


async def stay_silent(node: ProxyNode) -> None:
    async with (
        raw_connected(f"{node.base}/extension") as extension,
        raw_connected(f"{node.base}/mcp") as peer,
    ):
        assert await extension.wait_code() == 1008
        assert await peer.wait_code() == 1008


async def send_one_byte_a_second(node: ProxyNode) -> None:
    async with raw_connected(f"{node.base}/mcp") as peer, trio.open_nursery() as nursery:

        async def trickle() -> None:
            with suppress(trio.BrokenResourceError, trio.BusyResourceError):
                for byte in frame(1, b"{" * 100):
                    await peer.stream.send_all(bytes([byte]))
                    await trio.sleep(0.2)

        nursery.start_soon(trickle)
        assert await peer.wait_code() == 1008
        nursery.cancel_scope.cancel()


async def send_65_kib_at_first(node: ProxyNode) -> None:
    for path in ("/extension", "/mcp"):
        async with raw_connected(f"{node.base}{path}") as peer:
            await peer.send_text(b" " * 65 * KIB)
            assert await peer.wait_code() == 1009


async def send_requests_at_first(node: ProxyNode) -> None:
    async with raw_connected(f"{node.base}/mcp") as peer:
        for number in range(3):
            await peer.send(id=number, method="list_extensions")
            assert (await peer.receive())["error"]["code"] == -32000
        await peer.send(id=3, method="list_extensions")
        assert await peer.wait_code() == 1008
    async with raw_connected(f"{node.base}/extension") as peer:
        await peer.receive()
        await peer.send(method="build_info")
        await peer.send(id=3, method="getTabs")
        assert await peer.wait_code() == 1008


async def open_1000_sockets(node: ProxyNode) -> None:
    statuses: Counter[int] = Counter()
    limiter = trio.CapacityLimiter(64)

    async def open_one(until: trio.Event) -> None:
        async with limiter:
            opened = raw_opened(f"{node.base}/mcp")
            response, _ = await opened.__aenter__()
            statuses[response.status_code] += 1
        try:
            if response.status_code == 429:
                assert int(response.headers["Retry-After"]) > 0
            else:
                await until.wait()
        finally:
            await opened.__aexit__(None, None, None)

    until = trio.Event()
    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(open_one, until)
        with trio.fail_after(SOON_S):
            while statuses.total() < 1000:  # noqa: ASYNC110 - many tasks count
                await trio.sleep(0.01)
        until.set()
    # Those that were closed after some seconds made room for others.
    assert statuses[101] >= 32
    assert statuses[429] >= 500
    assert statuses.keys() == {101, 429}


# ── Bytes ───────────────────────────────────────────────────────────────────────────────────────────────────


async def break_frames(node: ProxyNode) -> None:
    broken = {
        1003: frame(2, b"binary"),
        1007: frame(1, b'"\xff\xfe"'),
        1002: frame(1, b"{}", is_masked=False),
        1009: frame(1, b"")[:1] + bytes([0x80 | 127]) + struct.pack("!Q", 70 * MIB) + bytes(4),
    }
    for code, data in broken.items():
        async with hostile_client(node) as peer:
            await peer.stream.send_all(data)
            assert await peer.wait_code() == code


async def send_endless_fragments(node: ProxyNode) -> None:
    async with hostile_client(node) as peer, trio.open_nursery() as nursery:

        async def send() -> None:
            with suppress(trio.BrokenResourceError, trio.BusyResourceError):
                await peer.stream.send_all(frame(1, b"[", is_final=False))
                while True:
                    await peer.stream.send_all(frame(0, b"", is_final=False) * 4096)

        nursery.start_soon(send)
        assert await peer.wait_code() == 1009
        nursery.cancel_scope.cancel()


async def send_70_mib(node: ProxyNode) -> None:
    async with hostile_client(node) as peer:
        with suppress(trio.BrokenResourceError):
            await peer.send_text(b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % (b"x" * 70 * MIB))
        assert await peer.wait_code() in {1009, 1006}


async def request_compression(node: ProxyNode) -> None:
    headers = {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
    async with raw_opened(f"{node.base}/mcp", headers=headers) as (response, peer):
        assert response.status_code == 101
        assert "Sec-WebSocket-Extensions" not in response.headers
        await sign_in(peer)
    async with hostile_client(node) as peer:
        await peer.stream.send_all(frame(0x41, b"compressed"))
        assert await peer.wait_code() == 1002


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


async def send_odd_messages(node: ProxyNode) -> None:
    async with hostile_client(node) as peer:
        odd = {
            b"[" * 50_000: -32600,
            b'{"jsonrpc":"2.0","id":1,"method":"a","params":' + b"[" * 50_000: -32700,
            b'[{"jsonrpc":"2.0","id":1,"method":"a"}]': -32600,
            b'{"jsonrpc":"2.0","id":{},"method":"a"}': -32600,
            b'{"jsonrpc":"2.0","id":true,"method":"a"}': -32600,
            b"5": -32600,
        }
        for body, code in odd.items():
            await peer.send_text(body)
            response = await peer.receive()
            assert (response["id"], response["error"]["code"]) == (None, code), body[:50]
        await peer.send(id=2**60, method="getTabs")
        response = await peer.receive()
        assert (response["id"], response["error"]["code"]) == (2**60, -32000)
        await peer.send_text(b'{"jsonrpc":"2.0","id":"\\ud800","method":"getTabs"}')
        assert (await peer.receive())["error"]["code"] == -32700
        for _ in range(10):
            await peer.send_text(b"{")
        assert await peer.wait_code() == 1008


async def send_100_000_notifications(node: ProxyNode) -> None:
    async with hostile_client(node) as peer:
        many = frame(1, b'{"jsonrpc":"2.0","method":"notifications/x"}') * 1000
        for _ in range(100):
            await peer.stream.send_all(many)
        await peer.send(id=1, method="disconnect")
        response = await peer.receive()
        # The rate limit counts notifications as well.
        assert response.get("error", {}).get("code") == -32015 or response["result"] == {"disconnected": True}


async def respond_unasked(node: ProxyNode) -> None:
    async with (
        node.extension(token_of("mallory", "extension")) as extension,
        node.client(token_of("mallory", "client")) as client,
    ):
        await client.connect(extension)
        for number in range(50):
            await extension.send(id=f"{client.connection_id}:{number}", result="forged")
            await client.send(id=number, result="forged")
        assert (await client.ask("getTabs"))["result"] == {"method": "getTabs"}
        twice = extension.requests[-1]["id"]
        await extension.send(id=twice, result="again")
        assert (await client.ask("getTabs"))["result"] == {"method": "getTabs"}
        # A later request with the same id does not get the late response.
        extension.answer = lambda _: None
        await client.send(id=1, method="getTabs")
        await extension.until(lambda each: len(each.requests) == 3)
        await extension.send(id=twice, result="late")
        await extension.send(id=extension.requests[-1]["id"], result="right")
        response = await client.receive_response()
        assert (response["id"], response["result"]) == (1, "right")


async def never_read(node: ProxyNode) -> None:
    """A client that requests large results and reads nothing is closed; another one of its browser works."""
    large = "x" * (4 * MIB)

    def answer(message: dict[str, Any]) -> Any:
        return large if message["method"] == "large" else {}

    async with (
        node.extension(token_of("mallory", "extension"), answer) as extension,
        node.client(token_of("mallory", "client")) as other,
        hostile_client(node, buffer_bytes=4096) as peer,
    ):
        await other.connect(extension)
        await peer.send(id="connect", method="connect", params={"extension_id": extension.extension_id})
        for number in range(16):
            await peer.send(id=number, method="large")
        closed = 'closed_sockets_total{code="1008"}'
        before = await count_metric(node, closed)
        with trio.fail_after(SOON_S):
            while await count_metric(node, closed) == before:  # noqa: ASYNC110 - of another process
                await trio.sleep(0.1)
        assert (await other.ask("getTabs"))["result"] == {}


async def count_metric(node: ProxyNode, name: str) -> int:
    async with httpx2.AsyncClient(timeout=SOON_S, trust_env=False) as http:
        lines = await node.read_metrics(http)
    found = [line for line in lines if line.startswith(f"mcpb_proxy_{name} ")]
    return int(found[0].rpartition(" ")[2]) if found else 0


ATTACKS: list[list[Callable[[ProxyNode], Awaitable[None]]]] = [
    [send_70_mib],
    [send_endless_fragments, send_100_000_notifications],
    [
        stay_silent,
        send_one_byte_a_second,
        send_65_kib_at_first,
        send_requests_at_first,
        break_frames,
        request_compression,
        send_odd_messages,
        respond_unasked,
        never_read,
    ],
    [open_1000_sockets],
]
"""Attacks one after the other, those of a row at once: what costs this process much has a row of its own."""


# ── Quiet connections ───────────────────────────────────────────────────────────────────────────────────────


async def test_each_attack_has_its_code_and_quiet_connections_notice_nothing(mcpb_home: Path) -> None:
    write_config(mcpb_home, SETTINGS)
    async with running_node(mcpb_home) as node, AsyncExitStack() as stack:
        extension = await stack.enter_async_context(node.extension())
        clients = [await stack.enter_async_context(node.client()) for _ in range(QUIET)]
        for client in clients:
            await client.connect(extension)
        async with trio.open_nursery() as quiet:
            for client in clients:
                quiet.start_soon(call_quietly, client)
            before = read_memory(node)
            for row in ATTACKS:
                async with trio.open_nursery() as attacks:
                    for attack in row:
                        attacks.start_soon(run_attack, attack, node)
            with trio.fail_after(SOON_S):
                while read_memory(node) > before + MOST_GROWTH_BYTES:  # noqa: ASYNC110 - of another process
                    await trio.sleep(0.1)
            quiet.cancel_scope.cancel()
        assert {client.socket.close_code for client in clients} == {None}
        assert extension.closed is None
        assert [line for line in node.events("log") if line["level"] == "error"] == []


async def run_attack(attack: Callable[[ProxyNode], Awaitable[None]], node: ProxyNode) -> None:
    with trio.fail_after(SOON_S):
        await attack(node)


async def call_quietly(client: ForeignClient) -> None:
    while True:
        with trio.fail_after(PATIENCE_S):
            assert (await client.ask("getTabs"))["result"] == {"method": "getTabs"}
        await trio.sleep(0.25)


def read_memory(node: ProxyNode) -> int:
    """Resident bytes of its process."""
    fields = Path(f"/proc/{node.process.pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_slow_tls_handshake_holds_up_no_other_socket(mcpb_home: Path) -> None:
    write_config(mcpb_home)
    made = make_certificate(mcpb_home)
    options = ["--tls-cert", str(made.certificate), "--tls-key", str(made.key)]
    async with running_node(mcpb_home, *options, tls=made.client_context()) as node:
        slow = [await open_stream(node.port) for _ in range(40)]
        for stream in slow:
            await stream.send_all(b"\x16\x03\x01\x02")
        async with node.client() as client:
            assert (await client.ask("disconnect"))["result"] == {"disconnected": True}
        for stream in slow:
            await trio.aclose_forcefully(stream)
        plain = await open_stream(node.port)
        await plain.send_all(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 400 " in await plain.receive_some(4096)
        await trio.aclose_forcefully(plain)


async def test_slow_requests_of_one_program_keep_no_other_one_from_connecting(mcpb_home: Path) -> None:
    """The server has room for 256 connections besides those of 20 sockets."""
    write_config(mcpb_home, "sockets = 20", home_issuer=True)
    async with running_node(mcpb_home) as node, node.client() as early:
        begun = (
            f"POST /token HTTP/1.1\r\nHost: localhost:{node.port}\r\nContent-Length: 100\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n\r\ngrant_type="
        )
        slow = [await open_stream(node.port) for _ in range(290)]
        for stream in slow:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(begun.encode())
        async with node.client() as late:
            assert (await late.ask("disconnect"))["result"] == {"disconnected": True}
        assert (await early.ask("disconnect"))["result"] == {"disconnected": True}
        for stream in slow:
            await trio.aclose_forcefully(stream)


# ── Memory ──────────────────────────────────────────────────────────────────────────────────────────────────

SMALL_SETTINGS = f"""
queued_bytes = {24 * MIB}
queued_bytes_per_socket = {2 * MIB}
slow_reader_s = 60
"""
LONG = "x" * 8 * MIB
MANY = 12
"""Messages of that length, together more than a peer may make the node grow."""
HELLO = {
    "wire": 1,
    "extension": {"id": "x", "version": "1"},
    "browser": {"brand": "Chromium"},
    "profile": {"id": "0c5d"},
}


@asynccontextmanager
async def hostile_extension(node: ProxyNode, **options: Any) -> AsyncIterator[tuple[RawPeer, str]]:
    """An extension that is signed in, and its id."""
    async with raw_connected(f"{node.base}/extension", **options) as peer:
        await peer.receive()
        token = token_of("mallory", "extension")
        await peer.send(id="proxy:1", result={"name": "Chrome", "accessToken": token})
        yield peer, (await peer.receive())["params"]["extension_id"]


async def test_no_peer_makes_the_node_grow_beyond_its_limits(mcpb_home: Path) -> None:
    write_config(mcpb_home, SMALL_SETTINGS)
    async with running_node(mcpb_home) as node:
        before = read_memory(node)
        for attack in (
            request_with_long_ids,
            begin_long_messages,
            leave_during_long_messages,
            leave_long_announcements,
        ):
            async with attack(node):
                with trio.fail_after(SOON_S):
                    while read_memory(node) > before + MOST_GROWTH_BYTES:  # noqa: ASYNC110
                        await trio.sleep(0.1)
        await fill_queues_below_their_limit(node)


@asynccontextmanager
async def request_with_long_ids(node: ProxyNode) -> AsyncIterator[None]:
    async with hostile_extension(node, buffer_bytes=4096) as (peer, _):
        for number in range(MANY):
            with suppress(trio.BrokenResourceError):  # it is closed
                await peer.send(**{"id": f"{number}{LONG}", "method": "x", "for": "unknown"})
        yield


@asynccontextmanager
async def begin_long_messages(node: ProxyNode) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for _ in range(MANY):
            peer = await stack.enter_async_context(hostile_client(node))
            with suppress(trio.BrokenResourceError):
                await peer.stream.send_all(frame(1, LONG.encode(), is_final=False))
        yield


@asynccontextmanager
async def leave_during_long_messages(node: ProxyNode) -> AsyncIterator[None]:
    for _ in range(MANY):
        async with hostile_client(node) as peer:
            await peer.stream.send_all(frame(1, LONG.encode(), is_final=False))
    yield


@asynccontextmanager
async def leave_long_announcements(node: ProxyNode) -> AsyncIterator[None]:
    for _ in range(MANY):
        async with hostile_extension(node) as (peer, _):
            await peer.send(method="browser/hello", params=HELLO)
            await peer.send(method="browser/paused", params={"sites": [LONG]})
    yield


async def fill_queues_below_their_limit(node: ProxyNode) -> None:
    """Sockets of one user with 1.9 MiB each, then one of another user with 8 MiB: that one stays open."""
    async with AsyncExitStack() as stack:
        peer, extension_id = await stack.enter_async_context(hostile_extension(node))
        for _ in range(MANY):
            client = await stack.enter_async_context(hostile_client(node, buffer_bytes=4096))
            await client.send(id=2, method="connect", params={"extension_id": extension_id})
            await client.receive_response()
        await peer.send(method="notifications/x", params={"text": "x" * (19 * MIB // 10)})
        extension = await stack.enter_async_context(node.extension(answer=lambda _: LONG))
        late = await stack.enter_async_context(raw_connected(f"{node.base}/mcp", buffer_bytes=4096))
        await sign_in(late, "alice")
        await late.send(id=2, method="connect", params={"extension_id": extension.extension_id})
        await late.receive_response()
        closed = len(node.events("closed"))
        await late.send(id=3, method="getTabs")
        await node.until_event("closed", closed + 1)
        assert len((await late.receive_response())["result"]) == len(LONG)
