"""Shortcuts: what may stand in shortcuts.toml, how commands are read, and what running one does."""

from pathlib import Path
from typing import Any

import pytest
import trio

from bridge.browser_tools.tools.shortcuts import ShortcutCommandError, make_steps, parse_values
from bridge.config.shortcuts_file import ShortcutsError, read_shortcuts
from fake_tool_client import SHOP, PlayedTools, own_tab

REPORT = """
[[shortcut]]
name = "report"
title = "Report"
description = "Looks for something in the shop"

[[shortcut.parameter]]
name = "query"
description = "What to look for"

[[shortcut.parameter]]
name = "page"
default = "1"

[[shortcut.step]]
tool = "navigate"
input = { url = "https://shop.example/search?q={query:url}&page={page}" }

[[shortcut.step]]
tool = "dev_utils"
input = { action = "echo", text = "const q = {query:json}; f({ q }, {page})" }
"""


def write(home: Path, text: str) -> Path:
    path = home / "shortcuts.toml"
    path.write_text(text)
    path.chmod(0o644)
    return path


# ── The file ────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    assert list(read_shortcuts(tmp_path)) == []


def test_a_shortcut_has_a_name_parameters_and_steps(tmp_path: Path) -> None:
    write(tmp_path, REPORT)
    (shortcut,) = read_shortcuts(tmp_path)
    assert (shortcut.name, shortcut.title, shortcut.usage) == ("report", "Report", "/report <query> [page=1]")
    assert [each.name for each in shortcut.parameters] == ["query", "page"]
    assert [each.tool for each in shortcut.steps] == ["navigate", "dev_utils"]


STEP = "[[shortcut.step]]\ntool = 'dev_utils'\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[shortcut]\nname = 1", "is not valid TOML: Expected ']]'"),
        ("[[shortcut]]\nname = 'a'", "shortcut[0]: step is missing"),
        (f"[[shortcut]]\n{STEP}", "shortcut[0]: name is missing"),
        (f"[[shortcut]]\nname = 'a b'\n{STEP}", "shortcut[0].name: expected str matching ^"),
        (f"[[shortcut]]\nname = 'a'\nnmae = 1\n{STEP}", "shortcut[0]: there is no key nmae"),
        ("[[shortcut]]\nname = 'a'\nstep = []", "shortcut[0].step: expected array of length >= 1"),
        (
            "[[shortcut]]\nname = 'a'\n[[shortcut.step]]\ntool = 3",
            "shortcut[0].step[0].tool: expected str, got int",
        ),
        (
            "[[shortcut]]\nname = 'a'\n[[shortcut.step]]\ntool = 'x'\ninput = 'y'",
            "shortcut[0].step[0].input: expected table, got str",
        ),
        (f"[[shortcut]]\nname = 'a'\n{STEP}[[shortcut]]\nname = 'a'\n{STEP}", "there are two shortcuts a"),
        (
            f"[[shortcut]]\nname = 'a'\nparameter = [{{ name = 'q' }}, {{ name = 'q' }}]\n{STEP}",
            "shortcut[0]: a has two parameters q",
        ),
        ("[shortcuts]", "there is no key shortcuts"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ShortcutsError) as refused:
        read_shortcuts(tmp_path)
    assert refused.value.path == path
    assert refused.value.reason.startswith(says)


def test_a_file_that_others_could_have_written_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, REPORT).chmod(0o666)
    with pytest.raises(ShortcutsError, match=r"can be written by others.*chmod go-w"):
        read_shortcuts(tmp_path)


# ── Parameters ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("apples", {"query": "apples", "page": "1"}),
        ("query=apples", {"query": "apples", "page": "1"}),
        ("apples 2", {"query": "apples", "page": "2"}),
        ("page=2 apples", {"query": "apples", "page": "2"}),
        ("'red apples' page=3", {"query": "red apples", "page": "3"}),
        ("query='red apples'", {"query": "red apples", "page": "1"}),
        ("a=b", {"query": "a=b", "page": "1"}),
        ("''", {"query": "", "page": "1"}),
    ],
)
def test_words_behind_a_command_are_parameters_by_name_or_in_order(
    tmp_path: Path, words: str, expected: dict[str, str]
) -> None:
    write(tmp_path, REPORT)
    assert parse_values(read_shortcuts(tmp_path)[0], words) == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", r"query must be given: /report <query> \[page=1\]"),
        ("page=2", "query must be given"),
        ("red apples 3", "“3” is too much for /report"),
        ("query=red apples pears", "“pears” is too much"),
        ("it's", "No closing quotation"),
    ],
)
def test_words_that_do_not_fit_are_refused(tmp_path: Path, words: str, says: str) -> None:
    write(tmp_path, REPORT)
    with pytest.raises(ShortcutCommandError, match=says):
        parse_values(read_shortcuts(tmp_path)[0], words)


def test_places_are_filled_as_they_ask_and_other_braces_stay(tmp_path: Path) -> None:
    write(tmp_path, REPORT)
    first, second = make_steps(read_shortcuts(tmp_path)[0], {"query": '"tea" & {page}', "page": "2"})
    assert first.input == {"url": "https://shop.example/search?q=%22tea%22%20%26%20%7Bpage%7D&page=2"}
    assert second.input["text"] == r'const q = "\"tea\" & {page}"; f({ q }, 2)'


