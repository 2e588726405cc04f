"""Source files of the project, their docstrings, comments, string constants and definitions."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PRODUCT = ("native_host", "http_serving", "websocket_proxy", "bridge", "install", "manifests", "demo")
CODE = (*PRODUCT, "extension", "webmcp", "benchmarks")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "benchmarks/*.md", "webmcp/*.md")
_LEFT_OUT = {"node_modules", "__pycache__", "peers", ".venv"}
_JAVASCRIPT_TEXT = re.compile(
    r"""(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`"""
)


def show_path(path: Path) -> str:
    """Return the path from the root of the project, or the whole path of a file elsewhere."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


class Text(NamedTuple):
    """Words in a file: a docstring, a comment, a string constant or a line of a page."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{show_path(self.path)}:{self.line}: {' '.join(self.text.split())[:100]}"


class Definition(NamedTuple):
    """A function, a class or a module, with its docstring."""

    path: Path
    line: int
    kind: str
    name: str
    docstring: str | None

    def __str__(self) -> str:
        begin = (self.docstring or "").strip().partition("\n")[0][:80]
        return f"{show_path(self.path)}:{self.line}: {self.name}: {begin}"


def find_files(*folders: str, suffix: str) -> list[Path]:
    """Return the files of these folders with a suffix such as `.py`, sorted."""
    found = (path for folder in folders for path in (ROOT / folder).rglob(f"*{suffix}"))
    return sorted(path for path in found if not _LEFT_OUT & set(path.parts))


def find_pages() -> list[Path]:
    """Return the Markdown pages, without the changelog."""
    return sorted(path for pattern in PAGES for path in ROOT.glob(pattern))


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(path.read_text())


def find_definitions(paths: list[Path]) -> Iterator[Definition]:
    """Yield modules, classes and functions; empty modules are left out."""
    kinds = {ast.ClassDef: "class", ast.FunctionDef: "function", ast.AsyncFunctionDef: "function"}
    for path in paths:
        tree = parse(path)
        if not tree.body:
            continue
        yield Definition(path, 1, "module", path.stem, ast.get_docstring(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield Definition(path, node.lineno, kinds[type(node)], node.name, ast.get_docstring(node))


def find_python_texts(path: Path) -> Iterator[Text]:
    """Yield docstrings, string constants and comments of a Python file."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Text(path, node.lineno, node.value)
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield Text(path, token.start[0], token.string)


def find_javascript_texts(path: Path) -> Iterator[Text]:
    """Yield comments and string constants of a JavaScript file."""
    source = path.read_text()
    for found in _JAVASCRIPT_TEXT.finditer(source):
        yield Text(path, source.count("\n", 0, found.start()) + 1, found[0])


def find_lines(path: Path) -> Iterator[Text]:
    """Yield the lines of a page or a shell script."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        yield Text(path, number, line)


def find_texts() -> Iterator[Text]:
    """Yield all words that a reader of the product sees: code, scripts, pages."""
    for path in find_files(*CODE, suffix=".py"):
        yield from find_python_texts(path)
    for path in find_files(*CODE, suffix=".js"):
        yield from find_javascript_texts(path)
    for path in [*find_files(*CODE, suffix=".sh"), *find_pages()]:
        yield from find_lines(path)


# ── Gates of docs/STYLE.md ──────────────────────────────────────────────────────────────────────────────────


def check_gate(name: str, violations: Iterable[object]) -> None:
    """Print the violations of a gate and reject them.

    Raises:
        AssertionError: there is a violation.
    """
    found = [str(each) for each in violations]
    print(f"{name}: {len(found)} violations", *found, sep="\n  ")  # noqa: T201  (for `pytest -s`)
    assert not found, f"{name}: {len(found)} violations, the first: {found[0]}"


# ── Imports ─────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def product_modules() -> Mapping[str, Path]:
    """Return each module of the product by its dotted name; a package stands under its own name."""
    paths = find_files(*PRODUCT, suffix=".py")
    return {_dotted_name(path): path for path in paths}


def _dotted_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_imports(tree: ast.AST) -> Iterator[str]:
    """Yield dotted names that a syntax tree imports, each name of `from … import` as well.

    Imports inside functions and under `TYPE_CHECKING` count.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """Return the modules of the product that a file imports, without the packages around them."""
    names = set(find_imports(parse(path)))
    modules = {name for name in names if name in product_modules()}
    return frozenset(name for name in modules if not any(other.startswith(f"{name}.") for other in modules))


def top_level_imports(path: Path) -> set[str]:
    """Return the first parts of all imported names: `trio`, `os`, `bridge`."""
    return {name.partition(".")[0] for name in find_imports(parse(path))}


def import_edges() -> Mapping[str, frozenset[str]]:
    """Return the modules that each module of the product imports."""
    return {name: imported_modules(path) - {name} for name, path in product_modules().items()}


def find_circles(edges: Mapping[str, Set[str]]) -> list[set[str]]:
    """Return the sets of modules that import each other (strongly connected, at least two)."""
    reach = {name: _reachable(name, edges) for name in edges}
    circles: list[set[str]] = []
    for name in edges:
        circle = {other for other in reach[name] if name in reach[other]}
        if circle and circle not in circles:
            circles.append(circle)
    return circles


def _reachable(start: str, edges: Mapping[str, Set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges[waiting.pop()] - found
        found |= new
        waiting += new
    return found
