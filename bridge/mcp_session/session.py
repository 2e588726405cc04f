"""MCP session on bytes: responds to common messages itself, and leaves all others to the mcp package.

The package is the authority. This module handles only messages that the package would accept (see
`client_messages.py`), with the same responses. The package is imported for the first other message and
receives the state of the session. After an opening in another way or a second handshake it handles
everything.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec import UNSET, UnsetType

from bridge.errors import CallError, ProtocolError, to_mcp
from bridge.hub.argument_validation import NOTHING, Arguments
from bridge.hub.operation import FINISHED, Operation
from bridge.hub.primitives.pagination import BadCursorError
from bridge.hub.router import ListKind
from bridge.hub.server_request import ClientSupport
from bridge.hub.tool_schema import Era
from bridge.mcp_session import call_results, client_messages, client_writer, elicitation
from bridge.mcp_session.call_results import Parts
from bridge.mcp_session.client_messages import (
    CallTool,
    CancelledNotification,
    Complete,
    Discover,
    GetPrompt,
    Initialize,
    Listen,
    ListPrompts,
    ListResources,
    ListTemplates,
    ListTools,
    Message,
    Ping,
    PromptReference,
    ReadResource,
    Request,
    SetLevel,
    Subscribe,
    Unsubscribe,
    read_hops,
)
from bridge.mcp_session.client_requests import (
    PROMPT_COMPLETE,
    PROMPT_GET,
    RESOURCE_READ,
    RESOURCE_SUBSCRIBE,
    TEMPLATE_COMPLETE,
    TOOL_CALL,
    ClientRequest,
    Kind,
)
from bridge.mcp_session.client_writer import Client
from bridge.mcp_session.handover import GOODBYE_S, ForwardedLine, SessionHandover
from bridge.mcp_session.input_required import SuspendedCalls, open_suspended_calls
from bridge.mcp_session.log_messages import SessionLog
from bridge.mcp_session.mcp_server import STATELESS_VERSION, McpServer
from bridge.mcp_session.open_requests import OpenRequest, OpenRequests
from bridge.mcp_session.request_errors import BAD_CURSOR, read_error
from bridge.mcp_session.resource_updates import ResourceUpdates
from bridge.mcp_session.server_requests import ServerRequests
from native_host.protocol import jsonrpc

if TYPE_CHECKING:
    from bridge.mcp_session.sdk_session import SdkSession

_Runnable = CallTool | ReadResource | Subscribe | GetPrompt | Complete
MAX_SUBSCRIPTIONS = 64
_CLOSED = ProtocolError(-32000, "Connection closed")
_NO_RESPONSES: Mapping[str, bytes] = MappingProxyType({})
_WAITING_LINES = 64
"""For the package, while it is loaded; then its client waits."""

_log = logging.getLogger(__name__)


class McpSession:
    """One MCP session on one connection: answers the common messages of its client."""

    def __init__(
        self,
        server: McpServer,
        client: Client,
        suspended: SuspendedCalls,
        nursery: trio.Nursery,
        *,
        era: Era | None = None,
        leaves_all: bool = False,
    ) -> None:
        self._server = server
        self._client = client
        self._nursery = nursery
        self._server_requests = ServerRequests()
        self._client_requests = server.make_client_requests(suspended, self._server_requests, client)
        self._updates = ResourceUpdates(client, nursery)
        self._log = SessionLog(client, server.listen_to_log)
        self.requests: OpenRequests[OpenRequest] = OpenRequests()
        """Also those that the package is to answer; subscriptions are none, as they last."""
        self._subscriptions: OpenRequests[_Subscription] = OpenRequests()
        self._era = era
        """As the client's first words tell, where it is not known before."""
        self._is_only_one = era is None
        """True if the client has exactly one connection, so that waiting for it delays no other request."""
        self._opening = b""
        self._support = ClientSupport()
        """Of the client, in the handshake era."""
        """Capabilities of the client, in the handshake era."""
        self._is_initialized = False
        self._leaves_all = leaves_all
        self._lines: trio.MemorySendChannel[ForwardedLine] | None = None
        self._sdk_session: SdkSession | None = None
        self._sdk_scope = trio.CancelScope()
        self._sdk_ended = trio.Event()
        server.hear_changes(self._tell_list_changed)

    async def handle_line(self, line: bytes, client: Client | None = None) -> None:
        """Answer what a line says, now or later. This may wait, and then the client has to.

        To `client`, if it is given, goes what concerns this line's request: answer, reports and questions.
        """
        message = client_messages.read_message(line)
        if message is None or not await self._handle_message(message, line, client or self._client):
            await self._pass_on(line, client or self._client)

    async def end_input(self, *, is_script: bool) -> None:
        """Respond to the open requests of a client that sends no more; cancel slow ones without a response.

        A client that is no script has gone when it leaves calls open, and some raise an error for a message
        that comes then: its calls are cancelled at once.
        """
        self._server.remove_listener(self._tell_list_changed)
        if not is_script:
            await self._cancel_calls()
        if self._lines:
            self._lines.close()
        with trio.move_on_after(GOODBYE_S):
            await self.requests.wait_at_most(0)
        if self._lines:
            await self._sdk_ended.wait()
        self.abandon()

    async def close(self) -> None:
        """End the session: respond to all open requests. Those of calls say whether they may have run."""
        self._server.remove_listener(self._tell_list_changed)
        self._log.end()
        self._server.end_calls()
        if self._lines:
            self._lines.close()
            await self._sdk_ended.wait()
        for asked in [*self.requests, *self._subscriptions]:
            asked.close()

    def abandon(self) -> None:
        """Cancel the open requests: the client has gone."""
        self._server.remove_listener(self._tell_list_changed)
        self._log.end()
        self._sdk_scope.cancel()
        for asked in [*self.requests, *self._subscriptions]:
            asked.cancel()

    # ── What is answered here ───────────────────────────────────────────────────────────────────────────────

    async def _handle_message(self, message: Message, line: bytes, client: Client) -> bool:
        """Handle a message; return whether the package need not see it."""
        match message:
            case Initialize():
                return await self._shake_hands(message, line, client)
            case Request():
                return self._takes_request(message, client)
            case client_messages.InitializedNotification():
                self._is_initialized = self._era is Era.HANDSHAKE
                return self._era is not None and self._lines is None
            case CancelledNotification() if self._cancel_request(message):
                return True
            case client_messages.Notification(method="notifications/roots/list_changed"):
                self._client_requests.roots.discard()
                return self._lines is None
            case client_messages.Answer() if self._server_requests.handle_response(message):
                return True
            case _:
                return self._lines is None  # The package is not running.

    async def _shake_hands(self, message: Initialize, line: bytes, client: Client) -> bool:
        """Nothing else is read meanwhile: what follows may count on it."""
        if self._leaves_all or self._era:
            return False
        self._era, self._opening = Era.HANDSHAKE, line
        self._support = message.params.capabilities.support
        self._server.set_client(message.params.client_info)
        opened = _Open(self.requests, bytes(message.id), client)
        find = partial(self._server.initialize_result, message.params.protocol_version)
        await opened.answer_with(find, trio.CancelScope())
        return True

    def _takes_request(self, message: Request, client: Client) -> bool:
        if self._leaves_all:
            return False
        meta = message.params.meta
        if self._era is Era.HANDSHAKE:
            return meta.version is UNSET and self._answers_of_handshake(message, client)
        if meta.version != STATELESS_VERSION or isinstance(meta.capabilities, UnsetType):
            return False
        if isinstance(message, Initialize | Ping):
            return False
        self._era = Era.STATELESS
        if meta.client:
            self._server.set_client(meta.client)
        return self._answers_stateless(message, meta.capabilities.support, client)

    def _answers_of_handshake(self, message: Request, client: Client) -> bool:
        match message:
            case CallTool() if not message.params.is_retry:
                self._begin(TOOL_CALL, Era.HANDSHAKE, message, self._support, client)
            case CallTool() | ReadResource() | GetPrompt() if message.params.is_retry:
                return False
            case Ping():
                empty = call_results.make_result(Era.HANDSHAKE, {})
                client_writer.make_answer(client, bytes(message.id), empty)
            case Subscribe():
                self._begin(RESOURCE_SUBSCRIBE, Era.HANDSHAKE, message, self._support, client)
            case Unsubscribe():
                done = self._server.unsubscribe(Era.HANDSHAKE, message.params.uri)
                client_writer.make_answer(client, bytes(message.id), done)
            case SetLevel():
                self._log.set_level(message.params.level)
                done = call_results.make_result(Era.HANDSHAKE, {})
                client_writer.make_answer(client, bytes(message.id), done)
            case Discover() | Listen():
                return False
            case _:
                return self._answers_in(Era.HANDSHAKE, message, self._support, client)
        return True

    def _answers_stateless(self, message: Request, support: ClientSupport, client: Client) -> bool:
        match message:
            case CallTool():
                self._begin(TOOL_CALL, Era.STATELESS, message, support, client)
            case Discover():
                self._answer_later(message, client, self._server.discover_result)
            case Listen() if len(self._subscriptions) < MAX_SUBSCRIPTIONS:
                self._listen(message, client)
            case Listen():
                return False
            case _:
                return self._answers_in(Era.STATELESS, message, support, client)
        return True

    def _listen(self, message: Listen, client: Client) -> None:
        subscription = _Subscription(message, client, self._nursery)
        try:
            subscription.begin(self._server)
        except CallError as error:
            client_writer.make_answer(client, bytes(message.id), read_error(error, Era.STATELESS))
        else:
            self._subscriptions.add(subscription)

    def _answers_in(self, era: Era, message: Request, support: ClientSupport, client: Client) -> bool:
        server = self._server
        match message:
            case ReadResource():
                self._begin(RESOURCE_READ, era, message, support, client)
            case ListTools():
                self._answer_later(message, client, partial(server.list_tools, era))
            case ListResources():
                self._answer_later(
                    message, client, partial(server.list_resources, era, message.params.cursor)
                )
            case ListTemplates():
                self._answer_later(
                    message, client, partial(server.list_templates, era, message.params.cursor)
                )
            case ListPrompts():
                self._answer_later(message, client, partial(server.list_prompts, era, message.params.cursor))
            case GetPrompt():
                self._begin(PROMPT_GET, era, message, support, client)
            case Complete():
                is_prompt = isinstance(message.params.ref, PromptReference)
                self._begin(
                    PROMPT_COMPLETE if is_prompt else TEMPLATE_COMPLETE, era, message, support, client
                )
            case _:
                return False
        return True

    def _begin(
        self, kind: Kind, era: Era, message: _Runnable, support: ClientSupport, client: Client
    ) -> None:
        state, responses = _continuation_of(message)
        asked = ClientRequest(
            *_subject_of(message),
            client,
            support,
            progress_token=bytes(message.params.meta.progress_token),
            hops=read_hops(message.params.meta.hops),
            log_level=message.params.meta.log_level,
            state=state,
            responses=responses,
            notify_updated=self._updates.write,
        )
        opened = _Open(self.requests, bytes(message.id), client, is_call=True)
        opened.waits_for(self._client_requests.begin(kind, era, asked, opened.answer))

    def _answer_later(self, message: Request, client: Client, find: Callable[[], Awaitable[Parts]]) -> None:
        opened = _Open(self.requests, bytes(message.id), client)
        scope = trio.CancelScope()
        opened.waits_for(scope)  # it may be cancelled before its task starts
        self._nursery.start_soon(opened.answer_with, find, scope)

    def _cancel_request(self, message: CancelledNotification) -> bool:
        """Cancel a request; return whether it was handled here."""
        if not message.request_id:
            return False
        key = client_messages.correlate_id(message.request_id)
        if subscription := self._subscriptions.find(key):
            self._subscriptions.discard(subscription)
            subscription.cancel()
            return True
        request = self.requests.find(key)
        if not isinstance(request, _Open):
            return False
        request.cancel()
        return True

    async def _cancel_calls(self) -> None:
        """Cancel the open calls, as their client would."""
        for asked in self.requests:
            if asked.is_call:
                params = {"requestId": asked.key}
                await self.handle_line(client_writer.make_notification("notifications/cancelled", params))

    async def _tell_list_changed(self, kind: ListKind) -> None:
        if self._is_only_one:
            with suppress(trio.BrokenResourceError):
                await self._client.wait_room(client_writer.UNREAD_BYTES)
        if self._is_initialized and not self._leaves_all:
            self._client.write(client_writer.make_notification(f"notifications/{kind}/list_changed"))
        for subscription in self._subscriptions:
            subscription.tell_list_changed(kind)
        if self._sdk_session:
            await self._sdk_session.tell_list_changed(kind, also_handshake=self._leaves_all)

    # ── What is left to the package ─────────────────────────────────────────────────────────────────────────

    async def _pass_on(self, line: bytes, client: Client) -> None:
        try:
            found = jsonrpc.decode(line)
        except jsonrpc.UndecodableError as error:
            client_writer.make_rejection(client, client_messages.id_in(line), error.code, str(error))
            return
        if not found.method:
            self._server_requests.fail_open(bytes(found.id))
        if self._era is None or found.method == "initialize":
            self._leaves_all = True
        if self._lines is None:
            self._lines, lines = trio.open_memory_channel[ForwardedLine](_WAITING_LINES)
            handover = SessionHandover(self._era, self._opening, self._is_initialized)
            self._nursery.start_soon(self._run_sdk_session, lines, handover)
        await self._lines.send(ForwardedLine(line, client))

    async def _run_sdk_session(
        self, lines: trio.MemoryReceiveChannel[ForwardedLine], handover: SessionHandover
    ) -> None:
        with self._sdk_scope:
            await load_package()
            from bridge.mcp_session.sdk_session import SdkSession  # noqa: PLC0415

            self._sdk_session = SdkSession(
                self._server, self._client, self._client_requests, self.requests, self._updates, self._log
            )
            await self._sdk_session.run(lines, handover)
        self._sdk_ended.set()


