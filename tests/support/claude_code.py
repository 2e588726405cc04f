"""The real Claude Code, with mcpb as its MCP server and a played model; install/prepare.sh brings it."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.tokens.claude_code import run_conversation, tool_name
from benchmarks.tokens.model_api import PlayedModel, ToolUse
from claude_host import PROGRAM
from full_chain import MCPB, Chain


def use(name: str, /, **arguments: object) -> ToolUse:
    """Return a call of one of mcpb's tools."""
    return ToolUse(tool_name(name), arguments)


def run_claude_code(chain: Chain, script: Sequence[ToolUse], *options: str) -> PlayedModel:
    """Run one conversation in which the model calls these tools; `options` are those of `mcpb bridge`."""
    return run_conversation(PROGRAM, [*MCPB, "bridge", *options], chain.env, chain.home, script)
