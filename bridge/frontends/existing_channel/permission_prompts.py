"""Permission prompts for the user of a Claude in Chrome client: it can answer yes or no only."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.consent.approval_prompts import WORDS
from bridge.mcp_session import elicitation
from bridge.mcp_session.call_observer import ClientFacingRequest
from bridge.mcp_session.elicitation import ElicitationRequest
from native_host.existing_channel.channel_messages import PermissionResponse
from native_host.protocol.wire import Code


class About(NamedTuple):
    """Call for which the user is asked."""

    tool_use_id: str
    tool: str
    url: str
    """The site that it concerns; empty: none."""


class Permissions:
    """The questions of one connection that are open."""

    def __init__(self, say: Callable[[bytes], object]) -> None:
        """`say` sends a message to the client."""
        self._say = say
        self._open: dict[str, _Open] = {}

    async def ask_user(self, about: About, asked: ClientFacingRequest) -> bytes:
        """Ask the user; return an MCP ElicitResult as JSON.

        Raises:
            CallError: the question cannot be answered with yes or no.
        """
        assert isinstance(asked, ElicitationRequest), "nothing else can be asked"
        if (filled_in := _fill_yes(asked.form)) is None:
            text = "this client can only be asked for a yes or a no, and the question wants more than that"
            raise CallError(Code.INVALID_PARAMS, text, handed=False)
        request_id, question = str(uuid.uuid4()), _Open()
        self._open[request_id] = question
        self._say(_make_request(request_id, about, asked.message))
        try:
            await question.answered.wait()
        finally:
            del self._open[request_id]
        return (
            elicitation.make_elicit_result("accept", filled_in)
            if question.is_allowed
            else elicitation.make_elicit_result("decline", None)
        )

    def handle_response(self, response: PermissionResponse) -> None:
        """Handle a response; one to a closed question is late."""
        if question := self._open.get(response.request_id):
            question.is_allowed = response.allowed
            question.answered.set()


class _Open:
    def __init__(self) -> None:
        self.answered = trio.Event()
        self.is_allowed = False


def _fill_yes(form: dict[str, Any]) -> dict[str, Any] | None:
    """Return the values of a yes; None: the form wants more than yes or no.

    In forms of mcpb a yes is the first choice: for this session, never permanent.
    """
    match list(form["properties"].items()):
        case []:
            return {}
        case [(name, {"type": "boolean"})]:
            return {name: True}
        case [(name, {"type": "string", "enum": [first, *others]})] if WORDS["no"] in others:
            return {name: first}
    return None


def _make_request(request_id: str, about: About, message: str) -> bytes:
    params = {
        "tool_use_id": about.tool_use_id,
        "request_id": request_id,
        "tool_type": about.tool,
        "url": about.url,
        "action_data": {"message": message},
    }
    return msgspec.json.encode({"jsonrpc": "2.0", "method": "permission_request", "params": params})
