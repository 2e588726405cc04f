"""`update_plan` and `permissions_check`: what the person approves beforehand, and what would be allowed."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from bridge.config.settings import BrowserSettings, Config
from bridge.hub.policy import PolicyRules, ToolRule
from fake_host import PlayedHost
from fake_tool_client import BANK, SESSION, SHOP, PlayedTools, at, own_tab
from mcp_client import McpLines, bridge_in_process, text_of
from native_host.protocol import wire

PLAN: dict[str, Any] = {"domains": ["shop.example"], "approach": ["Find tea", "Put it into the cart"]}
SOON_S = 30


@pytest.fixture
def tools(nursery: trio.Nursery, tmp_path: Path) -> PlayedTools:
    played = PlayedTools(nursery, tmp_path, sites="ask")
    played.connect(own_tab(1), at(f"{BANK}/", 2))
    return played


# ── update_plan ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_person_sees_the_sites_and_the_steps(tools: PlayedTools) -> None:
    tools.says("for this session")
    plan = {"domains": ["shop.example", "localhost:3000", f"{BANK}/login"], "approach": ["Find\ntea\u202e"]}
    told = await tools.call("update_plan", **plan)
    (question,) = tools.questions
    assert question.message == (
        "Agent in app plans to work on https://shop.example, http://localhost:3000, https://bank.example:\n"
        "1. Find tea\n"
        "May it?"
    )
    assert told.structured["sites"] == [SHOP, "http://localhost:3000", BANK]


@pytest.mark.parametrize(("choice", "is_remembered"), [("for this session", False), ("always", True)])
async def test_sites_of_an_approved_plan_are_not_asked_about_again(
    tools: PlayedTools, tmp_path: Path, choice: str, is_remembered: bool
) -> None:
    tools.says(choice)
    told = await tools.call("update_plan", **PLAN)
    assert (told.structured["answer"], told.structured["isRemembered"]) == ("approved", is_remembered)
    assert not (await tools.call("navigate", url=SHOP)).is_error
    assert len(tools.questions) == 1
    assert (tmp_path / "state" / "approvals.json").exists() is is_remembered


async def test_what_cannot_be_remembered_counts_for_the_session_and_says_so(
    tools: PlayedTools, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    tools.says("always")
    told = await tools.call("update_plan", **PLAN)
    assert "for this session. It could not be remembered beyond that:" in told.text
    assert told.structured["isRemembered"] is False
    assert not (await tools.call("navigate", url=SHOP)).is_error


@pytest.mark.parametrize(
    ("choice", "answer", "says"),
    [
        ("no", "declined", "The user declined the plan. Do not carry it out"),
        (None, "cancelled", "The user put the question away without an answer."),
    ],
)
async def test_a_plan_that_is_not_approved_is_said_plainly(
    tools: PlayedTools, choice: str | None, answer: str, says: str
) -> None:
    tools.says(choice)
    told = await tools.call("update_plan", **PLAN)
    assert told.text.startswith(says)
    assert told.structured["answer"] == answer
    told = await tools.call("permissions_check", tool="navigate", url=SHOP)
    assert told.structured["allowed"] == "ask"


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (PLAN | {"domains": []}, "A plan names 1 to 20 domains, not 0. The user was not asked."),
        (PLAN | {"approach": []}, "A plan has 1 to 20 steps, not 0. The user was not asked."),
        (PLAN | {"domains": ["*.shop.example"]}, "“*.shop.example” is no site"),
        (PLAN | {"domains": ["mailto:ann@shop.example"]}, "“mailto:ann@shop.example” is no site"),
    ],
)
async def test_a_plan_that_is_none_is_not_shown(tools: PlayedTools, plan: dict[str, Any], says: str) -> None:
    tools.says("always")
    assert (await tools.ask_fails("update_plan", **plan)).startswith(says)
    assert not tools.questions


async def test_a_denied_site_is_no_part_of_a_plan(nursery: trio.Nursery, tmp_path: Path) -> None:
    tools = PlayedTools(nursery, tmp_path, PolicyRules(deny=(BANK,)))
    tools.says("always")
    said = await tools.ask_fails("update_plan", **PLAN | {"domains": ["shop.example", "bank.example"]})
    assert said == (f'{BANK} cannot be part of a plan: policy.deny has "{BANK}". The user was not asked.')


async def test_a_site_that_strict_roots_forbid_is_no_part_of_a_plan(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask", roots="strict")
    tools.roots = [SHOP]
    tools.says("always")
    said = await tools.ask_fails("update_plan", **PLAN | {"domains": ["shop.example", "bank.example"]})
    assert said.startswith(
        f'{BANK} cannot be part of a plan: browser.roots is "strict", and {BANK} is not one'
    )
    assert f"The user was not asked. The client's roots: {SHOP}." in said
    assert not tools.questions
    assert not (await tools.call("update_plan", **PLAN)).is_error


@pytest.mark.parametrize(
    ("sites", "says"),
    [("any", "No site needs their approval here."), ("ask", 'they can set browser.sites = "any"')],
)
async def test_a_client_that_cannot_ask_is_told_what_to_do_instead(
    nursery: trio.Nursery, tmp_path: Path, sites: Any, says: str
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites=sites)
    said = await tools.ask_fails("update_plan", **PLAN)
    assert said.startswith("This client cannot ask the user. Tell them your plan in the conversation")
    assert says in said


# ── permissions_check ───────────────────────────────────────────────────────────────────────────────────────

RULES = PolicyRules(deny=(BANK,), tools=(ToolRule(name="javascript_tool", allow=False),))


@pytest.mark.parametrize(
    ("given", "allowed", "rule"),
    [
        ({}, "ask", 'browser.sites is "ask", and https://shop.example was not allowed yet'),
        ({"tool": "dev_utils"}, "ask", 'browser.sites is "ask"'),
        ({"tool": "navigate", "url": "shop.example"}, "ask", 'browser.sites is "ask"'),
        ({"tool": "navigate", "url": BANK}, "no", f'policy.deny has "{BANK}"'),
        ({"url": "about:blank"}, "yes", "no site is touched"),
        ({"tool": "javascript_tool"}, "no", 'policy.tools[0] (origin "*", name "javascript_tool") forbids'),
        ({"tool": "tabs_close_mcp", "tabId": 1}, "yes", "no site is touched"),
        ({"tool": "computer", "tabId": 1}, "ask", 'browser.sites is "ask"'),
        (
            {"tool": "navigate", "tabId": 3, "url": SHOP},
            "no",
            "tab 3 is the user's own; They can hand it over",
        ),
    ],
)
async def test_it_says_what_would_be_allowed_and_by_which_rule_and_asks_nobody(
    nursery: trio.Nursery, tmp_path: Path, given: dict[str, Any], allowed: str, rule: str
) -> None:
    tools = PlayedTools(nursery, tmp_path, RULES, sites="ask")
    tools.connect(own_tab(1), at(f"{SHOP}/", 3))
    tools.says("always")
    tools.tools.runner.state_of(tools.session).tab_id = 1
    told = await tools.call("permissions_check", **given)
    assert told.structured["allowed"] == allowed
    assert told.structured["rule"].startswith(rule)
    assert told.structured["rule"] in told.text
    assert not tools.questions
    assert not tools.transport.asked


async def test_what_would_be_asked_is_not_allowed_where_nobody_can_be(tools: PlayedTools) -> None:
    told = await tools.call("permissions_check", url=SHOP, why="extra arguments do no harm")
    assert told.structured["allowed"] == "no"
    assert "and this client cannot ask the user" in told.text


async def test_a_pause_is_a_rule_too(tools: PlayedTools) -> None:
    tools.transport.announce("h1", wire.Paused(sites=[SHOP]))
    told = await tools.call("permissions_check", url=SHOP)
    assert told.structured["rule"] == "The user paused https://shop.example"


async def test_a_client_that_is_paused_can_ask_and_is_told_so(tools: PlayedTools) -> None:
    tools.transport.announce("h1", wire.Paused(sessions=[SESSION]))
    told = await tools.call("permissions_check", url=SHOP)
    assert told.structured["allowed"] == "no"
    assert told.structured["rule"] == "The user paused you"


async def test_a_broken_file_of_approvals_is_named(tools: PlayedTools, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "approvals.json").write_text("{]")
    told = await tools.call("permissions_check", url=SHOP)
    assert "approvals.json: it is not JSON" in told.text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tool": "navigat"}, "There is no browser tool navigat; did you mean navigate?"),
        ({"tool": "??"}, "There is no browser tool ??; there are navigate, "),
        ({"tabId": 9}, "No such tab: tab 9"),
        ({"url": "mailto:x"}, "navigate loads web addresses"),
    ],
)
async def test_a_question_that_cannot_be_answered_says_why(
    tools: PlayedTools, given: dict[str, Any], says: str
) -> None:
    assert (await tools.ask_fails("permissions_check", **given)).startswith(says)


# ── In both eras ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def client(mcpb_home: Path, era: str) -> AsyncIterator[McpLines]:
    config = Config(browser=BrowserSettings(sites="ask"))
    async with PlayedHost.in_directory(mcpb_home / "run") as host, bridge_in_process(config) as client:
        client.capabilities = {"elicitation": {}}
        with trio.fail_after(SOON_S):
            await host.welcome(wire.Tabs(tabs=[]))
            if era == "handshake":
                await client.shake_hands("2025-06-18")
            else:
                await client.need_no_handshake()
        yield client


async def answered(client: McpLines, era: str, params: dict[str, Any], answer: dict[str, Any]) -> Any:
    """The result of a call whose question gets this answer, and what was asked."""
    request_id = await client.send("tools/call", params)
    if era == "handshake":
        question = await client.asked("elicitation/create")
        await client.reply(question, result=answer)
        return await client.answer_to(request_id), question["params"]
    parked = await client.answer_to(request_id)
    responses = {"requestState": parked["requestState"], "inputResponses": {"question": answer}}
    return (await client.ask("tools/call", params | responses), parked["inputRequests"]["question"]["params"])


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_a_real_bridge_asks_for_approval_and_goes_on(
    client: McpLines, era: str, mcpb_home: Path
) -> None:
    accepted = {"action": "accept", "content": {"allow": "always"}}
    with trio.fail_after(SOON_S):
        result, asked = await answered(client, era, {"name": "update_plan", "arguments": PLAN}, accepted)
        assert result["structuredContent"]["answer"] == "approved"
        assert asked["message"].startswith("by hand in ")
        assert asked["requestedSchema"]["properties"]["allow"]["enum"] == ["for this session", "always", "no"]
        check = {"name": "permissions_check", "arguments": {"url": SHOP}}
        assert "Allowed" in text_of(await client.ask("tools/call", check))
    assert SHOP in json.loads((mcpb_home / "state" / "approvals.json").read_text())


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_a_real_bridge_asks_before_a_site_is_opened(client: McpLines, era: str) -> None:
    with trio.fail_after(SOON_S):
        result, asked = await answered(
            client, era, {"name": "navigate", "arguments": {"url": SHOP}}, {"action": "decline"}
        )
    assert "wants to open https://shop.example" in asked["message"]
    assert result["isError"] is True
    assert "the user was asked about https://shop.example and said no" in text_of(result)
