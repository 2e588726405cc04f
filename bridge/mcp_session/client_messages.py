"""Client messages that a session answers without the SDK session, as strict types.

They take nothing that the mcp package would refuse, and less than it takes: what they leave goes to the
package, which says what is wrong with it, if anything is. The shapes are those of MCP's schemas 2025-11-25
(which the package has for all revisions of the handshake) and 2026-07-28.
"""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from native_host.protocol import jsonrpc

MAX_DEPTH = 190
"""Of nested arrays and objects in a line: the package reads about 200."""

_ABSENT = msgspec.Raw(b"")
_ARGUMENTS_KEY = b'"arguments":'
_SHORT_BYTES = 4096
"""Of a line that is looked through at once."""
_OF_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b'"{}[]'))


class Icon(msgspec.Struct, rename="camel"):
    """What a client may be shown by."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["dark", "light"] | None = None


class Implementation(msgspec.Struct, rename="camel"):
    """Who a client says it is."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class Elicitation(msgspec.Struct):
    """How a client can ask its person."""

    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class CanAsk(NamedTuple):
    """What a client lets itself be asked."""

    person: bool = False
    """A form, which it shows to its person."""
    model: bool = False
    roots: bool = False
    """Which folders it works in."""


class _Roots(msgspec.Struct, rename="camel"):
    list_changed: bool | None = None


class _Sampling(msgspec.Struct):
    context: dict[str, Any] | None = None
    tools: dict[str, Any] | None = None


class Capabilities(msgspec.Struct):
    """What a client can do. One with tasks is left to the package."""

    elicitation: Elicitation | None = None
    experimental: dict[str, dict[str, Any]] | None = None
    extensions: dict[str, dict[str, Any]] | None = None
    roots: _Roots | None = None
    sampling: _Sampling | None = None
    tasks: None = None

    @property
    def can_ask(self) -> CanAsk:
        """What the client may be asked; one that names no mode of elicitation means forms."""
        asks = self.elicitation
        shows_forms = asks is not None and (asks.form is not None or asks.url is None)
        return CanAsk(shows_forms, self.sampling is not None, self.roots is not None)


class Meta(msgspec.Struct, frozen=True):
    """A request's `_meta`: since 2026-07-28 it says who asks, in which revision, and what they can do."""

    progress_token: msgspec.Raw = msgspec.field(name="progressToken", default=_ABSENT)
    version: str | UnsetType = msgspec.field(name="io.modelcontextprotocol/protocolVersion", default=UNSET)
    capabilities: Capabilities | UnsetType = msgspec.field(
        name="io.modelcontextprotocol/clientCapabilities", default=UNSET
    )
    client: Implementation | None = msgspec.field(name="io.modelcontextprotocol/clientInfo", default=None)
    log_level: (
        Literal["alert", "critical", "debug", "emergency", "error", "info", "notice", "warning"] | None
    ) = msgspec.field(name="io.modelcontextprotocol/logLevel", default=None)

    def __post_init__(self) -> None:
        if (token := bytes(self.progress_token)) and not is_id(token):
            raise ValueError("progressToken is a string or an integer")


_NO_META = Meta()


class Params(msgspec.Struct, kw_only=True, frozen=True):
    """What every request may carry."""

    meta: Meta = msgspec.field(name="_meta", default=_NO_META)


class ElicitResult(msgspec.Struct):
    """A person's answer to a form."""

    action: Literal["accept", "cancel", "decline"]
    content: dict[str, list[str] | str | int | float | bool | None] | None = None


class InputResponse(ElicitResult, forbid_unknown_fields=True):
    """The same, where with other members it could be the answer to something else."""


class CallParams(Params, kw_only=True, frozen=True, rename="camel"):
    """Of `tools/call`."""

    name: str
    arguments: msgspec.Raw = _ABSENT
    input_responses: dict[str, InputResponse] | None = None
    request_state: str | None = None
    task: None = None

    @property
    def arguments_json(self) -> bytes:
        """A JSON object."""
        return bytes(self.arguments) or b"{}"

    @property
    def is_retry(self) -> bool:
        """Of a call that waits for the person; only since 2026-07-28 there are such."""
        return self.request_state is not None or self.input_responses is not None

    def __post_init__(self) -> None:
        if (raw := bytes(memoryview(self.arguments)[:1])) and raw != b"{":
            raise ValueError("arguments are an object")


class ListParams(Params, kw_only=True, frozen=True):
    """Of `tools/list`: everything is on one page, so a cursor changes nothing."""

    cursor: str | None = None


