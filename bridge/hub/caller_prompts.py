"""Approval prompts through the MCP client whose call waits (elicitation).

It opens no window. Rules: MCP 2025-11-25 and 2026-07-28, "Elicitation".
"""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.errors import CallError
from bridge.hub.user_prompts import PromptRequest
from native_host import wire
from native_host.wire import Code

_FIELD = "allow"
"""The one field of the form."""


class CallerPrompts:
    """`UserPrompts` over the calling client."""

    async def ask(self, request: PromptRequest) -> str:
        """See `UserPrompts`."""
        if request.caller.on_question is None:
            raise _refused("the user has to be asked first, and this client cannot ask them")
        question = wire.ElicitConfirmation(message=request.text, requested_schema=_form(request.choices))
        return _choice(await request.caller.on_question(question), request.choices)


def _form(choices: tuple[str, ...]) -> msgspec.Raw:
    field = {"type": "string", "title": "Allow it?", "enum": list(choices), "default": choices[0]}
    return msgspec.Raw(
        msgspec.json.encode({"type": "object", "properties": {_FIELD: field}, "required": [_FIELD]})
    )


def _choice(answer: bytes, choices: tuple[str, ...]) -> str:
    found: Any = msgspec.json.decode(answer)
    match found:
        case {"action": "accept", "content": {"allow": str(choice)}} if choice in choices:
            return choice
        case {"action": "decline"}:
            return "no"
    raise _refused("the user was asked and gave no answer")


def _refused(detail: str) -> CallError:
    return CallError(Code.NOT_ALLOWED, detail, handed=False)
