"""docs/REMOTE.md agrees with the code: options, handles, causes, commands and examples."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from bridge.config.loader import read_config
from bridge.config.remote_settings import RemoteSettings
from bridge.diagnostics.remote_check import BAD_ENTRY, NO_TOOL
from bridge.links import remote_mcp
from bridge.links.remote_mcp import RemoteServer
from bridge.links.remote_options import RemoteOptions
from bridge.links.remote_problem import Cause
from remote_servers import instructable_server

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/REMOTE.md").read_text()
DECLARATIONS = (ROOT / "webmcp/register.d.ts").read_text()
COMMANDS = json.loads((ROOT / "tests/data/interfaces.json").read_text())["commands"]
_FENCE = re.compile(r"```{}\n(.*?)```".replace("{}", "(?P<language>[^\n]+)"), re.DOTALL)


def snippets(language: str) -> list[str]:
    return [found[2] for found in _FENCE.finditer(PAGE) if found["language"] == language]


def columns(heading: str) -> Iterator[set[str]]:
    """Return what each column of the table with this heading quotes."""
    table = PAGE.partition(f"\n{heading}\n")[2].partition("\n\n")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines()[1:]]
    for cells in zip(*rows, strict=True):
        yield {name for cell in cells for name in re.findall(r"`([\w-]+)(?:\(\))?`", cell)}


def members(type_name: str) -> set[str]:
    """Return the members of a type of the page module."""
    body = DECLARATIONS.partition(f"type {type_name} = {{")[2].partition("\n}")[0]
    return set(re.findall(r"^    (?:readonly )?(\w+)", body, re.MULTILINE))


def test_the_table_has_every_option_of_each_part() -> None:
    in_javascript, in_python, in_file, _ = columns("| JavaScript | Python | config.toml | meaning |")
    assert in_javascript == members("WebMcpOptions")
    assert in_python == {field.name for field in msgspec.structs.fields(RemoteOptions)}
    assert in_file == {field.name for field in msgspec.structs.fields(RemoteSettings)}


def test_both_handles_have_the_members_of_the_table() -> None:
    in_javascript, in_python, _ = columns("| handle in JavaScript | in Python | meaning |")
    assert in_javascript == members("WebMcpHandle")
    server = RemoteServer(RemoteOptions(url="https://orders.example/mcp"))
    assert [name for name in in_python if not hasattr(server, name)] == []


def test_the_table_has_every_cause() -> None:
    causes, _ = columns("| cause | meaning |")
    assert causes == {*Cause, BAD_ENTRY, NO_TOOL}


@pytest.mark.parametrize("example", snippets("toml config.toml"))
def test_the_configuration_can_be_used(tmp_path: Path, example: str) -> None:
    (tmp_path / "config.toml").write_text(example)
    assert read_config(tmp_path).remote


def commands() -> Iterator[str]:
    """Return the commands of the page, in blocks and in sentences."""
    for block in snippets("sh"):
        yield from (line.partition("  #")[0].strip() for line in block.splitlines())
    yield from re.findall(r"`(mcpb [^`]+)`", PAGE)


@pytest.mark.parametrize("command", list(commands()))
def test_the_commands_exist_with_their_options(command: str) -> None:
    words = command.partition(" -- ")[0].split()
    name = max((" ".join(words[:count]) for count in (2, 3) if " ".join(words[:count]) in COMMANDS), key=len)
    options = [word for word in words if word.startswith("--")]
    assert set(options) <= COMMANDS[name].get("options", {}).keys()


def test_the_errors_are_imported_from_the_named_module() -> None:
    section = PAGE.partition("\n## Embed a server in a Python program\n")[2].partition("\n## ")[0]
    errors = set(re.findall(r"`(Remote\w+)`", section))
    assert errors == {"RemoteOptions", "RemoteProblem", "RemoteReportedError", "RemoteCallError"}
    assert errors <= set(remote_mcp.__all__)


async def test_the_program_lists_and_calls(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = snippets("python")
    *_, run = ast.parse(program).body
    assert ast.unparse(run) == "trio.run(main)"
    with instructable_server() as server, trio.fail_after(60):
        own = program.replace("https://orders.example/mcp", server.url).replace("trio.run(main)", "")
        own = own.replace('"find"', '"echo"').replace('"number": 17', '"text": "hi"')
        scope: dict[str, object] = {}
        exec(compile(own, "docs/REMOTE.md", "exec"), scope)
        await scope["main"]()  # type: ignore[operator]
    tools, content = capsys.readouterr().out.splitlines()
    assert "orders.echo" in ast.literal_eval(tools)
    assert ast.literal_eval(content) == [{"type": "text", "text": "hi"}]
