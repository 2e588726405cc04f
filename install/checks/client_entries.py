"""Entries of mcpb in the settings of MCP clients. It only reads: clients write these files themselves.

An entry is mcpb's if its command is `mcpb` or `mcpb-bridge`, wherever that lies, with the argument `bridge`.
One with a URL is mcpb's if it names an address of `mcpb serve` on this machine.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import msgspec

from install.machine import Machine
from native_host.protocol.untrusted_text import escape
from native_host.system.untrusted_files import whole

_LARGEST_BYTES = 8 * 1024 * 1024
"""Bytes of a file: Claude Code keeps the history of its projects in the same one."""
_NAMES = {"mcpb", "mcpb-bridge"}
_URL_MEMBERS = ("url", "httpUrl", "serverUrl")
_SERVE_URL = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\]):(\d+)/(?:mcp|sse)")
_SERVE_PORT = "3456"
"""Port of `mcpb serve` without configuration."""
_SERVE_NAME = "browser"
"""Name in the entries that `mcpb serve --print-config` prints."""


@dataclass(frozen=True)
class ClientEntry:
    """An MCP server in a client's settings that starts mcpb or connects to it."""

    client: str
    name: str
    removal: str
    """Command that removes it, or where the user removes it."""


def find_client_entries(machine: Machine) -> list[ClientEntry]:
    """Return the entries of the clients in docs/CLIENTS.md that have settings, and of VS Code."""
    return [*_in_claude_code(machine), *_in_commands(machine), *_in_files(machine)]


def _in_claude_code(machine: Machine) -> Iterator[ClientEntry]:
    """Yield those of the scopes `user` and `local`; the latter are listed by project."""
    chosen = machine.environ.get("CLAUDE_CONFIG_DIR")
    settings = _read_json((Path(chosen) if chosen else machine.user_home) / ".claude.json")
    for name in _ours(settings.get("mcpServers")):
        yield ClientEntry("Claude Code", name, _removal(name, "user"))
    for project, its in _object_of(settings.get("projects")).items():
        for name in _ours(_object_of(its).get("mcpServers")):
            yield ClientEntry("Claude Code", name, f"cd {_quote(project)} && {_removal(name, 'local')}")


def _removal(name: str, scope: str) -> str:
    return f"claude mcp remove --scope {scope} {_quote(name)}"


def _in_commands(machine: Machine) -> Iterator[ClientEntry]:
    """Yield those that a command of their client removes."""
    home = machine.user_home
    codex = Path(machine.environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    for name in _ours(_read_toml(codex).get("mcp_servers")):
        yield ClientEntry("Codex", name, f"codex mcp remove {_quote(name)}")
    for client, command in (("Gemini CLI", "gemini"), ("Qwen Code", "qwen")):
        for name in _ours(_read_json(home / f".{command}/settings.json").get("mcpServers")):
            yield ClientEntry(client, name, f"{command} mcp remove --scope user {_quote(name)}")


def _in_files(machine: Machine) -> Iterator[ClientEntry]:
    """Yield those that the user removes in a file."""
    home = machine.user_home
    settings = home / ("Library/Application Support" if machine.system == "macos" else ".config")
    configuration = Path(machine.environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [
        ("Cursor", home / ".cursor/mcp.json", "mcpServers"),
        ("VS Code", settings / "Code/User/mcp.json", "servers"),
        ("Windsurf", home / ".codeium/windsurf/mcp_config.json", "mcpServers"),
        ("Claude Desktop", settings / "Claude/claude_desktop_config.json", "mcpServers"),
        ("opencode", configuration / "opencode/opencode.json", "mcp"),
    ]
    for client, path, member in files:
        for name in _ours(_read_json(path).get(member)):
            yield ClientEntry(client, name, f"remove it in {path}")


def _ours(servers: Any) -> list[str]:
    return [
        name
        for name, server in _object_of(servers).items()
        if _starts_mcpb(_object_of(server)) or _connects_to_mcpb(name, _object_of(server))
    ]


def _starts_mcpb(server: Mapping[str, Any]) -> bool:
    command, arguments = server.get("command"), server.get("args")
    if isinstance(command, list):  # opencode
        command, arguments = (command or [None])[0], command[1:]
    if not isinstance(command, str) or not isinstance(arguments, list):
        return False
    return PurePath(command).name in _NAMES and "bridge" in arguments


def _connects_to_mcpb(name: str, server: Mapping[str, Any]) -> bool:
    url = next((server[member] for member in _URL_MEMBERS if member in server), None)
    address = _SERVE_URL.fullmatch(url) if isinstance(url, str) else None
    return address is not None and (name == _SERVE_NAME or address[1] == _SERVE_PORT)


def _quote(text: str) -> str:
    return shlex.quote(escape(text))


def _read_json(path: Path) -> Mapping[str, Any]:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _object_of(msgspec.json.decode(whole(path, _LARGEST_BYTES) or b"{}"))
    return {}


def _read_toml(path: Path) -> Mapping[str, Any]:
    with suppress(tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return tomllib.loads((whole(path, _LARGEST_BYTES) or b"").decode())
    return {}


def _object_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
