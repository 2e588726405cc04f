"""Requests to page servers on behalf of a session. A request is sent once: neither repeated nor retried."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import msgspec

from bridge.errors import CallError, NotOfferedError, PageServerError
from bridge.hub.audit_records import CallRecord
from bridge.hub.consent.page_tool_settings import Primitive
from bridge.hub.primitives.document_access import DocumentAccess
from bridge.hub.primitives.extension_support import MCP_REQUEST, check_extension
from bridge.hub.primitives.page_contents import read_contents
from bridge.hub.primitives.page_documents import PageDocument
from bridge.hub.primitives.page_log import PageLog
from bridge.hub.primitives.page_requests import AskingDocument, PageRequests
from bridge.hub.primitives.prompt_catalog import PromptCatalog, PromptTarget
from bridge.hub.primitives.resource_catalog import OWN_URIS, ResourceCatalog, ResourceTarget, public_uri
from bridge.hub.tool_result import BEFORE_PAYLOAD
from bridge.hub.transport import CallObserver, TabTransport
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, quote, single_line
from native_host.protocol.wire import Code

MAX_ARGUMENT_BYTES = 64 * 1024
"""Bytes of all argument values of a prompt together."""
_MAX_SAID = 500
_UNKNOWN_URI = -32002
"""Code of MCP's handshake era for a resource that does not exist."""


class _Error(msgspec.Struct):
    code: int = Code.INTERNAL_ERROR
    message: str = ""


class CompletionTarget(msgspec.Struct, frozen=True):
    """The prompt, or resource template, of a page that is to be completed."""

    document: PageDocument
    what: Primitive
    own_name: str
    """Name of the prompt, or URI template."""


class PageReads:
    """Requests for resources and prompts of pages."""

    def __init__(
        self,
        catalog: ResourceCatalog,
        access: DocumentAccess,
        transport: TabTransport,
        page_requests: PageRequests,
        page_log: PageLog,
        *,
        call_s: Callable[[], float],
        max_bytes: Callable[[], int],
    ) -> None:
        """Read through `transport`. `call_s` and `max_bytes` are settings, which may change."""
        self._catalog = catalog
        self._access = access
        self._transport = transport
        self._page_requests = page_requests
        self._page_log = page_log
        self._call_s = call_s
        self._max_bytes = max_bytes

    async def read(self, record: CallRecord, uri: str, observer: CallObserver) -> bytes:
        """Return an MCP ReadResourceResult (JSON), validated and marked as a page's.

        Raises:
            NotOfferedError: no page has the resource.
            PageServerError: the page's server rejected the request.
            CallError: the session may not read it, its page is gone or silent, or the result is invalid.
        """

        def find() -> ResourceTarget:
            if target := self._catalog.find(record.session, uri):
                return target
            if not uri.startswith(OWN_URIS):
                self._access.check_extensions()
            raise NotOfferedError(uri)

        target = await self._access.admit(
            record, observer, find, lambda left: self._catalog.may_have(left, uri)
        )
        record.own_name = target.own_uri
        answer = await self._ask(
            record, target.document, "resources", "resources/read", {"uri": target.own_uri}, observer
        )
        read = partial(read_contents, target=target, max_bytes=self._max_bytes())
        return _read_executed(answer, target.document, read)

    async def get_prompt(
        self,
        record: CallRecord,
        catalog: PromptCatalog,
        arguments: Mapping[str, str],
        observer: CallObserver,
        reserved: Collection[str] = (),
    ) -> bytes:
        """Return an MCP GetPromptResult (JSON), validated and marked as a page's.

        `reserved` are the names of prompts that no page offers.

        Raises the errors of `read`; a required argument that is missing is a CallError that names it.
        """
        name = record.name

        def find_prompt() -> PromptTarget:
            target = catalog.find(name, reserved)
            if target is None:
                self._access.check_extensions()
                raise NotOfferedError(name)
            if missing := target.prompt.missing_arguments(arguments):
                site, argument = target.document.shown_origin, quote(missing[0], MAX_TITLE_CHARS)
                detail = f"the prompt of {site} needs the argument {argument}"
                raise CallError(Code.INVALID_PARAMS, detail, handed=False)
            return target

        target = await self._access.admit(
            record, observer, find_prompt, lambda left: catalog.may_have(left, name), "prompts"
        )
        record.own_name = target.prompt.name
        params = {"name": target.prompt.name, "arguments": arguments}
        answer = await self._ask(record, target.document, "prompts", "prompts/get", params, observer)
        from bridge.hub.primitives.prompt_messages import PromptSource, read_messages  # noqa: PLC0415  (docs/DEVELOPMENT.md, "Cold start")

        document = target.document
        source = PromptSource(document.origin, document.shown_origin, partial(public_uri, document))
        read = partial(read_messages, source=source, max_bytes=self._max_bytes())
        return _read_executed(answer, target.document, read)

    async def complete(
        self, record: CallRecord, target: CompletionTarget, asked: msgspec.Raw, observer: CallObserver
    ) -> bytes:
        """Return an MCP CompleteResult (JSON) for the rest of a `completion/complete`: argument and context.

        It has no values where the page's server completes nothing, or where the user would have to be asked.

        Raises:
            PageServerError: the page's server rejected the request.
            CallError: its page is gone or silent, or the result is invalid.
        """
        from bridge.hub.primitives.completion import Completion, encode_completion, read_completion  # noqa: PLC0415  (docs/DEVELOPMENT.md, "Cold start")

        document = target.document
        declared = document.frame.announced.capabilities or {}
        record.site, record.own_name = document.site, target.own_name
        if "completions" not in declared or not self._access.is_open(record.session, document, target.what):
            return encode_completion(Completion([]))
        ref = {"type": "ref/prompt", "name": target.own_name}
        if target.what == "resources":
            ref = {"type": "ref/resource", "uri": target.own_name}
        params = {"ref": ref, **msgspec.json.decode(asked, type=dict[str, msgspec.Raw])}
        answer = await self._ask(record, document, target.what, "completion/complete", params, observer)
        return _read_executed(answer, document, read_completion)

    async def _ask(
        self,
        record: CallRecord,
        document: PageDocument,
        what: Primitive,
        method: str,
        params: dict[str, Any],
        observer: CallObserver,
    ) -> bytes:
        """Return what the extension says of the response of a page's server: a `wire.Executed` (JSON)."""
        check_extension(document.browser, MCP_REQUEST)
        at, tab_origin = document.frame.announced, document.tab_origin
        request = wire.PageMcp(
            session=record.session.id,
            tab_id=at.tab_id,
            frame_id=at.frame_id,
            document_id=at.document_id,
            method=method,
            params=msgspec.Raw(msgspec.json.encode(params)),
            wants_progress=observer.on_progress is not None,
        )
        asking = AskingDocument(
            document.browser.host,
            at.tab_id,
            at.frame_id,
            at.document_id,
            document.origin,
            tab_origin,
            document.site,
        )
        send = partial(self._page_requests.send, observer, record.session, asking)
        marked = CallObserver(observer.on_progress, send, observer.support)
        log = self._page_log.follow(record.session, document.browser, document.frame, observer.log)
        try:
            answer = await self._transport.request(
                document.address, MCP_REQUEST, request, self._call_s(), marked
            )
        finally:
            log.cancel()
        self._access.check_again(record.session, document, tab_origin, what)
        return answer


