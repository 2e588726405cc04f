"""The JSON Schema of the wire, made from the types in `wire`.

`python -m native_host.protocol.schema > docs/wire.schema.json` writes it; a test keeps the file equal to the
types.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from native_host.protocol.wire import METHODS


class DescribedMethod(Protocol):
    """One message: its route and its types."""

    @property
    def name(self) -> str:
        """Name of the method."""

    @property
    def route(self) -> str:
        """Sender and receiver."""

    @property
    def params(self) -> type[msgspec.Struct]:
        """Type of the params."""

    @property
    def result(self) -> type[msgspec.Struct] | None:
        """Type of the result; None for a notification."""


def schema() -> dict[str, Any]:
    """All messages: `$defs` has the shapes, `messages` says which of them params and result have."""
    return describe_methods("mcpb native wire, version 1", METHODS.values())


def describe_methods(title: str, methods: Iterable[DescribedMethod]) -> dict[str, Any]:
    """Return the schema of these messages."""
    described = list(methods)
    shapes: list[type[msgspec.Struct]] = []
    for method in described:
        shapes += [shape for shape in (method.params, method.result) if shape is not None]
    _, definitions = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "messages": {
            method.name: {
                "route": method.route,
                "params": _reference(method.params),
                **({"result": _reference(method.result)} if method.result else {}),
            }
            for method in described
        },
        "$defs": definitions,
    }


def _reference(shape: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/$defs/{shape.__name__}"}


def format_schema(described: dict[str, Any]) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(described, indent=2, ensure_ascii=False) + "\n"


def text() -> str:
    """Return the schema as text of docs/wire.schema.json."""
    return format_schema(schema())


if __name__ == "__main__":
    sys.stdout.write(text())
