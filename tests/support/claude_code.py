"""The real Claude Code, with mcpb as its MCP server and a played model; install/prepare.sh brings it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from claude_host import PROGRAM
from full_chain import MCPB, Chain
from model_api import PlayedModel, ToolUse, serving_model

SERVER = "mcpb"
"""Name under which Claude Code knows mcpb."""
PATIENCE_S = 180


def tool(name: str) -> str:
    """Return the name under which the model knows a tool of mcpb."""
    return f"mcp__{SERVER}__{name}"


def use(name: str, /, **arguments: object) -> ToolUse:
    """Return a call of one of mcpb's tools."""
    return ToolUse(tool(name), arguments)


def run_claude_code(chain: Chain, script: Sequence[ToolUse], *options: str) -> PlayedModel:
    """Run one conversation in which the model calls these tools; `options` are those of `mcpb bridge`."""
    server = {"command": MCPB[0], "args": [*MCPB[1:], "bridge", *options], "env": chain.env}
    with serving_model(script) as model:
        command = [str(PROGRAM), "--print", "Go.", "--strict-mcp-config"]
        command += ["--mcp-config", json.dumps({"mcpServers": {SERVER: server}})]
        command += ["--allowedTools", f"mcp__{SERVER}__*", "ToolSearch"]
        run = subprocess.run(
            command,
            env=_environment(chain.home, model.url),
            cwd=chain.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
        return model


def _environment(home: Path, url: str) -> dict[str, str]:
    """Nothing but the played model is reached."""
    quiet = {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    model = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}
    return {**quiet, **model, "HOME": str(home), "PATH": os.environ["PATH"]}
