"""The native host as a process: a simulated browser on its pipes, hand-made clients on its socket."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from demo.simulated.browser import SimulatedBrowser
from demo.simulated.tabs import SimulatedTab
from native_host.ipc import endpoint
from native_host.protocol.framing import frame
from native_host.protocol.wire import (
    ANNOUNCEMENTS,
    FIREFOX_ID,
    FROM_BROWSER_BYTES,
    HOST_NAME,
    MIB,
    SOCKET_BYTES,
)
from wire_peers import HOST_COMMAND, ORIGIN, SocketClient, until

_LOOK_OFTEN = """
from native_host import __main__
from native_host.relay import relay_server
relay_server._LOOK_SECONDS = 0.1
__main__.main()
"""
LOOKS_OFTEN = [sys.executable, "-I", "-c", _LOOK_OFTEN]
"""Command of a host that checks its files ten times a second."""
EXIT_SECONDS = 8.0
"""Limit for the host to end after its browser, in every state; less than a second is usual."""


async def echo(args: Any) -> Any:
    return {"content": [{"type": "text", "text": args["text"]}]}


async def never(args: Any) -> Any:
    await trio.sleep_forever()


@pytest.fixture
def run_directory(mcpb_home: Path) -> Path:
    return mcpb_home / "run"


@pytest.fixture
async def browser(mcpb_home: Path) -> AsyncIterator[SimulatedBrowser]:
    async with SimulatedBrowser(HOST_COMMAND) as browser:
        with trio.fail_after(30):  # it speaks before it has written down which profile it serves
            await until(lambda: any(host.profile_id for host in endpoint.live_hosts(mcpb_home / "run")))
        yield browser


@pytest.fixture
def tab(browser: SimulatedBrowser) -> SimulatedTab:
    tab = browser.add_tab("http://localhost:8123/")
    tab.offer("echo", echo)
    tab.offer("never", never)
    return tab


@pytest.fixture
async def client(browser: SimulatedBrowser, run_directory: Path) -> AsyncIterator[SocketClient]:
    async with SocketClient.connected(run_directory, instance(browser)) as client:
        yield client


def instance(browser: SimulatedBrowser) -> str:
    hello = msgspec.json.decode(browser.heard("host/hello")[-1].params)
    return str(hello["instance"])


def pid(browser: SimulatedBrowser) -> int:
    assert browser.port is not None
    return browser.port.process.pid


def left_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def execute(tab: SimulatedTab, tool: str, args: object) -> dict[str, Any]:
    address: dict[str, Any] = msgspec.to_builtins(tab.top.address)
    return {**address, "toolName": tool, "args": args}


async def call(
    client: SocketClient, request_id: Any, tab: SimulatedTab, tool: str, args: Any
) -> dict[str, Any]:
    return await client.ask(request_id, "browser/executeTool", **execute(tab, tool, args))


# ── The way there and back ──────────────────────────────────────────────────────────────────────────────────


async def test_a_host_is_found_with_its_browser_s_name(
    browser: SimulatedBrowser, run_directory: Path
) -> None:
    with trio.fail_after(30):
        await until(lambda: bool(endpoint.live_hosts(run_directory)[0].profile_id))
    (record,) = endpoint.live_hosts(run_directory)
    assert (record.pid, record.extension_origin) == (pid(browser), ORIGIN)
    assert record.browser.startswith("Simulated browser")


async def test_a_host_names_the_command_of_its_own_installation(browser: SimulatedBrowser) -> None:
    hello = msgspec.json.decode(browser.heard("host/hello")[-1].params)
    assert hello["command"] == shlex.quote(str(Path(sys.executable).with_name("mcpb")))


async def test_a_page_s_tool_is_called_and_its_answer_comes_back(
    client: SocketClient, tab: SimulatedTab
) -> None:
    with trio.fail_after(30):
        answer = await call(client, "mine", tab, "echo", {"text": "hi"})
    assert answer["result"] == {"success": True, "payload": {"content": [{"type": "text", "text": "hi"}]}}


async def test_a_late_client_hears_what_was_announced_before_it_came(
    browser: SimulatedBrowser, client: SocketClient, tab: SimulatedTab, run_directory: Path
) -> None:
    with trio.fail_after(30):
        await client.ask(1, "getTabs")  # its answer comes after everything that was announced before
        async with SocketClient.connected(run_directory, instance(browser), introduce=False) as late:
            await late.introduce()
            tools = await late.heard("browser/registerTools")
            await late.heard("host/replayed")
    assert [tool["name"] for tool in tools["tools"]] == ["echo", "never"]


async def test_three_clients_and_two_profiles_get_every_answer_and_only_their_own(mcpb_home: Path) -> None:
    """200 interleaved calls of each client in each profile; every message that a client hears is counted."""
    calls = 200
    heard: Counter[tuple[int, str]] = Counter()

    async def ask_all(client: SocketClient, name: int, tab: SimulatedTab, profile: str) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, client, name, profile)
            for number in range(calls):
                args = {"text": f"{name} {profile} {number}"}
                await client.say(id=number, method="browser/executeTool", params=execute(tab, "echo", args))

    async def collect(client: SocketClient, name: int, profile: str) -> None:
        waiting = set(range(calls))
        while waiting:
            message = await client.next_message()
            if "method" in message:
                assert message["method"] in {"host/clients", *ANNOUNCEMENTS}
                continue
            text = message["result"]["payload"]["content"][0]["text"]
            assert text == f"{name} {profile} {message['id']}"
            waiting.remove(message["id"])
            heard[name, profile] += 1

    with trio.fail_after(60):
        async with AsyncExitStack() as stack:
            askers = []
            for profile in ("work", "home"):
                browser = await stack.enter_async_context(SimulatedBrowser(HOST_COMMAND, profile_id=profile))
                tab = browser.add_tab("http://localhost/")
                tab.offer("echo", echo)
                for name in range(3):
                    connecting = SocketClient.connected(mcpb_home / "run", instance(browser))
                    askers.append((await stack.enter_async_context(connecting), name, tab, profile))
            async with trio.open_nursery() as nursery:
                for asker in askers:
                    nursery.start_soon(ask_all, *asker)
    assert set(heard.values()) == {calls}
    assert len(heard) == 6


# ── Sizes ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_result_of_5_mb_is_delivered(client: SocketClient, tab: SimulatedTab) -> None:
    text = "é" * (5 * MIB // 2)
    with trio.fail_after(60):
        answer = await call(client, 1, tab, "echo", {"text": text})
    assert answer["result"]["payload"]["content"][0]["text"] == text


async def test_arguments_of_3_mb_are_delivered_in_pieces(
    browser: SimulatedBrowser, client: SocketClient, tab: SimulatedTab
) -> None:
    text = 'é"\\' * (3 * MIB // 4)
    with trio.fail_after(60):
        answer = await call(client, 1, tab, "echo", {"text": text})
    assert answer["result"]["payload"]["content"][0]["text"] == text
    assert len(browser.heard("host/chunk")) > 5


async def test_a_result_of_70_mb_is_refused_with_its_size_and_the_next_call_is_answered(
    client: SocketClient, tab: SimulatedTab
) -> None:
    async def huge(args: Any) -> Any:
        return {"content": [{"type": "text", "text": "x" * (70 * MIB)}]}

    tab.offer("huge", huge)
    with trio.fail_after(30):
        error = (await call(client, 1, tab, "huge", {}))["error"]
        answer = await call(client, 2, tab, "echo", {"text": "hi"})
    assert (error["code"], error["data"]["handed"]) == (-32012, True)
    assert str(FROM_BROWSER_BYTES) in error["message"]
    assert answer["result"]["success"]


async def test_a_request_just_over_the_limit_of_chunks_is_refused_and_the_next_call_is_answered(
    client: SocketClient, tab: SimulatedTab
) -> None:
    with trio.fail_after(30):
        error = (await call(client, 1, tab, "echo", {"text": "x" * (64 * MIB)}))["error"]
        answer = await call(client, 2, tab, "echo", {"text": "hi"})
    assert (error["code"], error["data"]["handed"]) == (-32012, False)
    assert answer["result"]["success"]


async def test_a_client_that_announces_a_frame_over_the_limit_is_told_so_and_closed(
    browser: SimulatedBrowser, client: SocketClient, run_directory: Path
) -> None:
    with trio.fail_after(30):
        async with SocketClient.connected(run_directory, instance(browser)) as hostile:
            await hostile.stream.send_all((SOCKET_BYTES + 1).to_bytes(4, "little"))
            assert str(SOCKET_BYTES) in (await hostile.heard("host/error"))["message"]
            with pytest.raises(EOFError):
                await hostile.next_message()
        assert "result" in await client.ask(1, "getTabs")


async def test_a_browser_that_announces_a_frame_over_the_limit_ends_the_host(
    browser: SimulatedBrowser,
) -> None:
    assert browser.port is not None
    browser.port.post_bytes((FROM_BROWSER_BYTES + 1).to_bytes(4, sys.byteorder))
    with trio.fail_after(30):
        await browser.wait_port_ended()
    assert str(FROM_BROWSER_BYTES) in msgspec.json.decode(browser.heard("host/error")[-1].params)["message"]


async def test_a_flood_of_changes_neither_grows_the_host_nor_ends_a_client_that_reads_none_of_them(
    browser: SimulatedBrowser, client: SocketClient, tab: SimulatedTab, run_directory: Path
) -> None:
    with trio.fail_after(60):
        async with SocketClient.connected(run_directory, instance(browser)) as sleeper:
            for number in range(3000):
                tab.change(title=f"{number} {'x' * 50_000}")
                if number % 100 == 99:
                    await client.ask(number, "getTabs")  # the host has heard all of them
            title = ""
            while not title.startswith("2999 "):
                title = (await sleeper.heard("browser/tabChanged"))["tab"].get("title", "")
    assert sleeper.bytes_read < 30 * MIB
    assert memory(pid(browser), "VmHWM") < 80 * MIB


async def test_the_memory_of_large_answers_is_given_back_when_it_is_quiet(
    browser: SimulatedBrowser, client: SocketClient, tab: SimulatedTab
) -> None:
    with trio.fail_after(30):
        before = memory(pid(browser), "VmRSS")
        for number in range(3):
            await call(client, number, tab, "echo", {"text": "x" * (10 * MIB)})
        assert memory(pid(browser), "VmHWM") > before + 10 * MIB
        await until(lambda: memory(pid(browser), "VmRSS") < before + 3 * MIB)


def memory(process: int, field: str) -> int:
    """Resident bytes of a process, now or (VmHWM) at most."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) * 1024


