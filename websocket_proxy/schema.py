"""JSON Schema of the WebSocket proxy protocol, made from the types in `protocol`.

`python -m websocket_proxy.schema > docs/proxy.schema.json` writes it; a test keeps the file equal to the
types.
"""

from __future__ import annotations

import sys
from typing import Any

from native_host.protocol.schema import describe_methods, format_schema
from websocket_proxy.protocol import METHODS, PROTOCOL_VERSION


def schema() -> dict[str, Any]:
    """Return all messages: `$defs` has the types, `messages` names those of params and result."""
    return describe_methods(f"mcpb WebSocket proxy protocol, version {PROTOCOL_VERSION}", METHODS.values())


def text() -> str:
    """Return the schema as text of docs/proxy.schema.json."""
    return format_schema(schema())


if __name__ == "__main__":
    sys.stdout.write(text())
