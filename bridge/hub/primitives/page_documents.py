"""Documents whose page servers offer resources or prompts, each with a name of its own. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from bridge.errors import CallError
from bridge.hub.audit_records import Site
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_settings import Primitive
from bridge.hub.policy import Policy
from bridge.hub.primitives.document_names import (
    DocumentName,
    DocumentPlace,
    document_names,
    hashed_name,
    plain_name,
)
from bridge.hub.public_names import ProfileMarks
from bridge.hub.registry import GRACE_S, Browser, Frame, FrameAt, Registry
from bridge.hub.tool_definition import in_tab
from bridge.hub.transport import TabAddress
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, single_line
from native_host.protocol.wire import Code

MAX_CHOICES = 4
"""Names in the error about one that may mean several documents."""


class PageDocument(msgspec.Struct, eq=False, frozen=True):
    """A document with a page server, and its name."""

    browser: Browser
    frame: Frame
    name: DocumentName
    policy: Policy

    @property
    def refusal(self) -> str:
        """Rule of the user's policy that forbids its site, or that of its tab; empty if both are allowed."""
        refuse, tab_origin = self.policy.origin_refusal, self.tab_origin
        return refuse(self.origin) or (refuse(tab_origin) if tab_origin else "")

    def offers(self, what: Primitive) -> bool:
        """Return whether its server has any resource or resource template, or any prompt."""
        if what == "prompts":
            return bool(self.frame.prompts)
        return bool(self.frame.resources or self.frame.templates)

    @property
    def tab(self) -> wire.Tab:
        """Its tab as it is now."""
        return self.browser.tabs[self.frame.announced.tab_id]

    @property
    def tab_origin(self) -> str:
        """Origin of the page in its tab."""
        return self.tab.origin

    @property
    def lost_at(self) -> float | None:
        """Time when the connection to it ended; None: it is there."""
        return self.browser.lost_at if self.frame.lost_at is None else self.frame.lost_at

    @property
    def address(self) -> TabAddress:
        """Where requests to it go."""
        return TabAddress(self.browser.host, self.frame.announced.tab_id)

    @property
    def origin(self) -> str:
        """Its origin."""
        return self.frame.announced.origin

    @property
    def shown_origin(self) -> str:
        """Its origin for descriptions and errors."""
        return (
            "a page without an origin"
            if self.origin == "null"
            else single_line(self.origin, MAX_ORIGIN_CHARS)
        )

    @property
    def place(self) -> str:
        """Sentence that says where it is."""
        return in_tab(self.origin, self.tab)

    @property
    def site(self) -> Site:
        """Where it is, for the audit log."""
        hello, tab = self.browser.hello, self.tab
        label = (hello.profile.label or hello.browser.brand) if hello else ""
        return Site(self.browser.profile, label, self.origin, tab.tab_id, tab.ordinal)


