"""One browser at a WebSocket proxy for all tests, and one that is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pytest

from proxied_browser import ProxiedBrowser, open_proxied_browser

SETTINGS = """
unauthenticated_sockets_per_address = 4
authentication_s = 60
renewal_s = 3600
"""
"""Of the proxy: few sockets wait for a token, and the browser is asked for a new one after each opening."""


@pytest.fixture(scope="session")
def machine() -> Iterator[ProxiedBrowser]:
    """A browser that may be signed in or not."""
    with open_proxied_browser(SETTINGS) as opened:
        yield opened


@pytest.fixture
def proxied(machine: ProxiedBrowser) -> ProxiedBrowser:
    """The same browser, signed in."""
    machine.sign_in()
    return machine


@pytest.fixture(scope="session")
def left_alone() -> Iterator[tuple[ProxiedBrowser, float]]:
    """A browser that is connected, shows a page, and is left alone; since when."""
    with open_proxied_browser() as opened:
        opened.begin_sign_in()
        # A worker of a new installation looks for a native host every few seconds; its successor does not.
        opened.browser.stop_workers()
        opened.browser.open(f"{opened.pages}/tabserver.html")
        opened.proxy.until_connected()
        yield opened, monotonic()


@pytest.fixture(scope="session", autouse=True)
def begin_leaving_alone(request: pytest.FixtureRequest) -> None:
    """Leave it alone while the other tests run: the wait is long."""
    if any("left_alone" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("left_alone")
