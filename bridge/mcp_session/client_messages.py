"""Client messages that a session answers without the SDK session, as strict types.

They take nothing that the mcp package would refuse, and less than it takes: what they leave goes to the
package, which says what is wrong with it, if anything is. The shapes are those of MCP's schemas 2025-11-25
(which the package has for all revisions of the handshake) and 2026-07-28.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from bridge.hub.primitives.log_message import LogLevel
from bridge.hub.server_request import ClientSupport
from bridge.hub.transport import HOPS
from native_host.protocol import jsonrpc

MAX_DEPTH = 190
"""Depth of nested arrays and objects in a line: the package reads about 200."""

_ABSENT = msgspec.Raw(b"")
_ARGUMENTS_KEY = b'"arguments":'
_SHORT_BYTES = 4096
"""Length of a line whose depth is counted completely."""
_OF_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b'"{}[]'))


class Icon(msgspec.Struct, rename="camel"):
    """Icon of a client."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["dark", "light"] | None = None


class Implementation(msgspec.Struct, rename="camel"):
    """Name and version of a client."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class Elicitation(msgspec.Struct):
    """Modes of elicitation that a client supports."""

    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class _Roots(msgspec.Struct, rename="camel"):
    list_changed: bool | None = None


class _Sampling(msgspec.Struct):
    context: dict[str, Any] | None = None
    tools: dict[str, Any] | None = None


class Capabilities(msgspec.Struct):
    """Capabilities of a client. The package handles clients with tasks."""

    elicitation: Elicitation | None = None
    experimental: dict[str, dict[str, Any]] | None = None
    extensions: dict[str, dict[str, Any]] | None = None
    roots: _Roots | None = None
    sampling: _Sampling | None = None
    tasks: None = None

    @property
    def support(self) -> ClientSupport:
        """Return the supported server requests; elicitation without a mode means forms."""
        asks, sampling = self.elicitation, self.sampling
        return ClientSupport(
            elicitation=asks is not None and (asks.form is not None or asks.url is None),
            elicitation_url=asks is not None and asks.url is not None,
            sampling=sampling is not None,
            sampling_tools=sampling is not None and sampling.tools is not None,
            roots=self.roots is not None,
            root_changes=self.roots is not None and self.roots.list_changed is True,
        )


class Meta(msgspec.Struct, frozen=True):
    """A request's `_meta`: since 2026-07-28 it says who asks, in which revision, and what they can do."""

    progress_token: msgspec.Raw = msgspec.field(name="progressToken", default=_ABSENT)
    version: str | UnsetType = msgspec.field(name="io.modelcontextprotocol/protocolVersion", default=UNSET)
    capabilities: Capabilities | UnsetType = msgspec.field(
        name="io.modelcontextprotocol/clientCapabilities", default=UNSET
    )
    client: Implementation | None = msgspec.field(name="io.modelcontextprotocol/clientInfo", default=None)
    log_level: LogLevel | None = msgspec.field(name="io.modelcontextprotocol/logLevel", default=None)
    hops: Any = msgspec.field(name=HOPS, default=0)
    """See `read_hops`."""

    def __post_init__(self) -> None:
        if (token := bytes(self.progress_token)) and not is_id(token):
            raise ValueError("progressToken is a string or an integer")


_NO_META = Meta()


def read_hops(found: object) -> int:
    """Return the number of mcpb bridges that a request has passed; 0 for a value that is not a number."""
    return found if isinstance(found, int) and found > 0 else 0


class Params(msgspec.Struct, kw_only=True, frozen=True):
    """Members that the params of every request may have."""

    meta: Meta = msgspec.field(name="_meta", default=_NO_META)


class ElicitResult(msgspec.Struct):
    """The user's response to a form."""

    action: Literal["accept", "cancel", "decline"]
    content: dict[str, list[str] | str | int | float | bool | None] | None = None


class InputResponse(ElicitResult, forbid_unknown_fields=True):
    """The same, where with other members it could be the answer to something else."""


class CallParams(Params, kw_only=True, frozen=True, rename="camel"):
    """Params of `tools/call`."""

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
        """Return whether it continues a suspended call (MCP 2026-07-28)."""
        return self.request_state is not None or self.input_responses is not None

    def __post_init__(self) -> None:
        if (raw := bytes(memoryview(self.arguments)[:1])) and raw != b"{":
            raise ValueError("arguments are an object")


