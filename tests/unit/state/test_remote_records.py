"""Records of remote servers: published by bridges that live, read by `mcpb status`."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.state.remote_records import BridgeRecord, RemoteRecord, publish_remote, read_records

READY = RemoteRecord(
    name="orders",
    state="ready",
    revision="2026-07-28",
    transport="streamable-http",
    server="Orders 1.0",
    tools=3,
    prompts=1,
    synced_at=1.5,
)
GONE = RemoteRecord(
    name="notes", state="unreachable", error="its process exited with status 1", cause="command"
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_what_a_bridge_publishes_is_read_while_it_lives(state: Path) -> None:
    assert read_records(state) == []
    with publish_remote(state, 7) as publish, publish_remote(state, 3):
        assert read_records(state) == [BridgeRecord(3, ()), BridgeRecord(7, ())]
        for servers in ((READY, GONE), (GONE,)):
            publish(servers)
            assert read_records(state)[1] == BridgeRecord(7, servers)
        assert {stat.S_IMODE(path.stat().st_mode) for path in state.iterdir()} == {0o600}
    assert list(state.iterdir()) == []


def test_the_record_of_a_process_that_was_killed_is_removed(state: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from bridge.state.remote_records import publish_remote
with publish_remote(Path(sys.argv[1]), os.getpid()):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(state)], timeout=30, check=False)
    assert done.returncode == -9
    assert len(list(state.iterdir())) == 1
    assert read_records(state) == []
    assert list(state.iterdir()) == []


def test_a_record_that_is_being_written_is_passed_over(state: Path) -> None:
    with publish_remote(state, 7):
        (path,) = state.iterdir()
        path.write_text('{"pid": 7, "serv')
        assert read_records(state) == []


def test_the_longest_record_fits(state: Path) -> None:
    longest = RemoteRecord(
        name="n" * 32,
        state="unreachable",
        server="s" * 200,
        error="\N{SNOWMAN}" * 300,
        cause="no-such-host",
        revision="r" * 40,
        transport="streamable-http",
    )
    with publish_remote(state, 7) as publish:
        publish([longest] * 32)
        assert len(read_records(state)[0].servers) == 32
