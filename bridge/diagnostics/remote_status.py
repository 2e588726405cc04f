"""State of remote servers for `mcpb status`, the status page and `mcpb doctor`. Sans-IO.

It joins config.toml with the records of running bridges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bridge.config.remote_settings import RemoteSettings
from bridge.links.configured_remote import find_unauthorized_remedy
from bridge.links.remote_lists import RemoteLists
from bridge.links.remote_mcp import RemoteState
from bridge.links.remote_problem import Cause
from bridge.state.audit_log import format_time
from bridge.state.remote_records import BridgeRecord, RemoteRecord
from native_host.protocol.untrusted_text import (
    MAX_NOTICE_CHARS,
    MAX_ORIGIN_CHARS,
    MAX_TITLE_CHARS,
    single_line,
)

OFF = "off"
"""State of a server that is not enabled."""
UNUSED = "unused"
"""State of a server that no running client is connected to."""
_BEST_FIRST = ("ready", "unreachable", "failed", "connecting")


def describe_remote(
    servers: Sequence[RemoteSettings], bridges: Sequence[BridgeRecord]
) -> Iterator[dict[str, Any]]:
    """Describe each configured server, in the order of the file."""
    for settings in servers:
        found = [record for bridge in bridges for record in bridge.servers if record.name == settings.name]
        yield _describe(settings, found if settings.enabled else [])


def make_record(name: str, state: RemoteState, lists: RemoteLists) -> RemoteRecord:
    """Return the record of a server that this process is connected to."""
    return RemoteRecord(
        name=name,
        state=state.state,
        revision=state.revision,
        transport=state.transport,
        server=f"{state.server_name} {state.server_version}".strip(),
        tools=len(lists.tools),
        resources=len(lists.resources),
        templates=len(lists.templates),
        prompts=len(lists.prompts),
        left_out=len(lists.left_out),
        synced_at=state.last_sync,
        error=state.last_error,
        cause=str(state.cause or ""),
    )


def _describe(settings: RemoteSettings, found: Sequence[RemoteRecord]) -> dict[str, Any]:
    """Describe a server as the bridge with the best connection has it."""
    idle = RemoteRecord(name=settings.name, state=UNUSED if settings.enabled else OFF)
    best = min(found, key=_rank, default=idle)
    failed = [record for record in found if record.error]
    worst = best if best.error or not failed else failed[0]
    error = worst.error
    if worst.cause == Cause.UNAUTHORIZED:
        error = f"{error}. {find_unauthorized_remedy(settings)}"
    return {
        "name": settings.name,
        "address": single_line(settings.address, MAX_ORIGIN_CHARS),
        "state": best.state,
        "clients": len(found),
        "readyClients": sum(record.state == "ready" for record in found),
        "server": single_line(best.server, MAX_TITLE_CHARS),
        "revision": best.revision,
        "transport": best.transport,
        "tools": best.tools,
        "resources": best.resources,
        "templates": best.templates,
        "prompts": best.prompts,
        "leftOut": best.left_out,
        "syncedAt": "" if best.synced_at is None else format_time(best.synced_at),
        "cause": worst.cause,
        "error": single_line(error, MAX_NOTICE_CHARS),
    }


def _rank(record: RemoteRecord) -> tuple[int, float]:
    order = _BEST_FIRST.index(record.state) if record.state in _BEST_FIRST else len(_BEST_FIRST)
    return order, -(record.synced_at or 0.0)


def format_remote(server: Mapping[str, Any]) -> str:
    """Format what a remote server offers, how it is connected, and its last error."""
    if server["state"] == UNUSED:
        return "no running client uses it"
    left_out = f"{server['leftOut']} left out" if server["leftOut"] else ""
    missing = server["clients"] - server["readyClients"]
    clients = f"not in {missing} of {server['clients']} clients" if missing and server["readyClients"] else ""
    revision = f"MCP {server['revision']} over {server['transport']}" if server["revision"] else ""
    synced = f"read at {server['syncedAt'][11:16]} UTC" if server["syncedAt"] else ""
    error = f"{server['cause']}: {server['error']}" if server["error"] else ""
    return " · ".join(filter(None, [format_offers(server), left_out, revision, synced, clients, error]))


def format_offers(offers: Mapping[str, Any]) -> str:
    """Format what a site offers, for instance `2 tools, 1 prompt`; empty for nothing."""
    counts = [(kind, offers[f"{kind}s"]) for kind in ("tool", "resource", "template", "prompt")]
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts if count)
