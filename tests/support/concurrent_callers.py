"""Several MCP clients, each with a bridge of its own, that call a tool of another product's extension.

Each call is known by its words, with which its answer begins. Who has failed waits until calls work again, so
that what goes wrong is what was under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager

import trio
from mcp import Client

from fake_claude_extension import Call
from full_chain import call

CLIENTS = 8
CALLS = 100
"""Of each client, unless fewer are asked for."""
AT_ONCE = 5
"""Of each client."""
FILLER = "f" * 20_000


async def find(call: Call) -> str:
    """Twenty thousand bytes, after what was asked for; not in the order of the questions."""
    await trio.sleep(len(call.args["query"]) % 3 / 1000)
    return f"{call.args['query']} {FILLER}"


class ManyCallers:
    """Who calls, and what became of each call."""

    def __init__(self, calls: int = CALLS) -> None:
        self.words = {f"client {n} call {i}" for n in range(CLIENTS) for i in range(calls)}
        """Of all calls that are made."""
        self.answered: Counter[str] = Counter()
        self.failed: dict[str, str] = {}
        """What each failed call was told."""
        self.wrong: list[str] = []
        """Answers that are not those of their call."""
        self._calls = calls
        self._missing = CLIENTS
        self._calling = 0
        self._news = trio.Event()
        self._works = trio.Event()
        self._works.set()

    @property
    def are_done(self) -> bool:
        """Every call has come to an end."""
        return self.answered.total() + len(self.failed) + len(self.wrong) == len(self.words)

    async def run(self, connect: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
        """All calls of all clients, which begin when all are there."""
        async with trio.open_nursery() as nursery:
            for n in range(CLIENTS):
                nursery.start_soon(self._one_client, connect, f"client {n}")

    async def until_answered(self, share: float) -> None:
        """Until this share of all calls was answered."""
        await self._until(lambda: self.answered.total() >= share * len(self.words))

    async def until_all_failed(self) -> list[str]:
        """From now on who fails makes no further call; until nobody calls any more: what they were told."""
        before = set(self.failed)
        self._works = trio.Event()
        await self._until(lambda: self._calling == 0)
        return [text for words, text in self.failed.items() if words not in before]

    def go_on(self) -> None:
        """Calls work again."""
        self._works.set()

    async def _one_client(
        self, connect: Callable[[], AbstractAsyncContextManager[Client]], name: str
    ) -> None:
        numbers = iter(range(self._calls))
        async with connect() as client, trio.open_nursery() as nursery:
            self._missing -= 1
            self._tell()
            await self._until(lambda: self._missing == 0)
            for _ in range(AT_ONCE):
                nursery.start_soon(self._call_each, client, name, numbers)

    async def _call_each(self, client: Client, name: str, numbers: Iterator[int]) -> None:
        for i in numbers:
            self._calling += 1
            failed = await self._fails(client, f"{name} call {i}")
            self._calling -= 1
            self._tell()
            if failed:
                await self._works.wait()

    async def _fails(self, client: Client, words: str) -> bool:
        is_error, text = await call(client, "find", query=words, tabId=1)
        if is_error:
            self.failed[words] = text
        elif f"{words} {FILLER}" in text:
            self.answered[words] += 1
        else:
            self.wrong.append(text)
        return is_error

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()
