"""Requests of clients without sessions, which know no wire of ours: tabs, navigation, input, screenshots."""

from __future__ import annotations

import io
from base64 import b64decode
from collections.abc import Iterator

import pytest
from PIL import Image

from proxied_browser import ProxiedBrowser
from proxy_client import ProxyClient

INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32600, -32601, -32602
NOT_ALLOWED, NOT_YOURS = -32014, -32016
FORM = """document.body.innerHTML = "<form><input id=name><button id=go>Go</button></form><p id=seen></p>";
document.forms[0].onsubmit = (event) => (event.preventDefault(), seen.append("submitted "));
go.onclick = ({ detail, isTrusted }) => seen.append(`${isTrusted ? detail : "untrusted"} `);
go.onmouseenter = () => seen.append("entered "); 0"""
SEEN = "document.getElementById('seen').textContent"


@pytest.fixture
def client(proxied: ProxiedBrowser) -> Iterator[ProxyClient]:
    with proxied.client(name="foreign") as client:
        yield client


def evaluate(client: ProxyClient, expression: str) -> object:
    params = {"expression": expression, "returnByValue": True}
    return client.request("forwardCDPCommand", method="Runtime.evaluate", params=params)["result"].get(
        "value"
    )


def test_the_current_tab_is_meant_where_a_request_names_none(
    proxied: ProxiedBrowser, client: ProxyClient
) -> None:
    assert client.rejection("goBack")["code"] == INVALID_PARAMS
    first = client.request("createTab", stealth=True)["tabId"]
    for address in ("plain.html", "plain.html?2"):
        client.request("browser_navigate", url=f"{proxied.pages}/{address}")
    assert evaluate(client, "location.search") == "?2"
    assert client.request("goBack")["url"].endswith("/plain.html")
    assert client.request("goForward")["url"].endswith("?2")

    second = client.request("createTab", url=f"{proxied.pages}/plain.html?3")["tabId"]
    assert client.request("activateTab")["tab"]["tabId"] == second
    tabs = [tab["tabId"] for tab in client.request("getTabs")["tabs"]]
    assert client.request("selectTab", tabIndex=tabs.index(first))["tab"]["tabId"] == first
    assert evaluate(client, "location.search") == "?2"
    assert client.request("selectTab", tabId=second, activate=True)["tab"]["active"]
    client.request("closeTab")
    assert client.rejection("goBack")["code"] == INVALID_PARAMS
    client.request("closeTab", tabId=first)


def test_input_reaches_the_page_as_that_of_a_user_and_a_screenshot_has_its_size(
    proxied: ProxiedBrowser, client: ProxyClient
) -> None:
    tab_id = client.request("createTab", url=f"{proxied.pages}/plain.html")["tabId"]
    client.request("browser_navigate", url=f"{proxied.pages}/plain.html?input")
    evaluate(client, FORM)
    assert client.request("hover", selector="#go") == {}
    assert client.request("click", selector="#go") == {}
    assert evaluate(client, SEEN) == "entered 1 submitted "
    place = "(({ x, y }) => ({ x: x + 5, y: y + 5 }))(go.getBoundingClientRect())"
    point = evaluate(client, f"seen.textContent = '', {place}")
    assert isinstance(point, dict)
    client.request("click", **point, clickCount=2)
    assert evaluate(client, SEEN) == "1 submitted 2 submitted "
    client.request("type", selector="#name", text="Ada é😀", submit=True)
    assert evaluate(client, "document.getElementById('name').value") == "Ada é😀"
    assert str(evaluate(client, SEEN)).startswith("1 submitted 2 submitted ")
    assert len(str(evaluate(client, SEEN))) > len("1 submitted 2 submitted ")

    shot = client.request("screenshot", format="jpeg", quality=40)
    with Image.open(io.BytesIO(b64decode(shot["data"]))) as picture:
        assert (picture.format, picture.size) == ("JPEG", (shot["width"], shot["height"]))
    assert shot["mimeType"] == "image/jpeg"
    assert shot["width"] == evaluate(client, "innerWidth")
    assert client.request("screenshot", fullPage=True)["mimeType"] == "image/png"

    assert client.rejection("click", selector="#none")["data"]["handed"]
    for wrong in ({}, {"selector": ":::"}, {"x": "1", "y": 2}, {"x": 1, "y": 1, "button": "fourth"}):
        assert client.rejection("click", **wrong)["code"] == INVALID_PARAMS
    client.request("closeTab", tabId=tab_id)


