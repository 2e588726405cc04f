"""`mcpb skill`: what SKILL.md has, and where it goes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bridge.browser_tools.tool_definitions import read_definitions
from bridge.browser_tools.tool_examples import EXAMPLES
from bridge.cli.group import main
from bridge.frontends.command_calls import parse_value
from bridge.hub.meta_tools import TOOLS
from install.cli import uninstall_native_host

MAX_CHARS = 2550
"""2505 characters of it were 669 o200k tokens, of 700."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCPB_HOME", str(tmp_path / "mcpb"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def skill(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["skill", *arguments])


def test_the_skill_is_short_and_begins_with_its_name() -> None:
    text = skill().output
    assert text.startswith("---\nname: mcpb\ndescription: ")
    assert len(text) <= MAX_CHARS
    for command in ("resources", "read URI", "prompts", "prompt NAME"):
        assert f"`mcpb {command}`" in text


def test_the_skill_has_every_core_tool_with_its_required_arguments() -> None:
    usages = dict(re.findall(r"^- `(\w+) ?(.*)`: ", skill().output, re.MULTILINE))
    core = {each.name: each.definition["inputSchema"] for each in read_definitions() if each.listed == "core"}
    assert usages.keys() == core.keys()
    for name, schema in core.items():
        needed = {*schema.get("required", ())} - {"tabId"}
        assert needed <= {word.partition("=")[0] for word in usages[name].split()}


def test_an_example_of_each_tool_is_printed_as_a_command_with_its_arguments() -> None:
    schemas = {tool["name"]: tool["inputSchema"] for tool in TOOLS}
    schemas |= {each.name: each.definition["inputSchema"] for each in read_definitions()}
    printed = [shlex.split(line) for line in skill("--examples").output.splitlines()]
    assert all(words[:2] == ["mcpb", "call"] for words in printed)
    assert sorted(name for _, _, name, *_ in printed) == sorted(schemas)
    for _, _, name, *pairs in printed:
        properties = schemas[name].get("properties", {})
        texts = dict(pair.split("=", 1) for pair in pairs)
        given = {key: parse_value(text, properties.get(key)) for key, text in texts.items()}
        assert given == EXAMPLES[name]
    assert skill("--examples", "--install").exit_code == 2


def test_the_skill_is_installed_where_claude_code_finds_it(home: Path) -> None:
    path = home / ".claude" / "skills" / "mcpb" / "SKILL.md"
    assert skill("--install").output == f"The skill is in {path}\n"
    assert path.read_text() == skill().output


def test_another_directory_of_skills_can_be_chosen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "other"))
    assert skill("--install").exit_code == 0
    assert (home / "other" / "skills" / "mcpb" / "SKILL.md").exists()
    assert skill("--install", "--directory", str(home / "agent")).exit_code == 0
    assert (home / "agent" / "mcpb" / "SKILL.md").exists()
    assert skill("--directory", str(home)).exit_code == 2


def test_an_earlier_skill_is_replaced_and_that_of_others_stays(home: Path) -> None:
    path = home / "agent" / "mcpb" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: mcpb\n---\nof an earlier version")
    assert skill("--install", "--directory", str(home / "agent")).exit_code == 0
    path.write_text("---\nname: mine\n---\n")
    done = skill("--install", "--directory", str(home / "agent"))
    assert done.exit_code == 1
    assert f"{path} is not a skill of mcpb. Move it away" in done.output
    assert path.read_text() == "---\nname: mine\n---\n"


def test_an_uninstallation_removes_the_skills_of_its_home_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill("--install")
    skill("--install", "--directory", str(home / "agent"))
    monkeypatch.setenv("MCPB_HOME", str(home / "other"))
    assert CliRunner().invoke(uninstall_native_host, ["--yes"]).exit_code == 0
    assert (home / ".claude" / "skills" / "mcpb" / "SKILL.md").exists()
    monkeypatch.setenv("MCPB_HOME", str(home / "mcpb"))
    beside = home / ".claude" / "skills" / "other"
    beside.mkdir()
    assert CliRunner().invoke(uninstall_native_host, ["--yes"]).exit_code == 0
    assert [*(home / ".claude" / "skills").iterdir()] == [beside]
    assert not (home / "agent" / "mcpb").exists()
    assert not (home / "mcpb").exists()
