"""One browser that is connected to a native host and to a WebSocket proxy at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import trio
from mcp import Client

from full_chain import Chain, call, page_tools, until_listed
from native_client import SESSION, Native, add_host, lose_host
from proxied_browser import ProxiedBrowser
from proxy_client import ProxyClient
from socket_observer import hosts, onlooking

INVALID_PARAMS = -32602
NOT_YOURS, PAUSED = -32016, -32019
SWITCH_S = 3.0
"""Seconds in which a lost host's tools stay listed."""


@pytest.fixture
def both(proxied: ProxiedBrowser) -> ProxiedBrowser:
    """A browser with both connections."""
    if not hosts(proxied.chain):
        with proxied.popup():
            add_host(proxied)
    return proxied


@pytest.fixture(scope="module", autouse=True)
def unregister(machine: ProxiedBrowser) -> Iterator[None]:
    """Leave the browser without a native host."""
    yield
    lose_host(machine)


@pytest.fixture
def native(both: ProxiedBrowser) -> Iterator[Native]:
    with both.thread.holding(onlooking(both.chain)) as onlooker:
        yield Native(both, onlooker)


@pytest.fixture
def remote(both: ProxiedBrowser) -> Iterator[ProxyClient]:
    """A client at the proxy."""
    with both.client(wire=True) as client:
        yield client


def test_both_ways_have_the_whole_state_and_each_change(
    both: ProxiedBrowser, native: Native, remote: ProxyClient
) -> None:
    with both.page("tabserver.html"):
        address = remote.until_offered("echo")
        echo = {**address, "toolName": "echo", "args": {"text": "on"}}
        assert native.request("browser/executeTool", **echo) == remote.request("browser/executeTool", **echo)
        paused = remote.request("browser/pause", site="https://shop.example", paused=True)
        assert paused == {}
        rejected = native.request("createTab", url="https://shop.example/")
        assert rejected["data"]["site"] == "https://shop.example"
        native.request("browser/pause", site="https://shop.example", paused=False)
        remote.until(lambda: remote.params_of("browser/paused")[-1]["sites"] == [])


def test_requests_with_the_same_ids_run_beside_each_other_and_are_cancelled_alone(
    both: ProxiedBrowser, native: Native, remote: ProxyClient
) -> None:
    with both.page("tabserver.html") as page:
        slow = {**remote.until_offered("slow"), "toolName": "slow", "args": {}}
        number = remote.begin("browser/executeTool", **slow)
        page.wait_until("window.runs === 1")
        native.begin(number, "browser/executeTool", **slow)
        page.wait_until("window.runs === 2")
        remote.send(method="browser/cancel", params={"id": number})
        page.wait_until("window.cancelled === 1")
        page.evaluate("(window.finishSlow(), 0)")
        payload = native.response_to(number)["result"]["payload"]
        assert payload["content"][0]["text"] == "slow: done"


def test_a_client_that_is_paused_is_paused_without_its_session_too(
    native: Native, remote: ProxyClient
) -> None:
    remote.send(method="bridge/sessions", params={"sessions": [{**SESSION, "id": "session_2"}]})
    remote.request("closeTab", tabId=remote.request("createTab")["tabId"])
    native.request("browser/pause", session="session_2", paused=True)
    assert remote.rejection("createTab", session="session_2")["code"] == PAUSED
    assert remote.rejection("createTab")["code"] == PAUSED
    native.request("browser/pause", session="session_2", paused=False)


def test_a_client_of_a_proxy_has_no_more_site_rules_than_the_browser_takes(
    native: Native, remote: ProxyClient
) -> None:
    native.name_session()
    native.request("browser/siteRules", sessions=[{"session": "session_1", "deny": ["denied.example"]}])
    remote.request("closeTab", tabId=remote.request("createTab")["tabId"])
    rules = [{"session": remote.connection, "deny": [f"h{number}.example" for number in range(1001)]}]
    assert remote.rejection("browser/siteRules", sessions=rules)["code"] == INVALID_PARAMS
    tab_id = native.request("createTab", session="session_1")["tabId"]
    native.request("closeTab", session="session_1", tabId=tab_id)
    native.request("browser/siteRules", sessions=[])


def test_a_session_of_a_native_client_is_not_that_of_a_proxied_one_with_the_same_id_until_its_host_ends(
    both: ProxiedBrowser, native: Native, remote: ProxyClient
) -> None:
    native.name_session()
    remote.send(method="bridge/sessions", params={"sessions": [SESSION]})
    tab_id = native.request("createTab", session="session_1")["tabId"]
    assert remote.rejection("closeTab", tabId=tab_id, session="session_1")["code"] == NOT_YOURS
    assert remote.rejection("createTab", session="session_1")["code"] == NOT_YOURS
    own = remote.request("createTab")["tabId"]
    assert native.request("closeTab", tabId=own, session="session_1")["code"] == NOT_YOURS
    remote.request("closeTab", tabId=own)

    lose_host(both)
    both.proxy.until(lambda: remote.response_to(remote.begin("createTab", session="session_1")).get("result"))
    remote.request("closeTab", session="session_1")
    assert remote.request("closeTab", tabId=tab_id, session="session_1") == {}


def test_a_browser_with_both_is_listed_once_and_keeps_its_tools_when_its_host_is_killed(
    both: ProxiedBrowser,
) -> None:
    proxy = both.proxy
    settings = {"SSL_CERT_FILE": str(proxy.authority.file), "MCPB_PROXY_URL": proxy.url}
    agent = replace(both.chain, settings={**settings, "MCPB_PROXY_TOKEN": proxy.token()})
    with both.page("tabserver.html"), both.thread.holding(agent.client()) as client:
        names = both.thread.run(until_listed, client, bool)
        assert_used(both, agent, through="")
        (echo,) = [name for name in names if name.endswith("_echo")]
        lose_host(both)
        both.thread.run(keep_listing, client, echo)
        assert_used(both, agent, through=proxy.url)


async def keep_listing(client: Client, echo: str) -> None:
    """List all the time, until a call works again, and for as long as a lost browser's tools stay listed."""
    lost_at = trio.current_time()
    switched_at = 0.0
    while not switched_at or trio.current_time() < lost_at + SWITCH_S + 1:
        assert echo in await page_tools(client)
        if not switched_at and await call(client, echo, text="on") == (False, "echo: on"):
            switched_at = trio.current_time()
        await trio.sleep(0.1)
    assert switched_at < lost_at + SWITCH_S


def assert_used(machine: ProxiedBrowser, agent: Chain, *, through: str) -> None:
    """Check that `mcpb status` lists one browser, and through which proxy that is used; empty: natively."""
    found = machine.thread.run(agent.status)
    assert [browser["proxy"] for browser in found["browsers"]] == [through], found
