"""Access of a session to a document's resources and prompts: policy, pauses, tab owner, consent."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from bridge.errors import CallError, NotOfferedError
from bridge.hub.audit_records import CallRecord
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.client_session import Session
from bridge.hub.consent.doubt_prompts import DoubtPrompts
from bridge.hub.consent.page_tool_consent import Doubt, PageToolConsent
from bridge.hub.consent.page_tool_settings import Primitive
from bridge.hub.policy import Policy
from bridge.hub.primitives.extension_support import check_extensions
from bridge.hub.primitives.page_documents import PageDocument, PageDocuments
from bridge.hub.registry import GRACE_S, Registry
from bridge.hub.transport import CallObserver
from native_host.protocol.wire import Code

MAX_PROMPTS = 4
"""Prompts before one request: a page could change during each."""


class Target(Protocol):
    """What a request is for."""

    @property
    def document(self) -> PageDocument:
        """The document that offers it."""
        ...


T = TypeVar("T", bound=Target)
Find = Callable[[], T]
"""Returns what a request is for; raises NotOfferedError, or a CallError if it may be several things."""


class DocumentAccess:
    """Admits requests of sessions to documents."""

    def __init__(
        self,
        registry: Registry,
        consent: PageToolConsent,
        prompts: DoubtPrompts,
        changes: ChangeSignal,
        policy: Policy,
        documents: PageDocuments,
        wait_discovered: Callable[[], Awaitable[None]],
    ) -> None:
        """`wait_discovered` waits until every host that lives has said what it knows."""
        self._policy = policy
        self._documents = documents
        self._wait_discovered = wait_discovered
        self._registry = registry
        self._consent = consent
        self._prompts = prompts
        self._changes = changes

    async def admit(
        self,
        record: CallRecord,
        observer: CallObserver,
        find: Find[T],
        may_have: Callable[[PageDocument], bool],
        what: Primitive = "resources",
    ) -> T:
        """Return what a request is for, once the session may use it.

        `find` is called again after each wait, because the page may have changed meanwhile. It waits for a
        document that is being reloaded and `may_have` what is asked for.

        Raises:
            NotOfferedError: no page offers it.
            CallError: a rule, a pause, the tab's owner or the user does not allow it, or its browser is gone.
        """
        allowed: set[tuple[str, ...]] = set()
        for _ in range(MAX_PROMPTS):
            target = await self._find_live(find, may_have)
            if self._check(record, target.document, what, allowed) is None:
                return target
            async with self._prompts.lock(record.session):
                target = await self._find_live(find, may_have)  # another request may have asked the same
                if doubt := self._check(record, target.document, what, allowed):
                    await self._prompts.ask(record.session, doubt, observer, target.document.browser.host)
                    allowed.add(doubt.subject)
        raise CallError(Code.NOT_ALLOWED, "the page changed while the user was asked", handed=False)

    def check_again(
        self, session: Session, document: PageDocument, tab_origin: str, what: Primitive = "resources"
    ) -> None:
        """Check that the user has not forbidden a document since a request to it was admitted.

        Raises:
            CallError: the page's answer must not reach the session.
        """
        for origin in filter(None, (document.origin, tab_origin)):
            if refusal := self._policy.origin_refusal(origin):
                raise CallError(Code.NOT_ALLOWED, refusal, handed=True)
        self._registry.pauses.check(session, document.origin, tab_origin)
        self._consent.check_document(document.browser, document.origin, tab_origin, what)

    def check_extensions(self) -> None:
        """Check that some extension knows resources. Raises a CallError that says how to update it."""
        check_extensions(self._registry)

    def is_open(self, session: Session, document: PageDocument, what: Primitive = "resources") -> bool:
        """Return whether a session may use a document without a question to the user."""
        if document.refusal or document.tab.owner not in (None, session.id):
            return False
        try:
            self._registry.pauses.check(session, document.origin, document.tab.origin)
            return not self._consent.find_document_doubts(session, document, what)
        except CallError:
            return False

    def _check(
        self, record: CallRecord, document: PageDocument, what: Primitive, allowed: set[tuple[str, ...]]
    ) -> Doubt | None:
        """Check everything but the user's consent; return the first doubt that the user has to resolve."""
        session, tab = record.session, document.tab
        record.site = document.site
        if document.refusal:
            raise CallError(Code.NOT_ALLOWED, document.refusal, handed=False)
        self._registry.pauses.check(session, document.origin, tab.origin)
        if tab.owner not in (None, session.id):
            raise CallError(Code.NOT_YOURS, str(document.name), handed=False)
        doubts = self._consent.find_document_doubts(session, document, what)
        return next((doubt for doubt in doubts if doubt.subject not in allowed), None)

    async def _find_live(self, find: Find[T], may_have: Callable[[PageDocument], bool]) -> T:
        """Return what is meant; if its host is lost, wait until its page is back."""
        try:
            target = find()
        except NotOfferedError:
            await self._wait_discovered()
            await self._wait_reloaded(find, may_have)
            target = find()
        lost_at = target.document.lost_at
        if lost_at is None:
            return target
        await self._changes.wait_until(lambda: _is_live(find), until=lost_at + GRACE_S)
        target = find()
        if target.document.lost_at is not None:
            raise CallError(Code.GONE, "its browser has not come back", handed=False)
        return target

    async def _wait_reloaded(self, find: Find[T], may_have: Callable[[PageDocument], bool]) -> None:
        """Wait for a document that is being reloaded and `may_have` what is meant."""

        def waits_until() -> float:
            return max((until for left, until in self._documents.left() if may_have(left)), default=-math.inf)

        until = waits_until()
        if until != -math.inf and not _is_found(find):
            await self._changes.wait_until(lambda: _is_found(find) or waits_until() < until, until=until)


def _is_found(find: Find[Target]) -> bool:
    try:
        find()
    except NotOfferedError:
        return False
    except CallError:
        pass  # several pages have it
    return True


def _is_live(find: Find[Target]) -> bool:
    try:
        return find().document.lost_at is None
    except (CallError, NotOfferedError):
        return False  # a restarted browser may be back before its page is
