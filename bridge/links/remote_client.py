"""One connection to a remote server on the mcp package: transport, negotiation, raw results.

The transports and the JSON-RPC dispatcher are the package's; nothing above them is used, because its models
drop members that they do not know and reject a list for one bad entry. Revisions are negotiated as the
package does: `server/discover` first, then `initialize`, then HTTP+SSE of 2024-11-05.
Importing this module takes half a second: only `remote_mcp` does, when a server is connected.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Container, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context
from typing import Any, Protocol, Self

import httpx2
import trio
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import request_within_origin, sse_within_origin
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)

from bridge.errors import CallError
from bridge.links.remote_calls import CallClock, OnProgress, Params
from bridge.links.remote_http import (
    Exchange,
    ReadHeaders,
    current_exchange,
    make_client,
    open_transport,
    silence_foreign_loggers,
    status_problem,
)
from bridge.links.remote_lists import Definition
from bridge.links.remote_options import ClientIdentity, RemoteOptions
from bridge.links.remote_pipes import MessagePipe, SsePipe, open_stdio, read_endpoint
from bridge.links.remote_problem import Cause, RemoteProblem, RemoteReportedError
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code

DISCOVER_S = 10.0
"""As the package waits: an older server may never answer a method that it does not know."""
NOTIFICATION_S = 10.0
"""For the HTTP response to a notification: the mcp package sends nothing else meanwhile."""
MAX_SERVER_REQUESTS = 64
"""Open at once on one connection; more of them end it."""
Mask = Callable[[str], str]
MAX_WAITING = 1000
"""Responses to server requests that wait to be sent, 10 KB each; more of them end the connection."""
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
_TOO_MANY_REQUESTS = "it sends too many requests at once"
_MAX_VERSION_CHARS = 40
_MAX_MASKED_CHARS = 1 << 16


class ConnectionEvents(Protocol):
    """Recipient of what the server sends by itself. No method waits except `answer_request`."""

    async def answer_request(self, method: str, params: Params) -> Params:
        """Return the result of a server request, or raise CallError."""
        ...

    def on_notification(self, method: str, params: Params, call: object) -> None:
        """Handle a notification; `call` is what `request` was given, if its response carries it."""
        ...

    def on_stream_opened(self) -> None:
        """Note that changes are reported from now on."""
        ...

    def on_stream_ended(self) -> None:
        """Note that the stream of changes has ended; it is opened again."""
        ...

    def on_no_stream(self, reason: str) -> None:
        """Note that the server reports no changes."""
        ...


class RemoteConnection:
    """A negotiated connection."""

    def __init__(
        self,
        dispatcher: JSONRPCDispatcher[TransportContext],
        reader: _Reader,
        transport: str,
        identity: ClientIdentity,
        mask: Mask,
    ) -> None:
        self.transport = transport
        self.revision = ""
        self.capabilities: Params = {}
        self.server_info: Params = {}
        self.lost = trio.Event()
        self.problem: RemoteProblem | None = None
        """Why it was lost."""
        self.last_status = 0
        """HTTP status of the last request that failed."""
        self._dispatcher = dispatcher
        self._reader = reader
        self._client_info = identity.client_info
        self._client_capabilities = identity.capabilities
        self._mask = mask
        self._param_headers: dict[str, dict[tuple[str, ...], str]] = {}
        self._listens = 0
        self._acknowledged: dict[str, trio.Event] = {}

    @property
    def is_modern(self) -> bool:
        """Whether it speaks 2026-07-28 or later: without a session, and without requests of the server."""
        return self.revision in MODERN_PROTOCOL_VERSIONS

    def lose(self, problem: RemoteProblem) -> None:
        """Report that the connection is of no use any more."""
        if not self.lost.is_set():
            self.problem = problem
            self.lost.set()

    async def request(
        self,
        method: str,
        params: Params,
        *,
        clock: CallClock,
        call: object = None,
        on_progress: OnProgress | None = None,
        log_level: str = "",
    ) -> Params:
        """Send a request; return its result with all members.

        Raises:
            RemoteProblem: there is no response; `handed` says whether the server may have the request.
            RemoteReportedError: the server answered with an error.
        """
        options: CallOptions = {}

        async def restart_clock(progress: float, total: float | None, message: str | None) -> None:
            clock.restart()
            if on_progress is not None:
                on_progress(progress, total, message)

        options["on_progress"] = restart_clock
        return await self._send(method, self._stamp(method, params, options, log_level), options, clock, call)

    async def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification, except in 2026-07-28, which has none over HTTP."""
        options: CallOptions = {}
        if self.is_modern:
            return
        self._stamp(method, {}, options, "")
        await self._dispatcher.notify(method, params, options)

    async def listen(self, notifications: Params, on_opened: Callable[[], None]) -> None:
        """Receive notifications of changes until the server ends the stream (2026-07-28).

        Raises:
            RemoteProblem: the stream was lost.
            RemoteReportedError: the server rejected it.
        """
        self._listens += 1
        request_id = f"listen-{self._listens}"
        options: CallOptions = {"request_id": request_id}
        params = self._stamp("subscriptions/listen", {"notifications": notifications}, options, "")
        acknowledged = self._acknowledged[request_id] = trio.Event()
        clock = CallClock(float("inf"))
        failure: RemoteProblem | RemoteReportedError | None = None
        try:
            async with trio.open_nursery() as nursery:

                async def report_opened() -> None:
                    await acknowledged.wait()
                    on_opened()

                nursery.start_soon(report_opened)
                # Raised below: a nursery would put it into a group.
                try:
                    await self._send("subscriptions/listen", params, options, clock, None)
                except (RemoteProblem, RemoteReportedError) as raised:
                    failure = raised
                nursery.cancel_scope.cancel()
        finally:
            del self._acknowledged[request_id]
        if failure is not None:
            raise failure

    def check_tool(self, tool: Definition) -> str:
        """Return why MCP 2026-07-28 forbids a tool, or nothing; remember the headers of its calls."""
        if not self.is_modern or self.transport == "stdio":
            return ""
        schema = tool.get("inputSchema", {})
        if find_invalid_x_mcp_header(schema) is not None:
            return "an x-mcp-header in its inputSchema is not valid"
        headers = x_mcp_header_map(schema)
        if headers:
            self._param_headers[tool["name"]] = headers
        else:
            self._param_headers.pop(tool["name"], None)
        return ""

    def forget_other_tools(self, names: Container[str]) -> None:
        """Forget the headers of tools that are not listed any more."""
        for name in [name for name in self._param_headers if name not in names]:
            del self._param_headers[name]

    def handle_notification(self, events: ConnectionEvents, method: str, params: Params) -> None:
        """Handle a notification in the order of arrival."""
        if method == "notifications/subscriptions/acknowledged":
            meta = params.get("_meta")
            request_id = meta.get(SUBSCRIPTION_KEY) if isinstance(meta, dict) else None
            if isinstance(request_id, str) and request_id in self._acknowledged:
                self._acknowledged[request_id].set()
            return
        context = self._reader.last_context
        exchange = context.get(current_exchange) if context is not None else None
        events.on_notification(method, params, exchange.call if exchange is not None else None)

    @property
    def may_be_legacy(self) -> bool:
        """Whether the failed negotiation is that of a server of HTTP+SSE."""
        return self.transport == "streamable-http" and self.last_status in {400, 404, 405}

    async def negotiate(self) -> None:
        """Agree on a revision.

        Raises:
            RemoteProblem: the server cannot be reached, or does not speak MCP.
        """
        try:
            result = await self._discover(LATEST_MODERN_VERSION, may_repeat=True)
        except RemoteReportedError:
            result = None
        except RemoteProblem as problem:
            if problem.cause not in {Cause.NOT_MCP, Cause.TOO_SLOW}:
                raise
            result = None
        if result is None:
            await self._initialize()

    async def _discover(self, version: str, *, may_repeat: bool) -> Params | None:
        """Send `server/discover`; return None if the server speaks only older revisions."""
        meta = {
            PROTOCOL_VERSION_META_KEY: version,
            CLIENT_INFO_META_KEY: self._client_info,
            CLIENT_CAPABILITIES_META_KEY: self._client_capabilities,
        }
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: "server/discover"}
        options: CallOptions = {"cancel_on_abandon": False, "headers": headers}
        clock = CallClock(DISCOVER_S)
        try:
            result = await self._send("server/discover", {"_meta": meta}, options, clock, None)
        except RemoteReportedError as error:
            mutual = _choose_version(error.data.get("supported")) if isinstance(error.data, dict) else ""
            if error.code != UNSUPPORTED_PROTOCOL_VERSION or not mutual or not may_repeat:
                raise
            return await self._discover(mutual, may_repeat=False)
        self.revision = _choose_version(result.get("supportedVersions"))
        if not self.revision:
            return None
        stamp = result.get("_meta")
        self._adopt(result, stamp.get(SERVER_INFO_META_KEY) if isinstance(stamp, dict) else None)
        return result

    async def _initialize(self) -> None:
        params = {
            "protocolVersion": LATEST_HANDSHAKE_VERSION,
            "capabilities": self._client_capabilities,
            "clientInfo": self._client_info,
        }
        options: CallOptions = {"cancel_on_abandon": False}
        try:
            result = await self._send("initialize", params, options, CallClock(DISCOVER_S), None)
        except RemoteReportedError as error:
            raise RemoteProblem(
                Cause.NOT_MCP, f"it rejected initialize with error {error.code}: {error.detail}"
            ) from None
        version = result.get("protocolVersion")
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            shown = single_line(version, _MAX_VERSION_CHARS) if isinstance(version, str) else "none"
            raise RemoteProblem(Cause.NOT_MCP, f"it speaks a revision that mcpb does not know: {shown}")
        self.revision = version
        self._adopt(result, result.get("serverInfo"))
        await self.notify("notifications/initialized")

    def _adopt(self, result: Params, server_info: Any) -> None:
        capabilities = result.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.server_info = server_info if isinstance(server_info, dict) else {}

    def _stamp(self, method: str, params: Params, options: CallOptions, log_level: str) -> Params:
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.revision}
        options["headers"] = headers
        if not self.is_modern:
            return params
        meta = {
            **(params.get("_meta") or {}),
            PROTOCOL_VERSION_META_KEY: self.revision,
            CLIENT_INFO_META_KEY: self._client_info,
            CLIENT_CAPABILITIES_META_KEY: self._client_capabilities,
        }
        if log_level:
            meta[LOG_LEVEL_META_KEY] = log_level
        headers[MCP_METHOD_HEADER] = method
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        if method == "tools/call" and isinstance(name, str) and name in self._param_headers:
            headers |= mcp_param_headers(self._param_headers[name], params.get("arguments") or {})
        return {**params, "_meta": meta}

    async def _send(
        self, method: str, params: Params, options: CallOptions, clock: CallClock, call: object
    ) -> Params:
        if self.lost.is_set():
            raise self._make_loss(handed=False)
        exchange = Exchange(call)
        clock.restart()
        try:
            with _exchange(exchange), clock.scope:
                return await self._dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            raise self._explain(error, exchange) from None
        except RemoteProblem as problem:
            raise RemoteProblem(problem.cause, problem.detail, handed=exchange.was_sent) from None
        finally:
            exchange.close()
        raise RemoteProblem(Cause.TOO_SLOW, f"it did not answer {method} in time", handed=exchange.was_sent)

    def _make_loss(self, *, handed: bool) -> RemoteProblem:
        """Return why the connection was lost, as the error of a request."""
        loss = self.problem or RemoteProblem(Cause.CLOSED, "it closed the connection")
        return RemoteProblem(loss.cause, loss.detail, handed=handed)

    def _explain(self, error: MCPError, exchange: Exchange) -> Exception:
        """Return the error of a request without a result: the transport's, or the server's own."""
        self.last_status = exchange.status
        problem = exchange.problem
        if problem is None and self.lost.is_set():
            problem = self._make_loss(handed=exchange.was_sent)
        elif problem is None and 300 <= exchange.status < 400:
            problem = RemoteProblem(Cause.REDIRECT, "it redirects to another address")
        elif problem is None and exchange.status in {202, 204}:
            problem = status_problem(exchange.status, handed=True)
        elif problem is None and exchange.has_ended:
            problem = RemoteProblem(Cause.CLOSED, "it ended its response without a result", handed=True)
        elif problem is None and error.error.code == PARSE_ERROR:
            # What we send is JSON: the package reports with this code a response that is not.
            problem = RemoteProblem(Cause.NOT_MCP, "it sent a message that is not valid", handed=True)
        if problem is None:
            # Masked before it is cut to a line: the rest of a token would not be found there.
            message = self._mask(error.error.message[:_MAX_MASKED_CHARS])
            return RemoteReportedError(error.error.code, message, error.error.data)
        if problem.is_session_lost or (problem.may_recover and not exchange.was_sent):
            self.lose(problem)
        return problem


