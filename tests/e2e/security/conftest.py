"""Fixtures of the security tests: a real browser on a machine of its own, and hosts that log each request."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from logged_hosts import LoggedHosts, serve_logged_hosts
from tool_browser import Browsing, open_browsing


@pytest.fixture(scope="session")
def rounds() -> int:
    """How often a race runs: once, or MCPB_SECURITY_ROUNDS times (`make test-security` sets 40)."""
    return int(os.environ.get("MCPB_SECURITY_ROUNDS", "1"))


@pytest.fixture(scope="module")
def hosts() -> Iterator[LoggedHosts]:
    """A server for every `*.localhost` host, with a log of what was really requested."""
    with serve_logged_hosts() as served:
        yield served


@pytest.fixture(scope="module")
def browsing(request: pytest.FixtureRequest) -> Iterator[Browsing]:
    """A user's machine with a real Chromium. Rules go into `browsing.chain.home / "config.toml"`."""
    is_real = request.node.get_closest_marker("real_bridges") is not None
    with open_browsing(forks_bridges=not is_real) as opened:
        yield opened


@pytest.fixture
def free_port() -> int:
    """A TCP port of this machine that no process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
