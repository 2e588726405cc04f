"""A user who answers approval prompts: in the extension's window, or behind an MCP client.

with ThreadPoolExecutor() as calls:
    call = calls.submit(tools.call, "navigate", url=url)
    window = wait_approval_window(browsing.browser)
    window.press("once")
    assert not call.result(30).is_error
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import mcp_types

from demo.devtools import DevToolsError
from tool_browser import Browser, Tab

PATH = "/approval/approval.html"
SECONDS = 60.0
POLL_S = 0.05


@dataclass
class ApprovalWindow:
    """An open approval window."""

    tab: Tab
    target_id: str

    def text(self, element: str) -> str:
        """Return the text of `origin`, `text`, `client` or `kind`, once the prompt is shown."""
        self.tab.wait_until("document.getElementById('prompt')?.hidden === false")
        found: str = self.tab.evaluate(f"document.getElementById('{element}').textContent")
        return found

    def choices(self) -> list[str]:
        """Return the choices, in order."""
        self.tab.wait_until("document.getElementById('prompt')?.hidden === false")
        found: list[str] = self.tab.evaluate(
            "[...document.querySelectorAll('button')].map((it) => it.dataset.choice)"
        )
        return found

    def focus(self) -> None:
        """Give the window the focus, as a click on it does."""
        self.tab.send("Page.bringToFront")
        self.tab.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def wait_ready(self) -> None:
        """Wait until the buttons work."""
        self.focus()
        self.tab.wait_until("[...document.querySelectorAll('button')].some((it) => !it.disabled)")

    def click(self, choice: str) -> None:
        """Click a button, whether it works or not."""
        button = f"document.querySelector('button[data-choice={choice}]')"
        self.tab.evaluate(f"{button}.scrollIntoView(); 1")
        middle = "({x, y, width, height}) => [x + width / 2, y + height / 2]"
        x, y = self.tab.evaluate(f"({middle})({button}.getBoundingClientRect())")
        at: dict[str, Any] = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.tab.send("Input.dispatchMouseEvent", type="mousePressed", **at)
        with suppress(DevToolsError):  # the window may close before it responds
            self.tab.send("Input.dispatchMouseEvent", type="mouseReleased", **at)

    def press(self, choice: str) -> None:
        """Press a button once it works."""
        self.choices()
        self.wait_ready()
        self.click(choice)


def approval_targets(browser: Browser) -> list[dict[str, Any]]:
    """Return the approval windows that are open."""
    return [target for target in browser.targets() if target["url"].endswith(PATH)]


def wait_approval_window(browser: Browser, *, but: str = "") -> ApprovalWindow:
    """Wait until an approval window is open, another one than the target `but`."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for target in approval_targets(browser):
            if target["targetId"] != but:
                return ApprovalWindow(browser.attach(target["targetId"]), target["targetId"])
        time.sleep(POLL_S)
    raise AssertionError(f"no approval window opened within {SECONDS:g} s")


def wait_no_approval_window(browser: Browser) -> None:
    """Wait until no approval window is open."""
    until = time.monotonic() + SECONDS
    while approval_targets(browser):
        assert time.monotonic() < until, f"an approval window is still open after {SECONDS:g} s"
        time.sleep(POLL_S)


# ── A user behind an MCP client, who answers its forms with one choice and ──────────────────────────────────


class AskedUser:
    """`**user.options` gives a client this user; `before` runs before each answer."""

    def __init__(self, choice: str, *, before: Callable[[], Awaitable[None]] | None = None) -> None:
        self.choice = choice
        self.questions: list[str] = []
        self._before = before

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `Browsing.client`: its prompts reach this user, and not a window of the extension."""
        return {"settings": {"MCPB_BROWSER_ASK_IN": "client"}, "elicitation_callback": self.answer}

    async def answer(self, _context: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        self.questions.append(params.message)
        if self._before:
            await self._before()
        return mcp_types.ElicitResult(action="accept", content={"allow": self.choice})
