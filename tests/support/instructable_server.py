"""An MCP server that does what a test instructs: both eras, over HTTP, legacy SSE or stdio.

    python instructable_server.py stdio
    python instructable_server.py http PORT     # port 0: any; prints the port

Over HTTP, `POST /control` changes `Instructions` and starts `Actions`; `GET /log?after=VERSION` returns all
that the server recorded, once there is more than at VERSION, or after a second. Over stdio the unlisted tools
`control` and `recorded` do the same. The environment variable INSTRUCTIONS has the first instructions.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, cast

import hypercorn.trio
import msgspec
import trio
from hypercorn.config import Config
from hypercorn.typing import ASGIFramework
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.runner import serve_loop
from mcp.server.session import ServerSession
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_to_notification
from mcp_types import ElicitCompleteNotification, JSONRPCMessage, LoggingMessageNotification
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from instructable_tools import (
    CALLS,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    Context,
    Json,
    complete,
    get_prompt,
    is_modern,
    read_resource,
)
from remote_servers import RecordedRequest

MODERN_VERSION = "2026-07-28"
UNSUPPORTED_PROTOCOL_VERSION = -32022
OUR_PATHS = {"/control", "/log"}
LOG_WAIT_S = 1.0
SESSION_ID, VERSION = "mcp-session-id", "mcp-protocol-version"
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
MODERN_MEMBERS: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Of a result of 2026-07-28, where it has not its own."""
EVENTS: dict[str, ServerEvent] = {
    "tools": ToolsListChanged(),
    "resources": ResourcesListChanged(),
    "prompts": PromptsListChanged(),
}
CAPABILITIES: Json = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}


class Instructions(msgspec.Struct, forbid_unknown_fields=True):
    """What holds until it is changed."""

    era: Literal["both", "handshake", "stateless"] = "both"
    tools: list[Any] = msgspec.field(default_factory=lambda: TOOLS)
    resources: list[Any] = msgspec.field(default_factory=lambda: RESOURCES)
    resourceTemplates: list[Any] = msgspec.field(default_factory=lambda: TEMPLATES)  # noqa: N815 - as in the protocol
    prompts: list[Any] = msgspec.field(default_factory=lambda: PROMPTS)
    capabilities: Json = msgspec.field(default_factory=lambda: CAPABILITIES)
    page_size: int = 0
    """Entries per page of a list; 0: all."""
    repeat_cursor: bool = False
    """Whether every page of a list names the same next page."""
    allows_get: bool = True
    """Whether `GET /mcp` opens a stream; otherwise it is answered 405."""
    json_response: bool = False
    """Whether responses are JSON objects in place of event streams."""
    resumable: bool = False
    """Whether events of new sessions of the handshake era have ids and can be replayed."""
    errors: dict[str, Json] = {}
    """JSON-RPC method or tool name -> error object."""
    statuses: dict[str, int] = {}
    """JSON-RPC method -> HTTP status without a body."""
    hang: list[str] = []
    """JSON-RPC methods or tool names whose answers wait until they are gone from this list."""
    delays: dict[str, float] = {}
    """JSON-RPC method or tool name -> seconds."""
    members: dict[str, Json] = {}
    """JSON-RPC method or tool name -> members that replace those of its result."""
    required_headers: dict[str, str] = {}
    """Name -> value; a request without one of them is rejected."""
    rejection: int = 401


class Actions(msgspec.Struct, forbid_unknown_fields=True):
    """What happens once."""

    changed: list[Literal["tools", "resources", "prompts"]] = []
    """Send `list_changed` of these lists."""
    updated: list[str] = []
    """Send `resources/updated` of these URIs."""
    elicited: str = ""
    """Send `elicitation/complete` with this id (handshake era)."""
    logged: Json | None = None
    """Send a log message outside of any call (handshake era)."""
    drop_sessions: bool = False
    """Forget all sessions, as a server that was restarted; end their streams."""
    end_streams: bool = False
    """End all responses that have begun."""
    forget_log: bool = False
    reset: bool = False
    """Before the changes, return to the first instructions, drop all sessions and forget the log."""


