"""Running calls of a remote server: timeouts, server requests, `InputRequiredResult`, log messages.

A server's request goes to the only running call; with none or several it is rejected, because the server
does not say which of them it is for. A call that was cancelled counts until its timeout: the server may go on
with it, and what it asks must not reach another caller. It imports nothing of the mcp package.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, get_args

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.primitives.log_message import LogLevel, is_wanted
from bridge.links.remote_problem import Cause, RemoteProblem, RemoteReportedError
from native_host.protocol.wire import Code

MAX_REQUESTS_OF_CALL = 4
"""Server requests that are open at once."""
MAX_ROUNDS = 10
"""`InputRequiredResult`s of one call."""
_MAX_REQUESTS_OF_ROUND = 16
_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 0.25
"""Delays before a request is repeated that needs no input, as in the mcp package."""
_MAY_ASK = frozenset({"tools/call", "resources/read", "prompts/get"})
_LEVELS: tuple[str, ...] = get_args(LogLevel)

Params = dict[str, Any]
OnProgress = Callable[[float, float | None, str | None], None]


class RemoteObserver(msgspec.Struct, frozen=True):
    """Callbacks of one request, while it runs."""

    on_progress: OnProgress | None = None
    on_request: Callable[[str, Params], Awaitable[Params]] | None = None
    """Answers a server request (method and params) with its result; raises CallError to reject it."""
    on_log: Callable[[Params], None] | None = None
    """Receives the params of `notifications/message`."""
    log_level: str = ""
    """Least severe level that it wants; empty: no log messages."""
    before_send: Callable[[], object] | None = None
    """Called when the request has waited for its turn; raises CallError if it must not be sent any more."""
    caller: str = ""
    """Who calls: what is requested in one caller's call must not reach another."""


NO_REMOTE_OBSERVER = RemoteObserver()


class Root(Protocol):
    """Directory that the server may know of."""

    @property
    def uri(self) -> str:
        """Its URI."""
        ...

    @property
    def name(self) -> str:
        """Its name, or nothing."""
        ...


class CallClock:
    """Timeout of one request: restarted by progress, stopped while the user is asked."""

    def __init__(self, timeout_s: float) -> None:
        self.scope = trio.CancelScope()
        self._timeout_s = timeout_s
        self._pauses = 0

    def restart(self) -> None:
        """Begin the timeout again."""
        if not self._pauses:
            self.scope.deadline = trio.current_time() + self._timeout_s

    def pause(self) -> None:
        """Stop the timeout until as many calls of `resume`."""
        self._pauses += 1
        self.scope.deadline = float("inf")

    def resume(self) -> None:
        """Let the timeout begin again."""
        self._pauses -= 1
        self.restart()


class RunningCall:
    """A request that has not ended."""

    def __init__(self, observer: RemoteObserver, timeout_s: float, *, may_ask: bool) -> None:
        self.observer = observer
        self.may_ask = may_ask
        self.clock = CallClock(timeout_s)
        self._timeout_s = timeout_s
        self._scopes: set[trio.CancelScope] = set()

    def new_clock(self) -> CallClock:
        """Return the clock of the next round."""
        self.clock = CallClock(self._timeout_s)
        return self.clock

    async def answer(self, method: str, params: Params) -> Params:
        """Answer a server request, at most until the call ends."""
        if self.observer.on_request is None:
            raise _rejection(Code.METHOD_NOT_FOUND, "the client that called does not answer such requests")
        if len(self._scopes) >= MAX_REQUESTS_OF_CALL:
            raise _rejection(Code.RATE_LIMITED, f"more than {MAX_REQUESTS_OF_CALL} requests at once")
        clock = self.clock
        clock.pause()
        try:
            with trio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    return await self.observer.on_request(method, params)
                finally:
                    self._scopes.discard(scope)
        finally:
            clock.resume()
        raise _rejection(Code.GONE, "the call has ended")

    def close(self) -> None:
        """End the server requests that are open."""
        for scope in self._scopes:
            scope.cancel()


