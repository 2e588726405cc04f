"""Completion of the arguments of prompts, and of the variables of resource templates. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from bridge.errors import CallError
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code

MAX_VALUES = 100
"""Values of one completion (MCP)."""
MAX_BYTES = 64 * 1024
"""Bytes of a page's completion. A longer one is rejected."""


class Completion(msgspec.Struct, rename="camel", omit_defaults=True):
    """MCP's `completion` member: the first values, and how many there are."""

    values: Sequence[str]
    total: int | None = None
    has_more: bool | None = None

    def __post_init__(self) -> None:
        if len(self.values) > MAX_VALUES:
            self.total = len(self.values) if self.total is None else max(self.total, len(self.values))
            self.values, self.has_more = self.values[:MAX_VALUES], True


class _CompletedArgument(msgspec.Struct):
    name: str
    value: str


class _CompletionRequest(msgspec.Struct):
    argument: _CompletedArgument


class _CompleteResult(msgspec.Struct):
    completion: Completion


_results = msgspec.json.Decoder(_CompleteResult)


def read_completion(payload: bytes) -> bytes:
    """Return an MCP CompleteResult (JSON) without `_meta` for that of the server of a page, or a remote one.

    Raises:
        CallError: it is too large or invalid.
    """
    if len(payload) > MAX_BYTES:
        detail = f"the completion has {len(payload)} bytes, and at most {MAX_BYTES} are passed on"
        raise CallError(Code.TOO_LARGE, detail, handed=True)
    try:
        return encode_completion(_results.decode(payload).completion)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        detail = f"the server's answer is no completion: {describe_problem(error)}"
        raise CallError(Code.INTERNAL_ERROR, detail, handed=True) from None


def complete_values(asked: msgspec.Raw, find: Callable[[str], Sequence[str] | None]) -> bytes:
    """Return an MCP CompleteResult (JSON) with the known values that begin as the client has written.

    Args:
        asked: the members of a `completion/complete`.
        find: returns the values of an argument or variable; None: nothing is known.
    """
    written = msgspec.json.decode(asked, type=_CompletionRequest).argument
    known = find(written.name) or ()
    return encode_completion(Completion([value for value in known if value.startswith(written.value)]))


def encode_completion(completion: Completion) -> bytes:
    """Return an MCP CompleteResult (JSON) without `_meta`."""
    result: dict[str, Any] = {"completion": completion}
    return msgspec.json.encode(result)
