"""One browser that is connected to a native host and to a WebSocket proxy at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from proxied_browser import ProxiedBrowser, open_proxied_browser
from proxy_client import ProxyClient
from socket_observer import Onlooker, hosts, onlooking
from wire_peers import until

SESSION = {"id": "session_1", "title": "", "client": {"name": "agent", "version": "1"}}
NOT_YOURS = -32016


@pytest.fixture(scope="module")
def both() -> Iterator[ProxiedBrowser]:
    """A browser with both connections."""
    with open_proxied_browser() as opened:
        opened.chain.register(opened.chain.home / "profile")
        opened.sign_in()
        opened.thread.run(until, lambda: hosts(opened.chain))
        yield opened


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
def proxied(both: ProxiedBrowser) -> Iterator[ProxyClient]:
    with both.client(wire=True) as client:
        yield client


def test_both_ways_have_the_whole_state_and_each_change(
    both: ProxiedBrowser, native: Native, proxied: ProxyClient
) -> None:
    with both.page("tabserver.html"):
        address = proxied.until_offered("echo")
        call = {**address, "toolName": "echo", "args": {"text": "on"}}
        assert native.request("browser/executeTool", **call) == proxied.request("browser/executeTool", **call)
        paused = proxied.request("browser/pause", site="https://shop.example", paused=True)
        assert paused == {}
        assert (
            native.request("createTab", url="https://shop.example/")["data"]["site"] == "https://shop.example"
        )
        native.request("browser/pause", site="https://shop.example", paused=False)
        proxied.until(lambda: proxied.params_of("browser/paused")[-1]["sites"] == [])


def test_requests_with_the_same_ids_run_beside_each_other_and_are_cancelled_alone(
    both: ProxiedBrowser, native: Native, proxied: ProxyClient
) -> None:
    with both.page("tabserver.html") as page:
        call = {**proxied.until_offered("slow"), "toolName": "slow", "args": {}}
        number = proxied.begin("browser/executeTool", **call)
        page.wait_until("window.runs === 1")
        native.begin(number, "browser/executeTool", **call)
        page.wait_until("window.runs === 2")
        proxied.send(method="browser/cancel", params={"id": number})
        page.wait_until("window.cancelled === 1")
        page.evaluate("(window.finishSlow(), 0)")
        payload = native.response_to(number)["result"]["payload"]
        assert payload["content"][0]["text"] == "slow: done"


def test_a_session_of_a_native_client_is_not_that_of_a_proxied_one_with_the_same_id_until_its_host_ends(
    both: ProxiedBrowser, native: Native, proxied: ProxyClient
) -> None:
    native.name_session()
    proxied.send(method="bridge/sessions", params={"sessions": [SESSION]})
    tab_id = native.request("createTab", session="session_1")["tabId"]
    assert proxied.rejection("closeTab", tabId=tab_id, session="session_1")["code"] == NOT_YOURS
    assert proxied.rejection("createTab", session="session_1")["code"] == NOT_YOURS
    own = proxied.request("createTab")["tabId"]
    assert native.request("closeTab", tabId=own, session="session_1")["code"] == NOT_YOURS

    for host in hosts(both.chain):
        os.kill(host.pid, signal.SIGKILL)
    both.proxy.until(
        lambda: proxied.response_to(proxied.begin("createTab", session="session_1")).get("result")
    )
    assert proxied.request("closeTab", tabId=tab_id, session="session_1") == {}