def _choose_version(supported: Any) -> str:
    """Return the latest revision without a handshake that both sides know, or nothing."""
    offered = supported if isinstance(supported, list) else []
    return next((version for version in reversed(MODERN_PROTOCOL_VERSIONS) if version in offered), "")


class _exchange:  # noqa: N801 a `with` statement, faster than a generator
    """Lets tasks of the mcp package and its libraries see the exchange of a request."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __enter__(self) -> None:
        self._token = current_exchange.set(self._exchange)

    def __exit__(self, *_: object) -> None:
        current_exchange.reset(self._token)


class _Reader:
    """Read stream of the dispatcher that reports its end."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end

    @property
    def last_context(self) -> Context | None:
        """Context of the task that received the last message, which the package's HTTP transport attaches."""
        context: Context | None = getattr(self._inner, "last_context", None)
        return context

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item = await anext(self._inner)
            while _is_bad_progress(item):
                item = await anext(self._inner)
        except BaseException:
            self._on_end()
            raise
        return item

    async def receive(self) -> SessionMessage | Exception:
        return await anext(self)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Writer:
    """Write stream of the dispatcher: what is no request has an exchange of its own."""

    def __init__(self, inner: WriteStream[SessionMessage], on_flood: Callable[[], None]) -> None:
        self._inner = inner
        self._on_flood = on_flood
        self._waiting = 0

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            await self._inner.send(item)
            return
        # It is written in the task of a request, whose exchange may end before.
        opens_stream = getattr(message, "method", "") == "notifications/initialized"
        self._waiting += 1
        if self._waiting > MAX_WAITING:
            self._on_flood()
        try:
            with _exchange(Exchange(opens_stream=opens_stream, timeout_s=NOTIFICATION_S)):
                await self._inner.send(item)
        finally:
            self._waiting -= 1

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _is_bad_progress(item: SessionMessage | Exception) -> bool:
    """Return whether a progress notification has a number that no float holds: the dispatcher would fail."""
    message = item.message if isinstance(item, SessionMessage) else None
    if not isinstance(message, JSONRPCNotification) or message.method != "notifications/progress":
        return False
    params = message.params or {}
    numbers = [params.get(name) for name in ("progress", "total")]
    try:
        return not all(math.isfinite(number) for number in numbers if isinstance(number, int | float))
    except OverflowError:
        return True


