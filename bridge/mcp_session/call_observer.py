"""Observer of a client's request: passes on its server requests, at most MAX_SERVER_REQUESTS of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bridge.errors import CallError
from bridge.hub.server_request import ROOTS, ClientSupport, ServerRequest
from bridge.hub.transport import CallObserver, OnElicited, OnProgress
from bridge.mcp_session.elicitation import ElicitationRequest, UrlElicitation, read_form
from bridge.mcp_session.sampling_and_roots import RootsRequest, SamplingRequest
from native_host.protocol import wire
from native_host.protocol.wire import Code

MAX_SERVER_REQUESTS = 20
"""Server requests of one call: its timeout is suspended while one is open."""

ClientFacingRequest = ElicitationRequest | UrlElicitation | SamplingRequest | RootsRequest
SendRequest = Callable[[ClientFacingRequest], Awaitable[bytes]]
"""Sends a server request in the way of the client's era, and returns what its `read_result` does. It raises a
CallError if there is no result.
"""


def make_observer(
    support: ClientSupport,
    send: SendRequest,
    on_progress: OnProgress | None,
    on_elicited: OnElicited | None = None,
) -> CallObserver:
    """Return the observer of one call, which sends the requests that the client supports."""
    if not any(support):
        return CallObserver(on_progress)
    left = MAX_SERVER_REQUESTS

    async def send_request(request: ServerRequest) -> bytes:
        nonlocal left
        support.check(request)
        if left == 0:
            text = f"a call may ask {MAX_SERVER_REQUESTS} times: it has to do without more answers"
            raise CallError(Code.RATE_LIMITED, text, handed=False)
        left -= 1
        return await send(read_request(request))

    return CallObserver(on_progress, send_request, support, on_elicited)


def read_request(request: ServerRequest) -> ClientFacingRequest:
    """Return the request as the client receives it.

    Raises:
        CallError: MCP does not allow the form.
    """
    if isinstance(request, wire.PageRequest):
        return RootsRequest() if request.method == ROOTS else SamplingRequest(request.params)
    if request.mode == "url":
        return UrlElicitation(request.message, request.url, request.elicitation_id)
    return read_form(request)
