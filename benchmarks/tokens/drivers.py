"""Products that run scripts of calls, and the texts that a model gets from each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks import peers
from benchmarks.conversation import EndError
from benchmarks.mcp_client import McpClient
from benchmarks.processes import Corner
from benchmarks.tokens.claude_code import run_conversation, stdio_server, tool_name
from benchmarks.tokens.model_api import Decision, PlayedModel, ToolResult, ToolUse
from benchmarks.tokens.tasks import Call, Script
from demo.chromium import find_chromium

_CALL_S = 60


@dataclass
class Cost:
    """What a script cost, and what it reported."""

    calls: int = 0
    arguments: list[str] = field(default_factory=list)
    """Of each call, as JSON or as a command line."""
    texts: list[str] = field(default_factory=list)
    """Of each result, as the model gets it."""
    outcome: str = ""


class Driver(Protocol):
    """A product with a browser, or with the means to start one."""

    def run(self, script: Script) -> Cost:
        """Run a script to its end.

        Raises:
            EndError: a call failed.
        """
        ...


# ── mcpb, through Claude Code ───────────────────────────────────────────────────────────────────────────────


class ThroughClaudeCode:
    """mcpb as the real Claude Code passes it to its model, one conversation for each script."""

    def __init__(self, home: Path, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._home = home
        self._command = command
        self._env = env
        home.mkdir(exist_ok=True)

    def run(self, script: Script) -> Cost:
        """See `Driver`."""
        cost = Cost()
        failures: list[EndError] = []

        def decide(results: Sequence[ToolResult]) -> ToolUse | None:
            try:
                call = _advance(script, cost, results[-1] if results else None)
            except EndError as error:  # raised in a thread of the played model
                failures.append(error)
                return None
            return call and ToolUse(tool_name(call.tool), dict(call.arguments))

        self.converse(decide)
        for failure in failures:
            raise failure
        return cost

    def converse(self, script: Sequence[ToolUse] | Decision) -> PlayedModel:
        """Run a conversation, and return what its model was given."""
        server = stdio_server(self._command, self._env)
        return run_conversation(peers.PACKAGES / peers.CLAUDE / "claude", server, self._home, script)


def _advance(script: Script, cost: Cost, result: ToolResult | None) -> Call | None:
    if result is None:
        call = next(script)
    else:
        if result.is_error:
            raise EndError(f"a call failed: {cost.arguments[-1]}: {result.text}")
        cost.texts.append(result.text)
        try:
            call = script.send(result.text)
        except StopIteration as end:
            cost.outcome = end.value
            return None
    cost.calls += 1
    cost.arguments.append(_format_call(call))
    return call


def _format_call(call: Call) -> str:
    return f"{call.tool} {json.dumps(call.arguments, ensure_ascii=False)}" if call.arguments else call.tool


# ── Products that are MCP servers ───────────────────────────────────────────────────────────────────────────


class ThroughMcp:
    """A server on stdio: all text blocks of its results, which have no `structuredContent`."""

    def __init__(self, client: McpClient[Any]) -> None:
        self._client = client

    def list_tools(self) -> list[dict[str, Any]]:
        """Return the tool list."""
        tools: list[dict[str, Any]] = self._client.conversation.ask("tools/list", {})["tools"]
        return tools

    def run(self, script: Script) -> Cost:
        """See `Driver`."""
        return run_calls(script, self._call)

    def _call(self, call: Call) -> ToolResult:
        params = {"name": call.tool, "arguments": call.arguments}
        result = self._client.conversation.ask("tools/call", params)
        text = "\n".join(block.get("text", "") for block in result["content"])
        return ToolResult(text, 0, is_error=bool(result.get("isError")))


def run_calls(script: Script, ask: Callable[[Call], ToolResult]) -> Cost:
    """Run a script, call by call.

    Raises:
        EndError: a call failed.
    """
    cost = Cost()
    call = _advance(script, cost, None)
    while call:
        call = _advance(script, cost, ask(call))
    return cost


# ── agent-browser ───────────────────────────────────────────────────────────────────────────────────────────


class ThroughShell:
    """agent-browser: commands of a shell, and what they print."""

    def __init__(self, corner: Corner) -> None:
        programs = corner.directory / "bin"
        programs.mkdir()
        (programs / "agent-browser").symlink_to(peers.agent_browser())
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        own = {"AGENT_BROWSER_EXECUTABLE_PATH": str(find_chromium()), "AGENT_BROWSER_ARGS": "--no-sandbox"}
        self.env = {**corner.env, **own, "PATH": path, "NO_COLOR": "1"}

    def with_boundaries(self) -> ThroughShell:
        """Return the same with a boundary around what a page wrote, as mcpb always has one."""
        marking = copy(self)
        marking.env = {**self.env, "AGENT_BROWSER_CONTENT_BOUNDARIES": "1"}
        return marking

    def run(self, script: Script) -> Cost:
        """See `Driver`."""
        return run_calls(script, self._call)

    def _call(self, call: Call) -> ToolResult:
        ended = subprocess.run(
            ["/bin/sh", "-c", call.tool],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=_CALL_S,
            check=False,
        )
        text = ended.stdout + (ended.stderr if ended.returncode else "")
        return ToolResult(text, 0, is_error=ended.returncode != 0)

    def close(self) -> None:
        """End its daemon and its browser."""
        self._call(Call("agent-browser close --all"))


@contextmanager
def open_agent_browser(directory: Path) -> Iterator[ThroughShell]:
    """Run agent-browser, for the time of the block."""
    shell = ThroughShell(Corner.below(directory))
    try:
        yield shell
    finally:
        shell.close()


# ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────

_COUNT = """
import { encode } from "gpt-tokenizer/encoding/o200k_base";
import { readFileSync } from "node:fs";
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map((text) => encode(text).length)));
"""


def count_tokens(texts: Sequence[str]) -> list[int]:
    """Return the o200k tokens of each text.

    Raises:
        EndError: Node.js or the tokenizer is missing.
    """
    node = shutil.which("node") or str(peers.NODE)
    ended = subprocess.run(
        [node, "--input-type=module", "--eval", _COUNT],
        input=json.dumps(list(texts)),
        cwd=peers.PACKAGES.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise EndError(f"tokens cannot be counted: make bench-peers ({ended.stderr[-300:]})")
    counted: list[int] = json.loads(ended.stdout)
    return counted
