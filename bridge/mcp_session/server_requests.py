"""Requests from the server to its client, and their responses.

Only the handshake era has them; `input_required.py` takes their place since MCP 2026-07-28.
"""

from __future__ import annotations

import itertools
import logging

import msgspec
import trio

from bridge.errors import CallError
from bridge.mcp_session.call_observer import ClientFacingRequest
from bridge.mcp_session.client_messages import Answer
from bridge.mcp_session.client_writer import Client, make_notification, make_request
from native_host.protocol.wire import Code

_log = logging.getLogger(__name__)


class ServerRequests:
    """Open server requests of one session.

    Their ids are strings, as those of the mcp package are numbers.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[bytes, _OpenRequest] = {}

    async def send_request(self, client: Client, asked: ClientFacingRequest) -> bytes:
        """Send a request and return its result for the page. Cancellation cancels the request.

        Raises:
            CallError: the client answered with an error; report it to the page.
        """
        request = _OpenRequest(asked)
        raw_id = b'"question-%d"' % next(self._numbers)
        self._open[raw_id] = request
        client.write(make_request(raw_id, asked.method, asked.params))
        try:
            await request.answered.wait()
        except trio.Cancelled:
            given_up = {"requestId": msgspec.Raw(raw_id), "reason": "caller cancelled"}
            client.write(make_notification("notifications/cancelled", given_up))
            raise
        finally:
            del self._open[raw_id]
        if request.result is None:  # why is no business of the page
            raise CallError(Code.INTERNAL_ERROR, asked.failure, handed=True)
        return request.result

    def handle_response(self, answer: Answer) -> bool:
        """Return whether this response belongs to an open request, and resolve that."""
        request = self._open.get(bytes(answer.id))
        if request is None:
            return False
        request.answer(answer)
        return True

    def fail_open(self, raw_id: bytes) -> None:
        """Fail the request with this id, if it is open: its response is malformed."""
        if request := self._open.get(raw_id):
            _log.warning("a response of the client is not a message of MCP")
            request.answered.set()


class _OpenRequest:
    """An open request to the client, and its result."""

    def __init__(self, asked: ClientFacingRequest) -> None:
        self.answered = trio.Event()
        self.result: bytes | None = None
        self._asked = asked

    def answer(self, answer: Answer) -> None:
        """Take the response; a second one is ignored."""
        if self.answered.is_set():
            return
        try:
            if bytes(answer.result):
                self.result = self._asked.read_result(bytes(answer.result))
            else:
                _log.warning("the client rejected a server request: %s", answer.error)
        except msgspec.DecodeError as error:
            _log.warning("a result of the client is invalid: %s", error)
        self.answered.set()
