"""Sanitizer of invisible characters: control, bidirectional, tags, variation selectors.

One variation selector of U+FE00 to U+FE0F behind a character chooses its look (of emoji, for instance) and
stays. Runs of selectors, and all others, carry text that models read and users cannot see.
"""

from __future__ import annotations

import re

_CHOOSING_LOOK = "\ufe00-\ufe0f"
_OTHER_SELECTORS = "\u180b-\u180d\u180f\U000e0100-\U000e01ef"
_SMUGGLING = re.compile(f"[{_CHOOSING_LOOK}{_OTHER_SELECTORS}]{{2,}}|[{_OTHER_SELECTORS}]")


def has_smuggling_selectors(text: str) -> bool:
    """Return whether variation selectors in a text can carry hidden text."""
    return not text.isascii() and _SMUGGLING.search(text) is not None


def sanitize(text: str, layout: str = "") -> str:
    """Return a text without smuggling selectors, and a space for each other character that is not printable.

    Args:
        text: page-written or client-written text.
        layout: characters that stay although they are not printable.
    """
    if not text.isascii():
        text = _SMUGGLING.sub("", text)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in layout else " " for char in text)
