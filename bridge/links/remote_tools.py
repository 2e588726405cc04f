"""Tools of a remote server as clients see them: public names, marked and sanitized texts, limits. Sans-IO."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from bridge import origins
from bridge.config.remote_settings import RemoteSettings
from bridge.hub.page_tool import NotAToolError, PageTool, read_tool
from bridge.hub.tool_definition import with_texts, without_texts
from bridge.links.remote_hops import EntryForm
from bridge.links.remote_lists import RemoteEntry
from bridge.links.remote_names import public_names, public_uri, tool_prefix
from native_host.protocol.untrusted_text import format_description, single_line
from native_host.protocol.validation_errors import describe_problem

MAX_TOOL_BYTES = 64 * 1024
"""Bytes of a tool in `tools/list`. A larger one is listed without its texts and its schema."""
_TOO_LONG = "Its definition is too long for a list; arguments are any object."
_MAX_SAID = 100

_log = logging.getLogger(__name__)


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool of a remote server."""

    name: str
    """Its public name."""
    own_name: str
    """The server's name for it."""
    tool: PageTool
    definition: bytes
    """MCP Tool (JSON) for clients."""
    raw: bytes
    """The server's definition (JSON)."""


Tools = Mapping[str, RemoteTool]
"""By public name, in the server's order."""


def origin_of(server: str) -> str:
    """Return what stands in the place of an origin for a remote server."""
    return f"{origins.REMOTE}{server}"


def make_tools(
    settings: RemoteSettings, form: EntryForm, entries: Sequence[RemoteEntry], max_name: int, known: Tools
) -> dict[str, RemoteTool]:
    """Return the tools as clients see them.

    Args:
        settings: of the server.
        form: of its entries.
        entries: tools of the server as `configured_remote.py` offers them.
        max_name: characters of a public name.
        known: tools of an earlier list of the same settings: an equal one stays the same object.
    """
    offered = form.select_entries(entries)
    shown = [str(entry.definition["name"]) for entry in offered]
    names = public_names(tool_prefix(settings.name), shown, max_name)
    tools: dict[str, RemoteTool] = {}
    for name, entry in zip(names, offered, strict=True):
        if name in tools:
            _log.warning("remote server %s: two tools would be called %s", settings.name, name)
            continue
        before = known.get(name)
        is_same = before is not None and (before.own_name, before.raw) == (entry.key, entry.raw)
        tool = before if is_same else _make_tool(settings, form, name, entry)
        if tool:
            tools[name] = tool
    return tools


def _make_tool(settings: RemoteSettings, form: EntryForm, name: str, entry: RemoteEntry) -> RemoteTool | None:
    try:
        tool = read_tool(entry.raw)
    except (NotAToolError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = single_line(describe_problem(error), 2 * _MAX_SAID)
        _log.warning("remote server %s: a tool is left out: %s", settings.name, why)
        return None
    origin = origin_of(settings.name)
    words = _describe(tool, settings.describe.get(entry.key))
    shown = with_texts(name, tool.raw, origin, words, partial(public_uri, settings.name))
    if shown.size > MAX_TOOL_BYTES:
        shown = without_texts(name, tool.raw, origin, _TOO_LONG)
    definition = shown.before.rstrip() + shown.behind  # between them, a page's tool has its tab
    return RemoteTool(name, entry.key, tool, form.mark_definition(definition), entry.raw)


def _describe(tool: PageTool, own_words: str | None) -> str:
    if own_words is not None:
        return own_words
    words = format_description(tool.description)
    return f"The server says: {words}" if words else "The server does not describe it."
