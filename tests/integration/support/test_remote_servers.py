"""The MCP servers that stand for remote ones in tests, seen by the mcp package's client."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types
import pytest
import trio
from mcp.client import Client
from mcp.client.context import ClientRequestContext
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from remote_servers import (
    EVERYTHING_STDIO,
    INSTRUCTABLE_STDIO,
    Instructable,
    everything_server,
    instructable_server,
)

# The package's HTTP client leaves its generators to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

SOON_S = 30
Target = Any
"""A server, as `Client` takes it."""


def stdio(command: list[str], **env: str) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:], env=env or None)


@asynccontextmanager
async def connected(target: Target, mode: Any = "auto", **options: Any) -> AsyncIterator[Client]:
    with trio.fail_after(SOON_S):
        async with Client(target, mode=mode, cache=None, **options) as client:
            yield client


def text_of(result: mcp_types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, mcp_types.TextContent)
    return block.text


async def sample(_: ClientRequestContext, params: Any) -> mcp_types.CreateMessageResult:
    content = mcp_types.TextContent(type="text", text="blue")
    return mcp_types.CreateMessageResult(role="assistant", content=content, model="none")


async def elicit(_: ClientRequestContext, params: Any) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action="accept", content={"color": "blue"})


async def list_roots(_: ClientRequestContext) -> mcp_types.ListRootsResult:
    return mcp_types.ListRootsResult.model_validate({"roots": [{"uri": "file:///here"}]})


ANSWERING = {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": list_roots}
ASKING = {"sample": "blue", "elicit": "accept", "roots": "file:///here"}


@pytest.fixture(scope="module")
def running() -> Iterator[Instructable]:
    with instructable_server() as server:
        yield server


@pytest.fixture
def server(running: Instructable) -> Instructable:
    running.control(reset=True)
    return running


async def test_everything_answers_over_each_transport() -> None:
    with everything_server() as url, everything_server("sse") as sse_url:
        for target in (url, sse_client(sse_url), stdio(EVERYTHING_STDIO)):
            async with connected(target) as client:
                assert text_of(await client.call_tool("get-sum", {"a": 2, "b": 3})).endswith("5.")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_both_eras_are_spoken_over_http_and_stdio(
    server: Instructable, transport: str, mode: str
) -> None:
    target = server.url if transport == "http" else stdio(INSTRUCTABLE_STDIO)
    async with connected(target, mode, **ANSWERING) as client:
        assert text_of(await client.call_tool("add", {"a": 2, "b": 3})) == "5"
        assert (await client.call_tool("fail")).is_error
        with pytest.raises(MCPError) as boom:
            await client.call_tool("boom")
        assert boom.value.error.code == -32099
        for tool, answer in ASKING.items():
            assert answer in text_of(await client.call_tool(tool)), tool
        steps: list[float] = []

        async def count(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        await client.call_tool("slow", progress_callback=count)
        assert steps == [1, 2, 3]


async def test_legacy_sse_is_spoken(server: Instructable) -> None:
    async with connected(sse_client(server.sse_url), "legacy", **ANSWERING) as client:
        assert "blue" in text_of(await client.call_tool("sample"))


async def test_definitions_are_listed_as_instructed(server: Instructable) -> None:
    tools = [{"name": "a", "inputSchema": {"type": "object"}, "dev.example/own": 1}, {"title": "no name"}, 7]
    server.control(tools=tools, page_size=2)
    first = post(server.url, "tools/list", {})
    assert first["result"]["tools"] == tools[:2]
    assert post(server.url, "tools/list", {"cursor": first["result"]["nextCursor"]})["result"]["tools"] == [7]


def post(url: str, method: str, params: dict[str, Any], **headers: str) -> Any:
    """Send a request of 2026-07-28."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    modern = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(url, json.dumps(message).encode(), {**modern, **headers})
    with urllib.request.urlopen(request, timeout=SOON_S) as answer:
        return json.load(answer)


