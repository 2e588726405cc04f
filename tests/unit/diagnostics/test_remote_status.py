"""Remote servers in `mcpb status`."""

from __future__ import annotations

from typing import Any

from bridge.config.remote_settings import RemoteSettings
from bridge.diagnostics.remote_status import describe_remote, format_remote, make_record
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
