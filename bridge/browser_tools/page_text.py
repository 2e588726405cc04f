"""Text that pages wrote, as it may be shown: printable and bounded. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit


def printable(text: str) -> str:
    """Without control, format and bidirectional characters; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)


def cut(text: str, limit: int) -> str:
    """A text of at most so many characters, and a word for the rest."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def origin_of(url: str) -> str:
    """Whose address it is; empty: nobody's, as of `data:` and `about:`."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


def host_of(url: str) -> str:
    """The name in an address; empty: it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_of_page(url: str) -> bool:
    """Whether an address is not of an extension: such as the viewer of PDFs, which is in the tab too."""
    return not url.startswith(("chrome-extension:", "chrome:", "edge:", "brave:", "devtools:"))
