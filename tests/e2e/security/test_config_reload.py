"""config.toml is read again while clients run: a denied site is rejected, an error changes nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from full_chain import MCPB
from logged_hosts import LoggedHosts
from site_boundary import wait_true
from tool_browser import Browsing, Tools

BANK = "bank.localhost"


@pytest.fixture
def config(browsing: Browsing) -> Iterator[Path]:
    path = browsing.chain.home / "config.toml"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def clients(browsing: Browsing) -> Iterator[list[Tools]]:
    with ExitStack() as stack:
        yield [stack.enter_context(browsing.client(f"client {number}")) for number in range(3)]


def deny(hosts: LoggedHosts, *names: str) -> str:
    return f"[policy]\ndeny = {json.dumps([hosts.origin(name) for name in names])}\n"


def status(browsing: Browsing, *arguments: str) -> str:
    command = [*MCPB, "status", *arguments]
    done = subprocess.run(command, env=browsing.chain.env, capture_output=True, check=True, timeout=60)
    return done.stdout.decode()


def test_a_denied_site_is_rejected_for_each_running_client(
    browsing: Browsing, hosts: LoggedHosts, config: Path, clients: list[Tools]
) -> None:
    url = hosts.set_page(BANK, "/", "the balance is 4711")
    for client in clients:
        client.done("navigate", url=url)
        assert "4711" in client.done("get_page_text").text
    config.write_text(deny(hosts, BANK))
    wait_true(lambda: all(client.call("get_page_text").is_error for client in clients))
    hosts.clear()
    for client in clients:
        for tool, arguments in [
            ("get_page_text", {}),
            ("navigate", {"url": f"{url}again"}),
            ("javascript_tool", {"action": "javascript_exec", "text": "fetch('/acted')"}),
        ]:
            refused = client.refused(tool, **arguments)
            assert f'policy.deny has "{hosts.origin(BANK)}"' in refused
            assert "4711" not in refused
    assert hosts.requests(BANK) == []
    config.write_text("")
    wait_true(lambda: all(not client.call("get_page_text").is_error for client in clients))


def test_a_syntax_error_keeps_the_rules_and_status_shows_file_and_line(
    browsing: Browsing, hosts: LoggedHosts, config: Path, clients: list[Tools]
) -> None:
    config.write_text(deny(hosts, BANK))
    wait_true(lambda: all(client.call("navigate", url=hosts.url(BANK)).is_error for client in clients))
    config.write_text("[policy]\n\ndeny = [[\nfoo")
    log = browsing.chain.home / "state/mcpb.log"
    wait_true(lambda: "The rules stay as they were" in log.read_text())
    assert f"{config} is not valid TOML" in log.read_text()
    hosts.clear()
    for client in clients:
        assert "policy.deny has" in client.refused("navigate", url=hosts.url(BANK))
    assert hosts.requests(BANK) == []
    shown = status(browsing)
    assert f"problem: {config} is not valid TOML: Invalid value (at line 4, column 1)" in shown
    assert "Clients that run keep the rules that they had" in shown
    config.write_text("[policy]\n\ndeny = 3")
    assert f"problem: {config}: policy.deny = 3: expected array, got int (at line 3)" in status(browsing)


def test_a_deny_stops_a_sequence_that_runs(
    browsing: Browsing, hosts: LoggedHosts, config: Path, clients: list[Tools]
) -> None:
    """The site is denied while the call waits inside the page: what follows in it is not sent."""
    page = "<input id=field autofocus><script>field.oninput = () => fetch('/typed?' + field.value)</script>"
    clients[0].done("navigate", url=hosts.set_page(BANK, "/form", page))
    script = "await new Promise((resolve) => setTimeout(resolve, 6000)); 'waited'"
    wait = {"name": "javascript_tool", "input": {"action": "javascript_exec", "text": script}}
    act = {"name": "javascript_tool", "input": {"action": "javascript_exec", "text": "fetch('/acted')"}}
    config.write_text(deny(hosts, BANK))
    result = clients[0].call("browser_batch", actions=[wait, act])
    assert "policy.deny has" in result.text
    assert "/acted" not in [request.path for request in hosts.requests(BANK)]


def test_status_names_a_process_that_runs_with_other_rules(
    browsing: Browsing, config: Path, clients: list[Tools]
) -> None:
    wait_true(lambda: json.loads(status(browsing, "--json"))["otherRules"] == [])
    with browsing.client("stricter", settings={"MCPB_BROWSER_SITES": "ask"}):
        wait_true(lambda: len(json.loads(status(browsing, "--json"))["otherRules"]) == 1)
        assert "stricter" in (shown := status(browsing))
        assert "runs with other rules than config.toml" in shown
    wait_true(lambda: json.loads(status(browsing, "--json"))["otherRules"] == [])


def test_mcpb_serve_applies_a_change_too(browsing: Browsing, config: Path) -> None:
    socket = browsing.chain.home / "served.sock"
    served = subprocess.Popen(
        [*MCPB, "serve", "--port", "0", "--socket", str(socket)],
        env=browsing.chain.env,
        stdout=subprocess.PIPE,
    )

    def tools() -> str:
        command = ["curl", "-s", "--max-time", "30", "--unix-socket", str(socket), "http://localhost/tools"]
        return subprocess.run(command, capture_output=True, check=False, timeout=60).stdout.decode()

    try:
        wait_true(lambda: '"javascript_tool"' in tools())
        config.write_text('[[policy.tools]]\nname = "javascript_tool"\nallow = false\n')
        wait_true(lambda: '"javascript_tool"' not in tools())
        assert '"navigate"' in tools()
    finally:
        served.terminate()
        served.communicate(timeout=60)
