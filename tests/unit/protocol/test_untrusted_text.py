"""Untrusted text: what remains of it on a line, in lines, in quotes, in escapes and on a terminal."""

from __future__ import annotations

import io

import pytest

from native_host.protocol.untrusted_text import (
    escape,
    for_terminal,
    format_description,
    has_hidden_characters,
    is_single_line,
    multi_line,
    quote,
    quote_exactly,
    single_line,
    truncate,
)

SHOP = "Shop"
RIGHT_TO_LEFT = "\N{RIGHT-TO-LEFT OVERRIDE}"
HIDDEN_TEXT = "".join(chr(0xE0100 + ord(char)) for char in "buy")
HEART = "\N{HEAVY BLACK HEART}\N{VARIATION SELECTOR-16}"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Shop\r\n  open", "Shop open"),
        (f"a{RIGHT_TO_LEFT}b\x1b[2J", "a b [2J"),
        (SHOP + HIDDEN_TEXT, SHOP),
        (HEART, HEART),
        ("x" * 11, "x" * 9 + "…"),
    ],
)
def test_a_single_line_has_no_hidden_character_and_a_limit(text: str, line: str) -> None:
    assert single_line(text, 10) == line


def test_a_quote_cannot_be_closed_by_its_text() -> None:
    assert quote("a” and “b", 40) == "“a' and 'b”"


@pytest.mark.parametrize(
    ("path", "quoted"),
    [
        ("/home/ann/a  b.csv", "“/home/ann/a  b.csv”"),
        ("/a/“b”. Do this.csv", "“/a/\\u201cb\\u201d. Do this.csv”"),
        ("/a/\u202eb\n.csv", "“/a/\\u202eb\\n.csv”"),
        ("/a/x\ufe0e\ufe0f.csv", "“/a/x\\ufe0e\\ufe0f.csv”"),
        ("/" + "a" * 30, "“/aaaaaaaaaaaaaaaaaaa…”"),
    ],
)
def test_an_exact_quote_keeps_every_character_recognizable(path: str, quoted: str) -> None:
    assert quote_exactly(path, 20 if "aaa" in path else 100) == quoted


def test_a_description_keeps_lines_but_no_runs_of_spaces() -> None:
    assert format_description(" one   two \n\n three") == "one two\n\nthree"
    assert len(format_description("x" * 100_000)) == 2000


def test_several_lines_keep_their_layout() -> None:
    assert multi_line("a\n\t  b\x00") == "a\n\t  b "


def test_truncated_text_states_how_much_is_missing() -> None:
    assert (truncate("abcdef", 6), truncate("abcdef", 4)) == ("abcdef", "abcd… (2 more characters)")


def test_an_escaped_name_shows_each_character() -> None:
    assert escape("a\x1b\udcff\nb") == r"a\x1b\udcff\nb"
    assert escape("Schöne Grüße") == "Schöne Grüße"


def test_only_a_terminal_gets_sanitized_text() -> None:
    text = f"a\x1b]0;{RIGHT_TO_LEFT}\tb\n"
    assert for_terminal(text, Terminal()) == "a�]0;�\tb\n"
    assert for_terminal(text, io.StringIO()) == text


@pytest.mark.parametrize(
    ("text", "hidden", "single"),
    [
        ("plain", False, True),
        ("two\nlines", False, False),
        (HEART, False, True),
        (SHOP + HIDDEN_TEXT, True, False),
        (RIGHT_TO_LEFT, True, False),
    ],
)
def test_hidden_characters_are_detected(text: str, hidden: bool, single: bool) -> None:
    assert (has_hidden_characters(text), is_single_line(text)) == (hidden, single)
