"""MCP clients of other projects call a page's tool and browser tools; `make clients` installs and runs them.

The page's server is the judge of what was called. For agents, the request body that their model receives is
the judge of what arrives; the models are played.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tokens.claude_code import tool_name
from benchmarks.tokens.model_api import ToolUse
from claude_code import run_remote_claude_code
from claude_host import why_missing
from foreign_clients import (
    AGENTS,
    CLIENTS,
    INSPECTOR,
    LEAVERS,
    LIBRARIES,
    NODE,
    Agent,
    Library,
    Server,
    run_agent,
)
from full_chain import MCPB, ROOT
from logged_hosts import LoggedHosts, serve_logged_hosts
from played_models import serving_models
from tool_browser import Browsing, open_browsing
from tool_pages import public_name, set_tool_page, until_listed

pytestmark = [
    pytest.mark.skipif(not INSPECTOR.exists(), reason="not installed: run make clients"),
    pytest.mark.timeout(400),
]

HOST = "shop.localhost"
PRICE = {
    "name": "getPrice",
    "description": "The price.",
    "result": {"content": [{"type": "text", "text": "1250 EUR"}]},
}
PATIENCE_S = 180
TRANSPORTS = ("stdio", "http")
WITH_SSE = (*TRANSPORTS, "sse")


@pytest.fixture(scope="module")
def hosts() -> Iterator[LoggedHosts]:
    with serve_logged_hosts() as opened:
        yield opened


@pytest.fixture(scope="module")
def browsing() -> Iterator[Browsing]:
    with open_browsing() as opened:
        yield opened


@pytest.fixture(scope="module")
def served(browsing: Browsing) -> Iterator[str]:
    """URL of `mcpb serve`."""
    with browsing.thread.holding(browsing.chain.serving()) as url:
        yield url


@pytest.fixture(scope="module")
def shop(browsing: Browsing, hosts: LoggedHosts) -> Iterator[str]:
    """Address of a page that offers a tool and is open in a tab of the user."""
    url = set_tool_page(hosts, HOST, "/", PRICE, body="<h1>Tea</h1>")
    tab = browsing.browser.open(url)
    with browsing.client() as tools:
        until_listed(browsing, tools, public_name(hosts, HOST, "getPrice"))
    yield url
    tab.close()


def calls(hosts: LoggedHosts, shop: str) -> Sequence[ToolUse]:
    """The page's tool, a browser tool with text, and one with an image."""
    return (
        ToolUse(public_name(hosts, HOST, "getPrice"), {}),
        ToolUse("navigate", {"url": shop}),
        ToolUse("computer", {"action": "screenshot"}),
    )


def server_for(browsing: Browsing, url: str, transport: str) -> Server:
    if transport == "stdio":
        return Server((*MCPB, "bridge", "--name", "browser"), browsing.chain.env)
    return Server(url=f"{url}/mcp", token=browsing.chain.http_token)


# ── Agents ──────────────────────────────────────────────────────────────────────────────────────────────────


def script_of(agent: Agent, uses: Sequence[ToolUse]) -> Sequence[ToolUse]:
    """The calls as this agent's model makes them."""
    if not agent.is_lazy:
        return uses
    script = []
    for use in uses:
        name = agent.prefix + use.name
        script.append(ToolUse("tool_search", {"query": f"select:{name}"}))
        script.append(ToolUse("tool_call", {"name": name, "arguments": use.input}))
    return script


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_the_model_of_an_agent_receives_results_of_page_and_browser_tools(
    agent: Agent,
    transport: str,
    browsing: Browsing,
    hosts: LoggedHosts,
    shop: str,
    served: str,
    tmp_path: Path,
) -> None:
    before = len(hosts.requests(HOST))
    script = script_of(agent, calls(hosts, shop))
    with serving_models(script) as model:
        printed = run_agent(agent, tmp_path, model.url, server_for(browsing, served, transport), PATIENCE_S)

    assert len(model.results) == len(script), printed
    *_, price, navigated, pictured = model.results[1::2] if agent.is_lazy else model.results
    assert "1250 EUR" in json.dumps(price)
    assert f"is at {shop}" in json.dumps(navigated)
    assert "/9j/" in json.dumps(pictured), "no JPEG in base64"
    assert [it.path for it in hosts.requests(HOST)[before:]] == ["/called?getPrice", "/"]


@pytest.mark.parametrize(
    "agent", [agent for agent in AGENTS if not agent.is_lazy], ids=lambda agent: agent.name
)
def test_the_model_of_an_agent_is_offered_every_listed_tool_once(
    agent: Agent, browsing: Browsing, shop: str, tmp_path: Path
) -> None:
    with browsing.client() as tools:
        listed = {tool.name for tool in browsing.thread.run(tools.client.list_tools).tools}
    with serving_models([ToolUse("navigate", {"url": shop})]) as model:
        run_agent(agent, tmp_path, model.url, server_for(browsing, "", "stdio"), PATIENCE_S)

    offered = [name.rpartition("/")[2].removeprefix(agent.prefix) for name in model.tools]
    missing = [name for name in listed if name not in offered and not name.startswith(("website_", "web_"))]
    assert missing == []
    assert len(offered) == len(set(offered))


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_the_model_of_claude_code_receives_results_through_the_server(
    transport: str, browsing: Browsing, hosts: LoggedHosts, shop: str, served: str, tmp_path: Path
) -> None:
    """Over stdio, tests/contract/clients/test_claude_code.py has more."""
    before = len(hosts.requests(HOST))
    script = [each._replace(name=tool_name(each.name)) for each in calls(hosts, shop)]
    model = run_remote_claude_code(browsing.chain, script, transport, served, tmp_path)

    price, navigated, pictured = model.results
    assert price.text == "1250 EUR"
    assert f"is at {shop}" in navigated.text
    assert pictured.images == 1
    assert [it.path for it in hosts.requests(HOST)[before:]] == ["/called?getPrice", "/"]


