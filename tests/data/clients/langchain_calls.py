"""MCP client of `make clients` on langchain-mcp-adapters: makes CALLS, prints tools and results as JSON.

program.py stdio COMMAND… | http URL | sse URL
"""

import asyncio
import json
import os
import sys

from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

kind, *server = sys.argv[1:]
headers = {"Authorization": f"Bearer {os.environ.get('ACCESS_TOKEN')}"}
stdio = {"transport": "stdio", "command": server[0], "args": server[1:], "env": dict(os.environ)}
remote = {
    "transport": {"http": "streamable_http", "sse": "sse"}.get(kind),
    "url": server[0],
    "headers": headers,
}


async def main() -> None:
    client = MultiServerMCPClient({"browser": stdio if kind == "stdio" else remote})
    async with client.session("browser") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        for tool in tools.values():
            convert_to_openai_tool(tool)
        results = [
            await tools[name].ainvoke(arguments) for name, arguments in json.loads(os.environ["CALLS"])
        ]
    print(json.dumps({"tools": list(tools), "results": results}))


asyncio.run(main())
