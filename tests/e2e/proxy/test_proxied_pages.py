"""Tools of pages, called through a WebSocket proxy by a client that speaks the native wire."""

from __future__ import annotations

from proxied_browser import ProxiedBrowser
from proxy_client import ProxyClient

SESSIONS = [{"id": "session_1", "title": "agent in shop", "client": {"name": "agent", "version": "1"}}]
ROWS = "[...document.querySelectorAll('#clients .row')]"
PAUSED = -32019


def text_of(result: dict[str, object]) -> str:
    payload = result["payload"]
    assert isinstance(payload, dict)
    return str(payload["content"][0]["text"])


def test_a_tool_is_listed_called_reports_its_progress_and_is_cancelled(proxied: ProxiedBrowser) -> None:
    with proxied.page("tabserver.html") as page, proxied.client(wire=True) as client:
        address = client.until_offered("slow")
        assert client.params_of("browser/tabs")
        echo = client.request("browser/executeTool", **address, toolName="echo", args={"text": "é😀"})
        assert text_of(echo) == "echo: é😀"
        large = client.request("browser/executeTool", **address, toolName="big", args={"n": 5_000_000})
        assert len(text_of(large)) == 5_000_000

        call = {**address, "toolName": "slow", "args": {}, "wantsProgress": True}
        number = client.begin("browser/executeTool", **call)
        client.until(lambda: client.params_of("browser/progress"))
        (progress, *_) = [each for each in client.notifications if each["method"] == "browser/progress"]
        assert progress["for"] == number
        client.send(method="browser/cancel", params={"id": number})
        page.wait_until("window.cancelled === 1")


def test_a_page_asks_the_client_of_its_call_and_gets_the_answer(proxied: ProxiedBrowser) -> None:
    with (
        proxied.page("requests.html"),
        proxied.client(wire=True) as client,
        proxied.client(wire=True) as another,
    ):
        number = client.begin(
            "browser/executeTool", **client.until_offered("order"), toolName="order", args={}
        )
        client.until(lambda: client.params_of("browser/elicitConfirmation"))
        (asked,) = [each for each in client.notifications if each["method"] == "browser/elicitConfirmation"]
        assert asked["for"] == number
        client.send(id=asked["id"], result={"action": "decline"})
        assert "decline" in text_of(client.response_to(number)["result"])
        another.request("getTabs")
        assert not another.params_of("browser/elicitConfirmation")


def test_each_client_has_a_row_in_the_popup_and_is_paused_there(proxied: ProxiedBrowser) -> None:
    with (
        proxied.page("tabserver.html"),
        proxied.popup() as popup,
        proxied.client(wire=True) as ours,
        proxied.client(name="of another author") as foreign,
    ):
        ours.send(method="bridge/sessions", params={"sessions": SESSIONS})
        names = f"{ROWS}.map((row) => row.querySelector('h3').textContent).sort().join()"
        popup.tab.wait_until(f"{names} === 'agent in shop,of another author'")
        facts = popup.tab.evaluate(f"{ROWS}.map((row) => row.querySelector('p').textContent)")
        assert all(f"through localhost:{proxied.proxy.port}" in each for each in facts)

        row = f"{ROWS}.find((row) => row.textContent.includes('of another author'))"
        popup.tab.evaluate(f"{row}.querySelector('button').click()")
        popup.tab.wait_until(f"{row}.textContent.includes('paused')")
        assert foreign.rejection("createTab")["code"] == PAUSED
        error = foreign.rejection("browser/pause", session=foreign.connection, paused=False)
        assert error["data"] == {"handed": False}
        assert created_by(ours)
        popup.tab.evaluate(f"{row}.querySelector('button').click()")
        popup.tab.wait_until(f"!{row}.textContent.includes('paused')")
        assert created_by(foreign)


def created_by(client: ProxyClient) -> int:
    """Have a client open a tab, and close it again."""
    tab_id = int(client.request("createTab")["tabId"])
    client.request("closeTab", tabId=tab_id)
    return tab_id
