"""The text that an MCP client shows for a page's tool: where it lives first, then the page's own words.

Pages write descriptions, and models read them: what a page says is data, so it is marked, cut and cleaned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from native_host.wire import Tab

MAX_PAGE_WORDS = 2000
MAX_TITLE = 60
MAX_ORIGIN = 200
MAX_NOTICE = 300
MAX_ICON = 64 * 1024
"""Characters of a `data:` URL."""


def describe(origin: str, tab: Tab, page_words: str) -> str:
    """For instance `[http://localhost:8123 · tab 1 "Shop" • Active] The page says: What is in the cart`."""
    quoted = cleaned(tab.title, MAX_TITLE).replace('"', "'")
    title = f' "{quoted}"' if quoted else ""
    active = " • Active" if tab.active and tab.focused else ""
    place = f"[{cleaned(origin, MAX_ORIGIN)} · tab {tab.ordinal}{title}{active}]"
    words = _cut("\n".join(_line(line) for line in page_words.splitlines()).strip(), MAX_PAGE_WORDS)
    return f"{place} The page says: {words}" if words else f"{place} The page does not describe it."


def displayed(origin: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's definition with what clients show of it made safe: titles say whose they are and are cut.

    Only icons that carry their picture stay: a client would fetch the others from wherever the page says,
    and tell it so that somebody looks.
    """
    shown = dict(definition)
    _mark_title(shown, origin)
    if isinstance(annotations := shown.get("annotations"), dict):
        shown["annotations"] = dict(annotations)
        _mark_title(shown["annotations"], origin)
    if "icons" in shown:
        icons = shown.pop("icons")
        if kept := [icon for icon in icons if _is_picture(icon)] if isinstance(icons, list) else []:
            shown["icons"] = kept
    return shown


def _mark_title(where: dict[str, Any], origin: str) -> None:
    if isinstance(title := where.get("title"), str):
        where["title"] = f"[{cleaned(origin, MAX_ORIGIN)}] {cleaned(title, MAX_TITLE)}"


def _is_picture(icon: Any) -> bool:
    source = icon.get("src") if isinstance(icon, dict) else None
    return isinstance(source, str) and source.startswith("data:image/") and len(source) <= MAX_ICON


def cleaned(text: str, max_chars: int) -> str:
    """One printable line: no control, format or bidirectional characters, at most `max_chars`."""
    return _cut(_line(text), max_chars)


def _line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
