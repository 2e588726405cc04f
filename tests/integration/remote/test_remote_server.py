"""`RemoteServer` against real servers: the bullets of the specification's *Testing* section, in Python.

The servers are `server-everything` and the instructable server, over Streamable HTTP in both eras, HTTP+SSE
and stdio, where they differ. The judge is what the server recorded.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Any, Literal

import pytest
import trio
import trio.testing

from bridge.errors import CallError
from bridge.hub.transport import HOPS
from bridge.links import remote_client, remote_mcp
from bridge.links.remote_mcp import (
    DISPOSED,
    Cause,
    RemoteCallError,
    RemoteObserver,
    RemoteOptions,
    RemoteProblem,
    RemoteReportedError,
    RemoteServer,
    open_remote,
)
from bridge.links.remote_pipes import open_stdio
from hostile_servers import hostile_server
from http_frontend import CLOSES_EARLY
from native_host.protocol.wire import Code
from remote_servers import (
    EVERYTHING_STDIO,
    INSTRUCTABLE_STDIO,
    Instructable,
    everything_server,
    free_port,
    instructable_server,
)

pytestmark = CLOSES_EARLY
Era = Literal["both", "handshake"]
SOON_S = 30
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
STDIO: dict[str, Any] = {"command": INSTRUCTABLE_STDIO[0], "args": tuple(INSTRUCTABLE_STDIO[1:])}


@pytest.fixture(scope="module")
def started() -> Iterator[Callable[[Era], Instructable]]:
    """Returns the server of an era, as if it were new: a start takes as long as ten tests."""
    with ExitStack() as stack:
        servers: dict[str, Instructable] = {}

        def get(era: Era) -> Instructable:
            if era not in servers:
                servers[era] = stack.enter_context(instructable_server(era))
            servers[era].control(reset=True)
            return servers[era]

        yield get


@pytest.fixture(params=["both", "handshake"])
def server(request: pytest.FixtureRequest, started: Callable[[Era], Instructable]) -> Instructable:
    """The instructable server; `both` means that 2026-07-28 is negotiated."""
    return started(request.param)


@pytest.fixture
def one_era(started: Callable[[Era], Instructable]) -> Instructable:
    """The instructable server, where the era makes no difference."""
    return started("both")


@pytest.fixture
def handshake(started: Callable[[Era], Instructable]) -> Instructable:
    """The instructable server of the handshake era."""
    return started("handshake")


@pytest.fixture(autouse=True)
async def bounded() -> AsyncIterator[None]:
    with trio.fail_after(SOON_S):
        yield


@asynccontextmanager
async def opened(server: Instructable, **options: Any) -> AsyncIterator[RemoteServer]:
    async with open_remote(RemoteOptions(url=server.url, **options)) as remote:
        yield remote


@asynccontextmanager
async def running(options: RemoteOptions) -> AsyncIterator[RemoteServer]:
    """Run a server that need not be reachable."""
    remote = RemoteServer(options)
    async with trio.open_nursery() as nursery:
        await nursery.start(remote.run)
        await remote.wait_settled()
        yield remote
        await remote.dispose()


class Changes:
    """Counts the changes of a server, and waits for them."""

    def __init__(self, remote: RemoteServer) -> None:
        self._changed = trio.Event()
        remote.on_change = self._wake

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def wait(self, is_reached: Callable[[], bool]) -> None:
        while not is_reached():
            await self._changed.wait()


async def call(remote: RemoteServer, name: str, observer: Any = None, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return await remote.request("tools/call", params, observer or RemoteObserver())


def text_of(result: dict[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text


def tool(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


# ── Connection and discovery ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
async def test_server_everything_is_listed_and_called_over_http(transport: Any) -> None:
    with everything_server(transport) as url:
        async with open_remote(RemoteOptions(url=url)) as remote:
            assert "get-sum" in remote.tools
            assert remote.lists.resources
            assert remote.lists.prompts
            assert text_of(await call(remote, "get-sum", a=2, b=3)).endswith("5.")
            expected = "sse" if transport == "sse" else "streamable-http"
            assert (remote.state.transport, remote.state.state) == (expected, "ready")


async def test_capabilities_are_those_that_mcpb_knows(server: Instructable) -> None:
    tools = {"listChanged": "yes", "x": 1}
    server.control(
        capabilities={"tools": tools, "resources": {"subscribe": True}, "x": {"deep": {}}, "prompts": 7}
    )
    async with opened(server) as remote:
        assert remote.state.capabilities == {
            "tools": {"listChanged": False},
            "resources": {"listChanged": False, "subscribe": True},
        }
        assert remote.lists.prompts == ()


async def test_server_everything_is_listed_and_called_over_stdio() -> None:
    options = RemoteOptions(command=EVERYTHING_STDIO[0], args=tuple(EVERYTHING_STDIO[1:]))
    async with open_remote(options) as remote:
        assert text_of(await call(remote, "get-sum", a=2, b=3)).endswith("5.")
        assert remote.state.transport == "stdio"


async def test_each_era_is_negotiated_and_called(server: Instructable) -> None:
    async with open_remote(RemoteOptions(url=server.url)) as remote:
        assert text_of(await call(remote, "add", a=2, b=3)) == "5"
        is_modern = remote.state.revision == "2026-07-28"
    assert is_modern == ("initialize" not in server.counts())


async def test_the_instructable_server_is_called_over_stdio() -> None:
    async with open_remote(RemoteOptions(**STDIO)) as remote:
        assert text_of(await call(remote, "add", a=2, b=3)) == "5"


async def test_the_instructable_server_is_called_over_legacy_sse(one_era: Instructable) -> None:
    async with open_remote(RemoteOptions(url=one_era.sse_url)) as remote:
        assert text_of(await call(remote, "add", a=2, b=3)) == "5"
        assert remote.state.transport == "sse"


# ── The bullets of the specification ───────────────────────────────────────────────────────────────────────


async def test_nothing_is_sent_before_it_runs(one_era: Instructable) -> None:
    remote = RemoteServer(RemoteOptions(url=one_era.url))
    await remote.dispose()
    await remote.refresh()
    await remote.run()
    assert (remote.tools, one_era.log().requests) == ([], [])


async def test_dynamic_headers_override_static_ones_and_the_protocol_both(server: Instructable) -> None:
    async def get_headers(*, is_rejected: bool) -> dict[str, str]:
        return {"x-token": "fresh", "Accept": "text/plain", "Mcp-Session-Id": "mine", "X-Other": "other"}

    static = {"X-Token": "static", "X-Static": "static"}
    async with opened(server, headers=static, get_headers=get_headers) as remote:
        await call(remote, "echo")
    requests = server.log().requests
    assert requests
    for request in requests:
        sent = request.headers
        assert (sent["x-token"], sent["x-static"], sent["x-other"]) == ("fresh", "static", "other")
        assert "text/event-stream" in sent["accept"]
        assert sent.get("mcp-session-id") != "mine"


async def test_tools_keep_all_their_members(server: Instructable) -> None:
    whole = tool("whole", annotations={"readOnlyHint": True, "x": 1}, vendor={"deep": [1, None]}, icons=[])
    bare = {"name": "bare"}
    server.control(tools=[whole, bare])
    async with opened(server) as remote:
        assert remote.lists.tools[0].definition == whole
        assert remote.lists.tools[1].definition == {"name": "bare", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"url": "https://a.example", "command": "npx"},
        *({"url": url} for url in ("/mcp", "a.example/mcp", "ws://a.example", "https:///mcp")),
    ],
)
async def test_options_without_one_absolute_url_or_command_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(url|a server has exactly one of url and command)"):
        RemoteOptions(**options)


async def test_the_prefix_is_in_names_and_not_on_the_wire(server: Instructable) -> None:
    async with opened(server, prefix="remote.") as remote:
        assert "remote.echo" in remote.tools
        await call(remote, "echo", text="x")
    assert server.log().find("tools/call")[0].body["params"]["name"] == "echo"


async def test_results_are_raw(server: Instructable) -> None:
    async with opened(server) as remote:
        result = await call(remote, "blocks", structured=True)
        assert {"type": "hologram", "depth": 3} in result["content"]
        assert result["structuredContent"] == {"answer": 42}
        assert (await call(remote, "fail"))["isError"] is True


async def test_json_rpc_errors_keep_code_message_and_data(server: Instructable) -> None:
    async with opened(server) as remote:
        with pytest.raises(RemoteReportedError) as raised:
            await call(remote, "boom")
    assert (raised.value.code, raised.value.detail) == (-32099, "Boom.")
    assert raised.value.data == {"reason": "asked for"}


async def test_disposal_ends_calls_and_the_session_and_can_be_repeated(server: Instructable) -> None:
    async with opened(server) as remote, trio.open_nursery() as nursery:
        rejected: list[str] = []

        async def call_slow() -> None:
            with pytest.raises(CallError) as raised:
                await call(remote, "slow", endless=True)
            rejected.append(raised.value.detail)

        nursery.start_soon(call_slow)
        await server.wait(lambda log: bool(log.find("tools/call")))
        await remote.dispose()
        await remote.dispose()
        assert (remote.disposed, remote.tools, remote.state.state) == (True, [], "disabled")
        with pytest.raises(CallError) as raised:
            await call(remote, "echo")
        assert (raised.value.detail, raised.value.handed) == (DISPOSED, False)
        await remote.refresh()
    assert rejected == [DISPOSED]
    has_session = "initialize" in server.counts()
    assert any(request.method == "DELETE" for request in server.log().requests) == has_session


async def test_refreshes_at_once_share_one_sync(server: Instructable) -> None:
    async with opened(server) as remote:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(remote.refresh)
        assert [server.counts()[method] for method in LISTS] == [2, 2, 2, 2]


@pytest.mark.parametrize("kind", ["tools", "resources", "prompts"])
async def test_a_reported_change_is_synchronized(server: Instructable, kind: str) -> None:
    synced: list[list[str]] = []
    async with opened(server, on_sync=lambda tools: synced.append([t["name"] for t in tools])) as remote:
        changes = Changes(remote)
        server.control(tools=[tool("new")], resources=[], prompts=[], changed=[kind])
        await changes.wait(lambda: remote.tools == ["new"])
    assert (remote.lists.resources, remote.lists.prompts) == ((), ())
    assert synced[-1] == ["new"]


async def test_a_change_over_stdio_is_synchronized() -> None:
    async with open_remote(RemoteOptions(**STDIO)) as remote:
        changes = Changes(remote)
        await call(remote, "control", tools=[tool("new")], changed=["tools"])
        await changes.wait(lambda: remote.tools == ["new"])


async def test_a_change_over_legacy_sse_is_synchronized(one_era: Instructable) -> None:
    async with open_remote(RemoteOptions(url=one_era.sse_url)) as remote:
        changes = Changes(remote)
        one_era.control(tools=[tool("new")], changed=["tools"])
        await changes.wait(lambda: remote.tools == ["new"])


async def test_a_change_during_a_sync_causes_one_more(server: Instructable) -> None:
    async with opened(server) as remote:
        changes = Changes(remote)
        server.control(hang=["prompts/list"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(remote.refresh)
            await server.wait(lambda log: log.counts.get("prompts/list") == 2)
            server.control(tools=[tool("new")], changed=["tools"])
            server.control(hang=[])
        await changes.wait(lambda: remote.tools == ["new"])
        assert server.counts()["tools/list"] == 3


async def test_a_failed_background_sync_keeps_the_lists_and_is_reported(server: Instructable) -> None:
    errors: list[RemoteProblem] = []
    reported = trio.Event()

    def on_error(problem: RemoteProblem) -> None:
        errors.append(problem)
        reported.set()

    async with opened(server, on_error=on_error) as remote:
        before = remote.tools
        server.control(errors={"tools/list": {"code": -32000, "message": "Not now"}}, changed=["tools"])
        await reported.wait()
        assert (remote.tools, errors[0].cause) == (before, Cause.BAD_LIST)
        with pytest.raises(RemoteProblem):
            await remote.refresh()
    assert len(errors) == 1


async def test_without_watch_no_stream_is_opened(server: Instructable) -> None:
    async with opened(server, watch=False) as remote:
        await call(remote, "echo")
        with pytest.raises(CallError):
            await remote.subscribe("memo://one")
    log = server.log()
    assert [request for request in log.requests if request.method == "GET"] == []
    assert "subscriptions/listen" not in log.counts


async def test_all_pages_are_read(server: Instructable) -> None:
    server.control(page_size=5)
    async with opened(server) as remote:
        assert len(remote.tools) == 12
    assert [request.body["params"].get("cursor") for request in server.log().find("tools/list")] == [
        None,
        "5",
        "10",
    ]


async def test_messages_go_to_the_given_logger_unless_quiet(
    one_era: Instructable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logger = logging.getLogger("tests.remote")
    async with opened(one_era, logger=logger):
        pass
    assert {record.name for record in caplog.records} == {"tests.remote"}
    assert all(record.getMessage().startswith("[webmcp-adapter]") for record in caplog.records)
    caplog.clear()
    async with opened(one_era, logger=logger, quiet=True):
        pass
    assert caplog.records == []


async def test_a_failed_start_raises_and_calls_no_on_error(server: Instructable) -> None:
    errors: list[RemoteProblem] = []
    server.control(statuses={"tools/list": 500})
    with pytest.raises(RemoteProblem) as raised:
        async with opened(server, on_error=errors.append):
            pass
    assert (raised.value.cause, errors) == (Cause.CLOSED, [])


async def test_errors_of_the_program_leave_the_context_as_they_are(one_era: Instructable) -> None:
    with pytest.raises(RemoteReportedError):
        async with opened(one_era) as remote:
            await call(remote, "boom")


async def test_a_server_without_a_stream_causes_one_warning(
    handshake: Instructable, caplog: pytest.LogCaptureFixture
) -> None:
    handshake.control(allows_get=False)
    async with opened(handshake) as remote:
        await call(remote, "echo")
        await remote.refresh()
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert len([request for request in handshake.log().requests if request.method == "GET"]) == 1


# ── Lists ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_bad_tool_is_left_out_and_named(server: Instructable) -> None:
    server.control(
        tools=[tool("good"), {"name": "bad", "inputSchema": 7}, {"title": "nameless"}, tool("good")]
    )
    async with opened(server) as remote:
        assert remote.tools == ["good"]
        assert [reason.partition(":")[0] for reason in remote.lists.left_out] == [
            "tool “bad”",
            "tool number 3",
            "tool “good”",
        ]


async def test_filter_and_map_tool_change_what_is_offered(server: Instructable) -> None:
    def map_tool(definition: dict[str, Any]) -> dict[str, Any]:
        return {**definition, "name": definition["name"].upper()}

    synced: list[str] = []
    options: dict[str, Any] = {
        "map_tool": map_tool,
        "on_sync": lambda tools: synced.extend(each["name"] for each in tools),
    }
    async with opened(server, filter=lambda each: each["name"] != "add", **options) as remote:
        assert "ECHO" in remote.tools
        assert "ADD" not in remote.tools
        assert remote.lists.tools[0].key == "echo"
        assert {"echo", "add"} <= set(synced)


# ── Calls ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_progress_is_reported_and_restarts_the_timeout(server: Instructable) -> None:
    reported: list[float] = []
    observer = RemoteObserver(on_progress=lambda progress, _total, _message: reported.append(progress))
    async with opened(server, timeout_s=1.0) as remote:
        await call(remote, "slow", observer, steps=5, interval_s=0.4)
    assert reported == [1, 2, 3, 4, 5]


async def test_a_call_without_a_response_times_out_and_is_cancelled(server: Instructable) -> None:
    async with opened(server) as remote:
        params = {"name": "slow", "arguments": {"steps": 0, "endless": True}}
        with pytest.raises(RemoteCallError) as raised:
            await remote.request("tools/call", params, timeout_s=0.2)
        assert (raised.value.code, raised.value.handed) == (Code.TIMED_OUT, True)
        await server.wait(lambda log: log.cancelled == ["slow"])
        assert text_of(await call(remote, "echo", text="alive")) == "alive"


async def test_a_cancelled_call_is_cancelled_at_the_server(server: Instructable) -> None:
    async with opened(server) as remote:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, remote, "slow")
            nursery.start_soon(partial(call, remote, "slow", endless=True))
            await server.wait(lambda log: len(log.find("tools/call")) == 2)
            nursery.cancel_scope.cancel()
        await server.wait(lambda log: "slow" in log.cancelled)
    is_handshake = "initialize" in server.counts()
    assert ("notifications/cancelled" in server.counts()) == is_handshake


async def test_calls_above_the_limit_wait(server: Instructable) -> None:
    server.control(hang=["echo"])
    async with opened(server) as remote, trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(partial(call, remote, "echo", text=str(number)))
        await server.wait(lambda log: log.counts.get("tools/call", 0) == 32)
        server.control(hang=[])
    assert server.counts()["tools/call"] == 40


async def test_a_call_that_is_not_allowed_any_more_at_its_turn_is_not_sent(server: Instructable) -> None:
    checks: list[int] = []

    def forbid() -> None:
        checks.append(server.counts()["tools/call"])
        raise CallError(Code.NOT_ALLOWED, handed=False)

    async def call_forbidden() -> None:
        with pytest.raises(CallError) as rejected:
            await call(remote, "add", RemoteObserver(before_send=forbid), a=1, b=2)
        assert rejected.value.code == Code.NOT_ALLOWED

    server.control(hang=["echo"])
    async with opened(server) as remote, trio.open_nursery() as nursery:
        for number in range(32):
            nursery.start_soon(partial(call, remote, "echo", text=str(number)))
        await server.wait(lambda log: log.counts.get("tools/call", 0) == 32)
        nursery.start_soon(call_forbidden)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not checks
        server.control(hang=[])
    assert checks == [32]
    assert server.counts()["tools/call"] == 32


async def test_json_responses_are_read(server: Instructable) -> None:
    server.control(json_response=True)
    async with opened(server) as remote:
        assert text_of(await call(remote, "add", a=2, b=3)) == "5"


async def test_a_response_whose_stream_ends_is_resumed(handshake: Instructable) -> None:
    handshake.control(resumable=True)
    async with opened(handshake) as remote:
        assert text_of(await call(remote, "detach")) == "resumed"


async def test_hops_are_counted_and_a_second_one_to_mcpb_is_rejected(server: Instructable) -> None:
    async with opened(server) as remote:
        await call(remote, "echo")
        await remote.request("tools/call", {"name": "echo", "_meta": {HOPS: 3}})
    hops = [request.body["params"]["_meta"][HOPS] for request in server.log().find("tools/call")]
    assert hops == [1, 4]
    identity = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "mcpb", "version": "1"}}}
    initialized = {"serverInfo": {"name": "mcpb", "version": "1"}}
    server.control(members={"server/discover": identity, "initialize": initialized})
    async with opened(server) as remote:
        await call(remote, "echo")
        with pytest.raises(RemoteCallError) as raised:
            await remote.request("tools/call", {"name": "echo", "_meta": {HOPS: 1}})
        assert (raised.value.cause, raised.value.handed) == (Cause.SELF, False)


# ── Requests of the server ─────────────────────────────────────────────────────────────────────────────────


async def test_requests_of_the_server_go_to_the_calling_observer(server: Instructable) -> None:
    asked: list[str] = []

    async def on_request(method: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(method)
        if method == "roots/list":
            return {"roots": [{"uri": "file:///home"}]}
        if method == "elicitation/create":
            return {"action": "accept", "content": {"color": "red"}}
        content = {"type": "text", "text": "blue"}
        return {"role": "assistant", "content": content, "model": "m", "stopReason": "endTurn"}

    observer = RemoteObserver(on_request=on_request)
    async with opened(server, features=("sampling", "elicitation", "roots")) as remote:
        assert "blue" in text_of(await call(remote, "sample", observer))
        assert "red" in text_of(await call(remote, "elicit", observer, rounds=3))
        assert "file:///home" in text_of(await call(remote, "roots", observer))
    assert asked == ["sampling/createMessage", *["elicitation/create"] * 3, "roots/list"]


async def test_a_rejected_request_fails_the_call(server: Instructable) -> None:
    async def on_request(method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise CallError(Code.NOT_ALLOWED, "the user said no", handed=False)

    async with opened(server) as remote:
        with pytest.raises(CallError):
            await call(remote, "sample", RemoteObserver(on_request=on_request))


class Root:
    uri, name = "file:///project", "project"


async def test_configured_roots_need_no_client(server: Instructable) -> None:
    async with opened(server, roots=(Root(),)) as remote:
        assert "file:///project" in text_of(await call(remote, "roots"))


async def test_changed_roots_are_sent(handshake: Instructable) -> None:
    async with opened(handshake, features=("roots",)) as remote:
        await remote.set_roots((Root(),))
        await handshake.wait(lambda log: bool(log.find("notifications/roots/list_changed")))
        assert "file:///project" in text_of(await call(remote, "roots"))


async def test_a_request_during_several_calls_is_rejected(handshake: Instructable) -> None:
    asked: list[str] = []

    async def on_request(method: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(method)
        return {}

    observer = RemoteObserver(on_request=on_request)
    async with opened(handshake) as remote, trio.open_nursery() as nursery:
        nursery.start_soon(partial(call, remote, "slow", endless=True))
        await handshake.wait(lambda log: bool(log.find("tools/call")))
        with pytest.raises(RemoteReportedError):
            await call(remote, "elicit", observer)
        nursery.cancel_scope.cancel()
    assert asked == []


async def test_waiting_for_the_user_stops_the_timeout(server: Instructable) -> None:
    async def on_request(method: str, params: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(0.8)
        return {"action": "decline"}

    observer, params = RemoteObserver(on_request=on_request), {"name": "elicit", "arguments": {}}
    async with opened(server) as remote:
        assert "decline" in text_of(await remote.request("tools/call", params, observer, timeout_s=0.5))


async def test_log_messages_go_to_the_call_that_wants_them(server: Instructable) -> None:
    wanted: list[dict[str, Any]] = []
    observer = RemoteObserver(on_log=wanted.append, log_level="info")
    async with opened(server) as remote:
        await call(remote, "log", level="error")
        await call(remote, "log", observer, level="info")
        await call(remote, "log", observer, level="debug")
    assert [message["level"] for message in wanted] == ["info"]
    assert server.counts().get("logging/setLevel", 0) == ("initialize" in server.counts())


# ── Subscriptions ──────────────────────────────────────────────────────────────────────────────────────────


class Updates:
    """URIs of updated resources."""

    def __init__(self, remote: RemoteServer) -> None:
        self._send, self._receive = trio.open_memory_channel[str](10)
        remote.on_updated = self._send.send_nowait

    async def next(self) -> str:
        return await self._receive.receive()


async def test_updates_of_subscribed_resources_are_reported(server: Instructable) -> None:
    async with opened(server) as remote:
        updates = Updates(remote)
        await remote.subscribe("memo://one")
        server.control(updated=["memo://one"])
        assert await updates.next() == "memo://one"
        await remote.unsubscribe("memo://one")


async def test_subscriptions_survive_a_restart_of_the_server(server: Instructable) -> None:
    async with opened(server) as remote:
        updates, changes = Updates(remote), Changes(remote)
        await remote.subscribe("memo://one")
        server.kill()
        await changes.wait(lambda: remote.state.state == "unreachable")
        server.start()
        await changes.wait(lambda: remote.state.state == "ready")
        server.control(updated=["memo://one"])
        assert await updates.next() == "memo://one"


# ── Loss and return ────────────────────────────────────────────────────────────────────────────────────────


async def test_tools_disappear_after_a_loss_and_return_with_the_server(server: Instructable) -> None:
    async with opened(server) as remote:
        before, changes = remote.tools, Changes(remote)
        server.kill()
        lost_at = trio.current_time()
        await changes.wait(lambda: remote.state.state == "unreachable")
        assert (remote.tools, remote.state.cause) == (before, Cause.REFUSED)
        with pytest.raises(RemoteCallError) as raised:
            await call(remote, "echo")
        assert (raised.value.code, raised.value.handed) == (Code.GONE, False)
        await changes.wait(lambda: remote.tools == [])
        assert 3 <= trio.current_time() - lost_at < 6
        server.start()
        await changes.wait(lambda: remote.tools == before)
        assert text_of(await call(remote, "add", a=2, b=3)) == "5"


async def test_a_server_that_is_killed_in_mid_call_may_have_run_it(server: Instructable) -> None:
    async with opened(server) as remote, trio.open_nursery() as nursery:
        raised: list[RemoteCallError] = []

        async def call_slow() -> None:
            with pytest.raises(RemoteCallError) as error:
                await call(remote, "slow", endless=True)
            raised.append(error.value)

        nursery.start_soon(call_slow)
        await server.wait(lambda log: bool(log.find("tools/call")))
        assert server.counts()["tools/call"] == 1
        changes = Changes(remote)
        server.kill()
        await changes.wait(lambda: remote.state.state == "unreachable")
        server.start()
        await changes.wait(lambda: remote.state.state == "ready")
        assert "tools/call" not in server.counts()
    assert [(error.code, error.handed) for error in raised] == [(Code.GONE, True)]


async def test_a_call_that_a_lost_session_rejects_is_repeated_in_a_new_one(handshake: Instructable) -> None:
    async with opened(handshake, watch=False) as remote:
        handshake.control(drop_sessions=True)
        checks: list[str] = []
        observer = RemoteObserver(before_send=lambda: checks.append("checked"))
        assert text_of(await call(remote, "add", observer, a=2, b=3)) == "5"
    calls = handshake.log().find("tools/call")
    assert [request.status for request in calls] == [404, 200]
    assert checks == 2 * ["checked"]


async def test_a_server_that_answers_nothing_any_more_is_connected_again(
    handshake: Instructable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_mcp, "PING_S", 0.5)
    async with opened(handshake) as remote:
        changes = Changes(remote)
        handshake.control(hang=["tools/call", "ping"])
        with pytest.raises(RemoteCallError):
            await remote.request("tools/call", {"name": "echo"}, timeout_s=0.2)
        await changes.wait(lambda: remote.state.cause is Cause.TOO_SLOW)
        handshake.control(hang=[])
        await changes.wait(lambda: remote.state.state == "ready")


async def test_a_server_that_comes_later_is_connected(one_era: Instructable) -> None:
    one_era.kill()
    async with running(RemoteOptions(url=one_era.url)) as remote:
        assert (remote.state.state, remote.state.cause) == ("unreachable", Cause.REFUSED)
        changes = Changes(remote)
        one_era.start()
        await changes.wait(lambda: remote.state.state == "ready")


async def test_a_refresh_tries_to_connect_at_once(one_era: Instructable) -> None:
    one_era.kill()
    async with running(RemoteOptions(url=one_era.url)) as remote:
        with pytest.raises(RemoteProblem):
            await remote.refresh()
        one_era.start()
        await remote.refresh()
        assert remote.state.state == "ready"


async def test_a_notification_without_a_response_stops_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client, "NOTIFICATION_S", 0.2)
    async with (
        hostile_server("silent_notification") as silent,
        open_remote(RemoteOptions(url=silent.url)) as remote,
    ):
        assert text_of(await call(remote, "good")) == "good"


async def test_the_process_of_a_stdio_server_ends_with_it() -> None:
    async with open_remote(RemoteOptions(**STDIO)) as remote:
        changes = Changes(remote)
        with pytest.raises(RemoteCallError) as raised:
            await call(remote, "die")
        assert raised.value.handed
        await changes.wait(lambda: remote.state.cause is Cause.COMMAND)
        await changes.wait(lambda: remote.state.state == "ready")


async def test_what_the_program_of_a_server_has_started_ends_with_it() -> None:
    child = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(1)"
    program = "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdin=-3); sys.stdin.read()"
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = str(listener.socket.getsockname()[1])
    command = [sys.executable, "-c", program, sys.executable, "-c", child, port]
    async with listener:
        async with open_stdio("orders", command, {}):
            connected = await listener.accept()
        async with connected:
            assert await connected.receive_some() == b""


async def test_a_server_of_this_machine_is_reached_without_a_proxy(
    one_era: Instructable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    async with opened(one_era) as remote:
        assert text_of(await call(remote, "add", a=2, b=3)) == "5"


# ── Causes ─────────────────────────────────────────────────────────────────────────────────────────────────


async def find_cause(**options: Any) -> Cause | None:
    async with running(RemoteOptions(**options)) as remote:
        return remote.state.cause


async def test_failures_have_causes(one_era: Instructable) -> None:
    assert await find_cause(url=f"http://127.0.0.1:{free_port()}/mcp") is Cause.REFUSED
    assert await find_cause(url="http://no-such-host.invalid/mcp") is Cause.NO_SUCH_HOST
    assert await find_cause(url=one_era.url.replace("http", "https")) is Cause.NO_TLS
    assert await find_cause(url=one_era.url.replace("/mcp", "/nothing")) is Cause.NOT_MCP
    assert await find_cause(command="/no/such/command") is Cause.COMMAND
    for status, cause in ((401, Cause.UNAUTHORIZED), (403, Cause.FORBIDDEN)):
        one_era.control(required_headers={"x-token": "right"}, rejection=status)
        assert await find_cause(url=one_era.url) is cause


async def test_rejected_headers_are_read_again_once(server: Instructable) -> None:
    reads: list[bool] = []

    async def get_headers(*, is_rejected: bool) -> dict[str, str]:
        reads.append(is_rejected)
        return {"x-token": "fresh" if any(reads) else "old"}

    server.control(required_headers={"x-token": "fresh"})
    async with opened(server, get_headers=get_headers) as remote:
        assert text_of(await call(remote, "add", a=2, b=3)) == "5"
    assert reads.count(True) == 1


async def test_a_secret_is_masked_before_a_text_is_cut(one_era: Instructable) -> None:
    token = "canary-" * 60
    one_era.control(errors={"echo": {"code": -32001, "message": f"{token} is not valid"}})
    async with open_remote(RemoteOptions(url=one_era.url, headers={"X-Key": token})) as remote:
        with pytest.raises(RemoteReportedError) as raised:
            await call(remote, "echo")
    assert "canary" not in raised.value.detail


async def test_no_error_of_a_command_quotes_its_environment() -> None:
    instructions = {"errors": {"echo": {"code": -32001, "message": "no canary-3f81"}}}
    env = {"INSTRUCTIONS": json.dumps(instructions), "KEY": "canary-3f81"}
    async with open_remote(RemoteOptions(**STDIO, env=env)) as remote:
        with pytest.raises(RemoteReportedError) as raised:
            await call(remote, "echo")
    assert "canary" not in raised.value.detail


async def test_no_secret_is_in_a_log_line_an_error_or_the_state(
    server: Instructable, caplog: pytest.LogCaptureFixture
) -> None:
    canary = "canary-3f81"
    caplog.set_level(logging.DEBUG)
    echoed = {"code": -32001, "message": f"no {canary} here", "data": {"token": [canary]}}
    server.control(errors={"echo": echoed})
    url = server.url.replace("http://", f"http://user:{canary}@") + f"?key={canary}"
    async with open_remote(RemoteOptions(url=url, headers={"Authorization": f"Bearer {canary}"})) as remote:
        with pytest.raises(RemoteReportedError) as raised:
            await call(remote, "echo")
        shown = [repr(raised.value), raised.value.detail, repr(raised.value.data), repr(remote.state)]
        server.kill()
        changes = Changes(remote)
        await changes.wait(lambda: remote.state.state == "unreachable")
        shown.append(repr(remote.state))
    assert [text for text in [*shown, caplog.text] if canary in text] == []
