"""docs/FILES.md lists every source file with its description."""

from __future__ import annotations

from files_page import PAGE, first_line, render, source_files


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), "run: make docs"


def test_every_source_file_has_a_description() -> None:
    assert [path for path in source_files() if not first_line(path)] == []