# ── Hostile clients ─────────────────────────────────────────────────────────────────────────────────────────

HOSTILE = {
    "deep nesting": b'{"jsonrpc":"2.0","id":1,"method":"getTabs","params":'
    + b"[" * 200_000
    + b"]" * 200_000
    + b"}",
    "not a number": b'{"jsonrpc":"2.0","id":1,"method":"getTabs","params":{"x":NaN}}',
    "infinity": b'{"jsonrpc":"2.0","id":1,"method":"getTabs","params":{"x":-Infinity}}',
    "a lone surrogate": b'{"jsonrpc":"2.0","id":1,"method":"getTabs","params":{"x":"\\ud800"}}',
    "not utf-8": b'{"jsonrpc":"2.0","id":1,"method":"getTabs","params":{"x":"\xc3\x28"}}',
    "a batch": b'[{"jsonrpc":"2.0","id":1,"method":"getTabs"}]',
    "half a message": b'{"jsonrpc":"2.0","id":1,"meth',
    "an id that is an object": b'{"jsonrpc":"2.0","id":{"a":1},"method":"getTabs"}',
}


async def test_hostile_json_is_answered_with_an_error_and_harms_nobody(
    browser: SimulatedBrowser, client: SocketClient, run_directory: Path
) -> None:
    for what, body in HOSTILE.items():
        with trio.fail_after(30):
            async with SocketClient.connected(run_directory, instance(browser)) as hostile:
                await hostile.say_raw(body)
                error = (await hostile.answer_to(None))["error"]
                assert "result" in await hostile.ask(2, "getTabs"), what
            assert "result" in await client.ask(1, "getTabs"), what
        assert error["code"] in {-32700, -32600}, what
        assert error["data"] == {"handed": False}, what