async def test_a_change_reaches_both_eras(server: Instructable) -> None:
    changed = trio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            changed.set()

    async with (
        connected(server.url, "legacy", message_handler=hear),
        connected(server.url) as modern,
        modern.listen(tools_list_changed=True) as events,
    ):
        await server.wait(lambda log: any(request.method == "GET" for request in log.requests))
        server.control(tools=[], changed=["tools"])
        await changed.wait()
        await anext(aiter(events))
        assert (await modern.list_tools()).tools == []


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_cancelled_call_is_recorded(server: Instructable, mode: str) -> None:
    async with connected(server.url, mode) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "slow", {"endless": True})
        await server.wait(lambda log: log.counts.get("tools/call") == 1)
        nursery.cancel_scope.cancel()
    await server.wait(lambda log: log.cancelled == ["slow"])


async def test_a_hanging_list_is_answered_once_released(server: Instructable) -> None:
    server.control(hang=["tools/list"])
    async with connected(server.url) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.list_tools)
        await server.wait(lambda log: log.counts.get("tools/list") == 1)
        server.control(hang=[])


@pytest.mark.parametrize(("era", "version"), [("handshake", "2025-11-25"), ("stateless", "2026-07-28")])
async def test_a_server_of_one_era_is_found(era: Any, version: str) -> None:
    with instructable_server(era) as server:
        async with connected(server.url) as client:
            assert client.protocol_version == version


async def test_requests_are_rejected_as_instructed(server: Instructable) -> None:
    server.control(required_headers={"Authorization": "Bearer right"}, statuses={"prompts/list": 503})
    assert status_of(post, server.url, "tools/list", {}) == 401
    right = {"Authorization": "Bearer right"}
    assert post(server.url, "tools/list", {}, **right)["result"]["tools"]
    assert status_of(lambda: post(server.url, "prompts/list", {}, **right)) == 503
    assert [request.status for request in server.log().requests] == [401, 200, 503]


def status_of(request: Callable[..., Any], *arguments: Any) -> int:
    with pytest.raises(urllib.error.HTTPError) as rejected:
        request(*arguments)
    rejected.value.close()
    return rejected.value.code


async def test_a_dropped_session_is_answered_404(server: Instructable) -> None:
    async with connected(server.url, "legacy") as client:
        server.control(drop_sessions=True)
        with pytest.raises(MCPError):
            await client.list_tools()
    assert server.log().find("tools/list")[0].status == 404


def test_a_page_of_another_origin_may_use_it(server: Instructable) -> None:
    headers = {
        "Origin": "http://elsewhere.test",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,mcp-session-id,x-own",
    }
    preflight = urllib.request.Request(server.url, headers=headers, method="OPTIONS")
    with urllib.request.urlopen(preflight, timeout=SOON_S) as answer:
        assert "x-own" in answer.headers["Access-Control-Allow-Headers"]
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
    request = urllib.request.Request(server.url, headers={"Origin": "http://elsewhere.test"})
    with pytest.raises(urllib.error.HTTPError) as rejected, urllib.request.urlopen(request, timeout=SOON_S):
        pass
    assert rejected.value.headers["Access-Control-Expose-Headers"] == "Mcp-Session-Id"
    rejected.value.close()


async def test_a_server_that_died_in_mid_call_starts_again_on_its_port(server: Instructable) -> None:
    url = server.url
    with pytest.raises(ConnectionResetError):
        post(url, "tools/call", {"name": "die"}, **{"Mcp-Name": "die"})
    server.kill()
    server.start()
    assert server.url == url
    async with connected(url) as client:
        assert text_of(await client.call_tool("echo", {"text": "again"})) == "again"


async def test_a_detached_call_is_resumed() -> None:
    with instructable_server("handshake", resumable=True) as server:
        async with connected(server.url, "legacy") as client:
            assert text_of(await client.call_tool("detach")) == "resumed"
        assert any("last-event-id" in request.headers for request in server.log().requests)
