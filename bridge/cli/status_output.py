"""Another product's channel, as `mcpb status` and `mcpb doctor` tell people of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from native_host.existing_channel.channel_messages import BRAND


def whose_and_used(channel: Mapping[str, Any]) -> str:
    """Whose it is, who started it, and whether mcpb uses it. `channel` is a `Channel` as JSON has it."""
    profile = f" with {channel['userDataDir']}" if channel["userDataDir"] else ""
    by = f", started by {channel['browser']} (pid {channel['browserPid']}){profile}"
    return f"{channel['title']}{by if channel['browser'] else ''}: {channel['use']}"


def where_and_who(channel: Mapping[str, Any]) -> str:
    """Its socket, its program and who is connected, as far as the system says; empty for one without any."""
    return ", ".join(_facts(channel))


def put_there_by_us(socket: Mapping[str, Any]) -> str:
    """A socket of ours among its own. `socket` is a `published_channel.Standing` as JSON has it."""
    by = "left by a killed mcpb serve; the next one removes it"
    if not socket["isLeft"]:
        by = f"mcpb serve, pid {socket['pid']}"
    return f"Socket for programs made for {BRAND}: {socket['path']} ({by})"


def _facts(channel: Mapping[str, Any]) -> Iterator[str]:
    if channel["path"]:
        yield channel["path"]
    if channel["program"] and not channel["isTheirs"]:
        yield f"program {channel['program']}"
    if channel["connections"]:
        count = channel["connections"]
        clients = [_called(client, channel["holder"]) for client in channel["clients"]]
        yield f"{count} connection{'' if count == 1 else 's'}{f': {_joined(clients)}' if clients else ''}"


def _called(client: Mapping[str, Any], holder: int) -> str:
    name = "mcpb" if client["pid"] == holder else PurePath(client["program"]).name or "a program"
    return f"{name} (pid {client['pid']})"


def _joined(names: list[str]) -> str:
    return " and ".join(names)
