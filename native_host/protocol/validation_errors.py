"""Interpreter of msgspec's validation errors: field and rule of a rejected value.

It quotes no value, and no name that the sender made up. msgspec has no structured errors, so it parses their
texts.
"""

from __future__ import annotations

import re

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
