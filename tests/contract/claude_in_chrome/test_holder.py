"""The process that holds another product's socket for all bridges, with that product's real host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from channel_client import RawChannelClient
from claude_host import OtherHost, other_host
from fake_claude_extension import Call
from native_host.existing_channel import channel_sockets, holder
from native_host.existing_channel.channel_sockets import SocketUsers
from native_host.existing_channel.pending_calls import OtherClients
from native_host.ipc import endpoint
from native_host.ipc.endpoint import Record
from native_host.relay import relay_server
from native_host.system.proc import count_unix_connections
from wire_peers import SocketClient, until

PATIENCE_S = 60


async def find(call: Call) -> str:
    return f"found {call.args['query']}"


async def ask(call: Call) -> str:
    """A tool that wants the person's leave."""
    return "allowed" if await call.permitted("https://a.example") else "not allowed"


@pytest.fixture
def theirs(short_tmp: Path) -> Iterator[OtherHost]:
    with other_host(short_tmp) as host:
        yield host


HOLDER = ["-m", "native_host.existing_channel.holder"]
IMPATIENT = [
    "-c",
    """
from native_host.existing_channel import holder
from native_host.relay import relay_server
holder.LINGERS_S, relay_server._WANTED_LOOK_SECONDS = 0.5, 0.1
holder.main()
""",
]
"""One that does not linger for long."""


