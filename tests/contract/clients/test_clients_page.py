"""docs/CLIENTS.md names the versions of the clients that are installed and run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.metadata import version

import pytest

from foreign_clients import CLIENTS, REQUIREMENTS, ROOT

NPM: Mapping[str, str] = json.loads((CLIENTS / "package.json").read_text())["dependencies"]
CLAUDE_CODE: Mapping[str, str] = json.loads((ROOT / "tests/data/interop/package.json").read_text())[
    "dependencies"
]
INSTALLED = {
    "Claude Code": CLAUDE_CODE["@anthropic-ai/claude-code-linux-x64"],
    "Codex CLI": NPM["@openai/codex"],
    "Gemini CLI": NPM["@google/gemini-cli"],
    "opencode": NPM["opencode-ai"],
    "Qwen Code": NPM["@qwen-code/qwen-code"],
    "MCP Inspector": NPM["@modelcontextprotocol/inspector"],
    "TypeScript SDK 1.x": NPM["typescript-sdk-1"].rpartition("@")[2],
    "TypeScript SDK 2.x": NPM["@modelcontextprotocol/client"],
    "Python SDK 1.x": REQUIREMENTS["python-sdk-1"].partition("==")[2],
    "Python SDK 2.x": version("mcp"),
    "fastmcp": REQUIREMENTS["fastmcp"].partition("==")[2],
    "langchain-mcp-adapters": REQUIREMENTS["langchain-mcp-adapters"].partition("==")[2],
    "pydantic-ai": REQUIREMENTS["pydantic-ai"].partition("==")[2],
}


@pytest.mark.parametrize("client", INSTALLED)
def test_the_page_names_the_version_that_is_run(client: str) -> None:
    page = (ROOT / "docs/CLIENTS.md").read_text()
    (row,) = re.findall(rf"^\| {re.escape(client)}[^|]*\| ([^ |]+) \|", page, re.MULTILINE)
    assert row == INSTALLED[client]
