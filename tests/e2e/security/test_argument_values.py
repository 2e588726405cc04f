"""A value of a rejected argument is in no file, log, audit line, status page or `--json` output."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import trio

from channel_client import RawChannelClient
from demo.chromium import Chromium
from fake_claude_extension import TheirSocket
from full_chain import MCPB, Chain, RawClient, until_listens
from http_frontend import CLOSES_EARLY, INITIALIZE, Events, request
from native_host.ipc import endpoint
from native_host.system.home_layout import StateLayout
from wire_peers import until

PASSWORD = "hunter2-Passw0rd-of-a-user"
WRONG: tuple[Any, ...] = ([PASSWORD], {PASSWORD: PASSWORD})
BOUND_S = 240
Call = Callable[[str, Any], Awaitable[Any]]


def wrong_calls(echo: str) -> Iterator[tuple[str, Any]]:
    """Yield calls whose arguments hold the password where it does not belong."""
    for wrong in (*WRONG, PASSWORD):
        yield "navigate", {"url": "https://shop.example", "tabId": wrong}
        yield "computer", {"action": wrong}
        yield "computer", {"action": "left_click", "coordinate": wrong}
        yield "read_page", {"max_chars": wrong}
        yield "form_input", {"ref": "ref_1", "value": "a", wrong if isinstance(wrong, str) else "more": wrong}
        yield "browser_batch", {"actions": wrong}
        yield "browser_batch", {"actions": [{"name": "navigate", "input": wrong}]}
        yield "browser_batch", {"actions": [{"name": "computer", "input": {"action": wrong}}]}
        yield "browser_batch", {"actions": [{"name": wrong, "input": {}}]}
        yield "list_page_tools", {"limit": wrong}
        yield "call_page_tool", {"name": echo, "arguments": wrong}
        yield "call_page_tool", {"name": echo, "arguments": {"text": 1, "more": wrong, PASSWORD: wrong}}
        yield echo, wrong
    for wrong in WRONG:
        yield "navigate", {"url": wrong}
        yield "computer", {"action": "type", "text": wrong}
        yield "javascript_tool", {"action": "javascript_exec", "text": wrong}
        yield "find", {"query": wrong}
        yield "file_upload", {"ref": "ref_1", "paths": [wrong]}
        yield "shortcuts_execute", {"command": wrong}
        yield "browser_batch", {"actions": [{"name": "navigate", "input": {"url": wrong}}]}
        yield "list_page_tools", {"query": wrong}
        yield "call_page_tool", {"name": wrong}
        yield "call_page_tool", {"name": echo, "arguments": {"text": wrong}}
        yield echo, {"text": wrong}


async def make_wrong_calls(call: Call, echo: str) -> int:
    """Make all of them; return how many."""
    made = 0
    for name, arguments in wrong_calls(echo):
        answer = await call(name, arguments)
        assert "code" in answer or answer.get("isError"), (name, arguments, answer)
        made += 1
    return made


@asynccontextmanager
async def stdio_session(chain: Chain) -> AsyncIterator[Call]:
    """Calls of tools by a client of `mcpb bridge`."""
    async with stdio_client(chain) as client:
        requests = itertools.count(1)

        async def call(name: str, arguments: Any) -> Any:
            return await client.ask(next(requests), "tools/call", name=name, arguments=arguments)

        yield call


@asynccontextmanager
async def channel_session(directory: Path) -> AsyncIterator[Call]:
    """Calls of tools by a client of the socket that `mcpb serve` has published."""
    with trio.fail_after(BOUND_S):
        await until(lambda: any(directory.glob("*.sock")))
    (path,) = directory.glob("*.sock")
    async with RawChannelClient.connected(path) as client:
        requests = itertools.count(1)

        async def call(name: str, arguments: Any) -> Any:
            params = {"client_id": "claude-code", "tool": name, "args": arguments}
            await client.say(method="execute_tool", params={**params, "tool_use_id": str(next(requests))})
            return {"isError": "error" in await client.hear()}

        yield call


@asynccontextmanager
async def stdio_client(chain: Chain) -> AsyncIterator[RawClient]:
    """Start `mcpb bridge`, whose stderr goes to a file below MCPB_HOME too."""
    with (chain.home / "bridge.stderr").open("wb") as stderr:
        process = await trio.lowlevel.open_process(
            [*MCPB, "bridge"], env=chain.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        )
    assert process.stdin is not None
    assert process.stdout is not None
    async with process.stdin, process.stdout:
        client = RawClient(process)
        await client.ask(0, "initialize", **INITIALIZE)
        await client.say(method="notifications/initialized")
        yield client
    await process.wait()


def open_http(chain: Chain, port: int) -> httpx2.AsyncClient:
    headers = {"Accept": "application/json, text/event-stream"}
    if (token := chain.home / "state/http-token").exists():
        headers["Authorization"] = f"Bearer {token.read_text().strip()}"
    return httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60)


@asynccontextmanager
async def sse_client(chain: Chain, port: int) -> AsyncIterator[Call]:
    """Open a session of HTTP with SSE (MCP 2024-11-05) with the running `mcpb serve`."""
    async with open_http(chain, port) as http, http.stream("GET", "/sse") as stream:
        events = Events(stream)
        endpoint_event = await events.next()
        assert endpoint_event
        requests = itertools.count()

        async def ask(method: str, **params: Any) -> Any:
            number = next(requests)
            sent = await http.post(endpoint_event["data"], json=request(number, method, params))
            assert sent.status_code == 202, sent.text
            while (message := await events.message()).get("id") != number:
                pass
            return message.get("result", message.get("error"))

        await ask("initialize", **{**INITIALIZE, "protocolVersion": "2024-11-05"})
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await http.post(endpoint_event["data"], json=told)

        async def call(name: str, arguments: Any) -> Any:
            return await ask("tools/call", name=name, arguments=arguments)

        yield call


@asynccontextmanager
async def http_client(chain: Chain, port: int) -> AsyncIterator[Call]:
    """Open a Streamable HTTP session with the running `mcpb serve`."""
    async with open_http(chain, port) as http:

        async def ask(method: str, **params: Any) -> Any:
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            response = await http.post("/mcp", json=message)
            if session := response.headers.get("mcp-session-id"):
                http.headers["Mcp-Session-Id"] = session
            last = [line for line in response.content.splitlines() if b'"jsonrpc"' in line][-1]
            answer = json.loads(last.removeprefix(b"data: "))
            return answer.get("result", answer.get("error"))

        await ask("initialize", **INITIALIZE)
        http.headers["MCP-Protocol-Version"] = "2025-11-25"
        await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})

        async def call(name: str, arguments: Any) -> Any:
            return await ask("tools/call", name=name, arguments=arguments)

        yield call


@asynccontextmanager
async def serving(chain: Chain, port: int) -> AsyncIterator[None]:
    """Run `mcpb serve`, whose output goes to a file below MCPB_HOME."""
    with (chain.home / "serve.output").open("wb") as output:
        command = [*MCPB, "serve", "--port", str(port)]
        process = await trio.lowlevel.open_process(command, env=chain.env, stdout=output, stderr=output)
    try:
        await until_listens(port)
        yield
    finally:
        process.terminate()
        await process.wait()


def assert_in_no_file(home: Path) -> None:
    for path in home.rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path


async def assert_in_no_output(chain: Chain) -> None:
    for command in (
        ("status",),
        ("status", "--json"),
        ("audit", "-n", "1000"),
        ("audit", "-n", "1000", "--all", "--json"),
    ):
        said = await chain.mcpb(*command)
        assert PASSWORD.encode() not in said.stdout + said.stderr, command
        assert said.stdout, command


async def assert_not_on_status_page(chain: Chain) -> None:
    printed = (await chain.mcpb("status", "--web", "--no-open")).stdout.decode()
    link = re.search(r"http://localhost:\d+/open\?code=\S+", printed)
    assert link, printed
    async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as http:
        page = await http.get(link[0])
        now = await http.get(str(page.url.join("/page/now")))
    for answer in (page, now):
        assert answer.status_code == 200, answer.text
        assert PASSWORD not in answer.text
    assert "invalid params" in now.text  # the calls are shown there


def logged_calls(chain: Chain) -> list[dict[str, Any]]:
    """Return the lines of all calls, without those of their steps."""
    lines = map(json.loads, (chain.home / "state" / StateLayout.audit_log.name).read_text().splitlines())
    return [line for line in lines if line["event"] == "call" and not line.get("step")]


@CLOSES_EARLY
async def test_a_password_in_a_wrong_argument_is_found_nowhere(
    chain: Chain, browser: Chromium, free_port: int
) -> None:
    channels = chain.home / "channels"
    chain.settings["MCPB_LOG"] = "wire"
    chain.settings["MCPB_EXISTING_CHANNEL_PUBLISH"] = "true"
    chain.settings["MCPB_EXISTING_CHANNEL_DIRECTORY"] = str(channels)
    with trio.fail_after(BOUND_S):
        await chain.open(browser, "tabserver.html")
        echo = chain.name("echo")
        async with serving(chain, free_port), http_client(chain, free_port) as call_over_http:
            made = await make_wrong_calls(call_over_http, echo)
            async with sse_client(chain, free_port) as call_over_sse:
                made += await make_wrong_calls(call_over_sse, echo)
            async with stdio_session(chain) as call_over_stdio:
                made += await make_wrong_calls(call_over_stdio, echo)
            async with channel_session(channels) as call_over_channel:
                made += await make_wrong_calls(call_over_channel, echo)
            await assert_in_no_output(chain)
            await assert_not_on_status_page(chain)
        assert_in_no_file(chain.home)
        calls = logged_calls(chain)
        assert len(calls) == made
        assert {"url: type", "actions[0].input: type", "text: type", "arguments: type"} <= {
            line.get("detail") for line in calls
        }


async def find_and_fail(call: Call, theirs: TheirSocket) -> None:
    """Call `find`, which the played host answers with an error that quotes the argument."""
    theirs.silent = {"find"}
    found = len(theirs.calls)

    async def quote() -> None:
        await until(lambda: any(asked["tool"] == "find" for asked in theirs.calls[found:]))
        error = {"content": f"find cannot look for {PASSWORD}"}
        await theirs.tell({"tool_use_id": theirs.calls[-1]["tool_use_id"], "error": error})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(quote)
        answer = await call("find", {"query": PASSWORD})
    assert PASSWORD in json.dumps(answer)


async def test_a_password_that_claude_in_chrome_rejects_is_found_nowhere(
    chain: Chain, free_port: int
) -> None:
    """Its host is played; mcpb's holder of its socket, the bridge and the server are real."""
    directory = chain.home / "theirs"
    directory.mkdir(mode=0o700)
    chain.settings["MCPB_LOG"] = "wire"
    chain.settings["MCPB_EXISTING_CHANNEL_ATTACH"] = "true"
    chain.settings["MCPB_EXISTING_CHANNEL_DIRECTORY"] = str(directory)
    echo = chain.name("echo")

    with trio.fail_after(BOUND_S):
        async with (
            TheirSocket.in_directory(directory) as theirs,
            serving(chain, free_port),
            http_client(chain, free_port) as call_over_http,
        ):
            await find_and_fail(call_over_http, theirs)
            made = 1 + await make_wrong_calls(call_over_http, echo)
            async with stdio_session(chain) as call_over_stdio:
                await find_and_fail(call_over_stdio, theirs)
                made += 1 + await make_wrong_calls(call_over_stdio, echo)
            await assert_in_no_output(chain)
            await assert_not_on_status_page(chain)
        await until(lambda: not endpoint.live_hosts(chain.home / "run"))
        assert_in_no_file(chain.home)
        assert len(logged_calls(chain)) == made


async def test_arguments_are_in_the_audit_log_once_the_user_wants_them(
    chain: Chain, browser: Chromium
) -> None:
    """The counterpart: what the test above looks for can be found."""
    chain.settings["MCPB_AUDIT_ARGUMENTS"] = "true"
    with trio.fail_after(BOUND_S):
        await chain.open(browser, "tabserver.html")
        async with stdio_client(chain) as client:
            await client.ask(1, "tools/call", name="navigate", arguments={"url": [PASSWORD]})
        assert PASSWORD in (chain.home / "state" / StateLayout.audit_log.name).read_text()
