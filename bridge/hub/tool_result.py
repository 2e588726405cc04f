"""Result of a page tool call: decoding, and validation against the tool's `outputSchema`. Sans-IO."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from bridge.errors import CallError, make_failure_result
from bridge.hub.page_tool import PageTool
from bridge.hub.policy import Policy
from bridge.hub.schemas.compiled_schema import CompiledSchemas, Subject
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code

MAX_LINKING_BYTES = 1024 * 1024
"""Bytes of a result whose links are read."""
MAX_CHECKED_BYTES = 1024 * 1024
"""Bytes of a `structuredContent` that is compared with its schema; a larger one is passed on unchecked."""
_MAX_PAGE_TEXT = 64 * 1024
_MAX_NAME = 100
"""Characters of a page's name in the log."""
BEFORE_PAYLOAD = b'{"success":true,"payload":'
"""So extensions begin, and end with a brace: then nothing needs to be read twice to find what is between."""


class Answer(msgspec.Struct, frozen=True):
    """A CallToolResult, as far as the page has given one."""

    result: bytes
    is_error: bool
    """The page says, by `isError` or by throwing, that the tool has failed."""
    links: Sequence[str] = ()
    """URIs of its resource links."""
    origin: str = ""
    """Origin of what a provider passes on; empty: the bridge has made the result."""
    is_mismatch: bool = False
    """Its `structuredContent` does not fit the tool's `outputSchema`."""


class _Block(msgspec.Struct):
    type: str = ""
    uri: str = ""


class _ErrorFlag(msgspec.Struct, rename="camel"):
    is_error: bool = False


class _Outline(_ErrorFlag):
    content: list[_Block] = []


class _Structure(msgspec.Struct, rename="camel"):
    structured_content: msgspec.Raw = msgspec.Raw(b"null")


_STRUCTURED_CONTENT = Subject("structuredContent", "outputSchema", lambda tool: tool.output_schema)

_log = logging.getLogger(__name__)
_structures = msgspec.json.Decoder(_Structure)
_flagged = msgspec.json.Decoder(_ErrorFlag)
_outlined = msgspec.json.Decoder(_Outline)
_executed = msgspec.json.Decoder(wire.Executed)


def read_result(executed: bytes) -> Answer | CallError:
    """Decode a result of `browser/executeTool`; return an error if it is invalid."""
    if executed.startswith(BEFORE_PAYLOAD + b"{"):
        payload = executed[len(BEFORE_PAYLOAD) : -1]
        try:
            return _read_payload(payload)
        except (msgspec.DecodeError, RecursionError):
            pass  # more than the payload, or one that is no result of a tool
    return _decode_result(executed)


def _decode_result(executed: bytes) -> Answer | CallError:
    try:
        found = _executed.decode(executed)
    except (msgspec.DecodeError, RecursionError):
        return CallError(Code.INTERNAL_ERROR, "the extension's answer cannot be read", handed=True)
    if found.success:
        return read_call_result(bytes(found.payload))
    return Answer(make_failure_result(_format_thrown(found.payload)), is_error=True)


def read_call_result(payload: bytes) -> Answer:
    """Return the answer with this CallToolResult (JSON), which may be none."""
    try:
        return _read_payload(payload)
    except (msgspec.DecodeError, RecursionError):
        return Answer(payload, is_error=False)


def _read_payload(payload: bytes) -> Answer:
    """Return the answer with this result. Raises as a decoder if it is no result."""
    if len(payload) > MAX_LINKING_BYTES:
        return Answer(payload, _flagged.decode(payload).is_error)
    try:
        found = _outlined.decode(payload)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return Answer(payload, _flagged.decode(payload).is_error)
    links: list[str] = []
    for block in found.content:
        if block.type == "resource_link":
            links.append(block.uri)  # noqa: PERF401  (most results have none, and a comprehension takes longer)
    return Answer(payload, found.is_error, tuple(links))


def _format_thrown(payload: msgspec.Raw) -> str:
    try:
        text = msgspec.json.decode(payload, type=str)
    except msgspec.DecodeError:
        text = bytes(payload).decode()
    return text[:_MAX_PAGE_TEXT] or "The page's tool failed and did not say why."


class ResultCheck:
    """Compares results with the `outputSchema` of their tools, as `policy.results` says."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._schemas = CompiledSchemas(_STRUCTURED_CONTENT)

    def find_mismatch(self, origin: str, tool: PageTool, answer: Answer) -> str:
        """Return the fields of a result that do not fit, each with its rule; empty if nothing is wrong.

        A failure needs no `structuredContent`. No value is quoted.

        Raises:
            CallError: the policy rejects the result.
        """
        if not tool.has_output_schema or answer.is_error or self._policy.results == "pass":
            return ""
        fields = self._find_rejected(tool, answer.result)
        if not fields:
            return ""
        site, name = single_line(origin, _MAX_NAME), single_line(tool.name, _MAX_NAME)
        _log.warning("%s: a result of %s does not fit its outputSchema: %s", site, name, fields)
        if self._policy.results == "reject":
            detail = f"policy.results rejects what does not fit the tool's outputSchema ({fields})"
            then = "The page has to correct its tool, or the user sets policy.results."
            raise CallError(Code.NOT_ALLOWED, detail, handed=True, then=then)
        return fields

    def _find_rejected(self, tool: PageTool, result: bytes) -> str:
        compiled = self._schemas.find(tool)
        if compiled is None:
            return ""
        try:
            raw = bytes(_structures.decode(result).structured_content)
            if len(raw) > MAX_CHECKED_BYTES:
                compiled.log_unchecked(f"it is longer than {MAX_CHECKED_BYTES} bytes")
                return ""
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "structuredContent: type"
        if value is None:
            return "structuredContent: required"
        return "" if compiled.is_valid(value) else compiled.rejected_fields(value, tool)
