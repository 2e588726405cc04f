"""Requests of a simulated page to the client of its call. The extension's limits are not simulated."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from demo.simulated.page_server import ServerError
from native_host.protocol import jsonrpc
from native_host.protocol.jsonrpc import Envelope

if TYPE_CHECKING:
    from demo.simulated.port import NativePort


class PageRequests:
    """Open requests of one port, by id."""

    def __init__(self, port: NativePort) -> None:
        self._port = port
        self._numbers = itertools.count(1)
        self._open: dict[str, _OpenRequest] = {}

    async def send(
        self, raw_for: bytes, call: trio.CancelScope, method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Send an MCP request to the client of a call; return its result.

        A task that is cancelled while it waits cancels the request, unless the call itself has ended.

        Raises:
            ServerError: the client answered with an error.
        """
        name, request = f"ext:{next(self._numbers)}", _OpenRequest()
        self._open[name] = request
        if method == "elicitation/create":
            self._post("browser/elicitConfirmation", raw_for, params, name)
        else:
            self._post("browser/pageRequest", raw_for, {"method": method, "params": params}, name)
        try:
            await request.answered.wait()
        except trio.Cancelled:
            if not call.cancel_called:
                self._post("browser/cancelled", raw_for, {"id": name})
            raise
        finally:
            del self._open[name]
        return request.result()

    def answer(self, message: Envelope) -> None:
        """Handle a response; a late one is ignored."""
        if request := self._open.get(msgspec.json.decode(message.id, type=str)):
            request.response = message
            request.answered.set()

    def _post(self, method: str, raw_for: bytes, params: dict[str, Any], name: str = "") -> None:
        raw_id = msgspec.Raw(msgspec.json.encode(name) if name else b"")
        message = Envelope(method=method, id=raw_id, params=msgspec.Raw(msgspec.json.encode(params)))
        self._port.post(jsonrpc.address_to(message, raw_for))


class _OpenRequest:
    def __init__(self) -> None:
        self.answered = trio.Event()
        self.response = Envelope()

    def result(self) -> dict[str, Any]:
        if self.response.error:
            error = msgspec.json.decode(self.response.error, type=jsonrpc.Error)
            raise ServerError(error.code, error.message, error.data or None)
        result: dict[str, Any] = msgspec.json.decode(self.response.result)
        return result
