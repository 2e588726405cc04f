"""The JSON Schema of the wire, made from the types in `wire`.

`python -m native_host.protocol.schema > docs/wire.schema.json` writes it; a test keeps the file equal to the
types.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from native_host.protocol.wire import METHODS, Wire


def schema() -> dict[str, Any]:
    """All messages: `$defs` has the shapes, `messages` says which of them params and result have."""
    shapes: list[type[Wire]] = []
    for method in METHODS.values():
        shapes += [shape for shape in (method.params, method.result) if shape is not None]
    _, definitions = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mcpb native wire, version 1",
        "messages": {
            method.name: {
                "route": method.route,
                "params": _reference(method.params),
                **({"result": _reference(method.result)} if method.result else {}),
            }
            for method in METHODS.values()
        },
        "$defs": definitions,
    }


def _reference(shape: type[Wire]) -> dict[str, str]:
    return {"$ref": f"#/$defs/{shape.__name__}"}


def text() -> str:
    """Return the schema as text of docs/wire.schema.json."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
