"""The gate before the browser's own tools: pauses, policy, whose tab it is, and what the person is asked."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from bridge.config.settings import BrowserSettings
from bridge.errors import CallError
from bridge.hub.client_session import ListForm, Session
from bridge.hub.consent.approval_prompts import make_form
from bridge.hub.policy import PolicyRules, ToolRule
from bridge.hub.server_request import SERVER_REQUEST_S, ClientSupport, ServerRequest
from bridge.hub.tool_schema import Era
from bridge.hub.transport import CallObserver
from bridge.origins import get_origin
from bridge.state.site_approvals import Approvals
from fake_tool_client import BANK, SESSION, SHOP, PlayedTools, Told, at, own_tab
from fake_transport import Answer, Asked, browser_hello
from native_host.protocol import wire
from native_host.protocol.wire import Code

NOTHING_RAN = "Nothing was run."


def forms(tools: PlayedTools) -> list[list[str]]:
    """The choices of each question."""
    schemas = [json.loads(bytes(question.requested_schema or b"")) for question in tools.questions]
    return [schema["properties"]["allow"]["enum"] for schema in schemas]


# ── Which tabs ──────────────────────────────────────────────────────────────────────────────────────────────

OTHERS = at(f"{SHOP}/", 2, owner="another session")
THE_USERS = at(f"{SHOP}/", 3, title="My cart")
HANDED_OVER = at(f"{SHOP}/", 4, handed_over=True)


@pytest.mark.parametrize(
    ("tabs", "tab_id", "says"),
    [
        ("own", 2, "tab 2 belongs to another client. Nothing was run. tabs_context lists your tabs."),
        ("any", 2, "tab 2 belongs to another client"),
        ("ask", 2, "tab 2 belongs to another client"),
        (
            "own",
            3,
            "tab 3 is the user's own. Nothing was run. They can hand it over in the extension's popup",
        ),
        ("own", 7, "No such tab: tab 7. Nothing was run. tabs_context lists your tabs."),
    ],
)
async def test_a_tab_that_is_not_the_session_s_is_refused_with_what_can_be_done(
    nursery: trio.Nursery, tmp_path: Path, tabs: Any, tab_id: int, says: str
) -> None:
    tools = PlayedTools(nursery, tmp_path, tabs=tabs)
    tools.connect(own_tab(1), OTHERS, THE_USERS, HANDED_OVER)
    tools.says("for this session")
    assert says in await tools.ask_fails("navigate", url=SHOP, tabId=tab_id)
    assert not tools.sent("browser_navigate")
    assert not tools.questions


@pytest.mark.parametrize(("tabs", "tab_id"), [("own", 1), ("own", 4), ("any", 3)])
async def test_a_session_s_own_tab_one_handed_over_and_with_any_all_may_be_used(
    nursery: trio.Nursery, tmp_path: Path, tabs: Any, tab_id: int
) -> None:
    tools = PlayedTools(nursery, tmp_path, tabs=tabs)
    tools.connect(own_tab(1), OTHERS, THE_USERS, HANDED_OVER)
    assert not (await tools.call("navigate", url=SHOP, tabId=tab_id)).is_error
    (sent,) = tools.sent("browser_navigate")
    assert sent.session == ("" if tab_id == 3 else SESSION)  # the extension knows only two of the three


async def test_with_ask_the_person_says_once_for_a_session_whether_a_tab_of_theirs_may_be_used(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, tabs="ask", sites="ask")
    tools.connect(own_tab(1), THE_USERS)
    tools.says("for this session")
    for _ in range(2):
        assert not (await tools.call("tabs_close_mcp", tabId=3)).is_error
        tools.transport.announce("h1", wire.TabChanged(tab=THE_USERS))
    (question,) = tools.questions
    assert question.message == (
        "Agent in app wants to act on https://shop.example, in a tab of yours that calls itself “My cart”. "
        "May it use that tab?"
    )
    assert forms(tools) == [["for this session", "no"]]
    other = Session("another", title="Other")
    await tools.call_as(other, "tabs_close_mcp", tabId=3)
    assert len(tools.questions) == 2


# ── Which sites ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_unless_it_is_set_nobody_is_asked_about_sites(nursery: trio.Nursery, tmp_path: Path) -> None:
    tools = PlayedTools(nursery, tmp_path)
    tools.connect(own_tab(1))
    tools.says("no")
    assert not (await tools.call("navigate", url=SHOP)).is_error
    assert not tools.questions


async def test_a_site_is_asked_about_once_for_a_session(nursery: trio.Nursery, tmp_path: Path) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1, "about:blank"))
    tools.says("for this session")
    for url in (SHOP, f"{SHOP}/cart", f"{SHOP}:443/tea"):
        assert not (await tools.call("navigate", url=url)).is_error
    assert [question.message for question in tools.questions] == [
        "Agent in app wants to open https://shop.example. May it act on this site?"
    ]
    assert forms(tools) == [["for this session", "always", "no"]]
    await tools.call("navigate", url="http://shop.example")
    assert len(tools.questions) == 2
    tools.tools.release(tools.session)
    await tools.call("navigate", url=SHOP)
    assert len(tools.questions) == 3


async def test_what_is_allowed_always_holds_for_other_sessions_and_bridges(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1))
    tools.says("always")
    await tools.call("navigate", url=SHOP)
    kept = json.loads((tmp_path / "state" / "approvals.json").read_text())
    assert kept[SHOP]["for"] == ["act"]
    others = PlayedTools(nursery, tmp_path, sites="ask")
    others.connect(own_tab(1))
    assert not (await others.call("navigate", url=SHOP)).is_error


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ("no", "the user was asked about https://shop.example and said no. Nothing was run. Do not look for"),
        ("perhaps", "the user was asked and gave no answer"),
        (None, "the user was asked and gave no answer"),
    ],
)
async def test_a_no_holds_for_a_minute_and_whoever_says_nothing_is_asked_again_next_time(
    nursery: trio.Nursery, tmp_path: Path, choice: str | None, says: str
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1))
    tools.says(choice)
    assert says in await tools.ask_fails("navigate", url=SHOP)
    again = "said no to this just now" if choice == "no" else says
    assert again in await tools.ask_fails("navigate", url=SHOP)
    assert len(tools.questions) == (1 if choice == "no" else 2)
    assert not tools.sent("browser_navigate")


async def test_a_client_that_cannot_ask_is_told_what_the_user_can_set(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1))
    said = await tools.ask_fails("navigate", url=SHOP)
    assert "https://shop.example was not allowed yet, and this client cannot ask the user" in said
    assert "Ask the user: they can approve this site, or update the extension, which then asks them." in said
    assert "mcpb allow" not in said  # a model with a terminal must not be told how to approve itself
    assert "approvals.json" not in said


async def test_a_broken_file_of_approvals_allows_nothing_and_is_named(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1))
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "approvals.json").write_text("{")
    tools.says("always")
    assert f"{tmp_path}/state/approvals.json: it is not JSON" in await tools.ask_fails("navigate", url=SHOP)
    assert not tools.questions


async def test_two_calls_that_want_the_same_ask_once(nursery: trio.Nursery, tmp_path: Path) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1))
    tools.says("for this session")
    async with trio.open_nursery() as calls:
        calls.start_soon(lambda: tools.call("navigate", url=SHOP))
        calls.start_soon(lambda: tools.call("navigate", url=SHOP))
    assert len(tools.questions) == 1
    assert len(tools.sent("browser_navigate")) == 2


async def test_the_time_of_a_call_stands_still_while_the_person_thinks(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1))

    async def slowly(_question: ServerRequest) -> dict[str, Any]:
        await trio.sleep(SERVER_REQUEST_S - 1)
        return {"action": "accept", "content": {"allow": "for this session"}}

    tools.person = slowly
    steps = [{"name": "navigate", "input": {"url": url}} for url in (SHOP, "https://tea.example")]
    assert not (await tools.call("browser_batch", actions=steps)).is_error
    assert len(tools.questions) == 2


async def test_nobody_is_waited_for_without_end(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1))

    async def never(_question: ServerRequest) -> dict[str, Any]:
        await trio.sleep_forever()
        raise AssertionError

    tools.person = never
    with trio.fail_after(SERVER_REQUEST_S + 5):
        said = await tools.ask_fails("navigate", url=SHOP)
    assert "the user was asked and did not answer within 120 s. Nothing was run." in said


# ── In the extension's window ───────────────────────────────────────────────────────────────────────────────

WINDOW = ("forwardCDPCommand", "documentId", "browser/ask")


async def test_once_in_the_window_is_one_call_also_of_several_steps(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1), commands=WINDOW)
    tools.window = "once"
    tools.says("always")  # a client that would approve is not asked
    steps = [{"name": "navigate", "input": {"url": url}} for url in (SHOP, f"{SHOP}/tea", f"{SHOP}/cart")]
    assert not (await tools.call("browser_batch", actions=steps)).is_error
    (prompt,) = tools.sent("browser/ask")
    assert (prompt.origin, prompt.kind, prompt.client) == (SHOP, "act", "Agent in app")
    assert prompt.text == "Agent in app wants to open https://shop.example."
    messages = [report.message for report in tools.progress]
    assert messages[1] == "Waiting for the user: mcpb window in Chromium"
    numbers = [report.progress for report in tools.progress]
    assert numbers == sorted(set(numbers))
    await tools.call("navigate", url=SHOP)
    assert len(tools.sent("browser/ask")) == 2
    assert not tools.questions
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("choice", "prompts", "others"), [("hour", 1, 1), ("client", 1, 1), ("always", 1, 0), ("no", 1, 1)]
)
async def test_choices_in_the_window_hold_for_whom_they_say(
    nursery: trio.Nursery, tmp_path: Path, choice: str, prompts: int, others: int
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1), commands=WINDOW)
    tools.window = choice
    for _ in range(2):
        assert (await tools.call("navigate", url=SHOP)).is_error is (choice == "no")
    assert len(tools.sent("browser/ask")) == prompts
    await tools.call_as(Session("another", title="Other"), "navigate", url=SHOP)
    assert len(tools.sent("browser/ask")) == prompts + others


async def test_a_revoked_approval_counts_no_more_in_sessions_that_run(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1), commands=WINDOW)
    tools.window = "always"
    assert not (await tools.call("navigate", url=SHOP)).is_error
    Approvals(tmp_path / "state").revoke(SHOP)
    tools.window = "no"
    assert "said no" in await tools.ask_fails("navigate", url=SHOP)


async def test_a_call_that_only_reads_asks_to_read(nursery: trio.Nursery, tmp_path: Path) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1), commands=WINDOW)
    tools.window = "client"
    assert "not played" in await tools.ask_fails("computer", action="screenshot")  # it was admitted
    tools.window = "no"
    assert "said no" in await tools.ask_fails("computer", action="left_click", coordinate=[1, 1])
    assert [(prompt.kind, prompt.text) for prompt in tools.sent("browser/ask")] == [
        ("read", "Agent in app wants to look at https://shop.example."),
        ("act", "Agent in app wants to look at, click and type on https://shop.example."),
    ]


# ── Policy and pauses ───────────────────────────────────────────────────────────────────────────────────────


def denied(**fields: Any) -> PolicyRules:
    return PolicyRules(deny=(BANK,), **fields)


async def test_a_denied_site_is_neither_opened_nor_looked_at_but_may_be_left(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, denied())
    tools.connect(own_tab(1, f"{BANK}/account"))
    rule = f'The policy does not allow this: policy.deny has "{BANK}". {NOTHING_RAN}'
    assert rule in await tools.ask_fails("navigate", url=f"{BANK}/")
    assert rule in await tools.ask_fails("computer", action="screenshot", tabId=1)
    assert not tools.transport.asked
    assert not (await tools.call("navigate", url=SHOP, tabId=1)).is_error
    assert not (await tools.call("tabs_close_mcp", tabId=1)).is_error


@pytest.mark.parametrize("document_id", ["d2", ""], ids=["with document ids", "without"])
async def test_a_denied_site_that_navigate_has_left_does_not_reject_the_next_call(
    nursery: trio.Nursery, tmp_path: Path, document_id: str
) -> None:
    tools = PlayedTools(nursery, tmp_path, denied())
    left = "d1" if document_id else ""
    tools.connect(own_tab(1, f"{BANK}/account", document_id=left))
    tools.announces_navigations = False
    results: list[Told] = []

    async def leave() -> None:
        results.append(await tools.call("navigate", url=SHOP, tabId=1))

    async with trio.open_nursery() as calls:
        calls.start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        assert not results
        loading = own_tab(1, f"{BANK}/account", document_id=left, status="loading")
        tools.transport.announce("h1", wire.TabChanged(tab=loading))
        await trio.testing.wait_all_tasks_blocked()
        assert not results
        arrived = own_tab(1, f"{SHOP}/", document_id=document_id)
        tools.transport.announce("h1", wire.TabChanged(tab=arrived))
    assert not results[0].is_error
    assert "not played" in await tools.ask_fails("computer", action="screenshot")  # it was admitted


async def test_navigate_ends_if_the_browser_announces_no_other_page(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    tools = PlayedTools(nursery, tmp_path, denied())
    tools.connect(own_tab(1, f"{BANK}/account", document_id="d1"))
    tools.announces_navigations = False
    assert not (await tools.call("navigate", url=SHOP, tabId=1)).is_error
    assert "policy.deny" in await tools.ask_fails("computer", action="screenshot")


async def test_nothing_is_told_of_a_denied_site_that_a_page_leads_to(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, denied())
    tools.connect(own_tab(1))
    tools.sent_on[f"{SHOP}/pay"] = f"{BANK}/login?for=ann"
    said = await tools.ask_fails("navigate", url=f"{SHOP}/pay")
    assert said.startswith(f"Tab 1 was sent on to {BANK}, and your rules hide that page: policy.deny has")
    assert "ann" not in said
    assert "policy.deny" in await tools.ask_fails("computer", action="screenshot")


async def test_a_tab_at_a_denied_site_is_listed_without_its_title_and_path(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, denied())
    tools.connect(own_tab(1, f"{BANK}/login?for=ann", title="Hello, Ann"), own_tab(2, title="Shop"))
    told = await tools.call("tabs_context")
    listed = [(tab["title"], tab["url"]) for tab in told.structured["availableTabs"]]
    assert listed == [("", BANK), ("Shop", f"{SHOP}/")]
    assert "ann" not in told.text.lower()


async def test_a_site_that_a_page_leads_to_is_asked_about_as_well(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.connect(own_tab(1))
    tools.sent_on[f"{SHOP}/pay"] = f"{BANK}/login"
    tools.says("for this session")
    await tools.call("navigate", url=f"{SHOP}/pay")
    assert [question.message.split(". ")[0] for question in tools.questions] == [
        "Agent in app wants to open https://shop.example",
        "Agent in app wants to open https://bank.example",
    ]


async def test_devtools_may_know_of_a_denied_site_before_the_tab_is_announced_anew(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, denied())
    tools.connect(own_tab(1))
    assert "not played" in await tools.ask_fails("computer", action="screenshot")
    (subscription,) = [asked for asked in tools.transport.asked if asked.method == "subscribeCDP"]
    frame = {"frame": {"id": "F", "loaderId": "L", "url": f"{BANK}/"}}
    assert subscription.caller.on_event
    subscription.caller.on_event(
        wire.CdpEvent(tab_id=1, method="Page.frameNavigated", params=msgspec.Raw(msgspec.json.encode(frame)))
    )
    assert "policy.deny" in await tools.ask_fails("computer", action="screenshot")


async def test_a_script_that_ran_before_a_rule_forbade_its_tab_is_not_said_to_have_done_nothing(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path)
    tools.connect(own_tab(1))
    tools.devtools = {
        "Runtime.evaluate": {"result": {"type": "object", "objectId": "1"}},
        "Runtime.callFunctionOn": CallError(Code.NOT_ALLOWED, "a new rule", handed=False),
    }
    said = await tools.ask_fails("javascript_tool", action="javascript_exec", text="acts()")
    assert NOTHING_RAN not in said


@pytest.mark.parametrize(
    ("seen", "found", "said"),
    [
        (f"{BANK}/", f"{BANK}/", f"The tab has just gone to {BANK}."),
        (f"{SHOP}/", f"{BANK}/", "The page went to another document meanwhile."),
    ],
    ids=["before its frames are looked at", "before our code is in its document"],
)
async def test_a_page_that_goes_to_a_denied_site_meanwhile_is_not_read(
    nursery: trio.Nursery, tmp_path: Path, seen: str, found: str, said: str
) -> None:
    tools = PlayedTools(nursery, tmp_path, denied())
    tools.connect(own_tab(1))
    tools.devtools = {
        "Page.getFrameTree": {"frameTree": {"frame": {"id": "F", "loaderId": "L", "url": seen}}},
        "Page.createIsolatedWorld": {"executionContextId": 7},
        "Runtime.evaluate": {"result": {"type": "string", "value": found}},
    }
    for reading in ("read_page", "get_page_text"):
        assert said in await tools.ask_fails(reading)
    assert not [asked for asked in tools.sent("forwardCDPCommand") if "mcpb.text" in str(asked.params)]


async def test_a_tab_that_goes_elsewhere_while_the_person_thinks_is_looked_at_again(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, denied(), sites="ask")
    tools.connect(own_tab(1))

    async def slowly(_question: ServerRequest) -> dict[str, Any]:
        tools.transport.announce("h1", wire.TabChanged(tab=own_tab(1, f"{BANK}/login")))
        return {"action": "accept", "content": {"allow": "always"}}

    tools.person = slowly
    assert f'policy.deny has "{BANK}"' in await tools.ask_fails("computer", action="screenshot")
    assert not tools.sent("forwardCDPCommand")


@pytest.mark.parametrize(
    ("url", "is_allowed"), [(f"{SHOP}/", True), (f"{BANK}/", False), ("about:blank", False)]
)
async def test_a_rule_for_a_tool_holds_on_the_sites_that_it_names(
    nursery: trio.Nursery, tmp_path: Path, url: str, is_allowed: bool
) -> None:
    """The first rule that fits decides, as for tools of pages."""
    rules = (ToolRule(origin=SHOP, name="computer", allow=True), ToolRule(name="computer", allow=False))
    tools = PlayedTools(nursery, tmp_path, PolicyRules(tools=rules))
    tools.connect(own_tab(1, url))
    told = await tools.call("permissions_check", tool="computer", tabId=1)
    assert (told.structured["allowed"] == "yes") is (is_allowed or url == "about:blank")
    told = await tools.call("permissions_check", tool="navigate", tabId=1)
    assert told.structured["allowed"] == "yes"


@pytest.mark.parametrize(
    ("rule", "is_forbidden"),
    [
        (ToolRule(name="dev_*", allow=False), True),
        (ToolRule(origin=SHOP, name="dev_utils", allow=False), False),
    ],
)
async def test_a_tool_that_touches_no_page_is_forbidden_by_rules_for_all_sites(
    nursery: trio.Nursery, tmp_path: Path, rule: ToolRule, is_forbidden: bool
) -> None:
    tools = PlayedTools(nursery, tmp_path, PolicyRules(tools=(rule,)))
    assert (await tools.call("dev_utils")).is_error is is_forbidden


async def test_read_only_leaves_what_changes_nothing(nursery: trio.Nursery, tmp_path: Path) -> None:
    tools = PlayedTools(nursery, tmp_path, PolicyRules(read_only=True))
    tools.connect(own_tab(1))
    assert "policy.read_only is on and navigate changes" in await tools.ask_fails("navigate", url=SHOP)
    assert not (await tools.call("tabs_context")).is_error
    steps = [{"name": "tabs_create", "input": {}}]
    assert "policy.read_only" in await tools.ask_fails("browser_batch", actions=steps)


async def test_read_only_lets_a_session_see_its_tabs_and_take_pictures_but_open_and_click_nothing(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, PolicyRules(read_only=True))
    tools.connect(at(SHOP, 1))
    none = await tools.call("tabs_context_mcp")
    assert none.text.startswith("You have no tab, and policy.read_only lets you open none.")
    assert "Ask the user to hand a tab over" in await tools.ask_fails("read_page")
    opening = await tools.ask_fails("tabs_context_mcp", createIfEmpty=True)
    assert "policy.read_only is on and tabs_context_mcp changes something" in opening
    tools.transport.announce("h1", wire.TabChanged(tab=at(SHOP, 1, handed_over=True)))
    assert not (await tools.call("computer", action="wait", duration=0, tabId=1)).is_error
    for action in ("screenshot", "zoom"):
        assert "not played" in await tools.ask_fails("computer", action=action, tabId=1)  # it was admitted
        saving = await tools.ask_fails("computer", action=action, tabId=1, save_to_disk=True)
        assert "policy.read_only is on" in saving
    clicking = await tools.ask_fails("computer", action="left_click", tabId=1, coordinate=[1, 1])
    assert "policy.read_only is on and computer changes something" in clicking
    listed = {tool["name"] for tool in tools.tools.definitions(Era.STATELESS, ListForm())}
    assert {"tabs_context", "computer", "read_page"} <= listed
    assert not {"navigate", "form_input", "tabs_create_mcp"} & listed


async def test_a_paused_site_and_a_paused_client_are_refused(nursery: trio.Nursery, tmp_path: Path) -> None:
    tools = PlayedTools(nursery, tmp_path)
    tools.connect(own_tab(1))
    tools.transport.announce("h1", wire.Paused(sites=[SHOP]))
    paused = f"The user paused {SHOP}. Nothing was run."
    assert paused in await tools.ask_fails("computer", action="screenshot")
    assert paused in await tools.ask_fails("navigate", url=SHOP)
    tools.transport.announce("h1", wire.Paused(sessions=[SESSION]))
    assert "The user paused you. Nothing was run." in await tools.ask_fails("tabs_create_mcp")


@pytest.mark.parametrize(("has_begun", "text"), [(False, "Nothing was run."), (True, "It may have run")])
async def test_a_pause_during_a_call_says_whether_a_command_has_run(
    nursery: trio.Nursery, tmp_path: Path, has_begun: bool, text: str
) -> None:
    tools = PlayedTools(nursery, tmp_path)
    tools.connect(own_tab(1))
    paused = CallError(Code.PAUSED, SHOP, handed=False)
    tree = {"frameTree": {"frame": {"id": "f1", "url": f"{SHOP}/", "loaderId": "l1"}}}
    commands: Iterator[Answer] = iter([tree, paused] if has_begun else [paused])
    obey = tools.transport.on_request

    def play(asked: Asked) -> Answer:
        return next(commands) if isinstance(asked.params, wire.ForwardCdpCommand) else obey(asked)

    tools.transport.on_request = play
    assert f"The user paused {SHOP}. {text}" in await tools.ask_fails(
        "computer", action="key", text="a b", tabId=1
    )


# ── Small things ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Shop.example:443/cart", SHOP),
        ("view-source:https://shop.example/", SHOP),
        ("VIEW-SOURCE:view-source:https://shop.example/", SHOP),
        ("blob:https://shop.example/0f3a", SHOP),
        ("file:///etc/passwd", "file://"),
        ("data:text/html,hello", "null"),
        ("chrome://settings", "null"),
        ("about:blank", ""),
        ("", ""),
    ],
)
def test_the_origin_of_an_address_is_the_one_that_rules_know(url: str, origin: str) -> None:
    assert get_origin(url) == origin


def test_a_form_has_one_choice_that_every_client_can_show() -> None:
    assert make_form("Allow it?", ("for this session", "no")) == {
        "type": "object",
        "properties": {
            "allow": {
                "type": "string",
                "title": "Allow it?",
                "enum": ["for this session", "no"],
                "default": "for this session",
            }
        },
        "required": ["allow"],
    }


async def test_a_tool_that_is_forbidden_everywhere_is_not_listed_and_says_so_when_it_is_called(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    rules = (
        ToolRule(origin=SHOP, name="find", allow=True),
        ToolRule(name="find", allow=False),
        ToolRule(name="javascript_tool", allow=False),
    )
    tools = PlayedTools(nursery, tmp_path, PolicyRules(tools=rules))
    names = {tool["name"] for tool in await tools.router.list_tools_decoded(tools.session)}
    assert "find" in names
    assert "javascript_tool" not in names
    said = await tools.ask_fails("javascript_tool", action="javascript_exec", text="1", tabId=1)
    assert 'policy.tools[2] (origin "*", name "javascript_tool") forbids javascript_tool' in said


async def test_an_extension_that_does_not_bind_commands_to_documents_is_rejected(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path)
    tools.connect(own_tab(1))
    older = wire.Capabilities(commands=["forwardCDPCommand"])
    tools.transport.announce("h1", msgspec.structs.replace(browser_hello(), capabilities=older))
    for name, arguments in (("computer", {"action": "screenshot"}), ("tabs_create_mcp", {})):
        assert "`mcpb extension`" in await tools.ask_fails(name, **arguments)
    assert not tools.transport.asked


# ── Roots of the client ─────────────────────────────────────────────────────────────────────────────────────

PROJECT = "file:///home/ann/shop"
STRICT = 'The policy does not allow this: browser.roots is "strict", and https://bank.example is not one of'


@pytest.mark.parametrize("mode", ["files", "guide"])
async def test_unless_they_are_strict_roots_forbid_no_site(
    nursery: trio.Nursery, tmp_path: Path, mode: Any
) -> None:
    tools = PlayedTools(nursery, tmp_path, roots=mode)
    tools.roots = [SHOP]
    tools.connect(own_tab(1))
    assert not (await tools.call("navigate", url=BANK)).is_error
    assert tools.tools.allowed_sites(SESSION) is None


async def test_strict_roots_restrict_the_tools_to_their_sites_and_a_rejection_lists_them(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, roots="strict")
    tools.roots = [PROJECT, f"{SHOP}/api/v1"]
    tools.connect(own_tab(1), at(f"{BANK}/", 2, owner=SESSION))
    assert tools.tools.allowed_sites(SESSION) == []
    assert not (await tools.call("navigate", url=f"{SHOP}/cart", tabId=1)).is_error
    assert tools.tools.allowed_sites(SESSION) == [SHOP]
    refused = await tools.ask_fails("navigate", url=BANK, tabId=1)
    assert refused.startswith(f"{STRICT} the client's roots. {NOTHING_RAN}")
    assert f"The client's roots: {PROJECT}, {SHOP}/api/v1. " in refused
    assert STRICT in await tools.ask_fails("get_page_text", tabId=2)
    assert STRICT in await tools.ask_fails(
        "browser_batch", actions=[{"name": "read_page", "input": {"tabId": 2}}]
    )
    (tab, other) = (await tools.call("tabs_context")).structured["availableTabs"]
    assert (tab["url"], other["url"], other["title"]) == (f"{SHOP}/cart", BANK, "")
    assert not (await tools.call("tabs_close_mcp", tabId=2)).is_error


@pytest.mark.parametrize(
    ("roots", "says"),
    [
        (None, "The client lists no roots."),
        ([], "The client lists no roots."),
        ([PROJECT], f"The client's roots: {PROJECT}; none of them is a site, such as https://shop.example."),
        (["https://shop.example@bank.example.evil/", "http://[", "*"], "The client's roots: "),
    ],
    ids=["no capability", "none", "only files", "odd"],
)
async def test_strict_roots_without_the_site_allow_nothing_on_it(
    nursery: trio.Nursery, tmp_path: Path, roots: list[str] | None, says: str
) -> None:
    tools = PlayedTools(nursery, tmp_path, roots="strict")
    tools.roots = roots
    tools.connect(own_tab(1, "about:blank"))
    assert says in await tools.ask_fails("navigate", url=SHOP)
    assert not tools.sent("browser_navigate")
    assert SHOP not in (tools.tools.allowed_sites(SESSION) or [])
    assert not (await tools.call("tabs_context")).is_error


async def test_other_roots_hold_from_the_next_call_on(nursery: trio.Nursery, tmp_path: Path) -> None:
    tools = PlayedTools(nursery, tmp_path, roots="strict")
    tools.roots = [SHOP]
    tools.connect(own_tab(1))
    assert not (await tools.call("navigate", url=SHOP)).is_error
    tools.roots = [BANK]
    assert not (await tools.call("navigate", url=BANK)).is_error
    assert tools.tools.allowed_sites(SESSION) == [BANK]
    assert "https://shop.example is not one of" in await tools.ask_fails("navigate", url=SHOP)


async def test_roots_that_a_client_listed_last_hold_if_it_does_not_list_them_again(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, roots="strict", sites="ask")
    tools.roots = [SHOP]
    tools.connect(own_tab(1, "about:blank"))

    async def answer_after_other_call(_: wire.ElicitConfirmation) -> dict[str, Any]:
        tools.lists_roots = False
        assert not (await tools.call("tabs_context")).is_error
        return {"action": "accept", "content": {"allow": "for this session"}}

    tools.person = answer_after_other_call
    assert not (await tools.call("navigate", url=SHOP)).is_error
    assert tools.tools.allowed_sites(SESSION) == [SHOP]
    assert f"The client's roots: {SHOP}." in await tools.ask_fails("navigate", url=BANK)


async def test_a_rejection_says_if_the_client_has_not_listed_its_roots(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, sites="ask")
    tools.roots = [SHOP]
    tools.connect(own_tab(1, "about:blank"))

    async def answer_after_reload(_: wire.ElicitConfirmation) -> dict[str, Any]:
        tools.tools.set_settings(BrowserSettings(roots="strict", sites="ask"))
        return {"action": "accept", "content": {"allow": "for this session"}}

    tools.person = answer_after_reload
    rule = 'browser.roots is "strict", and the client has not listed its roots.'
    assert rule in await tools.ask_fails("navigate", url=SHOP)
    tools.lists_roots = False
    assert rule in await tools.ask_fails("navigate", url=SHOP)
    assert tools.tools.allowed_sites(SESSION) == []
    tools.lists_roots = True
    assert not (await tools.call("navigate", url=SHOP)).is_error


async def test_strict_roots_and_approvals_both_have_to_allow_a_site(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, roots="strict", sites="ask")
    tools.roots = [SHOP]
    tools.connect(own_tab(1, "about:blank"))
    tools.says("for this session")
    assert not (await tools.call("navigate", url=SHOP)).is_error
    assert STRICT in await tools.ask_fails("navigate", url=BANK)
    assert len(tools.questions) == 1
    assert tools.tools.allowed_sites(SESSION) == [SHOP]
    tools.roots = [BANK]
    await tools.call("tabs_context")
    assert tools.tools.allowed_sites(SESSION) == []


async def test_roots_that_guide_put_their_tabs_first(nursery: trio.Nursery, tmp_path: Path) -> None:
    tools = PlayedTools(nursery, tmp_path, roots="guide")
    tools.connect(own_tab(1, f"{BANK}/"), own_tab(2), own_tab(3, f"{BANK}/a"))
    for roots, order in (([PROJECT], [1, 2, 3]), ([SHOP], [2, 1, 3]), ([BANK], [1, 3, 2])):
        tools.roots = roots
        listed = (await tools.call("tabs_context")).structured["availableTabs"]
        assert [tab["tabId"] for tab in listed] == order


async def test_strict_roots_are_known_before_a_tab_is_opened_for_a_page_tool(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    tools = PlayedTools(nursery, tmp_path, roots="strict")
    tools.connect()

    async def list_roots(_: ServerRequest) -> bytes:
        return json.dumps({"roots": [{"uri": SHOP}]}).encode()

    client = CallObserver(on_request=list_roots, support=ClientSupport(roots=True))
    await tools.tools.prepare_tab(tools.session, client)
    assert tools.tools.allowed_sites(SESSION) == [SHOP]
