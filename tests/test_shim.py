"""The shim as a process: an extension on its pipes, the original host as its child, its clients and ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trio

from install.shim_script import MODULE
from native_host import endpoint
from native_host.channel_sockets import find_channels
from native_host.channel_wire import BRAND, FRAME_BYTES
from native_host.framing import frame
from native_host.shim import CommandLine, read_command_line
from other_host import other_host
from peers import SocketClient, until
from raw_channel_client import RawChannelClient
from stub_extension import ORIGIN, Call, Dialect, StubExtension, Tool

PLAYED = Path(__file__).parent / "other_product/host.py"
SHIM = [sys.executable, "-I", str(MODULE)]
IMPATIENT = [
    sys.executable,
    "-I",
    "-c",
    """
from native_host import relay, shim, shim_relay
relay._LOOK_SECONDS, shim_relay._CHILD_SECONDS = 0.1, 0.2
shim.main()
""",
]
"""It looks at its files ten times a second, and gives its child little time to end."""
PATIENCE_S = 60
EXIT_SECONDS = 15
"""The child may take two seconds to end; the machine may be busy."""
CLIENTS = 8
CALLS = 25
FILLER = "f" * 20_000


@dataclass
class Original:
    """The other product's host, which the shim stands before."""

    command: list[str]
    sockets: Path
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Machine:
    """A user of both products."""

    home: Path
    original: Original
    shim: Sequence[str] = tuple(SHIM)

    @property
    def run_directory(self) -> Path:
        return self.home / "run"

    def extension(
        self, dialect: Dialect = "tagged", tools: Mapping[str, Tool] | None = None, **said: str
    ) -> StubExtension:
        env = {**self.original.env, **said}
        command = [*self.shim, "--home", str(self.home), *self.original.command]
        return StubExtension(command, env=env, dialect=dialect, tools=tools or {"find": find})

    async def socket(self) -> Path:
        """Where that product's own clients connect."""
        await until(lambda: bool(list(self.original.sockets.glob("*.sock"))))
        (path,) = self.original.sockets.glob("*.sock")
        return path

    @asynccontextmanager
    async def bridge(self) -> AsyncIterator[SocketClient]:
        """A client of ours."""
        await until(lambda: any(host.profile_id for host in endpoint.live_hosts(self.run_directory)))
        (record,) = endpoint.live_hosts(self.run_directory)
        async with SocketClient.connected(self.run_directory, record.instance) as client:
            yield client


@pytest.fixture
def played(short_tmp: Path) -> Machine:
    sockets = short_tmp / "theirs"
    return Machine(short_tmp / "ours", Original([sys.executable, str(PLAYED), str(sockets)], sockets))


@pytest.fixture(params=["played", pytest.param("real", marks=pytest.mark.interop)])
def machine(request: pytest.FixtureRequest, played: Machine, short_tmp: Path) -> Iterator[Machine]:
    if request.param == "played":
        yield played
        return
    (short_tmp / "user").mkdir()
    with other_host(short_tmp / "user") as host:
        yield Machine(short_tmp / "ours", Original(host.command, host.directory, host.env))


async def find(call: Call) -> str:
    """What was asked for, not in the order of the questions."""
    await trio.sleep(len(call.args["query"]) % 3 / 1000)
    return f"{call.args['query']} {FILLER}"


async def never(call: Call) -> str:
    await trio.sleep_forever()


async def long(call: Call) -> str:
    return "x" * (2 * FRAME_BYTES)


async def ask(client: SocketClient, number: int, tool: str = "find", **args: Any) -> str:
    """Call a tool as a bridge does; what it answers."""
    answer = await client.ask(number, "browser/callTool", name=tool, args=args)
    if "error" in answer:
        return str(answer["error"]["message"])
    (block,) = answer["result"]["content"]
    return str(block["text"])


