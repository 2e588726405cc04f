"""Files of the product, compared with tests/data/layout.txt, and the files that `make docs` writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bridge.browser_tools.tool_definitions import FILE as TOOL_LIST
from generated_files import PAGE, first_line, render_page, render_tool_list, source_files
from source_trees import PRODUCT, ROOT, find_files

PACKAGES = (*PRODUCT, "extension", "webmcp")
IN_EACH_PACKAGE = {"__init__.py", "py.typed"}
MOST_MODULES = 28
"""Modules in one directory, `__init__.py` not counted."""
DELETED = ("shim_relay", "splitter", "/examination/", "/in_page/")
"""Parts of paths that no file has any more."""


def read_layout() -> Iterator[str]:
    """Yield the listed files; a planned one begins with a question mark."""
    directory = ""
    for line in Path(ROOT, "tests/data/layout.txt").read_text().splitlines():
        if line.startswith("    "):
            names = line.split()
            yield from (f"?{directory}{name[1:]}" if name[0] == "?" else directory + name for name in names)
        elif not line.startswith("#"):
            directory = line


def find_product_files() -> set[str]:
    paths = (path for path in find_files(*PACKAGES, suffix="") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in paths if path.name not in IN_EACH_PACKAGE}


def test_each_directory_has_the_listed_files() -> None:
    listed = set(read_layout())
    planned = {name[1:] for name in listed if name.startswith("?")}
    found, required = find_product_files(), {name for name in listed if not name.startswith("?")}
    assert sorted(found - required - planned) == [], "list these in tests/data/layout.txt"
    assert sorted(required - found) == []
    assert sorted(planned & found) == [], "these exist: remove the question mark"


def test_no_directory_has_more_modules_than_a_reader_can_survey() -> None:
    paths = find_files(*PRODUCT, suffix=".py")
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in paths if path.name != "__init__.py")
    assert {name: count for name, count in counts.items() if count > MOST_MODULES} == {}


def test_no_file_lies_in_a_deleted_part() -> None:
    files = (path for path in find_files(*PACKAGES, "tests", "benchmarks", suffix="") if path.is_file())
    paths = (str(path.relative_to(ROOT)) for path in files)
    assert [path for path in paths if any(part in f"{path}/" for part in DELETED)] == []


# ── Files that `make docs` writes are up to date ────────────────────────────────────────────────────────────


def test_the_list_of_source_files_is_up_to_date() -> None:
    assert PAGE.read_text() == render_page(), "run: make docs"


def test_every_source_file_has_a_description() -> None:
    assert [path for path in source_files() if not first_line(path)] == []


def test_the_list_of_browser_tools_is_up_to_date() -> None:
    assert TOOL_LIST.read_bytes() == render_tool_list(), "run: make docs"
