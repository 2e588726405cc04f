"""`turn_answer_start`, `turn_answer_complete`: a model's turn; `dev_utils`: diagnostics for developers."""

from __future__ import annotations

import platform
from typing import Annotated, Any, ClassVar

import msgspec
import trio
from msgspec import UNSET, Meta, UnsetType

from bridge.browser_tools.session import tab_access
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool import Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from native_host import __version__
from native_host.protocol import wire

MAX_DELAY_S = 10.0
MAX_ECHO = 10_000


class NoArguments(ToolInput):
    """Nothing."""


class Answering(ToolOutput, kw_only=True):
    """Tabs and captures of the session."""

    own_tabs: int
    capturing_tabs: int


async def turn_answer_start(_given: NoArguments, context: CallContext) -> ToolResult:
    """Nothing is done in the browser while the model writes: its tabs are let go."""
    told = _release_idle(context)
    count = "1 tab of yours is" if told.capturing_tabs == 1 else f"{told.capturing_tabs} tabs of yours are"
    still = f" {count} still captured." if told.capturing_tabs else ""
    return ToolResult(msgspec.structs.replace(told, message=f"Go on with your answer.{still}"))


async def turn_answer_complete(_given: NoArguments, context: CallContext) -> ToolResult:
    """End the turn: release idle tabs."""
    told = _release_idle(context)
    left = "1 tab of yours stays" if told.own_tabs == 1 else f"{told.own_tabs} tabs of yours stay"
    message = f"Noted. {left} open; tabs_close_mcp closes what the user does not need."
    return ToolResult(msgspec.structs.replace(told, message=message if told.own_tabs else "Noted."))


def _release_idle(context: CallContext) -> Answering:
    """Detach DevTools, and so the debugger bar, from tabs without a capture or a dialog."""
    capturing = 0
    for page in context.state.pages.values():
        if page.holds:
            capturing += 1
        elif page.dialog is None:
            page.release()
    browsers = tab_access.live_browsers(context.services.registry)
    own = [tab for each in browsers for tab in each.tabs.values() if tab.owner == context.session.id]
    return Answering(message="", own_tabs=len(own), capturing_tabs=capturing)


# ── For who develops clients ────────────────────────────────────────────────────────────────────────────────


class DevUtils(ToolInput, forbid_unknown_fields=False):
    """Input of `dev_utils`."""

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


class DevUtilsOutput(ToolOutput, kw_only=True):
    """Result of `dev_utils`."""

    action: str
    info: dict[str, Any] = {}


async def dev_utils(given: DevUtils, context: CallContext) -> ToolResult:
    """One of four."""
    action = "info" if given.action is UNSET else given.action
    match action:
        case "echo":
            return ToolResult(DevUtilsOutput(message=given.text[:MAX_ECHO], action=action))
        case "fail":
            raise ToolError(given.text[:MAX_ECHO] or "It failed, as you asked. Nothing was done.")
        case "delay":
            return await _wait_delay(given.seconds)
        case "info":
            info = _format_info(context)
            message = f"{_format_versions()}\n{msgspec.json.encode(info).decode()}"
            return ToolResult(DevUtilsOutput(message=message, action=action, info=info))
        case _:
            raise ToolError(f"There is no action {action}; there are info, echo, delay and fail.")


async def _wait_delay(seconds: float) -> ToolResult:
    if not 0 <= seconds <= MAX_DELAY_S:
        raise ToolError(f"seconds: {seconds:g} cannot be; from 0 to {MAX_DELAY_S:g}. Nothing was waited for.")
    await trio.sleep(seconds)
    return ToolResult(DevUtilsOutput(message=f"{seconds:g} s have passed.", action="delay"))


def _format_versions() -> str:
    return f"mcpb {__version__}, wire {wire.WIRE_VERSION}, Python {platform.python_version()}."


def _format_info(context: CallContext) -> dict[str, Any]:
    browsers = tab_access.live_browsers(context.services.registry)
    client = context.session.client
    return {
        "mcpb": __version__,
        "wire": wire.WIRE_VERSION,
        "python": platform.python_version(),
        "session": {
            "id": context.session.id[:8],
            "title": context.session.title,
            "client": {"name": client.name, "version": client.version},
            "canAskTheUser": context.prompts.supports_elicitation,
        },
        "browsers": [
            {
                "deviceId": tab_access.device_id(browser, browsers),
                "name": tab_access.browser_name(browser),
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
        listed="claude-in-chrome",
        input_type=NoArguments,
        output_type=Answering,
        run=turn_answer_start,
        is_read_only=True,
    ),
    Tool(
        name="turn_answer_complete",
        title="After the answer",
        description=(
            "Call it when your answer is complete: it lists the tabs that this session still has open. "
            "Nothing depends on it."
        ),
        listed="claude-in-chrome",
        input_type=NoArguments,
        output_type=Answering,
        run=turn_answer_complete,
        is_read_only=True,
    ),
    Tool(
        name="dev_utils",
        title="For developers of clients",
        description=(
            "For trying out a client, not for work in pages: versions, session and browsers, an echo, a "
            "delay, a failure on demand."
        ),
        listed="claude-in-chrome",
        input_type=DevUtils,
        output_type=DevUtilsOutput,
        run=dev_utils,
        is_read_only=True,
    ),
)
