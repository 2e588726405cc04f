"""MCP servers that break the rules: raw HTTP over trio, one script per attack.

A server of each script behaves until the request that its script attacks: it does the handshake (or answers
`server/discover`), lists one tool, and answers its calls.

    async with hostile_server("huge_json") as server:
        server.url, server.counts["tools/call"]
"""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio

Json = dict[str, Any]

HUGE_BYTES = 70 << 20
MANY_TOOLS = 100_000
DESCRIPTION_CHARS = 1 << 20
MANY_VALUES = 10 << 20
TOOLS_PER_PAGE = 1000
DEPTH = 200_000
FLOOD = 500
"""Messages that a client did not ask for."""
FOREIGN_IDS = range(200)
"""Ids of requests that a client may have sent to this server or another one."""
COSTLY_LEVELS = 25
"""A validator that follows both branches at each level visits 2^25 schemas."""
_CHUNK = b"x" * (1 << 16)
_JSON, _EVENTS = "application/json", "text/event-stream"
_ALLOW_PAGES = (
    "Access-Control-Allow-Origin: *",
    "Access-Control-Allow-Methods: *",
    "Access-Control-Allow-Headers: *",
    "Access-Control-Expose-Headers: *",
)
_SESSION = "session-1"
_ELICITATION = {
    "method": "elicitation/create",
    "params": {"message": "Again?", "requestedSchema": {"type": "object", "properties": {}}},
}
_CHANGED = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).encode()
INJECTED_HEADER = "x-injected"
"""Appears in requests only if a client sends a session id with its line break."""


def make_tool(name: str = "good", **members: Any) -> Json:
    """Return the definition of a tool."""
    return {"name": name, "description": "A tool.", "inputSchema": {"type": "object"}, **members}


class Exchange:
    """A request and the bytes of its response."""

    def __init__(
        self,
        server: HostileServer,
        stream: trio.SocketStream,
        method: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> None:
        self.server = server
        self.method = method
        self.headers = headers
        self.message: Any = json.loads(body) if body else None
        self.stream = stream

    @property
    def rpc_method(self) -> str:
        """JSON-RPC method; that of a GET request is "GET"."""
        return str((self.message or {}).get("method", self.method))

    @property
    def params(self) -> Json:
        """Of the message."""
        params: Json = (self.message or {}).get("params") or {}
        return params

    def encode(self, result: Any, **members: Any) -> bytes:
        """Return a response message."""
        return json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result} | members).encode()

    async def answer(self, result: Any, **members: Any) -> None:
        """Respond with a result; members replace those of the message."""
        await self.respond(200, _JSON, self.encode(result, **members))

    async def respond(self, status: int, content_type: str = "", body: bytes = b"", *headers: str) -> None:
        """Send a response with a length."""
        await self.begin(status, content_type, f"Content-Length: {len(body)}", *headers)
        await self.stream.send_all(body)

    async def begin(self, status: int, content_type: str, *headers: str) -> None:
        """Send the head of a response, which any page may read."""
        lines = [
            f"HTTP/1.1 {status} X",
            *_ALLOW_PAGES,
            *([f"Content-Type: {content_type}"] if content_type else []),
            *headers,
        ]
        await self.stream.send_all("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def begin_events(self) -> None:
        """Send the head of an event stream that ends with the connection."""
        await self.begin(200, _EVENTS, "Connection: close")

    async def send_event(self, message: bytes) -> None:
        """Send one whole event."""
        await self.stream.send_all(b"data: " + message + b"\n\n")

    async def send_much(self, size: int) -> None:
        """Send bytes without a line break."""
        for _ in range(size // len(_CHUNK)):
            await self.stream.send_all(_CHUNK)

    async def close(self) -> None:
        """End the connection."""
        await self.stream.aclose()


Script = Callable[[Exchange], Awaitable[None]]


class HostileServer:
    """A listening server with a script."""

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self._scripts = scripts
        self.port = 0
        self.counts: Counter[str] = Counter()
        """Requests by JSON-RPC method; "GET" and "DELETE" for those without a body."""
        self.headers: list[Mapping[str, str]] = []
        """Of each request, names in lower case."""
        self.other: HostileServer | None = None
        """Where a redirect leads."""
        self.responses: list[Any] = []
        """Messages of the client that answer a request of the server."""
        self.is_flooded = False
        """Whether a flood has been sent."""

    @property
    def url(self) -> str:
        """Of Streamable HTTP."""
        return f"http://127.0.0.1:{self.port}/mcp"

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with stream:
                await self._serve(stream)

    async def _serve(self, stream: trio.SocketStream) -> None:
        read = bytearray()
        while True:
            while (end := read.find(b"\r\n\r\n")) < 0:
                if not (data := await stream.receive_some()):
                    return
                read += data
            first, *lines = read[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in lines)}
            end += 4
            length = int(headers.get("content-length", 0))
            while len(read) < end + length:
                if not (data := await stream.receive_some()):
                    return
                read += data
            body = bytes(read[end : end + length])
            del read[: end + length]
            self.headers.append(headers)
            await self._answer(Exchange(self, stream, first.split(" ")[0], headers, body))

    async def _answer(self, exchange: Exchange) -> None:
        method = exchange.rpc_method
        if method == "OPTIONS":
            await exchange.respond(204)
            return
        if exchange.message and "method" not in exchange.message:
            self.responses.append(exchange.message)
            await self._scripts.get("response", _take)(exchange)
            return
        self.counts[method] += 1
        await self._scripts.get(method, _BEHAVED.get(method, _accept))(exchange)


async def _take(exchange: Exchange) -> None:
    await exchange.respond(202)


async def _accept(exchange: Exchange) -> None:
    if exchange.message and "id" in exchange.message:
        error = {"code": -32601, "message": "Method not found"}
        body = {"jsonrpc": "2.0", "id": exchange.message["id"], "error": error}
        await exchange.respond(200, _JSON, json.dumps(body).encode())
    else:
        await exchange.respond(202)


async def _reject_discovery(exchange: Exchange) -> None:
    await exchange.respond(400)


def _initialize_result(exchange: Exchange) -> Json:
    return {
        "protocolVersion": exchange.params["protocolVersion"],
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "hostile", "version": "1"},
    }


