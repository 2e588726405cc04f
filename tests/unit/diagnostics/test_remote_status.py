"""Remote servers in `mcpb status`."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.config.remote_settings import RemoteSettings
from bridge.diagnostics.remote_status import (
    describe_remote,
    find_remote_obstacle,
    format_remote,
    make_record,
    summarize_remote,
)
from bridge.links.remote_lists import RemoteLists
from bridge.links.remote_mcp import RemoteState
from bridge.links.tool_offers import OfferStatus
from bridge.state.remote_records import BridgeRecord, OfferRecord, RemoteRecord

ORDERS = RemoteSettings(name="orders", url="https://orders.example/mcp?key=canary")
NOTES = RemoteSettings(name="notes", command="npx", args=("canary",))
READY = RemoteRecord(
    name="orders", state="ready", revision="2026-07-28", transport="streamable-http", tools=3, synced_at=1.5
)
LOST = RemoteRecord(name="orders", state="unreachable", error="it cannot be connected to", cause="refused")


def describe(*bridges: tuple[RemoteRecord, ...], settings: RemoteSettings = ORDERS) -> dict[str, Any]:
    records = [BridgeRecord(pid, servers) for pid, servers in enumerate(bridges)]
    (found,) = describe_remote([settings], records)
    assert "canary" not in str(found)
    return found


def test_a_server_is_as_the_bridge_with_the_best_connection_has_it() -> None:
    found = describe((LOST,), (READY,), (RemoteRecord(name="other", state="ready", tools=9),))
    assert (found["state"], found["clients"], found["readyClients"]) == ("ready", 2, 1)
    assert (found["tools"], found["revision"], found["syncedAt"]) == (
        3,
        "2026-07-28",
        "1970-01-01T00:00:01.500Z",
    )
    assert (found["cause"], found["error"]) == ("refused", "it cannot be connected to")


def test_a_server_without_a_running_client_is_unused_and_a_disabled_one_is_off() -> None:
    assert describe()["state"] == describe((), settings=NOTES)["state"] == "unused"
    disabled = RemoteSettings(name="orders", url="https://orders.example", enabled=False)
    assert (describe((READY,), settings=disabled)["state"], describe(settings=NOTES)["address"]) == (
        "off",
        "npx",
    )


@pytest.mark.parametrize(
    ("states", "summary", "has_obstacle"),
    [
        ({}, "", False),
        ({"off": 1}, "", False),
        ({"unused": 2, "off": 1}, "", True),
        ({"ready": 1, "off": 1}, "1 remote server (3 tools, 1 prompt)", False),
        ({"ready": 2}, "2 remote servers (6 tools, 2 prompts)", False),
        ({"ready": 1, "unreachable": 1}, "1 of 2 remote servers (3 tools, 1 prompt)", False),
        ({"connecting": 1}, "0 of 1 remote server", True),
    ],
)
def test_servers_are_counted_with_what_the_connected_ones_offer(
    states: dict[str, int], summary: str, has_obstacle: bool
) -> None:
    """An unreachable server has the counts of its last sync, which clients do not have."""
    offers = {"tools": 3, "resources": 0, "templates": 0, "prompts": 1}
    servers = [{"state": state, **offers} for state, count in states.items() for _ in range(count)]
    assert summarize_remote(servers) == summary
    assert bool(find_remote_obstacle(servers)) is has_obstacle


def test_a_state_of_a_later_version_is_shown_last() -> None:
    assert describe((RemoteRecord(name="orders", state="new"),), (LOST,))["state"] == "unreachable"
    assert describe((RemoteRecord(name="orders", state="new"),))["state"] == "new"


def test_a_401_names_what_the_user_does() -> None:
    rejected = RemoteRecord(name="orders", state="failed", error="HTTP status 401", cause="unauthorized")
    assert "remote login orders" in describe((rejected,))["error"]
    commanded = RemoteSettings(name="orders", url="https://orders.example/mcp", header_command=("vault",))
    assert "header_command" in describe((rejected,), settings=commanded)["error"]


APP, SHOP = "https://app.example", "https://shop.example"


def test_offers_are_counted_by_origin() -> None:
    states = [
        OfferStatus("orders", APP, True, 3, ""),
        OfferStatus("orders", APP, True, 3, ""),
        OfferStatus("orders", APP, False, 0, ""),
        OfferStatus("orders", SHOP, False, 0, "no WebMCP"),
        OfferStatus("notes", APP, True, 9, ""),
    ]
    record = make_record("orders", RemoteState(), RemoteLists(), states)
    assert record.offers == (OfferRecord(APP, 2, 3), OfferRecord(SHOP, problem="no WebMCP"))


def test_the_pages_of_all_bridges_are_shown_and_a_problem_where_none_has_the_tools() -> None:
    waiting = RemoteRecord(name="orders", state="ready", offers=(OfferRecord(APP), OfferRecord(SHOP)))
    offering = RemoteRecord(
        name="orders",
        state="ready",
        tools=3,
        offers=(OfferRecord(APP, 1, 3, "not ready"), OfferRecord(SHOP, problem="no WebMCP")),
    )
    found = describe((waiting,), (offering,))
    assert found["offers"] == [
        {"origin": APP, "pages": 1, "tools": 3, "problem": "not ready"},
        {"origin": SHOP, "pages": 0, "tools": 0, "problem": "no WebMCP"},
    ]
    shown = f"3 tools offered to 1 page of {APP} · not offered to {SHOP}: no WebMCP"
    assert shown in format_remote(found)
    assert "offered to" not in format_remote(describe((READY,)))
