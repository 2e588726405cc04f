"""Arguments of Claude in Chrome's clients, without members that a browser tool does not accept.

That product's extension ignores unknown arguments. Some of its clients send a tab and a group in every call.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import msgspec

from bridge.browser_tools.tool_definitions import read_definitions
from bridge.hub.argument_validation import Arguments

_OF_ALL = {"tabId", "tabGroupId"}
"""Arguments that the extension accepts with every tool, whether or not it uses them."""


class AcceptedArguments(NamedTuple):
    """Accepted arguments of a tool."""

    arguments: Arguments
    left_out: list[str]
    """Names that meant nothing; who called is to know."""


def accept_arguments(tool: str, raw: bytes) -> AcceptedArguments:
    """Remove arguments that a browser tool does not accept; page tools get `raw` unchanged."""
    known = _accepted_names().get(tool)
    if known is None:
        return AcceptedArguments(Arguments(raw), [])
    try:
        given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return AcceptedArguments(Arguments(raw), [])  # the tool says what is wrong with it
    if given.keys() <= known:
        return AcceptedArguments(Arguments(raw), [])
    taken = {name: value for name, value in given.items() if name in known}
    left_out = [name for name in given if name not in known | _OF_ALL]
    return AcceptedArguments(Arguments(msgspec.json.encode(taken)), left_out)


@cache
def _accepted_names() -> dict[str, set[str]]:
    """Return the accepted arguments of each tool that rejects others."""
    return {
        tool.name: set(tool.definition["inputSchema"]["properties"])
        for tool in read_definitions()
        if not tool.accepts_unknown
    }
