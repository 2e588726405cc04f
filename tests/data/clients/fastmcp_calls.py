"""MCP client of `make clients` on fastmcp: makes CALLS, prints tools and results as JSON.

program.py stdio COMMAND… | http URL | sse URL
"""

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport

kind, *server = sys.argv[1:]
headers = {"Authorization": f"Bearer {os.environ.get('ACCESS_TOKEN')}"}


def transport() -> Any:
    if kind == "stdio":
        return StdioTransport(server[0], server[1:], env=dict(os.environ))
    return (StreamableHttpTransport if kind == "http" else SSETransport)(server[0], headers=headers)


async def main() -> None:
    async with Client(transport()) as client:
        tools = [tool.name for tool in await client.list_tools()]
        results = [
            [block.model_dump(mode="json") for block in (await client.call_tool(name, arguments)).content]
            for name, arguments in json.loads(os.environ["CALLS"])
        ]
    print(json.dumps({"tools": tools, "results": results}))


asyncio.run(main())
