"""A page with offered tools: all that its scripts can learn of them, in a Chromium with WebMCP."""

from __future__ import annotations

import json
from typing import Any

from demo.chromium import Chromium, Page
from native_host.protocol.wire import EXTENSION_ID

_NAMES = "document.modelContext.getTools().then((tools) => tools.map(({ name }) => name))"
_LEARN = """(async (names) => {
    const describe = (value) => {
        const members = {};
        for (const name in value) if (value[name] !== window) members[name] = value[name];
        return [members, String(value), value.stack];
    };
    const tools = await document.modelContext.getTools();
    const call = (name) => {
        const tool = tools.find((each) => each.name === name);
        return document.modelContext.executeTool(tool, JSON.stringify({ number: 17 }));
    };
    const outcomes = {};
    for (const name of names) outcomes[name] = await call(name).catch(describe);
    const { promise, resolve } = Promise.withResolvers();
    addEventListener("unhandledrejection", ({ reason }) => resolve(describe(reason)), { once: true });
    void call(names.at(-1));
    return { tools: tools.map(describe), outcomes, unhandled: await promise };
})"""
_RECORD = """(() => {
    const { settle } = OfferedTools.prototype;
    globalThis.settled = [];
    OfferedTools.prototype.settle = function (message) {
        settled.push(message);
        settle.call(this, message);
    };
})()"""
"""In the world of the content script: Chromium does not pass the texts of errors to the page, others may."""


class OfferedPage:
    """The page; made by `open_offered_page`."""

    def __init__(self, page: Page, context: int) -> None:
        self.page = page
        self._context = context
        """Of the extension's content script."""

    async def wait_tools(self, *names: str) -> None:
        """Wait until the page has these tools, perhaps among others."""
        wanted = json.dumps(names)
        await self.page.wait_until(f"{_NAMES}.then((all) => {wanted}.every((name) => all.includes(name)))")

    async def learn(self, *names: str) -> Any:
        """Return every member of all tools, and the results and errors of calls of these.

        The last one fails, and is called again without a handler of its rejection.
        """
        return await self.page.evaluate(f"{_LEARN}({json.dumps(names)})")

    async def messages(self) -> list[Any]:
        """Return what the extension got as results and errors of all calls, for the page."""
        return list(await self._evaluate("settled"))

    async def record(self) -> None:
        """Begin to record for `messages`."""
        await self._evaluate(_RECORD)

    async def _evaluate(self, expression: str) -> Any:
        params = {"expression": expression, "contextId": self._context, "returnByValue": True}
        answer = await self.page.send("Runtime.evaluate", params)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")


async def open_offered_page(chromium: Chromium, url: str) -> OfferedPage:
    """Open a page, and record what the extension gets for it."""
    page = await chromium.open_page(url)
    with chromium.devtools.listen("Runtime.executionContextCreated", page.session) as created:
        await page.send("Runtime.enable")
        while (context := (await created.next())["context"])[
            "origin"
        ] != f"chrome-extension://{EXTENSION_ID}":
            pass
    offered = OfferedPage(page, context["id"])
    await offered.record()
    return offered
