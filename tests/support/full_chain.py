"""The whole chain on real parts: Chromium with our extension, the registered native host, `mcpb bridge`."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import trio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from bridge.hub.public_names import MAX_NAME
from demo.chromium import Chromium, Page, open_chromium
from forked_processes import forked_mcpb
from install.browsers import user_data_dir_target
from install.installation import InstallationPaths, RegisteredHost
from install.plan import apply
from install.plan import install_plan as planning
from real_firefox import Firefox, Preference, open_firefox

ROOT = Path(__file__).parents[2]
PAGES = Path(__file__).parents[1] / "data/pages"
EXTENSION = ROOT / "extension"
GLOBAL_BUNDLE = ROOT / "node_modules/@mcp-b/global/dist/index.iife.js"
INSPECTOR = ROOT / "node_modules/.bin/mcp-inspector"
MCPB = [sys.executable, "-m", "bridge"]

WEBMCP = "--enable-features=WebMCPTesting"


COUNTED: list[str] = []
"""The ids that pages have told their server, each time they did."""
REQUESTED: list[str] = []
"""Path and query of all requests that pages have sent to their server."""


class _PageRequests(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        REQUESTED.append(self.path)
        if self.path.startswith("/count?id="):
            COUNTED.append(self.path.partition("=")[2])
            return self.send_error(HTTPStatus.NO_CONTENT)
        if self.path.partition("?")[0] in ("/nothing", "/submitted"):
            return self.send_error(HTTPStatus.NO_CONTENT)
        return super().do_GET()

    def end_headers(self) -> None:
        # Without it Firefox says `originAgentCluster` is false, and @mcp-b/global then refuses all tools.
        self.send_header("Origin-Agent-Cluster", "?1")
        if self.path.endswith("?download"):
            self.send_header("Content-Disposition", "attachment")
        if self.path.endswith("?sandboxed"):
            self.send_header("Content-Security-Policy", "sandbox allow-scripts")
        super().end_headers()

    def translate_path(self, path: str) -> str:
        if path == "/mcp-b-global.js":
            return str(GLOBAL_BUNDLE)
        return super().translate_path(path)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@contextmanager
def serving_pages() -> Iterator[str]:
    """The pages of tests/data/pages at a base URL of this machine, without a slash at its end."""
    handler = functools.partial(_PageRequests, directory=str(PAGES))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        # It looks this often whether it shall end, which otherwise takes half a second.
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()


@dataclass
class Chain:
    """One user's machine: an endpoint directory, pages, and any number of browsers and clients."""

    home: Path
    pages: str
    settings: dict[str, str] = field(default_factory=dict)
    """Of bridges and commands, in the environment."""
    tabs_before: int = 0
    """Number of the last tab that earlier tests have opened in this browser."""
    forks_bridges: bool = False
    """True if `command` starts forks (fork_server.py), whose process id is not that of the command."""

    @property
    def env(self) -> dict[str, str]:
        """What every process is started with."""
        own = {"MCPB_HOME": str(self.home), "PATH": os.environ["PATH"], "HOME": str(self.home)}
        return {**own, **self.settings}

    @property
    def command(self) -> StdioServerParameters:
        """`mcpb bridge`, as an MCP client starts it."""
        program, *arguments = forked_mcpb() if self.forks_bridges else MCPB
        return StdioServerParameters(
            command=program, args=[*arguments, "bridge", "--structured"], env=self.env
        )

    def client(
        self, mode: Literal["auto", "legacy"] = "auto", message_handler: Any = None, **more: Any
    ) -> AbstractAsyncContextManager[Client]:
        """The mcp package's client with a bridge of its own; `auto` speaks 2026-07-28.

        `more` is for mcp's `Client`, such as callbacks.
        """
        return Client(self.command, mode=mode, message_handler=message_handler, **more)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """`mcpb serve` on a free port, until the block ends; its URL, without a slash at its end."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        async with trio.open_nursery() as nursery:
            command = [*MCPB, "serve", "--port", str(port)]
            nursery.start_soon(
                functools.partial(trio.run_process, command, env=self.env, capture_stdout=True)
            )
            await until_listens(port)
            yield f"http://127.0.0.1:{port}"
            nursery.cancel_scope.cancel()

    @property
    def http_token(self) -> str:
        """The access token that `serving` has created."""
        return (self.home / "state" / "http-token").read_text().strip()

    @property
    def node_env(self) -> dict[str, str]:
        """Environment in which a Node program sends the token of `serving` with each request."""
        return {
            **self.env,
            "NODE_OPTIONS": f"--import {ROOT / 'tests/support/access_token.mjs'}",
            "ACCESS_TOKEN": self.http_token,
        }

    @property
    def http_headers(self) -> dict[str, str]:
        """What a client of `serving` sends besides."""
        return {"Authorization": f"Bearer {self.http_token}"}

    @asynccontextmanager
    async def http_client(
        self, url: str, mode: Literal["auto", "legacy"] = "auto", *, token: str = "", **more: Any
    ) -> AsyncIterator[Client]:
        """The mcp package's client of `serving`, over Streamable HTTP; `more` is for mcp's `Client`."""
        headers = {"Authorization": f"Bearer {token or self.http_token}"}
        async with create_mcp_http_client(headers=headers) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=mode, **more) as client:
                yield client

    @asynccontextmanager
    async def browser(
        self,
        name: str = "profile",
        flags: Sequence[str] = (),
        *,
        is_registered: bool = True,
        extension: Path | None = EXTENSION,
        display: str = "",
    ) -> AsyncIterator[Chromium]:
        """A Chromium with a profile of that name, our host registered for it, and our extension.

        It has windows on an X display, if there is one. Without `extension` the profile has it already.
        """
        profile = self.home / name
        profile.mkdir(exist_ok=True)
        if is_registered:
            self.register(profile)
        # The host must not depend on the environment; what a killed browser leaves goes with the home.
        env = {"MCPB_HOME": "/nonexistent", "TMPDIR": str(self.home), "DISPLAY": display}
        async with open_chromium(profile, flags, is_headless=not display, env=env) as chromium:
            if extension:
                await chromium.load_extension(extension)
            yield chromium

    def register(self, profile: Path) -> None:
        """As `mcpb install-native-host --user-data-dir` does, with the same code, in a tenth of the time."""
        host = RegisteredHost(InstallationPaths(self.home, self.home), Path(sys.executable), bakes_home=True)
        apply.apply_plan(planning.plan_install(host, [user_data_dir_target(profile)], [], apply.read_place))

    @asynccontextmanager
    async def firefox(
        self,
        name: str = "firefox",
        preferences: Mapping[str, Preference] | None = None,
        *,
        is_registered: bool = True,
    ) -> AsyncIterator[Firefox]:
        """A Firefox with a profile of that name, our host registered for it, and our extension."""
        await self.mcpb("extension", "--firefox")
        if is_registered:
            await self.mcpb("install-native-host", "--browser", "firefox", "--yes")
        env = {"MCPB_HOME": "/nonexistent", "TMPDIR": str(self.home)}
        async with open_firefox(self.home, profile=name, preferences=preferences, env=env) as firefox:
            await firefox.load_extension(self.home / "extension-firefox")
            yield firefox

    async def open(self, chromium: Chromium, page: str) -> Page:
        """One of the test pages in a new tab."""
        return await chromium.open_page(f"{self.pages}/{page}")

    async def mcpb(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Run the mcpb command."""
        return await trio.run_process(
            [*MCPB, *args], env=self.env, capture_stdout=True, capture_stderr=True, check=check
        )

    async def status(self) -> Any:
        """`mcpb status --json`."""
        return json.loads((await self.mcpb("status", "--json")).stdout)

    @asynccontextmanager
    async def raw_client(self) -> AsyncIterator[RawClient]:
        """A bridge whose lines are written by hand; it ends with the block."""
        process = await trio.lowlevel.open_process(
            [*MCPB, "bridge"], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        async with process.stdin, process.stdout:
            yield RawClient(process)
        await process.wait()

    async def inspect(self, method: str, *args: str) -> Any:
        """One request through the MCP inspector's command line, a client nobody here wrote."""
        command = [str(INSPECTOR), "--cli", *MCPB, "bridge", "--method", method, *args]
        run = await trio.run_process(command, env=self.env, capture_stdout=True, capture_stderr=True)
        return json.loads(run.stdout)

    def name(self, tool: str, tab: int | None = 1, longest: int = MAX_NAME) -> str:
        """The public name of a tool in the test's own tab of this number; without one the best tab's."""
        in_tab = "" if tab is None else f"_tab{self.tabs_before + tab}"
        name = f"localhost_{self.pages.rpartition(':')[2]}{in_tab}_{tool}"
        whole = f"website_tool_{name}"
        return whole if len(whole) <= longest else f"web_{name}"


class RawClient:
    """A client that writes the protocol's lines by hand."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._buffer = b""
        self.notifications: list[str] = []

    async def say(self, **message: Any) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def ask(self, request_id: Any, method: str, **params: Any) -> Any:
        await self.say(id=request_id, method=method, params=params)
        while (message := await self._next()).get("id") != request_id:
            self.notifications.append(message["method"])
        return message.get("result", message.get("error"))

    async def heard(self, method: str) -> None:
        while method not in self.notifications:
            self.notifications.append((await self._next())["method"])

    async def _next(self) -> Any:
        assert self.process.stdout is not None
        while b"\n" not in self._buffer:
            data = await self.process.stdout.receive_some()
            assert data, "the bridge ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)


async def until_listens(port: int) -> None:
    """Until somebody takes connections to that port of this machine. Bound it."""
    while True:
        try:
            await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
        except OSError:
            await trio.sleep(0.02)
        else:
            return


async def page_tools(client: Client) -> set[str]:
    """The names of the page tools that a client is shown now."""
    listed = await client.list_tools(cache_mode="refresh")
    return {tool.name for tool in listed.tools if tool.name.startswith(("website_tool_", "web_"))}


async def page_resources(client: Client) -> set[str]:
    """The pages' own URIs of the resources that are listed."""
    uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
    return {found[1] for uri in uris if (found := re.fullmatch(r"mcpb://page/[^/]+/[^/]+/(.*)", uri))}


async def page_templates(client: Client) -> list[str]:
    """The public URI templates of pages."""
    listed = (await client.list_resource_templates()).resource_templates
    return [each.uri_template for each in listed if each.uri_template.startswith("mcpb://page/")]


async def until_resources(client: Client, *uris: str) -> None:
    """Wait until pages offer these resources, by their own URIs, and no others."""
    while await page_resources(client) != set(uris):  # noqa: ASYNC110 - other tests are about notifications
        await trio.sleep(0.05)


async def until_listed(client: Client, wanted: Callable[[set[str]], bool]) -> set[str]:
    """List until the list is as wanted. Bound it."""
    while not wanted(names := await page_tools(client)):  # noqa: ASYNC110 - for clients that are not told
        await trio.sleep(0.02)
    return names


async def call(client: Client, name: str, /, **arguments: Any) -> tuple[bool, str]:
    """Call a tool: whether it is an error, and its text."""
    result = await client.call_tool(name, arguments)
    return bool(result.is_error), "".join(getattr(block, "text", "") for block in result.content)


async def until_answered(client: Client, name: str, text: str, /, **arguments: Any) -> None:
    """Call until this is the result: the bridge hears of a host after its record is on the disk. Bound it."""
    while await call(client, name, **arguments) != (False, text):  # noqa: ASYNC110 - a call has no event
        await trio.sleep(0.02)


async def until_said(ask: Callable[[], Awaitable[str]], words: str) -> str:
    """Ask until the answer has these words in it. Bound it."""
    while words not in (answer := await ask()):  # noqa: ASYNC110 - a command tells nobody
        await trio.sleep(0.02)
    return answer
