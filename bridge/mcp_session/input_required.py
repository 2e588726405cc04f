"""Calls suspended with `input_required`: each waits for a retry with the client's responses (MCP 2026-07-28).

The result of a call can be server requests: the client answers them and repeats the call with their results.
Requests within COLLECT_S of the first one share one suspension. The suspended call continues meanwhile, and
the retry resumes it without running anything again; it may answer some of the requests, and the others are
sent again. Without a retry in time the call is cancelled. A random state identifies the call, which stays
bound to its document, whatever its name stands for by then.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.page_call import Outcome
from bridge.hub.primitives.log_message import LogLevel, LogMessage, LogRecipient
from bridge.hub.server_request import SERVER_REQUEST_S, ClientSupport
from bridge.hub.transport import CallObserver, OnProgress
from bridge.mcp_session.call_observer import ClientFacingRequest, make_observer
from native_host.protocol import wire
from native_host.protocol.wire import Code

MAX_SUSPENDED = 16
COLLECT_S = 0.02
"""Seconds after the first server request in which others join its suspension."""
LAST_WORDS_S = 1.0
"""Seconds that a page has between the missing answer and the cancellation."""
_STATE_BYTES = 16

_log = logging.getLogger(__name__)


class InputRequired(msgspec.Struct, frozen=True):
    """Suspension of a call: `SuspendedCalls.resume` continues it with this state and its responses."""

    state: str
    requests: Mapping[str, ClientFacingRequest]
    """By keys that no other request of the call has had: a late result must not fit another request."""


class Request(msgspec.Struct, frozen=True):
    """What a request is for, equal in its retry."""

    method: str
    name: str
    """Of a tool or prompt, or a URI."""
    arguments: Arguments

    def is_same_as(self, other: Request) -> bool:
        """Return whether the other request is equal, whatever its JSON looks like."""
        is_for_same = (self.method, self.name) == (other.method, other.name)
        return is_for_same and _sort_arguments(self.arguments) == _sort_arguments(other.arguments)


Begin = Callable[[Callable[[Outcome], None], CallObserver], Operation]


class RetryError(Exception):
    """There is no call to resume; the text says it to the client."""


class SuspendedCalls:
    """Calls of one session that server requests can suspend."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._suspended: dict[str, _Call] = {}
        self._collecting: set[_Call] = set()
        """Calls that are suspended as soon as their further requests have come."""

    def begin(
        self,
        request: Request,
        begin: Begin,
        on_turn: OnFinished[Outcome | InputRequired],
        on_progress: OnProgress | None = None,
        log: LogRecipient | None = None,
        *,
        support: ClientSupport,
    ) -> Operation:
        """Run a call until it has its result or a server request. Cancelling cancels the call.

        Only a call that began with `on_progress` reports progress, then and when it is resumed. The same
        holds for `log` and log messages, which go to that of the message that waits.
        """
        call = _Call(request)
        turn = call.take_turn(on_turn, on_progress, log)
        on_report = call.report if on_progress else None
        observer = make_observer(support, partial(self._send_request, call), on_report)
        if log:
            observer = msgspec.structs.replace(observer, log=_CallLog(call))
        call.comes_from(begin(call.end, observer))
        return turn

    def resume(
        self,
        state: str,
        request: Request,
        responses: Mapping[str, bytes],
        on_turn: OnFinished[Outcome | InputRequired],
        on_progress: OnProgress | None = None,
        log: LogRecipient | None = None,
    ) -> Operation:
        """Answer requests of a suspended call and go on as `begin` does; without any answer, ask again.

        `responses` are MCP results as JSON, by the keys of the requests.

        Raises:
            RetryError: no call is suspended under this state, or the request names another call.
        """
        call = self._suspended.get(state)
        if call is None or trio.current_time() >= call.expires_at:
            # The text holds for every unknown state, so that none has to be remembered.
            raise RetryError(
                "These requests are closed: they were answered already, or not answered within "
                f"{SERVER_REQUEST_S:g} s and their call was cancelled. It may have run, and was not "
                "started again: look at the page before you repeat it, without requestState."
            )
        if not call.request.is_same_as(request):
            raise RetryError(
                "requestState belongs to another call, and nothing was run. Repeat that call with the same "
                "name and arguments, or make this one without requestState."
            )
        if call.open and not call.answer_requests(responses) and not call.ended.is_set():
            on_turn(InputRequired(state, call.asked))
            return FINISHED
        del self._suspended[state]
        turn = call.take_turn(on_turn, on_progress, log)
        call.resume()
        if call.is_awaited and call.open:
            self._collect_requests(call)
        return turn

    async def _send_request(self, call: _Call, asked: ClientFacingRequest) -> bytes:
        if call.is_awaited:
            self._collect_requests(call)
        elif call not in self._suspended.values() or trio.current_time() >= call.expires_at:
            raise CallError(Code.GONE, "the client does not wait for this call any more", handed=False)
        opened = _OpenRequest(asked)
        key = call.open_request(opened)
        try:
            await opened.answered.wait()
        finally:
            call.open.pop(key, None)
        return opened.result

    def _collect_requests(self, call: _Call) -> None:
        """Suspend a call after COLLECT_S."""
        if call in self._collecting:
            return
        if len(self._suspended) + len(self._collecting) >= MAX_SUSPENDED:
            text = f"{MAX_SUSPENDED} calls of this client wait for an answer: ask again later"
            raise CallError(Code.RATE_LIMITED, text, handed=False)
        self._collecting.add(call)
        self._nursery.start_soon(self._suspend_call, call)

    async def _suspend_call(self, call: _Call) -> None:
        """End the turn of a call with its open requests; cancel it without a retry, or discard its result."""
        await trio.sleep(COLLECT_S)
        self._collecting.discard(call)
        if not call.is_awaited or not call.open:
            return
        state = secrets.token_urlsafe(_STATE_BYTES)
        self._suspended[state] = call
        resumed = call.suspend(state)
        with trio.move_on_at(call.expires_at):
            await resumed.wait()
        if not resumed.is_set() and not call.ended.is_set():
            with trio.move_on_after(LAST_WORDS_S):
                await call.ended.wait()
        if self._suspended.pop(state, None):
            _log.info("%.128r ended, and the client did not come back for it", call.request.name)
            call.cancel()

    def cancel_all(self) -> None:
        """Cancel all suspended calls: their session has ended."""
        for call in self._suspended.values():
            call.cancel()
        self._suspended.clear()


