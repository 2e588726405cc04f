"""Contents of the browser's resources: results of the browser tools, under the rules of these tools."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import msgspec

from bridge.browser_tools.browser_resources import PLAIN, TABS, TabPart, TabUri, media_type, parse_tab_uri
from bridge.browser_tools.result_size import MOST_CHARS
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool import Tool
from bridge.browser_tools.tool_output import Image, ToolOutput, ToolResult
from bridge.browser_tools.tools.get_page_text import GetPageText
from bridge.errors import NotOfferedError
from bridge.hub.tool_definition import OWN_META

PDF = "application/pdf"
Tools = Mapping[str, Tool[Any, CallContext]]
RunTool = Callable[[Tool[Any, CallContext], dict[str, Any]], Awaitable[ToolResult]]
"""Runs a tool for the session that reads, by the tool's rules."""


class _Source(NamedTuple):
    """Tool behind a part of a tab, and its fixed arguments."""

    tool: str
    arguments: dict[str, Any]


_WHOLE: dict[str, Any] = {"max_chars": MOST_CHARS}
_SOURCES: dict[TabPart, _Source] = {
    "text": _Source("get_page_text", _WHOLE),
    "outline": _Source("read_page", _WHOLE),
    "screenshot": _Source("computer", {"action": "screenshot"}),
    "console": _Source("read_console_messages", _WHOLE),
    "network": _Source("read_network_requests", _WHOLE),
    "pdf": _Source("get_page_text", {}),
}


async def read_tabs(uri: str, tools: Tools, run: RunTool) -> dict[str, Any]:
    """Return the session's tabs as MCP contents."""
    return _structured(uri, await run(tools["tabs_context"], {}))


async def read_tab(uri: str, wanted: TabUri, tools: Tools, run: RunTool) -> dict[str, Any]:
    """Return a part of a tab as MCP contents.

    Raises:
        CallError, ToolError: as the tool behind it.
    """
    source = _SOURCES[wanted.part]
    tool, arguments = tools[source.tool], dict(source.arguments)
    if wanted.tab is not None:
        arguments["tabId"] = wanted.tab
    if wanted.offset:
        arguments["offset"] = wanted.offset
    if wanted.limit is not None:
        arguments["max_chars"] = wanted.limit
    if wanted.part == "pdf":
        tool = replace(tool, run=_print_pdf)
    result = await run(tool, arguments)
    if result.images:
        return _binary(uri, result.images[0], result.origin)
    if media_type(wanted.part) == PLAIN or type(result.output) is ToolOutput:
        text = result.page or result.output.message
        return {"uri": uri, "mimeType": PLAIN, "text": text, "_meta": _mark(result.origin)}
    return _structured(uri, result)


def admission_of(uri: str, tools: Tools) -> tuple[Tool[Any, CallContext], dict[str, Any]]:
    """Return a tool that is admitted like a read of the resource and does nothing else, and its arguments.

    Raises:
        NotOfferedError: there is no such resource.
    """
    if uri == TABS:
        return tools["tabs_context"], {}
    wanted = parse_tab_uri(uri)
    if wanted is None:
        raise NotOfferedError(uri)
    source = _SOURCES[wanted.part]
    arguments = {**source.arguments, **({} if wanted.tab is None else {"tabId": wanted.tab})}
    return replace(tools[source.tool], run=_use_tab), arguments


async def _use_tab(given: Any, context: CallContext) -> ToolResult:
    await context.use_tab(given.tab_id)
    return ToolResult(ToolOutput(message=""))


def _structured(uri: str, result: ToolResult) -> dict[str, Any]:
    text = msgspec.json.encode(result.output).decode()
    return {"uri": uri, "mimeType": "application/json", "text": text, "_meta": _mark(result.origin)}


def _binary(uri: str, image: Image, origin: str) -> dict[str, Any]:
    blob = base64.b64encode(image.data).decode()
    return {"uri": uri, "mimeType": image.mime_type, "blob": blob, "_meta": _mark(origin)}


def _mark(origin: str) -> dict[str, Any]:
    return {f"{OWN_META}untrusted": True, **({f"{OWN_META}origin": origin} if origin else {})}


async def _print_pdf(given: GetPageText, context: CallContext) -> ToolResult:
    """Print a tab, as `get_page_text` would be allowed to read it."""
    place = await context.use_tab(given.tab_id)
    page = context.page_of(place)
    await context.check_picture(page)
    params = {"printBackground": True}
    printed = await page.within_document(partial(page.run_command, "Page.printToPDF", params))
    context.check_here((await page.main_frame()).origin)  # rules and frames may have changed meanwhile
    await context.check_picture(page)
    image = Image(base64.b64decode(printed["data"]), PDF)
    return ToolResult(ToolOutput(message="The page as a PDF."), origin=place.tab.origin, images=[image])
