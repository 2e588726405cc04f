"""Tools, resources and prompts of the instructable MCP server, each with one behavior of a server.

A tool that asks its client does so in the way of the era: a request in mid-call, or an input-required result.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types
import trio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
WAV = base64.b64encode(b"RIFF\x00\x00\x00\x00WAVE").decode()
ERROR_CODE = -32099
"""Of the tool `boom`."""
BLOCKS: dict[str, Json] = {
    "text": {"type": "text", "text": "A text."},
    "image": {"type": "image", "data": PNG, "mimeType": "image/png"},
    "audio": {"type": "audio", "data": WAV, "mimeType": "audio/wav"},
    "resource": {
        "type": "resource",
        "resource": {"uri": "memo://one", "mimeType": "text/plain", "text": "A memo."},
    },
    "blob": {
        "type": "resource",
        "resource": {"uri": "memo://two", "mimeType": "application/octet-stream", "blob": "AAEC"},
    },
    "resource_link": {"type": "resource_link", "uri": "memo://one", "name": "one"},
    "unknown": {"type": "hologram", "depth": 3},
}


def _tool(name: str, properties: Json | None = None, **members: Any) -> Json:
    schema: Json = {"type": "object"} | ({"properties": properties} if properties else {})
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **members}


NUMBER, TEXT, FLAG = {"type": "number"}, {"type": "string"}, {"type": "boolean"}
TOOLS: list[Json] = [
    _tool("echo", {"text": TEXT}, annotations={"readOnlyHint": True}),
    _tool("add", {"a": NUMBER, "b": NUMBER}),
    _tool("fail"),
    _tool("boom"),
    _tool("slow", {"steps": NUMBER, "interval_s": NUMBER, "endless": FLAG}),
    _tool("blocks", {"kinds": {"type": "array", "items": TEXT}, "structured": FLAG}),
    _tool("sample"),
    _tool("elicit", {"url": FLAG, "rounds": NUMBER}),
    _tool("roots"),
    _tool("log", {"level": TEXT}),
    _tool("detach"),
    _tool("die"),
]
RESOURCES: list[Json] = [
    {"uri": "memo://one", "name": "one", "mimeType": "text/plain"},
    {"uri": "memo://two", "name": "two", "mimeType": "application/octet-stream"},
]
TEMPLATES: list[Json] = [{"uriTemplate": "memo://{name}", "name": "memo"}]
PROMPTS: list[Json] = [
    {"name": "greet", "description": "Greet a city.", "arguments": [{"name": "city", "required": True}]}
]
CITIES = ["Bergen", "Oslo", "Tromsø"]
"""Completions of the argument `city`."""

SAMPLING: Json = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Name a color."}}],
    "maxTokens": 10,
}
FORM: Json = {
    "message": "Which color?",
    "requestedSchema": {"type": "object", "properties": {"color": TEXT}, "required": ["color"]},
}
URL_ELICITATION: Json = {
    "mode": "url",
    "message": "Sign in.",
    "url": "https://example.com/sign-in",
    "elicitationId": "sign-in-1",
}


def text_result(text: str, **members: Any) -> Json:
    """Return a tool result of one text block."""
    return {"content": [{"type": "text", "text": text}], **members}


def is_modern(context: Context) -> bool:
    """Return whether a request came in an era without handshake."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


async def _echo(_: Context, arguments: Json) -> Json:
    return text_result(str(arguments.get("text", "")))


async def _add(_: Context, arguments: Json) -> Json:
    return text_result(str(arguments["a"] + arguments["b"]))


async def _fail(_: Context, __: Json) -> Json:
    return text_result("It failed.", isError=True)


async def _boom(_: Context, __: Json) -> Json:
    raise MCPError(code=ERROR_CODE, message="Boom.", data={"reason": "asked for"})


async def _slow(context: Context, arguments: Json) -> Json:
    steps = arguments.get("steps", 3)
    for step in range(steps):
        await context.session.report_progress(step + 1, steps, f"step {step + 1}")
        await trio.sleep(arguments.get("interval_s", 0.02))
    if arguments.get("endless"):
        await trio.sleep_forever()
    return text_result("done")


