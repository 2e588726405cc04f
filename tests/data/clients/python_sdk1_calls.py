"""MCP client of `make clients` on the Python SDK 1.x: makes CALLS, prints tools and results as JSON.

program.py stdio COMMAND… | http URL | sse URL
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

kind, *server = sys.argv[1:]
headers = {"Authorization": f"Bearer {os.environ.get('ACCESS_TOKEN')}"}


def connect() -> Any:
    if kind == "stdio":
        return stdio_client(StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ)))
    return (streamablehttp_client if kind == "http" else sse_client)(server[0], headers=headers)


async def main() -> None:
    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(connect())
        session = await stack.enter_async_context(ClientSession(*streams[:2]))
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        calls = json.loads(os.environ["CALLS"])
        results = [
            (await session.call_tool(name, arguments)).model_dump(mode="json")["content"]
            for name, arguments in calls
        ]
    print(json.dumps({"tools": tools, "results": results}))


asyncio.run(main())