async def test_of_duplicate_keys_the_last_holds_and_a_huge_id_comes_back_exactly(
    client: SocketClient,
) -> None:
    with trio.fail_after(30):
        await client.say_raw(b'{"jsonrpc":"2.0","id":1,"id":%d,"method":"x","method":"getTabs"}' % 2**60)
        assert "result" in await client.answer_to(2**60)


# ── Ends ────────────────────────────────────────────────────────────────────────────────────────────────────


async def idle(browser: SimulatedBrowser, directory: Path, stack: AsyncExitStack) -> None:
    """Nothing is going on."""


async def client_connected(browser: SimulatedBrowser, directory: Path, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(SocketClient.connected(directory, instance(browser)))


async def client_silent(browser: SimulatedBrowser, directory: Path, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(SocketClient.connected(directory, instance(browser), introduce=False))


async def call_waiting(browser: SimulatedBrowser, directory: Path, stack: AsyncExitStack) -> None:
    tab = browser.add_tab("http://localhost/")
    tab.offer("never", never)
    client = await stack.enter_async_context(SocketClient.connected(directory, instance(browser)))
    await client.say(id=1, method="browser/executeTool", params=execute(tab, "never", {}))
    await browser.wait_heard("browser/executeTool")


async def client_not_reading(browser: SimulatedBrowser, directory: Path, stack: AsyncExitStack) -> None:
    await client_connected(browser, directory, stack)
    tab = browser.add_tab("http://localhost/")
    for number in range(20):
        tab.change(title=str(number) + "x" * MIB)
    # The next thing that the host does comes after all that was written to it.
    async with SocketClient.connected(directory, instance(browser)):
        pass


STATES = [idle, client_connected, client_silent, call_waiting, client_not_reading]


@pytest.mark.parametrize("state", STATES)
async def test_when_the_browser_closes_its_end_the_host_is_gone_within_a_second_and_leaves_nothing(
    browser: SimulatedBrowser,
    run_directory: Path,
    state: Callable[[SimulatedBrowser, Path, AsyncExitStack], Awaitable[None]],
) -> None:
    with trio.fail_after(30):
        async with AsyncExitStack() as stack:
            await state(browser, run_directory, stack)
            assert browser.port is not None
            process = browser.port.process
            with trio.fail_after(EXIT_SECONDS):
                await browser.close()
    assert process.returncode == 0
    assert left_in(run_directory) == []


def start_by_hand(*args: str, **env: str) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*HOST_COMMAND, *args], env={**os.environ, **env}, **pipes)  # type: ignore[call-overload, no-any-return]


