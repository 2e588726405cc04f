"""Configuration snippets of MCP clients for `mcpb serve`, with address and token.

It neither writes a client's files nor starts a client. Sources: the clients' own documentation of remote MCP
servers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple


class ClientConfig(NamedTuple):
    """A snippet, and where it belongs."""

    place: str
    text: str


def client_config(client: str, url: str, token: str) -> ClientConfig:
    """Return the snippet of one of `CLIENTS`. `url` is the server's, with a slash at its end."""
    return _CLIENTS[client](url, token)


def _claude_code(url: str, token: str) -> ClientConfig:
    command = (
        f'claude mcp add --scope user --transport http browser {url}mcp --header "{_header_line(token)}"'
    )
    return ClientConfig("Run", command)


def _cursor_config(url: str, token: str) -> ClientConfig:
    return _json_config(
        "~/.cursor/mcp.json", "mcpServers", {"url": f"{url}mcp", "headers": _header_lines(token)}
    )


def _vscode_config(url: str, token: str) -> ClientConfig:
    entry = {"type": "http", "url": f"{url}mcp", "headers": _header_lines(token)}
    return _json_config("the user's mcp.json (MCP: Open User Configuration)", "servers", entry)


def _codex_config(url: str, token: str) -> ClientConfig:
    lines = [
        "[mcp_servers.browser]",
        f'url = "{url}mcp"',
        f'http_headers = {{ Authorization = "Bearer {token}" }}',
    ]
    return ClientConfig("Add to ~/.codex/config.toml", "\n".join(lines))


def _curl_command(url: str, token: str) -> ClientConfig:
    # A header from standard input is not visible to other users, as an argument is.
    return ClientConfig("Run", f"curl {url}tools -H @- <<'END'\n{_header_line(token)}\nEND")


def _json_config(file: str, key: str, entry: Mapping[str, object]) -> ClientConfig:
    return ClientConfig(f"Add to {file}", json.dumps({key: {"browser": entry}}, indent=2))


def _header_lines(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _header_line(token: str) -> str:
    return f"Authorization: Bearer {token}"


_CLIENTS: dict[str, Callable[[str, str], ClientConfig]] = {
    "claude-code": _claude_code,
    "cursor": _cursor_config,
    "vscode": _vscode_config,
    "codex": _codex_config,
    "curl": _curl_command,
}
CLIENTS = tuple(_CLIENTS)
