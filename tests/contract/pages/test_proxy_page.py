"""docs/PROXY.md agrees with the code: keys with their defaults, and events of the log."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from source_trees import ROOT, find_files, parse
from websocket_proxy.node.settings import ProxySettings, read_settings
from websocket_proxy.token_verifier import IssuerSettings

PAGE = (ROOT / "docs/PROXY.md").read_text()
EXAMPLES = re.findall(r"```toml config\.toml\n(.*?)```", PAGE, re.DOTALL)


def section(title: str) -> str:
    """Text below a heading."""
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def documented_keys() -> list[dict[str, str]]:
    """The two tables of keys: each key with its default as the page has it."""
    tables = section("Keys").split("| key | default | meaning |")[1:]
    return [dict(re.findall(r"^\| `([a-z_]+)` \| `?([^`|]+?)`? \|", table, re.MULTILINE)) for table in tables]


def defaults_of(shape: type[msgspec.Struct], *, without: str = "") -> dict[str, Any]:
    """Keys of a table with their defaults; `...` for a required one."""
    found = {field.name: field.default for field in msgspec.structs.fields(shape)}
    return {
        name: ... if default is msgspec.NODEFAULT else default
        for name, default in found.items()
        if name != without
    }


def read_default(text: str) -> Any:
    """The value that a cell of the table means."""
    if text == "required":
        return ...
    if text == "not set":
        return None
    value = tomllib.loads(f"key = {text}")["key"]
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize(("index", "shape"), [(0, ProxySettings), (1, IssuerSettings)])
def test_the_page_names_every_key_with_its_default(index: int, shape: type[msgspec.Struct]) -> None:
    found = {key: read_default(text) for key, text in documented_keys()[index].items()}
    assert found == defaults_of(shape, without="issuers")


def test_every_example_can_be_used(tmp_path: Path) -> None:
    assert EXAMPLES
    for example in EXAMPLES:
        (tmp_path / "config.toml").write_text(example)
        assert read_settings(tmp_path) != ProxySettings()


def logged_events() -> set[str]:
    """Events that the code writes to the log."""
    found = {"log"}
    for path in find_files("websocket_proxy/node", suffix=".py"):
        for node in ast.walk(parse(path)):
            match node:
                case ast.Call(
                    func=ast.Name(id="_write") | ast.Attribute(attr="on_event"),
                    args=[ast.Constant(value=str(event)), *_],
                ):
                    found.add(event)
    return found


def test_the_page_lists_every_event_of_the_log() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", section("The log"), re.MULTILINE)
    assert sorted(listed) == sorted(logged_events())
