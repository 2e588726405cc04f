"""Upper bounds of the work that a JSON Schema causes, computed before it is compiled or run.

Pages write schemas, and a few lines can cost hours: references that double, expressions over long texts,
nested `unevaluated…`. A step is a validator's work on one keyword and one value, about 0.1 µs. A bound is
never below the validator's work: if a reference may have several targets, all of them count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

Schema = dict[str, Any]

MAX_DEPTH = 64
MAX_VALUE_DEPTH = 200
"""Depth of a value; the wire allows no deeper message."""
MAX_HEIGHT = 256
MAX_EXPANDED = 1_000_000
"""Keywords, references followed, of a schema that does not contain itself."""
MAX_PATTERNS = 100
"""Each may take 0.5 ms to compile."""
MAX_MEANINGS = 100
_MAX_DESCENT = 4000
"""Schemas within schemas while one value is checked; the usual stack of 8 MiB holds 12 000 (measured)."""

_PATTERN_CHAR_STEPS = 10
"""Linear time, but a large expression takes 1 to 7 µs for each character (measured)."""
_FREE_CHARS = 64
"""Characters that no expression reads, for one step."""
_UNEVALUATED_FACTOR = 3.0
"""`unevaluated…` runs again what is beside it: 2.6 times in each other (measured)."""

_HERE = ("not", "if", "then", "else")
_LISTS_HERE = ("allOf", "anyOf", "oneOf")
_MAPS_HERE = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_EACH_VALUE = ("additionalProperties", "unevaluatedProperties")
_EACH_ITEM = ("items", "additionalItems", "unevaluatedItems", "contains")
_ITEMS_IN_ORDER = ("prefixItems", "items")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_DEFINITIONS = ("$defs", "definitions")

_WITH_SCHEMAS = frozenset(
    {
        *(*_HERE, *_LISTS_HERE, *_MAPS_HERE, *_EACH_VALUE, *_EACH_ITEM, *_ITEMS_IN_ORDER),
        *("properties", "patternProperties", "propertyNames"),
    }
)
_TOO_HIGH = f"its schema has more than {MAX_HEIGHT} schemas within each other"


class TooCostlyError(ValueError):
    """The schema is over a bound, or refers to something outside itself; the text says what."""


class Extent(msgspec.Struct, frozen=True):
    """Size of a JSON value."""

    values: int
    chars: int
    """Characters of all its texts and keys."""
    depth: int
    """1 for a value that contains no other."""


def measure_extent(value: Any, max_depth: int) -> Extent:
    """Measure a value, down to `max_depth` and one level more."""
    values = chars = depth = 0
    level = [value]
    while level and depth <= max_depth:
        depth += 1
        values += len(level)
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                chars += len(one)
            elif isinstance(one, dict):
                chars += sum(map(len, one))
                below += one.values()
            elif isinstance(one, list):
                below += one
        level = below
    return Extent(values, chars, depth)


class SchemaCost:
    """Cost of validating a value against a schema."""

    def __init__(self, schema: Schema) -> None:
        """Count what can be known without a value.

        Raises:
            TooCostlyError: the schema is over a bound, or refers to something outside itself.
        """
        if measure_extent(schema, MAX_DEPTH).depth > MAX_DEPTH:
            raise TooCostlyError(f"its schema is nested more than {MAX_DEPTH} deep")
        places = _Places(schema)
        if places.patterns > MAX_PATTERNS:
            raise TooCostlyError(f"its schema has more than {MAX_PATTERNS} patterns")
        self._root = _make_graph(schema, places)
        self._char_steps = _PATTERN_CHAR_STEPS if places.patterns else 1 / _FREE_CHARS
        self.expanded = _count_nodes(self._root, set(), 0)
        """Steps for each unit of a value's size; infinite when the schema contains itself."""
        if self.expanded == math.inf and places.has_unevaluated:
            raise TooCostlyError(
                "its schema contains itself and has unevaluatedProperties or unevaluatedItems"
            )
        if MAX_EXPANDED < self.expanded < math.inf:
            raise TooCostlyError("its schema multiplies itself through references")

    def size_of(self, extent: Extent) -> float:
        """Return the units of work in a value: `expanded` times this is an upper bound."""
        return extent.values + extent.chars * self._char_steps

    def count_steps(self, value: Any, limit: int) -> float:
        """Return the steps to validate this value, by walking through both; infinity above `limit`."""
        steps = 0.0
        waiting: list[tuple[_Node, Any, float, int]] = [(self._root, value, 1.0, 0)]
        while waiting:
            node, one, times, depth = waiting.pop()
            steps += times * (node.own + node.reading_steps(one))
            if steps > limit or depth > _MAX_DESCENT:
                return math.inf
            times *= node.factor
            waiting += [(inner, part, times, depth + 1) for inner, part in node.apply_to(one)]
        return steps