class PageDocuments:
    """The documents with page servers in a registry."""

    def __init__(self, registry: Registry, policy: Policy, profiles: ProfileMarks) -> None:
        self._registry = registry
        self._policy = policy
        self._profiles = profiles
        self._updated: object = None
        self._documents: dict[FrameAt, PageDocument] = {}
        self._all: Sequence[PageDocument] = ()
        self._by_name: dict[str, PageDocument] = {}
        self._by_domain: dict[str, list[PageDocument]] = {}
        self._by_other_name: dict[str, list[PageDocument]] = {}

    @property
    def version(self) -> object:
        """Changes with the documents, their names and what they offer."""
        return self._registry.version, self._policy.version, self._profiles.version

    def documents(self) -> Sequence[PageDocument]:
        """Return all documents, also those of sites that the policy forbids."""
        self._update()
        return self._all

    def current(self, document: PageDocument) -> PageDocument | None:
        """Return a document as it is now; None: it is gone."""
        self._update()
        at = document.frame.announced
        now = self._documents.get(FrameAt(document.browser.host, at.tab_id, at.frame_id))
        return now if now and now.frame is document.frame else None

    def named(self, name: str) -> PageDocument | None:
        """Return the document with a name, such as `shop.example/tab1`."""
        self._update()
        return self._by_name.get(name)

    def of_domain(self, domain: str) -> Sequence[PageDocument]:
        """Return the documents of a domain."""
        self._update()
        return self._by_domain.get(domain, ())

    def once_named(self, name: str) -> Sequence[PageDocument]:
        """Return the documents that may have had a name before another one of their tab came or went."""
        self._update()
        return self._by_other_name.get(name, ())

    def left(self) -> Iterator[tuple[PageDocument, float]]:
        """Yield the documents that a reload may bring back, and until when."""
        for left in self._registry.left_documents():
            place = self._place(left.browser, left.tab, left.frame)
            yield (
                PageDocument(left.browser, left.frame, plain_name(place), self._policy),
                left.left_at + GRACE_S,
            )

    def _update(self) -> None:
        if self.version == self._updated:
            return
        self._updated = self.version
        frames = dict(self._frames())
        names = document_names(place for place, _, _ in frames.values())
        before = self._documents
        self._documents = {
            at: self._document(before.get(at), names[place], browser, frame)
            for at, (place, browser, frame) in frames.items()
        }
        self._all = tuple(self._documents.values())
        self._by_name = {str(document.name): document for document in self._all}
        self._by_domain, self._by_other_name = {}, {}
        for document, (place, _, _) in zip(self._all, frames.values(), strict=True):
            self._by_domain.setdefault(document.name.domain, []).append(document)
            for name in (plain_name(place), hashed_name(place)):
                self._by_other_name.setdefault(str(name), []).append(document)

    def _frames(self) -> Iterator[tuple[FrameAt, tuple[DocumentPlace, Browser, Frame]]]:
        for browser, tab, frame in self._registry.frames():
            at = frame.announced
            if not (frame.resources or frame.templates or frame.prompts or at.capabilities):
                continue
            place = self._place(browser, tab, frame)
            yield FrameAt(browser.host, at.tab_id, at.frame_id), (place, browser, frame)

    def _place(self, browser: Browser, tab: wire.Tab, frame: Frame) -> DocumentPlace:
        at, mark = frame.announced, self._profiles.mark_of(browser.profile)
        return DocumentPlace(
            browser.profile, browser.pid, at.tab_id, at.frame_id, tab.ordinal, at.origin, mark
        )

    def _document(
        self, before: PageDocument | None, name: DocumentName, browser: Browser, frame: Frame
    ) -> PageDocument:
        if before and before.frame is frame and before.browser is browser and before.name == name:
            return before
        return PageDocument(browser, frame, name, self._policy)


def best_document(
    session: Session, found: Sequence[PageDocument], names: Sequence[str], said: str
) -> PageDocument:
    """Return the document that a session means, where several of one site offer the same.

    Args:
        session: it may use its own tabs and those of no session.
        found: at least one.
        names: what to call each of them, for the error.
        said: what the client called it.

    Raises:
        CallError: they are of several sites.
    """
    allowed = [document for document in found if not document.refusal] or found
    if len({(document.browser.profile, document.origin) for document in allowed}) > 1:
        more = f", or one of {len(names) - MAX_CHOICES} more" if len(names) > MAX_CHOICES else ""
        choices = f"{', '.join(names[:MAX_CHOICES])}{more}"
        detail = f"pages of several sites offer {single_line(said, MAX_ORIGIN_CHARS)}"
        raise CallError(Code.INVALID_PARAMS, detail, handed=False, then=f"Use one of these: {choices}")
    usable = [document for document in allowed if document.tab.owner in (None, session.id)] or allowed
    return max(usable, key=_nearness)


def _nearness(document: PageDocument) -> tuple[bool, bool, bool, float, int]:
    """Return what ranks documents of one site: its own page stands before a frame in another site's."""
    tab, is_own = document.tab, document.origin == document.tab_origin
    return (
        is_own,
        tab.active and tab.focused,
        tab.active,
        tab.last_accessed,
        -document.frame.announced.frame_id,
    )
