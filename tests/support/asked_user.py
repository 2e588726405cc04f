"""A user behind an MCP client, who answers its forms with one choice and remembers the questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types


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
