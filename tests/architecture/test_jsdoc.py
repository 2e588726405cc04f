"""Every function of the extension and the page module has a JSDoc comment; every port reads why it ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from source_trees import check_gate, find_files, show_path

DEFINITION = re.compile(
    r"""^[ ]*(?:export[ ])?(?:async[ ])?function\*?[ ](?P<function>\w+)
      | ^[ ]{2}(?:static[ ])?(?:async[ ])?(?:get[ ]|set[ ])?(?!(?:if|for|while|switch|catch|constructor)\b)
        (?P<method>\#?[a-zA-Z]\w*)\([^;]*\)[ ]\{$""",
    re.VERBOSE,
)
PORT_ENDS = {
    "extension/worker/port_end.js": "reads it for all ports of pages",
    "extension/worker/host_connection.js": "reads it as the reason of the end",
    "extension/content/content_script.js": "is no module, and reads it itself",
}
"""Files that may listen to the end of a port, with the reason."""


def find_undescribed(path: Path) -> Iterator[str]:
    before = ""
    for line in path.read_text().splitlines():
        if (found := DEFINITION.match(line)) and not before.endswith("*/"):
            yield f"{show_path(path)} {found['function'] or found['method']}"
        before = line


def find_port_ends(path: Path) -> Iterator[str]:
    if "onDisconnect.addListener" in path.read_text() and show_path(path) not in PORT_ENDS:
        yield f"{show_path(path)}: call onPortEnd instead of onDisconnect.addListener"


def test_every_function_is_described() -> None:
    paths = find_files("extension", "webmcp", suffix=".js")
    check_gate("functions without JSDoc", (name for path in paths for name in find_undescribed(path)))


def test_the_reason_of_a_port_s_end_is_read_everywhere() -> None:
    paths = find_files("extension", suffix=".js")
    check_gate("unread lastError", (text for path in paths for text in find_port_ends(path)))


def test_undescribed_functions_and_methods_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    path.write_text(
        "/** Described. */\nfunction one() {}\nexport async function two() {\n}\n"
        "class A {\n  constructor() {}\n\n  get three() {\n    if (x) {\n    }\n  }\n"
        "  /** Described. */\n  #four() {\n  }\n}\n"
        "(() => {\n  function five() {\n  }\n  list(function () {});\n})();\n"
    )
    assert [name.rpartition(" ")[2] for name in find_undescribed(path)] == ["two", "three", "five"]