class RunningCalls:
    """All running calls of a server."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self.roots = roots
        """Configured roots: with them, `roots/list` is answered here."""
        self._calls: list[RunningCall] = []
        self._abandoned: dict[str, float] = {}
        """By caller: the time until which the server may go on with calls that have ended here."""

    @contextmanager
    def start(self, method: str, observer: RemoteObserver, timeout_s: float) -> Iterator[RunningCall]:
        """Register a call until the end of the context."""
        call = RunningCall(observer, timeout_s, may_ask=method in _MAY_ASK)
        self._calls.append(call)
        is_over = False
        try:
            yield call
            is_over = True
        except CallError as error:
            is_over = isinstance(error, RemoteReportedError) or not error.handed
            raise
        finally:
            self._calls.remove(call)
            call.close()
            if call.may_ask and not is_over:
                self._note_abandoned(observer.caller, timeout_s)

    def _note_abandoned(self, caller: str, timeout_s: float) -> None:
        now = trio.current_time()
        self._abandoned = {each: until for each, until in self._abandoned.items() if until > now}
        self._abandoned[caller] = max(self._abandoned.get(caller, now), now + timeout_s)

    def forget_abandoned(self) -> None:
        """Begin with a new connection: what the server sends on it belongs to no earlier call."""
        self._abandoned.clear()

    def _may_be_of_another(self, caller: str) -> bool:
        """Return whether the server may go on with a call of another caller."""
        now = trio.current_time()
        return any(until > now for each, until in self._abandoned.items() if each != caller)

    async def answer(self, method: str, params: Params) -> Params:
        """Answer a request of the server.

        Raises:
            CallError: it is rejected.
        """
        if method == "roots/list" and self.roots:
            return self._list_roots()
        calls = [call for call in self._calls if call.may_ask]
        if len(calls) != 1:
            running = "no call runs" if not calls else f"{len(calls)} calls run"
            raise _rejection(Code.INTERNAL_ERROR, f"{running}, so this request has no recipient")
        if self._may_be_of_another(calls[0].observer.caller):
            raise _rejection(
                Code.INTERNAL_ERROR, "it may belong to another client's call, which was cancelled"
            )
        return await calls[0].answer(method, params)

    async def answer_input(self, call: RunningCall, result: Params) -> Params:
        """Answer the requests of an `InputRequiredResult`; return the members to add to the repeated call.

        Raises:
            CallError: a request is rejected, and the call fails with that.
            RemoteProblem: the result is not valid.
        """
        requests = result.get("inputRequests") or {}
        if not isinstance(requests, dict) or len(requests) > _MAX_REQUESTS_OF_ROUND:
            raise RemoteProblem(Cause.NOT_MCP, "its request for input is not valid", handed=True)
        members: Params = {}
        if requests:
            members["inputResponses"] = {
                key: await self._answer_one(call, request) for key, request in requests.items()
            }
        if "requestState" in result:
            members["requestState"] = result["requestState"]
        return members

    async def _answer_one(self, call: RunningCall, request: Any) -> Params:
        method = request.get("method") if isinstance(request, dict) else None
        params = request.get("params", {}) if isinstance(request, dict) else None
        if not isinstance(method, str) or not isinstance(params, dict):
            raise RemoteProblem(Cause.NOT_MCP, "its request for input is not valid", handed=True)
        if method == "roots/list" and self.roots:
            return self._list_roots()
        return await call.answer(method, params)

    def log(self, params: Params, call: object) -> bool:
        """Pass a log message to its call; return False if it belongs to no single one."""
        recipient = call if isinstance(call, RunningCall) else None
        if recipient is None and len(self._calls) == 1:
            recipient = self._calls[0]
        if recipient is None:
            return False
        observer, level = recipient.observer, params.get("level")
        is_known = level in _LEVELS and observer.log_level in _LEVELS
        if observer.on_log is not None and is_known and is_wanted(level, observer.log_level):  # type: ignore[arg-type]
            observer.on_log(params)
        return True

    def _list_roots(self) -> Params:
        return {
            "roots": [{"uri": root.uri, **({"name": root.name} if root.name else {})} for root in self.roots]
        }


def pause_before_round(rounds: int) -> float:
    """Return the seconds before a round that has brought no input."""
    return min(_FIRST_PAUSE_S * 2.0 ** (rounds - 1), _MAX_PAUSE_S)


def is_lower(level: str, than: str) -> bool:
    """Return whether log level `level` lets more messages through than `than` (empty: none)."""
    return level in _LEVELS and (than not in _LEVELS or _LEVELS.index(level) < _LEVELS.index(than))


def _rejection(code: int, reason: str) -> CallError:
    return CallError(code, f"mcpb rejected the request: {reason}", handed=False)
