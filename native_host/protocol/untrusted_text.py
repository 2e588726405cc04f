"""Sanitizer of untrusted text: one line, lines, quotes, escapes, terminal.

Untrusted text is written by pages, by other programs, or is the name of a file. Each function returns text
without control, format and bidirectional characters. One variation selector of U+FE00 to U+FE0F behind a
character chooses its look (of emoji, for instance) and stays. Runs of selectors, and all other selectors,
carry text that models read and users cannot see.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import TextIO

MAX_DESCRIPTION_CHARS = 2000
MAX_TITLE_CHARS = 60
MAX_ORIGIN_CHARS = 300
MAX_NOTICE_CHARS = 300

_CHOOSING_LOOK = "\ufe00-\ufe0f"
_OTHER_SELECTORS = "\u180b-\u180d\u180f\U000e0100-\U000e01ef"
_SMUGGLING = re.compile(f"[{_CHOOSING_LOOK}{_OTHER_SELECTORS}]{{2,}}|[{_OTHER_SELECTORS}]")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories: control, format (bidirectional and tag characters), surrogate, private use, lines."""
_LAYOUT = "\t\n\r"
_QUOTATION_MARKS = str.maketrans(dict.fromkeys('“”„‟"', "'"))
_NOT_FOR_TERMINALS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and newline, bidirectional controls, lone surrogates."""


def single_line(text: str, max_chars: int) -> str:
    """Return one printable line of at most `max_chars` characters, with single spaces."""
    return _cut(_collapse(text[: 4 * max_chars]), max_chars)


def quote(text: str, max_chars: int) -> str:
    """Return a single line in quotation marks that the text cannot close."""
    return f"“{single_line(text, max_chars).translate(_QUOTATION_MARKS)}”"


def quote_exactly(text: str, max_chars: int) -> str:
    """Return a quote in which hidden characters and quotation marks are escapes such as `\\u201d`.

    For a path that a model may pass on: other than `quote`, it changes no other character.
    """
    shown = "".join(_escape_hidden(char) for char in _SMUGGLING.sub(_escape_all, text[:max_chars]))
    return f"“{shown}{'…' if len(text) > max_chars else ''}”"


def format_description(text: str) -> str:
    """Return printable lines with single spaces, of at most MAX_DESCRIPTION_CHARS characters together."""
    # A page may write a megabyte: no more is read than can be shown.
    lines = text[: 4 * MAX_DESCRIPTION_CHARS].splitlines()
    return _cut("\n".join(_collapse(line) for line in lines).strip(), MAX_DESCRIPTION_CHARS)


def multi_line(text: str) -> str:
    """Return printable text that keeps its lines, tabs and spaces."""
    return _sanitize(text, "\n\t")


def truncate(text: str, max_chars: int) -> str:
    """Return the first `max_chars` characters, and how many more there are."""
    return (
        text if len(text) <= max_chars else f"{text[:max_chars]}… ({len(text) - max_chars} more characters)"
    )


def escape(text: str) -> str:
    """Return one line in which each character that is not printable is an escape such as `\\x1b`.

    For names of files and programs: other than `single_line`, it keeps every character recognizable.
    """
    return text if text.isprintable() else "".join(map(_escape, text))


def for_terminal(text: str, on: TextIO | None = None) -> str:
    """Return the text for stdout (or `on`): sanitized for a terminal, unchanged for a pipe or a file."""
    stream: TextIO | None = on or sys.stdout  # None: it was closed before the start
    is_terminal = stream is not None and stream.isatty()
    return _NOT_FOR_TERMINALS.sub("\N{REPLACEMENT CHARACTER}", text) if is_terminal else text


def is_single_line(text: str) -> bool:
    """Return whether all characters are printable and none is hidden."""
    return text.isprintable() and not _has_smuggling_selectors(text)


def has_hidden_characters(text: str) -> bool:
    """Return whether the text has characters that no reader sees; spaces, tabs and newlines are no such."""
    if _has_smuggling_selectors(text):
        return True
    if text.isprintable():
        return False
    return any(unicodedata.category(char) in _HIDDEN_CATEGORIES and char not in _LAYOUT for char in text)


def _has_smuggling_selectors(text: str) -> bool:
    return not text.isascii() and _SMUGGLING.search(text) is not None


def _sanitize(text: str, layout: str = "") -> str:
    """Return the text without smuggling selectors, and a space for each character that is not printable.

    Characters of `layout` stay.
    """
    if not text.isascii():
        text = _SMUGGLING.sub("", text)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in layout else " " for char in text)


def _escape_hidden(char: str) -> str:
    return _escape(char) if ord(char) not in _QUOTATION_MARKS else f"\\u{ord(char):04x}"


def _escape_all(match: re.Match[str]) -> str:
    return "".join(char.encode("unicode_escape").decode() for char in match[0])


def _escape(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape", errors="backslashreplace").decode()


def _collapse(text: str) -> str:
    return " ".join(_sanitize(text).split())


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
