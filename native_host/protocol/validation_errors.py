"""Interpreter of msgspec's validation errors: field and rule of a rejected value.

It quotes no value, and no name that the sender made up. msgspec has no structured errors, so it parses their
texts.

What is wrong with arguments: msgspec's words for those who know Python, in words for all. Pure.
"""

from __future__ import annotations

import re
from typing import Any

_PATH = re.compile(r" - at `(?:key in )?\$\.?([\w.\[\]]*)`$")
"""msgspec's own mark at the end of a text: names of declared fields, indices, and `[...]` for other keys."""
_RULES = (
    (re.compile(r"Object missing required field"), "required"),
    (re.compile(r"Invalid enum value|Invalid value"), "enum"),
    (re.compile(r"Expected `(?:int|float)` [<>]"), "range"),
    (re.compile(r"Expected `\w+` of length"), "length"),
    (re.compile(r"Expected `str` matching regex"), "pattern"),
    (re.compile(r"Expected `"), "type"),
)
_MISSING = re.compile(r"Object missing required field `(\w+)`")


def rejected_field(error: Exception) -> str:
    """Return the field that was rejected and the rule, for instance `limit: type`."""
    text = str(error)
    if text.startswith("Object contains unknown field"):  # its name is the sender's
        return "arguments: additionalProperties"
    rule = next((name for pattern, name in _RULES if pattern.match(text)), "invalid")
    path = found[1] if (found := _PATH.search(text)) else ""
    if missing := _MISSING.match(text):
        path = f"{path}.{missing[1]}".lstrip(".")
    return f"{path or 'arguments'}: {rule}"


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_BOUNDS = {"<=": "at most", ">=": "at least"}
_UNITS = {"array": "item", "str": "character"}


def in_words(complaint: str, schema: dict[str, Any]) -> str:
    """The text of a ValidationError about arguments of this JSON Schema, without a full stop."""
    what, _, path = complaint.partition(" - at `$")
    where = path.rstrip("`").lstrip(".")
    within = f"{where}." if where else ""
    if found := re.fullmatch(r"Object missing required field `(.+)`", what):
        return f"{within}{found[1]} is missing"
    if found := re.fullmatch(r"Object contains unknown field `(.+)`", what):
        return f"there is no argument {within}{found[1]}; there are {_names(schema) or 'none'}"
    subject = where or "what was given"
    if found := re.fullmatch(r"Invalid enum value .*", what, re.DOTALL):
        return f"{subject} is one of {', '.join(map(str, _choices(schema, where)))}"
    if found := re.fullmatch(r"Expected `(?:int|float)` (<=|>=) (\S+)", what):
        return f"{subject} is {_BOUNDS[found[1]]} {float(found[2]):g}"
    if found := re.fullmatch(r"Expected `(array|str)` of length (<=|>=) (\d+)", what):
        plural = "" if found[3] == "1" else "s"
        return f"{subject} has {_BOUNDS[found[2]]} {found[3]} {_UNITS[found[1]]}{plural}"
    if found := re.fullmatch(r"Expected `(.+)`, got `(.+)`", what):
        return f"{subject} is {_kinds(found[1])}, not {_kinds(found[2])}"
    return f"{subject}: {what}"


def _kinds(names: str) -> str:
    return " or ".join(_KINDS.get(name, name) for name in names.split(" | "))


def _names(schema: dict[str, Any]) -> str:
    return ", ".join(schema["properties"])


def _choices(schema: dict[str, Any], path: str) -> list[Any]:
    for name in re.findall(r"[^.\[\]]+|\[", path.replace("[...]", "[")):
        if not name.isdigit():
            schema = schema.get("items", {}) if name == "[" else schema.get("properties", {}).get(name, {})
    return schema.get("enum") or [schema.get("const", "what its description says")]
