"""Remote servers that break the rules: each is limited and named, and only its own callers notice."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
import trio

from bridge.errors import CallError
from bridge.links import remote_client
from bridge.links.remote_calls import RemoteObserver
from bridge.links.remote_http import MAX_RESUMPTIONS
from bridge.links.remote_mcp import RemoteOptions, RemoteServer
from bridge.links.remote_problem import Cause
from hostile_servers import FLOOD, INJECTED_HEADER, HostileServer, hostile_server
from native_host.protocol.wire import Code

# The HTTP client leaves its generators to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

SOON_S = 60
NOTICEABLE_S = 5
"""Longest answer of a healthy server on a busy machine; the attacks last longer, or are larger."""
IMPATIENT_S = 0.3
"""Timeout of a server that never answers some of its first requests."""
CALL_S = 0.2
"""Timeout of a call that is never answered."""
CALL = {"name": "good", "arguments": {}}


class Attack(NamedTuple):
    """A hostile server, and the bridge's view of it."""

    hostile: HostileServer
    remote: RemoteServer


@asynccontextmanager
async def run_remote(options: RemoteOptions) -> AsyncIterator[RemoteServer]:
    remote = RemoteServer(options)
    async with trio.open_nursery() as nursery:
        await nursery.start(remote.run)
        await remote.wait_settled()
        yield remote
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def attack(script: str, timeout_s: float = SOON_S) -> AsyncIterator[Attack]:
    """Connect to a hostile server while calls of a healthy one go on, each answered within NOTICEABLE_S."""
    with trio.fail_after(SOON_S):
        async with (
            hostile_server("behaved") as behaved,
            hostile_server(script) as hostile,
            run_remote(RemoteOptions(name="healthy", url=behaved.url)) as healthy,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(call_on, healthy)
            options = RemoteOptions(name="hostile", url=hostile.url, timeout_s=timeout_s)
            async with run_remote(options) as remote:
                yield Attack(hostile, remote)
                before = behaved.counts["tools/call"]
                while behaved.counts["tools/call"] == before:
                    await trio.lowlevel.checkpoint()
                assert healthy.state.state == "ready"
            nursery.cancel_scope.cancel()


async def call_on(healthy: RemoteServer) -> None:
    while True:
        with trio.fail_after(NOTICEABLE_S):
            result = await healthy.request("tools/call", CALL)
        assert result["content"][0]["text"] == "good"


async def rejected_call(remote: RemoteServer, timeout_s: float | None = None) -> CallError:
    with pytest.raises(CallError) as rejected:
        await remote.request("tools/call", CALL, timeout_s=timeout_s)
    return rejected.value


def names(remote: RemoteServer) -> list[str]:
    return [entry.key for entry in remote.lists.tools]


async def test_tools_above_the_limit_are_left_out_and_named() -> None:
    async with attack("many_pages") as (hostile, remote):
        assert remote.state.state == "ready"
        assert len(remote.lists.tools) == 2000
        assert remote.lists.left_out
        assert hostile.counts["tools/list"] <= 200


@pytest.mark.parametrize("script", ["empty_pages", "repeated_cursor", "tools_as_object", "cursor_as_number"])
async def test_a_list_without_an_end_or_a_form_is_a_bad_list(script: str) -> None:
    async with attack(script) as (hostile, remote):
        assert remote.state.cause is Cause.BAD_LIST
        assert not remote.lists.tools
        assert hostile.counts["tools/list"] <= 200


@pytest.mark.parametrize(
    "script", ["nameless_tool", "huge_description", "costly_schema", "odd_tools", "odd_modern_tools"]
)
async def test_a_bad_tool_leaves_the_others_usable(script: str) -> None:
    async with attack(script) as (_, remote):
        assert "good" in names(remote)
        result = await remote.request("tools/call", CALL)
        assert result["content"][0]["text"] == "good"


async def test_tools_without_a_name_are_left_out_by_number() -> None:
    async with attack("nameless_tool") as (_, remote):
        assert names(remote) == ["good"]
        assert len(remote.lists.left_out) == 2


async def test_arguments_are_not_validated_against_a_costly_schema() -> None:
    async with attack("costly_schema") as (_, remote):
        arguments = {"tree": {}, "text": "a" * 60 + "!"}
        await remote.request("tools/call", {"name": "costly", "arguments": arguments})


@pytest.mark.parametrize(
    "script", ["huge_json", "huge_event", "endless_event", "many_values", "many_values_event"]
)
async def test_a_result_above_the_limit_fails_its_call_only(script: str) -> None:
    async with attack(script) as (hostile, remote):
        error = await rejected_call(remote)
        assert error.code == Code.TOO_LARGE
        assert error.handed
        assert hostile.counts["tools/call"] == 1
        await assert_still_connected(hostile, remote)


async def assert_still_connected(hostile: HostileServer, remote: RemoteServer) -> None:
    await remote.refresh()
    assert names(remote) == ["good"]
    assert hostile.counts["initialize"] == 1


@pytest.mark.parametrize(
    "script",
    [
        *("gzip_bomb", "gzip_bomb_event", "deep_json", "endless_head"),
        *("not_json", "not_json_event", "not_rpc_event"),
        *("error_as_number", "error_without_message", "error_with_code_as_float"),
    ],
)
async def test_a_response_that_cannot_be_read_fails_its_call_only(script: str) -> None:
    async with attack(script) as (hostile, remote):
        error = await rejected_call(remote)
        assert error.code != Code.TIMED_OUT
        assert error.handed
        assert hostile.counts["tools/call"] == 1
        await assert_still_connected(hostile, remote)


@pytest.mark.parametrize("script", ["huge_list", "many_tools"])
async def test_a_list_above_the_limit_is_too_large(script: str) -> None:
    async with attack(script) as (_, remote):
        assert remote.state.cause is Cause.TOO_LARGE
        assert not remote.lists.tools


@pytest.mark.parametrize("script", ["never_calling", "half_event", "endless_comments", "answers_other_only"])
async def test_a_call_without_a_result_times_out_alone(script: str) -> None:
    async with attack(script) as (hostile, remote):
        error = await rejected_call(remote, CALL_S)
        assert error.code == Code.TIMED_OUT
        assert error.handed
        assert hostile.counts["tools/call"] == 1
        await assert_still_connected(hostile, remote)


async def test_a_response_that_is_resumed_again_and_again_has_an_end() -> None:
    async with attack("resumed_again") as (hostile, remote):
        error = await rejected_call(remote)
        assert error.code == Code.GONE
        assert error.handed
        assert hostile.counts["GET"] <= MAX_RESUMPTIONS + 1
        assert hostile.counts["tools/call"] == 1
        await assert_still_connected(hostile, remote)


@pytest.mark.parametrize("script", ["dies_in_call", "dies_in_response", "dies_in_event"])
async def test_a_call_whose_connection_dies_may_have_run_and_is_not_repeated(script: str) -> None:
    async with attack(script) as (hostile, remote):
        error = await rejected_call(remote)
        assert error.code == Code.GONE
        assert error.handed
        await remote.refresh()
        assert hostile.counts["tools/call"] == 1


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("dies_in_list", Cause.CLOSED),
        ("garbage", Cause.CLOSED),
        ("web_page", Cause.NOT_MCP),
        ("result_as_number", Cause.NOT_MCP),
        ("redirect_elsewhere", Cause.REDIRECT),
        ("redirect_to_file", Cause.REDIRECT),
        ("redirect_in_circles", Cause.REDIRECT),
        ("session_too_long", Cause.NOT_MCP),
        ("surrogate_in_tool", Cause.NOT_MCP),
        ("odd_initialize", Cause.NOT_MCP),
        ("sse_endpoint_elsewhere", Cause.REDIRECT),
    ],
)
async def test_a_server_that_cannot_be_used_is_named_with_its_cause(script: str, cause: Cause) -> None:
    async with attack(script) as (hostile, remote):
        assert remote.state.state != "ready"
        assert remote.state.cause is cause
        assert not remote.lists.tools
        assert hostile.other is not None
        assert not hostile.other.counts