class _OpenRequest:
    """A server request without its result."""

    def __init__(self, asked: ClientFacingRequest) -> None:
        self.asked = asked
        self.opened_at = trio.current_time()
        self.answered = trio.Event()
        self.result = b""


class _Call:
    """A call, and what passes between it and the messages of the client about it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.open: dict[str, _OpenRequest] = {}
        """Server requests without a result, by their keys."""
        self.expires_at = -math.inf
        self._requests = 0
        """Server requests that it has sent."""
        self.ended = trio.Event()
        self._resumed = trio.Event()
        self._operation: Operation = FINISHED
        self._outcome: Outcome | None = None
        self._turn: _Turn | None = None
        """Message of the client that waits for the next outcome."""

    def comes_from(self, operation: Operation) -> None:
        """Keep the operation until the call has ended: each refers to the other."""
        if not self.ended.is_set():
            self._operation = operation

    @property
    def is_awaited(self) -> bool:
        """A message of the client waits for what comes next."""
        return self._turn is not None

    @property
    def asked(self) -> Mapping[str, ClientFacingRequest]:
        """Return the open requests as the client receives them."""
        return {key: each.asked for key, each in self.open.items()}

    @property
    def log(self) -> LogRecipient | None:
        """Recipient of log messages, that of the message that waits now."""
        return self._turn.log if self._turn else None

    def take_turn(
        self,
        on_turn: OnFinished[Outcome | InputRequired],
        on_progress: OnProgress | None,
        log: LogRecipient | None,
    ) -> Operation:
        """Let a message of the client wait. Cancelling the turn cancels the call."""
        self._turn = _Turn(self, on_turn, on_progress, log)
        return self._turn

    def is_turn(self, turn: Operation) -> bool:
        """Return whether this message waits now."""
        return self._turn is turn

    def end_turn(self, told: Outcome | InputRequired) -> None:
        turn, self._turn = self._turn, None
        if turn:
            turn.on_turn(told)

    def report(self, progress: wire.Progress) -> None:
        """To the message that waits now."""
        if self._turn and self._turn.on_progress:
            self._turn.on_progress(progress)

    def open_request(self, opened: _OpenRequest) -> str:
        """Add a server request and return its key."""
        self._requests += 1
        key = "question" if self._requests == 1 else f"question-{self._requests}"
        self.open[key] = opened
        return key

    def answer_requests(self, responses: Mapping[str, bytes]) -> bool:
        """Close the requests that a response fits; return whether there was one."""
        read = {
            key: result
            for key, each in self.open.items()
            if (result := _read_response(each, responses.get(key)))
        }
        for key, result in read.items():
            opened = self.open.pop(key)
            opened.result = result
            opened.answered.set()
        return bool(read)

    def suspend(self, state: str) -> trio.Event:
        """End the turn with the open requests; return the event of its retry."""
        self.expires_at = min(each.opened_at for each in self.open.values()) + SERVER_REQUEST_S
        self._resumed = trio.Event()
        self.end_turn(InputRequired(state, self.asked))
        return self._resumed

    def resume(self) -> None:
        """Let the call go on; it may have ended meanwhile."""
        self._resumed.set()
        if self._outcome is not None:
            self.end_turn(self._outcome)
            self._outcome = None

    def end(self, outcome: Outcome) -> None:
        """Store the outcome, or pass it to the waiting message."""
        self._operation = FINISHED
        self.ended.set()
        if self.is_awaited:
            self.end_turn(outcome)
        else:
            self._outcome = outcome

    def cancel(self) -> None:
        self._turn = None
        self.ended.set()
        self._operation.cancel()


class _Turn:
    """A message of the client that waits for a call's next words."""

    def __init__(
        self,
        call: _Call,
        on_turn: OnFinished[Outcome | InputRequired],
        on_progress: OnProgress | None,
        log: LogRecipient | None,
    ) -> None:
        self.on_turn = on_turn
        self.on_progress = on_progress
        self.log = log
        self._call = call

    def cancel(self) -> None:
        """Cancel the call. Does nothing once the turn has ended."""
        if self._call.is_turn(self):
            self._call.cancel()


class _CallLog:
    """`LogRecipient` of a call: while it is suspended, it receives nothing."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    @property
    def level(self) -> LogLevel | None:
        """See `LogRecipient`."""
        return self._call.log.level if self._call.log else None

    def write(self, message: LogMessage) -> bool:
        """See `LogRecipient`."""
        return self._call.log is not None and self._call.log.write(message)


def _read_response(opened: _OpenRequest, response: bytes | None) -> bytes:
    """Return the client's result; empty if it does not fit the request."""
    if response is None:
        return b""
    try:
        return opened.asked.read_result(response)
    except msgspec.DecodeError:
        return b""


def _sort_arguments(arguments: Arguments) -> str:
    return json.dumps(arguments.value, sort_keys=True)  # 1 is not True here


@asynccontextmanager
async def open_suspended_calls() -> AsyncIterator[SuspendedCalls]:
    """For as long as a session lasts: at its end, its calls are cancelled."""
    async with trio.open_nursery() as nursery:
        suspended = SuspendedCalls(nursery)
        try:
            yield suspended
        finally:
            suspended.cancel_all()
            nursery.cancel_scope.cancel()
