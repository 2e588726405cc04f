"""Which browsers are connected, and which of them a session works in."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio

from bridge.hub.transport import HostLost
from demo.simulated.browser import SimulatedBrowser
from fake_tool_client import SHOP, PlayedTools, at, own_tab
from mcp_client import McpLines, bridge_in_process
from native_host.protocol import wire
from wire_peers import HOST_COMMAND

SOON_S = 30


@pytest.fixture
def tools(nursery: trio.Nursery, tmp_path: Path) -> PlayedTools:
    return PlayedTools(nursery, tmp_path)


def connect_two(tools: PlayedTools) -> None:
    """At work, used last, and at home."""
    tools.connect(at(SHOP, 1, last_accessed=9.0), host="h1", profile="work", label="Work", pid=1)
    tools.connect(at(SHOP, 1), host="h2", profile="home", label="Home", pid=2)


async def devices(tools: PlayedTools) -> dict[str, bool]:
    """By deviceId: whether the session works there."""
    listed = (await tools.call("list_connected_browsers")).structured["browsers"]
    return {each["deviceId"]: each["inUse"] for each in listed}


async def test_each_browser_is_listed_with_its_name_and_the_one_in_use(tools: PlayedTools) -> None:
    connect_two(tools)
    told = await tools.call("list_connected_browsers")
    assert told.structured["browsers"][0] == {
        "deviceId": "work",
        "name": "Work",
        "os": "",
        "isLocal": True,
        "onThisComputer": True,
        "inUse": True,
    }
    assert await devices(tools) == {"work": True, "home": False}


async def test_without_a_browser_it_says_what_is_missing(tools: PlayedTools) -> None:
    assert (await tools.call("list_connected_browsers")).text == "Run: mcpb doctor"
    assert await tools.ask_fails("switch_browser") == "Run: mcpb doctor"


async def test_a_session_works_where_it_has_tabs_until_it_chooses(tools: PlayedTools) -> None:
    connect_two(tools)
    tools.transport.announce("h2", wire.TabChanged(tab=own_tab(4)))
    assert await devices(tools) == {"work": False, "home": True}
    told = await tools.call("select_browser", deviceId="work")
    assert told.text == "You work in Work from now on. tabs_context lists your tabs there."
    assert await devices(tools) == {"work": True, "home": False}
    await tools.call("tabs_create_mcp")
    assert tools.transport.asked[-1].tab.host == "h1"


async def test_an_unknown_device_is_refused_with_those_that_there_are(tools: PlayedTools) -> None:
    connect_two(tools)
    said = await tools.ask_fails("select_browser", deviceId="phone")
    assert said == "No connected browser has this deviceId. Connected: work (Work), home (Home)."


async def test_a_chosen_browser_that_goes_is_not_replaced_by_another(tools: PlayedTools) -> None:
    connect_two(tools)
    await tools.call("select_browser", deviceId="home")
    tools.transport.happen(HostLost("h2"))
    assert await devices(tools) == {"work": False}
    said = await tools.ask_fails("tabs_create_mcp")
    assert said.startswith(
        "The browser that this session works in is not connected any more. Connected: Work"
    )
    tools.connect(host="h3", profile="home", label="Home", pid=7)
    assert await devices(tools) == {"work": False, "home": True}


async def test_two_browsers_with_a_copied_profile_are_told_apart(tools: PlayedTools) -> None:
    tools.connect(own_tab(1), host="h1", profile="same", pid=1)
    tools.connect(at(SHOP, 1), host="h2", profile="same", pid=2)
    listed = (await tools.call("list_connected_browsers")).structured["browsers"]
    assert [(each["deviceId"], each["name"]) for each in listed] == [
        ("same.1", "Chromium 156 (1)"),
        ("same.2", "Chromium 156 (2)"),
    ]
    await tools.call("select_browser", deviceId="same.2")
    assert await devices(tools) == {"same.1": False, "same.2": True}
    await tools.call("tabs_create_mcp")
    assert tools.transport.asked[-1].tab.host == "h2"
    tools.transport.happen(HostLost("h1"))
    assert await devices(tools) == {"same": True}
    assert (await tools.call("select_browser", deviceId="same.2")).structured["deviceId"] == "same"


async def test_the_only_browser_is_taken_unasked(tools: PlayedTools) -> None:
    tools.connect(own_tab(1))
    tools.says(None)
    told = await tools.call("switch_browser")
    assert (told.structured["deviceId"], told.is_error) == ("p1", False)
    assert not tools.questions


async def test_the_person_chooses_by_name_where_there_are_several(tools: PlayedTools) -> None:
    connect_two(tools)
    tools.says("Home")
    told = await tools.call("switch_browser")
    assert told.structured == {
        "message": "You work in Home from now on. tabs_context lists your tabs there.",
        "untrusted": [],
        "deviceId": "home",
        "name": "Home",
    }
    assert tools.questions[0].message == "Agent in app wants to work in another browser. Which one?"


@pytest.mark.parametrize("choice", [None, "Elsewhere"])
async def test_without_a_choice_everything_stays_as_it_is(tools: PlayedTools, choice: str | None) -> None:
    connect_two(tools)
    tools.says(choice)
    said = await tools.ask_fails("switch_browser")
    assert said == "The user chose no browser that is connected. You work where you did before."
    assert await devices(tools) == {"work": True, "home": False}


async def test_a_client_that_cannot_ask_gets_the_list(tools: PlayedTools) -> None:
    connect_two(tools)
    said = await tools.ask_fails("switch_browser")
    assert said.endswith("then call select_browser. Connected: work (Work), home (Home).")


# ── Two browsers, a real bridge, both eras ──────────────────────────────────────────────────────────────────


@pytest.fixture
async def browsers(mcpb_home: Path) -> AsyncIterator[dict[str, SimulatedBrowser]]:
    async with AsyncExitStack() as stack:
        found = {}
        for label in ("Work", "Home"):
            browser = SimulatedBrowser(HOST_COMMAND, profile_id=label.lower(), profile_label=label)
            found[label] = await stack.enter_async_context(browser)
        yield found


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_a_client_works_in_the_browser_that_its_person_chose(
    browsers: dict[str, SimulatedBrowser], era: str
) -> None:
    with trio.fail_after(3 * SOON_S):
        async with bridge_in_process() as client:
            client.capabilities = {"elicitation": {}}
            await (client.shake_hands() if era == "handshake" else client.need_no_handshake())
            await until_listed(client, {"work", "home"})
            for label in ("Home", "Work"):
                result = await switched(client, era, label)
                assert result["structuredContent"]["deviceId"] == label.lower()
                assert not (await client.call("navigate", url=f"{SHOP}/{label}")).get("isError")
            urls = {
                label: [tab.state.url for tab in browser.tabs.values()] for label, browser in browsers.items()
            }
            assert urls == {"Work": [f"{SHOP}/Work"], "Home": [f"{SHOP}/Home"]}


async def until_listed(client: McpLines, device_ids: set[str]) -> None:
    while True:
        listed = (await client.call("list_connected_browsers"))["structuredContent"]["browsers"]
        if {each["deviceId"] for each in listed} == device_ids:
            return


async def switched(client: McpLines, era: str, label: str) -> Any:
    params = {"name": "switch_browser", "arguments": {}}
    answer = {"action": "accept", "content": {"allow": label}}
    request_id = await client.send("tools/call", params)
    if era == "handshake":
        await client.reply(await client.asked("elicitation/create"), result=answer)
        return await client.answer_to(request_id)
    state = (await client.answer_to(request_id))["requestState"]
    return await client.ask(
        "tools/call", params | {"requestState": state, "inputResponses": {"question": answer}}
    )
