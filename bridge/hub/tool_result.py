"""Result of a page tool call from the extension: the page's result, or an error of its tool. Sans-IO."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bridge.errors import CallError, make_failure_result
from native_host.protocol import wire
from native_host.protocol.wire import Code

_MAX_PAGE_TEXT = 64 * 1024
BEFORE_PAYLOAD = b'{"success":true,"payload":'
"""So extensions begin, and end with a brace: then nothing needs to be read twice to find what is between."""


class Answer(NamedTuple):
    """A CallToolResult, as far as the page has given one."""

    result: bytes
    is_error: bool
    """The page says, by `isError` or by throwing, that the tool has failed."""


class _ErrorFlag(msgspec.Struct, rename="camel"):
    is_error: bool = False


_flagged = msgspec.json.Decoder(_ErrorFlag)
_executed = msgspec.json.Decoder(wire.Executed)


def read_result(executed: bytes) -> Answer | CallError:
    """Decode a result of `browser/executeTool`; return an error if it is invalid."""
    if executed.startswith(BEFORE_PAYLOAD + b"{"):
        payload = executed[len(BEFORE_PAYLOAD) : -1]
        try:
            return Answer(payload, _flagged.decode(payload).is_error)
        except (msgspec.DecodeError, RecursionError):
            pass  # more than the payload, or one that is no result of a tool
    return _decode_result(executed)


def _decode_result(executed: bytes) -> Answer | CallError:
    try:
        found = _executed.decode(executed)
    except (msgspec.DecodeError, RecursionError):
        return CallError(Code.INTERNAL_ERROR, "the extension's answer cannot be read", handed=True)
    if found.success:
        payload = bytes(found.payload)
        return Answer(payload, _says_error(payload))
    return Answer(make_failure_result(_format_thrown(found.payload)), is_error=True)


def _says_error(payload: bytes) -> bool:
    try:
        return _flagged.decode(payload).is_error
    except (msgspec.DecodeError, RecursionError):
        return False


def _format_thrown(payload: msgspec.Raw) -> str:
    try:
        text = msgspec.json.decode(payload, type=str)
    except msgspec.DecodeError:
        text = bytes(payload).decode()
    return text[:_MAX_PAGE_TEXT] or "The page's tool failed and did not say why."
