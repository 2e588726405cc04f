"""Sites and rules that the user changes while clients run: access in the browser, and config.toml."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from full_chain import MCPB, serving_pages
from logged_hosts import LoggedHosts
from native_host.protocol.wire import EXTENSION_ID
from site_boundary import wait_true
from tool_browser import Browsing, Tab, Tools


class Extensions:
    """The browser's own page about extensions, with what the user can do there."""

    def __init__(self, tab: Tab) -> None:
        self._tab = tab

    def set_access(self, access: str) -> None:
        """On click, on specific sites, or on all sites."""
        update = f"{{ extensionId: '{EXTENSION_ID}', hostAccess: '{access}' }}"
        self._tab.evaluate(f"chrome.developerPrivate.updateExtensionConfiguration({update})")

    def allow(self, pattern: str) -> None:
        """Add a site to the specific ones."""
        self._tab.evaluate(f"chrome.developerPrivate.addHostPermission('{EXTENSION_ID}', '{pattern}')")

    def withdraw(self, pattern: str) -> None:
        """Remove a site from the specific ones."""
        self._tab.evaluate(f"chrome.developerPrivate.removeHostPermission('{EXTENSION_ID}', '{pattern}')")


@pytest.fixture
def extensions(browsing: Browsing) -> Iterator[Extensions]:
    found = Extensions(browsing.browser.open("chrome://extensions/"))
    yield found
    found.set_access("ON_ALL_SITES")


@pytest.fixture
def tools(browsing: Browsing) -> Iterator[Tools]:
    with browsing.client("access") as opened:
        yield opened


def assert_rejected(tools: Tools, hosts: LoggedHosts, url: str) -> None:
    """No command reaches the site of the current tab, through DevTools or otherwise."""
    origin = hosts.origin("bank.localhost")
    for tool, arguments in [
        ("get_page_text", {}),
        ("read_page", {}),
        ("computer", {"action": "screenshot"}),
        ("javascript_tool", {"action": "javascript_exec", "text": "fetch('/acted')"}),
        ("navigate", {"url": f"{url}?again"}),
    ]:
        refused = tools.refused(tool, **arguments)
        assert f"The browser does not let mcpb into {origin}" in refused, tool
        assert "4711" not in refused


@pytest.mark.parametrize("access", ["ON_CLICK", "ON_SPECIFIC_SITES"])
def test_commands_of_an_open_tab_end_when_all_access_is_withdrawn(
    browsing: Browsing, hosts: LoggedHosts, extensions: Extensions, tools: Tools, access: str
) -> None:
    url = hosts.set_page("bank.localhost", "/", "the balance is 4711")
    tools.done("navigate", url=url)
    assert "4711" in tools.done("get_page_text").text
    hosts.clear()
    extensions.set_access(access)
    wait_true(lambda: tools.call("get_page_text").is_error)
    assert_rejected(tools, hosts, url)
    assert hosts.requests("bank.localhost") == []
    extensions.set_access("ON_ALL_SITES")
    wait_true(lambda: not tools.call("get_page_text").is_error)


def test_only_the_sites_that_the_user_names_may_be_used(
    browsing: Browsing, hosts: LoggedHosts, extensions: Extensions, tools: Tools
) -> None:
    extensions.set_access("ON_SPECIFIC_SITES")
    extensions.allow("http://shop.localhost/*")
    extensions.allow("http://bank.localhost/*")
    wait_true(lambda: not tools.call("navigate", url=hosts.url("bank.localhost")).is_error)
    hosts.clear()
    extensions.withdraw("http://bank.localhost/*")
    wait_true(lambda: tools.call("get_page_text").is_error)
    assert_rejected(tools, hosts, hosts.url("bank.localhost"))
    assert hosts.requests("bank.localhost") == []
    tools.done("navigate", url=hosts.url("shop.localhost"))
    tools.done("get_page_text")


def test_tools_of_an_open_page_end_without_a_reload_and_come_back(
    browsing: Browsing, extensions: Extensions, tools: Tools
) -> None:
    with serving_pages() as pages:
        page = browsing.browser.open(f"{pages}/tabserver.html")
        page.wait_until("document.readyState === 'complete'")

        def listed() -> list[str]:
            found = browsing.thread.run(tools.client.list_tools)
            return [tool.name for tool in found.tools if tool.name.endswith("_echo")]

        wait_true(listed)
        (echo,) = listed()
        assert tools.done(echo, text="hi").text == "echo: hi"
        extensions.set_access("ON_CLICK")
        wait_true(lambda: not listed())
        assert "echo: hi" not in tools.refused(echo, text="hi")
        assert page.evaluate("window.runs") == 1
        extensions.set_access("ON_ALL_SITES")
        wait_true(listed)
        assert tools.done(echo, text="hi").text == "echo: hi"


# ── config.toml is read again while clients run ─────────────────────────────────────────────────────────────


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
    assert f"Not ready: {config} is not valid TOML: Invalid value (at line 4, column 1)" in shown
    assert "Clients that run keep the rules that they had" in shown
    config.write_text("[policy]\n\ndeny = 3")
    assert f"Not ready: {config}: policy.deny = 3: expected array, got int (at line 3)" in status(browsing)


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