# ── Both at once ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dialect", ["tagged", "untagged"])
async def test_clients_of_both_products_get_their_own_answers_each_once(
    machine: Machine, dialect: Dialect
) -> None:
    answered: Counter[str] = Counter()
    wrong: list[str] = []

    async def our_client(n: int) -> None:
        async with machine.bridge() as client:
            for i in range(CALLS):
                query = f"ours {n} {i}"
                took(query, await ask(client, i, query=query))

    async def their_client(path: Path) -> None:
        async with RawChannelClient.connected(path) as client:
            for i in range(CALLS):
                answer = await client.call("find", query=f"theirs {i}")
                took(f"theirs {i}", answer.get("result", answer.get("error"))["content"])
            assert client.foreign == client.unexpected == []

    def took(query: str, text: str) -> None:
        if text == f"{query} {FILLER}":
            answered[query] += 1
        else:
            wrong.append(f"{query}: {text[:200]}")

    with trio.fail_after(60):
        async with machine.extension(dialect).running() as extension:
            path = await machine.socket()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(their_client, path)
                for n in range(CLIENTS):
                    nursery.start_soon(our_client, n)
            ran = Counter(call.args["query"] for call in extension.calls)
    asked = {f"ours {n} {i}" for n in range(CLIENTS) for i in range(CALLS)}
    asked |= {f"theirs {i}" for i in range(CALLS)}
    assert wrong == []
    assert answered == ran == Counter(asked)


async def test_what_needs_permission_is_asked_of_the_client_whose_call_it_is(machine: Machine) -> None:
    async def guarded(call: Call) -> str:
        return "allowed" if await call.permitted("https://example.org/") else "refused"

    with trio.fail_after(PATIENCE_S):
        async with (
            machine.extension(tools={"navigate": guarded}).running(),
            machine.bridge() as client,
            RawChannelClient.connected(await machine.socket()) as theirs,
        ):
            asked = {"name": "navigate", "args": {}, "asks": True}
            await client.say(id=1, method="browser/callTool", params=asked)
            while (question := await client.next_message()).get("method") != "browser/elicitConfirmation":
                pass
            await client.say(id=question["id"], result={"action": "accept", "content": {"allow": True}})
            answer = await client.answer_to(1)
            assert answer["result"]["content"][0]["text"] == "allowed"
            assert theirs.notifications == []


async def test_one_client_leaving_does_not_look_like_all_leaving(machine: Machine) -> None:
    with trio.fail_after(PATIENCE_S):
        async with machine.extension().running() as extension:
            path = await machine.socket()
            async with machine.bridge() as ours:
                await extension.hear("mcp_connected")
                async with RawChannelClient.connected(path) as theirs:
                    await theirs.call("find", query="theirs")
                await ask(ours, 1, query="ours")
                assert extension.heard_types["mcp_disconnected"] == 0
            await extension.hear("mcp_disconnected")
            assert extension.heard_types["mcp_connected"] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say who started whom")
async def test_the_original_s_socket_is_no_second_way_to_the_same_extension(machine: Machine) -> None:
    with trio.fail_after(PATIENCE_S):
        async with machine.extension().running():
            path = await machine.socket()
            (found,) = find_channels(path.parent)
            assert (found.path, "mcpb stands before its host" in found.fault) == (path, True)


async def test_bridges_know_the_extension_by_its_product_and_an_id_of_its_own(played: Machine) -> None:
    with trio.fail_after(PATIENCE_S):
        async with played.extension().running(), played.bridge():
            (record,) = endpoint.live_hosts(played.run_directory)
            assert (record.browser, record.profile_id) == (BRAND, f"channel-{record.instance}")


# ── Too long ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_answer_over_1_mib_reaches_ours_whole_and_does_not_end_the_original(
    machine: Machine,
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with (
            machine.extension(tools={"find": find, "long": long}).running() as extension,
            machine.bridge() as ours,
            RawChannelClient.connected(await machine.socket()) as theirs,
        ):
            assert len(await ask(ours, 1, tool="long")) == 2 * FRAME_BYTES
            refused = await theirs.call("long")
            assert str(FRAME_BYTES) in refused["error"]["content"]
            extension.say_too_much()
            assert "result" in await theirs.call("find", query="still served")


