"""Approval prompts in a window of the extension, in a real Chromium: the hosts' log is the judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from approval_window import wait_approval_window, wait_no_approval_window
from browsing import Browsing, Tools
from logged_hosts import LoggedHosts

ASK = '[browser]\nsites = "ask"\n'
SECONDS = 60
APPROVALS = "state/approvals.json"


@pytest.fixture(scope="module")
def calls() -> Iterator[ThreadPoolExecutor]:
    """Threads for calls that wait for the user."""
    with ThreadPoolExecutor(8) as executor:
        yield executor


@pytest.fixture(autouse=True)
def _forget(browsing: Browsing, hosts: LoggedHosts) -> Iterator[None]:
    write_config(browsing, ASK)
    hosts.clear()
    yield
    (browsing.chain.home / APPROVALS).unlink(missing_ok=True)
    wait_no_approval_window(browsing.browser)


def write_config(browsing: Browsing, text: str) -> None:
    path = browsing.chain.home / "config.toml"
    path.write_text(text)
    path.chmod(0o600)


def stored(browsing: Browsing) -> Any:
    return json.loads((browsing.chain.home / APPROVALS).read_text())


@pytest.fixture
def tools(browsing: Browsing) -> Iterator[Tools]:
    with browsing.client("Claude Code") as opened:
        yield opened


def test_a_site_is_not_requested_before_the_user_allows_it_and_once_is_one_call(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    for number in (1, 2):
        call = calls.submit(tools.call, "navigate", url=hosts.url("shop.localhost"))
        window = wait_approval_window(browsing.browser)
        assert window.text("origin") == hosts.origin("shop.localhost")
        assert window.text("client").startswith("Claude Code")
        assert window.text("kind") == "read this site and act on it"
        assert window.choices() == ["once", "hour", "client", "always", "no"]
        assert len(hosts.requests("shop.localhost")) == number - 1
        window.press("once")
        assert not call.result(SECONDS).is_error
        assert len(hosts.requests("shop.localhost")) == number
        wait_no_approval_window(browsing.browser)
    call = calls.submit(tools.call, "read_page")
    window = wait_approval_window(browsing.browser)
    assert window.text("kind") == "read this site"
    window.press("no")
    assert "said no" in call.result(SECONDS).text
    assert not (browsing.chain.home / APPROVALS).exists()
