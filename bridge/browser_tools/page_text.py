"""Text that pages wrote, as it may be shown: printable and bounded. Pure."""

from __future__ import annotations

from bridge.hidden_characters import sanitize


def printable(text: str) -> str:
    """Without control, format and bidirectional characters; lines stay lines."""
    return sanitize(text, "\n\t")


def cut(text: str, limit: int) -> str:
    """A text of at most so many characters, and a word for the rest."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"
