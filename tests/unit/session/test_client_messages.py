"""Client lines that McpSession answers itself; it leaves all others to the mcp package."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.mcp_session import client_messages

LONG = "{[" * 5_000
"""Brackets in a text nest nothing."""
READ_DEPTH = 200
"""So deep the package reads, or a little deeper."""


def nested(depth: int) -> Any:
    """Arrays and objects in turn."""
    value: Any = 1
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


def call(arguments: Any, meta: Any = None) -> bytes:
    params = {"name": "tool", "_meta": meta or {}, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


def is_taken(line: bytes) -> bool:
    return isinstance(client_messages.read_message(line), client_messages.CallTool)


@pytest.mark.parametrize("long", [{}, {"text": LONG}, {"texts": [LONG]}], ids=["short", "long", "in a list"])
def test_a_call_is_taken_as_deep_as_the_package_surely_reads(long: dict[str, Any]) -> None:
    assert is_taken(call({**long, "deep": nested(180)}))
    assert not is_taken(call({**long, "deep": nested(READ_DEPTH)}))


@pytest.mark.parametrize("long", [{}, {"text": LONG}, {"texts": [LONG]}], ids=["short", "long", "in a list"])
def test_what_stands_beside_long_arguments_is_not_overlooked(long: dict[str, Any]) -> None:
    assert is_taken(call(long, {"deep": nested(180)}))
    assert not is_taken(call(long, {"deep": nested(READ_DEPTH)}))


def test_long_arguments_are_found_where_another_member_has_their_name() -> None:
    assert is_taken(call({"text": LONG}, {"arguments": {"text": "other"}}))
    assert not is_taken(call({"text": LONG, "deep": nested(READ_DEPTH)}, {"arguments": {"text": "other"}}))