class _PipeReader:
    """Read stream on a pipe. Lines that are no JSON-RPC message are ignored."""

    def __init__(self, pipe: MessagePipe) -> None:
        self.problem: RemoteProblem | None = None
        """Why it has ended."""
        self._pipe = pipe

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            try:
                line = await self._pipe.receive()
            except RemoteProblem as problem:
                self.problem = problem
                line = None
            if line is None:
                raise StopAsyncIteration
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:
                continue

    async def receive(self) -> SessionMessage | Exception:
        return await anext(self)

    async def aclose(self) -> None:
        """Do nothing: the pipe's owner closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class _PipeWriter:
    """Write stream of the dispatcher on a pipe."""

    def __init__(self, pipe: MessagePipe) -> None:
        self._pipe = pipe

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        try:
            await self._pipe.send(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        except RemoteProblem:
            # Only a request has a caller that can be informed.
            if isinstance(message, JSONRPCRequest):
                raise

    async def aclose(self) -> None:
        """Do nothing: the pipe's owner closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


@asynccontextmanager
async def open_connection(
    target: RemoteOptions,
    identity: ClientIdentity,
    events: ConnectionEvents,
    read_headers: ReadHeaders,
    mask: Mask,
    *,
    is_legacy: bool = False,
) -> AsyncGenerator[RemoteConnection, None]:
    """Open a transport for the time of the context; `negotiate` comes next.

    Args:
        target: address of the server.
        identity: what this client declares.
        events: receives what the server sends by itself.
        read_headers: returns the headers of an HTTP request.
        mask: removes secrets from a text of the server.
        is_legacy: use HTTP+SSE of 2024-11-05.

    Raises:
        RemoteProblem: there is no connection.
    """
    silence_foreign_loggers()
    async with AsyncExitStack() as stack:
        stack.enter_context(_exchange(Exchange()))
        if target.command:
            command = [target.command, *target.args]
            pipe: MessagePipe = await stack.enter_async_context(open_stdio(target.name, command, target.env))
            yield await stack.enter_async_context(_run_on_pipe(pipe, "stdio", identity, events, mask))
            return
        transport = await open_transport(target.url, read_headers, watch=target.watch)
        client = await stack.enter_async_context(make_client(transport))
        if is_legacy:
            pipe = await stack.enter_async_context(_open_sse(client, target.url))
            yield await stack.enter_async_context(_run_on_pipe(pipe, "sse", identity, events, mask))
            return
        # No limit of the package's: the transport has one.
        opened = streamable_http_client(target.url, http_client=client, max_sse_event_size=None)
        reader, writer = await stack.enter_async_context(opened)
        running = _run(reader, writer, "streamable-http", identity, events, mask)
        connection = await stack.enter_async_context(running)
        transport.on_problem = connection.lose
        transport.on_stream_opened = events.on_stream_opened
        transport.on_stream_ended = events.on_stream_ended
        transport.on_no_stream = events.on_no_stream
        yield connection


