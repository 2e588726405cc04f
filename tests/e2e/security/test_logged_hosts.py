"""The judge itself: what a page requests is in the log, under the host that it was requested from."""

from logged_hosts import LoggedHosts
from tool_browser import Browsing


def test_requests_of_a_page_are_logged_by_host(browsing: Browsing, hosts: LoggedHosts) -> None:
    image = hosts.url("bank.localhost", "/balance.png")
    shop = hosts.set_page("shop.localhost", "/", f"<img src={image}>")
    browsing.browser.open(shop)
    assert [request.path for request in hosts.requests("shop.localhost")] == ["/"]
    assert [request.path for request in hosts.requests("bank.localhost")] == ["/balance.png"]
