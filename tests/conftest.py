"""Fixtures that several test files share."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from demo.chromium import Chromium, find_chromium
from demo.temporary_directory import throw_away_directory
from full_chain import Chain, serving_pages
from native_host.protocol.wire import MIB
from real_firefox import find_firefox
from shared_browser import SharedBrowser, SharedChain, open_shared_browser

MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 4 * 1024 * MIB
"""For the profiles of the browsers of three groups, more than ten times what they need."""


def pytest_configure(config: pytest.Config) -> None:
    """Programs inherit which signals are ignored: from a run in the background (`nohup`) these would be.

    In `make test` temporary files are in memory, if there is room: a tenth less for the processors to do, and
    groups that run at once do not wait for each other's writes.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if "MCPB_TEST_RESULTS" in os.environ and has_room(MEMORY):
        directory = TemporaryDirectory(prefix="mcpb-", dir=MEMORY, ignore_cleanup_errors=True)
        config.add_cleanup(directory.cleanup)
        Path(directory.name).chmod(0o1777)  # as /tmp: some tests play other users
        os.environ["TMPDIR"] = tempfile.tempdir = directory.name


def has_room(directory: Path) -> bool:
    """Return whether tests can write there and start programs from there."""
    if not os.access(directory, os.W_OK):
        return False
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize >= MIN_FREE_BYTES and not found.f_flag & os.ST_NOEXEC


HERE = Path(__file__).parent
MARKS: Mapping[str, Sequence[pytest.MarkDecorator]] = {
    "e2e": [pytest.mark.chromium],
    "e2e/firefox": [pytest.mark.firefox],
    "e2e/machine": [pytest.mark.chromium, pytest.mark.firefox, pytest.mark.machine],
    "contract/claude_in_chrome": [pytest.mark.interop],
    "contract/clients/test_claude_code.py": [pytest.mark.chromium, pytest.mark.interop],
    "contract/clients/test_client_snippets.py": [pytest.mark.interop],
    "contract/clients/test_conformance.py": [pytest.mark.chromium],
    "contract/clients/test_foreign_clients.py": [pytest.mark.chromium],
    "contract/pages/test_page_module_readme.py": [pytest.mark.chromium],
    "contract/pages/test_proxy_guide.py": [pytest.mark.chromium],
}
"""Marks of the tests in a folder or file. The longest path counts; no test file marks itself."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with what it needs, by its place."""
    for item in items:
        for mark in marks_of(item.path.relative_to(HERE).as_posix()):
            item.add_marker(mark)


def marks_of(path: str) -> Sequence[pytest.MarkDecorator]:
    """Return the marks of a test file, whose path is relative to `tests/`."""
    places = [place for place in MARKS if path == place or path.startswith(f"{place}/")]
    return MARKS[max(places, key=len)] if places else ()


FORKING = [HERE / "e2e" / folder for folder in ("browser_tools", "chain", "extension", "http", "security")]
"""Folders with many tests that start bridges, which are about something else."""


def forks_bridges(node: pytest.Item) -> bool:
    """Return whether the bridges of a test may be forks (`Chain.forks_bridges`)."""
    return node.path.parent in FORKING and not node.get_closest_marker("real_bridges")


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
        yield Chain(short_tmp, pages, forks_bridges=forks_bridges(request.node))
        return
    shared: SharedBrowser = request.getfixturevalue("browser_of_file")
    with shared.chain(forks_bridges=forks_bridges(request.node)) as chain:
        yield chain


@pytest.fixture
async def browser(chain: Chain) -> AsyncIterator[Chromium]:
    """A Chromium on that machine, with our extension and our host."""
    async with chain.borrowed() if isinstance(chain, SharedChain) else chain.browser() as chromium:
        yield chromium