@asynccontextmanager
async def _open_sse(client: httpx2.AsyncClient, url: str) -> AsyncGenerator[SsePipe, None]:
    """Open the event stream of a server of MCP 2024-11-05.

    Raises:
        RemoteProblem: it is no such server.
    """

    async def post(endpoint: str, message: bytes) -> httpx2.Response:
        headers = {"content-type": "application/json"}
        return await request_within_origin(client, "POST", endpoint, content=message, headers=headers)

    exchange = current_exchange.get() or Exchange()
    async with sse_within_origin(client, url, max_event_size=None) as events:
        if exchange.problem is not None:
            raise exchange.problem
        content_type = events.response.headers.get("content-type", "").lower()
        if not events.response.is_success or not content_type.startswith("text/event-stream"):
            raise RemoteProblem(Cause.NOT_MCP, "it offers no event stream")
        stream = aiter(events)
        yield SsePipe(post, await read_endpoint(url, stream), stream, exchange)


@asynccontextmanager
async def _run_on_pipe(
    pipe: MessagePipe, transport: str, identity: ClientIdentity, events: ConnectionEvents, mask: Mask
) -> AsyncGenerator[RemoteConnection, None]:
    reader = _PipeReader(pipe)
    async with _run(reader, _PipeWriter(pipe), transport, identity, events, mask) as connection:
        yield connection


