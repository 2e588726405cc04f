"""No space and no file descriptor: one line instead of a traceback, and no draft of a file stays.

The limits of the kernel stand in for a full disk: a file that may not grow fails as one on a full disk does.
"""

from __future__ import annotations

import errno
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from bridge.state.tool_cache import SqliteToolStore
from native_host.system.exhaustion import describe_exhaustion
from wire_peers import HOST_COMMAND, ORIGIN

MCPB = [sys.executable, "-m", "bridge"]
WAIT_S = 60
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":'
    b'{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"by hand","version":"1"}}}\n'
    b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n'
)

FULL_DISK = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (0, 0))


@pytest.fixture(autouse=True)
def user_home(mcpb_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A throw-away HOME: a command that succeeds in spite of the limit changes no real one."""
    home = mcpb_home / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))


def few_descriptors(count: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def drafts_below(home: Path) -> list[Path]:
    return [
        path for path in home.rglob("*") if path.suffix in (".new", ".draft") or ".extension-" in path.name
    ]


def run(command: Sequence[str], limit: object, said: bytes = b"") -> tuple[int, bytes, str]:
    """Return exit code, stdout and stderr of a command that runs under a limit."""
    assert callable(limit)
    done = subprocess.run(
        command, input=said, capture_output=True, check=False, timeout=WAIT_S, preexec_fn=limit
    )
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (["pause", "https://shop.example"], "pauses.json"),
        (["allow", "https://shop.example", "read"], "approvals.json"),
        (["skill", "--install"], "skills.json"),
        (["serve", "--port", "0"], "http-token"),
        (["serve", "token", "add", "laptop"], "http-tokens.json"),
        (["extension"], "extension"),
    ],
)
def test_a_command_names_the_file_that_a_full_disk_does_not_take(
    mcpb_home: Path, command: list[str], file: str
) -> None:
    code, _, said = run([*MCPB, *command], FULL_DISK)
    assert code == 1
    (error,) = said.splitlines()
    assert file in error
    assert drafts_below(mcpb_home) == []


@pytest.mark.parametrize(
    ("command", "lines"), [(["status"], []), (["doctor"], []), (["call", "navigate"], ["audit log"])], ids=str
)
def test_a_command_that_needs_no_file_works_on_a_full_disk(
    mcpb_home: Path, command: list[str], lines: list[str]
) -> None:
    _, shown, said = run([*MCPB, *command], FULL_DISK)
    assert shown
    assert len(said.splitlines()) == len(lines)
    assert all(line in said for line in lines)
    assert drafts_below(mcpb_home) == []


def test_a_pause_that_a_full_disk_keeps_is_reported_as_paused(mcpb_home: Path) -> None:
    (mcpb_home / "config.toml").write_text('[browser]\nresume = "any"\n')
    run([*MCPB, "pause", "https://shop.example"], lambda: None)
    code, shown, said = run([*MCPB, "pause", "https://shop.example", "--resume", "--json"], FULL_DISK)
    assert code == 1
    assert json.loads(shown)["paused"] is True
    (line,) = said.splitlines()
    assert line.startswith("https://shop.example is not resumed: ")


@pytest.fixture
def tool_cache(mcpb_home: Path) -> None:
    """A cache of earlier days: only a write creates it."""
    with closing(SqliteToolStore(mcpb_home / "state")) as store:
        store.record_call("p1", "https://shop.example")


@pytest.mark.usefixtures("mcpb_home", "tool_cache")
def test_a_site_that_a_full_disk_keeps_is_reported_in_one_line() -> None:
    code, _, said = run([*MCPB, "tools", "--forget", "https://shop.example"], FULL_DISK)
    assert code == 1
    (line,) = said.splitlines()
    assert line.startswith("Error: Nothing was forgotten: ")


@pytest.mark.usefixtures("mcpb_home", "tool_cache")
def test_a_bridge_on_a_full_disk_serves_and_says_once_that_it_has_no_log() -> None:
    code, answers, said = run([*MCPB, "bridge"], FULL_DISK, INITIALIZE)
    assert code == 0
    assert [json.loads(line)["id"] for line in answers.splitlines()] == [1, 2]
    (line,) = said.splitlines()
    assert "mcpb.log cannot be written" in line


@pytest.mark.parametrize("count", [6, 8, 10, 12])
@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["pause", "https://shop.example"],
        ["call", "navigate"],
        ["serve", "--port", "0"],
        ["bridge"],
    ],
    ids=" ".join,
)
def test_a_command_without_descriptors_has_one_line_and_no_traceback(
    mcpb_home: Path, command: list[str], count: int
) -> None:
    _, _, said = run([*MCPB, *command], partial(few_descriptors, count), INITIALIZE)
    assert len(said.splitlines()) <= 1
    assert drafts_below(mcpb_home) == []


def test_a_session_that_lacks_descriptors_is_reported_in_one_line(mcpb_home: Path) -> None:
    command = [*MCPB, "call", "--session", "shop", "read_page"]
    code, _, said = run(command, partial(few_descriptors, 10))
    assert code == 1
    (line,) = said.splitlines()
    assert "Too many open files" in line


@pytest.mark.parametrize(
    ("limits", "remedy"),
    [
        ((256, 4096), "run: ulimit -n 1024"),
        ((1024, 1_048_576), "run: ulimit -n 2048"),
        ((1024, resource.RLIM_INFINITY), "run: ulimit -n 2048"),
        ((1024, 1500), "run: ulimit -n 1500"),
        ((256, 256), "End some MCP clients, then try again"),
    ],
)
def test_the_remedy_for_missing_descriptors_depends_on_the_limits(
    limits: tuple[int, int], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    assert describe_exhaustion(OSError(errno.EMFILE, "Too many open files")).endswith(remedy)


def test_the_remedy_for_a_limited_file_size_is_not_more_space() -> None:
    text = describe_exhaustion(OSError(errno.EFBIG, "File too large", "audit.jsonl"))
    assert text == "audit.jsonl: File too large. To remove the limit of file sizes, run: ulimit -f unlimited"


@pytest.mark.parametrize("count", [6, 8, 10, 12])
def test_a_native_host_without_descriptors_has_one_line_and_no_traceback(mcpb_home: Path, count: int) -> None:
    code, _, said = run([*HOST_COMMAND, ORIGIN], partial(few_descriptors, count))
    assert code == 1
    (line,) = said.splitlines()
    assert "Too many open files" in line
    assert drafts_below(mcpb_home) == []