async def load_package() -> ModuleType:
    """`sdk_session.py`, and with it the mcp package.

    In a thread: it takes half a second, and what needs no package is answered meanwhile.
    """
    if "bridge.mcp_session.sdk_session" not in sys.modules:
        await trio.to_thread.run_sync(import_module, "bridge.mcp_session.sdk_session")
    return sys.modules["bridge.mcp_session.sdk_session"]


def _subject_of(message: _Runnable) -> tuple[str, Arguments]:
    match message:
        case CallTool():
            return message.params.name, Arguments(message.params.arguments_json)
        case GetPrompt():
            return message.params.name, Arguments.of(message.params.arguments or {})
        case Complete():
            ref, argument = message.params.ref, message.params.argument
            asked = {"argument": argument, "context": message.params.context}
            raw = msgspec.json.encode({name: value for name, value in asked.items() if value is not None})
            return ref.name if isinstance(ref, PromptReference) else ref.uri, Arguments(raw)
        case _:
            return message.params.uri, NOTHING


def _continuation_of(message: _Runnable) -> tuple[str | None, Mapping[str, bytes]]:
    """Return the state of a suspended request that this one continues, and the responses to it."""
    if not isinstance(message, CallTool | ReadResource | GetPrompt) or not message.params.is_retry:
        return None, _NO_RESPONSES
    responses = message.params.input_responses or {}
    results = {
        key: elicitation.make_elicit_result(each.action, each.content) for key, each in responses.items()
    }
    return message.params.request_state, results


