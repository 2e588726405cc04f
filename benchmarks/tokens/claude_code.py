"""The real Claude Code in one conversation with a played model, with one MCP server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.conversation import EndError
from benchmarks.tokens.model_api import Decision, PlayedModel, ToolUse, serving_model

SERVER = "mcpb"
"""Name under which Claude Code knows mcpb."""
PATIENCE_S = 180


def tool_name(name: str) -> str:
    """Return the name under which the model knows a tool of mcpb."""
    return f"mcp__{SERVER}__{name}"


def stdio_server(command: Sequence[str], env: Mapping[str, str]) -> Mapping[str, object]:
    """Return the entry of a server that Claude Code starts."""
    return {"command": command[0], "args": list(command[1:]), "env": dict(env)}


def run_conversation(
    program: Path,
    server: Mapping[str, object],
    home: Path,
    script: Sequence[ToolUse] | Decision,
    words: str = "Go.",
) -> PlayedModel:
    """Run one conversation in which the model calls the tools of the script.

    Args:
        program: Claude Code.
        server: the MCP server, as `--mcp-config` names it.
        home: home directory of Claude Code, and its working directory.
        script: the calls.
        words: what the user writes, such as a slash command.

    Raises:
        EndError: Claude Code failed; the text has what it wrote.
    """
    with serving_model(script) as model:
        run = subprocess.run(
            [
                *(str(program), "--print", words, "--strict-mcp-config"),
                *("--mcp-config", json.dumps({"mcpServers": {SERVER: server}})),
                *("--allowedTools", f"mcp__{SERVER}__*", "ToolSearch", "ReadMcpResourceTool"),
            ],
            env=_environment(home, model.url),
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    if run.returncode:
        raise EndError(f"Claude Code failed: {run.stdout}\n{run.stderr}")
    return model


def _environment(home: Path, url: str) -> dict[str, str]:
    """Nothing but the played model is reached."""
    quiet = {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    model = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}
    return {**quiet, **model, "HOME": str(home), "PATH": os.environ["PATH"]}
