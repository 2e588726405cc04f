"""A tab is sent somewhere: the answer is about that journey, whatever else the tab was doing."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trio

from demo.chromium import Chromium
from full_chain import Chain
from native_host.protocol.wire import EXTENSION_ID, Code
from socket_observer import Onlooker, onlooking

pytestmark = pytest.mark.one_browser

WRITING_ITS_ADDRESS = (
    b"<script>setInterval(() => history.pushState(null, '', `?${Math.random()}`), 30)</script>"
)


class _Requests(http.server.BaseHTTPRequestHandler):
    """`/to?URL` leads on, `/restless` writes its own address, `/never` has no end, `/slow` takes its time."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name, _, query = self.path.partition("?")
        self.close_connection = True
        self.send_response(302 if name == "/to" else 200)
        self.send_header("Location", query)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        if name == "/slow":
            time.sleep(0.5)
        self._write(b"<title>a page</title>" + (WRITING_ITS_ADDRESS if name == "/restless" else b""))
        while name == "/never" and self._write(b"<p>more"):
            time.sleep(0.05)

    def _write(self, body: bytes) -> bool:
        """Whether anybody reads it."""
        try:
            self.wfile.write(body)
        except ConnectionError:
            return False
        return True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def site() -> Iterator[str]:
    """The base URL of a site with these pages, without a slash at its end."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Requests) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
async def client(chain: Chain, browser: Chromium) -> AsyncIterator[Onlooker]:
    with trio.fail_after(120):
        async with onlooking(chain) as client:
            yield client


async def created(client: Onlooker, url: str) -> int:
    return int((await client.request("createTab", session="s1", url=url))["tabId"])


async def navigated(client: Onlooker, tab: int, url: str, **params: Any) -> Any:
    """The URL that the tab is at then, or the error."""
    answer = await client.request("browser_navigate", session="s1", tabId=tab, url=url, **params)
    return answer.get("url", answer)


@pytest.mark.parametrize("first", ["slow", "never", "restless"])
@pytest.mark.parametrize("wait_until", ["load", "commit"])
async def test_a_tab_that_was_opened_just_now_gets_where_it_is_sent_next(
    client: Onlooker, site: str, first: str, wait_until: str
) -> None:
    tab = await created(client, f"{site}/{first}")
    assert await navigated(client, tab, f"{site}/slow?", waitUntil=wait_until) == f"{site}/slow?"


async def test_the_same_address_is_loaded_once_more(client: Onlooker, site: str) -> None:
    tab = await created(client, f"{site}/slow")
    assert await navigated(client, tab, f"{site}/slow") == f"{site}/slow"


@pytest.mark.parametrize("page", ["restless", "never"])
async def test_what_the_page_before_does_meanwhile_does_not_count(
    client: Onlooker, site: str, page: str
) -> None:
    tab = await created(client, "about:blank")
    await navigated(client, tab, f"{site}/{page}", waitUntil="commit")
    await client.until(lambda: client.tabs[tab]["title"] == "a page")
    assert await navigated(client, tab, f"{site}/slow") == f"{site}/slow"


async def test_a_place_in_the_same_page_is_arrived_at(client: Onlooker, site: str) -> None:
    tab = await created(client, "about:blank")
    await navigated(client, tab, f"{site}/slow")
    assert await navigated(client, tab, f"{site}/slow#there") == f"{site}/slow#there"


async def test_a_time_that_no_timer_counts_to_is_long(client: Onlooker, site: str) -> None:
    tab = await created(client, "about:blank")
    assert await navigated(client, tab, f"{site}/slow", timeoutMs=3_000_000_000) == f"{site}/slow"


async def test_a_redirect_to_a_paused_site_and_the_way_back_there_are_refused(
    chain: Chain, browser: Chromium, client: Onlooker, site: str
) -> None:
    page = await chain.open(browser, "plain.html")
    # A browser goes back to no page that the person has never touched.
    await page.send("Runtime.evaluate", {"expression": "0", "userGesture": True})
    tab = await client.until_tab("plain.html")
    await client.request("browser_navigate", tabId=tab, url=f"{site}/slow")
    await client.request("browser/pause", site=chain.pages, paused=True)
    redirecting = f"{site}/to?{chain.pages}/plain.html"
    for refused in (
        await client.request("goBack", tabId=tab),
        await client.request("browser_navigate", tabId=tab, url=redirecting),
    ):
        assert refused["code"] == Code.PAUSED
        assert refused["data"] == {"handed": True, "site": chain.pages}
        assert "led on to another site" in refused["message"]


async def test_a_redirect_to_a_site_that_is_not_allowed_is_refused(
    chain: Chain, browser: Chromium, client: Onlooker, site: str
) -> None:
    tab = await created(client, "about:blank")
    settings = await browser.open_page(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
    await settings.evaluate(f"chrome.storage.local.set({{ allowedOrigins: ['{site}'] }})")
    await navigated(client, tab, f"{site}/slow")  # so that the worker has heard of it
    refused = await navigated(client, tab, f"{site}/to?{chain.pages}/plain.html")
    await settings.evaluate("chrome.storage.local.remove('allowedOrigins')")
    assert refused["code"] == Code.NOT_ALLOWED
    assert refused["data"] == {"handed": True}


async def test_tabs_that_a_session_opens_at_once_are_in_one_group(client: Onlooker) -> None:
    for number in range(3):
        await client.say(
            id=f"tab {number}", method="createTab", params={"session": "s1", "url": "about:blank"}
        )
    answers = [await client.answer_to(f"tab {number}") for number in range(3)]
    (group,) = {answer["result"]["groupId"] for answer in answers}
    assert group is not None
