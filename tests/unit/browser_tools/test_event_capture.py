"""How the capture of a tab begins, is kept up and begins again, and what of it a policy hides: no browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from bridge.errors import CallError
from bridge.hub.policy import PolicyRules
from fake_tool_client import BANK, SHOP, PlayedTools, own_tab
from fake_transport import Answer, Asked
from native_host.protocol import wire
from native_host.protocol.wire import Code

CONSOLE, NETWORK = "read_console_messages", "read_network_requests"
SOON_S = 30


def frame_of(session: str) -> str:
    """Return the id of the frame at the root of a DevTools session."""
    return f"frame of {session}" if session else "F"


class Tab:
    """The one tab of a session, whose DevTools are the test's."""

    def __init__(self, tools: PlayedTools) -> None:
        self.tools = tools
        self.failing: dict[str, CallError] = {}
        """By command."""
        self._obey = tools.transport.on_request
        self._subscribed: list[Asked] = []
        tools.transport.on_request = self._answer
        tools.connect(own_tab(1))

    def _answer(self, asked: Asked) -> Answer:
        match asked.params:
            case wire.SubscribeCdp():
                self._subscribed.append(asked)
                return self._obey(asked)
            case wire.ForwardCdpCommand(method="Page.getFrameTree", session_id=session):
                frame = {"id": frame_of(session), "loaderId": "L", "url": f"{SHOP}/"}
                return {"frameTree": {"frame": frame}}
            case wire.ForwardCdpCommand(method=method):
                return self.failing.get(method, {})
            case _:
                return self._obey(asked)

    def happens(self, method: str, session: str = "", /, **params: Any) -> None:
        """DevTools tell of something."""
        on_event = self._subscribed[-1].caller.on_event
        assert on_event
        raw = msgspec.Raw(json.dumps(params).encode())
        on_event(wire.CdpEvent(tab_id=1, method=method, params=raw, session_id=session))

    def is_lost(self) -> None:
        """The browser lets go of it."""
        self._subscribed[-1].on_done(b"{}")

    def attaches(self, session: str) -> None:
        """There is a frame with a process of its own."""
        info = {"type": "iframe", "targetId": frame_of(session)}
        self.happens("Target.attachedToTarget", sessionId=session, targetInfo=info)

    def says(self, text: str, context: int = 1, session: str = "") -> None:
        """Something is written to the console."""
        if context == 1:
            where = {
                "id": 1,
                "origin": SHOP,
                "name": "",
                "auxData": {"frameId": frame_of(session), "isDefault": True},
            }
            self.happens("Runtime.executionContextCreated", session, context=where)
        args = [{"type": "string", "value": text}]
        said = {"type": "log", "args": args, "timestamp": 0, "executionContextId": context}
        self.happens("Runtime.consoleAPICalled", session, **said)

    def asks_for(self, url: str, document: str) -> None:
        """A document makes a request."""
        request = {"url": url, "method": "GET", "headers": {}}
        sent = {"requestId": url, "request": request, "documentURL": document, "timestamp": 1, "wallTime": 1}
        self.happens("Network.requestWillBeSent", **sent)

    def switched_on(self, session: str = "") -> list[str]:
        """What was switched on in a session, in this order."""
        commands = self.tools.sent("forwardCDPCommand")
        return [it.method for it in commands if it.session_id == session and it.method.endswith(".enable")]

    async def messages(self, **wanted: Any) -> list[str]:
        found = (await self.tools.call(CONSOLE, **wanted)).structured["messages"]
        return [each["text"] for each in found]


@pytest.fixture
def tools(nursery: trio.Nursery, tmp_path: Path) -> PlayedTools:
    return PlayedTools(nursery, tmp_path, PolicyRules(deny=(BANK,)))


@pytest.fixture
def tab(tools: PlayedTools) -> Tab:
    return Tab(tools)


async def test_it_is_switched_on_in_the_tab_and_in_all_that_is_in_it_also_later(
    tab: Tab, tools: PlayedTools
) -> None:
    with trio.fail_after(SOON_S):
        await tools.call(CONSOLE)
        assert tab.switched_on() == ["Runtime.enable", "Log.enable"]
        tab.attaches("S")
        assert tab.switched_on("S") == ["Runtime.enable", "Log.enable"]
        await tools.call(NETWORK)
        assert tab.switched_on()[2:] == ["Network.enable"]
        tab.says("in the frame", session="S")
        assert await tab.messages() == ["in the frame"]