class _Open:
    """A request that is answered here."""

    def __init__(
        self, requests: OpenRequests[OpenRequest], raw_id: bytes, client: Client, *, is_call: bool = False
    ) -> None:
        self.key = client_messages.correlate_id(raw_id)
        self.is_call = is_call
        self._requests = requests
        self._raw_id = raw_id
        self._client = client
        self._operation: Operation = FINISHED
        self._is_answered = False
        requests.add(self)

    def waits_for(self, operation: Operation) -> None:
        """Set the operation that produces the response."""
        if not self._is_answered:
            self._operation = operation

    def answer(self, found: Parts | ProtocolError) -> None:
        """Once."""
        self._is_answered, self._operation = True, FINISHED
        self._requests.discard(self)
        client_writer.make_answer(self._client, self._raw_id, found)

    async def answer_with(self, find: Callable[[], Awaitable[Parts]], scope: trio.CancelScope) -> None:
        """With what is found, unless it is cancelled before."""
        with scope:
            await trio.lowlevel.checkpoint_if_cancelled()
            found: Parts | ProtocolError
            try:
                found = await find()
            except BadCursorError:
                found = BAD_CURSOR
            except Exception as error:  # noqa: BLE001  (the last line before the client)
                _log.exception("a request could not be answered")
                found = to_mcp(error)
            self.answer(found)

    def cancel(self) -> None:
        """Without an answer."""
        self._requests.discard(self)
        self._operation.cancel()
        self._client.forgo()

    def close(self) -> None:
        """With an answer that says so."""
        self._requests.discard(self)
        self._operation.cancel()
        client_writer.make_answer(self._client, self._raw_id, _CLOSED)


