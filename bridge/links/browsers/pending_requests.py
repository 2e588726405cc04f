"""Pending requests and their deadlines, with the progress and the server requests that precede a response.

One task sleeps until the nearest deadline, so that a request needs no task of its own.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.operation import OnFinished
from bridge.hub.server_request import SERVER_REQUEST_S, ServerRequest
from bridge.hub.transport import CallObserver
from native_host.protocol import wire
from native_host.protocol.wire import Code

MAX_OPEN = 4
"""Server requests of one call that may be open at once."""
MAX_OFFERED_CALLS = 32
"""Calls of the tools of one offer that may run at once."""

_log = logging.getLogger(__name__)


class PendingRequest(ABC):
    """A request that awaits its response, as an operation without a task of its own."""

    def __init__(
        self,
        timeout_s: float,
        on_finished: OnFinished[bytes | CallError],
        observer: CallObserver,
        deadlines: Deadlines,
    ) -> None:
        self.deadline = trio.current_time() + timeout_s
        self._timeout_s = timeout_s
        self._observer = observer
        self._on_finished = on_finished
        self._deadlines = deadlines
        self._server_requests: dict[bytes, OpenServerRequest] = {}
        """Those that are open, by the id that the browser gave them."""
        self._left_s = timeout_s
        """Rest of the timeout, while any of them is open."""
        self.is_over = False
        deadlines.add(self)

    @abstractmethod
    def withdraw(self) -> bool:
        """Withdraw it or cancel it at the page; return whether the page may have received it."""

    def complete(self, answer: bytes | CallError) -> None:
        """Complete it with its response or an error."""
        self._close()
        self._on_finished(answer)

    def expire(self) -> None:
        """Its time is over."""
        handed = self.withdraw()
        self.complete(CallError(Code.TIMED_OUT, f"{self._timeout_s:g} s have passed", handed=handed))

    def cancel(self) -> None:
        """See `Operation`."""
        if not self.is_over:
            self.withdraw()
            self._close()

    def _close(self) -> None:
        self.is_over = True
        self._deadlines.discard(self)
        for each in self._server_requests.values():  # Their results are not needed either.
            each.scope.cancel()

    def handle_notification(self, params: wire.Wire) -> None:
        """Handle a notification that concerns this request; others are ignored."""
        match params:
            case wire.Progress():
                self.report_progress(params)
            case wire.CdpEvent():
                self.pass_event(params)
            case wire.CancelledRequest():
                self.cancel_server_request(msgspec.json.encode(params.id))
            case wire.Watching() | wire.ResourceUpdated():
                self.pass_watch_news(params)
            case wire.OfferState() if self._observer.offer:
                self._observer.offer.on_offered(params)

    def report_progress(self, progress: wire.Progress) -> None:
        """Report progress and restart the timeout."""
        if self._server_requests:
            self._left_s = self._timeout_s
        else:
            self.deadline = trio.current_time() + self._timeout_s
        if self._observer.on_progress:
            self._observer.on_progress(progress)

    def pass_event(self, event: wire.CdpEvent) -> None:
        """Pass a DevTools event of this subscription on."""
        if self._observer.on_event:
            self._observer.on_event(event)

    def pass_watch_news(self, news: wire.Watching | wire.ResourceUpdated) -> None:
        """Pass on that this watch is active, or that its resource has changed."""
        if self._observer.on_watch:
            self._observer.on_watch(news)

    def open_server_request(
        self, raw_id: bytes, request: ServerRequest | wire.OfferedCall
    ) -> OpenServerRequest:
        """Open a request to the client; the timeout is suspended while any is open.

        Raises:
            CallError: too many are open, or a tool is called and this request offers none.
        """
        opened, most = self._prepare_server_request(request)
        wanted = [each for each in self._server_requests.values() if not each.is_withdrawn]
        if len(wanted) >= most or raw_id in self._server_requests:
            text = f"{most} requests of this call are open: ask again when one is answered"
            raise CallError(Code.RATE_LIMITED, text, handed=False)
        if not self._server_requests:
            self._left_s, self.deadline = self.deadline - trio.current_time(), math.inf
        self._server_requests[raw_id] = opened
        return opened

    def _prepare_server_request(
        self, request: ServerRequest | wire.OfferedCall
    ) -> tuple[OpenServerRequest, int]:
        """Return a request that is to be opened, and how many of its kind may be open."""
        if not isinstance(request, wire.OfferedCall):
            return OpenServerRequest(partial(self._observer.on_request, request), SERVER_REQUEST_S), MAX_OPEN
        if self._observer.offer is None:
            raise CallError(Code.METHOD_NOT_FOUND, "this request offers no tools", handed=False)
        # The remote server's own timeout ends the call.
        return OpenServerRequest(partial(self._observer.offer.on_call, request), math.inf), MAX_OFFERED_CALLS

    async def answer_server_request(self, raw_id: bytes, opened: OpenServerRequest) -> bytes:
        """Send an open request to the client and return its result (JSON).

        Raises:
            CallError: there is no result. `handed` is true if the user may have been asked.
        """
        try:
            with opened.scope, trio.move_on_after(opened.timeout_s):
                await trio.lowlevel.checkpoint()  # it may have been cancelled before this task began
                return await opened.answer()
        except CallError:
            raise
        except Exception:  # noqa: BLE001  (the link has other calls to serve)
            _log.exception("a server request failed")
            raise CallError(Code.INTERNAL_ERROR, "the request could not be sent", handed=True) from None
        finally:
            del self._server_requests[raw_id]
            if not self._server_requests:
                self.deadline = trio.current_time() + self._left_s
                self._deadlines.note_earlier(self)
        if opened.scope.cancelled_caught:
            what = "the page has cancelled it" if opened.is_withdrawn else "the call that asked has ended"
            raise CallError(Code.GONE, what, handed=True)
        text = f"the client did not answer within {opened.timeout_s:g} s"
        raise CallError(Code.TIMED_OUT, text, handed=True)

    def cancel_server_request(self, raw_id: bytes) -> None:
        """Cancel a request, if it is open: the page does not want its result any more."""
        if opened := self._server_requests.get(raw_id):
            opened.is_withdrawn = True
            opened.scope.cancel()


class OpenServerRequest:
    """A request to the client that is open."""

    def __init__(self, answer: Callable[[], Awaitable[bytes]], timeout_s: float) -> None:
        self.answer = answer
        """Returns its result, or raises a CallError."""
        self.timeout_s = timeout_s
        self.scope = trio.CancelScope()
        self.is_withdrawn = False
        """True if the page has cancelled it."""


class HasDeadline(Protocol):
    """Object with a deadline on trio's clock."""

    deadline: float

    def expire(self) -> None:
        """Handle the expired deadline."""
        ...


class Deadlines:
    """Enforces the deadlines of all added items while `run` runs."""

    def __init__(self) -> None:
        self._timed: dict[HasDeadline, None] = {}
        self._wakes_at = math.inf
        self._sleep = trio.CancelScope()

    def add(self, timed: HasDeadline) -> None:
        """Let it expire at its deadline, unless it is discarded before."""
        self._timed[timed] = None
        self.note_earlier(timed)

    def discard(self, timed: HasDeadline) -> None:
        """Remove an item that has ended."""
        self._timed.pop(timed, None)

    def note_earlier(self, timed: HasDeadline) -> None:
        """Note that the deadline of an item is earlier now. A later one is noticed in time."""
        if timed.deadline < self._wakes_at:
            self._wakes_at = self._sleep.deadline = timed.deadline

    async def run(self) -> None:
        """Let things expire. Runs until cancelled."""
        while True:
            with self._sleep:
                await trio.sleep_forever()
            now = trio.current_time()
            for timed in [timed for timed in self._timed if timed.deadline <= now]:
                if timed in self._timed:  # the end of one may be the end of another
                    timed.expire()
            self._wakes_at = min((timed.deadline for timed in self._timed), default=math.inf)
            self._sleep = trio.CancelScope(deadline=self._wakes_at)
