"""Browser tools forwarded to Claude in Chrome's extension, for sessions that work with it.

Names and schemas are the same on both sides. The whole result is untrusted: the extension's own text and that
of pages cannot be distinguished.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import trio
from msgspec import UNSET, UnsetType

from bridge import origins
from bridge.browser_tools.page import keyboard
from bridge.browser_tools.page.element_refs import is_ref
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.permissions import AccessRequest
from bridge.browser_tools.session.tab_access import browser_name
from bridge.browser_tools.session.upload_permission import admit_upload
from bridge.browser_tools.tool import ToolInput
from bridge.browser_tools.tool_output import Image, ToolError, ToolOutput, ToolResult
from bridge.browser_tools.tools import file_upload, navigate
from bridge.browser_tools.tools.computer_action import Computer
from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.registry import Browser
from bridge.hub.server_request import FORMS, ClientSupport, ServerRequest
from bridge.hub.transport import CallObserver, TabAddress
from native_host.protocol import wire
from native_host.protocol.untrusted_text import quote, single_line
from native_host.protocol.wire import Code

CALL_S = 60.0
"""Seconds for a call, without the time of prompts."""
TAB_S = 20.0
"""For each of the two calls that a new tab takes."""

HERE = frozenset({"list_connected_browsers", "select_browser", "switch_browser", "browser_batch"})
"""They run here whatever the browser is. Of a batch, each step is judged and sent on by itself."""
_WITHOUT_PAGE = frozenset(
    {
        "navigate",
        "tabs_create",
        "tabs_create_mcp",
        "tabs_close_mcp",
        "resize_window",
        "update_plan",
        "shortcuts_list",
        "turn_answer_start",
    }
)
_WITHOUT_TAB = frozenset({"shortcuts_list"})
_CREATE = "tabs_create_mcp"
_SAME = {"tabs_context": "tabs_context_mcp", "tabs_create": _CREATE}

_MADE = re.compile(r"Tab ID: (\d+)")
_REFUSED = re.compile(
    r"(?:Error: )?(?:Tab \d+ (?:no longer exists|is not in )|(?:This session's|The MCP) tab group no longer "
    r"exists|This session has no tab group|No MCP tab group exists)"
)
"""So it begins when a tab cannot be used: found out before anything is done."""
_GONE = "No tab with id"
"""In the browser's words, which may come in the middle."""
_MAX_WORDS = 300
_MAX_QUESTION = 1000


class ForwardedOutput(ToolOutput, kw_only=True):
    """Result of the extension."""

    said: str
    untrusted: tuple[str, ...] = ("said",)


@dataclass
class _Tabs:
    """A session's own tab in each channel: the one that it named or created last."""

    current: dict[str, int] = field(default_factory=dict)
    making: trio.Lock = field(default_factory=trio.Lock)
    """One new tab at a time: several calls may want the same."""


@dataclass(frozen=True)
class _ChannelResult:
    """Text and images of a result."""

    text: str
    images: Sequence[Image]
    is_error: bool


async def run_forwarded(
    context: CallContext, channel: Browser, given: ToolInput, arguments: Arguments
) -> ToolResult:
    """Have the other extension run this tool.

    Raises:
        CallError: it did not, or a rule about sites could not be kept there.
        ToolError: it has no such tool, or no tab for it.
    """
    try:
        return await _run_admitted(context, channel, given, arguments)
    except CallError as error:
        if error.code == Code.GONE and not error.handed:
            await context.wait_discovered()
            context.current_browser()  # Raises with the reason and the remedy.
        raise


async def _run_admitted(
    context: CallContext, channel: Browser, given: ToolInput, arguments: Arguments
) -> ToolResult:
    context.record_site(channel)
    if context.tool.name not in _tool_names(channel):
        raise ToolError(
            f"{browser_name(channel)}, in which this session works, has no {context.tool.name}: only the "
            "mcpb "
            "extension has it. Where that is connected, select_browser chooses it."
        )
    rule = _rule_about_sites(context)
    await _check_input(context, channel, given, rule)
    tab_id = getattr(given, "tab_id", UNSET)
    words = await _call_extension(
        context, channel, _admitted_arguments(context, given, arguments.value), tab_id
    )
    return _make_result(channel, words, tells=not rule)


def _tool_names(channel: Browser) -> frozenset[str]:
    """Return the tools that the extension may have."""
    assert channel.hello is not None, "it is known by what it offers"
    tools = (msgspec.json.decode(tool, type=_NamedTool) for tool in channel.hello.capabilities.tools)
    return frozenset(tool.name for tool in tools)


class _NamedTool(msgspec.Struct):
    name: str


# ── What may be done there ──────────────────────────────────────────────────────────────────────────────────


