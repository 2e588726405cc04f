"""One browser at a WebSocket proxy for all tests, and one that is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pytest

from proxied_browser import ProxiedBrowser, open_proxied_browser


@pytest.fixture(scope="session")
def machine() -> Iterator[ProxiedBrowser]:
    """A browser that may be signed in or not."""
    with open_proxied_browser() as opened:
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
        opened.sign_in()
        opened.browser.open(f"{opened.pages}/tabserver.html")
        # A worker of a new installation looks for a native host every few seconds; its successor does not.
        installed = opened.proxy.extension
        opened.browser.stop_workers()
        opened.proxy.until(lambda: opened.proxy.extension not in {None, installed} and opened.proxy.hello)
        yield opened, monotonic()


@pytest.fixture(scope="session", autouse=True)
def begin_leaving_alone(request: pytest.FixtureRequest) -> None:
    """Leave it alone while the other tests run: the wait is long."""
    if any("left_alone" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("left_alone")