async def _initialize(exchange: Exchange) -> None:
    body = exchange.encode(_initialize_result(exchange))
    await exchange.respond(200, _JSON, body, f"Mcp-Session-Id: {_SESSION}")


async def _list_good(exchange: Exchange) -> None:
    await exchange.answer({"tools": [make_tool()]})


async def _call_good(exchange: Exchange) -> None:
    await exchange.answer({"content": [{"type": "text", "text": "good"}]})


async def _no_stream(exchange: Exchange) -> None:
    await exchange.respond(405)


_BEHAVED: dict[str, Script] = {
    "server/discover": _reject_discovery,
    "initialize": _initialize,
    "tools/list": _list_good,
    "tools/call": _call_good,
    "GET": _no_stream,
}


def _answering(result: Any, **members: Any) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(result, **members)

    return script


async def _list_many(exchange: Exchange) -> None:
    await exchange.answer({"tools": [make_tool(f"tool_{number}") for number in range(MANY_TOOLS)]})


async def _list_pages(exchange: Exchange) -> None:
    start = int(exchange.params.get("cursor", 0))
    tools = [make_tool(f"tool_{number}") for number in range(start, start + TOOLS_PER_PAGE)]
    await exchange.answer({"tools": tools, "nextCursor": str(start + TOOLS_PER_PAGE)})


async def _list_empty_pages(exchange: Exchange) -> None:
    await exchange.answer({"tools": [], "nextCursor": str(exchange.server.counts["tools/list"])})


async def _never(exchange: Exchange) -> None:
    await trio.sleep_forever()


async def _die(exchange: Exchange) -> None:
    await exchange.close()


async def _die_in_json(exchange: Exchange) -> None:
    await exchange.begin(200, _JSON, "Content-Length: 1000")
    await exchange.stream.send_all(b'{"jsonrpc": "2.0", "id"')
    await exchange.close()


async def _die_in_event(exchange: Exchange) -> None:
    await exchange.begin_events()
    await exchange.stream.send_all(b'data: {"jsonrpc": "2.0", "id"')
    await exchange.close()


async def _half_event(exchange: Exchange) -> None:
    await exchange.begin_events()
    await exchange.stream.send_all(b'data: {"jsonrpc": "2.0", "id"')
    await trio.sleep_forever()


async def _endless_event(exchange: Exchange) -> None:
    await exchange.begin_events()
    await exchange.stream.send_all(b"data: ")
    await exchange.send_much(sys.maxsize)


