"""Sign-in at a running node: from the first request to sockets that close when the user revokes it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from native_host.system.home_layout import HomeLayout
from proxy_node import SOON_S, ProxyNode, run_command, run_in_thread, running_node
from websocket_proxy.node.admin import AdminError, DecideSignIn, NodeClient, WaitingSignIn
from websocket_proxy.oauth_endpoints import DEVICE_GRANT

REPEATABLE = 8
"""Latest refresh tokens whose response is sent again within 30 s. An earlier one counts as stolen."""
ORIGIN = "chrome-extension://abcdefghijklmnopabcdefghijklmnop"


async def begin(http: httpx2.AsyncClient, role: str) -> dict[str, Any]:
    form = {"client_id": "popup", "client_name": "Chrome on a laptop", "scope": f"mcpb:{role}"}
    found: dict[str, Any] = (await http.post("/device_authorization", data=form)).json()
    return found


async def poll(http: httpx2.AsyncClient, started: dict[str, Any]) -> dict[str, Any]:
    form = {"grant_type": DEVICE_GRANT, "device_code": started["device_code"], "client_id": "popup"}
    found: dict[str, Any] = (await http.post("/token", data=form)).json()
    return found


async def refresh(http: httpx2.AsyncClient, token: str) -> dict[str, Any]:
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "popup"}
    found: dict[str, Any] = (await http.post("/token", data=form)).json()
    return found


async def approve(home: Path, code: str, *, is_approved: bool = True) -> None:
    """Send what the command sends."""
    client = NodeClient(HomeLayout(home).state.path)
    found = await client.ask(DecideSignIn(code, is_approved), WaitingSignIn)
    assert found.client_name == "Chrome on a laptop"


def open_client(node: ProxyNode) -> httpx2.AsyncClient:
    url = node.base.replace("ws", "http", 1)
    return httpx2.AsyncClient(base_url=url, headers={"Origin": ORIGIN}, timeout=SOON_S, trust_env=False)


async def test_a_browser_and_a_client_sign_in_meet_and_are_revoked(mcpb_home: Path) -> None:
    async with running_node(mcpb_home) as node, open_client(node) as http:
        resource = (await http.get("/.well-known/oauth-protected-resource")).json()
        assert resource["authorization_servers"] == [node.base.replace("ws", "http", 1)]
        of_browser, of_client = await begin(http, "extension"), await begin(http, "client")
        rejected = await run_in_thread("approve", of_browser["user_code"], check=False)
        assert "--yes" in rejected  # nothing is approved without a question
        said = await trio.to_thread.run_sync(run_command, "approve", of_browser["user_code"], "--yes")
        assert "the browser extension Chrome on a laptop at 127.0.0.1 wants to sign in" in said
        await approve(mcpb_home, of_client["user_code"])
        browser, program = [
            str((await poll(http, started))["access_token"]) for started in (of_browser, of_client)
        ]
        async with node.extension(browser) as extension, node.client(program) as client:
            await client.connect(extension)
            assert (await client.ask("getTabs"))["result"] == {"method": "getTabs"}
            sessions = json.loads(await run_in_thread("sessions", "--json"))
            assert [(each["role"], each["sockets"]) for each in sessions] == [
                ("mcpb:extension", 1),
                ("mcpb:client", 1),
            ]
            described = (await run_in_thread("sessions")).splitlines()
            assert [line.split(",")[:2] for line in described] == [
                [f"{sessions[0]['id'][:8]}  browser extension Chrome on a laptop", " 1 connected"],
                [f"{sessions[1]['id'][:8]}  MCP client Chrome on a laptop", " 1 connected"],
            ]
            status = await run_in_thread("status")
            assert "Connected: 1 extensions, 1 MCP clients, 1 users" in status
            assert "1 sign-ins wait" not in status
            await run_in_thread("revoke", sessions[0]["id"][:8])
            assert await extension.until_closed() == (1008, "Invalid token: revoked")
            assert client.socket.close_code is None
        (log,) = [line for line in await node.until_event("closed", 2) if line["role"] == "mcpb:extension"]
        assert (log["code"], log["reason"]) == (1008, "Invalid token: revoked")
        (revoked,) = node.events("revoked")
        assert seconds_between(revoked, log) < 1
        await steal_a_refresh_token(node, http, mcpb_home)
        await deny_and_guess(mcpb_home, http)
        written = node.log.read_text()
        assert not [each for each in (browser, program) if each.split(".")[1][:40] in written]


async def deny_and_guess(home: Path, http: httpx2.AsyncClient) -> None:
    """A client that polls too often is slowed down, and after five wrong codes a right one is rejected."""
    started, guessed = await begin(http, "client"), await begin(http, "client")
    assert (await poll(http, started))["error"] == "authorization_pending"
    assert (await poll(http, started))["error"] == "slow_down"
    await approve(home, started["user_code"], is_approved=False)
    assert (await poll(http, started))["error"] == "access_denied"
    for _ in range(5):
        with pytest.raises(AdminError):
            await approve(home, "BCDF-GHJK")
    with pytest.raises(AdminError):
        await approve(home, guessed["user_code"])
    assert (await poll(http, guessed))["error"] == "authorization_pending"


async def steal_a_refresh_token(node: ProxyNode, http: httpx2.AsyncClient, home: Path) -> None:
    """A lost response is sent again; an earlier token used later ends the sign-in and closes its sockets."""
    started = await begin(http, "extension")
    await approve(home, started["user_code"])
    stolen = (await poll(http, started))["refresh_token"]
    latest = await refresh(http, stolen)
    assert await refresh(http, stolen) == latest
    async with node.extension(latest["access_token"]) as extension:
        for _ in range(REPEATABLE):
            latest = await refresh(http, latest["refresh_token"])
        assert extension.closed is None
        assert (await refresh(http, stolen))["error"] == "invalid_grant"
        assert await extension.until_closed() == (1008, "Invalid token: revoked")
    assert (await refresh(http, latest["refresh_token"]))["error"] == "invalid_grant"


def seconds_between(first: dict[str, Any], second: dict[str, Any]) -> float:
    begin, end = (datetime.fromisoformat(line["time"]) for line in (first, second))
    return (end - begin).total_seconds()