class Log:
    """All that was recorded."""

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []
        self.cancelled: list[str] = []
        """Tools whose call was cancelled."""
        self._version = 0
        self._is_changed = trio.Event()

    def touch(self) -> None:
        """Wake those that wait for more."""
        self._version += 1
        self._is_changed.set()
        self._is_changed = trio.Event()

    async def wait_after(self, version: int) -> None:
        """Wait until the log is newer than a version, or for a second."""
        with trio.move_on_after(LOG_WAIT_S):
            while self._version <= version:
                await self._is_changed.wait()

    def end(
        self, request: RecordedRequest, how: Literal["answered", "disconnected", "ended by the server"]
    ) -> None:
        """Record how a response ended, once."""
        if not request.end:
            request.end = how
            self.touch()

    def to_json(self) -> Json:
        """Return the whole log."""
        counts = Counter(request.rpc_method for request in self.requests if request.rpc_method)
        return {
            "version": self._version,
            "requests": msgspec.to_builtins(self.requests),
            "counts": dict(counts),
            "cancelled": self.cancelled,
        }

    def clear(self) -> None:
        """Forget what was recorded."""
        self.requests.clear()
        self.cancelled.clear()


class Events(EventStore):
    """Events of streams, for replay."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Store an event; its id is its place."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what a stream missed."""
        place = int(last_event_id)
        stream_id = self._events[place - 1][0]
        for number, (stream, message) in enumerate(self._events[place:], place + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


class Instructed:
    """The server: instructions, what it recorded, and the answers."""

    def __init__(self, *, is_stdio: bool) -> None:
        self.instructions = _first_instructions()
        self.log = Log()
        self.sessions: set[str] = set()
        """Ids of sessions of Streamable HTTP."""
        self.dropped: set[str] = set()
        self.responses: set[trio.CancelScope] = set()
        """Responses whose last part is not yet sent."""
        self._is_stdio = is_stdio
        self._channels: list[ServerSession] = []
        self._bus = InMemorySubscriptionBus()
        self._is_instructed = trio.Event()
        self.server: Server[Any] = Server(
            "instructable",
            version="1.0",
            get_tool_input_schema=self._input_schema,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        self.server.middleware.append(self._answer)
        self.manager = StreamableHTTPSessionManager(self.server)

    def _input_schema(self, name: str) -> Any:
        tools = (tool for tool in self.instructions.tools if tool.get("name") == name)
        return next(tools, cast("Json", {})).get("inputSchema")

    async def control(self, changes: Json) -> None:
        """Apply changes of the instructions, then start the actions."""
        actions = {name: changes.pop(name) for name in Actions.__struct_fields__ if name in changes}
        if actions.get("reset"):
            self.instructions = _first_instructions()
            actions["drop_sessions"] = True
        current = msgspec.to_builtins(self.instructions)
        self.instructions = msgspec.convert({**current, **changes}, Instructions)
        self.manager.json_response = self.instructions.json_response
        self.manager.event_store = Events() if self.instructions.resumable else None
        self._is_instructed.set()
        self._is_instructed = trio.Event()
        await self._act(msgspec.convert(actions, Actions))

    async def _act(self, actions: Actions) -> None:
        if actions.reset or actions.forget_log:
            self.log.clear()
        if actions.drop_sessions:
            self.dropped |= self.sessions
            self._channels.clear()
        if actions.drop_sessions or actions.end_streams:
            for scope in list(self.responses):
                scope.cancel()
        for event in [EVENTS[name] for name in actions.changed] + [
            ResourceUpdated(uri) for uri in actions.updated
        ]:
            await self._bus.publish(event)
            for channel in self._channels:
                await channel.send_notification(event_to_notification(event, {}))
        await self._notify(actions)

    async def _notify(self, actions: Actions) -> None:
        for channel in self._channels:
            if actions.elicited:
                elicited = {
                    "method": "notifications/elicitation/complete",
                    "params": {"elicitationId": actions.elicited},
                }
                await channel.send_notification(ElicitCompleteNotification.model_validate(elicited))
            if actions.logged:
                logged = {"method": "notifications/message", "params": actions.logged}
                await channel.send_notification(LoggingMessageNotification.model_validate(logged))

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        method, params = ctx.method, dict(ctx.params or {})
        if self._is_stdio:
            self.log.requests.append(RecordedRequest("", "", {}, {"method": method, "params": params}))
            self.log.touch()
        if ctx.request_id is None:
            if method == "notifications/initialized":
                self._channels.append(ctx.session)
            return await call_next(ctx)
        names = [method] + ([str(params.get("name"))] if method == "tools/call" else [])
        try:
            await self._wait_allowed(names)
            result = await self._result(ctx, params, call_next)
        except trio.Cancelled:
            self.log.cancelled.append(names[-1])
            self.log.touch()
            raise
        for name in names:
            result |= self.instructions.members.get(name, {})
        if is_modern(ctx):
            result = MODERN_MEMBERS | result
        return result

    async def _wait_allowed(self, names: Iterable[str]) -> None:
        for name in names:
            while name in self.instructions.hang:
                await self._is_instructed.wait()
            await trio.sleep(self.instructions.delays.get(name, 0))
            if error := self.instructions.errors.get(name):
                raise MCPError(**error)

    async def _result(self, context: Context, params: Json, call_next: CallNext) -> Json:
        method = context.method
        if member := LISTS.get(method):
            return self._page(member, params.get("cursor"))
        match method:
            case "initialize" | "server/discover":
                if method == "initialize" and self.instructions.era == "stateless":
                    raise _unsupported(params.get("protocolVersion", ""))
                result = cast("Json", await call_next(context))
                return result | {"capabilities": self.instructions.capabilities}
            case "tools/call":
                return await self._call(context, params["name"], params.get("arguments") or {})
            case "resources/read":
                return read_resource(params["uri"])
            case "prompts/get":
                return get_prompt(params["name"], params.get("arguments") or {})
            case "completion/complete":
                return complete(params["argument"])
            case "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" | "ping":
                return {}
        return cast("Json", await call_next(context))

    def _page(self, member: str, cursor: str | None) -> Json:
        entries = getattr(self.instructions, member)
        size = self.instructions.page_size or len(entries)
        start = int(cursor or 0)
        page: Json = {member: entries[start : start + size]}
        if self.instructions.repeat_cursor:
            page["nextCursor"] = "0"
        elif start + size < len(entries):
            page["nextCursor"] = str(start + size)
        return page

    async def _call(self, context: Context, name: str, arguments: Json) -> Json:
        if self._is_stdio and name == "control":
            await self.control(arguments)
            return {"content": []}
        if self._is_stdio and name == "recorded":
            await self.log.wait_after(arguments.get("after", -1))
            return {"content": [], "structuredContent": self.log.to_json()}
        if call := CALLS.get(name):
            return await call(context, arguments)
        return {"content": [{"type": "text", "text": name}]}


def _first_instructions() -> Instructions:
    return msgspec.json.decode(os.environ.get("INSTRUCTIONS", "{}"), type=Instructions)


def _unsupported(requested: str) -> MCPError:
    data = {"supported": [MODERN_VERSION], "requested": requested}
    return MCPError(code=UNSUPPORTED_PROTOCOL_VERSION, message="Unsupported protocol version", data=data)


class Recorder:
    """Outermost layer: records each request, and how its response ended."""

    def __init__(self, app: ASGIApp, instructed: Instructed) -> None:
        self._app = app
        self._instructed = instructed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] in OUR_PATHS:
            await self._app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        headers = {name.decode(): text.decode("latin-1") for name, text in scope["headers"]}
        query = scope["query_string"].decode()
        request = RecordedRequest(scope["method"], scope["path"], headers, _decode(body), query)
        log, responses = self._instructed.log, self._instructed.responses
        log.requests.append(request)
        log.touch()
        has_begun = trio.Event()
        to_app, messages = trio.open_memory_channel[Message](2)
        await to_app.send({"type": "http.request", "body": body, "more_body": False})

        async def watch() -> None:
            message = await receive()
            log.end(request, "disconnected")
            await to_app.send(message)

        async def record(message: Message) -> None:
            self._record(request, message)
            if request.end:
                # hypercorn would not read the next request of the connection if it were cancelled now.
                responses.discard(nursery.cancel_scope)
            await send(message)
            if message.get("body"):
                has_begun.set()

        async with trio.open_nursery() as nursery:
            responses.add(nursery.cancel_scope)
            nursery.start_soon(watch)
            try:
                ours = {"recorded": request, "has_begun": has_begun}
                await self._app({**scope, **ours}, messages.receive, record)
            finally:
                responses.discard(nursery.cancel_scope)
                nursery.cancel_scope.cancel()
        log.end(request, "ended by the server")

    def _record(self, request: RecordedRequest, message: Message) -> None:
        if message["type"] == "http.response.start":
            request.status = message["status"]
            if session := dict(message["headers"]).get(SESSION_ID.encode()):
                self._instructed.sessions.add(session.decode())
        elif not message.get("more_body"):
            self._instructed.log.end(request, "answered")


def _decode(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")


class Gate:
    """Layer behind CORS: rejects requests as the instructions say."""

    def __init__(self, app: ASGIApp, instructed: Instructed) -> None:
        self._app = app
        self._instructed = instructed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        is_ours = scope["type"] == "http" and scope["path"] not in OUR_PATHS
        response = self._reject(scope["recorded"]) if is_ours else None
        await (response or self._app)(scope, receive, send)

    def _reject(self, request: RecordedRequest) -> Response | None:
        held = self._instructed.instructions
        for name, value in held.required_headers.items():
            if request.headers.get(name.lower()) != value:
                challenge = {"WWW-Authenticate": "Bearer"} if held.rejection == 401 else {}
                return Response(status_code=held.rejection, headers=challenge)
        if status := held.statuses.get(request.rpc_method):
            return Response(status_code=status)
        if request.headers.get(SESSION_ID) in self._instructed.dropped:
            return _error(404, -32600, "Session not found", request)
        if request.path != "/mcp":
            return None
        return self._reject_era(request, held)

    def _reject_era(self, request: RecordedRequest, held: Instructions) -> Response | None:
        version = request.headers.get(VERSION)
        is_handshake = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        if request.method != "POST":
            is_allowed = request.method == "DELETE" or held.allows_get
            return None if is_allowed and held.era != "stateless" else Response(status_code=405)
        if held.era == "handshake" and not is_handshake:
            return _error(400, -32000, "Bad Request: Unsupported protocol version", request)
        if held.era == "stateless" and is_handshake:
            rejection = _unsupported(version or "").error
            return _error(400, rejection.code, rejection.message, request, rejection.data)
        return None


def _error(status: int, code: int, message: str, request: RecordedRequest, data: Any = None) -> Response:
    request_id = request.body.get("id") if isinstance(request.body, dict) else None
    error = {"code": code, "message": message} | ({"data": data} if data else {})
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "error": error}, status)


