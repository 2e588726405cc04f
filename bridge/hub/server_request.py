"""Server requests: what a call may ask of its MCP client, and what that client supports.

A request has the shape that the native wire gives to requests of pages. Pages make them, browser tools, and
approval prompts.
"""

from __future__ import annotations

from typing import NamedTuple

from bridge.errors import CallError
from native_host.protocol import wire
from native_host.protocol.wire import Code

ServerRequest = wire.ElicitConfirmation | wire.PageRequest
SAMPLING = "sampling/createMessage"
ROOTS = "roots/list"
SERVER_REQUEST_S = 120.0
"""Seconds that a client and its user have to answer."""


class MissingCapabilityError(CallError):
    """The MCP client does not support a request. Nothing was sent to it."""

    def __init__(self, capability: str) -> None:
        detail = f"this MCP client does not support {capability}"
        super().__init__(Code.METHOD_NOT_FOUND, detail, handed=False)
        self.capability = capability
        """Path of the client capability, such as `sampling.tools`."""


class ClientSupport(NamedTuple):
    """Server requests that an MCP client supports, as its capabilities state."""

    elicitation: bool = False
    """Forms for the user."""
    elicitation_url: bool = False
    """Addresses for the user to open."""
    sampling: bool = False
    sampling_tools: bool = False
    """Tools in sampling; `page_requests.py` checks it."""
    roots: bool = False
    root_changes: bool = False
    """True if the client reports changes of its roots."""

    def check(self, request: ServerRequest) -> None:
        """Raise a MissingCapabilityError if the client does not support a request.

        Raises:
            CallError: METHOD_NOT_FOUND, no client supports the method.
        """
        if missing := self._missing(request):
            raise MissingCapabilityError(missing)

    def _missing(self, request: ServerRequest) -> str:
        if isinstance(request, wire.ElicitConfirmation):
            if request.mode == "url":
                return "" if self.elicitation_url else "elicitation.url"
            return "" if self.elicitation else "elicitation"
        if request.method == ROOTS:
            return "" if self.roots else "roots"
        if request.method != SAMPLING:
            detail = f"mcpb does not pass on {request.method[:100]!a}"
            raise CallError(Code.METHOD_NOT_FOUND, detail, handed=False)
        return "" if self.sampling else "sampling"


FORMS = ClientSupport(elicitation=True)
