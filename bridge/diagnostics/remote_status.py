"""Remote servers in `mcpb status`: config.toml joined with the records of running bridges. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bridge.config.remote_settings import RemoteSettings
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


def _describe(settings: RemoteSettings, found: Sequence[RemoteRecord]) -> dict[str, Any]:
    """Describe a server as the bridge with the best connection has it."""
    idle = RemoteRecord(name=settings.name, state=UNUSED if settings.enabled else OFF)
    best = min(found, key=_rank, default=idle)
    failed = [record for record in found if record.error]
    worst = best if best.error or not failed else failed[0]
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
        "error": single_line(worst.error, MAX_NOTICE_CHARS),
    }


def _rank(record: RemoteRecord) -> tuple[int, float]:
    order = _BEST_FIRST.index(record.state) if record.state in _BEST_FIRST else len(_BEST_FIRST)
    return order, -(record.synced_at or 0.0)