class _Subscription:
    """A client that hears of changes."""

    is_call = False

    def __init__(self, message: Listen, client: Client, nursery: trio.Nursery) -> None:
        self.key = client_messages.correlate_id(bytes(message.id))
        self._raw_id = bytes(message.id)
        self._client = client
        self._meta = {"io.modelcontextprotocol/subscriptionId": message.id}
        asked = msgspec.to_builtins(message.params.notifications)
        self._honored = {kind: wanted for kind, wanted in asked.items() if wanted}
        self._updates = ResourceUpdates(client, nursery, self._meta)
        self._end: Callable[[], None] = lambda: None

    def begin(self, server: McpServer) -> None:
        """Acknowledge it, and report from now on.

        Raises:
            CallError: it names too many resources.
        """
        self._end = server.listen_to_resources(
            self._honored.get("resourceSubscriptions", ()), self._updates.write
        )
        self._write("subscriptions/acknowledged", {"notifications": self._honored})

    def tell_list_changed(self, kind: ListKind) -> None:
        """Tell it, if it asked for that."""
        if f"{kind}ListChanged" in self._honored:
            self._write(f"{kind}/list_changed")

    def _write(self, what: str, told: Mapping[str, Any] | None = None) -> None:
        params = {"_meta": self._meta, **(told or {})}
        self._client.write(client_writer.make_notification(f"notifications/{what}", params))

    def cancel(self) -> None:
        """Without an answer."""
        self._end()
        self._client.forgo()

    def close(self) -> None:
        """With an answer that says so."""
        self._end()
        client_writer.make_answer(self._client, self._raw_id, _CLOSED)


NewSession = Callable[[Client, Era | None], McpSession]
"""Makes the session of a further connection; the era is None while it is unknown."""


@asynccontextmanager
async def open_sessions(server: McpServer, *, leaves_all: bool = False) -> AsyncIterator[NewSession]:
    """Yield a function that opens sessions on further connections of one client, which end with the block.

    Each connection has its own request ids. With `leaves_all`, the SDK session answers everything.
    """
    async with open_suspended_calls() as suspended, trio.open_nursery() as nursery:

        def new_session(client: Client, era: Era | None) -> McpSession:
            return McpSession(server, client, suspended, nursery, era=era, leaves_all=leaves_all)

        yield new_session
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_session(
    server: McpServer, client: Client, *, leaves_all: bool = False
) -> AsyncIterator[McpSession]:
    """Yield a session with one client on one connection, which ends with the block."""
    async with open_sessions(server, leaves_all=leaves_all) as new_session:
        yield new_session(client, None)
