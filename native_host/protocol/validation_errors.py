"""Interpreter of msgspec's validation errors: path, rule and expected type of a rejected value.

msgspec has no structured errors, so this module alone parses their texts. What quotes a problem to another
party than its sender uses `rejected_field`, which contains no value and no name that the sender made up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from itertools import islice
from typing import Any

import msgspec

_PLACE = r"(?P<text>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>[\w.\[\]]*)`)?"
"""msgspec's own end of a text: a path of declared fields, indices, and `[...]` for other keys."""


class ProblemKind(Enum):
    """Rule that a value breaks. The values are the names that the audit log has."""

    MISSING = "required"
    UNKNOWN = "additionalProperties"
    CHOICE = "enum"
    RANGE = "range"
    LENGTH = "length"
    PATTERN = "pattern"
    TYPE = "type"
    OTHER = "invalid"
    """Invalid JSON, or a rule of a type's own, in `expected`."""


class ValidationProblem(msgspec.Struct, frozen=True):
    """A value that its type does not allow."""

    path: str
    """Path of the value: `policy.allow[1]`; of the object that misses a field, or has an unknown one."""
    kind: ProblemKind
    expected: str = ""
    """Type names, joined by ` | `; the name of a missing field; the text of a rule of the type's own."""
    actual: str = ""
    """Type name of the value; name of an unknown field; value that is not one of the choices."""
    comparison: str = ""
    """RANGE, LENGTH: `<=`, `>=`, `<`, `>` or empty for an exact length. PATTERN: the regular expression."""
    limit: float = 0

    @property
    def field(self) -> str:
        """Path of the value, the name of a missing or unknown field included."""
        names = {ProblemKind.MISSING: self.expected, ProblemKind.UNKNOWN: self.actual}
        return ".".join(filter(None, [self.path, names.get(self.kind, "")]))


# Patterns are compiled on first use: most bridges start and end without such an error.
_CHOICE_OR_FIELD = (
    (r"Object missing required field `(?P<expected>.*)`", ProblemKind.MISSING),
    (r"Object contains unknown field `(?P<actual>.*)`", ProblemKind.UNKNOWN),
    (r"Invalid enum value ['\"]?(?P<actual>.*?)['\"]?", ProblemKind.CHOICE),
    (r"Invalid value ['\"]?(?P<actual>.*?)['\"]?", ProblemKind.CHOICE),
)
_EXPECTED = (
    (r"`(?P<expected>int|float)` (?P<comparison>[<>]=?) (?P<limit>\S+)", ProblemKind.RANGE),
    (r"`(?P<expected>\w+)` of length (?P<comparison>[<>]?=?) ?(?P<limit>\d+)", ProblemKind.LENGTH),
    (r"`(?P<expected>str)` matching regex '(?P<comparison>.*)'", ProblemKind.PATTERN),
    (r"`(?P<expected>[^`]+)`(?:, got `(?P<actual>[^`]+)`)?", ProblemKind.TYPE),
)


def explain(error: Exception) -> ValidationProblem:
    """Return the problem that a `msgspec.DecodeError` or `ValidationError` reports."""
    place = re.fullmatch(_PLACE, str(error), re.DOTALL)
    text, path = (place["text"], place["path"] or "") if place else (str(error), "")
    for pattern, kind in _CHOICE_OR_FIELD:
        if found := re.fullmatch(pattern, text, re.DOTALL):
            names: dict[str, Any] = found.groupdict()
            return ValidationProblem(path, kind, **names)
    rule = text.removeprefix("Expected ")
    for pattern, kind in _EXPECTED if rule != text else ():
        if found := re.fullmatch(pattern, rule, re.DOTALL):
            parts: dict[str, Any] = {name: part or "" for name, part in found.groupdict().items()}
            return ValidationProblem(path, kind, limit=float(parts.pop("limit", 0)), **parts)
    return ValidationProblem(path, ProblemKind.OTHER, text)


def rejected_field(error: Exception) -> str:
    """Return the field that was rejected and the rule, for instance `limit: type`."""
    problem = explain(error)
    if problem.kind is ProblemKind.UNKNOWN:
        return f"arguments: {problem.kind.value}"
    return f"{problem.field or 'arguments'}: {problem.kind.value}"


# ── For users ───────────────────────────────────────────────────────────────────────────────────────────────

_TOML_TYPES = {"object": "table"}


