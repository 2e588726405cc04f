"""Connection to one browser, behind a native host or a proxy: reader, writer, and pending requests.

A request is state and no task: its caller writes it, the reader completes it, and one task enforces all
deadlines.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
from collections.abc import Callable

import msgspec
import trio

from bridge import __version__
from bridge.errors import CallError
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.server_request import MissingCapabilityError, ServerRequest
from bridge.hub.transport import NO_OBSERVER, CallObserver
from bridge.links.browsers.host_streams import HostStream
from bridge.links.browsers.pending_requests import Deadlines, OpenServerRequest, PendingRequest
from native_host.ipc.send_queue import Outgoing
from native_host.protocol import jsonrpc, wire
from native_host.protocol.framing import FrameError
from native_host.protocol.jsonrpc import Envelope
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code, Wire
from native_host.system.problem import Problem

MAX_WAITING = 4096
"""Requests for which there is no room in flight yet. Front ends let each client have fewer open."""
LAST_RESPONSES_S = 1.0
"""Seconds for the responses of a proxy whose extension is gone."""

_SERVER_REQUESTS: dict[str, type[ServerRequest | wire.OfferedCall]] = {
    "browser/elicitConfirmation": wire.ElicitConfirmation,
    "browser/pageRequest": wire.PageRequest,
    "browser/offeredCall": wire.OfferedCall,
}

_log = logging.getLogger(__name__)
_wire_log = logging.getLogger("bridge.wire")


class LinkError(Exception):
    """The host or the extension does not keep to the wire; `is_final` when trying again cannot help."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.problem = text
        """A Problem, if there is a command."""
        self.is_final = is_final


class _Request(PendingRequest):
    """A pending request and its progress."""

    def __init__(
        self,
        connection: HostConnection,
        raw_id: bytes,
        timeout_s: float,
        on_finished: OnFinished[bytes | CallError],
        observer: CallObserver,
    ) -> None:
        super().__init__(timeout_s, on_finished, observer, connection.deadlines)
        self.raw_id = raw_id
        self.outgoing: Outgoing | None = None
        """None: it waits for room."""
        self._connection = connection

    @property
    def may_have_been_handed(self) -> bool:
        """Return whether the page may have received it."""
        return self.outgoing is not None and self.outgoing.has_begun

    @property
    def is_endless(self) -> bool:
        """Return whether it ends by itself."""
        return math.isinf(self._timeout_s)

    def withdraw(self) -> bool:
        """See `PendingRequest`."""
        return self._connection.cancel_request(self)


