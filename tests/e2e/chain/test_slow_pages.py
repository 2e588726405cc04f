"""Pages whose tools come late are announced as soon as they do: nobody waits for the next poll."""

from __future__ import annotations

import pytest
import trio

from demo.chromium import Chromium, open_chromium
from full_chain import EXTENSION, Chain
from socket_observer import onlooking

pytestmark = pytest.mark.one_browser

SOON_S = 20.0
"""Well below the minute after which a page is polled."""


@pytest.mark.parametrize("page", ["late.html", "late.html?tools"])
async def test_a_page_that_is_ready_long_after_its_load_is_announced_at_once(
    chain: Chain, browser: Chromium, page: str
) -> None:
    with trio.fail_after(60):
        async with onlooking(chain) as client:
            tab = await chain.open(browser, page)
            assert client.offering("echo") is None
            await tab.wait_until("window.appeared")
            with trio.fail_after(SOON_S):
                frame = await client.until_offered("echo")
                assert await client.call(frame, "echo", text="late") == "echo: late"


async def test_a_server_that_appears_late_in_an_iframe_is_announced_at_once(
    chain: Chain, browser: Chromium
) -> None:
    with trio.fail_after(60):
        async with onlooking(chain) as client:
            tab = await chain.open(browser, "nest.html?frame=late.html")
            await tab.wait_until("frames[0].appeared")
            with trio.fail_after(SOON_S):
                frame = await client.until_offered("echo", "late.html")
                assert await client.call(frame, "echo", text="late") == "echo: late"


async def test_a_page_that_was_open_before_its_content_script_came_is_announced(chain: Chain) -> None:
    profile = chain.home / "late"
    profile.mkdir()
    with trio.fail_after(60):
        chain.register(profile)
        async with open_chromium(profile, env={"TMPDIR": str(chain.home)}) as chromium:
            await chain.open(chromium, "tabserver.html")
            await chromium.load_extension(EXTENSION)
            async with onlooking(chain) as client:
                with trio.fail_after(SOON_S):
                    frame = await client.until_offered("echo")
                assert await client.call(frame, "echo", text="late") == "echo: late"
