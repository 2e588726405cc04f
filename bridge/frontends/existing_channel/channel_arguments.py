"""Arguments as our browser tools take them: that product's extension passes over what a tool does not know.

Its clients count on that, and some name a tab and a group in every call.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import msgspec

from bridge.browser_tools.tool_definitions import read_definitions
from bridge.hub.argument_validation import Arguments

_OF_ALL = {"tabId", "tabGroupId"}
"""What the extension takes with every tool, whatever that does."""


class Fitted(NamedTuple):
    """What a tool is called with."""

    arguments: Arguments
    left_out: list[str]
    """Names that meant nothing; who called is to know."""


def fitted(tool: str, raw: bytes) -> Fitted:
    """`raw` without what a browser tool does not take; tools of pages get the very bytes."""
    known = _known().get(tool)
    if known is None:
        return Fitted(Arguments(raw), [])
    try:
        given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Fitted(Arguments(raw), [])  # the tool says what is wrong with it
    if given.keys() <= known:
        return Fitted(Arguments(raw), [])
    taken = {name: value for name, value in given.items() if name in known}
    left_out = [name for name in given if name not in known | _OF_ALL]
    return Fitted(Arguments(msgspec.json.encode(taken)), left_out)


@cache
def _known() -> dict[str, set[str]]:
    """By tool that refuses what it does not know."""
    schemas = {tool.name: tool.definition["inputSchema"] for tool in read_definitions()}
    return {
        name: set(schema["properties"])
        for name, schema in schemas.items()
        if not schema.get("additionalProperties", True)
    }
