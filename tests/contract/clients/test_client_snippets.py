"""What `mcpb serve --print-config` and docs/HTTP.md give to people's clients, tried."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
from starlette.requests import Request

from bridge.config.settings import PORT, HttpSettings
from bridge.frontends.http.authorization import Authorization
from bridge.frontends.http.client_config import CLIENTS, client_config
from http_frontend import CLOSES_EARLY, GET_CART, SOON_S, OneToken, Served, open_front

ROOT = Path(__file__).parents[3]
HERE = f"http://localhost:{PORT}"
"""Where the text says that `mcpb serve` is."""
TOKEN = "aB3-_aB3-_aB3-_aB3-_aB3-_aB3-_aB3-_aB3-_aB3"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
CLAUDE_CODE = ROOT / "tests/data/interop/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
CONNECTED_S = 60

_SNIPPET = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    language: str
    text: str


def snippets(text: str) -> list[Snippet]:
    return [Snippet(*found) for found in _SNIPPET.findall(text)]


GUIDE = (ROOT / "docs/HTTP.md").read_text()
_, _, CONNECTING = GUIDE.partition("## Connect a client\n")
CONNECTING, _, _ = CONNECTING.partition("\n## ")
IN_FILES, _, WITH_CURL = CONNECTING.partition("**With curl**")


def read(snippet: Snippet) -> dict[str, Any]:
    found: dict[str, Any] = {"json": json.loads, "toml": tomllib.loads}[snippet.language](snippet.text)
    return found


# ── What is printed ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("client", "language", "entry"),
    [
        ("cursor", "json", {"mcpServers": {"browser": {"url": f"{HERE}/mcp", "headers": HEADERS}}}),
        (
            "vscode",
            "json",
            {"servers": {"browser": {"type": "http", "url": f"{HERE}/mcp", "headers": HEADERS}}},
        ),
        ("codex", "toml", {"mcp_servers": {"browser": {"url": f"{HERE}/mcp", "http_headers": HEADERS}}}),
    ],
)
def test_a_printed_entry_has_the_keys_that_this_client_reads(
    client: str, language: str, entry: dict[str, Any]
) -> None:
    assert read(Snippet(language, client_config(client, f"{HERE}/", TOKEN).text)) == entry


async def test_printed_curl_command_lists_the_pages_tools(tmp_path: Path) -> None:
    with trio.fail_after(SOON_S):
        async with serving() as served:
            printed = client_config("curl", f"{served.url}/", TOKEN).text
            found = await output_of(printed, tmp_path)
    assert GET_CART in {tool["name"] for tool in json.loads(found)["tools"]}
    assert all(TOKEN not in line for line in printed.splitlines() if "curl" in line)


@CLOSES_EARLY
@pytest.mark.skipif(not CLAUDE_CODE.exists(), reason="npm ci in tests/data/interop installs it")
async def test_printed_claude_mcp_add_connects_claude_code(tmp_path: Path) -> None:
    """`claude mcp list` connects to each server that was added."""
    (tmp_path / "claude").symlink_to(CLAUDE_CODE)
    with trio.fail_after(CONNECTED_S):
        async with serving() as served:
            printed = client_config("claude-code", f"{served.url}/", TOKEN).text
            await output_of(printed, tmp_path)
            listed = await output_of("claude mcp list", tmp_path)
    assert f"browser: {served.url}/mcp (HTTP) - ✔ Connected" in listed.replace("✓", "✔")


def test_help_names_every_client() -> None:
    assert CLIENTS == ("claude-code", "cursor", "vscode", "codex", "curl")
    assert all(f"| `{client}` |" in CONNECTING for client in CLIENTS)


def serving() -> AbstractAsyncContextManager[Served]:
    """A server behind the real gate, whose one token is TOKEN."""

    async def admit(request: Request) -> dict[str, str]:
        gate = Authorization(HttpSettings(), request.scope["server"][1], OneToken(TOKEN), lambda _: False)
        return await gate.admit(request)

    return open_front(admit=admit)


async def output_of(command: str, home: Path) -> str:
    run = await trio.run_process(
        ["/bin/sh", "-c", command],
        capture_stdout=True,
        stderr=subprocess.DEVNULL,
        cwd=home,
        env={"PATH": f"{home}:{os.environ['PATH']}", "HOME": str(home), "NO_PROXY": "*"},
    )
    return run.stdout.decode()


# ── What the page says ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("snippet", snippets(WITH_CURL), ids=["list", "call"])
async def test_curl_gets_what_the_text_says(snippet: Snippet, tmp_path: Path) -> None:
    kept = tmp_path / ".mcpb/state/http-token"
    kept.parent.mkdir(parents=True)
    kept.write_text(f"{TOKEN}\n")
    with trio.fail_after(SOON_S):
        async with serving() as served:
            assert HERE in snippet.text
            found = json.loads(await output_of(snippet.text.replace(HERE, served.url), tmp_path))
    assert GET_CART in json.dumps(found)
    assert "error" not in found


def test_files_that_are_shared_contain_no_token() -> None:
    _, claude, cursor, vs_code, codex = snippets(IN_FILES)
    variable = "CLAUDE_BROWSER_AUTH_TOKEN"
    assert read(claude)["mcpServers"]["browser"] == {
        "type": "http",
        "url": f"{HERE}/mcp",
        "headers": {"Authorization": f"Bearer ${{{variable}}}"},
    }
    assert read(cursor)["mcpServers"]["browser"] == {
        "url": f"{HERE}/mcp",
        "headers": {"Authorization": f"Bearer ${{env:{variable}}}"},
    }
    (asked,) = read(vs_code)["inputs"]
    header = {"Authorization": f"Bearer ${{input:{asked['id']}}}"}
    assert asked["password"] is True
    assert read(vs_code)["servers"]["browser"] == {"type": "http", "url": f"{HERE}/mcp", "headers": header}
    assert read(codex)["mcp_servers"]["browser"] == {"url": f"{HERE}/mcp", "bearer_token_env_var": variable}


def test_the_readme_contains_no_command_that_is_not_tried_here() -> None:
    said = [snippet.text for snippet in snippets((ROOT / "README.md").read_text()) if "serve" in snippet.text]
    printed = [line for text in said for line in text.splitlines() if "--print-config" in line]
    assert printed == ["mcpb serve --print-config claude-code"]
    assert not [text for text in said if f"{HERE}/" in text]
