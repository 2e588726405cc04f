"""JSON Schemas of tools, compiled once, and the errors of values.

They fetch nothing. Checks that could take long are left out.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import islice
from operator import getitem
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from bridge.hub.page_tool import PageTool
from bridge.hub.schemas.schema_limits import MAX_VALUE_DEPTH, SchemaCost, TooCostlyError, measure_extent
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.validation_errors import describe_unknown

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


class Subject(NamedTuple):
    """What is validated."""

    value: str
    """Name of the value, for instance `arguments`."""
    keyword: str
    """Member of the tool that has the schema."""
    schema_of: Callable[[PageTool], bytes]
    """Returns the schema of a tool as JSON."""


class _Work(msgspec.Struct, frozen=True):
    """Cost of one check."""

    depth: int
    """Levels of the value."""
    size: float
    """Units of work in the value."""
    steps: float


class CompiledSchemas:
    """Compiles each schema when it is first needed, and keeps it."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._kept: OrderedDict[bytes, CompiledSchema | None] = OrderedDict()

    def find(self, tool: PageTool) -> CompiledSchema | None:
        """Return the schema of a tool; None: nothing is checked, and the log has the reason."""
        try:
            self._kept.move_to_end(tool.digest)
        except KeyError:
            self._compile(tool)
        return self._kept[tool.digest]

    def _compile(self, tool: PageTool) -> None:
        try:
            self._kept[tool.digest] = CompiledSchema(self._subject, tool)
        except ValueError as error:
            self._kept[tool.digest] = None
            _log_unchecked(self._subject, tool.name, str(error))
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


class CompiledSchema:
    """Compiled schema of one tool.

    Raises:
        ValueError: it is not a schema, or it exceeds a limit.
    """

    def __init__(self, subject: Subject, tool: PageTool) -> None:
        if len(tool.raw) > MAX_SCHEMA:
            raise TooCostlyError(f"its definition is longer than {MAX_SCHEMA} bytes")
        schema = msgspec.json.decode(subject.schema_of(tool))
        self._subject = subject
        self._name = tool.name
        self._cost = SchemaCost(schema)
        self._validator = _make_validator(schema, subject.keyword)
        self._has_warned = False

    def is_valid(self, value: Any) -> bool:
        """Return whether a value fits, or is too costly to check."""
        return self._find_mismatch(value) is None

    def find_errors(self, value: Any, tool: PageTool) -> str:
        """Return the errors of a value, naming each field; empty if it is valid or unchecked.

        The result is one line with at most MAX_ERRORS errors: `count: "two" is not of type "integer"`.
        """
        work = self._find_mismatch(value)
        if work is None:
            return ""
        name, keyword, schema_of = self._subject
        if work.depth > MAX_VALUE_DEPTH:
            return f"{name}: are nested more than {MAX_VALUE_DEPTH} deep"
        if not self._can_locate(work):
            return f"{name}: do not fit the tool's {keyword} (they are too large to say where)"
        schema = msgspec.json.decode(schema_of(tool))
        try:
            errors = self._validator.iter_errors(value)
            texts = (text for error in errors for text in _format_errors(error, value, schema, name))
            return "; ".join(dict.fromkeys(islice(texts, MAX_ERRORS)))  # several errors may name one argument
        except ValueError:
            return ""  # as in `_find_mismatch`

    def rejected_fields(self, value: Any, tool: PageTool) -> str:
        """Return the fields of an invalid value, each with its rule: `count: type`. No value is quoted."""
        name, keyword, schema_of = self._subject
        work = self._measure(value)
        if work.depth > MAX_VALUE_DEPTH or not self._can_locate(work):
            return f"{name}: {keyword}"
        declared = _declared_names(msgspec.json.decode(schema_of(tool)))
        errors = islice(self._validator.iter_errors(value), MAX_ERRORS)
        return "; ".join(_rejected_field(error, declared, self._subject) for error in errors)

    def _measure(self, value: Any) -> _Work:
        extent = measure_extent(value, MAX_VALUE_DEPTH)
        size = self._cost.size_of(extent)
        steps = self._cost.expanded * size
        if steps > MAX_STEPS and extent.depth <= MAX_VALUE_DEPTH:
            steps = self._cost.count_steps(value, MAX_STEPS)
        return _Work(extent.depth, size, steps)

    def _find_mismatch(self, value: Any) -> _Work | None:
        """Return the cost of a value that does not fit; None: it fits, or is too costly to check."""
        work = self._measure(value)
        if work.depth > MAX_VALUE_DEPTH:
            return work
        if work.steps > MAX_STEPS:
            self.log_unchecked("the value, or the schema, is too large")
            return None
        try:
            return None if self._validator.is_valid(value) else work
        except ValueError:
            return None  # half a character in a key, or no JSON: it will not get into a message either

    def _can_locate(self, work: _Work) -> bool:
        """Return whether listing the errors stays cheap: each error copies the value that it is about."""
        return min(self._cost.expanded, work.steps) * work.size <= MAX_DETAIL

    def log_unchecked(self, reason: str) -> None:
        """Log, the first time, that a value is not checked."""
        if not self._has_warned:
            _log_unchecked(self._subject, self._name, reason)
        self._has_warned = True


