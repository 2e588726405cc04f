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
    command = f'claude mcp add --transport http browser {url}mcp --header "{_header(token)}"'
    return ClientConfig("Run", command)


def _cursor(url: str, token: str) -> ClientConfig:
    return _json("~/.cursor/mcp.json", "mcpServers", {"url": f"{url}mcp", "headers": _headers(token)})


def _vscode(url: str, token: str) -> ClientConfig:
    entry = {"type": "http", "url": f"{url}mcp", "headers": _headers(token)}
    return _json("the user's mcp.json (MCP: Open User Configuration)", "servers", entry)


def _codex(url: str, token: str) -> ClientConfig:
    lines = [
        "[mcp_servers.browser]",
        f'url = "{url}mcp"',
        f'http_headers = {{ Authorization = "Bearer {token}" }}',
    ]
    return ClientConfig("Add to ~/.codex/config.toml", "\n".join(lines))


def _curl(url: str, token: str) -> ClientConfig:
    # A header from standard input is not visible to other users, as an argument is.
    return ClientConfig("Run", f"curl {url}tools -H @- <<'END'\n{_header(token)}\nEND")


def _json(file: str, key: str, entry: Mapping[str, object]) -> ClientConfig:
    return ClientConfig(f"Add to {file}", json.dumps({key: {"browser": entry}}, indent=2))


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _header(token: str) -> str:
    return f"Authorization: Bearer {token}"


_CLIENTS: dict[str, Callable[[str, str], ClientConfig]] = {
    "claude-code": _claude_code,
    "cursor": _cursor,
    "vscode": _vscode,
    "codex": _codex,
    "curl": _curl,
}
CLIENTS = tuple(_CLIENTS)