class ListParams(Params, kw_only=True, frozen=True):
    """Params of the lists. That of tools is one page, so a cursor changes nothing there."""

    cursor: str | None = None


class ReadParams(Params, kw_only=True, frozen=True, rename="camel"):
    """Params of `resources/read`."""

    uri: str
    input_responses: dict[str, InputResponse] | None = None
    request_state: str | None = None

    @property
    def is_retry(self) -> bool:
        """Return whether it continues a suspended request (MCP 2026-07-28)."""
        return self.request_state is not None or self.input_responses is not None


class PromptParams(Params, kw_only=True, frozen=True, rename="camel"):
    """Params of `prompts/get`."""

    name: str
    arguments: dict[str, str] | None = None
    input_responses: dict[str, InputResponse] | None = None
    request_state: str | None = None

    @property
    def is_retry(self) -> bool:
        """Return whether it continues a suspended request (MCP 2026-07-28)."""
        return self.request_state is not None or self.input_responses is not None


class PromptReference(msgspec.Struct, tag="ref/prompt", tag_field="type", frozen=True):
    """A prompt whose arguments are to be completed."""

    name: str
    title: str | None = None


class TemplateReference(msgspec.Struct, tag="ref/resource", tag_field="type", frozen=True):
    """A resource template whose variables are to be completed."""

    uri: str


class _Argument(msgspec.Struct, frozen=True):
    name: str
    value: str


class _Context(msgspec.Struct, frozen=True, omit_defaults=True):
    arguments: dict[str, str] | None = None


class CompleteParams(Params, kw_only=True, frozen=True):
    """Params of `completion/complete`."""

    ref: PromptReference | TemplateReference
    argument: _Argument
    context: _Context | None = None


class SubscribeParams(Params, kw_only=True, frozen=True):
    """Params of `resources/subscribe` and `resources/unsubscribe`."""

    uri: str


class SetLevelParams(Params, kw_only=True, frozen=True):
    """Params of `logging/setLevel`."""

    level: LogLevel


