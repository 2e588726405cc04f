"""Requests of pages, and of remote servers, to the MCP client of a call: sampling, roots, elicitation.

They never choose whom they ask: a request goes to the client of the one call that runs there.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
from collections.abc import Callable
from functools import partial

import msgspec

from bridge import origins
from bridge.errors import CallError, paused_sentence
from bridge.hub.argument_validation import NOTHING
from bridge.hub.audit_records import AuditSink, CallKind, CallRecord, Site
from bridge.hub.client_session import Session
from bridge.hub.consent.page_request_consent import (
    NotApprovedError,
    PageRequestConsent,
    format_page,
    format_roots_prompt,
    format_sampling_prompt,
)
from bridge.hub.consent.page_tool_settings import PageSettings
from bridge.hub.policy import Policy
from bridge.hub.primitives.sampling_budget import SamplingBudget
from bridge.hub.registry import Registry
from bridge.hub.rules.site_patterns import is_local
from bridge.hub.server_request import ROOTS, SAMPLING, MissingCapabilityError, ServerRequest
from bridge.hub.tool_result import Answer
from bridge.hub.transport import CallObserver, HostAnnouncement
from native_host.protocol import wire
from native_host.protocol.rate_limit import RateLimiter
from native_host.protocol.untrusted_text import is_single_line, single_line
from native_host.protocol.wire import Code

MAX_URL_BYTES = 8 * 1024
COMPLETE = "notifications/elicitation/complete"
_MAX_MESSAGE = 1000
"""Characters of a page's message in an elicitation."""
_MAX_OPENED = 256
"""Elicitations in the mode `url` whose completion is passed on, the latest ones."""

_USERINFO = re.compile(r"[a-z]+://[^/?#]*@")

_log = logging.getLogger(__name__)


class AskingDocument(msgspec.Struct, frozen=True):
    """Document that a call runs in, or remote server, as its requests name it."""

    host: str
    """Native host of its browser; empty for a remote server."""
    tab_id: int
    frame_id: int
    document_id: str
    origin: str
    tab_origin: str
    """Origin of the page in its tab."""
    site: Site


