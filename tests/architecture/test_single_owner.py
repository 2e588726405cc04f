"""One module per concept: no other module reads `/proc`, parses origins, or interprets errors of msgspec."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from source_trees import PRODUCT, ROOT, find_files, find_imports, parse

MSGSPEC_ERRORS = {"msgspec.ValidationError", "msgspec.DecodeError", "msgspec.MsgspecError"}


@dataclass(frozen=True)
class Concept:
    """Syntax that belongs to one module."""

    name: str
    find: Callable[[ast.Module], Iterator[ast.AST]]
    owner: str
    exceptions: dict[str, str] = field(default_factory=dict)
    """Other files that may use the syntax, with the reason."""
    known: dict[str, str] = field(default_factory=dict)
    """Files that are about to stop, with the reason. One that has stopped fails the test."""


def find_proc_paths(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield constants that are a path below `/proc`, docstrings left out."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                if text == "/proc" or text.startswith("/proc/"):
                    yield node


def find_netlink(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="AF_NETLINK") | ast.Constant(value="AF_NETLINK"):
                yield node


def find_home_reads(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield reads of the variable MCPB_HOME in an environment."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="get" | "getenv" | "pop"), args=[ast.Constant(value="MCPB_HOME"), *_]
            ):
                yield node
            case ast.Subscript(slice=ast.Constant(value="MCPB_HOME"), ctx=ast.Load()):
                yield node
            case ast.Compare(left=ast.Constant(value="MCPB_HOME"), ops=[ast.In() | ast.NotIn()]):
                yield node


def find_user_homes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield `Path.home()`, which follows any HOME, and homes of the password database."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="Path"), attr="home") | ast.Attribute(attr="pw_dir"):
                yield node


def find_no_follow(tree: ast.Module) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "O_NOFOLLOW")


def find_isprintable(tree: ast.Module) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "isprintable")


def find_url_parsers(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the module if it uses a URL parser of the standard library."""
    if {"urllib.parse.urlsplit", "urllib.parse.urlparse"} & set(find_imports(tree)):
        yield tree
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in {"urlsplit", "urlparse"}:
            yield node


def find_msgspec_texts(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield places where an error of msgspec becomes text, or where its `args` are read."""
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(type=ast.expr() as caught, name=str(name)) if _is_of_msgspec(caught):
                yield from _find_texts_of(name, node)
            case ast.arg(arg=name, annotation=ast.expr() as annotation) if _is_of_msgspec(annotation):
                yield from _find_texts_of(name, _function_with(tree, node))


def _is_of_msgspec(types: ast.expr) -> bool:
    return bool({ast.unparse(node) for node in ast.walk(types)} & MSGSPEC_ERRORS)


def _function_with(tree: ast.Module, argument: ast.arg) -> ast.AST:
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return next(each for each in functions if argument in ast.walk(each.args))


def _find_texts_of(name: str, block: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(block):
        match node:
            case (
                ast.FormattedValue(value=ast.Name(id=used))
                | ast.Attribute(value=ast.Name(id=used), attr="args")
            ):
                pass
            case ast.Call(func=ast.Name(id="str" | "repr"), args=[ast.Name(id=used)]):
                pass
            case _:
                continue
        if used == name:
            yield node


CONCEPTS = [
    Concept("paths below /proc", find_proc_paths, "native_host/system/proc.py"),
    Concept("homes of users", find_user_homes, "native_host/system/home_layout.py"),
    Concept("O_NOFOLLOW", find_no_follow, "native_host/system/private_files.py"),
    Concept("AF_NETLINK", find_netlink, "native_host/system/sock_diag.py"),
    Concept("reads of MCPB_HOME", find_home_reads, "native_host/system/home_layout.py"),
    Concept("isprintable", find_isprintable, "native_host/protocol/untrusted_text.py"),
    Concept("texts of msgspec's errors", find_msgspec_texts, "native_host/protocol/validation_errors.py"),
    Concept(
        "URL parsers",
        find_url_parsers,
        "bridge/origins.py",
        exceptions={
            "bridge/browser_tools/files/upload_sources.py": "file URIs of a client's roots",
            "bridge/cli/status_page.py": "address of our own server",
            "bridge/frontends/http/status_page/page_routes.py": "address of our own server",
            "http_serving/server_address.py": "addresses of servers, which no browser reads",
            "install/interpreter.py": "file URI in the record of pip",
            "demo/simulated/tabs.py": "stands for a browser, which has its own parser",
            "http_serving/websocket_client.py": "ws: and wss: URLs, and below bridge/",
        },
    ),
]


def find_users(concept: Concept) -> set[str]:
    """Return the files that use the syntax of a concept, without its owner and the exceptions."""
    used_in = {
        str(path.relative_to(ROOT))
        for path in find_files(*PRODUCT, suffix=".py")
        if any(True for _ in concept.find(parse(path)))
    }
    return used_in - {concept.owner, *concept.exceptions}


@pytest.mark.parametrize("concept", CONCEPTS, ids=lambda concept: concept.name)
def test_a_concept_has_one_module(concept: Concept) -> None:
    users = find_users(concept)
    assert sorted(users - concept.known.keys()) == [], f"only {concept.owner} may have {concept.name}"
    assert sorted(concept.known.keys() - users) == [], "remove these from the known violations"


def test_each_file_that_a_concept_names_exists() -> None:
    named = {name for each in CONCEPTS for name in (each.owner, *each.exceptions)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("find", "source"),
    [
        (find_proc_paths, 'ROOT = Path("/proc")'),
        (find_proc_paths, 'names = f"/proc/{pid}/comm"'),
        (find_netlink, "socket.socket(socket.AF_NETLINK)"),
        (find_home_reads, 'os.environ["MCPB_HOME"]'),
        (find_home_reads, 'environ.get("MCPB_HOME", "")'),
        (find_isprintable, "all(map(str.isprintable, names))"),
        (find_url_parsers, "from urllib.parse import urlsplit"),
        (find_url_parsers, "urllib.parse.urlparse(url)"),
        (find_msgspec_texts, "try: decode()\nexcept msgspec.ValidationError as error: fail(str(error))"),
        (find_msgspec_texts, "try: decode()\nexcept (OSError, msgspec.DecodeError) as why: fail(f'{why}')"),
        (find_msgspec_texts, "def explain(error: msgspec.ValidationError) -> str: return error.args[0]"),
    ],
)
def test_the_syntax_of_a_concept_is_found(
    find: Callable[[ast.Module], Iterator[ast.AST]], source: str
) -> None:
    assert [*find(ast.parse(source))]


@pytest.mark.parametrize(
    ("find", "source"),
    [
        (find_proc_paths, '"""/proc/self/fd is read here."""'),
        (find_home_reads, 'environ["MCPB_HOME"] = home'),
        (find_msgspec_texts, "try: decode()\nexcept msgspec.ValidationError as error: fail(explain(error))"),
        (find_msgspec_texts, "try: decode()\nexcept OSError as error: fail(str(error))"),
    ],
)
def test_other_syntax_is_left_alone(find: Callable[[ast.Module], Iterator[ast.AST]], source: str) -> None:
    assert [*find(ast.parse(source))] == []
