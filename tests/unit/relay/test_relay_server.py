"""The relay between slow peers: the browser is a memory stream, limits are small, the clock jumps."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from native_host.ipc import endpoint
from native_host.protocol import wire
from native_host.protocol.framing import FrameDecoder, frame
from native_host.protocol.wire import MIB, TO_BROWSER_BYTES
from native_host.relay.browser_adapter import PassThroughAdapter
from native_host.relay.relay_server import RelayServer, record_of
from wire_peers import ORIGIN, SocketClient


class InProcess:
    """A relay between two pipes (the browser) and a real socket."""

    def __init__(self, place: endpoint.Endpoint) -> None:
        self.place = place
        self._browser_in, to_host = os.pipe()
        from_host, self._browser_out = os.pipe()
        self.to_host = trio.lowlevel.FdStream(to_host)
        self.from_host = trio.lowlevel.FdStream(from_host)

    async def serve(self) -> None:
        record = record_of(self.place, ORIGIN, os.getppid())
        await RelayServer(
            self.place, record, PassThroughAdapter(), self._browser_in, self._browser_out
        ).serve()

    async def close(self) -> None:
        await self.to_host.aclose()
        await self.from_host.aclose()
        for fd in (self._browser_in, self._browser_out):
            os.close(fd)

    def connected(self, **options: bool) -> Any:
        return SocketClient.connected(self.place.directory, self.place.instance, **options)

    async def announce(self, method: str, params: object) -> None:
        body = msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params})
        await self.to_host.send_all(frame(body, "native"))


@pytest.fixture
async def relay(mcpb_home: Path) -> AsyncIterator[InProcess]:
    place = endpoint.open_endpoint(mcpb_home / "run")
    relay = InProcess(place)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay.serve)
        yield relay
        nursery.cancel_scope.cancel()
    await relay.close()
    place.close()


async def test_a_client_that_never_says_hello_is_dismissed_after_ten_seconds(
    relay: InProcess, autojump_clock: trio.testing.MockClock
) -> None:
    async with relay.connected(introduce=False) as client:
        assert "no bridge/hello within 10 s" in (await client.heard("host/error"))["message"]
        with pytest.raises(EOFError):
            await client.next_message()
    assert 10 <= trio.current_time() < 12


async def test_where_the_extension_says_nothing_the_replay_ends_after_a_second(
    relay: InProcess, autojump_clock: trio.testing.MockClock
) -> None:
    async with relay.connected(introduce=False) as client:
        await client.introduce()
        await client.heard("host/replayed")
    assert 1 <= trio.current_time() < 2


async def test_a_client_that_does_not_read_is_dropped_and_the_others_do_not_notice(
    relay: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wire.CLIENT_BACKLOG_BYTES == 134_217_728  # so much is not sent in a test
    monkeypatch.setattr("native_host.protocol.wire.CLIENT_BACKLOG_BYTES", 8 * MIB)
    await relay.announce("browser/tabs", {"tabs": []})
    with trio.fail_after(60):
        async with relay.connected() as laggard, relay.connected() as reader:
            for number in range(30):
                await relay.announce("browser/tabChanged", {"tab": {"tabId": number, "title": "x" * MIB}})
                assert (await reader.heard("browser/tabChanged"))["tab"]["tabId"] == number
            heard = [message async for message in laggard.until_closed()]
    assert len(heard) < 30


async def test_a_client_whose_messages_wait_for_the_browser_is_not_read_meanwhile(relay: InProcess) -> None:
    await relay.announce("browser/tabs", {"tabs": []})
    with trio.fail_after(60):
        async with relay.connected() as client:
            sent, is_read = 0, True
            while is_read:
                with trio.move_on_after(1) as patience:
                    await client.say(id=sent, method="x", params={"args": "x" * (MIB - 1024)})
                    sent += 1
                is_read = not patience.cancelled_caught
            assert 64 <= sent <= 67  # 64 MiB and what is on its way
            asked = 0
            decoder = FrameDecoder(TO_BROWSER_BYTES, "native")
            while asked < sent:
                decoder.feed(await relay.from_host.receive_some(MIB))
                asked += sum(b'"method":"x"' in body for body in iter(decoder.next_frame, None))


async def test_a_client_is_read_again_when_its_call_has_failed_though_the_browser_still_does_not_read(
    relay: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("native_host.protocol.wire.CLIENT_WAITING_BYTES", MIB)
    monkeypatch.setattr("native_host.protocol.wire.CHUNK_SECONDS", 0.1)
    await relay.announce("browser/tabs", {"tabs": []})
    with trio.fail_after(60):
        async with relay.connected() as client:
            while not (await relay.from_host.receive_some(MIB)).endswith(
                b"[]}]}}"
            ):  # host/clients is the last
                pass
            await client.say(id=1, method="x", params={"args": "x" * (2 * MIB)})
            assert (await client.answer_to(1))["error"]["code"] == -32011
            await client.say_raw(b"{")
            assert (await client.answer_to(None))["error"]["code"] == -32700
