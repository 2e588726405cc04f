"""State of remote servers for `mcpb status`, the status page and `mcpb doctor`. Sans-IO.

It joins config.toml with the records of running bridges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridge.config.remote_settings import RemoteSettings
from bridge.links.configured_remote import find_unauthorized_remedy
from bridge.links.remote_lists import RemoteLists
from bridge.links.remote_mcp import RemoteState
from bridge.links.remote_problem import Cause
from bridge.state.audit_log import format_time
from bridge.state.remote_records import BridgeRecord, OfferRecord, RemoteRecord
from native_host.protocol.untrusted_text import (
    MAX_NOTICE_CHARS,
    MAX_ORIGIN_CHARS,
    MAX_TITLE_CHARS,
    single_line,
)
from native_host.system.problem import Problem
from native_host.system.program_name import format_command

if TYPE_CHECKING:
    from bridge.links.tool_offers import OfferStatus

OFF = "off"
"""State of a server that is not enabled."""
UNUSED = "unused"
"""State of a server that no running client is connected to."""
_MAX_ORIGINS = 8
"""Origins with offers that a server's record has."""
_BEST_FIRST = ("ready", "unreachable", "failed", "connecting")


def describe_remote(
    servers: Sequence[RemoteSettings], bridges: Sequence[BridgeRecord]
) -> Iterator[dict[str, Any]]:
    """Describe each configured server, in the order of the file."""
    for settings in servers:
        found = [record for bridge in bridges for record in bridge.servers if record.name == settings.name]
        yield _describe(settings, found if settings.enabled else [])


def make_record(
    name: str, state: RemoteState, lists: RemoteLists, offers: Iterable[OfferStatus] = ()
) -> RemoteRecord:
    """Return the record of a server that this process is connected to; `offers` are those of all servers."""
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
        offers=_count_offers(offer for offer in offers if offer.server == name),
    )


def _count_offers(offers: Iterable[OfferStatus]) -> tuple[OfferRecord, ...]:
    """Return a record for each origin."""
    found: dict[str, OfferRecord] = {}
    for offer in offers:
        known = found.get(offer.origin) or OfferRecord(single_line(offer.origin, MAX_ORIGIN_CHARS))
        found[offer.origin] = OfferRecord(
            known.origin,
            known.pages + offer.is_active,
            max(known.tools, offer.tools),
            known.problem or offer.problem,
        )
    return tuple(found.values())[:_MAX_ORIGINS]


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
        "offers": list(_merge_offers(found)),
        "cause": worst.cause,
        "error": single_line(error, MAX_NOTICE_CHARS),
    }


def _merge_offers(found: Sequence[RemoteRecord]) -> Iterator[dict[str, Any]]:
    """Describe what each origin has, through whichever bridge."""
    for origin in dict.fromkeys(offer.origin for record in found for offer in record.offers):
        offers = [offer for record in found for offer in record.offers if offer.origin == origin]
        yield {
            "origin": single_line(origin, MAX_ORIGIN_CHARS),
            "pages": sum(offer.pages for offer in offers),
            "tools": max(offer.tools for offer in offers),
            "problem": single_line(next((it.problem for it in offers if it.problem), ""), MAX_NOTICE_CHARS),
        }


def _rank(record: RemoteRecord) -> tuple[int, float]:
    order = _BEST_FIRST.index(record.state) if record.state in _BEST_FIRST else len(_BEST_FIRST)
    return order, -(record.synced_at or 0.0)


def summarize_remote(servers: Sequence[Mapping[str, Any]]) -> str:
    """Return how many of the enabled servers are connected, and what they offer; empty if none is in use.

    An example is `1 of 2 remote servers (3 tools)`.
    """
    enabled = [server for server in servers if server["state"] != OFF]
    if all(server["state"] == UNUSED for server in enabled):
        return ""
    ready = [server for server in enabled if server["state"] == "ready"]
    count = f"{len(ready)} of {len(enabled)}" if len(ready) < len(enabled) else f"{len(enabled)}"
    kinds = ("tools", "resources", "templates", "prompts")
    offers = format_offers({kind: sum(server[kind] for server in ready) for kind in kinds})
    text = f"{count} remote server{'' if len(enabled) == 1 else 's'}"
    return f"{text} ({offers})" if offers else text


def find_remote_obstacle(servers: Sequence[Mapping[str, Any]]) -> str:
    """Return why clients have no remote server; empty if they have one, or none is enabled."""
    states = {server["state"] for server in servers} - {OFF}
    if not states or "ready" in states:
        return ""
    command = format_command("remote test")
    if states == {UNUSED}:
        return Problem(f"no running client uses a remote server (to test them, run: {command})", command)
    return Problem(f"no remote server is connected (to find out why, run: {command})", command)


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
    pages = map(_format_pages, server["offers"])
    parts = [format_offers(server), left_out, revision, synced, clients, *pages, error]
    return " · ".join(filter(None, parts))


def _format_pages(offer: Mapping[str, Any]) -> str:
    """Format what pages of an origin have; empty while no page of it has anything."""
    if not offer["pages"]:
        return f"not offered to {offer['origin']}: {offer['problem']}" if offer["problem"] else ""
    count, tools = offer["pages"], offer["tools"]
    pages = f"{count} page{'' if count == 1 else 's'}"
    return f"{tools} tool{'' if tools == 1 else 's'} offered to {pages} of {offer['origin']}"


def format_offers(offers: Mapping[str, Any]) -> str:
    """Format what a site offers, for instance `2 tools, 1 prompt`; empty for nothing."""
    counts = [(kind, offers[f"{kind}s"]) for kind in ("tool", "resource", "template", "prompt")]
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts if count)
