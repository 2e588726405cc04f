"""MCP client of `make clients` on the Python SDK 1.x: cancels a call, and goes with another one open.

program.py stdio COMMAND… | http URL | sse URL
"""

import json
import os
import sys
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification

kind, *server = sys.argv[1:]
headers = {"Authorization": f"Bearer {os.environ.get('ACCESS_TOKEN')}"}
first, slow = json.loads(os.environ["CALLS"])
errors: list[str] = []


def connect() -> Any:
    if kind == "stdio":
        return stdio_client(StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ)))
    return (streamablehttp_client if kind == "http" else sse_client)(server[0], headers=headers)


async def keep_error(message: object) -> None:
    if isinstance(message, Exception):
        errors.append(str(message))


async def main() -> None:
    async with connect() as streams, ClientSession(*streams[:2], message_handler=keep_error) as session:
        await session.initialize()
        await session.call_tool(*first)
        request_id = session._request_id  # of the next request
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, *slow)
            await anyio.sleep(0.5)
            cancelled = CancelledNotificationParams(requestId=request_id)
            await session.send_notification(ClientNotification(CancelledNotification(params=cancelled)))
            tasks.cancel_scope.cancel()
        await anyio.sleep(1)  # an answer would arrive now
        await session.list_tools()
        with anyio.move_on_after(0.5):
            await session.call_tool(*slow)
    print(json.dumps({"errors": errors}))


anyio.run(main)
