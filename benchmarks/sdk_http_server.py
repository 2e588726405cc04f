"""An MCP server as one writes it with the mcp package alone, in each way that MCP has over HTTP.

    python -m benchmarks.sdk_http_server fd://FD

FD is a socket that listens. It answers each load's tool by itself.
"""

from __future__ import annotations

import sys

import trio
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from benchmarks.bare_server import live, serve_app
from benchmarks.sdk_server import server_by_itself


async def serve(bind: str) -> None:
    """Serve until cancelled."""
    server = server_by_itself()
    streamable, legacy = StreamableHTTPSessionManager(server), SseServerTransport("/message")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        match scope:
            case {"type": "lifespan"}:
                await live(receive, send)
            case {"path": "/mcp"}:
                await streamable.handle_request(scope, receive, send)
            case {"path": "/sse"}:
                async with legacy.connect_sse(scope, receive, send) as (heard, said):
                    await server.run(heard, said, server.create_initialization_options())
            case _:
                await legacy.handle_post_message(scope, receive, send)

    async with streamable.run():
        await serve_app(app, bind)


if __name__ == "__main__":
    trio.run(serve, sys.argv[1])