async def test_an_empty_frame_of_the_extension_does_not_end_the_original(machine: Machine) -> None:
    with trio.fail_after(PATIENCE_S):
        async with machine.extension().running() as extension:
            extension.port.post_bytes(frame(b"", "native"))
            extension.say(type="ping")
            await extension.hear("pong")


# ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_when_the_browser_goes_both_go_and_nothing_is_left(machine: Machine) -> None:
    with trio.fail_after(PATIENCE_S):
        async with machine.extension().running(), machine.bridge():
            child = int((await machine.socket()).stem)
    with trio.fail_after(EXIT_SECONDS):
        await until(lambda: not is_alive(child))
        await until(lambda: list(machine.run_directory.iterdir()) == [])
    assert list(machine.original.sockets.parent.glob(f"{machine.original.sockets.name}/*")) == []


@pytest.mark.parametrize("ours", ["the shim", "the original"])
async def test_when_one_is_killed_the_other_goes_and_the_extension_can_come_again(
    machine: Machine, ours: str
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with machine.extension().running() as extension:
            child = int((await machine.socket()).stem)
            shim = extension.pid
            async with machine.bridge() as client:
                os.kill(shim if ours == "the shim" else child, signal.SIGKILL)
                async for _ in client.until_closed():
                    pass
            await until(lambda: not is_alive(shim) and not is_alive(child))
            await extension.close()
            for left in machine.original.sockets.glob("*.sock"):
                left.unlink()  # the next real host does it
            await extension.connect()
            async with machine.bridge() as again:
                assert (await ask(again, 1, query="again")).startswith("again")


async def test_a_call_that_is_open_when_the_original_ends_is_told_to_its_asker(played: Machine) -> None:
    with trio.fail_after(PATIENCE_S):
        async with (
            played.extension(tools={"navigate": never}).running() as extension,
            played.bridge() as client,
        ):
            await client.say(id=1, method="browser/callTool", params={"name": "navigate", "args": {}})
            await extension.until(lambda: bool(extension.calls))
            os.kill(int((await played.socket()).stem), signal.SIGKILL)
            with pytest.raises(EOFError):
                await client.answer_to(1)


async def test_an_original_that_hangs_is_told_to_end_and_keeps_nobody(short_tmp: Path) -> None:
    """It reads nothing and writes nothing, and its end of input is nothing to it."""
    shim = [*IMPATIENT, "--home", str(short_tmp), "/bin/sleep", "60"]
    with trio.fail_after(PATIENCE_S):
        process = await trio.lowlevel.open_process(shim, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        await until(lambda: any(short_tmp.glob("run/*.json")))
        await process.stdin.aclose()
        assert await process.wait() == 0
        assert list((short_tmp / "run").iterdir()) == []


async def test_a_browser_that_goes_is_noticed_while_the_original_reads_nothing(short_tmp: Path) -> None:
    shim = [*IMPATIENT, "--home", str(short_tmp), "/bin/sleep", "60"]
    unread = frame(b'{"type":"ping"}' + b" " * (FRAME_BYTES // 2), "native")
    with trio.fail_after(PATIENCE_S):
        process = await trio.lowlevel.open_process(shim, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        is_full = False
        while not is_full:
            with trio.move_on_after(0.5) as waiting:
                await process.stdin.send_all(unread)
            is_full = waiting.cancelled_caught
        await process.stdin.aclose()
        await process.stdout.aclose()
        assert await process.wait() == 0
        assert list((short_tmp / "run").iterdir()) == []


async def test_ctrl_c_in_the_browser_s_terminal_is_not_meant_for_us_and_our_child_does_not_inherit_that(
    played: Machine,
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with played.extension().running() as extension:
            child = int((await played.socket()).stem)
            os.kill(extension.pid, signal.SIGINT)
            extension.say(type="ping")
            await extension.hear("pong")
            status = Path(f"/proc/{child}/status").read_text()
            (ignored,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")]
            assert not int(ignored, 16) & (1 << (signal.SIGINT - 1))


async def test_sigterm_ends_it(played: Machine) -> None:
    with trio.fail_after(PATIENCE_S):
        async with played.extension().running() as extension, played.bridge():
            child = int((await played.socket()).stem)
            os.kill(extension.pid, signal.SIGTERM)
            await until(lambda: not is_alive(child) and not is_alive(extension.pid))


# ── Without us ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_where_ours_cannot_start_the_original_is_served_all_the_same(played: Machine) -> None:
    played.home.write_text("no folder can be here")
    with trio.fail_after(PATIENCE_S):
        async with (
            played.extension().running(),
            RawChannelClient.connected(await played.socket()) as theirs,
        ):
            assert "result" in await theirs.call("find", query="theirs")


async def test_where_our_files_vanish_the_original_is_served_all_the_same(played: Machine) -> None:
    with trio.fail_after(PATIENCE_S):
        async with replace(played, shim=IMPATIENT).extension().running() as extension:
            async with played.bridge() as client:
                await extension.hear("mcp_connected")
                for file in played.run_directory.iterdir():
                    file.unlink()
                async for _ in client.until_closed():
                    pass
            await extension.hear("mcp_disconnected")
            async with RawChannelClient.connected(await played.socket()) as theirs:
                assert "result" in await theirs.call("find", query="theirs")


def test_an_original_that_is_gone_ends_it_like_a_missing_host_with_a_sentence(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*SHIM, str(tmp_path / "gone"), ORIGIN], input=b"", capture_output=True, check=False, timeout=20
    )
    assert (ran.returncode, ran.stdout) == (127, b"")
    assert b"gone, which mcpb stands before, cannot be started" in ran.stderr
    assert b"Traceback" not in ran.stderr


def test_an_original_that_is_a_script_without_its_first_line_is_run_as_browsers_run_it(
    short_tmp: Path,
) -> None:
    original = short_tmp / "original"
    original.write_text('echo "$@" >"$TOLD"\n')
    original.chmod(0o755)
    told = short_tmp / "told"
    shim = [*SHIM, "--home", str(short_tmp), str(original), ORIGIN]
    subprocess.run(shim, input=b"", env={"TOLD": str(told)}, check=True, timeout=60)
    assert told.read_text() == f"{ORIGIN}\n"


def test_where_half_of_mcpb_is_missing_it_becomes_the_original(tmp_path: Path) -> None:
    half = "import sys; sys.modules['trio'] = None; from native_host.shim import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", half, "/bin/echo", ORIGIN], capture_output=True, check=True, timeout=20
    )
    assert ran.stdout == f"{ORIGIN}\n".encode()
    assert b"going on without mcpb" in ran.stderr


async def test_the_original_has_the_browser_s_arguments_and_environment_and_none_of_ours(
    short_tmp: Path,
) -> None:
    tell = short_tmp / "tell"
    tell.write_text('#!/bin/sh\n{ echo "$@"; env; } >"$TOLD"\n')
    tell.chmod(0o755)
    told = short_tmp / "told"
    env = {"TOLD": str(told), "MCPB_HOME": "/the/browser's", "PATH": os.environ["PATH"]}
    shim = [*SHIM, "--home", str(short_tmp), str(tell), ORIGIN, "--parent-window=0"]
    with trio.fail_after(PATIENCE_S):
        await trio.run_process(shim, env=env, stdin=b"")
    arguments, *environment = told.read_text().splitlines()
    assert arguments == f"{ORIGIN} --parent-window=0"
    told_env = dict(line.split("=", 1) for line in environment)
    assert told_env | env == told_env
    assert [name for name in told_env if name.startswith("MCPB_")] == ["MCPB_HOME"]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["/p", "origin"], CommandLine("", ["/p", "origin"])),
        (["--home", "/h", "/p", "--home"], CommandLine("/h", ["/p", "--home"])),
        ([], None),
        (["relative"], None),
        (["--home", "/h"], None),
    ],
)
def test_its_command_line_is_the_script_s(arguments: list[str], given: CommandLine | None) -> None:
    assert read_command_line(arguments) == given