class HostConnection:
    """Connection on a connected stream; it works while `run` runs."""

    def __init__(
        self,
        stream: HostStream,
        hear: Callable[[str, Wire], None],
        on_unknown: Callable[[Envelope], None] | None = None,
    ) -> None:
        """Connect.

        Args:
            stream: the stream of messages.
            hear: receives the announcements.
            on_unknown: receives notifications that are not of the wire; for a proxy, which knows this bridge
                already. None: this is a native host.
        """
        self.deadlines = Deadlines()
        self._stream = stream
        self._hear = hear
        self._on_unknown = on_unknown
        self._holds_back = False
        """True while writes are collected."""
        self._numbers = itertools.count(1)
        self._in_flight: dict[bytes, _Request] = {}
        self._waiting: dict[_Request, tuple[bytes, ...]] = {}
        """Requests above the limit in flight, the oldest first."""
        self._is_wire_logged = _wire_log.isEnabledFor(logging.DEBUG)
        self._nursery: trio.Nursery  # while it runs
        self._is_retired = False
        """No more requests are sent; `run` returns when all have their responses."""
        self._is_browser_lost = False
        self._receiving = trio.CancelScope()

    async def run(self, sessions: wire.BridgeSessions | None = None) -> None:
        """Speak with the host until it closes; first send these sessions.

        Raises:
            LinkError: it does not keep to the wire.
            FrameError: nor to the framing.
            trio.BrokenResourceError: it is gone.
        """
        if self._on_unknown is None:
            hello = wire.BridgeHello(wire=wire.WIRE_VERSION, version=__version__, pid=os.getpid())
            self.send_notification("bridge/hello", hello)
        if sessions:
            self.send_notification("bridge/sessions", sessions)
        broken: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._stream.run)
                nursery.start_soon(self.deadlines.run)
                try:
                    with self._receiving:
                        await self._receive_messages()
                except (LinkError, FrameError, trio.BrokenResourceError) as error:
                    broken = error  # raised outside: a nursery would wrap it
                await self._stream.finish()
                nursery.cancel_scope.cancel()
        finally:
            await self._stream.close()
        if broken:
            raise broken

    def retire(self, *, is_browser_lost: bool = False) -> None:
        """Send no more requests, and let `run` return once those that are sent have their responses.

        Subscriptions, which have no timeout, fail at once. With `is_browser_lost` the responses are of the
        proxy, and must come within LAST_RESPONSES_S.
        """
        self._is_retired = True
        self._is_browser_lost = self._is_browser_lost or is_browser_lost
        sent = list(self._in_flight.values())
        ending = [each for each in sent if each.is_endless or not each.may_have_been_handed]
        for request in (*self._waiting, *ending):
            if not request.is_over:  # the end of another one may have cancelled it
                handed = request.withdraw()
                request.complete(CallError(Code.GONE, handed=handed))
        if is_browser_lost:
            self._receiving.deadline = trio.current_time() + LAST_RESPONSES_S
        self._end_if_retired()

    def _end_if_retired(self) -> None:
        if self._is_retired and not self._in_flight:
            self._receiving.cancel()

    def close(self) -> None:
        """Fail all pending requests."""
        while self._waiting or self._in_flight:  # One at a time: a callback may cancel another one.
            request = next(iter(self._waiting or self._in_flight.values()))
            self._waiting.pop(request, None)
            self._in_flight.pop(request.raw_id, None)
            request.complete(CallError(Code.GONE, handed=request.may_have_been_handed))

    def send_notification(self, method: str, params: Wire) -> None:
        """Send a notification, without waiting."""
        self._log_message("→", method)
        self._write_message(jsonrpc.notification(method, params))

    def send(
        self,
        method: str,
        params: Wire,
        timeout_s: float,
        on_finished: OnFinished[bytes | CallError],
        observer: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """Ask, without waiting for the result. See `TabTransport.send`."""
        self._log_message("→", method)
        raw_id = b"%d" % next(self._numbers)
        parts = jsonrpc.request_parts(raw_id, method, msgspec.json.encode(params))
        try:
            _check_size("the call", sum(map(len, parts)), handed=False)
            self._check_open()
        except CallError as error:
            on_finished(error)
            return FINISHED
        request = _Request(self, raw_id, timeout_s, on_finished, observer)
        if self._has_room and not self._waiting:
            self._send_request(request, parts)
        else:
            self._waiting[request] = parts
        return request

    def cancel_request(self, request: _Request) -> bool:
        """Cancel a request; return whether the page may have received it."""
        if self._waiting.pop(request, None) is not None:
            return False
        del self._in_flight[request.raw_id]
        if request.outgoing is not None and not request.outgoing.has_begun:
            self._stream.withdraw(request.outgoing)
        else:
            self.send_notification("browser/cancel", wire.Cancel(id=int(request.raw_id)))
        self._launch_waiting()
        self._end_if_retired()
        return request.may_have_been_handed

    @property
    def _has_room(self) -> bool:
        return len(self._in_flight) < wire.CLIENT_IN_FLIGHT

    def _check_open(self) -> None:
        if self._is_retired:
            raise CallError(Code.GONE, handed=False)
        if len(self._waiting) >= MAX_WAITING:
            detail = f"{MAX_WAITING} calls wait for this browser already"
            raise CallError(Code.RATE_LIMITED, detail, handed=False)

    def _send_request(self, request: _Request, parts: tuple[bytes, ...]) -> None:
        self._in_flight[request.raw_id] = request
        request.outgoing = self._write_message(*parts)

    def _launch_waiting(self) -> None:
        while self._waiting and self._has_room:
            request = next(iter(self._waiting))
            self._send_request(request, self._waiting.pop(request))

    def _write_message(self, *parts: bytes) -> Outgoing:
        outgoing = self._stream.put(*parts)
        if not self._holds_back:
            self._stream.flush()
        return outgoing

    def _log_message(self, direction: str, what: str) -> None:
        if self._is_wire_logged:
            _wire_log.debug("%s %s", direction, what)

    async def _receive_messages(self) -> None:
        with trio.move_on_after(wire.HELLO_SECONDS) as scope:
            bodies = await self._stream.receive()
        if scope.cancelled_caught:
            raise LinkError(f"the host did not introduce itself within {wire.HELLO_SECONDS:g} s")
        if bodies:
            _check_first(_decode_body(bodies[0]))
        while bodies:
            self._handle_all(bodies)
            bodies.clear()  # a long one would stay until the next has come
            bodies = await self._stream.receive()

    def _handle_all(self, bodies: list[bytes]) -> None:
        """Handle messages; write all responses together."""
        self._holds_back = True
        for body in bodies:
            if (result := jsonrpc.read_result(body)) is None:
                self._handle_message(_decode_body(body))
            else:
                self._log_message("←", "answer")
                self._complete_request(*result)
        self._holds_back = False
        self._stream.flush()

    def _handle_message(self, message: Envelope) -> None:
        self._log_message("←", message.method or "answer")
        if message.is_response:
            self._complete_request(bytes(message.id), _answer_in(message))
        elif message.is_request:
            self._handle_server_request(message)
        else:
            self._handle_notification(message)

    def _complete_request(self, raw_id: bytes, answer: bytes | CallError) -> None:
        if request := self._in_flight.pop(raw_id, None):
            if self._is_browser_lost and isinstance(answer, CallError):
                answer = CallError(Code.GONE, handed=answer.handed)
            request.complete(answer)
            self._launch_waiting()
            if self._is_retired:
                self._end_if_retired()

    def _handle_server_request(self, message: Envelope) -> None:
        raw_id = bytes(message.id)
        try:
            request = _read_server_request(message)
            pending = self._pending_for(message)
            opened = pending.open_server_request(raw_id, request)
        except CallError as error:
            self._reject_server_request(raw_id, error)
            return
        self._nursery.start_soon(self._answer_server_request, raw_id, pending, opened)

    def _pending_for(self, message: Envelope) -> PendingRequest:
        pending = self._in_flight.get(bytes(message.for_))
        if pending is None:
            raise CallError(Code.GONE, "the call of this request has ended", handed=False)
        return pending

    async def _answer_server_request(
        self, raw_id: bytes, pending: PendingRequest, opened: OpenServerRequest
    ) -> None:
        try:
            result = await pending.answer_server_request(raw_id, opened)
            _check_size("the result", len(result), handed=True)
        except CallError as error:
            self._reject_server_request(raw_id, error)
        else:
            self._write_message(jsonrpc.result(raw_id, result))

    def _reject_server_request(self, raw_id: bytes, error: CallError) -> None:
        data = {"capability": error.capability} if isinstance(error, MissingCapabilityError) else {}
        body = jsonrpc.failure(raw_id, error.code, error.detail, handed=error.handed, **data)
        self._write_message(body)

    def _handle_notification(self, message: Envelope) -> None:
        method = wire.METHODS.get(message.method)
        if method is None:
            _log.debug("an unknown notification was dropped: %s", message.method)
            if self._on_unknown:
                self._on_unknown(message)
            return
        try:
            params = msgspec.json.decode(bytes(message.params) or b"{}", type=method.params)
        except (msgspec.DecodeError, RecursionError) as error:
            _log.warning("a malformed %s was dropped: %s", message.method, error)
            return
        if message.for_:
            if pending := self._in_flight.get(bytes(message.for_)):
                pending.handle_notification(params)
            return
        match params:
            case wire.HostError():
                command = _name_command(params.command)
                text = f"{params.message} Run: {command}" if command else params.message
                problem = Problem(text, command)
                raise LinkError(problem, is_final=params.code == Code.WIRE_VERSION)
            case _:
                _check_wire(params)
                self._hear(message.method, params)


def _check_size(what: str, size: int, *, handed: bool) -> None:
    if size > wire.CHUNKED_BYTES:
        detail = f"{what} is {size} bytes long, the limit is {wire.CHUNKED_BYTES}"
        raise CallError(Code.TOO_LARGE, detail, handed=handed)


def _read_server_request(message: Envelope) -> ServerRequest | wire.OfferedCall:
    params = _SERVER_REQUESTS.get(message.method)
    if params is None:
        text = f"{message.method} is not known to mcpb {__version__}"
        raise CallError(Code.METHOD_NOT_FOUND, text, handed=False)
    try:
        return msgspec.json.decode(bytes(message.params) or b"{}", type=params)
    except (msgspec.DecodeError, RecursionError) as error:
        text = f"the request cannot be read: {describe_problem(error)}"
        raise CallError(Code.INVALID_PARAMS, text, handed=False) from None


def _decode_body(body: bytes) -> Envelope:
    try:
        return jsonrpc.decode(body)
    except jsonrpc.UndecodableError as error:
        raise LinkError(f"the host sent what cannot be read ({error})") from None


def _check_first(message: Envelope) -> None:
    if message.method not in ("host/hello", "host/error"):
        raise LinkError(f"the host's first message is {message.method or 'an answer'}, not host/hello")


def _answer_in(message: Envelope) -> bytes | CallError:
    if not message.error:
        return bytes(message.result)
    try:
        error = msgspec.json.decode(message.error, type=jsonrpc.Error)
    except msgspec.DecodeError:
        return CallError(Code.INTERNAL_ERROR, "the host's error cannot be read", handed=True)
    is_handed = error.data.get("handed") is not False
    if error.code == Code.PAUSED:
        site = error.data.get("site")
        return CallError(Code.PAUSED, site if isinstance(site, str) else "", handed=is_handed)
    # Browsers and pages quote what they were given: `Cannot navigate to invalid URL "…"`.
    return CallError(error.code, error.message, handed=is_handed, logged="")


def _check_wire(params: Wire) -> None:
    match params:
        case wire.HostHello(wire=theirs, version=version):
            who = f"native host {version}"
        case wire.BrowserHello(wire=theirs, extension=extension):
            who = f"extension {extension.version}"
        case _:
            return
    ours = wire.WIRE_VERSION
    if theirs == ours:
        return
    text = f"The {who} speaks wire version {theirs}, this bridge {__version__} speaks {ours}: "
    if theirs < ours:
        text += "reload the extension, which then starts the present host. If that does not help, run: "
        command = _name_command("mcpb install-native-host")
        raise LinkError(Problem(text + command, command), is_final=True)
    text += "restart the MCP client; if an mcpb command reports this, update mcpb with install/install.sh."
    raise LinkError(text, is_final=True)


def _name_command(command: str) -> str:
    """Return a command with the name that starts this mcpb: a host does not know the user's `PATH`."""
    # A bridge without such a problem never imports it.
    from native_host.system.program_name import format_command  # noqa: PLC0415

    name, _, arguments = command.partition(" ")
    return format_command(arguments) if name == "mcpb" else command