def test_devtools_commands_that_no_client_may_send_are_rejected(
    proxied: ProxiedBrowser, client: ProxyClient
) -> None:
    tab_id = client.request("createTab", url=f"{proxied.pages}/plain.html")["tabId"]
    for method in ("Browser.close", "Target.createTarget", "Network.getAllCookies"):
        error = client.rejection("forwardCDPCommand", method=method, params={})
        assert (error["code"], error["data"]["handed"]) == (INVALID_PARAMS, False), method
    assert evaluate(client, "1 + 1") == 2
    client.request("closeTab", tabId=tab_id)


def test_a_client_uses_its_own_tabs_and_handed_over_ones_and_no_others(
    proxied: ProxiedBrowser, client: ProxyClient
) -> None:
    with proxied.client(name="another") as another, proxied.page("plain.html?user"):
        theirs = another.request("createTab", url=f"{proxied.pages}/plain.html?theirs")["tabId"]
        tabs = {tab["url"].rpartition("?")[2]: tab for tab in client.request("getTabs")["tabs"]}
        users = tabs["user"]["tabId"]
        for tab_id in (theirs, users):
            for method in ("selectTab", "closeTab", "goBack", "click", "screenshot", "activateTab"):
                error = client.rejection(method, tabId=tab_id, x=1, y=1)
                assert (error["code"], error["data"]) == (NOT_YOURS, {"handed": False}), method
        assert client.rejection("closeTab", tabId=theirs, session=another.connection)["code"] == NOT_YOURS
        assert client.rejection("closeTab", tabId=theirs, session="session_1")["code"] == NOT_YOURS
        assert (
            client.rejection("setOwner", tabId=users, session=client.connection)["code"] == METHOD_NOT_FOUND
        )
        rules = [{"session": another.connection, "deny": ["http://localhost:*"]}]
        assert client.rejection("browser/siteRules", sessions=rules)["code"] == NOT_YOURS
        with proxied.popup() as popup:
            popup.tab.evaluate(
                "(globalThis.worker = chrome.runtime.connect({ name: 'mcpb-popup' }),"
                f"worker.postMessage({{ type: 'watch', tabId: {users} }}),"
                "worker.postMessage({ type: 'hand-over', handedOver: true }), 0)"
            )
            proxied.proxy.until(
                lambda: "result" in client.response_to(client.begin("selectTab", tabId=users))
            )
        assert evaluate(client, "location.search") == "?user"
        another.request("closeTab")


def test_a_request_that_names_no_connection_is_rejected(proxied: ProxiedBrowser) -> None:
    proxy = proxied.proxy
    for request_id in ("7", ":7"):
        proxy.unrouted.clear()
        proxy.until_connected().send(id=request_id, method="createTab", params={})
        proxy.until(lambda: proxy.unrouted)
        assert proxy.unrouted[0]["id"] == request_id
        assert proxy.unrouted[0]["error"]["code"] == INVALID_REQUEST


def test_the_tabs_of_a_client_that_has_gone_are_released_at_once(proxied: ProxiedBrowser) -> None:
    with proxied.client() as gone:
        tab_id = gone.request("createTab", url=f"{proxied.pages}/plain.html?gone")["tabId"]
        watch = {"method": "Runtime.evaluate", "params": {"expression": "1"}}
        gone.request("forwardCDPCommand", **watch)
        own = [tab for tab in gone.request("getTabs")["tabs"] if tab["tabId"] == tab_id]
        assert own[0]["owner"] == gone.connection
    with proxied.client() as client:

        def owner() -> object:
            return [tab["owner"] for tab in client.request("getTabs")["tabs"] if tab["tabId"] == tab_id]

        proxied.proxy.until(lambda: owner() == [None])


def test_sites_that_the_user_has_paused_are_paused_for_clients_of_a_proxy(
    proxied: ProxiedBrowser, client: ProxyClient
) -> None:
    site = proxied.pages
    with proxied.popup() as popup:
        popup.tab.evaluate(
            "(globalThis.worker = chrome.runtime.connect({ name: 'mcpb-popup' }),"
            f"worker.postMessage({{ type: 'pause-site', origin: {site!r}, paused: true }}), 0)"
        )
        proxied.proxy.until(lambda: client.response_to(client.begin("createTab", url=site)).get("error"))
        assert client.rejection("createTab", url=f"{site}/plain.html")["data"]["site"] == site
        assert client.rejection("browser/pause", site=site, paused=False)["code"] == NOT_ALLOWED
        popup.tab.evaluate(
            f"(worker.postMessage({{ type: 'pause-site', origin: {site!r}, paused: false }}), 0)"
        )
        proxied.proxy.until(lambda: "result" in client.response_to(client.begin("createTab", url=site)))
