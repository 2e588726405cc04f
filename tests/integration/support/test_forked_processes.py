"""Processes of the fork server: towards the program that starts them they are as if they were started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forked_processes import ForkServer
from native_host.system import proc
from site_boundary import wait_true

SOON_S = 60


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    started = ForkServer("shown_process:main")
    yield started
    started.stop()


@pytest.fixture
def command(server: ForkServer) -> list[str]:
    return server.command(Path("shown.py"))


def start(command: list[str], *arguments: str) -> subprocess.Popen[bytes]:
    """Start a process that reads lines, and answers each with what it is told to."""
    return subprocess.Popen(
        [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def ask(process: subprocess.Popen[bytes], line: str) -> str:
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{line}\n".encode())
    process.stdin.flush()
    return process.stdout.readline().decode().removesuffix("\n")


def end(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    _, errors = process.communicate(timeout=SOON_S)
    return process.returncode, errors


def test_arguments_environment_directory_and_descriptors_are_those_of_the_command(
    command: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [*command, "--one", "zwei 2"],
        input=b"show\n",
        cwd=tmp_path,
        env={"NAME": "wörd"},
        capture_output=True,
        check=True,
        timeout=SOON_S,
    )
    shown = json.loads(done.stdout)
    assert shown["argv"] == ["shown.py", "--one", "zwei 2"]
    assert shown["directory"] == str(tmp_path)
    assert {**shown["environment"], "LC_CTYPE": ""} == {"NAME": "wörd", "LC_CTYPE": ""}
    assert shown["descriptors"] == [0, 1, 2]
    assert shown["threads"] == 1
    assert shown["session"] == shown["pid"]
    assert done.stderr == b"shown\n"


def test_two_processes_draw_different_random_numbers(command: list[str]) -> None:
    drawn = [
        subprocess.run(command, input=b"random\n", capture_output=True, check=True, timeout=SOON_S).stdout
        for _ in range(2)
    ]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("status", [0, 3])
def test_the_exit_status_is_the_process_s(command: list[str], status: int) -> None:
    process = start(command)
    ask(process, f"exit {status}")
    assert end(process)[0] == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_command_ends_the_process(command: list[str], number: signal.Signals) -> None:
    process = start(command)
    pid = int(ask(process, "pid"))
    assert pid != process.pid
    process.send_signal(number)
    process.wait(SOON_S)
    assert end(process)[0] == -number
    assert not proc.is_running(pid)


def test_a_handler_of_the_process_gets_the_signal(command: list[str]) -> None:
    process = start(command)
    ask(process, "pid")
    process.send_signal(signal.SIGINT)
    process.wait(SOON_S)
    code, errors = end(process)
    assert b"KeyboardInterrupt" in errors
    assert code == -signal.SIGINT


def test_a_process_whose_command_is_killed_is_killed(command: list[str]) -> None:
    process = start(command)
    pid = int(ask(process, "pid"))
    process.kill()
    assert end(process)[0] == -signal.SIGKILL
    wait_true(lambda: not proc.is_running(pid))


def test_a_command_ends_as_its_killed_process(command: list[str]) -> None:
    process = start(command)
    os.kill(int(ask(process, "pid")), signal.SIGKILL)
    assert end(process)[0] == -signal.SIGKILL


def test_the_client_sees_that_the_process_has_closed_its_output(command: list[str]) -> None:
    process = start(command)
    assert ask(process, "close") == ""
    assert process.poll() is None
    assert end(process)[0] == 0


def test_processes_end_with_their_server() -> None:
    server = ForkServer("shown_process:main")
    process = start(server.command(Path("shown.py")))
    pid = int(ask(process, "pid"))
    server.stop()
    end(process)
    wait_true(lambda: not proc.is_running(pid))
