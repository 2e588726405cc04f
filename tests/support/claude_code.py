"""The real Claude Code, with mcpb as its MCP server and a played model; install/prepare.sh brings it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.tokens.claude_code import run_conversation, stdio_server, tool_name
from benchmarks.tokens.model_api import PlayedModel, ToolUse
from claude_host import PROGRAM
from full_chain import MCPB, Chain


def use(name: str, /, **arguments: object) -> ToolUse:
    """Return a call of one of mcpb's tools."""
    return ToolUse(tool_name(name), arguments)


def run_claude_code(
    chain: Chain, script: Sequence[ToolUse], *options: str, words: str = "Go."
) -> PlayedModel:
    """Run one conversation in which the model calls these tools.

    `options` are those of `mcpb bridge`, and the user writes `words`.
    """
    server = stdio_server([*MCPB, "bridge", *options], chain.env)
    return run_conversation(PROGRAM, server, chain.home, script, words)


def run_remote_claude_code(
    chain: Chain, script: Sequence[ToolUse], transport: str, url: str, home: Path
) -> PlayedModel:
    """Run one conversation with `mcpb serve` at a URL; `transport` is `http` or `sse`."""
    path = {"http": "mcp", "sse": "sse"}[transport]
    headers = {"Authorization": f"Bearer {chain.http_token}"}
    server = {"type": transport, "url": f"{url}/{path}", "headers": headers}
    return run_conversation(PROGRAM, server, home, script)
