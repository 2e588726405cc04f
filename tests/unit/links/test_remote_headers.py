"""Headers of a remote server's requests, from real files and programs; no problem contains a secret."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from bridge.config.remote_settings import RemoteSettings
from bridge.links import remote_headers
from bridge.links.remote_headers import EARLY_S, MAX_OUTPUT_BYTES, RemoteHeaders
from bridge.links.remote_problem import Cause, RemoteProblem
from native_host.system.proc import is_running
from wire_peers import until

URL = "https://orders.example/mcp"
CANARY = "canary-5f0c1d"


def make_headers(environ: dict[str, str] | None = None, **keys: Any) -> RemoteHeaders:
    return RemoteHeaders(RemoteSettings(name="orders", url=URL, **keys), environ or {})


async def problem_of(headers: RemoteHeaders) -> str:
    with pytest.raises(RemoteProblem) as raised:
        await headers.read()
    assert raised.value.cause is Cause.HEADERS
    assert CANARY not in str(raised.value)
    return raised.value.detail


class Program:
    """A shell script for `header_command` that appends a line to a file in each run."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "print-headers"
        self._runs = directory / "runs"

    @property
    def command(self) -> tuple[str, ...]:
        return str(self.path), "orders"

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0

    def write(self, *lines: str) -> None:
        text = "\n".join(["#!/bin/sh", f"echo run >> {shlex.quote(str(self._runs))}", *lines, ""])
        self.path.write_text(text)
        self.path.chmod(0o700)

    def print(self, output: Any, status: int = 0) -> None:
        text = output if isinstance(output, str) else json.dumps(output)
        self.write(f"echo {CANARY} >&2", f"printf %s {shlex.quote(text)}", f"exit {status}")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


# ── Headers and tokens ──────────────────────────────────────────────────────────────────────────────────────


async def test_without_settings_there_are_no_headers() -> None:
    assert await make_headers().read() == {}


async def test_a_token_of_a_variable_replaces_a_written_header_in_any_spelling() -> None:
    written = {"authorization": "Basic abc", "X-Team": "7"}
    headers = make_headers({"ORDERS": f" {CANARY}\n"}, headers=written, bearer_env="ORDERS")
    assert await headers.read() == {"X-Team": "7", "Authorization": f"Bearer {CANARY}"}


@pytest.mark.parametrize("environ", [{}, {"ORDERS": ""}, {"ORDERS": f"{CANARY} b"}])
async def test_a_variable_without_a_token_is_a_problem(environ: dict[str, str]) -> None:
    assert "bearer_env: " in await problem_of(make_headers(environ, bearer_env="ORDERS"))