async def _check_input(context: CallContext, channel: Browser, given: ToolInput, rule: str) -> None:
    _check_ref(channel, given)
    match given:
        case navigate.Navigate(url=url):
            await _check_address(context, channel, url, rule)
        case file_upload.FileUpload(paths=list(paths)) if paths:
            files = await file_upload.files_at(paths, context)  # it would take them from wherever they are
            if asked := file_upload.unconfigured_paths(files):
                await admit_upload(context, "", asked, f"a page in {browser_name(channel)}")
        case Computer(action="key", text=str(text)) if keyboard.has_paste(text):
            raise ToolError(
                f"Paste keys are not sent to {browser_name(channel)}: they would insert the user's "
                "clipboard. "
                "Use type with the text."
            )
    if rule and context.tool.name not in _WITHOUT_PAGE:
        raise _cannot_be_kept(channel, rule)


def _check_ref(channel: Browser, given: ToolInput) -> None:
    """Reject a locator: the extension knows its own refs only."""
    for name in ("ref", "ref_id"):
        named = getattr(given, name, UNSET)
        if named is not UNSET and not (isinstance(named, (str, int)) and is_ref(str(named))):
            raise ToolError(
                f"{browser_name(channel)} takes a ref of its own read_page or find, and no name or selector. "
                "Nothing was done."
            )


