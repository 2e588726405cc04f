"""A connection to one native host: one reader, one writer, and the requests that wait for an answer."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable
from contextlib import suppress

import msgspec
import trio

from bridge import __version__
from bridge.errors import CallError
from bridge.hub.transport import NOBODY, Caller
from bridge.links.outbox import Outbox
from bridge.links.waiting import Question, Waiter
from native_host import endpoint, envelope, wire
from native_host.envelope import Envelope
from native_host.framing import FrameDecoder, FrameError, frame
from native_host.wire import Code, Wire

_READ_BYTES = 1024 * 1024
_UPDATE = (
    "Update the older side from a clone that is up to date: install/install.sh "
    "(or: pipx install --force DIR, then mcpb install-native-host && mcpb extension)"
)

_log = logging.getLogger(__name__)
_wire_log = logging.getLogger("bridge.wire")


class LinkError(Exception):
    """The host does not keep to the wire; `is_final` when trying again cannot help."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class Link:
    """Made with a connected stream; works while `run` does."""

    def __init__(self, stream: trio.SocketStream, hear: Callable[[str, Wire], None]) -> None:
        self._stream = stream
        self._hear = hear
        self._outbox = Outbox()
        self._decoder = FrameDecoder(wire.SOCKET_BYTES, "little")
        self._numbers = itertools.count(1)
        self._waiting: dict[bytes, Waiter] = {}
        self._slots = trio.Semaphore(wire.CLIENT_IN_FLIGHT)
        self._is_open = True
        self._nursery: trio.Nursery  # while it runs

    async def run(self, sessions: list[wire.Session]) -> None:
        """Speak with the host until it closes.

        Raises:
            LinkError: it does not keep to the wire.
            FrameError: nor to the framing.
            trio.BrokenResourceError: it is gone.
        """
        self.tell(
            "bridge/hello", wire.BridgeHello(wire=wire.WIRE_VERSION, version=__version__, pid=os.getpid())
        )
        self.tell("bridge/sessions", wire.BridgeSessions(sessions=sessions))
        endpoint.tune(self._stream)
        broken: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._write)
                try:
                    await self._read()
                except (LinkError, FrameError, trio.BrokenResourceError) as error:
                    broken = error  # raised outside: a nursery would wrap it
                nursery.cancel_scope.cancel()
        finally:
            self._is_open = False
            self._outbox.close()
            for waiter in self._waiting.values():
                waiter.settle(None)
            await trio.aclose_forcefully(self._stream)
        if broken:
            raise broken

    def tell(self, method: str, params: Wire) -> None:
        """Send a notification, without waiting."""
        _wire_log.debug("→ %s", method)
        self._push(envelope.notification(method, params))

    async def request(self, method: str, params: Wire, timeout_s: float, caller: Caller = NOBODY) -> bytes:
        """Ask and wait for the result. See `TabTransport.request`."""
        raw_id = b"%d" % next(self._numbers)
        _wire_log.debug("→ %s", method)
        body = envelope.request(raw_id, method, msgspec.json.encode(params))
        _check_size("the call", body, handed=False)
        with trio.move_on_after(timeout_s) as scope:
            waiter = Waiter(scope, timeout_s, caller)
            async with self._slots:
                await self._ask(raw_id, body, waiter)
        if not waiter.done.is_set():
            detail = f"{timeout_s:g} s have passed"
            raise CallError(Code.TIMED_OUT, detail, handed=waiter.may_have_been_handed)
        return _result(waiter)

    async def _ask(self, raw_id: bytes, body: bytes, waiter: Waiter) -> None:
        if not self._is_open:
            waiter.settle(None)
            return
        self._waiting[raw_id] = waiter
        try:
            waiter.outgoing = await self._outbox.put(frame(body, "little"))
            await waiter.done.wait()
        finally:
            del self._waiting[raw_id]
            waiter.end()
            if not waiter.done.is_set():
                self._give_up(raw_id, waiter)

    def _give_up(self, raw_id: bytes, waiter: Waiter) -> None:
        if waiter.outgoing is None:
            return
        if waiter.outgoing.is_sent:
            self.tell("browser/cancel", wire.Cancel(id=int(raw_id)))
        else:
            waiter.outgoing.withdraw()

    def _push(self, body: bytes) -> None:
        self._outbox.push(frame(body, "little"))

    async def _write(self) -> None:
        with suppress(trio.BrokenResourceError):  # the reader sees the end as well, and says it
            while True:
                await self._stream.send_all(await self._outbox.take())

    async def _read(self) -> None:
        with trio.move_on_after(wire.HELLO_SECONDS) as scope:
            first = await self._next_message()
        if scope.cancelled_caught:
            raise LinkError(f"the host did not introduce itself within {wire.HELLO_SECONDS:g} s")
        if first is None:
            return
        if first.method not in ("host/hello", "host/error"):
            raise LinkError(f"the host's first message is {first.method or 'an answer'}, not host/hello")
        self._take(first)
        while (message := await self._next_message()) is not None:
            self._take(message)

    async def _next_message(self) -> Envelope | None:
        """The host's next message; None when it has closed."""
        while (body := self._decoder.next_frame()) is None:
            data = await self._stream.receive_some(_READ_BYTES)
            if not data:
                self._decoder.end()
                return None
            self._decoder.feed(data)
        try:
            return envelope.decode(body)
        except envelope.UndecodableError as error:
            raise LinkError(f"the host sent what cannot be read ({error})") from None

    def _take(self, message: Envelope) -> None:
        _wire_log.debug("← %s", message.method or "answer")
        if message.is_response:
            if waiter := self._waiting.get(bytes(message.id)):
                waiter.settle(message)
        elif message.is_request:
            self._asked(message)
        else:
            self._notified(message)

    def _asked(self, message: Envelope) -> None:
        raw_id = bytes(message.id)
        try:
            asked = _question_in(message)
            waiter = self._waiter_for(message)
            question = waiter.open_question()
        except CallError as error:
            self._refuse(raw_id, error)
            return
        self._nursery.start_soon(self._put_question, raw_id, waiter, question, asked)

    def _waiter_for(self, message: Envelope) -> Waiter:
        waiter = self._waiting.get(bytes(message.for_))
        if waiter is None:
            raise CallError(Code.GONE, "nobody waits for the call that asks this", handed=False)
        return waiter

    async def _put_question(
        self, raw_id: bytes, waiter: Waiter, question: Question, asked: wire.ElicitConfirmation
    ) -> None:
        try:
            answer = await waiter.put(question, asked)
            _check_size("the answer", answer, handed=True)
        except CallError as error:
            self._refuse(raw_id, error)
        else:
            self._push(envelope.result(raw_id, answer))

    def _refuse(self, raw_id: bytes, error: CallError) -> None:
        self._push(envelope.failure(raw_id, error.code, error.detail, handed=error.handed))

    def _notified(self, message: Envelope) -> None:
        method = wire.METHODS.get(message.method)
        if method is None:
            _log.debug("an unknown notification was dropped: %s", message.method)
            return
        try:
            params = msgspec.json.decode(bytes(message.params) or b"{}", type=method.params)
        except (msgspec.DecodeError, RecursionError) as error:
            _log.warning("a malformed %s was dropped: %s", message.method, error)
            return
        match params:
            case wire.Progress():
                if waiter := self._waiting.get(bytes(message.for_)):
                    waiter.progress(params)
            case wire.HostError():
                raise LinkError(_with_remedy(params), is_final=params.code == Code.WIRE_VERSION)
            case _:
                _check_wire(params)
                self._hear(message.method, params)


