"""Shapes of JSON documents: schemas without wording, member paths, differences, stable text."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

WORDING = frozenset({"title", "description"})
"""Keywords of a JSON Schema that only users and models read."""
LINE_CHARS = 110
"""Length up to which `format_json` writes an object or array on one line."""

_TYPES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


class Difference(NamedTuple):
    """One difference between two documents."""

    change: Literal["removed", "added", "changed"]
    path: str
    """Keys from the root, separated by ` > `. The last one may be an element of an array of scalars."""
    detail: str = ""
    """Value that was removed or added, or both values of a change, as JSON."""

    def __str__(self) -> str:
        return f"{self.change} {self.path}{self.detail and f': {self.detail}'}"


# ── Schemas ─────────────────────────────────────────────────────────────────────────────────────────────────


def inline_references(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Replace each `$ref` by the definition that it names: names of classes are no interface."""
    match schema:
        case {"$ref": str(reference), **rest}:
            named = inline_references(definitions[reference.rpartition("/")[2]], definitions)
            return {**named, **inline_references(rest, definitions)}
        case dict():
            return {name: inline_references(member, definitions) for name, member in schema.items()}
        case list():
            return [inline_references(item, definitions) for item in schema]
        case _:
            return schema


def remove_wording(schema: Any) -> Any:
    """Remove titles and descriptions. A property may be called `title`; defaults stay as they are."""
    match schema:
        case {"properties": dict(properties), **rest}:
            plain = {name: remove_wording(member) for name, member in properties.items()}
            return {**remove_wording(rest), "properties": plain}
        case dict():
            return {
                name: member if name == "default" else remove_wording(member)
                for name, member in schema.items()
                if name not in WORDING
            }
        case list():
            return [remove_wording(item) for item in schema]
        case _:
            return schema


# ── Members ─────────────────────────────────────────────────────────────────────────────────────────────────


def collect_member_types(documents: Iterable[Any], opaque: Iterable[str] = ()) -> dict[str, str]:
    """Return the JSON types of every member of these documents, by dotted path: `browsers[].tabs[].title`.

    Members below those named in `opaque` are left out.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        for path, value in _walk("", document, frozenset(opaque)):
            found[path].add(_TYPES[type(value)])
    return {path: " | ".join(sorted(types)) for path, types in sorted(found.items())}


def _walk(path: str, value: Any, opaque: frozenset[str]) -> Iterator[tuple[str, Any]]:
    if path:
        yield path, value
    if isinstance(value, dict) and path.rpartition(".")[2] not in opaque:
        for name, member in value.items():
            yield from _walk(f"{path}.{name}".removeprefix("."), member, opaque)
    elif isinstance(value, list):
        for item in value:
            yield from _walk(f"{path}[]", item, opaque)


# ── Differences ─────────────────────────────────────────────────────────────────────────────────────────────


def find_differences(before: Any, after: Any, path: str) -> Iterator[Difference]:
    """Yield what changed between two documents. The order of an array of scalars does not count."""
    match before, after:
        case dict(), dict():
            yield from _compare_members(before, after, path)
        case list(), list() if _has_only_scalars(*before, *after):
            yield from (Difference("removed", f"{path} > {each}") for each in before if each not in after)
            yield from (Difference("added", f"{path} > {each}") for each in after if each not in before)
        case _ if before != after:
            yield Difference("changed", path, f"{_format_line(before)} -> {_format_line(after)}")


def _compare_members(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[Difference]:
    for name in sorted(before.keys() | after.keys()):
        below = f"{path} > {name}"
        if name not in after:
            yield Difference("removed", below, _format_line(before[name]))
        elif name not in before:
            yield Difference("added", below, _format_line(after[name]))
        else:
            yield from find_differences(before[name], after[name], below)


def _has_only_scalars(*values: Any) -> bool:
    return not any(isinstance(value, dict | list) for value in values)


# ── Text ────────────────────────────────────────────────────────────────────────────────────────────────────


def format_json(value: Any, column: int = 0, indent: int = 0) -> str:
    """Format JSON with sorted members, and with each value that fits on a line on one line."""
    line = _format_line(value)
    if column + len(line) <= LINE_CHARS or _has_only_scalars(value):
        return line
    margin = " " * (indent + 2)
    if isinstance(value, dict):
        heads = [f"{margin}{_format_line(name)}: " for name in sorted(value)]
        return _format_block("{}", heads, [value[name] for name in sorted(value)], indent)
    return _format_block("[]", [margin] * len(value), value, indent)


def _format_block(brackets: str, heads: Sequence[str], values: Sequence[Any], indent: int) -> str:
    lines = [
        head + format_json(value, len(head) + len(","), indent + 2)
        for head, value in zip(heads, values, strict=True)
    ]
    return "\n".join([brackets[0], ",\n".join(lines), " " * indent + brackets[1]])


def _format_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