class PageRequests:
    """Passes on requests of pages within the user's limits, and records each."""

    def __init__(
        self,
        consent: PageRequestConsent,
        policy: Policy,
        registry: Registry,
        keep: AuditSink,
        now: Callable[[], float],
    ) -> None:
        self._consent = consent
        self._policy = policy
        self._registry = registry
        self._keep = keep
        self._now = now
        self._budget = SamplingBudget()
        self._rate = RateLimiter()
        self._opened: dict[tuple[object, ...], Callable[[], None]] = {}
        """By document and the page's own id: notifies the client that an elicitation is complete."""

    @property
    def _settings(self) -> PageSettings:
        return self._consent.settings

    def on_announcement(self, event: HostAnnouncement) -> None:
        """Handle the end of an elicitation in the mode `url`, which its page announces."""
        found = event.message
        if not isinstance(found, wire.PageNotification) or found.method != COMPLETE:
            return
        with contextlib.suppress(msgspec.DecodeError):
            own_id = msgspec.json.decode(bytes(found.params or b"{}"), type=_Completion).elicitation_id
            key = event.host, found.tab_id, found.frame_id, found.document_id, own_id
            if notify := self._opened.pop(key, None):
                notify()

    def handle_completion(self, document: AskingDocument, own_id: str) -> None:
        """Notify the client that asked for it of the end of an elicitation in the mode `url`."""
        if notify := self._opened.pop((*_address_of(document), own_id), None):
            notify()

    async def send(
        self, observer: CallObserver, session: Session, document: AskingDocument, request: ServerRequest
    ) -> bytes:
        """Return the result of a request that a page sends to the client of a call.

        Args:
            observer: of the call that runs in the document.
            session: the client's.
            document: where the page is.
            request: what it asks.

        Raises:
            CallError: the user, a limit or the client has rejected it; its text is for the page.
        """
        name, kind = _describe_request(request)
        record = CallRecord(session, name, NOTHING, self._now(), site=document.site, kind=kind)
        how: Answer | Exception | None = None
        try:
            result = await self._answer(observer, session, document, request)
            how = Answer(b"", is_error=False)
        except Exception as error:
            how = error
            if isinstance(error, NotApprovedError):
                _log.warning("a %s request was rejected: %s", kind, error.audit_detail)
            raise
        finally:
            self._keep(record.finish(how, self._now()))
        return result

    async def _answer(
        self, observer: CallObserver, session: Session, document: AskingDocument, request: ServerRequest
    ) -> bytes:
        observer.support.check(request)
        self._check_site(session, document)
        if isinstance(request, wire.ElicitConfirmation):
            return await self._elicit(observer, document, request)
        self._count_request(document)
        if request.method == ROOTS:
            return await self._list_roots(observer, session, document)
        return await self._sample(observer, session, document, request.params)

    async def _list_roots(self, observer: CallObserver, session: Session, document: AskingDocument) -> bytes:
        text = format_roots_prompt(session, document.origin)
        await self._consent.check("roots", session, document.origin, text, observer, document.host)
        self._check_site(session, document)  # the user may have thought for minutes
        return await observer.on_request(wire.PageRequest(method=ROOTS))

    async def _sample(
        self, observer: CallObserver, session: Session, document: AskingDocument, given: wire.RawOrUnset
    ) -> bytes:
        self._consent.is_approved("sampling", session, document.origin)  # rejects what is off unread
        from bridge.hub.primitives.sampling_request import PageSamplingRequest  # noqa: PLC0415  (docs/DEVELOPMENT.md, "Cold start")

        sampling = PageSamplingRequest(given)
        if sampling.uses_tools and not observer.support.sampling_tools:
            raise MissingCapabilityError("sampling.tools")
        tokens = sampling.count_tokens(self._settings.max_tokens)
        self._check_budget(document, tokens)  # before the user is asked in vain
        text = format_sampling_prompt(session, document.origin, sampling.preview, sampling.more)
        await self._consent.check("sampling", session, document.origin, text, observer, document.host)
        self._check_site(session, document)
        self._check_budget(document, tokens)
        self._budget.spend(origins.canonicalize(document.origin), tokens, self._now())
        params = sampling.for_client(_format_sender(document), self._settings.max_tokens)
        return await observer.on_request(wire.PageRequest(method=SAMPLING, params=params))

    def _check_site(self, session: Session, document: AskingDocument) -> None:
        """Check the user's policy and pauses. Raises a CallError if the session may not use the page now."""
        is_remote = document.origin.startswith(origins.REMOTE)  # rules about sites are not about servers
        for origin in () if is_remote else filter(None, (document.origin, document.tab_origin)):
            if refusal := self._policy.origin_refusal(origin):
                detail = "the user does not allow this site"  # a page must not learn the rule
                raise CallError(Code.NOT_ALLOWED, detail, handed=False, logged=refusal)
        try:
            self._registry.pauses.check(session, document.origin, document.tab_origin)
        except CallError as error:
            raise CallError(Code.NOT_ALLOWED, paused_sentence(error.detail), handed=False) from None

    def _count_request(self, document: AskingDocument) -> None:
        self._rate.per_minute = self._settings.requests_per_minute
        wait_s = self._rate.wait_s(origins.canonicalize(document.origin), self._now())
        if wait_s:
            detail = (
                f"a site may send {self._rate.per_minute} requests a minute (pages.requests_per_minute): "
                f"the next one is possible in {wait_s:.0f} s"
            )
            raise CallError(Code.RATE_LIMITED, detail, handed=False)

    def _check_budget(self, document: AskingDocument, tokens: int) -> None:
        origin, limit = origins.canonicalize(document.origin), self._settings.tokens_per_hour
        left = self._budget.left(origin, limit, self._now())
        if tokens > left:
            detail = (
                f"the request may cost {tokens} tokens, and {max(left, 0)} of the {limit} are left that the "
                "site has in an hour (pages.tokens_per_hour)"
            )
            raise CallError(Code.RATE_LIMITED, detail, handed=False)

    async def _elicit(
        self, observer: CallObserver, document: AskingDocument, request: wire.ElicitConfirmation
    ) -> bytes:
        """Ask the user, in a message that begins with the site."""
        said = single_line(request.message, _MAX_MESSAGE)
        if request.mode == "form":
            message = f"{format_page(document.origin)} asks: {said}"
            return await observer.on_request(msgspec.structs.replace(request, message=message))
        url = _check_url(request.url)
        message = f"{format_page(document.origin)} asks you to open {url} . It says: {said}"
        public_id = secrets.token_urlsafe(16) if observer.on_elicited else ""
        marked = msgspec.structs.replace(request, message=message, url=url, elicitation_id=public_id)
        key = (*_address_of(document), request.elicitation_id)
        if observer.on_elicited and request.elicitation_id:
            self._expect_completion(key, partial(observer.on_elicited, public_id))
        result = b""
        try:
            result = await observer.on_request(marked)
        finally:
            if not _is_accepted(result):
                self._opened.pop(key, None)
        return result

    def _expect_completion(self, key: tuple[object, ...], notify: Callable[[], None]) -> None:
        self._opened[key] = notify
        if len(self._opened) > _MAX_OPENED:
            del self._opened[next(iter(self._opened))]


def _address_of(document: AskingDocument) -> tuple[str, int, int, str]:
    return document.host, document.tab_id, document.frame_id, document.document_id


class _Action(msgspec.Struct):
    action: str


def _is_accepted(result: bytes) -> bool:
    return bool(result) and msgspec.json.decode(result, type=_Action).action == "accept"


class _Completion(msgspec.Struct, rename="camel"):
    elicitation_id: str


def _describe_request(request: ServerRequest) -> tuple[str, CallKind]:
    """Return name and kind of a request for the audit log."""
    if isinstance(request, wire.ElicitConfirmation):
        return "elicitation/create", "elicitation"
    if request.method == ROOTS:
        return ROOTS, "roots"
    return SAMPLING, "sampling"


def _format_sender(document: AskingDocument) -> str:
    if document.origin == origins.OPAQUE or document.origin.startswith(origins.REMOTE):
        return format_page(document.origin)
    return f"The web page at {document.origin}"


def _check_url(url: str) -> str:
    """Return the address of an elicitation as every parser reads it; raise a CallError if it is not safe."""
    size = len(url.encode(errors="replace"))
    if size > MAX_URL_BYTES:
        detail = f"the url has {size} bytes, the limit is {MAX_URL_BYTES}"
        raise CallError(Code.INVALID_PARAMS, detail, handed=False)
    try:
        found = origins.parse_address(url) if is_single_line(url) and " " not in url else None
    except origins.OriginError:
        found = None
    is_safe = found is not None and (found.origin.scheme == "https" or is_local(found.origin.host))
    if found and is_safe and not _USERINFO.match(found.url):  # a user name could look like another site
        return found.url
    detail = "the url must be an https address without a user name, or an address of this machine"
    raise CallError(Code.INVALID_PARAMS, detail, handed=False)
