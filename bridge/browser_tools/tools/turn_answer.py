"""The beginning and the end of a model's answer, and small tools for who develops clients."""

from __future__ import annotations

import platform
from typing import Annotated, Any, ClassVar

import msgspec
import trio
from msgspec import UNSET, Meta, UnsetType

from bridge.browser_tools.session import tab_access
from bridge.browser_tools.session.call_context import Turn
from bridge.browser_tools.tool import Given, Tool
from bridge.browser_tools.tool_output import Answer, Told, ToolError
from native_host import __version__
from native_host.protocol import wire

MAX_DELAY_S = 10.0
MAX_ECHO = 10_000


class NoArguments(Given):
    """Nothing."""


class Answering(Told, kw_only=True):
    """What the session still has in the browser."""

    own_tabs: int
    capturing_tabs: int
    """Those in which something is still captured or recorded."""


async def turn_answer_start(_given: NoArguments, turn: Turn) -> Answer:
    """Nothing is done in the browser while the model writes: its tabs are let go."""
    told = _let_go(turn)
    count = "1 tab of yours is" if told.capturing_tabs == 1 else f"{told.capturing_tabs} tabs of yours are"
    still = f" {count} still captured." if told.capturing_tabs else ""
    return Answer(msgspec.structs.replace(told, message=f"Go on with your answer.{still}"))


async def turn_answer_complete(_given: NoArguments, turn: Turn) -> Answer:
    """The answer has been given."""
    told = _let_go(turn)
    left = "1 tab of yours stays" if told.own_tabs == 1 else f"{told.own_tabs} tabs of yours stay"
    message = f"Noted. {left} open; tabs_close_mcp closes what the user does not need."
    return Answer(msgspec.structs.replace(told, message=message if told.own_tabs else "Noted."))


def _let_go(turn: Turn) -> Answering:
    """The browser takes its warning of a debugger away, where nothing captures and no dialog waits."""
    capturing = 0
    for page in turn.kept.pages.values():
        if page.holds:
            capturing += 1
        elif page.dialog is None:
            page.let_go()
    browsers = tab_access.live_browsers(turn.around.registry)
    own = [tab for each in browsers for tab in each.tabs.values() if tab.owner == turn.session.id]
    return Answering(message="", own_tabs=len(own), capturing_tabs=capturing)


# ── For who develops clients ────────────────────────────────────────────────────────────────────────────────


class DevUtils(Given, forbid_unknown_fields=False):
    """Of `dev_utils`."""

    unlisted: ClassVar[tuple[str, ...]] = ("text", "seconds")
    action: (
        Annotated[
            str,
            Meta(
                description=(
                    "`info` (the default): versions, your session, the browsers. `echo`: gives `text` back. "
                    "`delay`: waits `seconds`, at most 10. `fail`: fails, with `text`."
                )
            ),
        ]
        | UnsetType
    ) = UNSET
    text: str = ""
    seconds: float = 1.0


class Developed(Told, kw_only=True):
    """What came of it."""

    action: str
    info: dict[str, Any] = {}


async def dev_utils(given: DevUtils, turn: Turn) -> Answer:
    """One of four."""
    action = "info" if given.action is UNSET else given.action
    match action:
        case "echo":
            return Answer(Developed(message=given.text[:MAX_ECHO], action=action))
        case "fail":
            raise ToolError(given.text[:MAX_ECHO] or "It failed, as you asked. Nothing was done.")
        case "delay":
            return await _delay(given.seconds)
        case "info":
            return Answer(Developed(message=_versions(), action=action, info=_info(turn)))
        case _:
            raise ToolError(f"There is no action {action}; there are info, echo, delay and fail.")


async def _delay(seconds: float) -> Answer:
    if not 0 <= seconds <= MAX_DELAY_S:
        raise ToolError(f"seconds: {seconds:g} cannot be; from 0 to {MAX_DELAY_S:g}. Nothing was waited for.")
    await trio.sleep(seconds)
    return Answer(Developed(message=f"{seconds:g} s have passed.", action="delay"))


def _versions() -> str:
    return f"mcpb {__version__}, wire {wire.WIRE_VERSION}, Python {platform.python_version()}."


def _info(turn: Turn) -> dict[str, Any]:
    browsers = tab_access.live_browsers(turn.around.registry)
    client = turn.session.client
    return {
        "mcpb": __version__,
        "wire": wire.WIRE_VERSION,
        "python": platform.python_version(),
        "session": {
            "id": turn.session.id[:8],
            "title": turn.session.title,
            "client": {"name": client.name, "version": client.version},
            "canAskTheUser": turn.can_ask,
        },
        "browsers": [
            {
                "deviceId": tab_access.device_id(browser, browsers),
                "name": tab_access.called(browser),
                "extension": browser.hello.extension.version if browser.hello else "",
                "tabs": sum(not tab.incognito for tab in browser.tabs.values()),
            }
            for browser in browsers
        ],
    }


TOOLS = (
    Tool(
        name="turn_answer_start",
        title="Before the answer",
        description=(
            "Call it when you are done in the browser and begin to write your answer: the browser takes away "
            "its warning that it is being controlled. Captures and recordings go on. No other tool needs it."
        ),
        given=NoArguments,
        told=Answering,
        run=turn_answer_start,
        reads_only=True,
    ),
    Tool(
        name="turn_answer_complete",
        title="After the answer",
        description=(
            "Call it when your answer is complete: it says what of yours is still open in the browser. "
            "Nothing depends on it."
        ),
        given=NoArguments,
        told=Answering,
        run=turn_answer_complete,
        reads_only=True,
    ),
    Tool(
        name="dev_utils",
        title="For developers of clients",
        description=(
            "For trying out a client, not for work in pages: versions, session and browsers, an echo, a "
            "delay, a failure on demand."
        ),
        given=DevUtils,
        told=Developed,
        run=dev_utils,
        reads_only=True,
    ),
)
