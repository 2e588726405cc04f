"""Control flow depends on codes and types: no code compares the text of an error, or searches in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gates import check_gate
from source_trees import PRODUCT, ROOT, find_files, parse

INTERPRETERS = {
    "native_host/protocol/validation_errors.py": "msgspec has no codes",
    "bridge/browser_tools/page/page.py": "DevTools has no code for a context that is gone",
    "bridge/browser_tools/tools/navigate.py": "DevTools reports net::ERR_ABORTED as a text",
    "bridge/browser_tools/forwarded_tools.py": "errors of Claude in Chrome are texts",
    "bridge/frontends/existing_channel/channel_results.py": "errors of Claude in Chrome are texts",
}
"""Modules that interpret the text of another program, with the reason."""
_MEMBERS = {"detail", "message", "reason", "strerror", "fault", "text", "refusal"}
_ERRORS = {"error", "exception", "caught", "refusal", "exc", "why"}
_TEXT_MEMBERS = {"detail", "text", "reason", "fault"}
"""Members that hold the text of a message, whatever the variable is called."""
_VARIABLES = {"fault", "refusal", "reason"}
_METHODS = {"startswith", "endswith", "find", "index", "count", "partition", "removeprefix", "removesuffix"}
_MATCHES = {"match", "fullmatch", "search", "findall", "finditer", "split", "sub"}


def find_comparisons(tree: ast.AST) -> Iterator[int]:
    """Yield the lines in which the text of an error is compared or searched."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if any(map(_is_message, sides)) and any(map(_is_words, sides)):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _METHODS:
                if _is_message(value):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(attr=name), args=arguments) if name in _MATCHES:
                if any(map(_is_message, arguments)):
                    yield node.lineno


def _is_message(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
            return name in _ERRORS
        case ast.Attribute(value=ast.Name(id=name), attr=member) if name in _ERRORS and member in _MEMBERS:
            return True
        case ast.Attribute(attr=member):
            return member in _TEXT_MEMBERS
        case ast.Subscript(value=ast.Attribute(attr="args")):
            return True
        case ast.Name(id=name):
            return name in _VARIABLES
    return False


def _is_words(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(node.value)
    return is_constant or (isinstance(node, ast.Name) and node.id.isupper())


def find_violations() -> Iterator[str]:
    for path in find_files(*PRODUCT, suffix=".py"):
        name = str(path.relative_to(ROOT))
        if name not in INTERPRETERS:
            yield from (f"{name}:{line}" for line in find_comparisons(parse(path)))


def test_no_message_text_is_compared_outside_the_interpreters() -> None:
    check_gate("comparisons of messages", find_violations())


def test_each_interpreter_exists() -> None:
    assert [name for name in INTERPRETERS if not Path(ROOT, name).exists()] == []


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("if 'cannot be controlled' in error.detail: pass", True),
        ("if str(refusal) == NO_BROWSER: pass", True),
        ("fault.endswith(_OPEN)", True),
        ("re.match('x', str(error))", True),
        ("error.args[0].startswith('Expected')", True),
        ("if host.reason == 'gone': pass", True),
        ("_COMMAND.finditer(problem.text)", True),
        ("if error.code == Code.GONE: pass", False),
        ("if text.startswith('x'): pass", False),
    ],
)
def test_comparisons_of_messages_are_found(source: str, is_found: bool) -> None:
    assert bool([*find_comparisons(ast.parse(source))]) == is_found
