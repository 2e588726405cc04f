"""Elicitation: forms and addresses for the user, their limits, and the answers of users."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

import msgspec

from bridge.errors import CallError
from bridge.mcp_session.client_messages import ElicitResult
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, is_single_line, single_line
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code

MAX_FORM_BYTES = 64 * 1024
MAX_DESCRIPTION = 500
MAX_VALUE = 300
"""Characters of a name or a value in a form."""
_SHOWN = {"title": MAX_TITLE_CHARS, "enumNames": MAX_TITLE_CHARS, "description": MAX_DESCRIPTION}
"""Members that are only displayed, with their lengths in characters."""
_NO_FIELDS: dict[str, Any] = {"type": "object", "properties": {}}


class ElicitationRequest(NamedTuple):
    """Elicitation request: a message and a form, a JSON Schema whose properties are the fields."""

    message: str
    form: dict[str, Any]

    @property
    def method(self) -> str:
        """Method of the server request."""
        return "elicitation/create"

    @property
    def failure(self) -> str:
        """Error text if the client has no answer."""
        return "the MCP client failed to ask the user"

    @property
    def params(self) -> dict[str, Any]:
        """Params of the server request."""
        return {"mode": "form", "message": self.message, "requestedSchema": self.form}

    def read_result(self, result: bytes) -> bytes:
        """Decode the client's result; return an MCP ElicitResult as JSON.

        Raises:
            msgspec.DecodeError: it is not an ElicitResult.
        """
        found = msgspec.json.decode(result, type=ElicitResult)
        return make_elicit_result(found.action, found.content)


class UrlElicitation(msgspec.Struct, frozen=True):
    """Elicitation request: a message and an address for the user to open. mcpb never opens it."""

    message: str
    url: str
    elicitation_id: str
    """Empty since MCP 2026-07-28, which has none."""

    @property
    def method(self) -> str:
        """Method of the server request."""
        return "elicitation/create"

    @property
    def failure(self) -> str:
        """Error text if the client has no answer."""
        return "the MCP client failed to ask the user"

    @property
    def params(self) -> dict[str, Any]:
        """Params of the server request."""
        named = {"elicitationId": self.elicitation_id} if self.elicitation_id else {}
        return {"mode": "url", "message": self.message, "url": self.url, **named}

    def read_result(self, result: bytes) -> bytes:
        """Decode the client's result; return an MCP ElicitResult without content, as JSON.

        Raises:
            msgspec.DecodeError: it is not an ElicitResult.
        """
        return msgspec.json.encode({"action": msgspec.json.decode(result, type=ElicitResult).action})


def read_form(asked: wire.ElicitConfirmation) -> ElicitationRequest:
    """Return the request for a page's form, with all displayed text sanitized to one line.

    Names and values return to the page unchanged.

    Raises:
        CallError: MCP does not allow the form (2025-11-25, `ElicitRequestFormParams`); the text says where.
            Or a name or value is unprintable or too long: a client would show it instead of the page's text.
    """
    if asked.requested_schema is msgspec.UNSET:
        return ElicitationRequest(asked.message, _NO_FIELDS)
    raw = bytes(asked.requested_schema)
    if len(raw) > MAX_FORM_BYTES:
        raise _form_error(f"it is {len(raw)} bytes long, the limit is {MAX_FORM_BYTES}")
    try:
        msgspec.json.decode(raw, type=_Form)
        return ElicitationRequest(asked.message, _check_part(msgspec.json.decode(raw)))
    except (msgspec.DecodeError, RecursionError) as error:
        raise _form_error(describe_problem(error)) from None


def make_elicit_result(
    action: Literal["accept", "decline", "cancel"], content: dict[str, Any] | None
) -> bytes:
    """Return an MCP ElicitResult as JSON; values are included only for `accept`."""
    result = {"action": action, "content": content or {}} if action == "accept" else {"action": action}
    return json.dumps(result, ensure_ascii=False).encode()


def _check_part(value: Any, max_shown: int = 0) -> Any:
    """Check a part of a form; `max_shown` limits displayed text, 0 means a name or a value."""
    match value:
        case dict():
            return {
                _check_text(name): _check_part(member, _SHOWN.get(name, 0)) for name, member in value.items()
            }
        case list():
            return [_check_part(item, max_shown) for item in value]
        case str():
            return single_line(value, max_shown) if max_shown else _check_text(value)
        case _:
            return value


def _check_text(text: str) -> str:
    if is_single_line(text) and len(text) <= MAX_VALUE:
        return text
    raise _form_error(f"{text[:40]!a} is not printable, or longer than {MAX_VALUE} characters")


def _form_error(why: str) -> CallError:
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