# ── The schemas, and which of them applies which ────────────────────────────────────────────────────────────


class _Node(msgspec.Struct, eq=False):
    own: int
    """Steps of the keywords that stand in the schema itself."""
    factor: float
    has_pattern: bool
    name_patterns: int
    wants_unique: bool
    here: list[_Node] = msgspec.field(default_factory=list)
    by_name: dict[str, _Node] = msgspec.field(default_factory=dict)
    by_index: list[tuple[int, _Node]] = msgspec.field(default_factory=list)
    each_value: list[_Node] = msgspec.field(default_factory=list)
    each_name: list[_Node] = msgspec.field(default_factory=list)
    each_item: list[_Node] = msgspec.field(default_factory=list)
    expanded: float = math.inf
    height: int = 0

    def inner_nodes(self) -> Iterator[_Node]:
        """All schemas that may be applied because this one is."""
        yield from (*self.here, *self.by_name.values(), *self.each_value, *self.each_name, *self.each_item)
        yield from (node for _, node in self.by_index)

    def apply_to(self, value: Any) -> Iterator[tuple[_Node, Any]]:
        """Yield the schemas that apply to this value or its parts, each with its part."""
        yield from ((node, value) for node in self.here)
        if isinstance(value, dict):
            yield from ((node, value[name]) for name, node in self.by_name.items() if name in value)
            yield from ((node, part) for node in self.each_value for part in value.values())
            yield from ((node, name) for node in self.each_name for name in value)
        elif isinstance(value, list):
            yield from ((node, value[index]) for index, node in self.by_index if index < len(value))
            yield from ((node, item) for node in self.each_item for item in value)

    def reading_steps(self, value: Any) -> int:
        """Return the steps that depend on the length of the value itself."""
        if isinstance(value, str):
            return len(value) * _PATTERN_CHAR_STEPS if self.has_pattern else len(value) // _FREE_CHARS
        if self.name_patterns and isinstance(value, dict):
            return self.name_patterns * _PATTERN_CHAR_STEPS * sum(map(len, value))
        if self.wants_unique and isinstance(value, list):
            extent = measure_extent(value, MAX_VALUE_DEPTH)
            return extent.values + extent.chars // _FREE_CHARS
        return 0


def _make_graph(schema: Schema, places: _Places) -> _Node:
    """Return the node of `schema`, from which all others can be reached."""
    nodes: dict[int, _Node] = {}
    waiting: list[Schema] = []

    def node_of(inner: Schema) -> _Node:
        if id(inner) not in nodes:
            nodes[id(inner)] = _make_node(inner)
            waiting.append(inner)
        return nodes[id(inner)]

    root = node_of(schema)
    while waiting:
        one = waiting.pop()
        _connect_nodes(nodes[id(one)], one, places, node_of)
    return root


def _make_node(schema: Schema) -> _Node:
    return _Node(
        own=_own_size(schema),
        factor=_UNEVALUATED_FACTOR if any(keyword in schema for keyword in _UNEVALUATED) else 1.0,
        has_pattern="pattern" in schema,
        name_patterns=len(_map_of(schema, "patternProperties")),
        wants_unique=bool(schema.get("uniqueItems")),
    )


def _own_size(schema: Schema) -> int:
    """Return the size of a schema; lists and maps of schemas count by length."""
    steps = 1
    for keyword, content in schema.items():
        if keyword in _WITH_SCHEMAS:
            steps += len(content) if isinstance(content, dict | list) else 1
        elif keyword not in _DEFINITIONS:
            steps += measure_extent(content, MAX_DEPTH).values
    return steps


def _connect_nodes(node: _Node, schema: Schema, places: _Places, node_of: Callable[[Schema], _Node]) -> None:
    def make_nodes(*schemas: Iterable[Schema]) -> list[_Node]:
        return [node_of(one) for found in schemas for one in found]

    in_lists = (_keep_schemas(_list_of(schema, keyword)) for keyword in _LISTS_HERE)
    in_maps = (_keep_schemas(_map_of(schema, keyword).values()) for keyword in _MAPS_HERE)
    node.here = make_nodes(_find_referred(schema, places), _find_singles(schema, _HERE), *in_lists, *in_maps)
    properties = _map_of(schema, "properties").items()
    node.by_name = {name: node_of(inner) for name, inner in properties if isinstance(inner, dict)}
    node.each_value = make_nodes(
        _find_singles(schema, _EACH_VALUE), _keep_schemas(_map_of(schema, "patternProperties").values())
    )
    node.each_name = make_nodes(_find_singles(schema, ("propertyNames",)))
    node.each_item = make_nodes(_find_singles(schema, _EACH_ITEM))
    in_order = (pair for keyword in _ITEMS_IN_ORDER for pair in enumerate(_list_of(schema, keyword)))
    node.by_index = [(index, node_of(inner)) for index, inner in in_order if isinstance(inner, dict)]