@pytest.mark.parametrize("script", ["never_responding", "never_listing"])
async def test_a_silent_server_is_too_slow(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client, "DISCOVER_S", IMPATIENT_S)
    async with attack(script, timeout_s=IMPATIENT_S) as (_, remote):
        assert remote.state.cause is Cause.TOO_SLOW
        assert not remote.lists.tools


async def test_a_redirected_call_does_not_leave_the_origin() -> None:
    async with attack("redirect_call") as (hostile, remote):
        await rejected_call(remote)
        assert hostile.other is not None
        assert not hostile.other.counts


@pytest.mark.parametrize(
    "script", ["session_with_line_break", "session_with_bare_line_feed", "session_with_carriage_return"]
)
async def test_a_session_id_cannot_add_a_header(script: str) -> None:
    async with attack(script) as (hostile, remote):
        assert remote.state.state == "ready" or remote.state.cause is not None
        assert not any(INJECTED_HEADER in headers for headers in hostile.headers)


async def test_responses_to_foreign_requests_end_no_call_of_another_server() -> None:
    async with attack("answers_others") as (_, remote):
        for _call in range(8):
            await remote.request("tools/call", CALL)


async def assert_good(remote: RemoteServer) -> None:
    result = await remote.request("tools/call", CALL)
    assert result["content"][0]["text"] == "good"


