"""`RemoteServer` against real servers: the bullets of the specification's *Testing* section, in Python.

The servers are `server-everything` and the instructable server, over Streamable HTTP in both eras, HTTP+SSE
and stdio, where they differ. The judge is what the server recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bridge.links.remote_mcp import RemoteOptions, open_remote
from http_frontend import CLOSES_EARLY
from remote_servers import (
    EVERYTHING_STDIO,
    INSTRUCTABLE_STDIO,
    Instructable,
    everything_server,
    instructable_server,
)

pytestmark = CLOSES_EARLY
SOON_S = 30
ADD = {"name": "add", "arguments": {"a": 2, "b": 3}}
GET_SUM = {"name": "get-sum", "arguments": {"a": 2, "b": 3}}
ERAS = ("both", "handshake", "stateless")
STDIO = {"command": INSTRUCTABLE_STDIO[0], "args": tuple(INSTRUCTABLE_STDIO[1:])}


@pytest.fixture(params=ERAS)
def server(request: pytest.FixtureRequest) -> Iterator[Instructable]:
    """The instructable server in each of its eras."""
    with instructable_server(request.param) as started:
        yield started


@pytest.fixture
def new_server() -> Iterator[Instructable]:
    """The instructable server, where the era makes no difference."""
    with instructable_server() as started:
        yield started


def text_of(result: dict[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text


# ── Connection and discovery ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
async def test_server_everything_is_listed_and_called_over_http(transport: Any) -> None:
    with everything_server(transport) as url:
        async with open_remote(RemoteOptions(url=url)) as remote:
            assert "get-sum" in remote.tools
            assert remote.lists.resources
            assert remote.lists.prompts
            assert text_of(await remote.request("tools/call", GET_SUM)).endswith("5.")
            expected = "sse" if transport == "sse" else "streamable-http"
            assert (remote.state.transport, remote.state.state) == (expected, "ready")


async def test_server_everything_is_listed_and_called_over_stdio() -> None:
    options = RemoteOptions(command=EVERYTHING_STDIO[0], args=tuple(EVERYTHING_STDIO[1:]))
    async with open_remote(options) as remote:
        assert text_of(await remote.request("tools/call", GET_SUM)).endswith("5.")
        assert remote.state.transport == "stdio"


async def test_each_era_is_negotiated_and_called(server: Instructable) -> None:
    async with open_remote(RemoteOptions(url=server.url)) as remote:
        assert text_of(await remote.request("tools/call", ADD)) == "5"
        is_modern = remote.state.revision == "2026-07-28"
    assert is_modern == ("initialize" not in server.counts())


async def test_the_instructable_server_is_called_over_stdio() -> None:
    async with open_remote(RemoteOptions(**STDIO)) as remote:  # type: ignore[arg-type]
        assert text_of(await remote.request("tools/call", ADD)) == "5"


async def test_the_instructable_server_is_called_over_legacy_sse(new_server: Instructable) -> None:
    async with open_remote(RemoteOptions(url=new_server.sse_url)) as remote:
        assert text_of(await remote.request("tools/call", ADD)) == "5"
        assert remote.state.transport == "sse"
