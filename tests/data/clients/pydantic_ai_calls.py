"""MCP client of `make clients` on pydantic-ai: makes CALLS, prints tools and results as JSON.

program.py stdio COMMAND… | http URL | sse URL
"""

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

kind, *server = sys.argv[1:]
headers = {"Authorization": f"Bearer {os.environ.get('ACCESS_TOKEN')}"}
calls = json.loads(os.environ["CALLS"])
seen: dict[str, list[str]] = {"tools": []}


def toolset() -> MCPToolset:
    if kind == "stdio":
        return MCPToolset(StdioTransport(server[0], server[1:], env=dict(os.environ)))
    return MCPToolset(
        (StreamableHttpTransport if kind == "http" else SSETransport)(server[0], headers=headers)
    )


def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    seen["tools"] = [tool.name for tool in info.function_tools]
    made = sum(isinstance(part, ToolCallPart) for message in messages for part in message.parts)
    if made == len(calls):
        return ModelResponse(parts=[TextPart("Done.")])
    return ModelResponse(parts=[ToolCallPart(*calls[made])])


def content(part: object) -> dict[str, Any]:
    if isinstance(part, BinaryContent):
        return {"type": "image", "mimeType": part.media_type}
    return {"type": "text", "text": part if isinstance(part, str) else json.dumps(part, default=str)}


async def main() -> None:
    agent = Agent(FunctionModel(play), toolsets=[toolset()])
    run = await agent.run("Go.")
    results = []
    for message in run.all_messages():
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                whole = part.content if isinstance(part.content, list) else [part.content]
                results.append([content(each) for each in whole])
            elif isinstance(part, UserPromptPart) and not isinstance(part.content, str):
                results[-1] += [content(each) for each in part.content]
    print(json.dumps({**seen, "results": results}))


asyncio.run(main())