async def _ping_without_end(exchange: Exchange) -> None:
    await exchange.begin_events()
    for number in itertools.count():
        await exchange.send_event(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode())


async def _resume(exchange: Exchange) -> None:
    """End a response with an event that tells where it goes on."""
    if exchange.method == "GET" and "last-event-id" not in exchange.headers:
        await _no_stream(exchange)
        return
    await exchange.begin_events()
    await exchange.stream.send_all(b"id: again\nretry: 1\ndata: \n\n")
    await exchange.close()


async def _endless_comments(exchange: Exchange) -> None:
    """Send bytes that belong to no event; a client that takes them for life waits forever."""
    await exchange.begin_events()
    while True:
        await exchange.stream.send_all(b": alive\n\n")
        await trio.sleep(0.01)


async def _huge_json(exchange: Exchange) -> None:
    head = exchange.encode({"content": [{"type": "text", "text": "?"}]}).partition(b"?")
    size = HUGE_BYTES // len(_CHUNK) * len(_CHUNK)
    await exchange.begin(200, _JSON, f"Content-Length: {size + len(head[0]) + len(head[2])}")
    await exchange.stream.send_all(head[0])
    await exchange.send_much(size)
    await exchange.stream.send_all(head[2])


async def _huge_event(exchange: Exchange) -> None:
    head = exchange.encode({"content": [{"type": "text", "text": "?"}]}).partition(b"?")
    await exchange.begin_events()
    await exchange.stream.send_all(b"data: " + head[0])
    await exchange.send_much(HUGE_BYTES)
    await exchange.stream.send_all(head[2] + b"\n\n")


def _many_values(exchange: Exchange) -> bytes:
    return exchange.encode({"content": [], "lists": "?"}).replace(b'"?"', b"[" + b"[]," * MANY_VALUES + b"0]")


async def _values_in_json(exchange: Exchange) -> None:
    await exchange.respond(200, _JSON, _many_values(exchange))


async def _values_in_event(exchange: Exchange) -> None:
    await exchange.begin_events()
    await exchange.stream.send_all(b': "\n')
    await exchange.send_event(_many_values(exchange))


@functools.cache
def _bomb() -> bytes:
    return gzip.compress(b" " * HUGE_BYTES, 1)


async def _gzip_bomb(exchange: Exchange) -> None:
    await exchange.respond(200, _JSON, _bomb(), "Content-Encoding: gzip")


async def _gzip_bomb_event(exchange: Exchange) -> None:
    await exchange.respond(200, _EVENTS, _bomb(), "Content-Encoding: gzip", "Connection: close")


async def _deep_json(exchange: Exchange) -> None:
    nested = b"[" * DEPTH + b"]" * DEPTH
    await exchange.respond(200, _JSON, exchange.encode({"content": []}).replace(b"[]", nested))


async def _redirect_elsewhere(exchange: Exchange) -> None:
    assert exchange.server.other
    await exchange.respond(307, "", b"", f"Location: {exchange.server.other.url}")


async def _redirect_to_file(exchange: Exchange) -> None:
    await exchange.respond(307, "", b"", "Location: file:///etc/passwd")


async def _redirect_in_circles(exchange: Exchange) -> None:
    await exchange.respond(307, "", b"", "Location: /mcp")


def _with_session(session: str) -> Script:
    async def script(exchange: Exchange) -> None:
        body = exchange.encode(_initialize_result(exchange))
        await exchange.respond(200, _JSON, body, f"Mcp-Session-Id: {session}")

    return script


async def _answer_others(exchange: Exchange) -> None:
    """Send responses to requests that are not this one, then the right one."""
    own = exchange.message["id"]
    stolen = {"content": [{"type": "text", "text": "stolen"}]}
    await exchange.begin_events()
    for number in FOREIGN_IDS:
        if number != own:
            await exchange.send_event(exchange.encode(stolen, id=number))
    await exchange.send_event(exchange.encode({"content": [{"type": "text", "text": "good"}]}))
    await exchange.close()


async def _answer_and_stay(exchange: Exchange) -> None:
    """Send the response, and keep its stream open."""
    await exchange.begin_events()
    await exchange.send_event(exchange.encode({"content": [{"type": "text", "text": "good"}]}))
    await trio.sleep_forever()


async def _detach(exchange: Exchange) -> None:
    """End the response's stream, with a delay for its resumption."""
    await exchange.begin_events()
    await exchange.stream.send_all(b"id: %d\nretry: 2000\ndata:\n\n" % exchange.message["id"])
    await exchange.close()


