"""Elicitation: forms, their limits, and the answers of users."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

import msgspec

from bridge.errors import CallError
from bridge.hub.transport import CallObserver, OnProgress, Prompt
from bridge.mcp_session.client_messages import CanAsk, ElicitResult
from bridge.mcp_session.sampling_and_roots import RootsRequest, SamplingRequest
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, is_single_line, single_line
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code

MAX_FORM_BYTES = 64 * 1024
MAX_QUESTIONS = 20
"""Of one call: the time of a call stands still while a question of it is open."""
MAX_DESCRIPTION = 500
MAX_VALUE = 300
"""Characters of a name or a value in a form."""
_SHOWN = {"title": MAX_TITLE_CHARS, "enumNames": MAX_TITLE_CHARS, "description": MAX_DESCRIPTION}
"""What is there to be read only, and how much of it."""
_NO_FIELDS: dict[str, Any] = {"type": "object", "properties": {}}


class ElicitationRequest(NamedTuple):
    """Elicitation request: a message and a form, a JSON Schema whose properties are the fields."""

    message: str
    form: dict[str, Any]

    @property
    def method(self) -> str:
        """Of the request to the client."""
        return "elicitation/create"

    @property
    def failure(self) -> str:
        """What the asker is told when the client has no answer."""
        return "the MCP client failed to ask the person"

    @property
    def params(self) -> dict[str, Any]:
        """Of the request to the client."""
        return {"mode": "form", "message": self.message, "requestedSchema": self.form}

    def read(self, result: bytes) -> bytes:
        """What the asker gets of the client's result: an MCP ElicitResult as JSON.

        Raises:
            msgspec.DecodeError: it is none.
        """
        found = msgspec.json.decode(result, type=ElicitResult)
        return answer(found.action, found.content)


Asked = ElicitationRequest | SamplingRequest | RootsRequest
"""Of a client."""
Ask = Callable[[Asked], Awaitable[bytes]]
"""Puts a question in the way of the client's era; what `read` makes of the answer. As `OnQuestion`."""


def make_observer(can_ask: CanAsk, ask: Ask, on_progress: OnProgress | None) -> CallObserver:
    """Who waits for one call, and may be asked so much meanwhile, MAX_QUESTIONS times in all."""
    put = _bounded(ask)

    async def ask_person(asked: wire.ElicitConfirmation) -> bytes:
        return await put(read(asked))

    async def ask_model(prompt: Prompt) -> bytes:
        return await put(SamplingRequest(prompt))

    async def list_roots() -> list[str]:
        return msgspec.json.decode(await put(RootsRequest()), type=list[str])

    return CallObserver(
        on_progress,
        ask_person if can_ask.person else None,
        on_prompt=ask_model if can_ask.model else None,
        on_roots=list_roots if can_ask.roots else None,
    )


def read(asked: wire.ElicitConfirmation) -> ElicitationRequest:
    """What may be put to a person: the page's form, and what is there to be read made one printable line.

    Names and values go back to the page and are not touched.

    Raises:
        CallError: the form is none that MCP allows (2025-11-25, `ElicitRequestFormParams`); it says where. Or
            a name or value is not printable, or too long: a client would show it in the page's stead.
    """
    if asked.requested_schema is msgspec.UNSET:
        return ElicitationRequest(asked.message, _NO_FIELDS)
    raw = bytes(asked.requested_schema)
    if len(raw) > MAX_FORM_BYTES:
        raise _unusable(f"it is {len(raw)} bytes long, the limit is {MAX_FORM_BYTES}")
    try:
        msgspec.json.decode(raw, type=_Form)
        return ElicitationRequest(asked.message, _checked(msgspec.json.decode(raw)))
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unusable(describe_problem(error)) from None


def _bounded(ask: Ask) -> Ask:
    """For one call, which may ask MAX_QUESTIONS times; then it raises a CallError."""
    left = MAX_QUESTIONS

    async def ask_within(asked: Asked) -> bytes:
        nonlocal left
        if left == 0:
            text = f"a call may ask {MAX_QUESTIONS} times: it has to do without more answers"
            raise CallError(Code.RATE_LIMITED, text, handed=False)
        left -= 1
        return await ask(asked)

    return ask_within


def answer(action: Literal["accept", "decline", "cancel"], content: dict[str, Any] | None) -> bytes:
    """An MCP ElicitResult as JSON: what was filled in goes only to whom it was given to."""
    result = {"action": action, "content": content or {}} if action == "accept" else {"action": action}
    return json.dumps(result, ensure_ascii=False).encode()


def _checked(value: Any, max_shown: int = 0) -> Any:
    """`max_shown`: of text that is there to be read; 0: it is a name or a value."""
    match value:
        case dict():
            return {_plain(name): _checked(member, _SHOWN.get(name, 0)) for name, member in value.items()}
        case list():
            return [_checked(item, max_shown) for item in value]
        case str():
            return single_line(value, max_shown) if max_shown else _plain(value)
        case _:
            return value


def _plain(text: str) -> str:
    if is_single_line(text) and len(text) <= MAX_VALUE:
        return text
    raise _unusable(f"{text[:40]!a} is not printable, or longer than {MAX_VALUE} characters")


def _unusable(why: str) -> CallError:
    text = f"requestedSchema is no flat object of text, number, yes-or-no and choice fields: {why}"
    return CallError(Code.INVALID_PARAMS, text, handed=False)


# ── The forms that MCP allows ───────────────────────────────────────────────────────────────────────────────


class _Field(msgspec.Struct, tag_field="type", rename="camel"):
    title: str = ""
    description: str = ""


class _Option(msgspec.Struct):
    const: str
    title: str


class _Text(_Field, tag="string"):
    min_length: int = 0
    max_length: int = 0
    format: Literal["date", "date-time", "email", "uri"] = "uri"
    default: str = ""
    enum: list[str] = []
    enum_names: list[str] = []
    one_of: list[_Option] = []


class _Number(_Field, tag="number"):
    minimum: float = 0
    maximum: float = 0
    default: float = 0


class _Integer(_Field, tag="integer"):
    minimum: float = 0
    maximum: float = 0
    default: float = 0


class _YesOrNo(_Field, tag="boolean"):
    default: bool = False


class _Choices(msgspec.Struct, rename="camel"):
    enum: list[str] = []
    any_of: list[_Option] = []


class _SomeOf(_Field, tag="array", kw_only=True):
    items: _Choices
    min_items: int = 0
    max_items: int = 0
    default: list[str] = []


class _Form(msgspec.Struct):
    type: Literal["object"]
    properties: dict[str, _Text | _Number | _Integer | _YesOrNo | _SomeOf]
    required: list[str] = []