# ── Libraries ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("transport", WITH_SSE)
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_a_library_receives_results_of_page_and_browser_tools(
    library: Library, transport: str, browsing: Browsing, hosts: LoggedHosts, shop: str, served: str
) -> None:
    before = len(hosts.requests(HOST))
    server = {"stdio": (*MCPB, "bridge"), "http": (f"{served}/mcp",), "sse": (f"{served}/sse",)}[transport]
    env = {
        **browsing.chain.env,
        "ACCESS_TOKEN": browsing.chain.http_token,
        "CALLS": json.dumps(calls(hosts, shop)),
    }
    run = subprocess.run(
        [*map(str, library.command), transport, *server],
        cwd=CLIENTS,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    printed = json.loads(run.stdout)
    assert {"navigate", "computer", calls(hosts, shop)[0].name} <= set(printed["tools"])
    assert printed.get("errors", []) == []
    price, navigated, pictured = printed["results"]
    assert "1250 EUR" in json.dumps(price)
    assert f"is at {shop}" in json.dumps(navigated)
    assert any(block["type"] == "image" for block in pictured)
    assert [it.path for it in hosts.requests(HOST)[before:]] == ["/called?getPrice", "/"]


@pytest.mark.parametrize("transport", WITH_SSE)
@pytest.mark.parametrize("library", LEAVERS, ids=lambda library: library.name)
def test_an_sdk_has_no_error_of_calls_that_it_cancels_or_leaves_open(
    library: Library, transport: str, browsing: Browsing, shop: str, served: str
) -> None:
    server = {"stdio": (*MCPB, "bridge"), "http": (f"{served}/mcp",), "sse": (f"{served}/sse",)}[transport]
    first, slow = ("navigate", {"url": shop}), ("wait_for", {"text": "never shown", "timeout": 30})
    env = {
        **browsing.chain.env,
        "ACCESS_TOKEN": browsing.chain.http_token,
        "CALLS": json.dumps([first, slow]),
    }
    run = subprocess.run(
        [*map(str, library.command), transport, *server],
        cwd=CLIENTS,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {"errors": []}


@pytest.mark.parametrize("transport", WITH_SSE)
def test_the_inspector_receives_results_of_page_and_browser_tools(
    transport: str, browsing: Browsing, hosts: LoggedHosts, shop: str, served: str, tmp_path: Path
) -> None:
    name = calls(hosts, shop)[0].name
    header = ("--header", f"Authorization: Bearer {browsing.chain.http_token}")
    home = ("-e", f"MCPB_HOME={browsing.chain.home}")
    server: Sequence[str] = {
        "stdio": (*MCPB, "bridge", *home),
        "http": (f"{served}/mcp", *header),
        "sse": (f"{served}/sse", *header),
    }[transport]

    def inspect(*request: str) -> Any:
        env = {**browsing.chain.env, "PATH": f"{NODE}:{browsing.chain.env['PATH']}", "HOME": str(tmp_path)}
        command = [str(INSPECTOR), "--cli", *server, "--method", *request]
        run = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return json.loads(run.stdout)

    assert name in [tool["name"] for tool in inspect("tools/list")["tools"]]
    before = len(hosts.requests(HOST))
    price = inspect("tools/call", "--tool-name", name)
    # Each run is a session of its own, whose tabs are gone with it: both calls are one batch.
    actions = json.dumps([{"name": each.name, "input": each.input} for each in calls(hosts, shop)[1:]])
    batch = inspect("tools/call", "--tool-name", "browser_batch", "--tool-arg", f"actions={actions}")
    assert price["content"][0]["text"] == "1250 EUR"
    assert f"is at {shop}" in json.dumps(batch)
    assert any(block["type"] == "image" for block in batch["content"])
    assert [it.path for it in hosts.requests(HOST)[before:]] == ["/called?getPrice", "/"]


# ── docs/CLIENTS.md ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("agent", "listing"), [("codex", "enabled"), ("gemini", "Connected"), ("qwen", "Connected")]
)
def test_the_documented_command_adds_mcpb(
    agent: str, listing: str, browsing: Browsing, tmp_path: Path
) -> None:
    page = (ROOT / "docs/CLIENTS.md").read_text()
    (command,) = re.findall(rf"^{agent} mcp add .*$", page, re.MULTILINE)
    installed = tmp_path / ".local/bin/mcpb"
    installed.parent.mkdir(parents=True)
    installed.write_text(f'#!/bin/sh\nexec {shlex.join(MCPB)} "$@"\n')
    installed.chmod(0o755)
    path = f"{CLIENTS / 'node_modules/.bin'}:{NODE}:{browsing.chain.env['PATH']}"
    trusted = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_API_KEY": "none", "OPENAI_API_KEY": "none"}
    env = {**browsing.chain.env, **trusted, "HOME": str(tmp_path), "PATH": path}

    def run(line: str) -> str:
        ended = subprocess.run(
            ["/bin/sh", "-c", line],
            env=env,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    run(command)
    (line,) = [line for line in run(f"{agent} mcp list").splitlines() if "mcpb" in line]
    assert "browser" in line
    assert "bridge" in line
    assert "--name browser" in line
    assert listing in line
