"""Validation of a call's arguments against the tool's `inputSchema`, before the call is sent.

Browsers do not validate them. It fetches nothing, and leaves checks that could take long to the page.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import cached_property, reduce
from itertools import islice
from operator import getitem
from typing import TYPE_CHECKING, Any, Self

import msgspec

from bridge.errors import CallError
from bridge.hub.page_tool import PageTool
from bridge.hub.schema_limits import MAX_VALUE_DEPTH, SchemaCost, TooCostlyError, measure_extent
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.validation_errors import describe_unknown, rejected_field
from native_host.protocol.wire import Code

if TYPE_CHECKING:
    import jsonschema_rs

MAX_SCHEMA = 256 * 1024
"""Bytes of a tool's definition."""
MAX_KEPT = 128
MAX_STEPS = 200_000
"""Steps of one check: usually 0.02 s, at worst 0.2 s."""
MAX_DETAIL = 1_000_000
"""Steps of the check times size of the arguments: each error message copies its value."""
MAX_ERRORS = 3
MAX_ERROR = 200
"""Characters of each."""

_REGEX_BYTES = 256 * 1024
_REGEX_CACHE_BYTES = 64 * 1024
_SHOWN_CHARS = 60
_VALUE = "\x00"
"""Stands for the value in the library's messages: they would have all of it."""
_OPEN = ("additionalProperties", "patternProperties", "unevaluatedProperties")
"""Keywords of an object schema that allow members without a name of their own, or reject them."""

_log = logging.getLogger(__name__)
_objects = msgspec.json.Decoder(dict[str, Any])


