"""`tools/call` in both protocol eras, with progress and server requests."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, NamedTuple

import msgspec

from bridge.errors import CallError, ProtocolError, format_error, make_failure_result, to_mcp
from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.page_call import Outcome, PageResult
from bridge.hub.router import Router
from bridge.hub.tool_schema import Era
from bridge.hub.transport import CallObserver, OnProgress
from bridge.mcp_session import call_results, elicitation
from bridge.mcp_session.call_results import Parts
from bridge.mcp_session.client_messages import CanAsk
from bridge.mcp_session.client_writer import Client, make_notification
from bridge.mcp_session.input_required import InputRequired, Request, RetryError, SuspendedCalls
from bridge.mcp_session.server_requests import ServerRequests
from native_host.protocol import wire

QUESTION = "question"
"""The one input request of a call, and the key of the answer in its retry."""
BEHIND_BYTES = 64 * 1024
"""While a client has left so much unread, it gets no reports of progress."""

_log = logging.getLogger(__name__)


class ToolCallRequest(NamedTuple):
    """A `tools/call` request of the client."""

    name: str
    arguments: Arguments
    client: Client
    """Gets what concerns this call, apart from its answer."""
    can_ask: CanAsk
    progress_token: bytes = b""
    """JSON; empty: no progress is wanted."""
    state: str | None = None
    given: bytes | None = None
    """Answer of the client or its user: an MCP result as JSON."""


class ToolCalls:
    """Runs the `tools/call` requests of one session, in the way of their protocol era."""

    def __init__(
        self, router: Router, session: Session, suspended: SuspendedCalls, server_requests: ServerRequests
    ) -> None:
        self._router = router
        self._session = session
        self._suspended = suspended
        self._server_requests = server_requests

    def begin(
        self, era: Era, call: ToolCallRequest, on_answer: OnFinished[Parts | ProtocolError]
    ) -> Operation:
        """Run a tool. Cancelling tells the page."""
        try:
            if era is Era.HANDSHAKE:
                return self._begin_with_server_requests(call, on_answer)
            return self._begin_suspendable(call, on_answer)
        except RetryError as error:
            on_answer(call_results.of_bridge(make_failure_result(str(error)), era))
        except CallError as error:
            on_answer(call_results.of_bridge(make_failure_result(format_error(error)), era))
        except Exception as error:  # noqa: BLE001  (the last line before the client)
            _log.exception("a call could not be begun")
            on_answer(to_mcp(error))
        return FINISHED

    def record_rejected(self, name: object, field: str) -> None:
        """Count and record a call whose params are malformed, which the client learns elsewhere.

        Args:
            name: the tool's name as the client wrote it, which may be anything.
            field: the rejected member and its rule, without the value.
        """
        self._router.record_rejected(self._session, name if isinstance(name, str) else "", field)

    def _begin_with_server_requests(
        self, call: ToolCallRequest, on_answer: OnFinished[Parts | ProtocolError]
    ) -> Operation:
        ask = partial(self._server_requests.send_request, call.client)
        observer = elicitation.make_observer(call.can_ask, ask, _progress_reporter(call))
        return self._run_tool(Era.HANDSHAKE, call, on_answer, observer)

    def _begin_suspendable(
        self, call: ToolCallRequest, on_answer: OnFinished[Parts | ProtocolError]
    ) -> Operation:
        if call.state is None and not any(call.can_ask):
            return self._run_tool(Era.STATELESS, call, on_answer, CallObserver(_progress_reporter(call)))
        request = Request(call.name, call.arguments)

        def on_turn(told: Outcome | InputRequired) -> None:
            on_answer(
                _input_required(told)
                if isinstance(told, InputRequired)
                else _format_outcome(told, Era.STATELESS)
            )

        if call.state is not None:
            return self._suspended.resume(call.state, request, call.given, on_turn, _progress_reporter(call))
        begin = partial(self._router.begin, self._session, call.name, call.arguments)
        return self._suspended.begin(request, begin, on_turn, _progress_reporter(call), can_ask=call.can_ask)

    def _run_tool(
        self,
        era: Era,
        call: ToolCallRequest,
        on_answer: OnFinished[Parts | ProtocolError],
        observer: CallObserver,
    ) -> Operation:
        def on_finished(outcome: Outcome) -> None:
            on_answer(_format_outcome(outcome, era))

        return self._router.begin(self._session, call.name, call.arguments, on_finished, observer)


def _format_outcome(outcome: Outcome, era: Era) -> Parts | ProtocolError:
    if isinstance(outcome, Exception):
        return to_mcp(outcome)
    try:
        if isinstance(outcome, PageResult):
            return call_results.of_page(outcome.result, era, outcome.origin)
        return call_results.of_bridge(outcome, era)
    except Exception as error:  # noqa: BLE001  (other calls go on)
        _log.exception("A result could not be encoded.")
        return to_mcp(error)


def _progress_reporter(call: ToolCallRequest) -> OnProgress | None:
    if not call.progress_token:
        return None
    token, client = msgspec.Raw(call.progress_token), call.client

    def report(progress: wire.Progress) -> None:
        if client.waiting_bytes > BEHIND_BYTES:
            _log.debug("progress left out: the client is not taking it")
            return
        params: dict[str, Any] = {"progressToken": token, "progress": progress.progress}
        if progress.total is not None:
            params["total"] = progress.total
        if progress.message:
            params["message"] = progress.message
        client.write(make_notification("notifications/progress", params))

    return report


def _input_required(suspension: InputRequired) -> Parts:
    """Return a result that contains a question; the client repeats its call with the answer."""
    asked = {QUESTION: {"method": suspension.question.method, "params": suspension.question.params}}
    members = {"resultType": "input_required", "inputRequests": asked, "requestState": suspension.state}
    return call_results.make_result(Era.STATELESS, members)
