"""What the person allows, in a real browser: sites that are denied or asked about, batches and shortcuts."""

import json
import re
from collections.abc import Iterator
from typing import Any

import mcp_types
import pytest

from site_boundary import config_file
from tool_browser import Browsing, Tools, open_browsing


@pytest.fixture(scope="module")
def browsing() -> Iterator[Browsing]:
    with open_browsing() as opened:
        yield opened


def test_nothing_is_told_of_a_denied_site_wherever_it_is_shown(browsing: Browsing) -> None:
    denied = browsing.site.elsewhere
    rules = f'[policy]\ndeny = ["{denied}"]\n[browser]\ntabs = "any"'
    with config_file(browsing, rules), browsing.client("careful") as tools:
        # The user's own tab has loaded the frame. In a tab of the client it would not be requested.
        tab_id = browsing.open_as_user(f"{browsing.site.url}/frames.html")
        for name, arguments in (("read_page", {}), ("find", {"query": "press"}), ("get_page_text", {})):
            told = tools.done(name, tabId=tab_id, **arguments).text
            assert "Press same" in told
            assert "Press other" not in told
        assert f"is a frame of {denied}, which may not be used" in _click_into(tools, tab_id, "Other")
        for action in ("left_click", "hover", "scroll_to"):
            for ref in (f"ref_f{frame}_1" for frame in range(1, 7)):  # any client can guess them
                assert "Press other" not in tools.call("computer", action=action, ref=ref).text
        tools.look(tab_id).evaluate("document.querySelector('iframe[title=Other]').focus()")
        for keyboard in ("type", "key"):
            said = tools.refused("computer", action=keyboard, text="x")
            assert f"is a frame of {denied}, which may not be used" in said
        rule = f'policy.deny has "{denied}"'
        tab_id = tools.open_site("frames.html")
        assert rule in tools.refused("navigate", url=f"{denied}/book.html")
        link = f"<a href={denied}/book.html?token=abc>Elsewhere</a>"
        tools.look(tab_id).evaluate(f"document.body.insertAdjacentHTML('afterbegin', '{link}')")
        moved = tools.done("computer", action="left_click", ref=tools.ref_of("Elsewhere")).text
        assert moved.endswith(f"The tab is at {denied} now, whose content is hidden by your rules.")
        tools.done("navigate", url="back")
        leave = f"location.href = {json.dumps(denied + '/book.html')}; 1"
        tools.done("javascript_tool", action="javascript_exec", text=leave)
        for name, arguments in (
            ("read_page", {}),
            ("computer", {"action": "screenshot"}),
            ("javascript_tool", {"action": "javascript_exec", "text": "document.title"}),
        ):
            assert rule in tools.refused(name, **arguments)
        (tab,) = tools.done("tabs_context").structured["availableTabs"]
        assert (tab["title"], tab["url"]) == ("", denied)
        tools.done("navigate", url="back")
        assert "Press same" in tools.done("read_page").text


def _click_into(tools: Tools, tab_id: int, title: str) -> str:
    """What a click into a frame is refused with."""
    frame = f"document.querySelector('iframe[title={title}]')"
    tab = tools.look(tab_id)
    tab.evaluate(f"{frame}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    assert "which may not be seen" in tools.refused("computer", action="screenshot")
    coordinate = tab.evaluate(f"(({{x, y}}) => [x + 20, y + 20])({frame}.getBoundingClientRect())")
    return tools.refused("computer", action="left_click", coordinate=coordinate)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_person_is_asked_before_a_site_is_used_for_the_first_time(browsing: Browsing, mode: str) -> None:
    asked: list[str] = []
    choices = iter(["for this session", "no"])

    async def person(_context: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"allow": next(choices)})

    ask = {"MCPB_BROWSER_SITES": "ask", "MCPB_BROWSER_ASK_IN": "client"}
    with browsing.client(f"asking {mode}", settings=ask, mode=mode, elicitation_callback=person) as tools:
        site, elsewhere = browsing.site.url, browsing.site.elsewhere
        tools.done("navigate", url=site)
        tools.done("read_page")
        for _ in range(2):  # after a no the user is not asked again at once
            assert "said no" in tools.refused("navigate", url=f"{elsewhere}/book.html")
    assert [message.partition(" wants to ")[2] for message in asked] == [
        f"open {site}. May it act on this site?",
        f"open {elsewhere}. May it act on this site?",
    ]


def test_a_batch_and_a_shortcut_do_in_one_call_what_their_steps_do(browsing: Browsing) -> None:
    with browsing.client("several") as tools:
        steps: list[dict[str, Any]] = [
            {"name": "navigate", "input": {"url": f"{browsing.site.url}/forms.html"}},
            {"name": "computer", "input": {"action": "screenshot"}},
            {"name": "find", "input": {"query": "password"}},
        ]
        done = tools.done("browser_batch", actions=steps)
        assert [step["ok"] for step in done.structured["results"]] == [True, True, True]
        assert len(done.images) == 1
        assert re.search(r"\[\d+\]", done.text)
        assert _run_shortcut(browsing, tools).endswith("/search.html?q=red%20apples")


def _run_shortcut(browsing: Browsing, tools: Tools) -> str:
    """Where the tab is afterwards."""
    url = f"{browsing.site.url}/search.html?q={{query:url}}"
    step = f'[[shortcut.step]]\ntool = "navigate"\ninput = {{ url = "{url}" }}\n'
    text = f'[[shortcut]]\nname = "look"\nparameter = [{{ name = "query" }}]\n{step}'
    path = browsing.chain.home / "shortcuts.toml"
    path.write_text(text)
    path.chmod(0o600)
    tools.done("shortcuts_execute", command="/look 'red apples'")
    where: str = tools.done("tabs_context").structured["availableTabs"][0]["url"]
    return where