def _check_size(what: str, body: bytes, *, handed: bool) -> None:
    if len(body) > wire.CHUNKED_BYTES:
        detail = f"{what} is {len(body)} bytes long, the limit is {wire.CHUNKED_BYTES}"
        raise CallError(Code.TOO_LARGE, detail, handed=handed)


def _question_in(message: Envelope) -> wire.ElicitConfirmation:
    if message.method != "browser/elicitConfirmation":
        text = f"{message.method} is not known to mcpb {__version__}"
        raise CallError(Code.METHOD_NOT_FOUND, text, handed=False)
    try:
        return msgspec.json.decode(bytes(message.params) or b"{}", type=wire.ElicitConfirmation)
    except (msgspec.DecodeError, RecursionError) as error:
        text = f"the question cannot be read: {error}"
        raise CallError(Code.INVALID_PARAMS, text, handed=False) from None


def _result(waiter: Waiter) -> bytes:
    answer = waiter.answer
    if answer is None:
        raise CallError(Code.GONE, handed=waiter.may_have_been_handed)
    if not bytes(answer.error):
        return bytes(answer.result)
    try:
        error = msgspec.json.decode(answer.error, type=envelope.Error)
    except msgspec.DecodeError:
        raise CallError(Code.INTERNAL_ERROR, "the host's error cannot be read", handed=True) from None
    raise CallError(error.code, error.message, handed=error.data.get("handed") is not False)


def _check_wire(params: Wire) -> None:
    match params:
        case wire.HostHello(wire=theirs, version=version):
            who = f"native host {version}"
        case wire.BrowserHello(wire=theirs, extension=extension):
            who = f"extension {extension.version}"
        case _:
            return
    if theirs != wire.WIRE_VERSION:
        ours = f"this bridge {__version__} speaks {wire.WIRE_VERSION}"
        raise LinkError(f"The {who} speaks wire version {theirs}, {ours}. {_UPDATE}", is_final=True)


def _with_remedy(error: wire.HostError) -> str:
    return f"{error.message} Run: {error.command}" if error.command else error.message
