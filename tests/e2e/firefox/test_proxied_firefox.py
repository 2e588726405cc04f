"""Firefox at a WebSocket proxy: sign-in in the popup, tools of pages, and a background page that stays."""

from __future__ import annotations

from functools import partial

import pytest
import trio

import proxy_stand_in
from full_chain import Chain
from proxy_client import connected_client
from proxy_stand_in import ProxyStandIn, serving_proxy
from real_firefox import Firefox
from wire_peers import until

IDLE_MS = 1500
STATUS_S = 0.5
PREFERENCES = {
    "extensions.webextOptionalPermissionPrompts": False,
    "extensions.background.idle.timeout": IDLE_MS,
}
METHOD_NOT_FOUND = -32601


async def sign_in(firefox: Firefox, proxy: ProxyStandIn) -> None:
    """Enter the address in the popup, and approve the code."""
    popup = await firefox.open_extension_page("popup/popup.html")
    await popup.evaluate("(document.getElementById('show-details').click(), 0)")
    field = "document.getElementById('proxy-address')"
    await popup.wait_until("document.getElementById('proxy-button').textContent === 'Connect'")
    entered = f"{field}.focus(), {field}.value = '{proxy.url}'"
    await popup.evaluate(f"({entered}, document.getElementById('proxy-button').click(), 0)")
    command = "document.getElementById('proxy-command').textContent"
    proxy.decide((await popup.wait_until(command)).removeprefix("mcpb proxy approve "))
    await until(lambda: bool(proxy.hello))
    await popup.close()


def use(proxy: ProxyStandIn) -> None:
    """Call a page's tool, open and close a tab; Firefox has no DevTools for extensions."""
    with connected_client(proxy.client_url, wire=True) as client:
        address = client.until_offered("echo")
        result = client.request("browser/executeTool", **address, toolName="echo", args={"text": "on"})
        assert result["payload"]["content"][0]["text"] == "echo: on"
        client.request("createTab")
        assert client.rejection("click", x=1, y=1)["code"] == METHOD_NOT_FOUND
        client.request("closeTab")


async def test_firefox_is_used_through_a_proxy_and_stays_connected_while_it_is_idle(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_stand_in, "STATUS_S", STATUS_S)
    with trio.fail_after(200), serving_proxy() as proxy:
        async with chain.firefox(preferences=PREFERENCES, is_registered=False) as firefox:
            await sign_in(firefox, proxy)
            await firefox.open_page(f"{chain.pages}/tabserver.html")
            await trio.to_thread.run_sync(partial(use, proxy))
            first, statuses = proxy.extension, proxy.statuses
            await until(lambda: proxy.statuses >= statuses + 4 * IDLE_MS / 1000 / STATUS_S)
            assert proxy.extension is first
            await trio.to_thread.run_sync(partial(use, proxy))
