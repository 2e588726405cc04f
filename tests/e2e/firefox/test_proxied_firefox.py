"""Firefox at a WebSocket proxy: sign-in in the popup, tools of pages, and a background page that stays."""

from __future__ import annotations

from pathlib import Path

import trio
from websockets.trio.client import connect

from full_chain import Chain
from proxy_client import ProxyClient
from proxy_node import OPTIONS, ProxyNode, run_in_thread, running_node
from real_firefox import Firefox
from wire_peers import until

IDLE_MS = 1500
STATUS_S = 0.5
PREFERENCES = {
    "extensions.webextOptionalPermissionPrompts": False,
    "extensions.background.idle.timeout": IDLE_MS,
}
METHOD_NOT_FOUND = -32601


async def sign_in(firefox: Firefox, node: ProxyNode) -> None:
    """Enter the address in the popup, and approve the code."""
    popup = await firefox.open_extension_page("popup/popup.html")
    await popup.evaluate("(document.getElementById('show-details').click(), 0)")
    field = "document.getElementById('proxy-address')"
    await popup.wait_until("document.getElementById('proxy-button').textContent === 'Connect'")
    entered = f"{field}.focus(), {field}.value = '{node.base}'"
    await popup.evaluate(f"({entered}, document.getElementById('proxy-button').click(), 0)")
    command = "document.getElementById('proxy-command').textContent"
    code = (await popup.wait_until(command)).removeprefix("mcpb proxy approve ")
    await run_in_thread("approve", code, "--yes")
    await node.until_event("opened")
    await popup.close()


async def use(node: ProxyNode) -> None:
    """Call a page's tool, open and close a tab; Firefox has no DevTools for extensions."""
    token = (await run_in_thread("token", "--scope", "client")).strip()
    async with connect(f"{node.base}/mcp", **OPTIONS) as socket:
        await trio.to_thread.run_sync(request_all, ProxyClient(trio.from_thread.run, socket), token)


def request_all(client: ProxyClient, token: str) -> None:
    client.sign_in(token, wire=True)
    client.connect()
    address = client.until_offered("echo")
    result = client.request("browser/executeTool", **address, toolName="echo", args={"text": "on"})
    assert result["payload"]["content"][0]["text"] == "echo: on"
    client.request("createTab")
    assert client.rejection("click", x=1, y=1)["code"] == METHOD_NOT_FOUND
    client.request("closeTab")


async def test_firefox_is_used_through_a_proxy_and_stays_connected_while_it_is_idle(
    chain: Chain, mcpb_home: Path
) -> None:
    (mcpb_home / "config.toml").write_text(f"[proxy]\nadmin_port = 0\nstatus_interval_s = {STATUS_S}\n")
    with trio.fail_after(200):
        async with (
            running_node(mcpb_home) as node,
            chain.firefox(preferences=PREFERENCES, is_registered=False) as firefox,
        ):
            await sign_in(firefox, node)
            await firefox.open_page(f"{chain.pages}/tabserver.html")
            await use(node)
            idle_since = trio.current_time()
            await until(lambda: trio.current_time() > idle_since + 4 * IDLE_MS / 1000)
            await use(node)
            assert len(of_extension(node, "opened")) == 1
            assert of_extension(node, "closed") == []


def of_extension(node: ProxyNode, event: str) -> list[dict[str, object]]:
    return [line for line in node.events(event) if line["role"] == "mcpb:extension"]
