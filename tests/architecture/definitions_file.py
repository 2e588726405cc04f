"""Writes bridge/browser_tools/tool_definitions.json: the list of the browser tools.

`make docs` runs it. test_definitions_file.py fails when the file is out of date.
"""

from __future__ import annotations

import msgspec

from bridge.browser_tools.tool_definitions import FILE, ToolDefinition
from bridge.browser_tools.tool_runner import all_tools


def render() -> bytes:
    """Return the file's content: one entry for each tool, in the order of the tool list."""
    definitions = [
        ToolDefinition(tool.is_read_only or tool.is_read_only_for is not None, tool.definition())
        for tool in all_tools().values()
    ]
    return msgspec.json.format(msgspec.json.encode(definitions), indent=1) + b"\n"


if __name__ == "__main__":
    FILE.write_bytes(render())
