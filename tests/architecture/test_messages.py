"""Control flow depends on codes and types: no code compares the text of an error, or searches in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from functools import partial
from pathlib import Path

import pytest

from source_trees import PRODUCT, ROOT, check_gate, find_files, parse

INTERPRETERS = {
    "native_host/protocol/validation_errors.py": "msgspec has no codes",
    "bridge/browser_tools/page/page.py": "DevTools has no code for a context that is gone",
    "bridge/browser_tools/tools/navigate.py": "DevTools reports net::ERR_ABORTED as a text",
    "bridge/browser_tools/forwarded_tools.py": "errors of Claude in Chrome are texts",
    "bridge/diagnostics/browser_checks.py": "connection errors of browsers are texts",
    "bridge/links/remote_http.py": "codes of OpenSSL are texts",
    "bridge/frontends/existing_channel/channel_results.py": "errors of Claude in Chrome are texts",
}
"""Modules that interpret the text of another program, with the reason."""
_MEMBERS = {"detail", "message", "said", "reason", "strerror", "fault", "text", "refusal"}
_ERRORS = {"error", "exception", "caught", "refusal", "exc", "why"}
_TEXT_MEMBERS = {"detail", "text", "reason", "fault"}
"""Members that hold the text of a message, whatever the variable is called."""
_VARIABLES = {"fault", "refusal", "reason"}
_METHODS = {"startswith", "endswith", "find", "index", "count", "partition", "removeprefix", "removesuffix"}
_MATCHES = {"match", "fullmatch", "search", "findall", "finditer", "split", "sub"}


def find_comparisons(tree: ast.AST) -> set[int]:
    """Return the lines in which the text of an error is compared or searched."""
    scopes = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = set(_find_in_scope(tree, _VARIABLES))
    return found.union(*(_find_in_scope(scope, _VARIABLES | _assigned_messages(scope)) for scope in scopes))


def _find_in_scope(scope: ast.AST, variables: Set[str]) -> Iterator[int]:
    is_message = partial(_is_message, variables=variables)
    for node in ast.walk(scope):
        match node:
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[container]) if is_message(container):
                yield node.lineno
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if any(map(is_message, sides)) and any(map(_is_words, sides)):
                    yield node.lineno
            case ast.Match(subject=subject, cases=cases) if is_message(subject):
                yield from (case.pattern.lineno for case in cases if _has_words(case.pattern))
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _METHODS:
                if is_message(value):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(attr=name), args=arguments) if name in _MATCHES:
                if any(map(is_message, arguments)):
                    yield node.lineno


def _assigned_messages(scope: ast.AST) -> set[str]:
    """Return the variables of a function that it assigns the text of an error to."""
    found = set()
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_message_of_error(value):
                found.add(name)
            case ast.NamedExpr(target=ast.Name(id=name), value=value) if _is_message_of_error(value):
                found.add(name)
    return found


def _is_message_of_error(node: ast.AST) -> bool:
    """Return whether an expression, or one of its branches, is the text of an error."""
    match node:
        case ast.IfExp(body=body, orelse=other):
            return _is_message_of_error(body) or _is_message_of_error(other)
        case ast.BoolOp(values=values):
            return any(map(_is_message_of_error, values))
        case ast.Attribute(value=ast.Name(id=name), attr=member):
            return name in _ERRORS and member in _MEMBERS
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
            return name in _ERRORS
    return False


def _is_message(node: ast.AST, variables: Set[str] = _VARIABLES) -> bool:
    match node:
        case ast.Attribute(attr=member) if member in _TEXT_MEMBERS:
            return True
        case ast.Subscript(value=ast.Attribute(attr="args")):
            return True
        case ast.Name(id=name):
            return name in variables
    return _is_message_of_error(node)


def _is_words(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(node.value)
    return is_constant or (isinstance(node, ast.Name) and node.id.isupper())


def _has_words(pattern: ast.pattern) -> bool:
    return any(isinstance(each, ast.MatchValue) and _is_words(each.value) for each in ast.walk(pattern))


def find_violations() -> Iterator[str]:
    for path in find_files(*PRODUCT, suffix=".py"):
        name = str(path.relative_to(ROOT))
        if name not in INTERPRETERS:
            yield from (f"{name}:{line}" for line in sorted(find_comparisons(parse(path))))


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
        ("def f(error):\n  said = error.detail or ''\n  if any(word in said for word in _WORDS): pass", True),
        ("def f(error):\n  if (said := str(error)) and said == 'gone': pass", True),
        ("match error.detail:\n  case 'gone': pass", True),
        ("match fault:\n  case Fault.GONE: pass", False),
        ("if error.code == Code.GONE: pass", False),
        ("def f(row):\n  said = row.title\n  if said == 'x': pass", False),
        ("if text.startswith('x'): pass", False),
    ],
)
def test_comparisons_of_messages_are_found(source: str, is_found: bool) -> None:
    assert bool(find_comparisons(ast.parse(source))) == is_found
