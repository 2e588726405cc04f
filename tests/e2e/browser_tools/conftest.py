"""One browser and one client for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tool_browser import Browsing, Tools, open_browsing


@pytest.fixture(scope="module")
def browsing() -> Iterator[Browsing]:
    """A user's machine with a real Chromium."""
    with open_browsing() as opened:
        yield opened


@pytest.fixture(scope="module")
def tools(browsing: Browsing) -> Iterator[Tools]:
    """A client of it, whose actions report no changes."""
    with browsing.client() as opened:
        yield opened


@pytest.fixture(autouse=True)
def tab_of_last_test(request: pytest.FixtureRequest) -> None:
    """Let a test use the tab of the test before (`Tools.open_site`)."""
    if "tools" in request.fixturenames:
        tools: Tools = request.getfixturevalue("tools")
        tools.begin_test()
