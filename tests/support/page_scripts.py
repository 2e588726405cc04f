"""The bridge's scripts in documents, and the content script's isolated world, over a DevTools pipe."""

from __future__ import annotations

import json
from typing import Any

from bridge.browser_tools.page.scripts import joined_script
from demo.chromium import LOAD_SECONDS, Chromium, Page, ScriptError
from native_host.protocol.wire import EXTENSION_ID
from tool_browser import Tab


class InPageError(Exception):
    """What our code in the page threw: its kind, and the sentence."""


class InPage:
    """`mcpb` in an isolated world of the document that is there."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.context = 0
        """Of the world, for DevTools."""

    def show(self, html: str, next_ref: int = 1) -> InPage:
        """A new document with this content, and our code in it."""
        self.tab.load("about:blank")
        self.tab.send("Page.bringToFront")  # nothing moves in a tab that is not drawn
        self.tab.send("Page.setDocumentContent", frameId=self._frame(), html=html)
        return self.install(next_ref)

    def install(self, next_ref: int = 1) -> InPage:
        """Our code, in the document that is there now."""
        world = self.tab.send("Page.createIsolatedWorld", frameId=self._frame(), worldName="mcpb test")
        self.context = world["executionContextId"]
        self.evaluate(joined_script())
        self.call("begin", next=next_ref)
        return self

    def _frame(self) -> str:
        frame_id: str = self.tab.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
        return frame_id

    def call(self, function: str, **given: Any) -> Any:
        """What `mcpb.<function>` answers.

        Raises:
            InPageError: it threw.
        """
        return self.evaluate(f"mcpb.{function}({json.dumps(given)})")

    def evaluate(self, expression: str, *, by_value: bool = True) -> Any:
        """In our world: the value, or else the id of the object."""
        answer = self.tab.send(
            "Runtime.evaluate",
            expression=expression,
            contextId=self.context,
            returnByValue=by_value,
            awaitPromise=True,
        )
        if details := answer.get("exceptionDetails"):
            said = details.get("exception", {}).get("description") or details["text"]
            raise InPageError(said.partition("\n")[0].removeprefix("Error: "))
        return answer["result"].get("value") if by_value else answer["result"].get("objectId")

    def ref(self, selector: str) -> int:
        """Of the first element that a selector means: found by a mark that it gets for that."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"void ({element}.dataset.test = 'marked')")
        (match,) = self.call("locate", css="[data-test=marked]")["matches"]
        self.evaluate(f"void delete {element}.dataset.test")
        ref: int = match["ref"]
        return ref

    def find(self, query: str, limit: int = 20) -> list[dict[str, Any]]:
        """What `mcpb.find` finds for one description, the best first."""
        matches: list[dict[str, Any]] = self.call("find", queries=[query], limit=limit)["results"][0][
            "matches"
        ]
        return matches


# ── The content script's own world in a page, as DevTools reaches it ────────────────────────────────────────


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
