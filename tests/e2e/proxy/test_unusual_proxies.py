"""A browser at proxies that answer as `mcpb proxy serve` never does; a stand-in plays them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from native_client import SESSION, Native, add_host, lose_host
from proxied_browser import Popup, ProxiedBrowser
from proxy_stand_in import USER, ProxyStandIn, standing_in
from socket_observer import onlooking

INVALID_REQUEST, NOT_YOURS = -32600, -32016


@pytest.fixture(scope="module")
def stand_in() -> Iterator[ProxyStandIn]:
    with standing_in() as stand_in:
        yield stand_in


@pytest.fixture(scope="module")
def popup_of_file(machine: ProxiedBrowser) -> Iterator[Popup]:
    with machine.popup() as popup:
        yield popup
        popup.leave()


@pytest.fixture
def popup(popup_of_file: Popup) -> Popup:
    """The popup of a browser that is at no proxy."""
    popup_of_file.leave()
    return popup_of_file


@pytest.fixture
def proxy(popup: Popup, stand_in: ProxyStandIn) -> ProxyStandIn:
    """The stand-in, to which the browser is connected."""
    connect(popup, stand_in)
    return stand_in


def connect(popup: Popup, stand_in: ProxyStandIn) -> None:
    popup.choose(stand_in.url)
    stand_in.issuer.approved.add(popup.until_code())
    stand_in.until_connected()


def test_a_provider_elsewhere_is_found_by_the_proxy_s_metadata_and_its_page_is_linked(popup: Popup) -> None:
    with standing_in() as provider, standing_in() as proxy:
        proxy.issuer, proxy.issuer_url = provider.issuer, provider.url
        popup.choose(proxy.url)
        step = popup.until_step("Approve this browser with the code")
        assert f"{provider.url}/device" in step
        provider.issuer.approved.add(step.split("with the code ")[1][:9])
        popup.until_state(f"Connected as {USER}.")
        popup.leave()


REASONS = {
    "audience": "The token is for another service than this proxy.",
    "scope": "The token does not allow to connect a browser.",
    "connection-url": "The token is for another address",
    "not-invented-yet": "The proxy has rejected the token: not-invented-yet.",
}


def test_the_reason_for_which_a_proxy_rejects_a_token_is_shown_in_words(
    popup: Popup, stand_in: ProxyStandIn
) -> None:
    for reason, words in REASONS.items():
        connect(popup, stand_in)
        stand_in.reject = reason
        stand_in.until_connected().close(1008, f"Invalid token: {reason}")
        popup.until_step(words)
        stand_in.reject = ""
        popup.press("Disconnect")
        popup.wait_until("document.getElementById('proxy-step').hidden")


def test_a_proxy_of_another_wire_version_is_named(popup: Popup, proxy: ProxyStandIn) -> None:
    proxy.wire = 2
    proxy.until_connected().close(1001)
    popup.until_step("It speaks version 2 of the wire, this extension 1.")
    proxy.wire = 1


def test_an_expired_token_is_renewed_although_the_response_is_lost_once(proxy: ProxyStandIn) -> None:
    before, refreshes = proxy.until_connected(), proxy.issuer.refreshes
    proxy.issuer.valid.clear()
    proxy.issuer.lost_responses = 1
    before.close(1008, "Token expired")
    proxy.until(lambda: proxy.extension not in {before, None} and proxy.is_greeted)
    assert proxy.issuer.refreshes == refreshes + 2


def test_a_sign_in_that_is_revoked_while_its_token_is_renewed_has_ended(
    popup: Popup, proxy: ProxyStandIn
) -> None:
    def revoke() -> None:
        proxy.until_connected().close(1008, "Invalid token: revoked")
        proxy.until(lambda: proxy.extension is None)

    proxy.issuer.before_rejection = revoke
    proxy.until_connected().send(id="proxy:1", method="authenticate", params={})
    popup.until_step("The sign-in has ended. Connect again to sign in.")


# ── A proxy that names what is not its own ──────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def host(machine: ProxiedBrowser, popup_of_file: Popup) -> Iterator[None]:
    """A native host, as long as the tests of this file run."""
    add_host(machine)
    yield
    lose_host(machine)


@pytest.fixture
def native(machine: ProxiedBrowser, host: None) -> Iterator[Native]:
    with machine.thread.holding(onlooking(machine.chain)) as onlooker:
        yield Native(machine, onlooker)


def response_to(proxy: ProxyStandIn, **request: Any) -> Any:
    """Send a request as the proxy itself; the response to it."""
    proxy.responses.clear()
    proxy.until_connected().send(**request)

    def responses() -> list[Any]:
        return [each for each in proxy.responses if each.get("id") == request["id"]]

    proxy.until(responses)
    return responses()[0]


def test_a_request_that_names_no_connection_is_rejected(proxy: ProxyStandIn) -> None:
    for request_id in ("7", ":7"):
        rejected = response_to(proxy, id=request_id, method="createTab", params={})
        assert rejected["error"]["code"] == INVALID_REQUEST


def test_the_id_of_a_request_in_flight_is_rejected(machine: ProxiedBrowser, proxy: ProxyStandIn) -> None:
    page = f"{machine.pages}/plain.html"
    tab_id = response_to(proxy, id="conn-1:1", method="createTab", params={})["result"]["tabId"]
    response_to(proxy, id="conn-1:3", method="browser_navigate", params={"tabId": tab_id, "url": page})
    watch = {"tabId": tab_id, "events": ["mcpb.subscribed"]}
    proxy.until_connected().send(id="conn-1:2", method="subscribeCDP", params=watch)
    proxy.until(lambda: any(each.get("for") == "conn-1:2" for each in proxy.responses))
    assert response_to(proxy, id="conn-1:2", method="getTabs")["error"]["code"] == INVALID_REQUEST


def test_native_sessions_that_a_proxy_names_as_its_own_keep_their_tabs(
    proxy: ProxyStandIn, native: Native
) -> None:
    native.name_session()
    tab_id = native.request("createTab", session="session_1")["tabId"]
    close = {"id": "session_1:1", "method": "closeTab", "params": {"tabId": tab_id}}
    assert response_to(proxy, **close)["error"]["code"] == NOT_YOURS
    ended = {"connection_id": "session_1", "reason": "MCP client closed"}
    clients = [{"connection": "session_1", "sessions": [SESSION]}]
    proxy.until_connected().send(method="disconnected", params=ended)
    proxy.until_connected().send(method="host/clients", params={"clients": clients})
    tabs = response_to(proxy, id="conn-1:1", method="getTabs")["result"]["tabs"]
    assert [tab["owner"] for tab in tabs if tab["tabId"] == tab_id] == ["session_1"]
    native.request("closeTab", session="session_1", tabId=tab_id)


@pytest.mark.parametrize(
    "clients", ["x", [None], [{"connection": "c"}], [{"connection": "c", "sessions": [None]}]]
)
def test_invalid_clients_of_a_proxy_leave_those_of_the_native_host(
    proxy: ProxyStandIn, native: Native, clients: object
) -> None:
    native.name_session()
    proxy.until_connected().send(method="host/clients", params={"clients": clients})
    response_to(proxy, id="conn-1:1", method="getTabs")
    tab_id = native.request("createTab", session="session_1")["tabId"]
    native.request("closeTab", session="session_1", tabId=tab_id)