def _make_validator(schema: dict[str, Any], keyword: str) -> jsonschema_rs.Validator:
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
        raise ValueError(_format_error([keyword, *error.instance_path], _format_message(error))) from None


def _log_unchecked(subject: Subject, name: str, reason: str) -> None:
    shown, why = single_line(name, _SHOWN_CHARS), single_line(reason, MAX_ERROR)
    _log.warning("%s of %s: not checked, because %s", subject.value, shown, why)


# ── Reports of errors ───────────────────────────────────────────────────────────────────────────────────────


def _format_errors(
    error: jsonschema_rs.ValidationError, value: Any, schema: Any, name_of_value: str
) -> Iterator[str]:
    from jsonschema_rs import ValidationErrorKind as Kind  # noqa: PLC0415

    path = error.instance_path
    match error.kind:
        case Kind.Required(property=name):
            yield single_line(f"{_format_field([*path, name])} is missing", MAX_ERROR)
            yield from _format_unknown(path, _misspelled(error, value, schema), error, schema)
        case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
            yield from _format_unknown(path, names, error, schema)
        case Kind.FalseSchema() if error.schema_path[-1:] == ["additionalProperties"]:
            # So the library says that a tool takes nothing, about the first member only and not by its name.
            yield from _format_unknown(path, _value_at(value, path), error, schema)
        case Kind.FalseSchema():
            yield _format_error(path, "is not allowed", name_of_value)
        case Kind.AnyOf(context=context) | Kind.OneOfNotValid(context=context):
            reasons = " or ".join(_format_message(errors[0]) for errors in context[:MAX_ERRORS] if errors)
            yield _format_error(path, f"fits no alternative: {reasons}", name_of_value)
        case _:
            yield _format_error(path, _format_message(error), name_of_value)


def _misspelled(error: jsonschema_rs.ValidationError, value: Any, schema: Any) -> list[str]:
    """Return the members beside a missing one that the tool does not declare, unless it takes any name."""
    if any(keyword in _object_schema(error, schema) for keyword in _OPEN):
        return []
    declared = _declared_names(schema)
    return [name for name in _value_at(value, error.instance_path) if name not in declared]


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


def _rejected_field(error: jsonschema_rs.ValidationError, declared: set[str], subject: Subject) -> str:
    """Return field and rule of an error. Names that the schema does not declare are those of a value: `*`."""
    from jsonschema_rs import ValidationErrorKind as Kind  # noqa: PLC0415

    path = [step if isinstance(step, int) or step in declared else "*" for step in error.instance_path]
    match error.kind:
        case Kind.Required(property=name):
            return _format_error([*path, name], "required")
        case Kind.FalseSchema():
            return _format_error(path, "additionalProperties", subject.value)
        case _:
            rule = error.schema_path[-1] if error.schema_path else subject.keyword
            return _format_error(path, str(rule), subject.value)


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


def _format_error(path: list[str | int], what: str, name_of_value: str = "") -> str:
    return f"{_format_field(path) or name_of_value}: {single_line(what, MAX_ERROR - _SHOWN_CHARS - 2)}"


def _format_field(path: list[str | int]) -> str:
    """For instance `lines[2].price`; of a long one the end."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    shown = single_line(text, len(text))
    return shown if len(shown) <= _SHOWN_CHARS else f"…{shown[1 - _SHOWN_CHARS :]}"


def _format_message(error: jsonschema_rs.ValidationError) -> str:
    """Return the library's message about `_VALUE`, with the value itself as far as it fits."""
    value = json.dumps(error.instance, ensure_ascii=False, default=str)
    return error.message.replace(_VALUE, single_line(value, _SHOWN_CHARS), 1)
