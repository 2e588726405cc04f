"""Beside the real native host of another product, with an extension played on its stdio.

First what we rely on: that this host is as `native_host/channel_wire.py` takes it to be. Then bridges, and
clients of that product beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import transcript
from native_host.channel_wire import FRAME_BYTES
from other_host import OtherHost, other_host
from peers import until
from raw_channel_client import RawChannelClient, bytes_of
from stub_extension import Call, StubExtension
from transcript import EXTENSION, TRANSCRIPTS

pytestmark = pytest.mark.interop

PATIENCE_S = 20
"""For anything at all: two processors are shared with other tests."""
FILLER = "f" * 20_000


async def find(call: Call) -> str:
    """Twenty thousand bytes, after what was asked for."""
    return f"{call.args['query']} {FILLER}"


@pytest.fixture
def theirs(short_tmp: Path) -> Iterator[OtherHost]:
    with other_host(short_tmp) as host:
        yield host


# ── What we rely on ─────────────────────────────────────────────────────────────────────────────────────────


async def test_its_directory_and_socket_are_private_and_go_with_its_last_host(theirs: OtherHost) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension().running() as extension:
            path = await theirs.socket(extension)
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.parent.stat().st_mode & 0o777 == 0o700
            other = path.parent / "1.sock"
            other.touch()
            dead = path.parent / f"{2**22 + 1}.sock"
            dead.touch()
            async with theirs.extension().running():
                assert other.exists()
                assert not dead.exists()
            assert path.is_socket()
            other.unlink()
        assert not path.parent.exists()


async def test_it_tells_every_client_what_one_was_answered(theirs: OtherHost) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension(tools={"find": find}).running() as extension:
            path = await theirs.socket(extension)
            async with RawChannelClient.connected(path) as one, RawChannelClient.connected(path) as other:
                await extension.until(lambda: extension.heard_types["mcp_connected"] == 2)
                answer = await one.call("find", query="mine")
                assert await other.hear() == answer
                assert one.bytes_read == bytes_of(answer) == extension.answered_bytes


async def test_a_frame_over_its_cap_ends_its_service_and_not_its_process(theirs: OtherHost) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension().running() as extension:
            path = await theirs.socket(extension)
            async with RawChannelClient.connected(path) as client:
                extension.say_too_much()
                await client.until_closed()
            await until(lambda: not path.exists())
            os.kill(extension.pid, 0)


async def test_a_clients_frame_over_the_cap_cuts_off_that_client_alone(theirs: OtherHost) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension(tools={"find": find}).running() as extension:
            path = await theirs.socket(extension)
            async with RawChannelClient.connected(path) as one, RawChannelClient.connected(path) as other:
                await one.say_raw((FRAME_BYTES + 1).to_bytes(4, "little"))
                await one.until_closed()
                assert "result" in await other.call("find", query="still here")


async def test_what_a_client_says_is_longer_when_the_extension_hears_it(theirs: OtherHost) -> None:
    """So a client's frame just below the cap becomes one that a browser closes the port over."""
    with trio.fail_after(PATIENCE_S):
        said = {"method": "execute_tool", "params": {"tool": "find", "args": {}}}
        async with (
            theirs.extension().running() as extension,
            RawChannelClient.connected(await theirs.socket(extension)) as client,
        ):
            await client.say(**said)
            assert await extension.hear("tool_request") == {"type": "tool_request", **said}


class TheirStage:
    """The real host, and clients of its socket."""

    def __init__(self, extension: StubExtension, path: Path, nursery: trio.Nursery) -> None:
        self._extension = extension
        self._path = path
        self._nursery = nursery
        self._clients: dict[str, RawChannelClient] = {}
        self._gone: dict[str, trio.Event] = {}

    async def connect(self, who: str) -> None:
        self._clients[who] = await self._nursery.start(partial(self._keep, who))

    async def leave(self, who: str) -> None:
        self._gone[who].set()

    async def say(self, who: str, what: Any) -> None:
        if who == EXTENSION:
            self._extension.say_bodies(*transcript.bodies(what))
        else:
            await self._clients[who].say(**what)

    async def hear(self, who: str) -> Any:
        message = await (self._extension if who == EXTENSION else self._clients[who]).hear()
        changing = {"timestamp": "when it was said", "computer_name": "where it was said"}
        return message | {name: text for name, text in changing.items() if name in message}

    async def until_cut_off(self, who: str) -> None:
        await self._clients[who].until_closed()

    async def _keep(self, who: str, *, task_status: trio.TaskStatus[RawChannelClient]) -> None:
        self._gone[who] = gone = trio.Event()
        async with RawChannelClient.connected(self._path) as client:
            task_status.started(client)
            await gone.wait()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_the_transcripts_are_what_it_says(theirs: OtherHost, path: Path) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension().running() as extension, trio.open_nursery() as nursery:
            stage = TheirStage(extension, await theirs.socket(extension), nursery)
            cues = transcript.read(path)
            played = await transcript.play(cues, stage)
            nursery.cancel_scope.cancel()
    if os.environ.get("MCPB_RECORD"):
        transcript.write(path, played)
    assert played == transcript.read(path)


async def test_without_ids_a_second_clients_answer_is_taken_for_ones_own(theirs: OtherHost) -> None:
    """Why bridges do not call while another client is there, unless answers bear ids."""
    taken = []

    async def read(client: RawChannelClient) -> None:
        taken.append(await client.call("read_page"))

    with trio.fail_after(PATIENCE_S):
        async with theirs.extension("untagged", {"find": find}).running() as extension:
            path = await theirs.socket(extension)
            async with RawChannelClient.connected(path) as one, RawChannelClient.connected(path) as other:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read, one)
                    await extension.until(lambda: len(extension.calls) == 1)
                    answer = await other.call("find", query="for the second")
                assert taken == [answer]
