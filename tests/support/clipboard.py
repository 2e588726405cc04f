"""The user's own clipboard, filled through a page that no client has."""

from __future__ import annotations

from tool_browser import Browsing


def copy_as_user(browsing: Browsing, text: str) -> None:
    """Copy a text in a page of the user's own, into the system's clipboard."""
    tab = browsing.browser.open(f"{browsing.site.url}/forms.html")
    tab.evaluate(f"document.body.innerHTML = '<textarea id=t>{text}</textarea>'")
    tab.evaluate("t.focus(), t.select()")
    tab.send("Input.dispatchKeyEvent", type="rawKeyDown", key="c", modifiers=2, commands=["copy"])
    tab.send("Input.dispatchKeyEvent", type="keyUp", key="c", modifiers=2)
    tab.close()
