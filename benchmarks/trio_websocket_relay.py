"""Relay on trio-websocket: one extension, one client, request ids mapped, as short programs of others do.

It prints its port. Arguments: the certificate and the key of a server with TLS.
"""

from __future__ import annotations

import json
import ssl
import sys
from contextlib import suppress
from typing import Any
from uuid import uuid4

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, WebSocketRequest, serve_websocket

MOST_BYTES = 64 * 1024 * 1024
connection_id = f"conn-{uuid4()}"
ends: dict[str, WebSocketConnection] = {}
waiting: dict[str, Any] = {}
"""Ids of the client, by those that the extension sees."""


async def relay(request: WebSocketRequest) -> None:
    """Relay the messages of one end."""
    role = request.path
    end = ends[role] = await request.accept()
    with suppress(ConnectionClosed):
        while True:
            message = json.loads(await end.get_message())
            if role == "/mcp":
                shared = f"{connection_id}:{message['id']}"
                waiting[shared] = message["id"]
                message["id"] = shared
                await ends["/extension"].send_message(_encode(message))
            else:
                message["id"] = waiting.pop(message["id"])
                await ends["/mcp"].send_message(_encode(message))


def _encode(message: dict[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


async def main(*files: str) -> None:
    """Serve until it is killed."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if files else None
    if context:
        context.load_cert_chain(*files)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(_serve, context)
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()


async def _serve(context: ssl.SSLContext | None, *, task_status: trio.TaskStatus[Any]) -> None:
    await serve_websocket(
        relay, "127.0.0.1", 0, context, max_message_size=MOST_BYTES, task_status=task_status
    )


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