@asynccontextmanager
async def holding(
    path: Path, mcpb_home: Path, program: Sequence[str] = HOLDER
) -> AsyncIterator[trio.Process]:
    command = [sys.executable, "-I", *program, str(path)]
    environment = {**os.environ, "MCPB_HOME": str(mcpb_home)}
    process = await trio.lowlevel.open_process(command, env=environment, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()


async def record_of(path: Path, mcpb_home: Path) -> Record:
    """What the holder of this socket says of itself, once there is one."""
    run = mcpb_home / "run"

    def held() -> list[Record]:
        return [record for record in endpoint.live_hosts(run) if record.channel == str(path)]

    await until(lambda: bool(held()))
    return held()[0]


@asynccontextmanager
async def bridged(path: Path, mcpb_home: Path) -> AsyncIterator[SocketClient]:
    record = await record_of(path, mcpb_home)
    async with SocketClient.connected(mcpb_home / "run", record.instance) as client:
        yield client


async def call(client: SocketClient, number: int, tool: str, **args: Any) -> dict[str, Any]:
    await client.say(id=number, method="browser/callTool", params={"name": tool, "args": args})
    return await client.answer_to(number)


async def test_many_bridges_share_one_connection_and_each_hears_its_own_answers(
    theirs: OtherHost, mcpb_home: Path
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension(tools={"find": find}).running() as extension:
            path = await theirs.socket(extension)
            async with (
                holding(path, mcpb_home),
                bridged(path, mcpb_home) as one,
                bridged(path, mcpb_home) as other,
            ):
                for number in range(20):
                    for client, name in ((one, "one"), (other, "other")):
                        answer = await call(client, number, "find", query=f"{name} {number}")
                        (block,) = answer["result"]["content"]
                        assert block["text"] == f"found {name} {number}"
                assert extension.heard_types["mcp_connected"] == 1


async def test_a_second_holder_of_a_socket_leaves_it_to_the_first(theirs: OtherHost, mcpb_home: Path) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension().running() as extension:
            path = await theirs.socket(extension)
            async with holding(path, mcpb_home):
                await record_of(path, mcpb_home)
                async with holding(path, mcpb_home) as second:
                    assert await second.wait() == 0
            assert extension.heard_types["mcp_connected"] == 1


async def test_it_ends_when_no_bridge_has_wanted_it_for_a_while_and_leaves_nothing(
    theirs: OtherHost, mcpb_home: Path
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension().running() as extension:
            path = await theirs.socket(extension)
            async with holding(path, mcpb_home, IMPATIENT) as holder:
                async with bridged(path, mcpb_home):
                    pass
                assert await holder.wait() == 0
            assert list((mcpb_home / "run").iterdir()) == []
            assert path.is_socket()


async def test_it_stays_for_the_answer_to_a_call_that_was_left_behind_where_answers_bear_no_name(
    theirs: OtherHost, mcpb_home: Path, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """The next holder would hand it to the next who calls, and each answer after it one call too late."""
    monkeypatch.setattr(holder, "LINGERS_S", 0)
    monkeypatch.setattr(relay_server, "_WANTED_LOOK_SECONDS", 0.05)
    left, has_ended = trio.Event(), trio.Event()

    async def slow(_: Call) -> str:
        await left.wait()
        return "too late"

    async def hold(path: Path) -> None:
        await holder.hold(path)
        has_ended.set()

    with trio.fail_after(PATIENCE_S):
        async with theirs.extension("untagged", {"computer": slow}).running() as extension:
            path = await theirs.socket(extension)
            nursery.start_soon(hold, path)
            async with bridged(path, mcpb_home) as client:
                await client.say(id=1, method="browser/callTool", params={"name": "computer", "args": {}})
                await extension.until(lambda: bool(extension.calls))
            with trio.move_on_after(0.5):
                await has_ended.wait()
            assert not has_ended.is_set()
            left.set()
            await has_ended.wait()


async def test_a_call_that_is_open_when_their_host_is_killed_says_so(
    theirs: OtherHost, mcpb_home: Path
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension().running() as extension:
            path = await theirs.socket(extension)
            async with holding(path, mcpb_home) as holder, bridged(path, mcpb_home) as client:
                await client.say(id=1, method="browser/callTool", params={"name": "find", "args": {}})
                await extension.until(lambda: bool(extension.calls))
                pid = extension.pid
                await extension.kill_host()
                error = await _error(client)
                assert error["data"] == {"handed": True}
                assert f"native host (pid {pid}) has ended" in error["message"]
                assert await holder.wait() == 0


async def test_a_call_that_is_open_when_their_host_stops_serving_says_what_helps(
    theirs: OtherHost, mcpb_home: Path
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension().running() as extension:
            path = await theirs.socket(extension)
            async with holding(path, mcpb_home), bridged(path, mcpb_home) as client:
                await client.say(id=1, method="browser/callTool", params={"name": "find", "args": {}})
                await extension.until(lambda: bool(extension.calls))
                extension.say_too_much()
                error = await _error(client)
                assert "serves no client any more" in error["message"]
                assert "https://clau.de/chrome/reconnect" in error["message"]


async def _error(client: SocketClient) -> dict[str, Any]:
    while "error" not in (message := await client.next_message()):
        pass
    error: dict[str, Any] = message["error"]
    return error


async def test_beside_a_client_of_theirs_an_extension_that_names_no_calls_is_not_asked(
    theirs: OtherHost, mcpb_home: Path
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension("untagged", {"find": find}).running() as extension:
            path = await theirs.socket(extension)
            async with holding(path, mcpb_home), bridged(path, mcpb_home) as ours:
                assert "result" in await call(ours, 1, "find", query="alone")
                async with RawChannelClient.connected(path) as client:
                    answer = await client.call("find", query="theirs")
                    refused = await call(ours, 2, "find", query="ours")
                    assert "another program is connected" in refused["error"]["message"]
                    assert answer == {"result": {"content": "found theirs"}}
                    assert client.frames_read == 1
                await extension.until(lambda: extension.heard_types["mcp_disconnected"] == 1)
                await until(lambda: count_unix_connections(path) == 1)
                refused = await call(ours, 3, "find", query="what it asked may still be answered")
                assert "was connected to this channel a moment ago" in refused["error"]["message"]


async def test_what_the_extension_asks_reaches_the_bridge_that_called(
    theirs: OtherHost, mcpb_home: Path
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension(tools={"navigate": ask}).running() as extension:
            path = await theirs.socket(extension)
            async with holding(path, mcpb_home), bridged(path, mcpb_home) as client:
                params = {"name": "navigate", "args": {}, "asks": True}
                await client.say(id="mine", method="browser/callTool", params=params)
                while (question := await client.next_message()).get("method") != "browser/elicitConfirmation":
                    pass
                assert question["for"] == "mine"
                await client.say(id=question["id"], result={"action": "accept", "content": {"allow": True}})
                answer = await client.answer_to("mine")
                assert answer["result"]["content"][0]["text"] == "allowed"


async def test_a_socket_that_others_could_have_made_is_refused(short_tmp: Path, mcpb_home: Path) -> None:
    short_tmp.chmod(0o755)
    async with holding(short_tmp / "1.sock", mcpb_home) as holder:
        with trio.fail_after(PATIENCE_S):
            assert await holder.wait() == 1
            assert holder.stderr
            said = bytes(await holder.stderr.receive_some(4096))
    assert b"open to other users" in said


def test_another_program_counts_as_long_as_its_last_call_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    here, now = 2, 0.0
    monkeypatch.setattr(channel_sockets, "count_unix_connections", lambda _: here)
    users = SocketUsers(Path("1.sock"), lambda: now)
    assert users.look() is OtherClients.NOW
    here, now = 1, channel_sockets.QUIET_S - 1
    assert users.look() is OtherClients.LATELY
    now = channel_sockets.QUIET_S
    assert users.look() is OtherClients.NONE
