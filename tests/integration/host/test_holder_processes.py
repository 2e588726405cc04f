"""Another product's sockets have one holder each, which bridges start where they want one."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Container
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import mcp
import pytest
import trio

from bridge.config.settings import ChannelSettings, Config
from bridge.hub.transport import DiscoveryFinished, Event, HostDiscovered, HostLost
from bridge.links.browsers.holder_processes import AGAIN_S, COMING_S, LOOK_EVERY_S, HolderProcesses
from bridge.links.browsers.native_hosts import NativeLinks
from fake_claude_extension import TheirSocket
from fake_host import PlayedHost
from mcp_client import BRIDGE_COMMAND, McpLines, bridge_in_process, text_of
from native_host.existing_channel.channel_messages import BRAND
from native_host.ipc import endpoint
from wire_peers import until

PATIENCE_S = 60
"""For processes to come and go."""


@pytest.fixture
def directory(mcpb_home: Path) -> Path:
    """Where that product's sockets are, instead of its own."""
    directory = mcpb_home / "theirs"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
async def theirs(directory: Path, mcpb_home: Path) -> AsyncIterator[TheirSocket]:
    """When it ends, so does its holder: nothing stays behind."""
    async with TheirSocket.in_directory(directory) as theirs:
        yield theirs
    with trio.fail_after(PATIENCE_S):
        await until(lambda: not endpoint.live_hosts(mcpb_home / "run"))


def attached(directory: Path) -> Config:
    return Config(existing_channel=ChannelSettings(attach=True, directory=str(directory)))


async def read_page(client: McpLines) -> str:
    return text_of(await client.call("read_page"))


# ── The whole way ───────────────────────────────────────────────────────────────────────────────────────────


async def test_the_first_call_waits_for_the_holder_that_the_bridge_has_started(theirs: TheirSocket) -> None:
    with trio.fail_after(PATIENCE_S):
        async with bridge_in_process(attached(theirs.path.parent)) as client:
            await client.shake_hands()
            assert "read_page in 2" in await read_page(client)
    assert [call["tool"] for call in theirs.calls] == ["tabs_context_mcp", "tabs_create_mcp", "read_page"]


async def test_all_bridges_share_one_connection(theirs: TheirSocket, nursery: trio.Nursery) -> None:
    told: dict[int, str] = {}

    async def ask(client: McpLines, number: int) -> None:
        told[number] = text_of(await client.call("find", query=str(number), tabId=number))

    with trio.fail_after(PATIENCE_S):
        async with AsyncExitStack() as stack:
            bridges = [
                await stack.enter_async_context(bridge_in_process(attached(theirs.path.parent)))
                for _ in range(4)
            ]
            for number, client in enumerate(bridges):
                await client.shake_hands()
                nursery.start_soon(ask, client, number)
            await until(lambda: len(told) == len(bridges))
    assert all(f"find in {number}\n" in text for number, text in told.items())
    assert len(theirs.calls) == len(bridges)
    assert theirs.accepted == 1


