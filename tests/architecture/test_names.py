"""File names follow STYLE.md: a base name occurs once in a package, and gerunds are terms of the field."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from source_trees import PRODUCT, ROOT, check_gate, find_files

GERUNDS = {
    "framing": "term for message boundaries on a stream",
    "chunking": "term for splitting messages",
    "coalescing": "term for keeping the latest of several events",
    "credential_masking": "term for hiding secrets",
    "browser_matching": "noun: the result of a matching",
}
PACKAGES = (*PRODUCT, "extension", "webmcp")


def find_repeated_names(paths: list[Path], root: Path) -> Iterator[str]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in paths:
        relative = path.relative_to(root)
        if not path.stem.startswith("__"):
            found[relative.parts[0], path.name].append(str(relative))
    return (" and ".join(places) for places in found.values() if len(places) > 1)


def find_gerunds(paths: list[Path]) -> Iterator[str]:
    names = (path for path in paths if path.stem.endswith("ing") and path.stem not in GERUNDS)
    return (str(path.relative_to(ROOT)) for path in names)


def _source_files() -> list[Path]:
    return [path for suffix in (".py", ".js") for path in find_files(*PACKAGES, suffix=suffix)]


def test_a_base_name_occurs_once_in_a_top_level_package_and_language() -> None:
    check_gate("repeated base names", find_repeated_names(_source_files(), ROOT))


def test_a_gerund_as_a_file_name_is_a_term_of_the_field() -> None:
    check_gate("gerunds", find_gerunds(_source_files()))


def test_repeated_names_are_found(tmp_path: Path) -> None:
    paths = [
        tmp_path / each for each in ("a/x/page.py", "a/y/page.py", "a/page.js", "b/page.py", "a/__init__.py")
    ]
    assert list(find_repeated_names(paths, tmp_path)) == ["a/x/page.py and a/y/page.py"]