async def _answer_resumption(exchange: Exchange) -> None:
    exchange.message = {"id": int(exchange.headers["last-event-id"])}
    await _answer_and_stay(exchange)


async def _answer_other_only(exchange: Exchange) -> None:
    await exchange.answer({"content": []}, id=99_999)


async def _flood(exchange: Exchange) -> None:
    await exchange.begin_events()
    for _ in range(FLOOD):
        await exchange.send_event(_CHANGED)
    exchange.server.is_flooded = True
    await trio.sleep_forever()


async def _ask_unasked(exchange: Exchange) -> None:
    await exchange.begin_events()
    params = {"messages": [], "maxTokens": 1}
    for number in range(FLOOD):
        asked = {"jsonrpc": "2.0", "id": number, "method": "sampling/createMessage", "params": params}
        await exchange.send_event(json.dumps(asked).encode())
    exchange.server.is_flooded = True
    await trio.sleep_forever()


async def _change_with_each_list(exchange: Exchange) -> None:
    await exchange.begin_events()
    await exchange.send_event(_CHANGED)
    await exchange.send_event(exchange.encode({"tools": [make_tool()]}))
    await exchange.close()


async def _endless_progress(exchange: Exchange) -> None:
    await exchange.begin_events()
    token = exchange.params["_meta"]["progressToken"]
    for number in range(FLOOD):
        params = {"progressToken": token, "progress": number, "message": "x" * 1000}
        message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        await exchange.send_event(json.dumps(message).encode())
    await exchange.send_event(exchange.encode({"content": [{"type": "text", "text": "good"}]}))
    await exchange.close()


async def _odd_notifications(exchange: Exchange) -> None:
    """Send notifications that JSON-RPC allows and MCP does not, then the result."""
    token = (exchange.params.get("_meta") or {}).get("progressToken")
    odd_values: list[Any] = ["x", None, {}, [], float("nan"), float("inf"), 10**400, -(10**400)]
    names = ("progress", "total", "message", "level", "data", "uri", "elicitationId", "requestId", "_meta")
    methods = ("progress", "message", "cancelled", "resources/updated", "elicitation/complete", "nothing")
    await exchange.begin_events()
    for method in methods:
        for name in names:
            for odd in odd_values:
                params = {"progressToken": token, "progress": 1, "level": "info", name: odd}
                message = {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}
                await exchange.send_event(json.dumps(message).encode())
    for text in (b"data:\n\n", b"\xff\xfe\n\n", b"event: odd\ndata: 1\n\n", b"retry: x\n\n", b"id: \x00\n\n"):
        await exchange.stream.send_all(text)
    await exchange.send_event(exchange.encode({"content": [{"type": "text", "text": "good"}]}))
    await exchange.close()


def _sending(content_type: str, body: bytes) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.respond(200, content_type, body, "Connection: close")

    return script


async def _session_lost(exchange: Exchange) -> None:
    await exchange.respond(404)


async def _reject_call(exchange: Exchange) -> None:
    error = {"code": -32602, "message": "Not like this."}
    body = {"jsonrpc": "2.0", "id": exchange.message["id"], "error": error}
    await exchange.respond(400, _JSON, json.dumps(body).encode())


async def _ask_again(exchange: Exchange) -> None:
    await exchange.answer({"resultType": "input_required", "inputRequests": {"1": _ELICITATION}})


async def _ask_much(exchange: Exchange) -> None:
    asked = {str(number): _ELICITATION for number in range(FLOOD)}
    await exchange.answer({"resultType": "input_required", "inputRequests": asked})


async def _endless_head(exchange: Exchange) -> None:
    await exchange.stream.send_all(b"HTTP/1.1 200 X\r\n")
    await exchange.stream.send_all(b"X-Long: ")
    await exchange.send_much(sys.maxsize)


def _answering_error(error: Any) -> Script:
    async def script(exchange: Exchange) -> None:
        message = {"jsonrpc": "2.0", "id": exchange.message["id"], "error": error}
        await exchange.respond(200, _JSON, json.dumps(message).encode())

    return script


async def _sse_endpoint_elsewhere(exchange: Exchange) -> None:
    assert exchange.server.other
    await exchange.begin_events()
    await exchange.stream.send_all(f"event: endpoint\ndata: {exchange.server.other.url}\n\n".encode())
    await trio.sleep_forever()


