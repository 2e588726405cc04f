"""Imports between the modules of the product, those inside functions and under `TYPE_CHECKING` included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from source_trees import PRODUCT, ROOT, find_files, parse


@cache
def product_modules() -> Mapping[str, Path]:
    """Return each module of the product by its dotted name; a package stands under its own name."""
    paths = find_files(*PRODUCT, suffix=".py")
    return {_dotted_name(path): path for path in paths}


def _dotted_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_imports(tree: ast.AST) -> Iterator[str]:
    """Yield dotted names that a syntax tree imports, each name of `from … import` as well."""
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


def find_circles() -> list[list[str]]:
    """Return the groups of modules that import each other (strongly connected components, after Tarjan)."""
    graph = {name: imported_modules(path) - {name} for name, path in product_modules().items()}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[-len(group) :]
            if len(group) > 1:
                circles.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return sorted(circles)
