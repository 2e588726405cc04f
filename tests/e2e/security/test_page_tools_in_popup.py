"""What the user sets in the popup about a site's tools, and frames that their page grants tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from full_chain import WEBMCP
from logged_hosts import LoggedHosts
from native_host.protocol.wire import EXTENSION_ID
from tool_browser import Browsing, Tab, open_browsing
from tool_pages import calls_of, listed, public_name, set_tool_page, until_listed, until_named


@pytest.fixture(scope="module")
def browsing() -> Iterator[Browsing]:
    """A Chromium that knows the permission policy `tools`: WebMCP is switched on."""
    with open_browsing([WEBMCP]) as opened:
        opened.chain.settings["MCPB_BROWSER_ASK_IN"] = "client"
        yield opened


def popup_over(browsing: Browsing, tab: Tab) -> Tab:
    """The popup, as it is over this tab."""
    tab.send("Page.bringToFront")
    url = f"chrome-extension://{EXTENSION_ID}/popup/popup.html"
    created = browsing.browser.send("Target.createTarget", url=url, background=True)
    popup = browsing.browser.attach(created["targetId"])
    popup.wait_until("!!document.querySelector('#offers select')")
    return popup


def choose(popup: Tab, value: str) -> None:
    popup.evaluate(
        "(() => { const choice = document.querySelector('#offers select');"
        f"choice.value = {value!r}; choice.dispatchEvent(new Event('change')); }})()"
    )
    popup.wait_until(f"document.querySelector('#offers select')?.value === {value!r}")


def test_the_popup_turns_a_site_s_tools_off_and_on(browsing: Browsing, hosts: LoggedHosts) -> None:
    tab = browsing.browser.open(set_tool_page(hosts, "shop.localhost", "/", {"name": "search"}))
    name = public_name(hosts, "shop.localhost", "search", browsing.number_of(tab))
    with browsing.client() as tools:
        until_listed(browsing, tools, name)
        popup = popup_over(browsing, tab)
        choose(popup, "off")
        until_listed(browsing, tools, but=name)
        assert "are off" in tools.refused("call_page_tool", name=name)
        choose(popup, "ask")
        until_named(browsing, tools, name)
        assert name not in listed(browsing, tools)
        assert "[[pages.sites]]" in tools.refused(name)
        assert calls_of(hosts, "shop.localhost") == []
        choose(popup, "on")
        until_listed(browsing, tools, name)
        tools.done(name)
    with browsing.client("a client that comes later") as tools:
        choose(popup, "off")
        until_listed(browsing, tools, but=name)
        tools.refused(name)
    assert calls_of(hosts, "shop.localhost") == ["search"]
    popup.close()
    tab.close()


def test_a_foreign_frame_with_allow_tools_is_listed_unopened(browsing: Browsing, hosts: LoggedHosts) -> None:
    granted = set_tool_page(hosts, "pay.localhost", "/", {"name": "pay"})
    frame = f'<iframe src={granted} allow="tools"></iframe>'
    tab = browsing.browser.open(hosts.set_page("news.localhost", "/", frame))
    name = public_name(hosts, "pay.localhost", "pay", browsing.number_of(tab))
    with browsing.client() as tools:
        until_listed(browsing, tools, name)
        tools.done(name)
    assert calls_of(hosts, "pay.localhost") == ["pay"]
    tab.close()
