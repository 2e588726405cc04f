"""Staying connected to `mcpb proxy serve`: idle workers, stopped workers, a killed proxy, tokens that end."""

from __future__ import annotations

import os
from time import monotonic

from proxied_browser import ProxiedBrowser
from served_proxy import seconds_between, time_of
from websocket_proxy.protocol import Role

IDLE_S = 75.0 if os.environ.get("MCPB_SOAK") else 40.0
"""Longer than the 30 s after which a browser stops a worker that does nothing."""
AT_ONCE_S = 1.0
"""For a call of a page's tool: less than what a connection that was lost takes to be back."""
AFTER_STOP_S = 3.0
AFTER_RESTART_S = 5.0
TOKEN_S = 3600
"""Seconds until an access token of the proxy expires."""


def test_after_the_worker_was_stopped_the_browser_is_connected_within_three_seconds(
    proxied: ProxiedBrowser,
) -> None:
    proxy = proxied.proxy
    with proxied.page("tabserver.html"):
        with proxied.client(wire=True) as client:
            client.until_offered("echo")
        before = proxy.openings
        proxied.stop_worker()
        opened = proxy.until_connected(after=len(before))
        lost = proxy.events("closed", Role.EXTENSION)[-1]
        assert seconds_between(lost, opened) < AFTER_STOP_S
        assert opened["id"] == before[-1]["id"]
        with proxied.client(wire=True) as client:
            client.until_offered("echo")


def test_a_new_token_is_sent_on_the_same_socket_when_the_proxy_asks_again(proxied: ProxiedBrowser) -> None:
    proxy = proxied.proxy
    with proxied.page("plain.html"):
        count = len(proxy.openings)
        proxied.stop_worker()
        opened = proxy.until_connected(after=count)

        def is_renewed() -> bool:
            (session,) = [each for each in proxy.sessions() if each["sockets"]]
            return bool(session["refreshed_at"] > time_of(opened))

        proxy.until(is_renewed)
        assert proxy.openings[count:] == [opened]
        assert proxy.is_connected


def test_a_browser_whose_token_has_expired_meanwhile_is_signed_in_again(proxied: ProxiedBrowser) -> None:
    """The proxy's clock moves on: a token lasts an hour, and the browser does not know that it has ended."""
    proxy = proxied.proxy
    with proxied.page("tabserver.html"):
        count, rejected = len(proxy.openings), len(proxy.events("token-rejected"))
        proxy.advance_clock(TOKEN_S + 600)
        proxied.stop_worker()
        proxy.until_connected(after=count)
        assert [each["reason"] for each in proxy.events("token-rejected")[rejected:]] == ["expired"]
        with proxied.client(wire=True) as client:
            client.until_offered("echo")


def test_a_browser_that_is_left_alone_stays_connected_and_answers_at_once(
    left_alone: tuple[ProxiedBrowser, float],
) -> None:
    opened, since = left_alone
    proxy = opened.proxy
    (first,) = proxy.openings
    proxy.until(lambda: monotonic() > since + IDLE_S, 2 * IDLE_S)
    with opened.client(wire=True) as client:
        address = client.until_offered("echo")
        begun = monotonic()
        result = client.request("browser/executeTool", **address, toolName="echo", args={"text": "on"})
        assert monotonic() < begun + AT_ONCE_S
    assert result["payload"]["content"][0]["text"] == "echo: on"
    assert proxy.openings == [first]
    assert proxy.events("closed", Role.EXTENSION) == []


def test_after_the_proxy_was_killed_and_restarted_the_browser_is_connected_within_five_seconds_with_its_tools(
    proxied: ProxiedBrowser,
) -> None:
    proxy = proxied.proxy
    with proxied.page("tabserver.html"):
        proxy.until_connected()
        before = proxy.openings
        proxy.kill()
        proxy.start()
        with proxied.client() as client:  # as soon as the browser is listed
            assert client.request("getTabs")["tabs"]
        opened = proxy.until_connected(after=len(before))
        assert seconds_between(proxy.events("started")[-1], opened) < AFTER_RESTART_S
        assert opened["id"] == before[-1]["id"]
        with proxied.client(wire=True) as client:
            client.until_offered("echo")
