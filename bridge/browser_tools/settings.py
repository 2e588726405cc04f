"""The table [browser] of config.toml: what the browser's own tools may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from bridge.errors import CallError
from native_host.wire import Code

if TYPE_CHECKING:
    from bridge.browser_tools.access import Place
    from bridge.browser_tools.turn import Turn


class BrowserSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See docs/CONFIGURATION.md."""

    enabled: bool = True
    """Whether these tools are offered at all."""
    tabs: Literal["own", "ask", "any"] = "own"
    """Which tabs besides a session's own and those handed over: none, those the person allows, all."""

    async def admit(self, _turn: Turn, place: Place) -> None:
        """A session wants a tab that is nobody's.

        Raises:
            CallError: it may not have it.
        """
        if self.tabs == "any":
            return
        detail = (
            f"tab {place.tab.tab_id} is the person's own. They can hand it over in the extension's popup, or "
            "set browser.tabs in config.toml; or open the page in a tab of yours with navigate"
        )
        raise CallError(Code.NOT_YOURS, detail, handed=False)