def test_places_are_found_at_any_depth(tmp_path: Path) -> None:
    write(
        tmp_path,
        "[[shortcut]]\nname = 'a'\nparameter = [{ name = 'x' }]\n"
        "[[shortcut.step]]\ntool = 'computer'\ninput = { to = [{ deep = '{x}' }, 3, true] }",
    )
    assert make_steps(read_shortcuts(tmp_path)[0], {"x": "9"})[0].input == {"to": [{"deep": "9"}, 3, True]}


# ── The tools ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def tools(nursery: trio.Nursery, tmp_path: Path) -> PlayedTools:
    write(tmp_path, REPORT)
    played = PlayedTools(nursery, tmp_path)
    played.connect(own_tab(1), own_tab(2))
    return played


async def test_they_are_listed_with_what_they_want(tools: PlayedTools) -> None:
    told = await tools.call("shortcuts_list")
    assert told.text.endswith("/report <query> [page=1]: Report. Looks for something in the shop")
    (shortcut,) = told.structured["shortcuts"]
    assert (shortcut["id"], shortcut["command"]) == ("report", "/report")
    assert shortcut["parameters"][1] == {"name": "page", "description": "", "default": "1"}


async def test_the_file_is_read_at_each_use(tools: PlayedTools, tmp_path: Path) -> None:
    write(tmp_path, REPORT.replace('"report"', '"look"'))
    assert "/look" in (await tools.call("shortcuts_list")).text
    write(tmp_path, "")
    assert f"The user keeps them in {tmp_path}/shortcuts.toml" in (await tools.call("shortcuts_list")).text


@pytest.mark.parametrize(
    "given",
    [
        {"command": "/report tea"},
        {"command": "report query=tea"},
        {"shortcutId": "report", "command": "tea"},
        {"shortcutId": "report", "command": "/report tea"},
        {"shortcutId": "/report", "command": "query=tea"},
    ],
)
async def test_one_is_run_by_its_command_or_its_id(tools: PlayedTools, given: dict[str, str]) -> None:
    told = await tools.call("shortcuts_execute", **given)
    assert [sent.url for sent in tools.sent("browser_navigate")] == [f"{SHOP}/search?q=tea&page=1"]
    assert told.text.startswith("Shortcut report:\nStep 1, navigate: Tab 1 is at")
    assert (told.structured["success"], told.structured["shortcut"]) == (True, "report")
    assert told.structured["results"][1]["told"]["message"] == 'const q = "tea"; f({ q }, 1)'


async def test_with_a_tab_its_steps_begin_there(tools: PlayedTools) -> None:
    await tools.call("shortcuts_execute", command="/report tea", tabId=2)
    assert [sent.tab_id for sent in tools.sent("browser_navigate")] == [2]


async def test_it_stops_at_the_first_failure_and_says_which(tools: PlayedTools, tmp_path: Path) -> None:
    failing = "[[shortcut]]\nname = 'f'\n[[shortcut.step]]\ntool = 'dev_utils'\ninput = { action = 'fail' }\n"
    write(tmp_path, failing + STEP)
    told = await tools.call("shortcuts_execute", command="/f")
    assert told.is_error
    assert told.text.startswith("Shortcut f:\nStep 1 of 2 failed. 1 more was not run.")
    assert (told.structured["success"], told.structured["failedAt"]) == (False, 1)


@pytest.mark.parametrize(
    ("text", "given", "says"),
    [
        (REPORT, {}, "Give shortcutId or command; shortcuts_list has both. Nothing was run."),
        (REPORT, {"command": "/"}, "Give shortcutId or command"),
        (REPORT, {"command": "/tea"}, "There is no shortcut tea; there are: report. Nothing was run."),
        (REPORT, {"shortcutId": "tea"}, "There is no shortcut tea"),
        (
            "",
            {"command": "/tea"},
            "There is no shortcut tea; there are none yet: the user keeps them in shortcuts.toml.",
        ),
        (REPORT, {"command": "/report"}, "query must be given: /report <query> [page=1]. Nothing was run."),
        ("x = ", {"command": "/report"}, "The shortcuts cannot be used: "),
        (
            "[[shortcut]]\nname = 'f'\n[[shortcut.step]]\ntool = 'nope'",
            {"command": "/f"},
            "Step 1, nope: there is no browser tool of this name",
        ),
        (
            "[[shortcut]]\nname = 'f'\n[[shortcut.step]]\ntool = 'shortcuts_execute'",
            {"command": "/f"},
            "Step 1, shortcuts_execute: a sequence of steps is no step of another. None was run.",
        ),
    ],
)
async def test_what_cannot_be_run_is_said_before_anything_is(
    tools: PlayedTools, tmp_path: Path, text: str, given: dict[str, Any], says: str
) -> None:
    write(tmp_path, text)
    assert (await tools.ask_fails("shortcuts_execute", **given)).startswith(says)
    assert not tools.transport.asked