def read_frame(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    size = int.from_bytes(process.stdout.read(4), sys.byteorder)
    return msgspec.json.decode(process.stdout.read(size))


def test_a_relative_home_is_reported_to_the_browser_with_the_command_that_sets_another() -> None:
    with start_by_hand(ORIGIN, MCPB_HOME="mine") as process:
        error = read_frame(process)
        assert process.wait(timeout=EXIT_SECONDS) == 2
    assert error["method"] == "host/error"
    assert error["params"]["command"] == "mcpb install-native-host"


@pytest.mark.parametrize(
    "last", [b"", frame(b"{}" * 50, "native")[:20]], ids=["between frames", "inside a frame"]
)
def test_an_end_while_nobody_reads_the_host_s_output_ends_it_as_well(
    run_directory: Path, last: bytes
) -> None:
    with start_by_hand(ORIGIN) as process:
        name = read_frame(process)["params"]["instance"]
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(endpoint.socket_path(run_directory, name)))
            hello = {"method": "bridge/hello", "params": {"wire": 1, "version": "0", "pid": 1}}
            flood = {"id": 1, "method": "x", "params": {"args": "x" * 900_000}}
            for message in (hello, flood):
                client.sendall(frame(msgspec.json.encode({"jsonrpc": "2.0", **message}), "little"))
            client.settimeout(30)
            client.recv(1)  # the host is at work; its pipe to us fills up
            assert process.stdin is not None
            process.stdin.write(last)
            process.stdin.close()
            assert process.wait(timeout=EXIT_SECONDS) == 0
    assert left_in(run_directory) == []


