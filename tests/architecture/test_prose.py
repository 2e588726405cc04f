"""Prose follows STYLE.md: no banned words, no removed sentences, measures within their limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from prose_metrics import begins_with_question, is_participle, is_single_word, measure_all
from source_trees import (
    ROOT,
    Text,
    check_gate,
    find_circles,
    find_javascript_texts,
    find_lines,
    find_python_texts,
    find_texts,
    show_path,
)

BANNED = re.compile(
    r"(?i:\b(mends?|mended|mending|told|heard|nobody|nobody's|somebody|whoever|persons?|another product"
    r"|is another|of ours)\b)|\b[Ii]s none\b"
)
_JSON = "member of `mcpb doctor --json`, an interface"
_QUOTED = "the page quotes the word"
_SCHEMA = "docs/wire.schema.json contains this docstring, and the schema is an interface"
EXCEPTIONS: dict[str, str] = {
    "docs/STYLE.md is another": _QUOTED,
    "docs/STYLE.md nobody": _QUOTED,
    "docs/STYLE.md somebody": _QUOTED,
    "docs/STYLE.md whoever": _QUOTED,
    "docs/TROUBLESHOOTING.md mend": _JSON,
    "native_host/protocol/wire.py nobody": _SCHEMA,
    "native_host/protocol/wire.py person": _SCHEMA,
    "native_host/protocol/wire.py whoever": _SCHEMA,
}
"""Path and word of an allowed use, with the reason; at most 20 together with those of test_names.py."""
REMOVED = (ROOT / "tests/data/removed_sentences.txt").read_text().splitlines()


def find_banned(texts: Iterator[Text]) -> Iterator[str]:
    for text in texts:
        for found in BANNED.finditer(text.text):
            if f"{show_path(text.path)} {found[0].lower()}" not in EXCEPTIONS:
                yield f"{found[0]}: {text}"


def test_no_banned_word_is_used() -> None:
    check_gate("banned words", find_banned(find_texts()))


def test_the_removed_sentences_are_gone() -> None:
    check_gate(
        "removed sentences", (text for text in find_texts() if any(each in text.text for each in REMOVED))
    )


def test_measures_are_within_their_limits() -> None:
    check_gate("measures", (measure for measure in measure_all() if measure.is_exceeded))


@pytest.mark.parametrize(
    ("source", "is_banned"),
    [
        ("# nobody listens\n", True),
        ('"""The person who uses it."""\n', True),
        ("NAME = 'it is none of these'\n", True),
        ("# We recommend to amend it, personally.\n", False),
        ("nobody = 65534\n", False),
    ],
)
def test_banned_words_are_found_in_comments_docstrings_and_strings(
    tmp_path: Path, source: str, is_banned: bool
) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert bool([*find_banned(find_python_texts(path))]) == is_banned


def test_javascript_and_pages_are_read_as_well(tmp_path: Path) -> None:
    script, page = tmp_path / "a.js", tmp_path / "a.md"
    script.write_text('// one\nconst text = "two"; /* three */ const nobody = 1;\n')
    page.write_text("# Four\n\nfive\n")
    assert [text.text for text in find_javascript_texts(script)] == ["// one", '"two"', "/* three */"]
    assert [text.text for text in find_lines(page)] == ["# Four", "", "five"]


def test_what_counts_as_a_participle() -> None:
    names = ("_told", "named", "Passed", "read", "need", "set_limit", "shown_names")
    assert [name for name in names if is_participle(name)] == ["_told", "named", "Passed"]
    assert [name for name in ("_told", "is_told", "ToldBy", "Told") if is_single_word(name)] == [
        "_told",
        "Told",
    ]


def test_what_counts_as_a_question_word() -> None:
    assert begins_with_question("Whether it runs.")
    assert not begins_with_question("Return whether it runs.")


def test_import_circles_are_found_once() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert find_circles(edges) == [{"a", "b", "c"}]
