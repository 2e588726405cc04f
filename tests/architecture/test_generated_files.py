"""Files that `make docs` writes are up to date."""

from __future__ import annotations

from bridge.browser_tools.tool_definitions import FILE as TOOL_LIST
from generated_files import PAGE, first_line, render_page, render_tool_list, source_files


def test_the_list_of_source_files_is_up_to_date() -> None:
    assert PAGE.read_text() == render_page(), "run: make docs"


def test_every_source_file_has_a_description() -> None:
    assert [path for path in source_files() if not first_line(path)] == []


def test_the_list_of_browser_tools_is_up_to_date() -> None:
    assert TOOL_LIST.read_bytes() == render_tool_list(), "run: make docs"
