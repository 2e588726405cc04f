"""Text that pages wrote, as it may be shown: printable and bounded. Pure."""

from __future__ import annotations


def printable(text: str) -> str:
    """Without control, format and bidirectional characters; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)


def cut(text: str, limit: int) -> str:
    """A text of at most so many characters, and a word for the rest."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"
