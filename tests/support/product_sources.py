"""Source files of the product, and the texts in them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def find_product_files(suffix: str) -> list[Path]:
    """Return the files of all packages that end with a suffix."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob(f"*.{suffix}"))


def parse_modules(word: str) -> Iterator[ast.Module]:
    """Yield the syntax trees of the modules that contain a word."""
    for path in find_product_files("py"):
        if word in (text := path.read_text()):
            yield ast.parse(text)


def find_texts(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module, without docstrings."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def find_imports(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that a module imports, with and without the names from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
