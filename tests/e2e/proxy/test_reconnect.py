"""Staying connected to a WebSocket proxy: lost sockets, stopped workers, tokens that end."""

from __future__ import annotations

from time import monotonic

from proxied_browser import ProxiedBrowser
from proxy_client import connected_client

BACK_S = 20.0
"""For a connection after a loss; it takes 1 to 3 s on an idle machine."""
IDLE_S = 40.0
"""Longer than the 30 s after which a browser stops a worker that does nothing."""


def test_after_the_proxy_was_killed_and_restarted_the_browser_connects_again_with_its_tools(
    proxied: ProxiedBrowser,
) -> None:
    proxy = proxied.proxy
    with proxied.page("tabserver.html"):
        proxy.kill()
        proxy.start()
        proxy.until(lambda: proxy.hello, BACK_S)
        with proxied.client(wire=True) as client:
            client.until_offered("echo")


def test_after_the_worker_was_stopped_the_browser_connects_again(proxied: ProxiedBrowser) -> None:
    proxy = proxied.proxy
    with proxied.page("tabserver.html"):
        with proxied.client(wire=True) as client:
            client.until_offered("echo")
        before = proxy.extension
        proxied.browser.stop_workers()
        proxy.until(lambda: proxy.extension is not before and proxy.hello, BACK_S)
        with proxied.client(wire=True) as client:
            client.until_offered("echo")


def test_a_request_that_follows_the_authentication_at_once_is_answered(proxied: ProxiedBrowser) -> None:
    proxy = proxied.proxy
    before = proxy.until_connected()
    before.close(1001)
    proxy.until(lambda: proxy.extension not in {None, before}, BACK_S)
    with connected_client(proxy.client_url) as client:
        assert client.request("getTabs")["tabs"]


def test_a_new_token_is_sent_on_the_same_socket_when_the_proxy_asks_again(proxied: ProxiedBrowser) -> None:
    proxy = proxied.proxy
    before, count = proxy.until_connected(), len(proxy.authentications)
    proxy.ask_token()
    proxy.until(lambda: len(proxy.authentications) > count)
    first, second = (each["accessToken"] for each in proxy.authentications[-2:])
    assert first != second
    assert proxy.extension is before


def test_an_expired_token_is_renewed_although_the_response_is_lost_once(proxied: ProxiedBrowser) -> None:
    proxy = proxied.proxy
    before, refreshes = proxy.until_connected(), proxy.issuer.refreshes
    proxy.issuer.valid.clear()
    proxy.issuer.loses_responses = 1
    before.close(1008, "Token expired")
    proxy.until(lambda: proxy.extension not in {before, None} and proxy.hello, BACK_S)
    assert proxy.issuer.refreshes == refreshes + 2


def test_a_revoked_sign_in_ends_and_the_popup_asks_for_another(proxied: ProxiedBrowser) -> None:
    proxy = proxied.proxy
    proxy.issuer.revoke()
    with proxied.popup() as popup:
        proxy.until_connected().close(1008, "Invalid token: revoked")
        popup.until_step("The sign-in has ended. Connect again to sign in.")
        popup.press("Connect")
        proxy.decide(popup.until_code())
        proxy.until_connected()


def test_a_browser_that_is_left_alone_stays_connected_and_answers_at_once(
    left_alone: tuple[ProxiedBrowser, float],
) -> None:
    opened, since = left_alone
    first, count = opened.proxy.extension, len(opened.proxy.authentications)
    opened.proxy.until(lambda: monotonic() > since + IDLE_S, 2 * IDLE_S)
    with opened.client(wire=True) as client:
        address = client.until_offered("echo")
        result = client.request("browser/executeTool", **address, toolName="echo", args={"text": "on"})
    assert result["payload"]["content"][0]["text"] == "echo: on"
    assert opened.proxy.extension is first
    assert len(opened.proxy.authentications) == count == 2
