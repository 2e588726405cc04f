"""Writes the generated files of the repository; `make docs` runs it.

docs/FILES.md lists every source file with the first line of its docstring or comment.
bridge/browser_tools/tool_definitions.json is the list of the browser tools.
test_layout.py fails when one of them is out of date.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bridge.browser_tools.tool_definitions import FILE as TOOL_LIST
from bridge.browser_tools.tool_definitions import ToolDefinition
from bridge.browser_tools.tool_runner import all_tools

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/FILES.md"
FOLDERS = (
    "native_host",
    "http_serving",
    "websocket_proxy",
    "bridge",
    "install",
    "manifests",
    "demo",
    "extension",
    "webmcp",
    "benchmarks",
)
SUFFIXES = {".py", ".js", ".sh"}
_HEAD = """\
# Files

Every source file with the first line of its description. `make docs` writes this page.
"""


def render_page() -> str:
    """Return docs/FILES.md: one section for each directory, one line for each file."""
    sections: dict[str, list[str]] = defaultdict(list)
    for path in source_files():
        directory = str(path.parent.relative_to(ROOT))
        sections[directory].append(f"- `{path.name}`: {first_line(path)}")
    texts = [f"\n## {directory}/\n\n" + "\n".join(lines) + "\n" for directory, lines in sections.items()]
    return _HEAD + "".join(texts)


def source_files() -> Iterator[Path]:
    """Yield the files that the page lists, sorted by directory; empty packages are left out."""
    for folder in FOLDERS:
        found = (ROOT / folder).rglob("*")
        paths = [path for path in found if path.suffix in SUFFIXES and "node_modules" not in path.parts]
        yield from sorted(
            (path for path in paths if path.stat().st_size), key=lambda path: (path.parent, path)
        )


def first_line(path: Path) -> str:
    """Return the first line of a file's description, or an empty text."""
    text = path.read_text()
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    lines = (line.strip().lstrip("/*#!").removesuffix("*/").strip() for line in text.splitlines())
    return next((line for line in lines if line and not line.startswith(("@ts", "/usr/bin/", "/bin/"))), "")


def render_tool_list() -> bytes:
    """Return the list of the browser tools: one entry for each, in the order of the list."""
    definitions = [
        ToolDefinition(
            has_read_only_calls=tool.is_read_only or tool.is_read_only_for is not None,
            accepts_unknown=not tool.input_type.__struct_config__.forbid_unknown_fields,
            listed=tool.listed,
            definition=tool.make_definition(),
        )
        for tool in all_tools().values()
    ]
    return msgspec.json.format(msgspec.json.encode(definitions), indent=1) + b"\n"


if __name__ == "__main__":
    TOOL_LIST.write_bytes(render_tool_list())
    PAGE.write_text(render_page())