class Arguments:
    """Arguments of a call, as JSON and as Python values; each form is made from the other on first use.

    The page receives the bytes that the client wrote. Schema and page read the last one of repeated members.
    """

    def __init__(self, raw: bytes) -> None:
        """`raw` is a JSON object."""
        self.raw = raw

    @classmethod
    def of(cls, value: dict[str, Any]) -> Self:
        """Return arguments with these values."""
        arguments = cls.__new__(cls)
        arguments.value = value
        return arguments

    @cached_property
    def raw(self) -> bytes:
        """A JSON object.

        Raises:
            CallError: JSON cannot carry the values.
        """
        try:
            # Not msgspec: it refuses integers beyond 64 bits and turns NaN into null without a word.
            text = json.dumps(self.value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return text.encode()
        except (ValueError, RecursionError) as error:
            raise _make_error(error) from None

    @cached_property
    def value(self) -> dict[str, Any]:
        """Members of the arguments.

        Raises:
            CallError: they are not an object, or hold an unreadable value such as a number out of range.
        """
        try:
            return _objects.decode(self.raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _make_error(error, rejected_field(error)) from None


NOTHING = Arguments(b"{}")


def _make_error(error: Exception, logged: str | None = None) -> CallError:
    return CallError(Code.INVALID_PARAMS, str(error), handed=False, logged=logged)


class ArgumentCheck:
    """Compiles each schema when it is first needed, and keeps it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, _CompiledSchema | None] = OrderedDict()

    def find_errors(self, tool: PageTool, arguments: dict[str, Any]) -> str:
        """Return the errors of the arguments, naming each field; empty if valid or unchecked.

        The result is one line with at most MAX_ERRORS errors: `count: "two" is not of type "integer"`.
        """
        if tool.digest in self._kept:
            self._kept.move_to_end(tool.digest)
        else:
            self._cache_schema(tool)
        compiled = self._kept[tool.digest]
        return compiled.find_errors(arguments, tool) if compiled else ""

    def rejected_fields(self, tool: PageTool, arguments: dict[str, Any]) -> str:
        """Return the fields that `refusal` rejects, each with its rule: `count: type`. No value is quoted."""
        compiled = self._kept.get(tool.digest)
        return compiled.rejected_fields(arguments, tool) if compiled else ""

    def _cache_schema(self, tool: PageTool) -> None:
        try:
            self._kept[tool.digest] = _CompiledSchema(tool)
        except ValueError as error:
            self._kept[tool.digest] = None
            _log_unchecked(tool.name, str(error))
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


class _CompiledSchema:
    """Compiled schema of one tool.

    Raises:
        ValueError: it is not a schema, or it exceeds a limit.
    """

    def __init__(self, tool: PageTool) -> None:
        if len(tool.raw) > MAX_SCHEMA:
            raise TooCostlyError(f"its definition is longer than {MAX_SCHEMA} bytes")
        schema = msgspec.json.decode(tool.input_schema)
        self._name = tool.name
        self._cost = SchemaCost(schema)
        self._validator = _make_validator(schema)
        self._has_warned = False

    def find_errors(self, arguments: dict[str, Any], tool: PageTool) -> str:
        extent = measure_extent(arguments, MAX_VALUE_DEPTH)
        if extent.depth > MAX_VALUE_DEPTH:
            return f"arguments: are nested more than {MAX_VALUE_DEPTH} deep"
        size = self._cost.size_of(extent)
        steps = self._cost.expanded * size
        if steps > MAX_STEPS and (steps := self._cost.count_steps(arguments, MAX_STEPS)) > MAX_STEPS:
            self._warn_once()
            return ""
        try:
            if self._validator.is_valid(arguments):
                return ""
            if not self._can_locate(steps, size):
                return "arguments: do not fit the tool's inputSchema (they are too large to say where)"
            schema = msgspec.json.decode(tool.input_schema)
            errors = self._validator.iter_errors(arguments)
            texts = (text for error in errors for text in _format_errors(error, arguments, schema))
            return "; ".join(dict.fromkeys(islice(texts, MAX_ERRORS)))  # several errors may name one argument
        except ValueError:
            return ""  # half a character in a key, or what is no JSON: it will not get into a message either

    def rejected_fields(self, arguments: dict[str, Any], tool: PageTool) -> str:
        extent = measure_extent(arguments, MAX_VALUE_DEPTH)
        size = self._cost.size_of(extent)
        if extent.depth > MAX_VALUE_DEPTH or not self._can_locate(self._cost.expanded * size, size):
            return "arguments: inputSchema"
        declared = _declared_names(msgspec.json.decode(tool.input_schema))
        errors = islice(self._validator.iter_errors(arguments), MAX_ERRORS)
        return "; ".join(_rejected_field(error, declared) for error in errors)

    def _can_locate(self, steps: float, size: float) -> bool:
        """Return whether listing the errors stays cheap: each error copies the value that it is about."""
        return min(self._cost.expanded, steps) * size <= MAX_DETAIL

    def _warn_once(self) -> None:
        if not self._has_warned:
            _log_unchecked(self._name, "they, or the schema, are too large")
        self._has_warned = True


def _make_validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    # Here, not on top: it takes 40 ms, and many bridges never call a page's tool.
    import jsonschema_rs  # noqa: PLC0415

    validator_of_draft = jsonschema_rs.validator_cls_for(schema)
    try:
        return validator_of_draft(
            schema,
            offline=True,
            validate_formats=False,
            mask=_VALUE,
            pattern_options=jsonschema_rs.RegexOptions(_REGEX_BYTES, _REGEX_CACHE_BYTES),
        )
    except jsonschema_rs.ValidationError as error:
        raise ValueError(
            _format_error(["inputSchema", *error.instance_path], _format_message(error))
        ) from None


def _log_unchecked(name: str, reason: str) -> None:
    _log.warning(
        "arguments of %s go unchecked: %s", single_line(name, _SHOWN_CHARS), single_line(reason, MAX_ERROR)
    )


# ── Reports of errors ───────────────────────────────────────────────────────────────────────────────────────


def _format_errors(
    error: jsonschema_rs.ValidationError, arguments: dict[str, Any], schema: Any
) -> Iterator[str]:
    from jsonschema_rs import ValidationErrorKind as Kind  # noqa: PLC0415

    path = error.instance_path
    match error.kind:
        case Kind.Required(property=name):
            yield single_line(f"{_format_field([*path, name])} is missing", MAX_ERROR)
            yield from _format_unknown(path, _misspelled(error, arguments, schema), error, schema)
        case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
            yield from _format_unknown(path, names, error, schema)
        case Kind.FalseSchema() if error.schema_path[-1:] == ["additionalProperties"]:
            # So the library says that a tool takes nothing, about the first member only and not by its name.
            yield from _format_unknown(path, _value_at(arguments, path), error, schema)
        case Kind.FalseSchema():
            yield _format_error(path, "is not allowed")
        case Kind.AnyOf(context=context) | Kind.OneOfNotValid(context=context):
            reasons = " or ".join(_format_message(errors[0]) for errors in context[:MAX_ERRORS] if errors)
            yield _format_error(path, f"fits no alternative: {reasons}")
        case _:
            yield _format_error(path, _format_message(error))


def _misspelled(error: jsonschema_rs.ValidationError, arguments: dict[str, Any], schema: Any) -> list[str]:
    """Return the members beside a missing one that the tool does not declare, unless it takes any name."""
    if any(keyword in _object_schema(error, schema) for keyword in _OPEN):
        return []
    declared = _declared_names(schema)
    return [name for name in _value_at(arguments, error.instance_path) if name not in declared]


def _format_unknown(
    path: list[str | int], names: Iterable[str], error: jsonschema_rs.ValidationError, schema: Any
) -> Iterator[str]:
    properties = _object_schema(error, schema).get("properties")
    known = properties if isinstance(properties, dict) else ()
    for name in names:
        yield single_line(describe_unknown(_format_field([*path, name]), name, known), MAX_ERROR)


def _object_schema(error: jsonschema_rs.ValidationError, schema: Any) -> dict[str, Any]:
    """Return the schema of the object whose members an error is about; empty if it cannot be located."""
    try:
        found = _value_at(schema, error.schema_path[:-1])
    except (LookupError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _rejected_field(error: jsonschema_rs.ValidationError, declared: set[str]) -> str:
    """Return field and rule of an error. Names that the schema does not declare are the client's own: `*`."""
    from jsonschema_rs import ValidationErrorKind as Kind  # noqa: PLC0415

    path = [step if isinstance(step, int) or step in declared else "*" for step in error.instance_path]
    match error.kind:
        case Kind.Required(property=name):
            return _format_error([*path, name], "required")
        case Kind.FalseSchema():
            return _format_error(path, "additionalProperties")
        case _:
            rule = error.schema_path[-1] if error.schema_path else "inputSchema"
            return _format_error(path, str(rule))


def _declared_names(schema: Any) -> set[str]:
    """Return all property names that a schema declares."""
    names: set[str] = set()
    left = [schema]
    while left:
        match left.pop():
            case dict() as found:
                if isinstance(properties := found.get("properties"), dict):
                    names.update(properties)
                left.extend(found.values())
            case list() as found:
                left.extend(found)
    return names


def _value_at(value: Any, path: list[str | int]) -> Any:
    return reduce(getitem, path, value)


def _format_error(path: list[str | int], what: str) -> str:
    return f"{_format_field(path)}: {single_line(what, MAX_ERROR - _SHOWN_CHARS - 2)}"


def _format_field(path: list[str | int]) -> str:
    """For instance `lines[2].price`; of a long one the end."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    shown = single_line(text, len(text)) or "arguments"
    return shown if len(shown) <= _SHOWN_CHARS else f"…{shown[1 - _SHOWN_CHARS :]}"


def _format_message(error: jsonschema_rs.ValidationError) -> str:
    """Return the library's message about `_VALUE`, with the value itself as far as it fits."""
    value = json.dumps(error.instance, ensure_ascii=False, default=str)
    return error.message.replace(_VALUE, single_line(value, _SHOWN_CHARS), 1)