def _find_referred(schema: Schema, places: _Places) -> Iterator[Schema]:
    for keyword in _REFERENCES:
        if isinstance(reference := schema.get(keyword), str):
            yield from places.meant_by(reference)


def _find_singles(schema: Schema, keywords: Iterable[str]) -> Iterator[Schema]:
    return _keep_schemas(schema.get(keyword) for keyword in keywords)


def _keep_schemas(found: Iterable[Any]) -> Iterator[Schema]:
    """Yield the schemas with keywords: true and false cost nothing."""
    return (one for one in found if isinstance(one, dict))


def _map_of(schema: Schema, keyword: str) -> dict[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, dict) else {}


def _list_of(schema: Schema, keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _count_nodes(node: _Node, begun: set[_Node], above: int) -> float:
    """Fill in `expanded` and `height`: what is met again while it is counted contains itself."""
    if node in begun:
        return node.expanded
    begun.add(node)
    if above > MAX_HEIGHT:
        raise TooCostlyError(_TOO_HIGH)
    expanded = float(node.own)
    for inner in node.inner_nodes():
        expanded += _count_nodes(inner, begun, above + 1)
        node.height = max(node.height, inner.height + 1)
    if node.height > MAX_HEIGHT:
        raise TooCostlyError(_TOO_HIGH)
    node.expanded = expanded * node.factor
    return node.expanded


# ── References ──────────────────────────────────────────────────────────────────────────────────────────────


class _Places:
    """Targets of references within a schema.

    Base URIs are not resolved: every possible target counts, and a reference without one is rejected. A
    validator that resolves it differently still does no more work than was counted.
    """

    def __init__(self, schema: Schema) -> None:
        self.patterns = 0
        self.has_unevaluated = False
        self._resources: list[Schema] = [schema]
        self._named: defaultdict[str, list[Schema]] = defaultdict(list)
        self._anchored: defaultdict[str, list[Schema]] = defaultdict(list)
        self._meant: dict[str, Sequence[Schema]] = {}
        waiting: list[Any] = [schema]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict):
                self._read_schema(one)
                waiting += one.values()
            elif isinstance(one, list):
                waiting += one

    def meant_by(self, reference: str) -> Sequence[Schema]:
        """Return the schemas that a reference may stand for.

        Raises:
            TooCostlyError: there is no such schema here, or there are too many.
        """
        if (known := self._meant.get(reference)) is not None:
            return known
        resource, _, fragment = reference.partition("#")
        found = self._find_in(
            self._named[_last_part(resource)] if resource else self._resources, unquote(fragment)
        )
        if not found:
            raise TooCostlyError("its schema refers to something outside itself, which is never fetched")
        if len(found) > MAX_MEANINGS:
            raise TooCostlyError("its schema has a reference that may mean too many things")
        self._meant[reference] = found
        return found

    def _find_in(self, resources: list[Schema], fragment: str) -> list[Schema]:
        if not fragment:
            return resources
        if not fragment.startswith("/"):
            return self._anchored[fragment]
        steps = [step.replace("~1", "/").replace("~0", "~") for step in fragment[1:].split("/")]
        found = (_find_at(resource, steps) for resource in resources[: MAX_MEANINGS + 1])
        return [one if isinstance(one, dict) else {} for one in found if isinstance(one, dict | bool)]

    def _read_schema(self, schema: Schema) -> None:
        self.patterns += isinstance(schema.get("pattern"), str) + len(_map_of(schema, "patternProperties"))
        self.has_unevaluated |= any(keyword in schema for keyword in _UNEVALUATED)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(keyword), str):
                self._anchored[anchor].append(schema)
        for keyword in ("$id", "id"):
            if isinstance(name := schema.get(keyword), str):
                resource, _, anchor = name.partition("#")
                self._resources.append(schema)
                self._named[_last_part(resource)].append(schema)
                self._anchored[anchor].append(schema)


def _last_part(resource: str) -> str:
    """Return the part of a URI that does not depend on its base."""
    return resource.rpartition("/")[2]


def _find_at(place: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        if isinstance(place, list) and step.isdecimal() and int(step) < len(place):
            place = place[int(step)]
        elif isinstance(place, dict) and step in place:
            place = place[step]
        else:
            return None
    return place
