"""One browser that is connected to a native host and to a WebSocket proxy at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import trio
from mcp import Client

from full_chain import Chain, call, page_tools, until_listed
from proxied_browser import ProxiedBrowser
from proxy_client import ProxyClient
from socket_observer import Onlooker, hosts, onlooking
from wire_peers import until

SESSION = {"id": "session_1", "title": "", "client": {"name": "agent", "version": "1"}}
NOT_YOURS = -32016
SWITCH_S = 3.0
"""Seconds in which a lost host's tools stay listed."""


@pytest.fixture
def both(proxied: ProxiedBrowser) -> ProxiedBrowser:
    """A browser with both connections."""
    if not hosts(proxied.chain):
        proxied.chain.register(proxied.chain.home / "profile")
        with proxied.popup():  # with it open, the extension looks for a host at once
            proxied.thread.run(until, lambda: bool(hosts(proxied.chain)))
    return proxied


@pytest.fixture(scope="module", autouse=True)
def unregister(machine: ProxiedBrowser) -> Iterator[None]:
    """Leave the browser without a native host."""
    yield
    lose_host(machine)


def lose_host(machine: ProxiedBrowser) -> None:
    """Kill the host, which cannot be started again."""
    for manifest in (machine.chain.home / "profile" / "NativeMessagingHosts").glob("*.json"):
        manifest.unlink()
    for host in hosts(machine.chain):
        os.kill(host.pid, signal.SIGKILL)


class Native:
    """A client of the native host, for tests that are plain functions."""

    def __init__(self, machine: ProxiedBrowser, onlooker: Onlooker) -> None:
        self._run = machine.thread.run
        self._onlooker = onlooker

    def request(self, method: str, **params: Any) -> Any:
        """The result of a request, or its error."""
        return self._run(partial(self._onlooker.request, method, **params))

    def begin(self, number: int, method: str, **params: Any) -> None:
        """Send a request with this id."""
        self._run(partial(self._onlooker.say, id=number, method=method, params=params))

    def response_to(self, number: int) -> Any:
        return self._run(self._onlooker.answer_to, number)

    def name_session(self) -> None:
        """Have the session, and wait until the extension knows."""
        self._run(partial(self._onlooker.notify, "bridge/sessions", sessions=[SESSION]))
        self.request("getTabs")


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
