"""Prompts that no page offers: whose name it is, their values, and their messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bridge.browser_tools.builtin_prompts import BUILTIN
from bridge.browser_tools.own_prompts import OwnPrompts
from bridge.errors import CallError, NotOfferedError
from bridge.hub.primitives.own_prompt import OwnPrompt, format_prompt
from bridge.hub.primitives.own_prompt_messages import make_messages
from native_host.protocol.wire import Code

SHORTCUTS = """
[[shortcut]]
name = "report"
title = "Report"
[[shortcut.parameter]]
name = "query"
[[shortcut.step]]
tool = "navigate"
input = { url = "https://shop.example/?q={query:url}" }
"""
BUILTIN_NAMES = ["compare-tabs", "debug-page", "explain-page", "fill-form"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir(mode=0o700)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


def builtin(name: str) -> OwnPrompt:
    return next(prompt for prompt in BUILTIN if prompt.name == name)


async def messages_of(prompt: OwnPrompt, given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each message: its role, and its text or the URI that it embeds."""

    async def read(uri: str) -> bytes:
        return json.dumps(
            {"contents": [{"uri": uri, "text": "…", "_meta": {"dev.mcpb/untrusted": True}}]}
        ).encode()

    found: list[dict[str, Any]] = json.loads(await make_messages(prompt, given, read))["messages"]
    for message in found:
        if resource := message["content"].get("resource"):
            assert resource["_meta"] == {"dev.mcpb/untrusted": True}
            message["content"]["text"] = resource["uri"]
    return [(message["role"], message["content"]["text"]) for message in found]


def test_the_users_prompt_keeps_its_name_and_the_built_in_one_is_renamed(home: Path) -> None:
    write(home / "prompts" / "debug-page.md", "My way.")
    write(home / "prompts" / "mcpb-debug-page.md", "My other way.")
    write(home / "prompts" / "report.md", "My report.")
    write(home / "shortcuts.toml", SHORTCUTS)
    found = OwnPrompts(home).prompts(with_tools=True)
    renamed = ["mcpb-debug-page", "mcpb-mcpb-debug-page", "report", "shortcut-report"]
    assert sorted(found) == sorted([*BUILTIN_NAMES, *renamed])
    assert found["debug-page"].version
    assert found["mcpb-mcpb-debug-page"].title == "Debug a page"


def test_without_the_browser_tools_only_the_users_own_are_offered(home: Path) -> None:
    write(home / "prompts" / "mine.md", "Mine.")
    write(home / "shortcuts.toml", SHORTCUTS)
    assert list(OwnPrompts(home).prompts(with_tools=False)) == ["mine"]


async def test_a_shortcut_is_a_prompt_that_runs_it(home: Path) -> None:
    write(home / "shortcuts.toml", SHORTCUTS)
    prompt = OwnPrompts(home).prompts(with_tools=True)["report"]
    assert [argument.name for argument in prompt.arguments if argument.is_required] == ["query"]
    ((_, text),) = await messages_of(prompt, {"query": "red 'apples'"})
    assert text.endswith(r"command: /report query='red '\''apples'\'''")


def test_an_unreadable_shortcuts_file_hides_no_other_prompt(home: Path) -> None:
    write(home / "shortcuts.toml", "not toml")
    assert sorted(OwnPrompts(home).prompts(with_tools=True)) == BUILTIN_NAMES


@pytest.mark.parametrize("given", [{"tab": "7"}, {"tab": "tab=7"}, {"problem": "tab=7"}])
async def test_debug_page_has_several_steps_of_both_roles(given: dict[str, str]) -> None:
    messages = await messages_of(builtin("debug-page"), given)
    assert {role for role, _ in messages} == {"user", "assistant"}
    assert [text for _, text in messages if text.startswith("mcpb://")] == [
        "mcpb://tab/7/console",
        "mcpb://tab/7/network",
        "mcpb://tab/7/outline",
    ]


@pytest.mark.parametrize(
    ("name", "given", "embedded"),
    [
        ("explain-page", {}, ["mcpb://tab/current/text"]),
        ("fill-form", {"data": "Ada, ada@shop.example"}, ["mcpb://tab/current/outline"]),
        ("compare-tabs", {"first": "1", "second": "2"}, ["mcpb://tab/1/text", "mcpb://tab/2/text"]),
        (
            "compare-tabs",
            {"first": "second=2", "second": "first=1"},
            ["mcpb://tab/1/text", "mcpb://tab/2/text"],
        ),
    ],
)
async def test_each_embeds_what_it_needs(name: str, given: dict[str, str], embedded: list[str]) -> None:
    messages = await messages_of(builtin(name), given)
    assert [text for _, text in messages if text.startswith("mcpb://")] == embedded


async def test_a_sentence_with_an_equals_sign_stays_the_value_of_its_argument() -> None:
    (_, text), _ = await messages_of(builtin("fill-form"), {"data": "tab=7 is wrong"})
    assert "with these values: tab=7 is wrong" in text


async def test_a_value_that_is_given_is_not_replaced_by_what_another_one_says() -> None:
    messages = await messages_of(builtin("debug-page"), {"tab": "7", "problem": "tab=9"})
    assert messages[0] == ("user", "Something is wrong with the page in tab 7: tab=9")


async def test_a_missing_argument_is_named() -> None:
    with pytest.raises(CallError, match="compare-tabs needs the argument “second”") as caught:
        await messages_of(builtin("compare-tabs"), {"first": "1"})
    assert caught.value.code == Code.INVALID_PARAMS


async def test_a_tab_that_may_not_be_used_is_explained_with_how_to_hand_it_over() -> None:
    async def refuse(_uri: str) -> bytes:
        raise CallError(Code.NOT_YOURS, "tab 7", handed=False)

    with pytest.raises(CallError, match="choose “Let agents control this tab”") as caught:
        await make_messages(builtin("explain-page"), {"tab": "7"}, refuse)
    assert caught.value.code == Code.NOT_YOURS


async def test_a_resource_that_does_not_exist_is_named() -> None:
    async def find_none(uri: str) -> bytes:
        raise NotOfferedError(uri)

    with pytest.raises(CallError, match="mcpb://tab/x/text"):
        await make_messages(builtin("explain-page"), {"tab": "x"}, find_none)


def test_an_entry_has_arguments_and_the_version_of_its_file(home: Path) -> None:
    write(home / "prompts" / "mine.md", "+++\n[[argument]]\nname = 'who'\n+++\nHello {who}.")
    (mine,) = OwnPrompts(home).prompts(with_tools=False).values()
    assert json.loads(format_prompt(mine)) == {
        "name": "mine",
        "arguments": [{"name": "who", "required": True}],
        "_meta": {"dev.mcpb/version": mine.version},
    }
