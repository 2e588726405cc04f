"""The content script's own world in a page, as DevTools reaches it."""

from __future__ import annotations

from typing import Any

from demo.chromium import LOAD_SECONDS, Chromium, Page, ScriptError
from native_host.protocol.wire import EXTENSION_ID


class IsolatedWorld:
    """Where our content script runs in the top frame of a page."""

    def __init__(self, page: Page, context_id: int) -> None:
        self._page = page
        self._context_id = context_id

    @classmethod
    async def of(cls, browser: Chromium, page: Page) -> IsolatedWorld:
        """The world of the document that is there now; it ends with that. Bound it."""
        with browser.devtools.listen("Runtime.executionContextCreated", page.session) as created:
            await page.send("Runtime.enable")
            while True:
                context = (await created.next())["context"]
                data = context["auxData"]
                # A page's first frame has the id of its target.
                if EXTENSION_ID in context["origin"] and data["frameId"] == page.target_id:
                    return cls(page, context["id"])

    async def evaluate(self, expression: str) -> Any:
        """The JSON value of an expression there; a promise is waited for.

        Raises:
            ScriptError: it threw.
        """
        params = {
            "expression": expression,
            "contextId": self._context_id,
            "awaitPromise": True,
            "returnByValue": True,
        }
        answer = await self._page.send("Runtime.evaluate", params, LOAD_SECONDS)
        if details := answer.get("exceptionDetails"):
            raise ScriptError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")