def test_a_browser_that_no_longer_reads_ends_the_host_at_its_next_message(run_directory: Path) -> None:
    """EPIPE: the browser's reading end is gone while its writing end is still held open by somebody."""
    with start_by_hand(ORIGIN) as process:
        read_frame(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(frame(b'{"jsonrpc":"2.0","id":"ext:1","method":"x"}', "native"))
        process.stdin.flush()
        assert process.wait(timeout=EXIT_SECONDS) == 0
        process.stdin.close()
    assert left_in(run_directory) == []


@pytest.mark.parametrize("ignored", [signal.SIGINT, signal.SIGHUP])
async def test_a_signal_for_the_browser_s_process_group_does_not_end_the_host(
    browser: SimulatedBrowser, client: SocketClient, ignored: signal.Signals
) -> None:
    os.kill(pid(browser), ignored)
    with trio.fail_after(30):
        assert "result" in await client.ask(1, "getTabs")


async def test_a_polite_termination_leaves_nothing(browser: SimulatedBrowser, run_directory: Path) -> None:
    os.kill(pid(browser), signal.SIGTERM)
    with trio.fail_after(30):
        await browser.wait_port_ended()
    assert left_in(run_directory) == []


async def test_a_host_whose_files_are_removed_ends_so_that_the_next_can_be_found(run_directory: Path) -> None:
    """Whoever deletes mcpb's directory under a running browser must not be left with a host nobody finds."""
    with trio.fail_after(60):
        async with SimulatedBrowser(LOOKS_OFTEN) as browser:
            await until(lambda: any(host.profile_id for host in endpoint.live_hosts(run_directory)))
            shutil.rmtree(run_directory)
            await browser.wait_port_ended()
            await browser.connect()
            async with SocketClient.connected(run_directory, instance(browser)) as client:
                assert "result" in await client.ask(1, "getTabs")


async def test_a_killed_host_is_noticed_at_once_and_does_not_hinder_the_next(
    browser: SimulatedBrowser, client: SocketClient, run_directory: Path
) -> None:
    first = instance(browser)
    with trio.fail_after(30):
        await browser.kill_host()
        with trio.fail_after(EXIT_SECONDS), pytest.raises(EOFError):
            await client.heard("the end")
        await browser.connect()
        await until(lambda: len(endpoint.live_hosts(run_directory)) == 1)
        async with SocketClient.connected(run_directory, instance(browser)) as again:
            assert "result" in await again.ask(1, "getTabs")
    assert instance(browser) != first
    assert not any(name.startswith(first) for name in left_in(run_directory))


async def test_a_client_that_vanishes_in_mid_call_has_its_call_cancelled_in_the_page(
    browser: SimulatedBrowser, tab: SimulatedTab, client: SocketClient, run_directory: Path
) -> None:
    with trio.fail_after(30):
        async with SocketClient.connected(run_directory, instance(browser)) as leaving:
            await leaving.say(id=1, method="browser/executeTool", params=execute(tab, "never", {}))
            asked = await browser.wait_heard("browser/executeTool")
        cancelled = await browser.wait_heard("browser/cancel")
        assert "result" in await client.ask(1, "getTabs")
    assert msgspec.json.decode(cancelled.params)["id"] == msgspec.json.decode(asked.id)


async def test_an_answer_to_a_host_s_predecessor_reaches_nobody(
    browser: SimulatedBrowser, run_directory: Path
) -> None:
    """A worker that outlives its host: the answer carries an id that the new host never minted."""
    async with SocketClient.connected(run_directory, instance(browser)) as client:
        old = instance(browser)
        await browser.kill_host()
        del client
    await browser.connect()
    with trio.fail_after(30):
        async with SocketClient.connected(run_directory, instance(browser)) as client:
            assert browser.port is not None
            browser.port.post(b'{"jsonrpc":"2.0","id":"%b-1:1","result":{"stale":true}}' % old.encode())
            answer = await client.ask(1, "getTabs")
    assert "stale" not in answer["result"]


async def test_a_thousand_clients_come_and_go_without_a_trace(
    browser: SimulatedBrowser, run_directory: Path
) -> None:
    host, name = pid(browser), instance(browser)
    files = left_in(run_directory)
    with trio.fail_after(60):
        async with SocketClient.connected(run_directory, name):
            before = open_descriptors(host)
        for number in range(1000):
            async with SocketClient.connected(run_directory, name, introduce=number % 3 != 0):
                pass
        async with SocketClient.connected(run_directory, name):
            await until(lambda: open_descriptors(host) == before)
    assert left_in(run_directory) == files


async def test_hosts_that_come_and_go_leave_nothing(browser: SimulatedBrowser, run_directory: Path) -> None:
    with trio.fail_after(60):
        for number in range(8):
            await (browser.kill_host() if number % 4 == 3 else browser.close())
            await browser.connect()
        await browser.close()
    assert left_in(run_directory) == []


def open_descriptors(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


# ── The process ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("arguments", [[], ["--help"], ["run.json", "extension@mcpb.dev"]])
def test_started_by_hand_it_says_what_it_is(run_directory: Path, arguments: list[str]) -> None:
    run = subprocess.run([*HOST_COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 2
    assert run.stdout == ""
    assert "mcpb install-native-host" in run.stderr
    assert not run_directory.exists()


def test_an_extension_that_was_not_registered_is_refused_with_the_command_to_run(run_directory: Path) -> None:
    stranger = "chrome-extension://" + "a" * 32 + "/"
    with start_by_hand(stranger) as process:
        error = read_frame(process)
        assert process.wait(timeout=30) == 2
    assert error["method"] == "host/error"
    assert error["params"]["command"] == f"mcpb install-native-host --extension-id {'a' * 32}"
    assert not run_directory.exists()


def test_a_registered_extension_is_served(run_directory: Path) -> None:
    registered = "chrome-extension://" + "a" * 32 + "/"
    with start_by_hand(registered, MCPB_CALLERS=f"chrome-extension://{'b' * 32}/ {registered}") as process:
        assert read_frame(process)["params"]["extensionOrigin"] == registered
        process.communicate(timeout=30)


@pytest.mark.parametrize("addon_id", [FIREFOX_ID, "other@builds.example"])
def test_firefox_names_the_manifest_and_then_the_add_on(run_directory: Path, addon_id: str) -> None:
    manifest = f"/home/me/.mozilla/native-messaging-hosts/{HOST_NAME}.json"
    with start_by_hand(manifest, addon_id, MCPB_CALLERS="other@builds.example") as process:
        assert read_frame(process)["params"]["extensionOrigin"] == addon_id
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_an_add_on_that_was_not_registered_is_refused_with_the_command_to_run(run_directory: Path) -> None:
    stranger = "{6bd0f4d4-7e3a-4c5e-9d1e-8a54a9d3c001}"
    with start_by_hand(f"/anywhere/{HOST_NAME}.json", stranger) as process:
        error = read_frame(process)
        assert process.wait(timeout=30) == 2
    assert error["params"]["command"] == f"mcpb install-native-host --extension-id '{stranger}'"
    assert not run_directory.exists()


def test_a_directory_that_others_can_enter_is_refused_in_words_the_extension_can_show(
    mcpb_home: Path,
) -> None:
    (mcpb_home / "run").mkdir(mode=0o755)
    with start_by_hand(ORIGIN) as process:
        error = read_frame(process)
        assert process.wait(timeout=30) == 1
    assert "chmod 700" in error["params"]["message"]


def test_nothing_but_frames_reaches_the_browser() -> None:
    """A stray print, of ours or of a child, must not be read as the length of a frame."""
    program = (
        "import os, subprocess, native_host.startup as startup\n"
        "browser_in, browser_out = startup.detach_stdio()\n"
        "print('a stray print', flush=True); os.system('echo a child; cat')\n"
        "os.write(browser_out, b'frame')"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        input=b"for the host alone",
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert run.stdout == b"frame"
    assert b"a stray print" in run.stderr
    assert b"for the host alone" not in run.stderr
