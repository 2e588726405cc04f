"""bridge/browser_tools/tool_definitions.json lists the browser tools as they are."""

from __future__ import annotations

from bridge.browser_tools.tool_definitions import FILE
from definitions_file import render


def test_the_file_is_up_to_date() -> None:
    assert FILE.read_bytes() == render(), "run: make docs"
