"""Clients that nobody here wrote, over every transport at once, call the tool of a page in a real Chromium.

The tool answers nobody before all calls are open: they were in flight together when each got its answer.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import trio
from mcp import Client
from mcp.client.sse import sse_client

from full_chain import INSPECTOR, MCPB, Chain, call, until_listed
from http_frontend import CLOSES_EARLY

pytestmark = CLOSES_EARLY

CALLS_OF_EACH = 3
"""At once, of each client that can; the inspector's command makes one."""


class Meeting:
    """Everybody's calls, and what was answered to each."""

    def __init__(self, tool: str, calls: int) -> None:
        self.tool = tool
        self.calls = calls
        self.answers: dict[str, str] = {}

    def arguments(self, words: str) -> dict[str, Any]:
        return {"text": words, "calls": self.calls}

    async def attend_through_sdk(
        self, name: str, connected: AbstractAsyncContextManager[Client, bool | None]
    ) -> None:
        """The mcp package's client."""
        async with connected as client:
            await until_listed(client, lambda names: self.tool in names)

            async def say(words: str) -> None:
                _, self.answers[words] = await call(client, self.tool, **self.arguments(words))

            async with trio.open_nursery() as nursery:
                for n in range(CALLS_OF_EACH):
                    nursery.start_soon(say, f"{name} {n}")

    async def attend_through_inspector(self, name: str, chain: Chain, *server: str) -> None:
        """The MCP inspector's command line, which has no option for a header."""
        command = [str(INSPECTOR), "--cli", *server, "--method", "tools/call", "--tool-name", self.tool]
        for key, value in self.arguments(name).items():
            command += ["--tool-arg", f"{key}={value}"]
        run = await trio.run_process(command, env=chain.node_env, capture_stdout=True)
        self.answers[name] = json.loads(run.stdout)["content"][0]["text"]

    async def attend_through_curl(self, name: str, url: str, *bearer: str) -> None:
        """Two commands for whoever has nothing else: one hears, the other speaks."""
        command = ["curl", "--silent", "--no-buffer", *bearer, f"{url}/sse"]
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            events = Events(process.stdout)
            kind, path = await events.next()
            assert kind == "endpoint"
            curl = {"name": "curl", "version": "8"}
            about = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": curl}
            await post(url + path, bearer, id="hello", method="initialize", params=about)
            assert (await events.message())["id"] == "hello"
            await post(url + path, bearer, method="notifications/initialized")
            said = {f"{name} {n}" for n in range(CALLS_OF_EACH)}
            for words in sorted(said):
                params = {"name": self.tool, "arguments": self.arguments(words)}
                await post(url + path, bearer, id=words, method="tools/call", params=params)
            while said - self.answers.keys():
                message = await events.message()
                self.answers[message["id"]] = message["result"]["content"][0]["text"]
        finally:
            process.kill()
            await process.wait()


async def post(url: str, bearer: Sequence[str], **message: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message})
    command = ["curl", "--silent", "--fail-with-body", "-H", "Content-Type: application/json", "-d", body]
    command += bearer
    run = await trio.run_process([*command, url], capture_stdout=True)
    assert json.loads(run.stdout) == {"status": "accepted"}


class Events:
    """Server-sent events as a person reads them."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._text = b""

    async def next(self) -> tuple[str, str]:
        """Kind and data."""
        while b"\n\n" not in self._text:
            received = await self._stream.receive_some()
            assert received, "the stream of events ended"
            self._text += received
        event, _, self._text = self._text.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in event.decode().splitlines() if not line.startswith(":"))
        return fields.get("event", "message"), fields.get("data", "")

    async def message(self) -> Any:
        """The next answer."""
        while True:
            kind, data = await self.next()
            if kind == "message" and "id" in (message := json.loads(data)):
                return message


async def test_clients_of_all_transports_call_one_page_at_once_and_each_gets_its_own_answers(
    chain: Chain,
) -> None:
    assert INSPECTOR.exists(), "run: npm ci"
    chain.settings["MCPB_CALL_TIMEOUT_S"] = "100"  # each call waits until the slowest client has made its own
    with trio.fail_after(200):
        async with chain.browser() as chromium, chain.serving() as url:
            await chain.open(chromium, "meeting.html")
            headers = chain.http_headers
            bearer = f"Authorization: {headers['Authorization']}"
            through_sdk: dict[str, AbstractAsyncContextManager[Client, bool | None]] = {
                "sdk, streamable, 2026-07-28": chain.http_client(url),
                "sdk, streamable, handshake": chain.http_client(url, "legacy"),
                "sdk, sse": Client(sse_client(f"{url}/sse", headers), mode="legacy"),
                "sdk, stdio, 2026-07-28": chain.client(),
                "sdk, stdio, handshake": chain.client("legacy"),
            }
            through_inspector = {
                "inspector, stdio": [*MCPB, "bridge"],
                "inspector, streamable": [f"{url}/mcp", "--transport", "http"],
                "inspector, sse": [f"{url}/sse", "--transport", "sse"],
            }
            calls = CALLS_OF_EACH * (len(through_sdk) + 1) + len(through_inspector)
            meeting = Meeting(chain.name("meet"), calls)
            async with chain.http_client(url) as client:
                await until_listed(client, lambda names: meeting.tool in names)
            async with trio.open_nursery() as nursery:
                for name, connected in through_sdk.items():
                    nursery.start_soon(meeting.attend_through_sdk, name, connected)
                for name, server in through_inspector.items():
                    nursery.start_soon(meeting.attend_through_inspector, name, chain, *server)
                nursery.start_soon(meeting.attend_through_curl, "curl, sse", url, "-H", bearer)
    assert len(meeting.answers) == calls
    assert meeting.answers == {words: f"met: {words}" for words in meeting.answers}