def _admitted_arguments(
    context: CallContext, given: ToolInput, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments, with addresses and paths in the form that was admitted.

    The extension completes a few words to an address in its own way; its browser has another working
    directory, and links may change.
    """
    match given:
        case navigate.Navigate(url=url) if not _is_step(url):
            return {**arguments, "url": navigate.address_to_open(url)}
        case file_upload.FileUpload(paths=list(paths)) if paths:
            whole = [os.path.realpath(Path(context.session.folder, path)) for path in paths]
            return {**arguments, "paths": whole}
        case _:
            return arguments


async def _check_address(context: CallContext, channel: Browser, url: str, rule: str) -> None:
    if _is_step(url):
        if rule:
            raise _cannot_be_kept(channel, rule)
        return
    origin = origins.get_origin(navigate.address_to_open(url))
    context.record_site(channel, origin)
    context.services.registry.pauses.check(context.session, *filter(None, [origin]))
    await context.permissions.admit(AccessRequest(channel, origin))


def _is_step(url: str) -> bool:
    """Through a tab's history."""
    return url.strip().lower() in ("back", "forward")


def _rule_about_sites(context: CallContext) -> str:
    """Return a rule about sites, which cannot be enforced without knowing the page of a tab."""
    if context.services.policy.has_rules_about_sites:
        return "config.toml has rules about sites"
    if context.services.settings.sites != "any":
        return f'browser.sites is "{context.services.settings.sites}"'
    if context.services.settings.roots == "strict":
        return 'browser.roots is "strict"'
    return "a site is paused" if context.services.registry.pauses.sites else ""


def _cannot_be_kept(channel: Browser, rule: str) -> CallError:
    detail = f"{rule}, and {browser_name(channel)} does not tell which page a tab shows"
    then = "Work in a browser that has mcpb's own extension (list_connected_browsers), or ask the user."
    return CallError(Code.NOT_ALLOWED, detail, handed=False, then=then)


# ── In which tab ────────────────────────────────────────────────────────────────────────────────────────────


async def _call_extension(
    context: CallContext, channel: Browser, arguments: Mapping[str, Any], tab_id: int | UnsetType
) -> _ChannelResult:
    """In the tab that is named, else in the session's own."""
    if tab_id is not UNSET:
        return await _run_in(context, channel, arguments, tab_id)
    if "tab_id" not in context.tool.input_type.__struct_fields__ or context.tool.name in _WITHOUT_TAB:
        return await _run_without_tab(context, channel, arguments)
    words = await _run_in(context, channel, arguments, await _own_tab(context, channel))
    if words.is_error and _REFUSED.match(words.text):
        words = await _run_in(
            context, channel, arguments, await _own_tab(context, channel)
        )  # which is a new one
    return words


async def _run_without_tab(
    context: CallContext, channel: Browser, arguments: Mapping[str, Any]
) -> _ChannelResult:
    tool = _SAME.get(context.tool.name, context.tool.name)
    words = await _send_call(context, channel, tool, arguments)
    if tool != _CREATE:
        return words
    if words.is_error and "group" in words.text:
        words = await _create_tab(context, channel)  # it needs one to put the tab into
    if made := _MADE.search(words.text):
        context.state.state_of(_Tabs).current[channel.host] = int(made[1])
    return words


async def _run_in(
    context: CallContext, channel: Browser, arguments: Mapping[str, Any], tab_id: int
) -> _ChannelResult:
    words = await _send_call(context, channel, context.tool.name, {**arguments, "tabId": tab_id})
    current = context.state.state_of(_Tabs).current
    if not words.is_error and context.tool.name != "tabs_close_mcp":
        current[channel.host] = tab_id
    elif _is_gone(words) and current.get(channel.host) == tab_id:
        del current[channel.host]
    return words


def _is_gone(words: _ChannelResult) -> bool:
    """Return whether the tab is gone, after this result of a call that failed or was to close it."""
    return not words.is_error or bool(_REFUSED.match(words.text)) or _GONE in words.text


async def _own_tab(context: CallContext, channel: Browser) -> int:
    tabs = context.state.state_of(_Tabs)
    async with tabs.making:
        if channel.host not in tabs.current:
            if context.tool.name == "tabs_close_mcp":
                raise ToolError(f"You have no tab in {browser_name(channel)}. Nothing was closed.")
            if context.services.policy.is_read_only:
                raise ToolError(
                    f"You have no tab in {browser_name(channel)}, and policy.read_only is on: you cannot "
                    "open one. "
                    "tabs_context lists what there is."
                )
            tabs.current[channel.host] = await _new_tab(context, channel)
        return tabs.current[channel.host]


async def _new_tab(context: CallContext, channel: Browser) -> int:
    try:
        words = await _create_tab(context, channel)
    except CallError as error:
        detail = f"opening a tab: {error.detail}"
        raise CallError(error.code, detail, handed=False, logged=error.audit_detail) from None
    if words.is_error or not (made := _MADE.search(words.text)):
        raise ToolError(f"{browser_name(channel)} opened no tab for you: {quote(words.text, _MAX_WORDS)}")
    return int(made[1])


async def _create_tab(context: CallContext, channel: Browser) -> _ChannelResult:
    """Create a tab, in the session's group, which is created as well if missing."""
    group = await _send_call(context, channel, "tabs_context_mcp", {"createIfEmpty": True}, TAB_S)
    return group if group.is_error else await _send_call(context, channel, _CREATE, {}, TAB_S)


# ── What is asked, and what is answered ─────────────────────────────────────────────────────────────────────


async def _send_call(
    context: CallContext, channel: Browser, tool: str, arguments: Mapping[str, Any], limit_s: float = CALL_S
) -> _ChannelResult:
    asked = wire.CallTool(
        session=context.session.id,
        name=tool,
        args=msgspec.Raw(Arguments.of(dict(arguments)).raw),
        asks=context.prompts.supports_elicitation,
    )
    at = TabAddress(channel.host)
    answer = await context.services.transport.request(
        at, "browser/callTool", asked, limit_s, _make_observer(context)
    )
    try:
        return _read_result(msgspec.json.decode(answer, type=_Result))
    except (msgspec.DecodeError, ValueError, RecursionError):  # an image may be no base64
        detail = f"the answer of {browser_name(channel)} cannot be read"
        raise CallError(Code.INTERNAL_ERROR, detail, handed=True) from None


def _make_observer(context: CallContext) -> CallObserver:
    """Our caller, to whom its questions are put; no limit of a call counts the time that this takes."""
    caller = context.prompts.caller
    support = FORMS if caller.supports_elicitation else ClientSupport()

    async def ask_patiently(request: ServerRequest) -> bytes:
        support.check(request)
        assert isinstance(request, wire.ElicitConfirmation)
        shown = single_line(request.message, _MAX_QUESTION)  # a page may have written the address in it
        with context.prompts.pause_clock():
            return await caller.on_request(msgspec.structs.replace(request, message=shown))

    return msgspec.structs.replace(caller, on_request=ask_patiently, support=support)


class _Result(msgspec.Struct, rename="camel"):
    """An MCP CallToolResult, as far as it matters here."""

    content: list[dict[str, Any]] = []
    is_error: bool = False


def _read_result(result: _Result) -> _ChannelResult:
    texts: list[str] = []
    images: list[Image] = []
    for block in result.content:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
                images.append(Image(base64.b64decode(data, validate=True), mime_type))
            case _:  # nothing is lost: a model can read it
                texts.append(msgspec.json.encode(block).decode())
    return _ChannelResult("\n".join(texts), images, result.is_error)


def _make_result(channel: Browser, words: _ChannelResult, *, tells: bool) -> ToolResult:
    """Return the tool's result. With `tells` off, only success is reported."""
    who = browser_name(channel)
    message = f"{who} has answered." if words.text or words.images else f"{who} has answered nothing."
    if words.is_error:
        message = f"{who} says that it could not do that."
    elif not tells:
        return ToolResult(
            ForwardedOutput(message=f"{who} has done it. Its answer is hidden by your rules.", said="")
        )
    told = ForwardedOutput(message=message, said=words.text)
    return ToolResult(told, page=words.text, origin=who, images=words.images, is_error=words.is_error)
