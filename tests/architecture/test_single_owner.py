"""Concepts that one module owns: others call it and do not repeat what it does."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("native_host", "http_serving", "bridge", "install", "demo")
HOME_LAYOUT = "native_host/system/home_layout.py"


def reads_mcpb_home(node: ast.AST) -> bool:
    """`environ.get("MCPB_HOME")`, `environ["MCPB_HOME"]` or `os.getenv("MCPB_HOME")`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="get" | "getenv"), args=[ast.Constant(value="MCPB_HOME"), *_]):
            return True
        case ast.Subscript(slice=ast.Constant(value="MCPB_HOME"), ctx=ast.Load()):
            return True
    return False


def finds_user_home(node: ast.AST) -> bool:
    """`Path.home()`, which follows any HOME, or the home of the password database."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="Path"), attr="home")):
            return True
    return isinstance(node, ast.Attribute) and node.attr == "pw_dir"


def opens_without_links(node: ast.AST) -> bool:
    """A use of `os.O_NOFOLLOW`."""
    return isinstance(node, ast.Attribute) and node.attr == "O_NOFOLLOW"


@pytest.mark.parametrize(
    ("uses", "owner"),
    [
        (reads_mcpb_home, HOME_LAYOUT),
        (finds_user_home, HOME_LAYOUT),
        (opens_without_links, "native_host/system/private_files.py"),
    ],
)
def test_only_the_owner_of_a_concept_implements_it(uses: Callable[[ast.AST], bool], owner: str) -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if any(map(uses, ast.walk(ast.parse(path.read_text()))))
    }
    assert found == {owner}
