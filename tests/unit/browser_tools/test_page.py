"""The frames of a page, in processes of their own that may hang: without a browser."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from bridge.browser_tools.page.devtools import SUBSCRIBED, CommandError, NotControllableError
from bridge.browser_tools.page.page import FAILED, FRAME_S, GoneError, Numbering, Page
from bridge.errors import CallError
from fake_tool_client import BANK, SESSION, SHOP
from fake_transport import Answer, Asked, PlayedTransport
from native_host.protocol import wire
from native_host.protocol.wire import Code


class PlayedPage:
    """A tab with ten frames of another site; `inner` is what DevTools answer for those."""

    def __init__(self, inner: CallError | None) -> None:
        transport = PlayedTransport()
        transport.on_request = self._obey
        self.inner = inner
        self.unreachable = ""
        """Where a page is said to be that did not load."""
        self.page = Page(transport, "h1", 1, SESSION, Numbering())

    def _obey(self, asked: Asked) -> Answer:
        match asked.params:
            case wire.SubscribeCdp():
                assert asked.caller.on_event
                for number in range(10):
                    params = {
                        "sessionId": f"S{number}",
                        "targetInfo": {"type": "iframe", "targetId": f"F{number}", "url": BANK},
                    }
                    asked.caller.on_event(_event("Target.attachedToTarget", params))
                asked.caller.on_event(_event(SUBSCRIBED, {}))
                return None
            case wire.ForwardCdpCommand(method="Page.createIsolatedWorld"):
                return {"executionContextId": 7}
            case wire.ForwardCdpCommand(method="Runtime.evaluate") if self.unreachable:
                return {"result": {"objectId": "mcpb"}}
            case wire.ForwardCdpCommand(method="Runtime.callFunctionOn") if self.unreachable:
                return {"result": {"value": FAILED}}
            case wire.ForwardCdpCommand(method="Runtime.evaluate"):
                return CallError(Code.INTERNAL_ERROR, "Cannot find context with specified id", handed=True)
            case wire.ForwardCdpCommand(session_id=""):
                failed = {"url": FAILED, "unreachableUrl": self.unreachable}
                where = failed if self.unreachable else {"url": SHOP}
                return {"frameTree": {"frame": {"id": "F", "loaderId": "L", **where}}}
            case _:
                return self.inner


def _event(method: str, params: dict[str, Any]) -> wire.CdpEvent:
    return wire.CdpEvent(tab_id=1, method=method, params=msgspec.Raw(msgspec.json.encode(params)))


async def test_frames_that_hang_are_waited_for_together(autojump_clock: trio.testing.MockClock) -> None:
    began = trio.current_time()
    (frame,) = await PlayedPage(None).page.find_frames()
    assert frame.url == SHOP
    assert trio.current_time() - began == FRAME_S


async def test_what_fails_for_all_of_a_tab_is_raised_as_it_is() -> None:
    with pytest.raises(CallError, match="tab 1"):
        await PlayedPage(CallError(Code.NO_SUCH_TAB, "tab 1", handed=False)).page.find_frames()


async def test_a_document_that_goes_while_it_is_looked_into_is_told_as_gone() -> None:
    page = PlayedPage(CallError(Code.INVALID_PARAMS, "gone", handed=False)).page
    with pytest.raises(GoneError, match="went to another document meanwhile"):
        await page.call_script("read")


async def test_a_page_that_did_not_load_is_known_by_its_address() -> None:
    played = PlayedPage(CallError(Code.INVALID_PARAMS, "gone", handed=False))
    played.unreachable = BANK
    assert (await played.page.main_frame()).url == BANK
    assert await played.page.call_script("read") == FAILED


async def test_a_tab_that_the_browser_lets_no_extension_control_is_known_by_the_error_code() -> None:
    page = PlayedPage(CallError(Code.TAB_NOT_CONTROLLABLE, "Tab 1 shows chrome://version", handed=False)).page
    with pytest.raises(NotControllableError, match="Tab 1 shows chrome://version"):
        await page.run_command("Page.captureScreenshot", session="S1")


async def test_an_older_extension_that_sends_another_code_causes_an_ordinary_command_error() -> None:
    page = PlayedPage(CallError(Code.INVALID_PARAMS, "Tab 1 cannot be controlled", handed=False)).page
    with pytest.raises(CommandError, match="Tab 1 cannot be controlled"):
        await page.run_command("Page.captureScreenshot", session="S1")
