"""FIFOs in the place of files of mcpb: no start waits for another process to open them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from full_chain import Chain, call

STATE = (
    "audit.jsonl",
    "audit.1.jsonl",
    "mcpb.log",
    "tools.sqlite",
    "tools.sqlite-wal",
    "approvals.json",
    "pauses.json",
    "profiles.json",
    "device-id",
    "serve-1.json",
)
RUN = ("0123abcd.json", "0123abcd.lock")
BOUND_S = 60


@pytest.fixture
def home(chain: Chain) -> Path:
    for directory, names in (("state", STATE), ("run", RUN)):
        (chain.home / directory).mkdir(mode=0o700, exist_ok=True)
        for name in names:
            os.mkfifo(chain.home / directory / name)
    return chain.home


async def test_a_bridge_starts_and_calls_go_on(chain: Chain, home: Path) -> None:
    with trio.fail_after(BOUND_S):
        async with chain.client() as client:
            is_error, text = await call(client, "list_page_tools")
    assert not is_error, text
    assert (home / "state/audit.jsonl").is_fifo()


@pytest.mark.parametrize("command", [("status", "--json"), ("audit",), ("audit", "--json", "--all")])
async def test_commands_do_not_wait(chain: Chain, home: Path, command: tuple[str, ...]) -> None:
    del home
    with trio.fail_after(BOUND_S):
        await chain.mcpb(*command, check=False)


async def test_a_server_starts(chain: Chain, home: Path) -> None:
    with trio.fail_after(BOUND_S):
        async with chain.serving() as url:
            assert url
    assert (home / "state/mcpb.log").is_fifo()
