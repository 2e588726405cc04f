"""A page's question to the person: what MCP lets it ask, and the answer that it gets."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

import msgspec

from bridge.errors import CallError
from native_host import wire
from native_host.wire import Code

MAX_FORM_BYTES = 64 * 1024
_NO_FIELDS: dict[str, Any] = {"type": "object", "properties": {}}


class Question(NamedTuple):
    """A message, and the form that comes with it: a JSON Schema whose properties are the fields."""

    message: str
    form: dict[str, Any]


def read(asked: wire.ElicitConfirmation) -> Question:
    """What may be put to a person; the form as the page wrote it.

    Raises:
        CallError: the form is none that MCP allows (2025-11-25, `ElicitRequestFormParams`); it says where.
    """
    if asked.requested_schema is msgspec.UNSET:
        return Question(asked.message, _NO_FIELDS)
    raw = bytes(asked.requested_schema)
    if len(raw) > MAX_FORM_BYTES:
        raise _unusable(f"it is {len(raw)} bytes long, the limit is {MAX_FORM_BYTES}")
    try:
        msgspec.json.decode(raw, type=_Form)
        return Question(asked.message, msgspec.json.decode(raw))
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unusable(str(error)) from None


def answer(action: Literal["accept", "decline", "cancel"], content: dict[str, Any] | None) -> bytes:
    """An MCP ElicitResult as JSON: what was filled in goes only to whom it was given to."""
    result = {"action": action, "content": content or {}} if action == "accept" else {"action": action}
    return json.dumps(result, ensure_ascii=False).encode()


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