def describe_rule(problem: ValidationProblem, *, is_toml: bool = False) -> str:
    """Return what a value must be: `expected int <= 128`."""
    types = _TOML_TYPES if is_toml else {}
    expected = " | ".join(types.get(name, name) for name in problem.expected.split(" | "))
    match problem.kind:
        case ProblemKind.MISSING:
            return f"{problem.expected} is missing"
        case ProblemKind.UNKNOWN:
            return f"there is no key {problem.actual}"
        case ProblemKind.CHOICE:
            return f"{problem.actual} is not one of its values"
        case ProblemKind.RANGE:
            return f"expected {expected} {problem.comparison} {problem.limit:g}"
        case ProblemKind.LENGTH:
            bound = f"{problem.comparison} {problem.limit:g}".lstrip()
            return f"expected {expected} of length {bound}"
        case ProblemKind.PATTERN:
            return f"expected {expected} matching {problem.comparison}"
        case ProblemKind.TYPE if problem.expected.startswith("bool") and "str" not in problem.expected:
            return "write true or false"
        case ProblemKind.TYPE:
            actual = types.get(problem.actual, problem.actual)
            return f"expected {expected}" + (f", got {actual}" if actual else "")
        case ProblemKind.OTHER:
            return problem.expected.replace("`", "")


def describe_problem(error: Exception, *, is_toml: bool = False) -> str:
    """Return the place and the rule: `shortcut[0].step[1].tool: expected str, got int`."""
    problem = explain(error)
    rule = describe_rule(problem, is_toml=is_toml)
    return f"{problem.path}: {rule}" if problem.path else rule


# ── For models ──────────────────────────────────────────────────────────────────────────────────────────────

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_BOUNDS = {"<=": "at most ", ">=": "at least "}
_UNITS = {"array": "item", "str": "character"}
_MAX_COMPARED = 100
"""Known names that an unknown one is compared with."""
_MAX_COMPARED_CHARS = 60


def describe_argument(error: Exception, schema: dict[str, Any]) -> str:
    """Return what is wrong with arguments of a JSON Schema, without a full stop: `sugar is at most 30`."""
    problem = explain(error)
    subject = problem.path or "the value"
    match problem.kind:
        case ProblemKind.MISSING:
            return f"{problem.field} is missing"
        case ProblemKind.UNKNOWN:
            names = _schema_at(schema, problem.path).get("properties", {})
            return describe_unknown(problem.field, problem.actual, names)
        case ProblemKind.CHOICE:
            return f"{subject} is one of {', '.join(map(str, _choices(schema, problem.path)))}"
        case ProblemKind.RANGE:
            return f"{subject} is {_BOUNDS[problem.comparison]}{problem.limit:g}"
        case ProblemKind.LENGTH:
            plural = "" if problem.limit == 1 else "s"
            bound = _BOUNDS.get(problem.comparison, "")
            return f"{subject} has {bound}{problem.limit:g} {_UNITS[problem.expected]}{plural}"
        case ProblemKind.TYPE if problem.actual:
            return f"{subject} is {_name_types(problem.expected)}, not {_name_types(problem.actual)}"
        case _:
            return f"{subject}: {describe_rule(problem)}"


def describe_unknown(field: str, name: str, known: Iterable[str]) -> str:
    """Return that an argument is unknown, with the nearest known name, else with all of them.

    `field` is its path as shown, `name` the last step of that path.
    """
    # Only a failed call needs the module. Long names are left out: the comparison is quadratic.
    from difflib import get_close_matches  # noqa: PLC0415

    comparable = [each for each in islice(known, _MAX_COMPARED) if len(each) <= _MAX_COMPARED_CHARS]
    nearest = get_close_matches(name, comparable, 1) if len(name) <= _MAX_COMPARED_CHARS else []
    if nearest:
        return f'unknown argument "{field}": did you mean "{nearest[0]}"?'
    return f'unknown argument "{field}"; known: {", ".join(comparable) or "none"}'


def _name_types(names: str) -> str:
    return " or ".join(_KINDS.get(name, name) for name in names.split(" | "))


def _choices(schema: dict[str, Any], path: str) -> list[Any]:
    schema = _schema_at(schema, path)
    return schema.get("enum") or [schema.get("const", "the values that its description names")]


def _schema_at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    for name in re.findall(r"[^.\[\]]+|\[", path.replace("[...]", "[")):
        if not name.isdigit():
            schema = schema.get("items", {}) if name == "[" else schema.get("properties", {}).get(name, {})
    return schema
