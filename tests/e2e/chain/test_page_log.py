"""Log messages of pages through a real Chromium and `mcpb bridge`; the mcp package's client in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal
from urllib.parse import urlencode

import mcp
import mcp_types as types
import pytest
import trio

from demo.chromium import Chromium
from full_chain import Chain, call, until_listed

pytestmark = [
    pytest.mark.one_browser,
    # MCP 2026-07-28 deprecates log messages.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

Mode = Literal["auto", "legacy"]
BOTH_ERAS: list[Mode] = ["auto", "legacy"]
FLOOD = "for (let n = 0; n < 10_000; n += 1) logs('warning', n); 0"


class Reader:
    """A client, and the log messages that it has received."""

    def __init__(self) -> None:
        self.messages: list[types.LoggingMessageNotificationParams] = []
        self.client: mcp.Client
        self._changed = trio.Event()

    async def hear(self, params: types.LoggingMessageNotificationParams) -> None:
        self.messages.append(params)
        self._changed.set()

    async def next(self) -> types.LoggingMessageNotificationParams:
        while not self.messages:
            self._changed = trio.Event()
            await self._changed.wait()
        return self.messages.pop(0)


@asynccontextmanager
async def reading(chain: Chain, mode: Mode, level: types.LoggingLevel) -> AsyncIterator[Reader]:
    """A client that wants messages from a level on, in the way of its era."""
    reader = Reader()
    async with mcp.Client(
        chain.command, mode=mode, logging_callback=reader.hear, log_level=level
    ) as reader.client:
        if mode == "legacy":
            await reader.client.set_logging_level(level)
        yield reader


@pytest.mark.parametrize("mode", BOTH_ERAS)
async def test_a_client_receives_what_the_page_that_it_uses_logs_from_its_level_on(
    chain: Chain, browser: Chromium, mode: Mode
) -> None:
    await chain.open(browser, "logging.html")
    other = await chain.open(browser, "logging.html")
    talk = chain.name("talk")
    with trio.fail_after(60):
        async with reading(chain, mode, "warning") as reader:
            await until_listed(reader.client, lambda names: {talk, chain.name("talk", 2)} <= names)
            await other.evaluate("logs('error', 'nobody uses this page'); 0")
            assert await call(reader.client, talk) == (False, "talked")
            found = [await reader.next() for _ in range(2)]
            assert [(message.level, message.data) for message in found] == [
                ("warning", {"said": "warning"}),
                ("error", {"said": "error"}),
            ]
            assert {message.logger for message in found} == {f"{chain.pages} cart"}
            assert found[0].meta == {"dev.mcpb/untrusted": True, "dev.mcpb/origin": chain.pages}


async def test_a_session_receives_messages_also_between_its_calls_and_a_flood_is_limited(
    chain: Chain, browser: Chromium
) -> None:
    page = await chain.open(browser, "logging.html")
    talk = chain.name("talk")
    with trio.fail_after(60):
        async with reading(chain, "legacy", "error") as reader, reading(chain, "legacy", "debug") as other:
            await until_listed(reader.client, lambda names: talk in names)
            assert await call(reader.client, talk) == (False, "talked")
            assert (await reader.next()).data == {"said": "error"}
            await page.evaluate(FLOOD)
            dropped = 0
            while not dropped:  # until the flood is over, messages are dropped
                await page.evaluate("logs('error', 'after the flood'); 0")
                with trio.move_on_after(0.2):
                    message = await reader.next()
                    dropped = (message.meta or {}).get("dev.mcpb/dropped", 0)
            assert dropped > 9_000
            assert message.data == "after the flood"
            assert other.messages == []


async def test_messages_of_a_server_in_an_iframe_of_another_site_carry_that_site(
    chain: Chain, browser: Chromium
) -> None:
    elsewhere = chain.pages.replace("localhost", "127.0.0.1")
    query = urlencode({"frame": f"{elsewhere}/logging.html?parent"})
    await browser.open_page(f"{elsewhere}/plain.html")  # now its tools need no question in frames
    await browser.open_page(f"{chain.pages}/nest.html?{query}")

    def talks(names: Any) -> set[str]:
        return {name for name in names if name.endswith("_talk") and "127_0_0_1" in name}

    with trio.fail_after(60):
        async with reading(chain, "legacy", "debug") as reader:
            await until_listed(reader.client, lambda names: bool(talks(names)))
            (talk,) = talks({tool.name for tool in (await reader.client.list_tools()).tools})
            assert await call(reader.client, talk) == (False, "talked")
            assert (await reader.next()).logger == f"{elsewhere} cart"


async def test_messages_of_a_paused_site_do_not_arrive(chain: Chain, browser: Chromium) -> None:
    (chain.home / "config.toml").write_text('[browser]\nresume = "any"\n')
    page = await chain.open(browser, "logging.html")
    talk = chain.name("talk")
    with trio.fail_after(60):
        async with reading(chain, "legacy", "error") as reader:
            await until_listed(reader.client, lambda names: talk in names)
            assert await call(reader.client, talk) == (False, "talked")
            assert (await reader.next()).data == {"said": "error"}
            await chain.mcpb("pause", chain.pages)
            while not (await call(reader.client, talk))[0]:  # noqa: ASYNC110 - a call has no event
                await trio.sleep(0.02)
            reader.messages.clear()
            await page.evaluate("logs('error', 'paused'); 0")
            await chain.mcpb("pause", chain.pages, "--resume")
            while (await call(reader.client, talk))[0]:  # noqa: ASYNC110
                await trio.sleep(0.02)
            assert (await reader.next()).data == {"said": "error"}


async def test_the_inspector_sets_a_level(chain: Chain) -> None:
    with trio.fail_after(60):
        assert await chain.inspect("logging/setLevel", "--log-level", "debug") == {}