async def _blocks(_: Context, arguments: Json) -> Json:
    kinds = arguments.get("kinds", list(BLOCKS))
    content = {"content": [BLOCKS[kind] for kind in kinds]}
    return content | ({"structuredContent": {"answer": 42}} if arguments.get("structured") else {})


async def _ask(context: Context, request: mcp_types.ServerRequest, result: type[mcp_types.Result]) -> Json:
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    answer = await context.session.send_request(request, result, metadata=metadata)
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


def _require_input(context: Context, method: str, params: Json | None, rounds: int = 1) -> Json:
    """Answer a call of 2026-07-28: an input-required result per round, then the last response as text."""
    called = context.params or {}
    done = int(called.get("requestState") or 0)
    if done == rounds:
        return text_result(json.dumps(called["inputResponses"]["question"]))
    asked: Json = {"method": method} | ({"params": params} if params else {})
    return {
        "resultType": "input_required",
        "inputRequests": {"question": asked},
        "requestState": str(done + 1),
    }


async def _sample(context: Context, _: Json) -> Json:
    if is_modern(context):
        return _require_input(context, "sampling/createMessage", SAMPLING)
    request = mcp_types.CreateMessageRequest.model_validate(
        {"method": "sampling/createMessage", "params": SAMPLING}
    )
    return text_result(json.dumps(await _ask(context, request, mcp_types.CreateMessageResult)))


async def _elicit(context: Context, arguments: Json) -> Json:
    params = URL_ELICITATION if arguments.get("url") else FORM
    rounds = arguments.get("rounds", 1)
    if is_modern(context):
        return _require_input(context, "elicitation/create", params, rounds)
    request = mcp_types.ElicitRequest.model_validate({"method": "elicitation/create", "params": params})
    for _ in range(rounds):
        answer = await _ask(context, request, mcp_types.ElicitResult)
    return text_result(json.dumps(answer))


async def _roots(context: Context, _: Json) -> Json:
    if is_modern(context):
        return _require_input(context, "roots/list", None)
    request = mcp_types.ListRootsRequest()
    return text_result(json.dumps(await _ask(context, request, mcp_types.ListRootsResult)))


async def _log(context: Context, arguments: Json) -> Json:
    level = arguments.get("level", "info")
    await context.session.send_log_message(level, "A log message.", "tests", context.request_id)
    return text_result("logged")


async def _detach(context: Context, _: Json) -> Json:
    """End the response's stream in mid-call, behind its first event: the result waits for a resumption."""
    if context.request and context.close_sse_stream:
        await context.request.scope["has_begun"].wait()
        await context.close_sse_stream()
    return text_result("resumed")


async def _die(_: Context, __: Json) -> Json:
    os._exit(1)


CALLS: dict[str, Callable[[Context, Json], Awaitable[Json]]] = {
    "echo": _echo,
    "add": _add,
    "fail": _fail,
    "boom": _boom,
    "slow": _slow,
    "blocks": _blocks,
    "sample": _sample,
    "elicit": _elicit,
    "roots": _roots,
    "log": _log,
    "detach": _detach,
    "die": _die,
}


def read_resource(uri: str) -> Json:
    """Return the result of `resources/read`."""
    for kind in ("resource", "blob"):
        if (resource := BLOCKS[kind]["resource"])["uri"] == uri:
            return {"contents": [resource]}
    if uri.startswith("memo://"):
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"The memo {uri}."}]}
    raise MCPError(code=-32002, message="Resource not found", data={"uri": uri})


def get_prompt(name: str, arguments: Json) -> Json:
    """Return the result of `prompts/get`."""
    if name not in {prompt["name"] for prompt in PROMPTS}:
        raise MCPError(code=-32602, message="Unknown prompt")
    text = {"type": "text", "text": f"Greet {arguments.get('city', '?')}."}
    return {"messages": [{"role": "user", "content": text}]}


def complete(argument: Json) -> Json:
    """Return the result of `completion/complete`."""
    values = [city for city in CITIES if city.lower().startswith(argument["value"].lower())]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}
