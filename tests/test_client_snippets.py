"""What docs/HTTP.md tells people to give to their clients, taken from its text and tried."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
from mcp import Client
from mcp.client.sse import sse_client

from bridge.frontends.http.settings import PORT
from http_front import CLOSES_EARLY, GET_CART, SOON_S, open_front

ROOT = Path(__file__).parent.parent
HERE = f"http://localhost:{PORT}"
"""Where the text says that `mcpb serve` is."""


_SNIPPET = re.compile(r"^\*\*([\w ]+)\*\*|^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    client: str
    """As the text has it in bold before the snippet."""
    language: str
    text: str


def snippets(text: str) -> list[Snippet]:
    found, client = [], ""
    for bold, language, code in _SNIPPET.findall(text):
        client = bold or client
        if language:
            found.append(Snippet(client, language, code))
    return found


GUIDE = (ROOT / "docs/HTTP.md").read_text()
_, _, CONNECTING = GUIDE.partition("## Connect a client\n")
CONNECTING, _, _ = CONNECTING.partition("\n## ")
WITHOUT_TOKEN, _, WITH_TOKEN = CONNECTING.partition("**Where a token is needed**")
CLAUDE = [each for each in snippets(WITHOUT_TOKEN) if each.client == "Claude Code" and each.language == "sh"]
CURL = [each for each in snippets(WITHOUT_TOKEN) if each.client == "curl"]


def config(client: str) -> dict[str, Any]:
    """Of the one file that the text has for a client."""
    (found,) = (each for each in snippets(WITHOUT_TOKEN) if each.client == client and each.language != "sh")
    return read(found)


def read(snippet: Snippet) -> dict[str, Any]:
    found: dict[str, Any] = {"json": json.loads, "toml": tomllib.loads}[snippet.language](snippet.text)
    return found


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        ("Claude Code", {"mcpServers": {"browser": {"type": "http", "url": f"{HERE}/mcp"}}}),
        ("Cursor", {"mcpServers": {"browser": {"url": f"{HERE}/mcp"}}}),
        ("VS Code", {"servers": {"browser": {"type": "http", "url": f"{HERE}/mcp"}}}),
        ("Codex", {"mcp_servers": {"browser": {"url": f"{HERE}/mcp"}}}),
    ],
)
def test_a_file_for_a_client_has_the_keys_that_this_client_reads(client: str, entry: dict[str, Any]) -> None:
    assert config(client) == entry


@pytest.mark.parametrize(
    ("transport", "url"), [("http", f"{HERE}/mcp"), ("sse", f"{HERE}/sse")], ids=["http", "sse"]
)
def test_claude_code_is_told_which_transport_an_address_has(transport: str, url: str) -> None:
    commands = [shlex.split(each.text) for each in CLAUDE]
    assert ["claude", "mcp", "add", "--transport", transport, "browser", url] in commands


@CLOSES_EARLY
@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_a_client_that_is_given_the_address_gets_the_pages_tools(path: str) -> None:
    assert f"{HERE}{path}" in WITHOUT_TOKEN
    with trio.fail_after(SOON_S):
        async with open_front() as served:
            url = f"{served.url}{path}"
            async with Client(url) if path == "/mcp" else Client(sse_client(url), mode="legacy") as client:
                listed = await client.list_tools()
    assert GET_CART in {tool.name for tool in listed.tools}


@pytest.mark.parametrize("snippet", CURL, ids=["what there is", "a call"])
async def test_curl_gets_what_the_text_says(snippet: Snippet, tmp_path: Path) -> None:
    with trio.fail_after(SOON_S):
        async with open_front() as served:
            command = snippet.text.replace(HERE, served.url)
            assert served.url in command
            run = await trio.run_process(
                ["/bin/sh", "-c", command],
                capture_stdout=True,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_PROXY": "*"},
            )
    found = json.loads(run.stdout)
    text = json.dumps(found)
    assert GET_CART in text
    assert "error" not in found


def test_curl_is_shown_what_there_is_and_how_to_call_it() -> None:
    assert len(CURL) == 2


def test_each_client_sends_the_token_in_a_header_and_no_file_holds_it() -> None:
    claude, cursor, vs_code, codex = snippets(WITH_TOKEN)
    variable = "CLAUDE_BROWSER_AUTH_TOKEN"
    assert f'--header "Authorization: Bearer ${variable}"' in claude.text
    assert read(cursor)["mcpServers"]["browser"] == {
        "url": f"{HERE}/mcp",
        "headers": {"Authorization": f"Bearer ${{env:{variable}}}"},
    }
    (asked,) = read(vs_code)["inputs"]
    header = {"Authorization": f"Bearer ${{input:{asked['id']}}}"}
    assert asked["password"] is True
    assert read(vs_code)["servers"]["browser"] == {"type": "http", "url": f"{HERE}/mcp", "headers": header}
    assert read(codex)["mcp_servers"]["browser"] == {"url": f"{HERE}/mcp", "bearer_token_env_var": variable}


def said(text: str) -> set[str]:
    """All that a text has people type or write of `mcpb serve`."""
    found = set()
    for snippet in snippets(text):
        lines = snippet.text.splitlines() if snippet.language == "sh" else [snippet.text]
        found |= {line for line in lines if HERE in line.partition("#")[0]}
    return found


def test_the_readme_says_nothing_that_is_not_tried_here() -> None:
    readme = said((ROOT / "README.md").read_text())
    assert readme
    assert readme <= said(CONNECTING)