class Filter(msgspec.Struct, rename="camel"):
    """What a subscription is about."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class ListenParams(Params, kw_only=True, frozen=True):
    """Of `subscriptions/listen`."""

    notifications: Filter


class InitializeParams(msgspec.Struct, rename="camel"):
    """Of `initialize`."""

    protocol_version: str
    capabilities: Capabilities
    client_info: Implementation
    meta: Meta = msgspec.field(name="_meta", default=_NO_META)


class _CancelledParams(msgspec.Struct, rename="camel"):
    request_id: msgspec.Raw = _ABSENT


class _Said(msgspec.Struct, tag_field="method", kw_only=True):
    jsonrpc: Literal["2.0"]


class Request(_Said, kw_only=True):
    """Wants an answer under its `id`, which is JSON text."""

    id: msgspec.Raw
    params: Any

    def __post_init__(self) -> None:
        if not is_id(bytes(self.id)):
            raise ValueError("an id is a string or an integer")


class Initialize(Request, tag="initialize"):
    """Opens a connection of the handshake era."""

    params: InitializeParams


class CallTool(Request, tag="tools/call"):
    """A tool is to be run."""

    params: CallParams


class ListTools(Request, tag="tools/list"):
    """Which tools are there?"""

    params: ListParams = ListParams()


class Ping(Request, tag="ping"):
    """Is anybody there?"""

    params: Params = Params()


class Discover(Request, tag="server/discover"):
    """What is the server?"""

    params: Params


class Listen(Request, tag="subscriptions/listen"):
    """The client wants to hear of changes for as long as it does not cancel this."""

    params: ListenParams


class Initialized(_Said, tag="notifications/initialized"):
    """The handshake is done."""

    id: msgspec.Raw = _ABSENT
    params: dict[str, msgspec.Raw] | None = None


class Cancelled(_Said, tag="notifications/cancelled"):
    """The client does not wait for a request of its any more. Other words of it change nothing."""

    id: msgspec.Raw = _ABSENT
    params: _CancelledParams | None = None

    @property
    def request_id(self) -> bytes:
        """JSON text; empty when it names none that could be."""
        raw = bytes(self.params.request_id) if self.params else b""
        return raw if is_id(raw) else b""


class _Error(msgspec.Struct):
    code: int
    message: str


class Answer(msgspec.Struct, kw_only=True):
    """What the client answers to a request of ours."""

    jsonrpc: Literal["2.0"]
    id: msgspec.Raw
    method: msgspec.Raw = _ABSENT
    result: msgspec.Raw = _ABSENT
    error: _Error | None = None


class Notification(msgspec.Struct, kw_only=True):
    """Of a kind that nobody here listens to."""

    jsonrpc: Literal["2.0"]
    method: str
    id: msgspec.Raw = _ABSENT
    params: dict[str, msgspec.Raw] | None = None


_Known = Initialize | CallTool | ListTools | Ping | Discover | Listen | Initialized | Cancelled
Message = _Known | Answer | Notification
_known: msgspec.json.Decoder[_Known] = msgspec.json.Decoder(_Known)
_answers = msgspec.json.Decoder(Answer)
_notifications = msgspec.json.Decoder(Notification)


def read(line: bytes) -> Message | None:
    """The message in a line; None when it is for the package to judge."""
    if not (line.isascii() or _is_utf8(line)):
        return None
    try:
        message = _known.decode(line)
    except RecursionError:
        return None
    except msgspec.DecodeError:
        return _read_other(line) if _is_shallow(line) else None
    if isinstance(message, Initialized | Cancelled) and bytes(message.id):
        return None
    if isinstance(message, CallTool):
        return message if _is_shallow_call(line, message) else None
    return message if _is_shallow(line) else None


def _read_other(line: bytes) -> Answer | Notification | None:
    try:
        answer = _answers.decode(line)
        has_result = bytes(answer.result)[:1] == b"{"
        is_one = has_result is (answer.error is None) and not bytes(answer.method)
        return answer if is_one and is_id(bytes(answer.id)) else None
    except msgspec.DecodeError:
        pass
    try:
        notification = _notifications.decode(line)
    except msgspec.DecodeError:
        return None
    is_sure = notification.method not in ("", "notifications/initialized") and not bytes(notification.id)
    return notification if is_sure else None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_shallow_call(line: bytes, call: CallTool) -> bool:
    """The same as `_is_shallow`, without a look into what is long: usually it is the text of one argument."""
    arguments = call.params.arguments_json
    before, _, rest = line.partition(_ARGUMENTS_KEY)
    if len(line) <= _SHORT_BYTES or not rest.startswith(arguments):
        return _is_shallow(line)
    left = MAX_DEPTH - 1 - _openers(before) - _openers(rest[len(arguments) :])
    if left < 0:
        return _is_shallow(line)
    try:
        members = map(bytes, msgspec.json.decode(arguments, type=dict[str, msgspec.Raw]).values())
    except msgspec.DecodeError:  # half a character in a name
        return _is_shallow(line)
    return all(_is_shallow(member, left) for member in members if member[:1] in (b"{", b"["))


def _is_shallow(line: bytes, limit: int = MAX_DEPTH) -> bool:
    if _openers(line) <= limit:
        return True
    if b"\\" in line:
        line = line.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(line.translate(_OF_ONE_KIND, _NOT_BRACKETS).split(b'"')[::2])
    for _ in range(limit):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"")  # one level
    return not brackets


def _openers(line: bytes) -> int:
    """More than this the line is not nested: what stands in texts is counted as well."""
    return line.count(b"{") + line.count(b"[")


def is_id(raw: bytes) -> bool:
    """Whether JSON text is a string or an integer, and not too long: a request's id, or a progress token."""
    if not jsonrpc.is_id(raw):
        return False
    return raw[:1] == b'"' or raw.removeprefix(b"-").isdigit()


def id_in(line: bytes) -> bytes:
    """The id in a line that is not quite JSON, as JSON; empty when that cannot be told."""
    try:
        found = json.loads(line)  # takes NaN and halves of characters
    except (ValueError, RecursionError):
        return b""
    found_id = found.get("id") if isinstance(found, dict) else None
    return b"%d" % found_id if type(found_id) is int else b""


def correlated(raw_id: bytes) -> int | str:
    """An id as the package compares them: "7" is 7."""
    text = msgspec.json.decode(raw_id, type=str) if raw_id[:1] == b'"' else raw_id
    try:
        return int(text)
    except ValueError:
        return text if isinstance(text, str) else text.decode()
