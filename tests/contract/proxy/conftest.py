"""One `mcpb proxy serve` for all tests, and an extension there that reconnects once a second."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.temporary_directory import throw_away_directory
from proxy_node import ProxyNode, running_node, write_config
from reconnecting_extension import ReconnectingExtension
from tool_browser import TrioThread, trio_thread

SOAK_S = 60 if "MCPB_SOAK" in os.environ else 10


@pytest.fixture(scope="session")
def thread() -> Iterator[TrioThread]:
    """Where runs what outlasts a test."""
    with trio_thread() as thread:
        yield thread


@pytest.fixture(scope="session")
def node(thread: TrioThread) -> Iterator[ProxyNode]:
    """A node with an issuer. Each test has users of its own."""
    with throw_away_directory() as home:
        write_config(home)
        with thread.holding(running_node(home)) as node:
            yield node


@pytest.fixture(scope="session")
def reconnecting(thread: TrioThread, node: ProxyNode) -> Iterator[ReconnectingExtension]:
    """An extension that reconnects for `SOAK_S`, and the connections beside it."""
    watched = ReconnectingExtension(node, SOAK_S)
    with thread.holding(watched.running()):
        yield watched


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of this folder first, and the one that waits for the extension after all others."""

    def rank(item: pytest.Item) -> int:
        if "reconnecting" in getattr(item, "fixturenames", ()):
            return 2
        return 0 if item.path.is_relative_to(Path(__file__).parent) else 1

    items.sort(key=rank)


@pytest.fixture(scope="session", autouse=True)
def begin_reconnecting(request: pytest.FixtureRequest) -> None:
    """Let it reconnect while all other tests run."""
    if any("reconnecting" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("reconnecting")
