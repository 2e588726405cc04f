"""Requests of a remote server to the MCP client of the call that runs there: forms, models, roots.

They have the limits of those of pages, which the extension counts: 8 elicitations in a call, and none after
the user has cancelled one. `remote_calls.py` limits how many are open at once.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.audit_records import Site
from bridge.hub.client_session import Session
from bridge.hub.primitives.page_requests import AskingDocument, PageRequests
from bridge.hub.server_request import SERVER_REQUEST_S, ServerRequest
from bridge.hub.transport import CallObserver
from bridge.links.remote_tools import origin_of
from native_host.protocol import wire
from native_host.protocol.untrusted_text import truncate
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code

MAX_ELICITATIONS = 8
MAX_PARAMS_BYTES = 4 * 1024 * 1024
MAX_FORM_BYTES = 64 * 1024
_MAX_MESSAGE_CHARS = 2048
_ELICIT = "elicitation/create"


class _Elicitation(msgspec.Struct, rename="camel"):
    message: str
    requested_schema: dict[str, Any] | None = None
    mode: Literal["form", "url"] = "form"
    url: str = ""
    elicitation_id: str = ""


class CallRequests:
    """Requests of the server in one call."""

    def __init__(
        self, requests: PageRequests, observer: CallObserver, session: Session, document: AskingDocument
    ) -> None:
        self._requests = requests
        self._observer = observer
        self._session = session
        self._document = document
        self._elicitations = 0
        self._is_cancelled = False
        """True if the user has cancelled an elicitation."""

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the client's result.

        Raises:
            CallError: the user, a limit or the client has rejected it; its text is for the server.
        """
        request = read_request(method, params)
        self._count(request)
        with trio.move_on_after(SERVER_REQUEST_S):
            result = await self._requests.send(self._observer, self._session, self._document, request)
            return self._read_result(request, result)
        detail = f"the client did not answer within {SERVER_REQUEST_S:g} s"
        raise CallError(Code.TIMED_OUT, detail, handed=True)

    def _count(self, request: ServerRequest) -> None:
        if not isinstance(request, wire.ElicitConfirmation):
            return
        if self._is_cancelled:
            detail = "the user has cancelled an earlier question of this call"
            raise CallError(Code.NOT_ALLOWED, detail, handed=False)
        if self._elicitations >= MAX_ELICITATIONS:
            detail = f"a call may ask the user {MAX_ELICITATIONS} times"
            raise CallError(Code.RATE_LIMITED, detail, handed=False)
        self._elicitations += 1

    def _read_result(self, request: ServerRequest, result: bytes) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(result, type=dict[str, Any])
        if isinstance(request, wire.ElicitConfirmation):
            self._is_cancelled |= found.get("action") == "cancel"
        return found


def document_of(server: str) -> AskingDocument:
    """Return what a server's requests come from."""
    origin = origin_of(server)
    return AskingDocument("", 0, 0, "", origin, "", Site(origin=origin))


def read_request(method: str, params: dict[str, Any]) -> ServerRequest:
    """Return a request of a remote server in the form of the hub.

    Raises:
        CallError: it is invalid or too large.
    """
    encoded = msgspec.json.encode(params)
    if len(encoded) > MAX_PARAMS_BYTES:
        detail = f"the request has {len(encoded)} bytes, the limit is {MAX_PARAMS_BYTES}"
        raise CallError(Code.TOO_LARGE, detail, handed=False)
    if method != _ELICIT:
        return wire.PageRequest(method=method, params=msgspec.Raw(encoded))
    try:
        found = msgspec.json.decode(encoded, type=_Elicitation)
    except msgspec.ValidationError as error:
        raise CallError(Code.INVALID_PARAMS, describe_problem(error), handed=False) from None
    form = msgspec.json.encode(found.requested_schema or {"type": "object", "properties": {}})
    if len(form) > MAX_FORM_BYTES:
        detail = f"the requestedSchema has {len(form)} bytes, the limit is {MAX_FORM_BYTES}"
        raise CallError(Code.INVALID_PARAMS, detail, handed=False)
    return wire.ElicitConfirmation(
        message=truncate(found.message, _MAX_MESSAGE_CHARS),
        requested_schema=msgspec.Raw(form),
        mode=found.mode,
        url=found.url,
        elicitation_id=found.elicitation_id,
    )
