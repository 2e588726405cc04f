"""Validation of a call's arguments against the tool's `inputSchema`, before the call is sent.

Browsers do not validate them.
"""

from __future__ import annotations

import json
from typing import Any, Self

import msgspec

from bridge.errors import CallError
from bridge.hub.page_tool import PageTool
from bridge.hub.schemas.compiled_schema import CompiledSchemas, Subject
from native_host.protocol.validation_errors import rejected_field
from native_host.protocol.wire import Code

_ARGUMENTS = Subject("arguments", "inputSchema", lambda tool: tool.input_schema)
_objects = msgspec.json.Decoder(dict[str, Any])


class Arguments:
    """Arguments of a call, as JSON and as Python values; each form is made from the other on first use.

    The page receives the bytes that the client wrote. Schema and page read the last one of repeated members.
    """

    __slots__ = ("_raw", "_value")

    def __init__(self, raw: bytes | None, value: dict[str, Any] | None = None) -> None:
        """`raw` is a JSON object; None: `value` has its members."""
        self._raw = raw
        self._value = value

    @classmethod
    def of(cls, value: dict[str, Any]) -> Self:
        """Return arguments with these values."""
        return cls(None, value)

    @property
    def raw(self) -> bytes:
        """A JSON object.

        Raises:
            CallError: JSON cannot carry the values.
        """
        if self._raw is None:
            try:
                # Not msgspec: it refuses integers beyond 64 bits and turns NaN into null without a word.
                text = json.dumps(self._value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
                self._raw = text.encode()
            except (ValueError, RecursionError) as error:
                raise _make_error(error) from None
        return self._raw

    @property
    def value(self) -> dict[str, Any]:
        """Members of the arguments.

        Raises:
            CallError: they are not an object, or hold an unreadable value such as a number out of range.
        """
        if self._value is None:
            try:
                self._value = _objects.decode(self.raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise _make_error(error, rejected_field(error)) from None
        return self._value


NOTHING = Arguments(b"{}")


def _make_error(error: Exception, logged: str | None = None) -> CallError:
    return CallError(Code.INVALID_PARAMS, str(error), handed=False, logged=logged)


class ArgumentCheck:
    """Validates arguments, and names each field that is wrong."""

    def __init__(self) -> None:
        self._schemas = CompiledSchemas(_ARGUMENTS)

    def find_errors(self, tool: PageTool, arguments: dict[str, Any]) -> str:
        """Return the errors of the arguments: see `CompiledSchema.find_errors`."""
        compiled = self._schemas.find(tool)
        return compiled.find_errors(arguments, tool) if compiled else ""

    def rejected_fields(self, tool: PageTool, arguments: dict[str, Any]) -> str:
        """Return the fields that `find_errors` rejects: see `CompiledSchema.rejected_fields`."""
        compiled = self._schemas.find(tool)
        return compiled.rejected_fields(arguments, tool) if compiled else ""
