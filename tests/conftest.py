"""Fixtures that several test files share."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from chain import Chain, serving_pages
from demo.chromium import Chromium, find_chromium
from demo.temporary_directory import throw_away_directory
from firefox import find_firefox
from shared_browser import SharedBrowser, SharedChain, open_shared_browser


def pytest_configure() -> None:
    """Programs inherit which signals are ignored: from a run in the background (`nohup`) these would be."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without a browser its tests are skipped, but never in CI."""
    if os.environ.get("CI"):
        return
    if item.get_closest_marker("chromium") and not find_chromium():
        pytest.skip("no Chromium: apt install chromium")
    if item.get_closest_marker("firefox") and not find_firefox():
        pytest.skip("no Firefox: apt install firefox-esr")


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """A directory with a short path: pytest's own are too long for a socket's address."""
    with throw_away_directory() as path:
        yield path


@pytest.fixture(autouse=True)
def no_existing_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another product only what a test itself has put there is seen, not the user's nor another test's."""
    monkeypatch.setenv("MCPB_EXISTING_CHANNEL_DIRECTORY", "/nonexistent")


@pytest.fixture
def mcpb_home(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A throw-away MCPB_HOME, for this process and every one it starts."""
    monkeypatch.setenv("MCPB_HOME", str(short_tmp))
    return short_tmp


@pytest.fixture(scope="session")
def pages() -> Iterator[str]:
    """The base URL of the test pages."""
    with serving_pages() as url:
        yield url


@pytest.fixture(scope="module")
def browser_of_file() -> Iterator[SharedBrowser]:
    """The browser that the tests of a file share which is marked `one_browser`."""
    with open_shared_browser() as shared:
        yield shared


@pytest.fixture
def chain(request: pytest.FixtureRequest, short_tmp: Path, pages: str) -> Iterator[Chain]:
    """A machine of its own for a test, or for a file that is marked `one_browser`, if the test takes it."""
    if not (request.node.get_closest_marker("one_browser") and "browser" in request.fixturenames):
        yield Chain(short_tmp, pages)
        return
    shared: SharedBrowser = request.getfixturevalue("browser_of_file")
    with shared.chain() as chain:
        yield chain


@pytest.fixture
async def browser(chain: Chain) -> AsyncIterator[Chromium]:
    """A Chromium on that machine, with our extension and our host."""
    async with chain.borrowed() if isinstance(chain, SharedChain) else chain.browser() as chromium:
        yield chromium
