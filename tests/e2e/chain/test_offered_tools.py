"""Tools of a remote server in pages that the user names: Chromium's own WebMCP, real bridges, a real server.

The judge is the log of the server, which has each call with its token.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from bridge.state.audit_reader import Filter, read_recent
from bridge.state.remote_records import RemoteRecord, read_records
from bridge.state.site_approvals import Approvals
from demo.chromium import Chromium, Page
from full_chain import WEBMCP, Chain, page_tools
from remote_servers import Instructable, instructable_server
from shared_browser import SharedBrowser, open_shared_browser
from socket_observer import onlooking
from wire_peers import until

pytestmark = pytest.mark.one_browser

TOKEN = "canary-2d9f31a8"
ECHO = "orders.echo"
LISTED = "document.modelContext.getTools().then((tools) => tools.map(({ name }) => name).sort().join())"


@pytest.fixture(scope="module")
def browser_of_file() -> Iterator[SharedBrowser]:
    """A browser that has WebMCP switched on."""
    with open_shared_browser([WEBMCP]) as shared:
        yield shared


@pytest.fixture(scope="module")
def server() -> Iterator[Instructable]:
    with instructable_server() as server:
        yield server


def write_config(chain: Chain, server: Instructable, *pages: str, **keys: Any) -> None:
    """Configure the server, with a token; `pages` get its tools."""
    entry = {"name": "orders", "url": server.url, "prefix": "orders.", "pages": list(pages), **keys}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
    path = chain.home / "config.toml"
    path.touch(mode=0o600)
    path.write_text(f'[[remote]]\n{lines}headers = {{ Authorization = "Bearer {TOKEN}" }}\n')


async def call_echo(page: Page, text: str) -> str:
    """Call the tool as the browser's assistant would; return its text, or the name of the error."""
    given = json.dumps(json.dumps({"text": text}))
    outcome: str = await page.evaluate(f"""(async () => {{
        const tools = await document.modelContext.getTools();
        const tool = tools.find(({{ name }}) => name === "{ECHO}");
        if (!tool) return "no tool";
        return document.modelContext.executeTool(tool, {given}).catch((error) => error.name);
    }})()""")
    return outcome


async def until_tools(page: Page, *names: str) -> None:
    """Wait until the page has these tools."""
    await page.wait_until(f"{LISTED}.then((names) => names === {json.dumps(','.join(names))})")


async def until_called(page: Page, server: Instructable, text: str) -> None:
    """Call until the server has answered: a call that a killed bridge had is rejected."""
    while await call_echo(page, text) != text:  # noqa: ASYNC110 - a page is not told who runs its calls
        await trio.sleep(0.02)
    assert received(server, text)


def received(server: Instructable, text: str) -> list[dict[str, str]]:
    """Return the headers of the calls with this text."""
    calls = server.log().find("tools/call")
    return [call.headers for call in calls if call.body["params"]["arguments"] == {"text": text}]


def published(chain: Chain, state: str) -> list[RemoteRecord]:
    """Return the server as the bridges have it that are in this state."""
    records = [record for bridge in read_records(chain.home / "state") for record in bridge.servers]
    return [record for record in records if record.state == state]


def last_call(chain: Chain) -> dict[str, Any]:
    """Return the last call in the audit log."""
    (line,) = read_recent(chain.home / "state", 1, Filter())
    return line


@asynccontextmanager
async def bridge(chain: Chain) -> AsyncIterator[trio.Process]:
    """A bridge, which the test may kill."""
    async with chain.raw_client() as client:
        yield client.process
        client.process.kill()


async def test_a_page_that_the_user_names_calls_the_server_and_others_do_not(
    chain: Chain, browser: Chromium, server: Instructable
) -> None:
    write_config(chain, server, chain.pages)
    with trio.fail_after(60):
        other = await browser.open_page(f"{chain.pages.replace('localhost', '127.0.0.1')}/plain.html")
        async with chain.client() as client:
            sandboxed = await chain.open(browser, "plain.html?sandboxed")
            page = await chain.open(browser, "plain.html")
            await until_tools(page, ECHO)
            assert await call_echo(page, "tea") == "tea"
            (headers,) = received(server, "tea")
            assert headers["authorization"] == f"Bearer {TOKEN}"
            assert await other.evaluate(LISTED) == ""
            assert await sandboxed.evaluate(LISTED) == ""

            assert await page_tools(client) == set()
            assert "remote_orders_echo" in {tool.name for tool in (await client.list_tools()).tools}
            await until(lambda: any(record.offers for record in published(chain, "ready")))
            (orders,) = (await chain.status())["remote"]
            assert orders["offers"] == [{"origin": chain.pages, "pages": 1, "tools": 1, "problem": ""}]
            logged = last_call(chain)
            assert (logged["client"]["name"], logged["origin"]) == (chain.pages, "remote:orders")
            assert (logged["kind"], logged["name"], logged["tool"]) == ("offered", ECHO, "echo")
        await until_tools(page)
        assert await call_echo(page, "late") == "no tool"


async def test_another_bridge_takes_over_when_the_one_that_offers_is_killed(
    chain: Chain, browser: Chromium, server: Instructable
) -> None:
    write_config(chain, server, chain.pages)
    with trio.fail_after(60):
        page = await chain.open(browser, "plain.html")
        async with bridge(chain) as first:
            await until_tools(page, ECHO)
            async with bridge(chain) as second:
                await until(lambda: len(published(chain, "ready")) == 2)
                first.kill()
                await first.wait()
                await until_called(page, server, "taken over")
                second.kill()
                await second.wait()
                await until_tools(page)


async def test_the_tools_come_and_go_with_what_the_user_allows(
    chain: Chain, browser: Chromium, server: Instructable
) -> None:
    write_config(chain, server)
    approvals = Approvals(chain.home / "state")
    with trio.fail_after(60):
        page = await chain.open(browser, "plain.html")
        async with bridge(chain), onlooking(chain) as popup:
            approvals.grant([chain.pages], ["tools:orders"])
            await until_tools(page, ECHO)
            await popup.request("browser/pause", site=chain.pages, paused=True)
            await until_tools(page)
            await popup.request("browser/pause", site=chain.pages, paused=False)
            await until_tools(page, ECHO)
            await page.load(f"{chain.pages.replace('localhost', '127.0.0.1')}/plain.html")
            assert await page.evaluate(LISTED) == ""
            await page.load(f"{chain.pages}/plain.html")
            await until_tools(page, ECHO)
            approvals.revoke(chain.pages)
            await until_tools(page)
            approvals.grant([chain.pages], ["tools:orders"])
            await until_tools(page, ECHO)
            write_config(chain, server, enabled=False)
            await until_tools(page)


async def test_a_call_in_which_the_server_asks_the_user_is_rejected(
    chain: Chain, browser: Chromium, server: Instructable
) -> None:
    write_config(chain, server, chain.pages, offer="all", allow=["elicit"], **{"rename.elicit": "echo"})
    with trio.fail_after(60):
        page = await chain.open(browser, "plain.html")
        async with bridge(chain):
            await until_tools(page, ECHO)
            assert await call_echo(page, "asks") == "UnknownError"
    logged = last_call(chain)
    assert (logged["tool"], logged["outcome"]) == ("elicit", "not_allowed")