class Endpoint:
    """A bare ASGI application as an endpoint of a route."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request."""
        await self._app(scope, receive, send)


def build_app(instructed: Instructed) -> Starlette:
    """Return the application with all its layers."""
    sse = SseServerTransport("/message")

    async def control(request: Request) -> Response:
        await instructed.control(await request.json())
        return Response()

    async def read_log(request: Request) -> Response:
        await instructed.log.wait_after(int(request.query_params.get("after", -1)))
        return JSONResponse(instructed.log.to_json())

    async def open_sse(scope: Scope, receive: Receive, send: Send) -> None:
        async with sse.connect_sse(scope, receive, send) as (from_client, to_client):
            await serve_loop(instructed.server, from_client, to_client, lifespan_state={})

    cors = Middleware(
        CORSMiddleware,
        allow_origins=["*"],
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=["Mcp-Session-Id"],
    )
    return Starlette(
        routes=[
            Route("/control", control, methods=["POST"]),
            Route("/log", read_log),
            Route("/mcp", Endpoint(instructed.manager.handle_request)),
            Route("/sse", Endpoint(open_sse), methods=["GET"]),
            Route("/message", Endpoint(sse.handle_post_message), methods=["POST"]),
        ],
        middleware=[
            Middleware(Recorder, instructed=instructed),
            cors,
            Middleware(Gate, instructed=instructed),
        ],
        lifespan=lambda _: instructed.manager.run(),
    )


async def serve_http(port: int) -> None:
    """Serve at a port, 0: any; print which."""
    instructed = Instructed(is_stdio=False)
    await instructed.control({})
    with socket.create_server(("127.0.0.1", port)) as listener:
        config = Config()
        config.bind = [f"fd://{listener.fileno()}"]
        app = cast("ASGIFramework", build_app(instructed))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hypercorn.trio.serve, app, config)
            sys.stdout.write(f"{listener.getsockname()[1]}\n")
            sys.stdout.flush()


async def serve_stdio() -> None:
    """Serve one client."""
    instructed = Instructed(is_stdio=True)
    async with stdio_server() as (from_client, to_client):
        if instructed.instructions.era == "handshake":
            await serve_loop(instructed.server, from_client, to_client, lifespan_state={})
            return
        server = instructed.server
        await server.run(from_client, to_client, server.create_initialization_options())


def main() -> None:
    """Serve over stdio or HTTP."""
    warnings.simplefilter("ignore")
    if sys.argv[1] == "stdio":
        trio.run(serve_stdio)
    else:
        trio.run(serve_http, int(sys.argv[2]))


if __name__ == "__main__":
    main()
