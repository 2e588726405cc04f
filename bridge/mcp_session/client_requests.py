"""Requests of the client that run in the hub, in both protocol eras, with progress and server requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec

from bridge.errors import CallError, ProtocolError, format_error, make_failure_result, to_mcp
from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_settings import Primitive
from bridge.hub.operation import FINISHED, OnFinished, Operation
from bridge.hub.page_call import Outcome, PageResult
from bridge.hub.primitives.log_message import LogLevel
from bridge.hub.router import Router
from bridge.hub.server_request import ClientSupport
from bridge.hub.tool_schema import Era
from bridge.hub.transport import CallObserver, OnProgress
from bridge.mcp_session import call_results
from bridge.mcp_session.call_observer import make_observer
from bridge.mcp_session.call_results import Parts
from bridge.mcp_session.client_roots import ClientRoots
from bridge.mcp_session.client_writer import Client, make_notification
from bridge.mcp_session.input_required import InputRequired, Request, RetryError, SuspendedCalls
from bridge.mcp_session.log_messages import RequestLog
from bridge.mcp_session.request_errors import prompt_error, read_error
from bridge.mcp_session.server_requests import ServerRequests
from native_host.protocol import wire
from native_host.protocol.wire import Code

BEHIND_BYTES = 64 * 1024
"""While a client has left so much unread, it gets no reports of progress."""

_log = logging.getLogger(__name__)


class Kind(msgspec.Struct, frozen=True):
    """A method whose requests run in the hub."""

    method: str
    begin: Callable[[Router, Session, ClientRequest, OnFinished[Outcome], CallObserver], Operation]
    format_outcome: Callable[[Outcome, Era, ClientRequest], Parts | ProtocolError]
    format_rejection: Callable[[CallError | RetryError, Era], Parts | ProtocolError]
    """Answers a request that was not begun."""
    may_be_suspended: bool = True
    """False if MCP 2026-07-28 does not let it end with an `InputRequiredResult`."""


class ClientRequest(msgspec.Struct, frozen=True):
    """A request of the client that may take long, ask back, and be suspended."""

    name: str
    """Of a tool or prompt, or a URI."""
    arguments: Arguments
    client: Client
    """Gets what concerns this request, apart from its answer."""
    support: ClientSupport
    progress_token: bytes = b""
    """JSON; empty: no progress is wanted."""
    log_level: LogLevel | None = None
    """Since MCP 2026-07-28: least severe level of the log messages that it wants; None: it wants none."""
    hops: int = 0
    """See `CallObserver`."""
    state: str | None = None
    responses: Mapping[str, bytes] = MappingProxyType({})
    """MCP results (JSON) of the client or its user, by the keys of the requests."""
    notify_updated: Callable[[str], None] = lambda _: None
    """Notifies the client that the resource of a URI has changed."""


class ClientRequests:
    """Runs such requests of one session, in the way of their protocol era."""

    def __init__(
        self,
        router: Router,
        session: Session,
        suspended: SuspendedCalls,
        server_requests: ServerRequests,
        client: Client,
    ) -> None:
        """`client` gets what concerns the session as a whole."""
        self._router = router
        self._session = session
        self._suspended = suspended
        self._server_requests = server_requests
        self._client = client
        self.roots = ClientRoots()
        """Those of the client, in the handshake era."""

    def begin(
        self, kind: Kind, era: Era, asked: ClientRequest, on_answer: OnFinished[Parts | ProtocolError]
    ) -> Operation:
        """Run a request. Cancelling tells the page."""
        try:
            if era is Era.HANDSHAKE:
                return self._begin_with_server_requests(kind, asked, on_answer)
            return self._begin_suspendable(kind, asked, on_answer)
        except (RetryError, CallError) as error:
            on_answer(kind.format_rejection(error, era))
        except Exception as error:  # noqa: BLE001  (the last line before the client)
            _log.exception("a request could not be begun")
            on_answer(to_mcp(error))
        return FINISHED

    def record_rejected(self, name: object, field: str) -> None:
        """Count and record a tool call whose params are malformed, which the client learns elsewhere.

        Args:
            name: the tool's name as the client wrote it, which may be anything.
            field: the rejected member and its rule, without the value.
        """
        self._router.record_rejected(self._session, name if isinstance(name, str) else "", field)

    def _begin_with_server_requests(
        self, kind: Kind, asked: ClientRequest, on_answer: OnFinished[Parts | ProtocolError]
    ) -> Operation:
        ask = partial(self._server_requests.send_request, asked.client)
        observer = make_observer(asked.support, ask, _progress_reporter(asked), self._notify_elicited)
        if asked.support.root_changes:
            send = partial(self.roots.send_request, observer.on_request)
            observer = msgspec.structs.replace(observer, on_request=send)
        return self._run(kind, Era.HANDSHAKE, asked, on_answer, observer)

    def _notify_elicited(self, elicitation_id: str) -> None:
        params = {"elicitationId": elicitation_id}
        self._client.write(make_notification("notifications/elicitation/complete", params))

    def _begin_suspendable(
        self, kind: Kind, asked: ClientRequest, on_answer: OnFinished[Parts | ProtocolError]
    ) -> Operation:
        report = _progress_reporter(asked)
        log = RequestLog(asked.client, asked.log_level) if asked.log_level else None
        if not kind.may_be_suspended or (asked.state is None and not any(asked.support)):
            return self._run(kind, Era.STATELESS, asked, on_answer, CallObserver(report, log=log))
        request = Request(kind.method, asked.name, asked.arguments)

        def on_turn(told: Outcome | InputRequired) -> None:
            on_answer(
                _input_required(told)
                if isinstance(told, InputRequired)
                else kind.format_outcome(told, Era.STATELESS, asked)
            )

        if asked.state is not None:
            return self._suspended.resume(asked.state, request, asked.responses, on_turn, report, log)
        begin = partial(self._begin_kind, kind, asked)
        return self._suspended.begin(request, begin, on_turn, report, log, support=asked.support)

    def _run(
        self,
        kind: Kind,
        era: Era,
        asked: ClientRequest,
        on_answer: OnFinished[Parts | ProtocolError],
        observer: CallObserver,
    ) -> Operation:
        def on_finished(outcome: Outcome) -> None:
            on_answer(kind.format_outcome(outcome, era, asked))

        return self._begin_kind(kind, asked, on_finished, observer)

    def _begin_kind(
        self, kind: Kind, asked: ClientRequest, on_finished: OnFinished[Outcome], observer: CallObserver
    ) -> Operation:
        if asked.hops:
            observer = msgspec.structs.replace(observer, hops=asked.hops)
        return kind.begin(self._router, self._session, asked, on_finished, observer)


# ── Kinds of requests ───────────────────────────────────────────────────────────────────────────────────────


def _begin_call(
    router: Router,
    session: Session,
    asked: ClientRequest,
    on_finished: OnFinished[Outcome],
    observer: CallObserver,
) -> Operation:
    return router.begin(session, asked.name, asked.arguments, on_finished, observer)


def _format_call(outcome: Outcome, era: Era, _asked: ClientRequest) -> Parts | ProtocolError:
    if isinstance(outcome, Exception):
        return to_mcp(outcome)
    try:
        if isinstance(outcome, PageResult):
            return call_results.of_page(outcome.result, era, outcome.origin, is_mismatch=outcome.is_mismatch)
        return call_results.of_bridge(outcome, era)
    except Exception as error:  # noqa: BLE001  (other calls go on)
        _log.exception("A result could not be encoded.")
        return to_mcp(error)


def _reject_call(error: CallError | RetryError, era: Era) -> Parts | ProtocolError:
    text = format_error(error) if isinstance(error, CallError) else str(error)
    return call_results.of_bridge(make_failure_result(text), era)


def _begin_read(
    router: Router,
    session: Session,
    asked: ClientRequest,
    on_finished: OnFinished[Outcome],
    observer: CallObserver,
) -> Operation:
    return router.begin_read(session, asked.name, on_finished, observer)


def _format_read(outcome: Outcome, era: Era, asked: ClientRequest) -> Parts | ProtocolError:
    if isinstance(outcome, bytes):
        return call_results.of_read(outcome, era)
    assert isinstance(outcome, Exception), "a resource is no result of a tool"
    return read_error(outcome, era, asked.name)


def _reject_read(error: CallError | RetryError, _era: Era) -> Parts | ProtocolError:
    if isinstance(error, CallError):
        return to_mcp(error)
    return ProtocolError(Code.INVALID_PARAMS, str(error))


def _begin_subscribe(
    router: Router,
    session: Session,
    asked: ClientRequest,
    on_finished: OnFinished[Outcome],
    observer: CallObserver,
) -> Operation:
    tell = partial(asked.notify_updated, asked.name)
    return router.begin_subscribe(session, asked.name, tell, on_finished, observer)


def _format_subscribed(outcome: Outcome, era: Era, asked: ClientRequest) -> Parts | ProtocolError:
    if isinstance(outcome, Exception):
        return read_error(outcome, era, asked.name)
    return call_results.make_result(era, {})


def _begin_get_prompt(
    router: Router,
    session: Session,
    asked: ClientRequest,
    on_finished: OnFinished[Outcome],
    observer: CallObserver,
) -> Operation:
    return router.begin_get_prompt(session, asked.name, asked.arguments, on_finished, observer)


def _format_prompt(outcome: Outcome, era: Era, _asked: ClientRequest) -> Parts | ProtocolError:
    if isinstance(outcome, bytes):
        return call_results.of_request(outcome, era)
    assert isinstance(outcome, Exception), "a prompt is no result of a tool"
    return prompt_error(outcome)


def _begin_complete(
    what: Primitive,
    router: Router,
    session: Session,
    asked: ClientRequest,
    on_finished: OnFinished[Outcome],
    observer: CallObserver,
) -> Operation:
    argument = msgspec.Raw(asked.arguments.raw)
    return router.begin_complete(session, what, asked.name, argument, on_finished, observer)


TOOL_CALL = Kind("tools/call", _begin_call, _format_call, _reject_call)
RESOURCE_READ = Kind("resources/read", _begin_read, _format_read, _reject_read)
RESOURCE_SUBSCRIBE = Kind(
    "resources/subscribe", _begin_subscribe, _format_subscribed, _reject_read, may_be_suspended=False
)
PROMPT_GET = Kind("prompts/get", _begin_get_prompt, _format_prompt, _reject_read)
PROMPT_COMPLETE = Kind(
    "completion/complete",
    partial(_begin_complete, "prompts"),
    _format_prompt,
    _reject_read,
    may_be_suspended=False,
)
TEMPLATE_COMPLETE = Kind(
    "completion/complete",
    partial(_begin_complete, "resources"),
    _format_prompt,
    _reject_read,
    may_be_suspended=False,
)


def _progress_reporter(asked: ClientRequest) -> OnProgress | None:
    if not asked.progress_token:
        return None
    token, client = msgspec.Raw(asked.progress_token), asked.client

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
    """Return a result that contains server requests; the client repeats its call with the results."""
    asked = {key: {"method": each.method, "params": each.params} for key, each in suspension.requests.items()}
    members = {"resultType": "input_required", "inputRequests": asked, "requestState": suspension.state}
    return call_results.make_result(Era.STATELESS, members)
