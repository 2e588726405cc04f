"""Pages with `@mcp-b/global` in the real browser, with its own WebMCP switched on and off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import trio
from mcp import Client

from demo.chromium import Chromium, Page
from full_chain import REQUESTED, WEBMCP, Chain, call, until_listed
from shared_browser import SharedBrowser, open_shared_browser
from socket_observer import Frame, onlooking
from wire_peers import until

pytestmark = pytest.mark.one_browser

OWN = {"count", "complain", "structured", "countTitled", "complainTitled", "structuredTitled"}
"""Tools that the page registers with the package."""

switched_on = pytest.mark.parametrize("webmcp", ["on"], indirect=True, scope="module")
Named = Callable[[str], str]


@pytest.fixture(scope="module", params=["on", "off"])
def webmcp(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def browser_of_file(webmcp: str) -> Iterator[SharedBrowser]:
    with open_shared_browser([WEBMCP] if webmcp == "on" else []) as shared:
        yield shared


@pytest.fixture
async def client(chain: Chain, browser: Chromium) -> AsyncIterator[Client]:
    REQUESTED.clear()
    with trio.fail_after(120):
        async with chain.client() as client:
            yield client


@pytest.fixture
async def page(chain: Chain, browser: Chromium) -> Page:
    return await chain.open(browser, "mixed.html")


@pytest.fixture
async def named(chain: Chain, client: Client, page: Page, webmcp: str) -> Named:
    """The public name of a tool, once the page's server and the browser have listed all."""
    own = len(OWN) + (webmcp == "on") + 1
    async with onlooking(chain) as onlooker:  # the browser alone lists as many, and runs them itself
        await onlooker.until(lambda: runs_all_of_its_own(onlooker.offering("count")))
    names = await until_listed(client, lambda names: len(names) == own)
    return lambda tool: next(name for name in names if name.endswith(f"_{tool}"))


def runs_all_of_its_own(frame: Frame | None) -> bool:
    """Return whether calls of the package's tools go to the package's server."""
    return frame is not None and {frame["via"].get(tool) for tool in OWN} == {"mcp-b"}


async def result_of(client: Client, name: str) -> dict[str, Any]:
    result = await client.call_tool(name, {"text": "hi"})
    texts = [getattr(block, "text", "") for block in result.content]
    return {"error": result.is_error or False, "texts": texts, "structured": result.structured_content}


@pytest.mark.parametrize("title", ["", "Titled"])
async def test_the_page_s_own_error_and_structured_result_reach_the_client(
    client: Client, page: Page, named: Named, title: str
) -> None:
    thrown = await result_of(client, named(f"complain{title}"))
    assert thrown["error"]
    assert thrown["texts"] == ["There are no lamps left."]
    assert (await result_of(client, named(f"count{title}")))["structured"] == {"lamps": 2}
    assert await result_of(client, named(f"structured{title}")) == {
        "error": False,
        "texts": ["two"],
        "structured": {"lamps": 2},
    }
    ran = [f"complain{title}", f"count{title}", f"structured{title}"]
    assert await page.evaluate("runs") == ran


@switched_on
async def test_a_tool_that_the_page_registered_with_the_browser_runs_once(
    client: Client, page: Page, named: Named
) -> None:
    assert await call(client, named("early"), text="hi") == (False, "early: hi")
    assert await page.evaluate("runs") == ["early"]
    assert await page.evaluate("activations") == 1


async def test_a_form_waits_for_the_user_beside_the_package(client: Client, page: Page, named: Named) -> None:
    for times in ("once", "twice"):
        is_error, text = await call(client, named("ring"), ring=times)
        assert not is_error
        assert "waits for the user" in text
    assert await page.evaluate("activations") == 2
    await page.evaluate("document.forms[0].requestSubmit()")
    await until(lambda: "/submitted?ring=twice" in REQUESTED)
    assert [path for path in REQUESTED if path.startswith("/submitted")] == ["/submitted?ring=twice"]