async def test_a_flood_of_changes_causes_few_lists() -> None:
    async with attack("list_changed_flood") as (hostile, remote):
        while not hostile.is_flooded:
            await assert_good(remote)
        await remote.refresh()
        assert hostile.counts["tools/list"] < FLOOD / 10


async def test_a_change_with_each_list_leaves_calls_usable() -> None:
    async with attack("change_with_each_list") as (hostile, remote):
        for _ in range(200):
            await assert_good(remote)
        assert hostile.counts["tools/list"] < 50


async def test_a_flood_of_progress_does_not_delay_others() -> None:
    async with attack("progress_flood") as (_, remote):
        await assert_good(remote)


async def test_odd_notifications_before_a_result_are_ignored() -> None:
    async with attack("odd_notifications") as (_, remote):
        numbers: list[float] = []
        observer = RemoteObserver(on_progress=lambda progress, *_: numbers.append(progress))
        result = await remote.request("tools/call", CALL, observer)
        assert result["content"][0]["text"] == "good"
        assert all(map(math.isfinite, numbers))


@pytest.mark.parametrize(("script", "most_calls"), [("asks_again", 20), ("asks_much", 1)])
async def test_requests_for_input_have_an_end(script: str, most_calls: int) -> None:
    asked = []

    async def answer(method: str, params: Any) -> dict[str, Any]:
        asked.append(params)
        return {"action": "cancel"}

    async with attack(script) as (hostile, remote):
        with pytest.raises(CallError):
            await remote.request("tools/call", CALL, RemoteObserver(on_request=answer))
        assert hostile.counts["tools/call"] <= most_calls
        assert len(asked) <= most_calls


async def test_a_session_that_each_call_loses_is_opened_again_once() -> None:
    async with attack("session_lost_by_each_call") as (hostile, remote):
        await rejected_call(remote)
        assert hostile.counts["tools/call"] == 2
        assert hostile.counts["initialize"] == 2


@pytest.mark.parametrize("script", ["odd_capabilities", "odd_discovery"])
async def test_odd_answers_to_the_negotiation_are_tolerated(script: str) -> None:
    async with attack(script) as (_, remote):
        assert remote.state.state == "ready"


async def test_an_error_of_a_megabyte_is_cut_to_a_printable_line() -> None:
    async with attack("error_huge") as (_, remote):
        error = await rejected_call(remote)
        assert len(error.detail) < 1000
        assert error.detail.isprintable()


async def test_a_flood_of_requests_leaves_calls_usable() -> None:
    async with attack("request_flood") as (hostile, remote):
        while not hostile.is_flooded:
            await assert_good(remote)
        assert all("error" in response for response in hostile.responses)


async def test_responses_that_the_server_does_not_read_are_limited() -> None:
    async with attack("ping_flood") as (_, remote):
        while remote.state.cause is not Cause.NOT_MCP:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("program", "cause"),
    [
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", Cause.TOO_LARGE),
        ("print('{')\nprint('not JSON')", Cause.COMMAND),
        ("import sys\nsys.stdin.readline()", Cause.COMMAND),
    ],
)
async def test_a_command_that_breaks_the_rules_is_named_with_its_cause(program: str, cause: Cause) -> None:
    await assert_named(RemoteOptions(command=sys.executable, args=("-c", program)), cause)


async def test_a_silent_command_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client, "DISCOVER_S", IMPATIENT_S)
    program = "import sys\nsys.stdin.read()"
    await assert_named(RemoteOptions(command=sys.executable, args=("-c", program)), Cause.TOO_SLOW)


async def assert_named(options: RemoteOptions, cause: Cause) -> None:
    with trio.fail_after(SOON_S):
        async with run_remote(options) as remote:
            assert remote.state.state != "ready"
            assert remote.state.cause is cause