async def _not_allowed(exchange: Exchange) -> None:
    await exchange.respond(405)


async def _discover(exchange: Exchange) -> None:
    await exchange.answer(
        {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "ttlMs": 0,
            "cacheScope": "private",
        }
    )


async def _garbage(exchange: Exchange) -> None:
    await exchange.stream.send_all(b"\x00\xff\x00\xff" * 1000)
    await exchange.close()


async def _web_page(exchange: Exchange) -> None:
    await exchange.respond(200, "text/html", b"<!doctype html><title>Not here</title>")


def _costly_schema() -> Json:
    levels = {
        f"level{level}": {"allOf": [{"$ref": f"#/$defs/level{level + 1}"}] * 2}
        for level in range(COSTLY_LEVELS)
    }
    return {
        "type": "object",
        "$defs": {**levels, f"level{COSTLY_LEVELS}": {}},
        "properties": {"tree": {"$ref": "#/$defs/level0"}, "text": {"type": "string", "pattern": "^(a+)+$"}},
    }


def _odd_tools() -> list[Any]:
    """Return definitions that JSON allows and MCP does not, or that some reader stumbles over."""
    properties: list[Any] = [[], 7, None, {"a": 7}, {"a": {"x-mcp-header": 7}}, {"a": {"type": {}}}]
    schemas: list[Any] = [{"properties": odd} for odd in properties]
    schemas += [7, None, [], {"type": ["object"]}, {"maximum": 10**40}, {"minimum": -(10**40)}]
    schemas += [{"default": float("inf")}, {"default": float("nan")}, {"$ref": "#"}, {"pattern": "("}]
    odd: list[Any] = [make_tool(f"odd_{number}", inputSchema=schema) for number, schema in enumerate(schemas)]
    odd += [make_tool(name) for name in ("", "nul\x00", "line\nbreak", "override\u202e", "x" * 100_000)]
    odd += [make_tool("noted", annotations=7), make_tool("meta", _meta=[]), make_tool("titled", title={})]
    odd += [
        make_tool("huge_number", _meta={"n": 10**400}),
        make_tool("output", outputSchema=7),
        [],
        "x",
        None,
    ]
    return [*odd, make_tool()]


