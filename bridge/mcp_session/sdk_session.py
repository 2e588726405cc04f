"""Session of the mcp package, the authority on every message of a client. No other module knows the package.

It serves a session on in-memory streams, with the same results as `session.py`. It is imported on first use:
the import takes half a second and 50 MB.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, Self, get_args

import mcp_types as types
import trio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import validate_mcp_param_headers
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from mcp_types.jsonrpc import JSONRPCError, JSONRPCMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from bridge.errors import CallError, ProtocolError, to_mcp
from bridge.hub.argument_validation import NOTHING, Arguments
from bridge.hub.primitives.log_message import LogLevel
from bridge.hub.primitives.pagination import BadCursorError
from bridge.hub.router import ListKind
from bridge.hub.server_request import ClientSupport
from bridge.hub.tool_schema import Era
from bridge.hub.transport import HOPS
from bridge.mcp_session import call_results, client_writer
from bridge.mcp_session.call_results import Parts
from bridge.mcp_session.client_messages import Implementation, read_hops
from bridge.mcp_session.client_requests import (
    PROMPT_COMPLETE,
    PROMPT_GET,
    RESOURCE_READ,
    RESOURCE_SUBSCRIBE,
    TEMPLATE_COMPLETE,
    TOOL_CALL,
    ClientRequest,
    ClientRequests,
    Kind,
)
from bridge.mcp_session.client_writer import Client
from bridge.mcp_session.handover import GOODBYE_S, ForwardedLine, SessionHandover
from bridge.mcp_session.log_messages import SessionLog
from bridge.mcp_session.mcp_server import INSTRUCTIONS, STATELESS_VERSION, McpServer
from bridge.mcp_session.open_requests import Key, OpenRequest, OpenRequests
from bridge.mcp_session.request_errors import BAD_CURSOR, read_error
from bridge.mcp_session.resource_updates import ResourceUpdates
from native_host.protocol import jsonrpc
from native_host.protocol.wire import Code

_NO_MESSAGE = "not a message of MCP, or nested more than 200 deep"
"""The package reads no deeper, and does not say which it was."""
_MAX_LISTENING = 1024
_MISSED_ID = f"missed-{secrets.token_hex(8)}"
"""Id of a request whose response the client already has; no client uses it."""

_RULES = {"missing": "required", "extra_forbidden": "additionalProperties"}

_CALLS = (
    TOOL_CALL.method,
    RESOURCE_READ.method,
    RESOURCE_SUBSCRIBE.method,
    PROMPT_GET.method,
    PROMPT_COMPLETE.method,
)
_Context = ServerRequestContext[None, Any]
_Suspendable = types.CallToolRequestParams | types.ReadResourceRequestParams | types.GetPromptRequestParams
_Params = _Suspendable | types.SubscribeRequestParams | types.CompleteRequestParams
_log = logging.getLogger(__name__)


class SdkSession:
    """One MCP session on the mcp package: answers the lines that `McpSession` forwards."""

    def __init__(
        self,
        server: McpServer,
        client: Client,
        client_requests: ClientRequests,
        requests: OpenRequests[OpenRequest],
        updates: ResourceUpdates,
        log: SessionLog,
    ) -> None:
        self._server = server
        self._client = client
        self._client_requests = client_requests
        self._requests = requests
        self._asked: dict[Key, _PackageRequest] = {}
        self._updates = updates
        self._log = log
        self._listening: dict[_Bus, None] = {}
        self._handshaken: ServerSession | None = None
        self._package: Server[Any] = Server(
            call_results.SERVER["name"],
            version=call_results.SERVER["version"],
            title=call_results.SERVER["title"],
            instructions=INSTRUCTIONS,
            on_subscriptions_listen=self._listen,
        )
        self._package.add_request_handler("server/discover", types.RequestParams, self._handle_discover)
        self._package.add_request_handler("tools/list", types.PaginatedRequestParams, self._list_tools)
        self._package.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        self._package.add_request_handler(
            "resources/list", types.PaginatedRequestParams, self._list_resources
        )
        self._package.add_request_handler(
            "resources/templates/list", types.PaginatedRequestParams, self._list_templates
        )
        self._package.add_request_handler(
            "resources/read", types.ReadResourceRequestParams, self._read_resource
        )
        self._package.add_request_handler("prompts/list", types.PaginatedRequestParams, self._list_prompts)
        self._package.add_request_handler("prompts/get", types.GetPromptRequestParams, self._get_prompt)
        self._package.add_request_handler("completion/complete", types.CompleteRequestParams, self._complete)
        self._package.add_request_handler(
            "resources/subscribe", types.SubscribeRequestParams, self._subscribe
        )
        self._package.add_request_handler(
            "resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe
        )
        self._package.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        # Instead of the package's telemetry: nothing leaves this machine.
        self._package.middleware[:] = [self._guard]

    async def run(self, lines: trio.MemoryReceiveChannel[ForwardedLine], handover: SessionHandover) -> None:
        """Answer until there are no more lines, and what they have asked is answered or takes too long."""
        to_package, from_us = trio.open_memory_channel[SessionMessage | Exception](0)
        options = self._package.create_initialization_options(
            NotificationOptions(tools_changed=True, resources_changed=True, prompts_changed=True)
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._feed_package, lines, handover, to_package)
            await self._package.run(from_us, _Writer(self), options)

    async def tell_list_changed(self, kind: ListKind, *, also_handshake: bool) -> None:
        """Tell those clients of it that the package serves."""
        handshaken = self._handshaken if also_handshake else None
        match kind:
            case "tools":
                if handshaken:
                    await handshaken.send_tool_list_changed()
                self._publish(ToolsListChanged())
            case "resources":
                if handshaken:
                    await handshaken.send_resource_list_changed()
                self._publish(ResourcesListChanged())
            case "prompts":
                if handshaken:
                    await handshaken.send_prompt_list_changed()
                self._publish(PromptsListChanged())

    def _publish(self, event: ServerEvent) -> None:
        for bus in list(self._listening):
            bus.tell(event)

    # ── To the package ──────────────────────────────────────────────────────────────────────────────────────

    async def _feed_package(
        self,
        lines: trio.MemoryReceiveChannel[ForwardedLine],
        handover: SessionHandover,
        to_package: trio.MemorySendChannel[SessionMessage | Exception],
    ) -> None:
        with suppress(trio.BrokenResourceError):
            async with to_package, lines:
                for message in _handover_messages(handover):
                    await to_package.send(SessionMessage(message))
                async for forwarded in lines:
                    if found := self._read_line(forwarded):
                        await to_package.send(SessionMessage(found))
                with trio.move_on_after(GOODBYE_S):
                    await self._requests.wait_at_most(0)

    def _read_line(self, forwarded: ForwardedLine) -> JSONRPCMessage | None:
        """Return the message of a line; an invalid one is rejected."""
        found = _parse_line(forwarded.line)
        if isinstance(found, str):
            raw_id = bytes(jsonrpc.decode(forwarded.line).id)
            known_id = raw_id if jsonrpc.is_id(raw_id) else b""
            client_writer.make_rejection(forwarded.client, known_id, Code.INVALID_REQUEST, found)
            return None
        match found:
            case JSONRPCRequest():
                self._add_request(found, forwarded.client)
            case JSONRPCNotification(method="notifications/cancelled"):
                self._cancel_request((found.params or {}).get("requestId"))
        return found

    def _add_request(self, request: JSONRPCRequest, client: Client) -> None:
        key = coerce_request_id(request.id)
        if earlier := self._asked.get(key):
            earlier.settle()  # Responses with one id cannot be distinguished.
            earlier.client.forgo()
        is_call = request.method in _CALLS
        asked = _PackageRequest(self._asked, self._requests, key, client, is_call=is_call)
        if request.method != "subscriptions/listen":  # it lasts as long as the client does
            self._requests.add(asked)

    def _cancel_request(self, request_id: object) -> None:
        known_id = as_request_id(request_id)
        if known_id is not None and (asked := self._asked.get(coerce_request_id(known_id))):
            asked.settle()
            asked.client.forgo()

    # ── From the package ────────────────────────────────────────────────────────────────────────────────────

    def write(self, item: SessionMessage) -> None:
        """Send what the package says to whom it concerns."""
        message, client = item.message, self._client
        text = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            if message.id == _MISSED_ID:
                return
            if asked := self._asked.get(coerce_request_id(message.id)):
                client = asked.client
                asked.settle()
            client.answer(text, b"\n", error=message.error.code if isinstance(message, JSONRPCError) else 0)
            return
        if isinstance(item.metadata, ServerMessageMetadata) and item.metadata.related_request_id is not None:
            asked = self._asked.get(coerce_request_id(item.metadata.related_request_id))
            client = asked.client if asked else client
        client.write(text, b"\n")

    # ── What it answers ─────────────────────────────────────────────────────────────────────────────────────

    async def _guard(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Around every message: learn who the client is, and let no unexpected exception's text out.

        The package sends such texts to handshake-era clients.
        """
        self._handle_identity(ctx)
        try:
            if ctx.method == "initialize" and ctx.request_id is not None:
                return await self._handle_initialize(ctx, call_next)
            return await call_next(ctx)
        except _Answer as answered:
            return answered.result
        except ValidationError as error:
            if ctx.method == "tools/call":
                self._client_requests.record_rejected((ctx.params or {}).get("name"), _rejected_field(error))
            raise
        except MCPError:
            raise
        except BadCursorError:
            raise _to_sdk_error(BAD_CURSOR) from None
        except Exception as error:  # noqa: BLE001  (the last line before the client)
            _log.exception("answering %s failed", ctx.method)
            raise _to_sdk_error(to_mcp(error)) from None

    def _handle_identity(self, ctx: _Context) -> None:
        if ctx.method == "notifications/initialized":
            self._handshaken = ctx.session
        if client := ctx.session.client_params:
            info = client.client_info
            self._server.set_client(Implementation(name=info.name, version=info.version, title=info.title))

    async def _handle_initialize(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        found = await call_next(ctx)
        assert isinstance(found, dict)  # the package has made it ready for the wire
        found["capabilities"] = await self._server.capabilities()
        return found

    async def _handle_discover(self, _ctx: _Context, _params: types.RequestParams) -> NoReturn:
        raise _Answer(await self._server.discover_result())

    async def _list_tools(self, ctx: _Context, _params: types.PaginatedRequestParams) -> NoReturn:
        raise _Answer(await self._server.list_tools(_era_of(ctx)))

    async def _list_resources(self, ctx: _Context, params: types.PaginatedRequestParams) -> NoReturn:
        raise _Answer(await self._server.list_resources(_era_of(ctx), params.cursor))

    async def _list_templates(self, ctx: _Context, params: types.PaginatedRequestParams) -> NoReturn:
        raise _Answer(await self._server.list_templates(_era_of(ctx), params.cursor))

    async def _read_resource(self, ctx: _Context, params: types.ReadResourceRequestParams) -> NoReturn:
        await self._run(RESOURCE_READ, ctx, params, params.uri, NOTHING)

    async def _call_tool(self, ctx: _Context, params: types.CallToolRequestParams) -> NoReturn:
        await self._run(TOOL_CALL, ctx, params, params.name, Arguments.of(params.arguments or {}))

    async def _list_prompts(self, ctx: _Context, params: types.PaginatedRequestParams) -> NoReturn:
        raise _Answer(await self._server.list_prompts(_era_of(ctx), params.cursor))

    async def _get_prompt(self, ctx: _Context, params: types.GetPromptRequestParams) -> NoReturn:
        await self._run(PROMPT_GET, ctx, params, params.name, Arguments.of(params.arguments or {}))

    async def _complete(self, ctx: _Context, params: types.CompleteRequestParams) -> NoReturn:
        asked = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        argument = Arguments.of({name: asked[name] for name in ("argument", "context") if name in asked})
        if isinstance(params.ref, types.PromptReference):
            await self._run(PROMPT_COMPLETE, ctx, params, params.ref.name, argument)
        else:
            await self._run(TEMPLATE_COMPLETE, ctx, params, params.ref.uri, argument)

    async def _subscribe(self, ctx: _Context, params: types.SubscribeRequestParams) -> NoReturn:
        await self._run(RESOURCE_SUBSCRIBE, ctx, params, params.uri, NOTHING)

    async def _unsubscribe(self, ctx: _Context, params: types.UnsubscribeRequestParams) -> NoReturn:
        raise _Answer(self._server.unsubscribe(_era_of(ctx), params.uri))

    async def _set_level(self, ctx: _Context, params: types.SetLevelRequestParams) -> NoReturn:
        self._log.set_level(params.level)
        raise _Answer(call_results.make_result(_era_of(ctx), {}))

    async def _listen(
        self, ctx: _Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        if len(self._listening) >= _MAX_LISTENING:
            raise MCPError(
                INTERNAL_ERROR, f"A session may have {_MAX_LISTENING} subscriptions: end one of them"
            )
        bus = _Bus()
        uris = params.notifications.resource_subscriptions or ()
        try:
            end = self._server.listen_to_resources(uris, lambda uri: bus.tell(ResourceUpdated(uri)))
        except CallError as error:
            raise _to_sdk_error(read_error(error, _era_of(ctx))) from None
        self._listening[bus] = None
        try:
            return await ListenHandler(bus)(ctx, params)
        finally:
            del self._listening[bus]
            end()

    async def _run(
        self, kind: Kind, ctx: _Context, params: _Params, name: str, arguments: Arguments
    ) -> NoReturn:
        answers: list[Parts | ProtocolError] = []
        is_answered = trio.Event()

        def on_answer(answer: Parts | ProtocolError) -> None:
            answers.append(answer)
            is_answered.set()

        asked = self._asked_for(ctx, params, name, arguments)
        operation = self._client_requests.begin(kind, _era_of(ctx), asked, on_answer)
        try:
            await is_answered.wait()
        except trio.Cancelled:
            operation.cancel()
            raise
        answer = answers[0]
        if isinstance(answer, ProtocolError):
            raise _to_sdk_error(answer)
        raise _Answer(answer)

    def _asked_for(self, ctx: _Context, params: _Params, name: str, arguments: Arguments) -> ClientRequest:
        token = (ctx.meta or {}).get("progress_token")
        asked = self._asked.get(coerce_request_id(ctx.request_id)) if ctx.request_id is not None else None
        return ClientRequest(
            name,
            arguments,
            asked.client if asked else self._client,
            _support_of(ctx),
            progress_token=b"" if token is None else json.dumps(token).encode(),
            log_level=_read_level(ctx),
            hops=read_hops((ctx.meta or {}).get(HOPS)),
            state=params.request_state if isinstance(params, _Suspendable) else None,
            responses=_find_responses(ctx) if isinstance(params, _Suspendable) else {},
            notify_updated=self._updates.write,
        )


class _Bus:
    """A SubscriptionBus of the package for one `subscriptions/listen`."""

    def __init__(self) -> None:
        self.tell: Callable[[ServerEvent], None] = lambda _: None

    async def publish(self, event: ServerEvent) -> None:
        """Tell the subscriber an event."""
        self.tell(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Set the one listener."""
        self.tell = listener
        return lambda: None


class _PackageRequest:
    """A request whose response is due from the package."""

    def __init__(
        self,
        asked: dict[Key, _PackageRequest],
        requests: OpenRequests[OpenRequest],
        key: Key,
        client: Client,
        *,
        is_call: bool,
    ) -> None:
        self.client = client
        self.is_call = is_call
        self._asked = asked
        self._requests = requests
        self.key = key
        asked[key] = self

    def settle(self) -> None:
        """Remove it: it has its response or is cancelled."""
        if self._asked.get(self.key) is self:
            del self._asked[self.key]
        self._requests.discard(self)

    def cancel(self) -> None:
        """Do nothing: the package receives the cancellation itself."""
        self.settle()

    def close(self) -> None:
        """Do nothing: the package has responded."""


class _Answer(Exception):  # noqa: N818  (it carries a result)
    """A handler's result, past the package's own shaping: that would leave out what it does not know."""

    def __init__(self, found: Parts) -> None:
        super().__init__()
        self.result: dict[str, Any] = json.loads(b"".join(found))


class _Writer:
    """The package's write stream."""

    def __init__(self, session: SdkSession) -> None:
        self._session = session

    async def send(self, item: SessionMessage, /) -> None:
        self._session.write(item)

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def parameter_disagreement(
    schema: bytes, arguments: bytes, headers: Mapping[str, str]
) -> ProtocolError | None:
    """Return the disagreement of a call's headers and arguments, where the tool's schema wants both.

    Rules: MCP 2026-07-28, "x-mcp-header". All three are unparsed: JSON, and headers that may be repeated.
    """
    found = validate_mcp_param_headers(json.loads(schema), json.loads(arguments), headers)
    return ProtocolError(found.code, found.message) if found else None


def _handover_messages(handover: SessionHandover) -> list[JSONRPCMessage]:
    """Return the messages that set the package's era and complete its handshake."""
    match handover.era:
        case Era.HANDSHAKE:
            opening = _parse_line(handover.opening)
            if not isinstance(opening, JSONRPCRequest):  # it reads no number of thousands of digits
                return []
            told: list[JSONRPCMessage] = [_make_request("initialize", opening.params or {})]
            if handover.is_initialized:
                told.append(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized"))
            return told
        case Era.STATELESS:
            meta = {
                types.PROTOCOL_VERSION_META_KEY: STATELESS_VERSION,
                types.CLIENT_CAPABILITIES_META_KEY: {},
            }
            return [_make_request("server/discover", {"_meta": meta})]
        case None:
            return []


def _make_request(method: str, params: dict[str, Any]) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=_MISSED_ID, method=method, params=params)


def _parse_line(line: bytes) -> JSONRPCMessage | str:
    """Return the JSON-RPC message of a line, or the reason why it is invalid."""
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return _NO_MESSAGE
    if bytes(jsonrpc.decode(line).id) and isinstance(message, JSONRPCNotification):
        return "an id is a string or an integer"  # the package overlooks one that is neither
    return message


def _era_of(ctx: _Context) -> Era:
    return Era.STATELESS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else Era.HANDSHAKE


def _read_level(ctx: _Context) -> LogLevel | None:
    wanted = (ctx.meta or {}).get(types.LOG_LEVEL_META_KEY)
    return next((level for level in get_args(LogLevel) if level == wanted), None)


def _support_of(ctx: _Context) -> ClientSupport:
    declared = ctx.session.client_capabilities
    if declared is None:
        return ClientSupport()
    asks, sampling = declared.elicitation, declared.sampling
    return ClientSupport(
        elicitation=asks is not None and (asks.form is not None or asks.url is None),
        elicitation_url=asks is not None and asks.url is not None,
        sampling=sampling is not None,
        sampling_tools=sampling is not None and sampling.tools is not None,
        roots=declared.roots is not None,
        root_changes=declared.roots is not None and declared.roots.list_changed is True,
    )


def _find_responses(ctx: _Context) -> dict[str, bytes]:
    """Return the results in a retry, as the client wrote them: the package has validated them."""
    found = (ctx.params or {}).get("inputResponses") or {}
    return {key: json.dumps(result).encode() for key, result in found.items()}


def _rejected_field(error: ValidationError) -> str:
    """Return the member of `params` that was rejected and the rule, for instance `arguments: type`."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    member = next((str(step) for step in first["loc"] if step != "params"), "params")
    rule = "type" if first["type"].endswith("_type") else _RULES.get(first["type"], "invalid")
    return f"{member}: {rule}"


def _to_sdk_error(error: ProtocolError) -> MCPError:
    return MCPError(error.code, error.message, error.data)