@asynccontextmanager
async def _run(
    reader: ReadStream[SessionMessage | Exception],
    writer: WriteStream[SessionMessage],
    transport: str,
    identity: ClientIdentity,
    events: ConnectionEvents,
    mask: Mask,
) -> AsyncGenerator[RemoteConnection, None]:
    """Run a dispatcher on a transport's streams."""

    def end() -> None:
        ended = RemoteProblem(Cause.CLOSED, "it closed the connection")
        connection.lose(getattr(reader, "problem", None) or ended)

    def lose_flooded() -> None:
        connection.lose(RemoteProblem(Cause.NOT_MCP, _TOO_MANY_REQUESTS))

    watched = _Reader(reader, end)
    dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
        watched, _Writer(writer, lose_flooded)
    )
    connection = RemoteConnection(dispatcher, watched, transport, identity, mask)
    requests = _ServerRequests(connection, events)

    def intercept(method: str, params: Mapping[str, Any] | None) -> bool:
        connection.handle_notification(events, method, dict(params or {}))
        return True

    async def ignore(*_: object) -> None:
        """Do nothing: `intercept` has handled every notification."""

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        await dispatcher.run(requests.answer, ignore, intercept, task_status=task_status)

    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        try:
            yield connection
        finally:
            nursery.cancel_scope.cancel()


class _ServerRequests:
    """Answers requests of the server."""

    def __init__(self, connection: RemoteConnection, events: ConnectionEvents) -> None:
        self._connection = connection
        self._events = events
        self._open = 0

    async def answer(
        self, _context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> Params:
        if method == "ping":
            return {}
        if self._connection.is_modern:
            raise MCPError(Code.METHOD_NOT_FOUND, "MCP 2026-07-28 has no requests of a server")
        if self._open >= MAX_SERVER_REQUESTS:
            self._connection.lose(RemoteProblem(Cause.NOT_MCP, _TOO_MANY_REQUESTS))
        self._open += 1
        try:
            return await self._events.answer_request(method, dict(params or {}))
        except CallError as error:
            raise MCPError(error.code, error.detail) from None
        finally:
            self._open -= 1
