"""Access that the user withdraws on chrome://extensions ends tools and commands for that site at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from full_chain import serving_pages
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