def check_argument_size(arguments: Mapping[str, str]) -> None:
    """Check the size of a prompt's arguments. Raises a CallError that names the limit."""
    size = sum(len(value.encode(errors="replace")) for value in arguments.values())
    if size > MAX_ARGUMENT_BYTES:
        detail = f"the arguments have {size} bytes together, which is more than {MAX_ARGUMENT_BYTES}"
        raise CallError(Code.TOO_LARGE, detail, handed=False)


def _read_executed(answer: bytes, document: PageDocument, read: Callable[[bytes], bytes]) -> bytes:
    """Return what `read` makes of the result of a page's server.

    Raises the errors of `read`, and PageServerError: the server rejected the request.
    """
    if answer.startswith(BEFORE_PAYLOAD + b"{"):
        # If that fails, there may be more than the payload: it is decoded as a whole below.
        with contextlib.suppress(CallError):
            return read(answer[len(BEFORE_PAYLOAD) : -1])
    executed = msgspec.json.decode(answer, type=wire.Executed)
    if executed.success:
        return read(bytes(executed.payload))
    raise _server_error(bytes(executed.payload), document)


def _server_error(payload: bytes, document: PageDocument) -> PageServerError:
    error = _Error()
    with contextlib.suppress(msgspec.DecodeError):
        error = msgspec.json.decode(payload, type=_Error)
    is_unknown = error.code in (Code.INVALID_PARAMS, _UNKNOWN_URI)
    code = Code.INVALID_PARAMS if is_unknown else Code.INTERNAL_ERROR
    said = single_line(error.message, _MAX_SAID) or "its server reported an error without a text"
    return PageServerError(code, f"{document.shown_origin}: {said}", handed=True)