async def test_a_bridge_that_was_not_told_to_leaves_the_socket_alone(
    theirs: TheirSocket, mcpb_home: Path
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with bridge_in_process(attached(theirs.path.parent)) as attaching:
            await attaching.shake_hands()
            await read_page(attaching)
            async with bridge_in_process() as client:
                await client.shake_hands()
                assert (await client.call("read_page"))["isError"]
                listed = await client.call("list_connected_browsers")
    assert listed["structuredContent"]["browsers"] == []
    assert theirs.accepted == 1


async def test_who_waits_for_an_answer_hears_that_the_socket_ended(directory: Path, mcpb_home: Path) -> None:
    """And its successor, of another process, is used."""
    with trio.fail_after(PATIENCE_S):
        async with bridge_in_process(attached(directory)) as client:
            await client.shake_hands()
            async with TheirSocket.in_directory(directory) as theirs:
                theirs.silent = {"find"}
                while "read_page in 2" not in await read_page(client):
                    pass  # the bridge has not found the socket yet
                request_id = await client.send("tools/call", {"name": "find", "arguments": {"query": "x"}})
                await until(lambda: theirs.calls[-1]["tool"] == "find")
            lost = text_of(await client.answer_to(request_id))
            assert f"{BRAND}'s native host" in lost
            assert "It may have run" in lost
            async with TheirSocket.in_directory(directory, pid=os.getppid()):
                while "read_page in 2" not in await read_page(client):
                    pass
        await until(lambda: not endpoint.live_hosts(mcpb_home / "run"))


async def test_a_client_that_checks_results_against_their_schema_takes_them(
    theirs: TheirSocket, mcpb_home: Path
) -> None:
    command, *arguments = [*BRIDGE_COMMAND, "--existing-channel"]
    env = {**os.environ, "MCPB_EXISTING_CHANNEL_DIRECTORY": str(theirs.path.parent)}
    parameters = mcp.StdioServerParameters(command=command, args=arguments, env=env)
    with trio.fail_after(PATIENCE_S):
        async with mcp.Client(parameters) as client:
            await client.list_tools()
            result = await client.call_tool("navigate", {"url": "shop.example"})
    assert result.structured_content
    assert result.structured_content["said"] == "navigate in 2"
    [line] = (mcpb_home / "state/audit.jsonl").read_text().splitlines()
    kept = json.loads(line)
    assert (kept["name"], kept["browser"], kept["outcome"]) == ("navigate", BRAND, "ok")


async def test_without_a_socket_it_says_what_is_missing(directory: Path) -> None:
    with trio.fail_after(PATIENCE_S):
        async with bridge_in_process(attached(directory)) as client:
            await client.shake_hands()
            said = await read_page(client)
    assert f"No existing channel was found either in {directory} (existing_channel.directory" in said
    assert "mcpb doctor" in said


# ── Processes ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def path(directory: Path) -> Path:
    """A socket that nobody serves, of a host that lives."""
    path = directory / f"{os.getpid()}.sock"
    endpoint.bind(path).close()
    return path


class Started:
    """A program in place of a holder: it writes a line, and ends with a code when it is told to."""

    def __init__(self, directory: Path, code: int) -> None:
        self._log = directory / "started.log"
        self._gate = directory.parent / "gate"
        os.mkfifo(self._gate)
        program = (
            f"import sys; print(sys.argv[1], file=open({str(self._log)!r}, 'a')); "
            f"open({str(self._gate)!r}).read(); sys.exit({code})"
        )
        self.command = (sys.executable, "-c", program)

    @property
    def sockets(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    async def let_end(self) -> None:
        """Let the program that was started last end."""
        await trio.to_thread.run_sync(lambda: self._gate.open("w").close(), abandon_on_cancel=True)

    async def until_ended(self, holders: HolderProcesses, now: float, times: int) -> None:
        await self.let_end()
        await until(lambda: len(self.sockets) == times and not holders.scan_sockets(set(), now))


async def test_a_holder_that_fails_is_started_again_after_a_while_and_told_of(path: Path) -> None:
    started = Started(path.parent, code=1)
    holders = HolderProcesses(path.parent, started.command)
    with trio.fail_after(PATIENCE_S):
        assert holders.scan_sockets(set(), 0) == {str(path)}
        await started.until_ended(holders, 0, times=1)
        assert str(path) in holders.find_problems(set(), 0)[str(path)]
        assert holders.scan_sockets(set(), AGAIN_S - LOOK_EVERY_S) == set()
        assert holders.scan_sockets(set(), AGAIN_S) == {str(path)}
        await started.until_ended(holders, AGAIN_S, times=2)
        assert holders.scan_sockets(set(), 3 * AGAIN_S - LOOK_EVERY_S) == set()
        assert holders.scan_sockets(set(), 3 * AGAIN_S) == {str(path)}
        await started.until_ended(holders, 3 * AGAIN_S, times=3)


async def test_one_that_has_served_has_a_successor_at_once(path: Path) -> None:
    started = Started(path.parent, code=1)
    holders = HolderProcesses(path.parent, started.command)
    with trio.fail_after(PATIENCE_S):
        holders.scan_sockets(set(), 0)
        await started.until_ended(holders, 0, times=1)
        assert holders.scan_sockets({str(path)}, LOOK_EVERY_S) == set()
        assert holders.scan_sockets(set(), 2 * LOOK_EVERY_S) == {str(path)}
        await started.until_ended(holders, 2 * LOOK_EVERY_S, times=2)


async def test_one_that_has_ended_in_peace_may_have_left_the_socket_to_another(path: Path) -> None:
    started = Started(path.parent, code=0)
    holders = HolderProcesses(path.parent, started.command)
    with trio.fail_after(PATIENCE_S):
        holders.scan_sockets(set(), 0)
        await started.let_end()
        assert started.sockets
    assert holders.scan_sockets(set(), COMING_S - 0.1) == {str(path)}
    assert holders.scan_sockets({str(path)}, COMING_S - 0.1) == set()
    assert holders.find_problems({str(path)}, COMING_S) == {}
    holders.let_go()


def test_one_that_cannot_be_started_is_told_of(path: Path) -> None:
    holders = HolderProcesses(path.parent, (str(path.parent / "missing"),))
    assert holders.scan_sockets(set(), 0) == set()
    told = holders.find_problems(set(), 0)[str(path)]
    assert told == f"The process that holds {path} cannot be started: No such file or directory"


def test_a_socket_that_is_held_gets_no_other_holder(path: Path) -> None:
    holders = HolderProcesses(path.parent, (str(path.parent / "missing"),))
    assert holders.scan_sockets({str(path)}, 0) == set()
    assert holders.find_problems({str(path)}, 0) == {}


def test_a_socket_that_others_can_reach_is_not_used_and_why(path: Path) -> None:
    path.chmod(0o666)
    holders = HolderProcesses(path.parent, (str(path.parent / "missing"),))
    assert holders.scan_sockets(set(), 0) == set()
    assert holders.explain_missing() == f"The existing channel {path} is not used: it is open to other users."


def test_a_host_that_has_stopped_serving_comes_before_what_a_killed_one_has_left(path: Path) -> None:
    path.chmod(0o666)
    holders = HolderProcesses(path.parent, (str(path.parent / "missing"),))
    holders.scan_sockets(set(), 0)
    assert holders.explain_missing(lambda: "It still runs") == "It still runs."


def test_where_the_folder_is_open_to_others_the_command_that_closes_it_is_said(path: Path) -> None:
    path.parent.chmod(0o755)
    holders = HolderProcesses(path.parent, (str(path.parent / "missing"),))
    holders.scan_sockets(set(), 0)
    assert holders.explain_missing().endswith(f"is open to other users. Run: chmod 700 {path.parent}")


def test_a_host_that_lives_on_without_its_socket_is_told_of_and_what_helps(path: Path) -> None:
    holders = HolderProcesses(path.parent, ("true",))
    holders.scan_sockets(set(), 0)
    path.unlink()
    holders.scan_sockets(set(), LOOK_EVERY_S)
    assert (
        f"native host (pid {os.getpid()}) still runs, but has closed its socket" in holders.explain_missing()
    )
    assert "https://clau.de/chrome/reconnect" in holders.explain_missing()
    holders.let_go()


def test_a_socket_is_looked_for_once_a_second(directory: Path) -> None:
    holders = HolderProcesses(directory, ("true",))
    holders.scan_sockets(set(), 0)
    with socket.socket(socket.AF_UNIX) as late:
        late.bind(str(directory / f"{os.getpid()}.sock"))
    (directory / f"{os.getpid()}.sock").chmod(0o600)
    look = partial(holders.scan_sockets, set())
    assert not look(LOOK_EVERY_S - 0.1)
    assert look(LOOK_EVERY_S)
    holders.let_go()


# ── As hosts ────────────────────────────────────────────────────────────────────────────────────────────────


class PlayedHolders:
    """One is on its way until it is there."""

    def scan_sockets(self, held: Container[str], now: float, *, at_once: bool = False) -> set[str]:
        del now, at_once
        return set() if THEIRS in held else {THEIRS}

    def find_problems(self, held: Container[str], now: float) -> dict[str, str]:  # noqa: ARG002
        return {} if THEIRS in held else {THEIRS: "it takes its time"}

    def let_go(self) -> None:
        pass


THEIRS = "/theirs/1.sock"


@asynccontextmanager
async def looking(
    directory: Path, holders: PlayedHolders | None
) -> AsyncIterator[tuple[NativeLinks, list[Event]]]:
    """Links, and what they tell."""
    links, told = NativeLinks([directory], holders), list[Event]()
    links.set_listener(told.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(links.run)
        with trio.fail_after(PATIENCE_S):
            await until(lambda: DiscoveryFinished() in told)
            yield links, told
        nursery.cancel_scope.cancel()


def seen(told: list[Event]) -> list[str]:
    return [event.host for event in told if isinstance(event, HostDiscovered)]


async def test_who_does_not_want_the_channel_passes_its_holder_over(short_tmp: Path) -> None:
    async with PlayedHost.in_directory(short_tmp, channel=THEIRS), looking(short_tmp, None) as (links, told):
        links.scan_hosts()
        assert seen(told) == []


async def test_a_holder_on_its_way_is_waited_for_as_a_host_until_it_is_one(short_tmp: Path) -> None:
    async with looking(short_tmp, PlayedHolders()) as (links, told):
        assert seen(told) == [THEIRS]
        assert told.index(DiscoveryFinished()) == 1
        assert [problem.text for problem in links.problems.values()] == ["it takes its time"]
        async with PlayedHost.in_directory(short_tmp, channel=THEIRS) as host:
            links.scan_hosts()
            assert seen(told) == [THEIRS, host.instance]
            assert told[-1] == HostLost(THEIRS)
            assert links.problems == {}
