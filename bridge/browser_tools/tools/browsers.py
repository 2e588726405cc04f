"""Browsers that are connected, and the choice of the one in which a session works."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from bridge.browser_tools.session import tab_access
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool import Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.hub.consent.approval_prompts import make_form, read_answer
from bridge.hub.consent.user_prompts import shown_client
from bridge.hub.registry import Browser
from native_host.protocol.untrusted_text import single_line

MAX_PLATFORM = 40


class ListedBrowser(msgspec.Struct, rename="camel"):
    """A browser profile that is running."""

    device_id: str
    name: str
    """The profile's label, else the browser's brand and version; made unique."""
    os: str
    is_local: bool
    on_this_computer: bool
    in_use: bool


class Browsers(ToolOutput, kw_only=True):
    """All of them."""

    browsers: list[ListedBrowser]


class Chosen(ToolOutput, kw_only=True):
    """The one that this session works in from now on."""

    device_id: str
    name: str


class NoArguments(ToolInput):
    """Nothing."""


class SelectBrowser(ToolInput):
    """Input of `select_browser`."""

    device_id: Annotated[str, Meta(description="From list_connected_browsers.")] = field(name="deviceId")


async def list_connected_browsers(_given: NoArguments, context: CallContext) -> ToolResult:
    """List the connected browsers."""
    listed = _list_browsers(context)
    lines = [_format_browser(each) for each in listed]
    message = "\n".join(["Connected browsers:", *lines]) if lines else context.services.whats_missing()
    return ToolResult(Browsers(message=message or tab_access.NO_BROWSER, browsers=listed))


async def select_browser(given: SelectBrowser, context: CallContext) -> ToolResult:
    """Work in that one."""
    wanted = given.device_id.strip()
    for device_id, browser in _connected_browsers(context).items():
        if wanted in (device_id, f"{browser.profile}.{browser.pid}"):  # its twin may have gone meanwhile
            return _choose_browser(context, browser)
    raise ToolError(f"No connected browser has this deviceId. Connected: {_format_choices(context)}.")


async def switch_browser(_given: NoArguments, context: CallContext) -> ToolResult:
    """Let the user choose between several browsers."""
    connected = _connected_browsers(context)
    if len(connected) < 2:
        only = next(iter(connected.values()), None)
        return _choose_browser(context, only or context.current_browser())  # which says what is missing
    if not context.prompts.supports_elicitation:
        raise ToolError(
            "This client cannot ask the user which browser they mean. Ask in the conversation, then call "
            f"select_browser. Connected: {_format_choices(context)}."
        )
    named = {each.name: connected[each.device_id] for each in _list_browsers(context)}
    question = f"{shown_client(context.session)} wants to work in another browser. Which one?"
    chosen = read_answer(await context.prompts.ask_user(question, make_form("Browser", tuple(named))))
    if chosen not in named or not named[chosen].is_live:
        raise ToolError("The user chose no browser that is connected. You work where you did before.")
    return _choose_browser(context, named[chosen])


def _connected_browsers(context: CallContext) -> dict[str, Browser]:
    """Return the browsers by device id, the oldest first."""
    browsers = tab_access.live_browsers(context.services.registry)
    return {tab_access.device_id(browser, browsers): browser for browser in browsers}


def _list_browsers(context: CallContext) -> list[ListedBrowser]:
    connected = _connected_browsers(context)
    if not connected:
        return []
    in_use = _in_use(context)
    names = [_browser_name(browser) for browser in connected.values()]
    return [
        ListedBrowser(
            device_id=device_id,
            name=name if names.count(name) == 1 else f"{name} ({browser.pid})",
            os=_platform_of(browser),
            is_local=True,
            on_this_computer=True,
            in_use=browser is in_use,
        )
        for (device_id, browser), name in zip(connected.items(), names, strict=True)
    ]


def _browser_name(browser: Browser) -> str:
    through = " (through Claude in Chrome)" if browser.is_channel else ""
    return tab_access.browser_name(browser) + through


def _in_use(context: CallContext) -> Browser | None:
    try:
        return context.current_browser()
    except ToolError:
        return None  # the chosen one has gone


def _format_choices(context: CallContext) -> str:
    return ", ".join(f"{each.device_id} ({each.name})" for each in _list_browsers(context)) or "none"


def _platform_of(browser: Browser) -> str:
    return single_line(browser.hello.browser.platform, MAX_PLATFORM) if browser.hello else ""


def _format_browser(listed: ListedBrowser) -> str:
    os = f" ({listed.os})" if listed.os else ""
    return f"{listed.name}{os}, deviceId {listed.device_id}{', in use by you' if listed.in_use else ''}"


def _choose_browser(context: CallContext, browser: Browser) -> ToolResult:
    kept = context.state
    if (kept.profile, kept.browser_pid) != (browser.profile, browser.pid):
        kept.tab_id = None
    kept.profile, kept.browser_pid = browser.profile, browser.pid
    chosen = next(each for each in _list_browsers(context) if each.in_use)
    message = f"You work in {chosen.name} from now on. tabs_context lists your tabs there."
    return ToolResult(Chosen(message=message, device_id=chosen.device_id, name=chosen.name))


TOOLS = (
    Tool(
        name="list_connected_browsers",
        title="Connected browsers",
        description="Lists the user's running browsers, and which one you use.",
        search_hint="browsers profiles connected",
        input_type=NoArguments,
        output_type=Browsers,
        run=list_connected_browsers,
        is_read_only=True,
    ),
    Tool(
        name="select_browser",
        title="Choose a browser",
        description="Chooses the browser that you use from now on.",
        search_hint="choose browser profile",
        input_type=SelectBrowser,
        output_type=Chosen,
        run=select_browser,
        is_repeatable=True,
    ),
    Tool(
        name="switch_browser",
        title="Let the user choose a browser",
        description="Asks the user which browser you should use.",
        search_hint="choose browser ask user",
        input_type=NoArguments,
        output_type=Chosen,
        run=switch_browser,
    ),
)
