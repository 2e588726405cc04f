"""The popup, opened as a user opens it: nothing is cut, overlaps or moves, and the keyboard suffices."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from demo.chromium import Chromium, Page
from full_chain import Chain
from native_host.ipc import endpoint
from page_layout import SCHEMES, choose_scheme, measure_layout
from popup_states import STATES, click, connected_agent, open_popup, visit_states, wait_state
from socket_observer import onlooking

SIZE = [384, 440]
"""Pixels of the popup in every state; a browser allows 800 by 600."""
BUTTONS = """Object.fromEntries([...document.querySelectorAll("button")]
    .filter((each) => each.checkVisibility({ visibilityProperty: true }))
    .map((each) => [each.id || each.innerText,
        (({ x, y, width, height }) => [x, y, width, height])(each.getBoundingClientRect())]))"""
KEYS = {"Tab": 9, "Enter": 13}


@pytest.fixture
async def bare(chain: Chain) -> Any:
    """A browser with which the native host is not registered."""
    with trio.fail_after(240):
        async with chain.browser(is_registered=False) as browser:
            yield browser


async def buttons_of(popup: Page) -> dict[str, list[float]]:
    """The places and sizes of all buttons that are seen, by id."""
    found: dict[str, list[float]] = await popup.evaluate(BUTTONS)
    return found


async def press(popup: Page, key: str) -> None:
    """A key, as a keyboard sends it."""
    code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
    text = {"text": "\r"} if key == "Enter" else {}
    await popup.send("Input.dispatchKeyEvent", {"type": "keyDown", **code, **text})
    await popup.send("Input.dispatchKeyEvent", {"type": "keyUp", **code})


async def tab_to(popup: Page, selector: str) -> None:
    """Press Tab until the focus is there; it has to be visible then."""
    for _ in range(20):
        await press(popup, "Tab")
        if await popup.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
            assert await popup.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
            return
    pytest.fail(f"Tab does not lead to {selector}")


def assert_tidy(measured: dict[str, Any]) -> None:
    assert (measured["size"], measured["page"]) == (SIZE, SIZE)
    assert (measured["cut"], measured["outside"], measured["overlapping"]) == ([], [], [])


async def assert_tidy_in_both_schemes(popup: Page) -> None:
    for scheme in SCHEMES:
        await choose_scheme(popup, scheme)
        assert_tidy(await measure_layout(popup, scrolled="#details"))


def assert_unmoved(before: dict[str, list[float]], now: dict[str, list[float]]) -> dict[str, list[float]]:
    """Compare the buttons that are in both; returns the places of all."""
    common = before.keys() & now.keys()
    assert {name: now[name] for name in common} == {name: before[name] for name in common}
    return before | now


async def test_nothing_is_cut_and_nothing_overlaps_in_any_state(chain: Chain, bare: Chromium) -> None:
    visited: list[str] = []
    header: set[str] = set()

    async def look(state: str, popup: Page) -> None:
        visited.append(state)
        await assert_tidy_in_both_schemes(popup)
        buttons = await buttons_of(popup)
        header.add(json.dumps(buttons["show-details"]))
        assert ("pause-site" in buttons, "tab-action" in buttons) == (state != "browser-page",) * 2
        await click(popup, "#show-details")
        await assert_tidy_in_both_schemes(popup)
        assert json.dumps((await buttons_of(popup))["show-details"]) in header
        await click(popup, "#show-details")

    await visit_states(chain, bare, look)
    assert tuple(visited) == STATES
    assert len(header) == 1


async def test_a_long_path_of_the_command_breaks_no_layout(chain: Chain, bare: Chromium) -> None:
    chain.register(chain.home / "profile")
    await chain.open(bare, "plain.html")
    popup = await open_popup(bare)
    await wait_state(popup, "Connected, no agent")
    before = await buttons_of(popup)
    path = "/home/ann/" + 8 * "a-directory-with-a-long-name/" + "venv/bin/mcpb"
    await popup.evaluate(f"document.getElementById('command').append({path!r})")
    measured = await measure_layout(popup, scrolled="#details")
    assert [each.partition(" ")[0] for each in measured.pop("cut")] == ["code#command"]
    assert_tidy({**measured, "cut": []})
    copy = before.pop("Copy")
    now = await buttons_of(popup)
    assert now.pop("Copy")[0] == copy[0]
    assert now == before


async def test_no_button_moves_when_a_client_connects_and_calls(chain: Chain, bare: Chromium) -> None:
    chain.register(chain.home / "profile")
    await chain.open(bare, "tabserver.html")
    popup = await open_popup(bare)
    await wait_state(popup, "Connected, no agent")
    places = await buttons_of(popup)
    assert {"show-details", "pause-site", "tab-action"} <= places.keys()
    async with connected_agent(chain, popup) as agent:
        frame = await agent.until_offered("slow")
        places = assert_unmoved(places, await buttons_of(popup))
        call = await agent.begin_call(frame, "slow", session="s1")
        await wait_state(popup, "In use on this tab")
        places = assert_unmoved(places, await buttons_of(popup))
        await agent.notify("browser/cancel", id=call)
        await wait_state(popup, "Connected, 1 agent")
        places = assert_unmoved(places, await buttons_of(popup))
    await wait_state(popup, "Connected, no agent")
    assert_unmoved(places, await buttons_of(popup))


async def test_a_row_keeps_its_place_when_an_agent_before_it_disconnects(
    chain: Chain, bare: Chromium
) -> None:
    def session(name: str) -> dict[str, Any]:
        return {"id": name, "title": "", "client": {"name": name, "version": "1"}}

    async def rows() -> Any:
        read = "(row) => [row.innerText.split('\\n'), row.offsetTop]"
        return await popup.evaluate(f"[...document.querySelectorAll('#clients li')].map({read})")

    chain.register(chain.home / "profile")
    popup = await open_popup(bare)
    await wait_state(popup, "Connected, no agent")
    async with onlooking(chain) as agent:
        await agent.notify("bridge/sessions", sessions=[session("one"), session("two")])
        await wait_state(popup, "Connected, 2 agents")
        (_, first), (_, second) = await rows()
        await agent.notify("bridge/sessions", sessions=[session("two")])
        await wait_state(popup, "Connected, 1 agent")
        (left, first_now), (stays, second_now) = await rows()
        assert (first_now, second_now) == (first, second)
        assert (left, stays[0]) == (["one", "", "disconnected"], "two")
        await agent.notify("bridge/sessions", sessions=[session("two"), session("three")])
        await wait_state(popup, "Connected, 2 agents")
        (new, first_now), (stays, second_now) = await rows()
        assert (new[0], stays[0], first_now, second_now) == ("three", "two", first, second)


async def test_a_tab_is_handed_over_and_taken_back_by_keyboard(chain: Chain, bare: Chromium) -> None:
    chain.register(chain.home / "profile")
    await chain.open(bare, "plain.html")
    popup = await open_popup(bare)
    await wait_state(popup, "Connected, no agent")
    async with connected_agent(chain, popup) as agent:
        tab_id = await agent.until_tab("plain.html")
        await tab_to(popup, "#tab-action")
        await press(popup, "Enter")
        await agent.until(lambda: agent.tabs[tab_id]["handedOver"])
        await popup.wait_until("document.activeElement.innerText === 'Stop agents'")
        await press(popup, "Enter")
        await agent.until(lambda: not agent.tabs[tab_id]["handedOver"])
        await tab_to(popup, "#clients button")
        await press(popup, "Enter")
        await agent.until(lambda: agent.paused["sessions"] == ["s1"])


async def test_the_next_step_is_copied_and_connects_without_another_click(
    chain: Chain, bare: Chromium
) -> None:
    popup = await open_popup(bare)
    await wait_state(popup, "Not connected")
    grant = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    await bare.send("Browser.grantPermissions", grant)
    await click(popup, "#step button")
    await popup.wait_until("document.querySelector('#step button').innerText === 'Copied'")
    assert await popup.evaluate("navigator.clipboard.readText()") == "mcpb install-native-host"
    chain.register(chain.home / "profile")
    await wait_state(popup, "Connected, no agent")
    assert endpoint.live_hosts(chain.home / "run")
    command = await popup.evaluate("document.getElementById('command').innerText")
    mcpb = shlex.quote(str(Path(sys.executable).with_name("mcpb")))
    assert command == f"claude mcp add --scope user browser -- {mcpb} bridge --name browser"


async def test_the_user_sees_and_changes_the_allowed_origins(chain: Chain, bare: Chromium) -> None:
    async def save(text: str) -> str:
        await popup.evaluate(
            f"(() => {{ const list = document.getElementById('allowed'); list.value = {json.dumps(text)};"
            "list.dispatchEvent(new Event('input')); document.getElementById('save').click(); })()"
        )
        state = "document.getElementById('allowed-state').innerText"
        return str(await popup.wait_until(state))

    chain.register(chain.home / "profile")
    await chain.open(bare, "tabserver.html")
    popup = await open_popup(bare)
    await wait_state(popup, "Connected, no agent")
    await click(popup, "#show-details")
    async with onlooking(chain) as agent:
        await agent.until_offered("echo")
        assert await save("https://shop.example/cart\n") == (
            "Not a site: https://shop.example/cart. Write it as shop.example."
        )
        assert agent.offering("echo")
        assert await save("shop.example\nhttps://*.intranet.example.") == (
            "Saved. Agents can use only these sites."
        )
        await agent.until(lambda: not agent.offering("echo"))
        stored = await popup.evaluate("chrome.storage.local.get('allowedOrigins')")
        assert stored == {"allowedOrigins": ["shop.example", "https://*.intranet.example"]}
        await popup.wait_until("document.getElementById('offers').innerText.includes('Not in your list')")
        assert await save("") == "Saved. Empty: agents can use all sites."
        await agent.until_offered("echo")


async def test_a_page_that_is_opened_meanwhile_changes_the_tab_and_moves_nothing(
    chain: Chain, bare: Chromium
) -> None:
    chain.register(chain.home / "profile")
    page = await chain.open(bare, "plain.html")
    popup = await open_popup(bare)
    await wait_state(popup, "Connected, no agent")
    before = await buttons_of(popup)
    await page.load("chrome://version/")
    await popup.wait_until("document.getElementById('site').innerText === ''", 60)
    now = await buttons_of(popup)
    assert "pause-site" not in now
    assert now.items() <= before.items()
