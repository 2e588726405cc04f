"""MCP client of `make clients` on the Python SDK 2.x: cancels a call, and goes with another one open.

program.py stdio COMMAND… | http URL | sse URL
"""

import json
import os
import sys
from typing import Any

import anyio
import httpx2
import mcp
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

kind, *server = sys.argv[1:]
headers = {"Authorization": f"Bearer {os.environ.get('ACCESS_TOKEN')}"}
first, slow = json.loads(os.environ["CALLS"])
errors: list[str] = []


def connect(http: httpx2.AsyncClient) -> Any:
    if kind == "stdio":
        return mcp.StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ))
    if kind == "sse":
        return sse_client(server[0], headers)
    return streamable_http_client(server[0], http_client=http)


async def keep_error(message: object) -> None:
    if isinstance(message, Exception):
        errors.append(str(message))


async def main() -> None:
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        for mode in ("legacy",) if kind == "sse" else ("legacy", "auto"):
            async with mcp.Client(connect(http), mode=mode, message_handler=keep_error) as client:
                await client.call_tool(*first)
                with anyio.move_on_after(0.5):
                    await client.call_tool(*slow)
                await anyio.sleep(1)  # an answer would arrive now
                await client.list_tools()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.call_tool, *slow)
                    await anyio.sleep(0.5)
                    tasks.cancel_scope.cancel()
    print(json.dumps({"errors": errors}))


anyio.run(main)