async def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "token"
    headers = make_headers(bearer_file=str(path))
    for token in ("first", "second"):
        path.write_text(f"{token}\n")
        path.chmod(0o600)
        assert await headers.read() == {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("mode", [0o640, 0o604])
async def test_a_file_that_others_can_read_is_rejected_with_the_command(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text(CANARY)
    path.chmod(mode)
    assert f"chmod 600 {path}" in await problem_of(make_headers(bearer_file=str(path)))


def leave_out(_path: Path) -> None: ...


def write_words(path: Path) -> None:
    path.write_text(f"{CANARY}\n{CANARY}")
    path.chmod(0o600)


def make_link(path: Path) -> None:
    target = path.with_name("target")
    target.write_text(CANARY)
    target.chmod(0o600)
    path.symlink_to(target)


@pytest.mark.parametrize("make", [leave_out, write_words, make_link, Path.mkdir, os.mkfifo])
async def test_a_file_without_a_token_is_a_problem(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "token")
    assert "bearer_file: " in await problem_of(make_headers(bearer_file=str(tmp_path / "token")))


@pytest.mark.parametrize(
    ("content", "reason"), [("\n", "is empty"), (f"Bearer {CANARY}\n", 'has "Bearer" in front of the token')]
)
async def test_a_file_that_is_empty_or_has_the_scheme_is_a_problem_that_says_so(
    tmp_path: Path, content: str, reason: str
) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(0o600)
    assert reason in await problem_of(make_headers(bearer_file=str(path)))


# ── The program ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_headers_of_a_program_win_and_are_kept(program: Program) -> None:
    program.print({"authorization": "Bearer new", "X-B": "2"})
    headers = make_headers(
        {"ORDERS": "old"}, headers={"X-A": "1"}, bearer_env="ORDERS", header_command=program.command
    )
    for _ in range(2):
        assert await headers.read() == {"X-A": "1", "authorization": "Bearer new", "X-B": "2"}
    assert program.runs == 1


async def test_a_program_runs_again_before_its_headers_expire(
    program: Program, autojump_clock: trio.testing.MockClock
) -> None:
    program.print({"headers": {"A": "b"}, "expires_in": 3 * EARLY_S})
    autojump_clock.autojump_threshold = float("inf")  # a process does not live by this clock
    headers = make_headers(header_command=program.command)
    runs = []
    for seconds in (0, 2 * EARLY_S - 1, 1, 1):
        autojump_clock.jump(seconds)
        await headers.read()
        runs.append(program.runs)
    assert runs == [1, 1, 2, 2]


async def test_a_program_runs_again_after_its_headers_were_rejected(program: Program) -> None:
    program.print({"A": "b"})
    headers = make_headers(header_command=program.command)
    await headers.read()
    program.print({"A": "c"})
    assert await headers.read() == {"A": "b"}
    assert await headers.read(is_rejected=True) == {"A": "c"}
    assert program.runs == 2


@pytest.mark.parametrize("is_rejected", [False, True])
async def test_concurrent_readers_share_one_run(program: Program, is_rejected: bool) -> None:
    program.print({"A": "b"})
    headers = make_headers(header_command=program.command)
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(partial(headers.read, is_rejected=is_rejected))
    assert program.runs == 1


async def test_concurrent_readers_share_a_failure_and_a_later_one_tries_again(program: Program) -> None:
    program.print({}, status=3)
    headers = make_headers(header_command=program.command)
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(problem_of, headers)
    assert program.runs == 1
    program.print({"A": "b"})
    assert await headers.read() == {"A": "b"}


async def test_a_reader_that_is_cancelled_leaves_the_run_to_the_next_one(program: Program) -> None:
    program.write("exec sleep 60")
    headers = make_headers(header_command=program.command)
    with trio.move_on_after(0.1):
        await headers.read()
    program.print({"A": "b"})
    assert await headers.read() == {"A": "b"}


@pytest.mark.parametrize(
    ("output", "status", "reason"),
    [
        ("", 0, "its output is no JSON object"),
        (f'"{CANARY}"', 0, "its output is no JSON object"),
        (f'{{"A": "{CANARY}"', 0, "its output is no JSON object"),
        ("[" * 20_000, 0, "its output is no JSON object"),
        ({"A": CANARY}, 3, "print-headers exited with status 3"),
        ({"A": f"{CANARY}\r\nX: y"}, 0, "the value of A is not one line"),
        ({"A": [CANARY]}, 0, "the value of A is not one line"),
        ({"headers": {"A": 1}}, 0, "the value of A is not one line"),
        ({"headers": {"Host": "evil.example"}}, 0, "Host is a header that the connection itself sets"),
        ({"headers": {}, "expires_in": 0}, 0, "expires_in is no number"),
        ({"headers": {}, "expires_in": CANARY}, 0, "expires_in is no number"),
        ({"headers": {}, "expires_in": True}, 0, "expires_in is no number"),
    ],
)
async def test_an_output_that_is_no_headers_is_a_problem(
    program: Program, output: Any, status: int, reason: str
) -> None:
    program.print(output, status)
    assert reason in await problem_of(make_headers(header_command=program.command))


async def test_a_program_that_cannot_be_started_is_a_problem(tmp_path: Path) -> None:
    command = (str(tmp_path / "missing"), CANARY)
    assert "cannot start" in await problem_of(make_headers(header_command=command))


async def test_a_program_that_a_signal_ends_is_a_problem(program: Program) -> None:
    program.write("kill -9 $$")
    assert "was ended by signal 9" in await problem_of(make_headers(header_command=program.command))


async def test_a_relative_path_leads_to_no_file_of_the_working_directory(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.print({"A": "b"})
    monkeypatch.chdir(program.path.parent)
    headers = make_headers(header_command=("./print-headers",))
    assert "cannot start ./print-headers: " in await problem_of(headers)
    assert program.runs == 0


async def test_output_without_an_end_is_cut_off(program: Program) -> None:
    program.write(f"echo $$ > {program.path}.pid", "yes")
    problem = await problem_of(make_headers(header_command=program.command))
    assert f"prints more than {MAX_OUTPUT_BYTES // 1024} KiB" in problem
    assert not is_running(int(Path(f"{program.path}.pid").read_text()))


async def test_a_program_that_hangs_is_killed_with_its_children(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_headers, "COMMAND_TIMEOUT_S", 0.5)
    program.write("sleep 60 &", f"echo $! > {program.path}.pid", "wait")
    assert "has not ended within 0.5 s" in await problem_of(make_headers(header_command=program.command))
    child = int(Path(f"{program.path}.pid").read_text())
    with trio.fail_after(5):
        await until(lambda: not is_running(child))


# ── Secrets in other texts ──────────────────────────────────────────────────────────────────────────────────


async def test_each_secret_is_masked_in_other_texts(program: Program) -> None:
    program.print({"X-Key": "printed-key"})
    headers = RemoteHeaders(
        RemoteSettings(
            name="orders",
            url=f"{URL}?key=query-key",
            headers={"X-Session": "static key-value"},
            bearer_env="ORDERS",
            header_command=program.command,
        ),
        {"ORDERS": CANARY},
    )
    await headers.read()
    text = f"rejected {CANARY}, printed-key, query-key and static key-value, or key-value of team 7"
    assert headers.is_secret(text)
    assert headers.mask(text) == "rejected •••, •••, ••• and •••, or ••• of team 7"
    assert not headers.is_secret(headers.mask(text))
    assert headers.mask("Bearer tokens are rejected") == "Bearer tokens are rejected"


async def test_a_variable_of_a_command_is_masked() -> None:
    headers = RemoteHeaders(RemoteSettings(name="notes", command="npx", env={"KEY": CANARY}), {})
    assert headers.mask(f"bad key {CANARY}") == "bad key •••"