async def test_what_the_browser_lost_begins_again_and_what_was_captured_stays(
    tab: Tab, tools: PlayedTools
) -> None:
    with trio.fail_after(SOON_S):
        await tools.call(CONSOLE)
        tab.says("before")
        tab.is_lost()
        again = await tools.call(CONSOLE)
        assert "captured again" in again.structured["message"]
        assert len(tab.switched_on()) == 4
        tab.says("after")
        assert await tab.messages() == ["before", "after"]


async def test_a_beginning_that_fails_is_made_good_by_the_next_call(tab: Tab, tools: PlayedTools) -> None:
    with trio.fail_after(SOON_S):
        tab.failing["Log.enable"] = CallError(Code.TIMED_OUT, "busy", handed=True)
        assert "busy" in await tools.ask_fails(CONSOLE)
        tab.failing.clear()
        assert "captured from now on" in (await tools.call(CONSOLE)).structured["message"]


async def test_a_page_that_is_busy_later_keeps_nobody_from_what_was_captured(
    tab: Tab, tools: PlayedTools
) -> None:
    with trio.fail_after(SOON_S):
        await tools.call(CONSOLE)
        tab.says("before")
        tab.failing["Runtime.enable"] = CallError(Code.TIMED_OUT, "busy", handed=True)
        assert await tab.messages() == ["before"]


async def test_events_that_were_left_out_are_counted_also_by_an_extension_that_counts_anew(
    tab: Tab, tools: PlayedTools
) -> None:
    with trio.fail_after(SOON_S):
        await tools.call(CONSOLE)
        for dropped in (10, 15, 3):
            tab.happens("mcpb.eventDropped", method="Runtime.consoleAPICalled", bytes=100, dropped=dropped)
        told = (await tools.call(CONSOLE, clear=True)).structured["message"]
        assert "18 events of the tab were left out" in told
        assert "left out" not in (await tools.call(CONSOLE)).structured["message"]


async def test_what_frames_of_denied_sites_write_and_ask_for_is_hidden(tab: Tab, tools: PlayedTools) -> None:
    with trio.fail_after(SOON_S):
        await tools.call(CONSOLE)
        await tools.call(NETWORK)
        for number, origin in ((1, SHOP), (2, BANK)):
            context = {"id": number, "origin": origin, "auxData": {"isDefault": True}}
            tab.happens("Runtime.executionContextCreated", context=context)
            tab.says(f"said by {origin}", number)
            tab.asks_for(f"{SHOP}/api?by={number}", f"{origin}/page")
        assert await tab.messages() == [f"said by {SHOP}"]
        found = (await tools.call(NETWORK)).structured["requests"]
        assert [each["url"] for each in found] == [f"{SHOP}/api?by=1"]


@pytest.mark.parametrize("scheme", ["blob", "filesystem", "view-source"])
async def test_blob_and_similar_documents_of_a_denied_site_are_hidden(
    tab: Tab, tools: PlayedTools, scheme: str
) -> None:
    with trio.fail_after(SOON_S):
        await tools.call(CONSOLE)
        await tools.call(NETWORK)
        for number, site in ((1, SHOP), (2, BANK)):
            document = f"{scheme}:{site}/0f3a"
            context = {"id": number, "origin": document, "auxData": {"isDefault": True}}
            tab.happens("Runtime.executionContextCreated", context=context)
            if number == 2:
                tab.says("said by the bank", number)
            tab.asks_for(f"{SHOP}/api?by={number}", document)
        assert await tab.messages() == []
        found = (await tools.call(NETWORK)).structured["requests"]
        assert [each["url"] for each in found] == [f"{SHOP}/api?by=1"]


async def test_what_a_denied_site_answers_to_another_page_is_hidden(tab: Tab, tools: PlayedTools) -> None:
    with trio.fail_after(SOON_S):
        await tools.call(NETWORK)
        tab.asks_for(f"{BANK}/balance", f"{SHOP}/page")
        found = (await tools.call(NETWORK, urlPattern="balance")).structured
    assert (len(found["requests"]), found["content"]) == (1, None)


async def test_an_answer_is_bounded_whatever_the_limit(tab: Tab, tools: PlayedTools) -> None:
    with trio.fail_after(SOON_S):
        await tools.call(CONSOLE)
        for number in range(900):
            tab.says(f"{number} {'x' * 1000}")
        told = await tools.call(CONSOLE, limit=900)
    assert len(told.text) < 60_000
    assert told.structured["messages"][-1]["text"].startswith("899 ")
    assert f"newest {len(told.structured['messages'])} of 900" in told.structured["message"]