SCRIPTS: dict[str, dict[str, Script]] = {
    "behaved": {},
    "silent_notification": {"notifications/initialized": _never},
    # Lists
    "many_tools": {"tools/list": _list_many},
    "many_pages": {"tools/list": _list_pages},
    "empty_pages": {"tools/list": _list_empty_pages},
    "repeated_cursor": {"tools/list": _answering({"tools": [make_tool()], "nextCursor": "again"})},
    "nameless_tool": {
        "tools/list": _answering({"tools": [{"inputSchema": {"type": "object"}}, 7, make_tool()]})
    },
    "costly_schema": {
        "tools/list": _answering({"tools": [make_tool("costly", inputSchema=_costly_schema()), make_tool()]})
    },
    "huge_description": {
        "tools/list": _answering(
            {"tools": [make_tool("wordy", description="x" * DESCRIPTION_CHARS), make_tool()]}
        )
    },
    "odd_tools": {"tools/list": _answering({"tools": _odd_tools()})},
    "odd_modern_tools": {"server/discover": _discover, "tools/list": _answering({"tools": _odd_tools()})},
    "surrogate_in_tool": {
        "tools/list": _answering({"tools": [make_tool("odd", description="\ud800"), make_tool()]})
    },
    "tools_as_object": {"tools/list": _answering({"tools": {}})},
    "cursor_as_number": {"tools/list": _answering({"tools": [], "nextCursor": 1})},
    "result_as_number": {"tools/list": _answering(7)},
    # Sizes
    "huge_json": {"tools/call": _huge_json},
    "huge_event": {"tools/call": _huge_event},
    "huge_list": {"tools/list": _huge_json},
    "many_values": {"tools/call": _values_in_json},
    "many_values_event": {"tools/call": _values_in_event},
    "endless_event": {"tools/call": _endless_event},
    "gzip_bomb": {"tools/call": _gzip_bomb},
    "gzip_bomb_event": {"tools/call": _gzip_bomb_event},
    "deep_json": {"tools/call": _deep_json},
    # Silence
    "never_responding": {"server/discover": _never, "initialize": _never},
    "never_listing": {"tools/list": _never},
    "never_calling": {"tools/call": _never},
    "never_ending_session": {"DELETE": _never},
    "half_event": {"tools/call": _half_event},
    "endless_comments": {"tools/call": _endless_comments},
    # Deaths
    "dies_in_call": {"tools/call": _die},
    "dies_in_list": {"tools/list": _die_in_json},
    "dies_in_response": {"tools/call": _die_in_json},
    "dies_in_event": {"tools/call": _die_in_event},
    # Redirects
    "redirect_elsewhere": dict.fromkeys(("server/discover", "initialize"), _redirect_elsewhere),
    "redirect_to_file": dict.fromkeys(("server/discover", "initialize"), _redirect_to_file),
    "redirect_in_circles": dict.fromkeys(("server/discover", "initialize"), _redirect_in_circles),
    "redirect_call": {"tools/call": _redirect_elsewhere},
    # Sessions and ids
    "session_with_line_break": {"initialize": _with_session(f"one\r\n {INJECTED_HEADER}: 1")},
    "session_with_bare_line_feed": {"initialize": _with_session(f"one\n{INJECTED_HEADER}: 1")},
    "session_with_carriage_return": {"initialize": _with_session(f"one\r{INJECTED_HEADER}: 1")},
    "session_lost_by_each_call": {"tools/call": _session_lost},
    "rejects_each_call": {"tools/call": _reject_call},
    "session_too_long": {"initialize": _with_session("s" * 60_000)},
    "answers_others": {"tools/call": _answer_others},
    "resumed_again": {"tools/call": _resume, "GET": _resume},
    "answers_other_only": {"tools/call": _answer_other_only},
    # Streams
    "answers_and_stays": {"tools/call": _answer_and_stay},
    "detaches": {"tools/call": _detach, "GET": _answer_resumption},
    # Unsolicited messages
    "list_changed_flood": {"GET": _flood},
    "ping_flood": {"GET": _ping_without_end, "response": _never},
    "request_flood": {"GET": _ask_unasked},
    "change_with_each_list": {"tools/list": _change_with_each_list},
    "progress_flood": {"tools/call": _endless_progress},
    "odd_notifications": {"tools/call": _odd_notifications},
    "asks_again": {"server/discover": _discover, "tools/call": _ask_again},
    "asks_much": {"server/discover": _discover, "tools/call": _ask_much},
    # Errors
    "error_as_number": {"tools/call": _answering_error(7)},
    "error_without_message": {"tools/call": _answering_error({"code": "x", "message": None})},
    "error_with_code_as_float": {"tools/call": _answering_error({"code": 1.5, "message": "x"})},
    "error_huge": {
        "tools/call": _answering_error({"code": -1, "message": "\x1b[31m" + "x" * DESCRIPTION_CHARS})
    },
    "not_json": {"tools/call": _sending(_JSON, b"{")},
    "not_json_event": {"tools/call": _sending(_EVENTS, b"data: {\n\n")},
    "not_rpc_event": {"tools/call": _sending(_EVENTS, b"data: []\n\n")},
    "endless_head": {"tools/call": _endless_head},
    # Negotiation
    "odd_initialize": {
        "initialize": _answering({"protocolVersion": {}, "capabilities": 7, "serverInfo": []})
    },
    "odd_capabilities": {
        "initialize": _answering({"protocolVersion": "2025-06-18", "capabilities": 7, "serverInfo": []})
    },
    "odd_discovery": {
        "server/discover": _answering({"supportedVersions": [{}, 7, None], "capabilities": []})
    },
    "sse_endpoint_elsewhere": {
        "server/discover": _not_allowed,
        "initialize": _not_allowed,
        "GET": _sse_endpoint_elsewhere,
    },
    # No MCP
    "garbage": dict.fromkeys(("server/discover", "initialize"), _garbage),
    "web_page": dict.fromkeys(("server/discover", "initialize"), _web_page),
}


@asynccontextmanager
async def hostile_server(script: str) -> AsyncIterator[HostileServer]:
    """Serve a script on a port of loopback; a redirect leads to a behaved server, `server.other`."""
    server, other = HostileServer(SCRIPTS[script]), HostileServer({})
    server.other = other
    async with trio.open_nursery() as nursery:
        for each in (server, other):
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            each.port = listeners[0].socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, each.serve, listeners)
        yield server
        nursery.cancel_scope.cancel()