class Filter(msgspec.Struct, rename="camel"):
    """Notifications that a subscription selects."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class ListenParams(Params, kw_only=True, frozen=True):
    """Params of `subscriptions/listen`."""

    notifications: Filter


class InitializeParams(msgspec.Struct, rename="camel"):
    """Params of `initialize`."""

    protocol_version: str
    capabilities: Capabilities
    client_info: Implementation
    meta: Meta = msgspec.field(name="_meta", default=_NO_META)


class _CancelledParams(msgspec.Struct, rename="camel"):
    request_id: msgspec.Raw = _ABSENT


class _ClientMessage(msgspec.Struct, tag_field="method", kw_only=True):
    jsonrpc: Literal["2.0"]


class Request(_ClientMessage, kw_only=True):
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
    """Request `tools/list`."""

    params: ListParams = ListParams()


class ListResources(Request, tag="resources/list"):
    """Request `resources/list`."""

    params: ListParams = ListParams()


class ListTemplates(Request, tag="resources/templates/list"):
    """Request `resources/templates/list`."""

    params: ListParams = ListParams()


class ReadResource(Request, tag="resources/read"):
    """Request `resources/read`."""

    params: ReadParams


class ListPrompts(Request, tag="prompts/list"):
    """Request `prompts/list`."""

    params: ListParams = ListParams()


class GetPrompt(Request, tag="prompts/get"):
    """Request `prompts/get`."""

    params: PromptParams


class Complete(Request, tag="completion/complete"):
    """Request `completion/complete`."""

    params: CompleteParams


class Subscribe(Request, tag="resources/subscribe"):
    """Request `resources/subscribe`, of the handshake era."""

    params: SubscribeParams


class Unsubscribe(Request, tag="resources/unsubscribe"):
    """Request `resources/unsubscribe`, of the handshake era."""

    params: SubscribeParams


class SetLevel(Request, tag="logging/setLevel"):
    """Request `logging/setLevel`, of the handshake era."""

    params: SetLevelParams


class Ping(Request, tag="ping"):
    """Request `ping`."""

    params: Params = Params()


class Discover(Request, tag="server/discover"):
    """Request `server/discover`."""

    params: Params


class Listen(Request, tag="subscriptions/listen"):
    """The client wants to hear of changes for as long as it does not cancel this."""

    params: ListenParams


class InitializedNotification(_ClientMessage, tag="notifications/initialized"):
    """Notification `notifications/initialized`."""

    id: msgspec.Raw = _ABSENT
    params: dict[str, msgspec.Raw] | None = None


class CancelledNotification(_ClientMessage, tag="notifications/cancelled"):
    """Notification `notifications/cancelled`. Its other members change nothing."""

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
    """Response of the client to a server request."""

    jsonrpc: Literal["2.0"]
    id: msgspec.Raw
    method: msgspec.Raw = _ABSENT
    result: msgspec.Raw = _ABSENT
    error: _Error | None = None


class Notification(msgspec.Struct, kw_only=True):
    """Notification that has no effect."""

    jsonrpc: Literal["2.0"]
    method: str
    id: msgspec.Raw = _ABSENT
    params: dict[str, msgspec.Raw] | None = None


_Known = (
    Initialize
    | CallTool
    | ListTools
    | ListResources
    | ListTemplates
    | ReadResource
    | ListPrompts
    | GetPrompt
    | Complete
    | Subscribe
    | Unsubscribe
    | SetLevel
    | Ping
    | Discover
    | Listen
    | InitializedNotification
    | CancelledNotification
)
Message = _Known | Answer | Notification
_known: msgspec.json.Decoder[_Known] = msgspec.json.Decoder(_Known)
_answers = msgspec.json.Decoder(Answer)
_notifications = msgspec.json.Decoder(Notification)


def read_message(line: bytes) -> Message | None:
    """Return the message in a line; None: the package has to judge it."""
    if not (line.isascii() or _is_utf8(line)):
        return None
    try:
        message = _known.decode(line)
    except RecursionError:
        return None
    except msgspec.DecodeError:
        return _read_other(line) if _is_shallow(line) else None
    if isinstance(message, InitializedNotification | CancelledNotification) and bytes(message.id):
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
    """Return the same as `_is_shallow` without reading long texts, usually one argument."""
    arguments = call.params.arguments_json
    before, _, rest = line.partition(_ARGUMENTS_KEY)
    if len(line) <= _SHORT_BYTES or not rest.startswith(arguments):
        return _is_shallow(line)
    left = MAX_DEPTH - 1 - _opening_brackets(before) - _opening_brackets(rest[len(arguments) :])
    if left < 0:
        return _is_shallow(line)
    try:
        members = map(bytes, msgspec.json.decode(arguments, type=dict[str, msgspec.Raw]).values())
    except msgspec.DecodeError:  # half a character in a name
        return _is_shallow(line)
    return all(_is_shallow(member, left) for member in members if member[:1] in (b"{", b"["))


def _is_shallow(line: bytes, limit: int = MAX_DEPTH) -> bool:
    if _opening_brackets(line) <= limit:
        return True
    if b"\\" in line:
        line = line.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(line.translate(_OF_ONE_KIND, _NOT_BRACKETS).split(b'"')[::2])
    for _ in range(limit):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"")  # one level
    return not brackets


def _opening_brackets(line: bytes) -> int:
    """More than this the line is not nested: what stands in texts is counted as well."""
    return line.count(b"{") + line.count(b"[")


def is_id(raw: bytes) -> bool:
    """Return whether JSON text is a short string or integer: a request id, or a progress token."""
    if not jsonrpc.is_id(raw):
        return False
    return raw[:1] == b'"' or raw.removeprefix(b"-").isdigit()


def id_in(line: bytes) -> bytes:
    """Return the id (JSON) in a line of invalid JSON; empty if it cannot be determined."""
    try:
        found = json.loads(line)  # takes NaN and halves of characters
    except (ValueError, RecursionError):
        return b""
    found_id = found.get("id") if isinstance(found, dict) else None
    return b"%d" % found_id if type(found_id) is int else b""


def correlate_id(raw_id: bytes) -> int | str:
    """Return an id as the package compares it: "7" equals 7."""
    text = msgspec.json.decode(raw_id, type=str) if raw_id[:1] == b'"' else raw_id
    try:
        return int(text)
    except ValueError:
        return text if isinstance(text, str) else text.decode()
