"""The user's consent to page tools: per site on, ask or off.

It shows no prompt itself. Values of `[pages]` and of the popup decide; where neither names a site, its own
open page counts as consent, a frame in another site's page and a cached tool do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from bridge import origins
from bridge.errors import CallError
from bridge.hub.cached_tools import ToolStore
from bridge.hub.catalog_entries import CachedEntry, Entry, LiveEntry
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_settings import STRICTNESS, PageSettings, Primitive
from bridge.hub.consent.user_prompts import client_name
from bridge.hub.registry import Browser, Frame, Registry
from bridge.hub.rules.site_patterns import matches_pattern
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, MAX_TITLE_CHARS, quote, single_line
from native_host.protocol.wire import Code, Use

SITE_CHOICES = ("once", "hour", "client", "always", "no")
CALL_CHOICES = ("once", "no")
OPAQUE = "null"
"""Origin that browsers report for sandboxed documents: many sites share it."""

Popup = Mapping[str, Use]
"""Values that the user has set in a browser's popup, by origin."""


ApprovalWord = Literal["page-tools", "sampling", "roots"]
"""What a site can be approved for here, as in `state/approvals.json`."""


class OriginApprovals(Protocol):
    """Approvals of the user for one thing that sites do, such as offering tools."""

    @property
    def version(self) -> object:
        """Changes when `has` may answer otherwise."""
        ...

    def has_approval(self, origin: str, client: str) -> bool:
        """Return whether this origin is approved for this client; without I/O that waits.

        An empty client: to all.
        """
        ...

    async def grant_approval(self, origin: str, choice: str, client: str) -> None:
        """Keep a choice of the user that lasts (`hour`, `client`, `always`)."""
        ...


class OfferingDocument(Protocol):
    """A document that offers something to clients."""

    @property
    def browser(self) -> Browser:
        """Browser that it is open in."""
        ...

    @property
    def frame(self) -> Frame:
        """What it has announced."""
        ...

    @property
    def tab_origin(self) -> str:
        """Origin of the page in its tab."""
        ...


class Doubt(msgspec.Struct, frozen=True):
    """Subject that the user has to approve before a call."""

    subject: tuple[str, ...]
    origin: str
    text: str
    choices: tuple[str, ...]
    is_about_site: bool
    instead: str


class PageToolConsent:
    """Decides by settings, popup, approvals and what clients have called before."""

    def __init__(
        self,
        registry: Registry,
        store: ToolStore,
        approvals: OriginApprovals,
        settings: PageSettings | None = None,
        *,
        asks_sites: bool = False,
    ) -> None:
        """With `asks_sites` (`browser.sites = "ask"`) no site's tools are on unless the user has said so."""
        self._registry = registry
        self._store = store
        self._approvals = approvals
        self._settings = settings or PageSettings()
        self._asks_sites = asks_sites
        self._changes = 0
        self._unrestricted: set[LiveEntry] = set()
        """Tools that are on for every client, while `_state` stays: most calls, so they must be cheap."""
        self._recorded: set[LiveEntry] = set()
        """Tools whose call was recorded, while `_state` stays."""
        self._state: tuple[object, ...] = ()

    def setting_for(self, settings: PageSettings, *, asks_sites: bool) -> None:
        """Decide by other settings from now on."""
        self._settings, self._asks_sites = settings, asks_sites
        self._changes += 1

    @property
    def version(self) -> tuple[object, ...]:
        """Changes when an answer to any client may."""
        registry, store = self._registry, self._store
        return self._changes, registry.version_of_page_tools, store.version_of_calls, self._approvals.version

    # ── Lists ───────────────────────────────────────────────────────────────────────────────────────────────

    def is_listed(self, document: OfferingDocument) -> bool:
        """Return whether what a document offers stands in lists."""
        has_values = self._settings.sites or document.browser.page_tools
        if not has_values and self._default_setting == "on" and document.frame.announced.frame_id == 0:
            return True  # nearly all documents, of which there may be a thousand
        if self.is_off(document):
            return False
        return not any(self._unapproved_live(document.browser, document.frame, document.tab_origin, ""))

    def is_cached_listed(self, entry: CachedEntry) -> bool:
        """Return whether a cached tool stands in `tools/list`."""
        return not self.refusal(entry) and not any(self._unapproved_origins(entry, ""))

    def is_off(self, document: OfferingDocument) -> bool:
        """Return whether a document's tools are not used at all."""
        sites = document.frame.announced.origin, document.tab_origin
        return any(self._is_off(document.browser.page_tools, origin) for origin in sites)

    def uses(self, what: Primitive) -> bool:
        """Return whether resources, or prompts, of pages are used at all."""
        return (self._settings.resources if what == "resources" else self._settings.prompts) == "on"

    # ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def find_doubts(self, session: Session, entry: Entry) -> tuple[Doubt, ...]:
        """Return what the user has to allow before this session may call the tool.

        Raises:
            CallError: a value forbids the tool.
        """
        if self._is_unrestricted(entry):
            return (_about_call(client_name(session), entry),) if entry.tool.is_consequential else ()
        if refusal := self.refusal(entry):
            raise CallError(Code.NOT_ALLOWED, refusal, handed=False)
        return tuple(self._find_doubts(session, entry))

    def find_document_doubts(
        self, session: Session, document: OfferingDocument, what: Primitive
    ) -> tuple[Doubt, ...]:
        """Return what the user has to allow before this session may use a document's resources or prompts.

        Raises:
            CallError: a value forbids the document, or the resources or prompts of all.
        """
        browser, frame, host_page = document.browser, document.frame, document.tab_origin
        self.check_document(browser, frame.announced.origin, host_page, what)
        who = client_name(session)
        return tuple(
            _about_site(who, origin, what) for origin in self._unapproved_live(browser, frame, host_page, who)
        )

    def is_approved(self, session: Session, document: OfferingDocument) -> bool:
        """Return whether a session may use a document's site without a question to the user."""
        who = client_name(session)
        return not any(self._unapproved_live(document.browser, document.frame, document.tab_origin, who))

    def check_document(self, browser: Browser, origin: str, tab_origin: str, what: Primitive) -> None:
        """Check that no value forbids the resources or prompts of a document, whichever session asks.

        Raises:
            CallError: one does.
        """
        if refusal := self._document_refusal(browser, origin, tab_origin, what):
            raise CallError(Code.NOT_ALLOWED, refusal, handed=False)

    def document_refusal(self, document: OfferingDocument, what: Primitive) -> str:
        """Return which value forbids a document's resources or prompts; empty when none does."""
        origin = document.frame.announced.origin
        return self._document_refusal(document.browser, origin, document.tab_origin, what)

    def _document_refusal(self, browser: Browser, origin: str, tab_origin: str, what: Primitive) -> str:
        if not self.uses(what):
            return f"{what} of pages are off, by `{what}` of [pages] in config.toml"
        return self._refusal_of((origin, tab_origin), browser.page_tools)

    def refusal(self, entry: Entry) -> str:
        """Return which value forbids the tool, in words for the user; empty when none does."""
        return self._refusal_of((entry.origin, _host_page(entry)), self._in_popup(entry))

    def _refusal_of(self, sites: Iterable[str], in_popup: Popup) -> str:
        for origin in sites:
            if self._is_off(in_popup, origin):
                site = single_line(origin, MAX_ORIGIN_CHARS)
                return f"page tools of {site} are off, by [pages] in config.toml or in the extension's popup"
        return ""

    def _find_doubts(self, session: Session, entry: Entry) -> Iterator[Doubt]:
        for origin in self._unapproved_origins(entry, client_name(session)):
            yield _about_site(client_name(session), origin, "tools")
        if entry.tool.is_consequential:
            yield _about_call(client_name(session), entry)

    def record_call(self, entry: LiveEntry) -> None:
        """Record that a client has a result of this tool."""
        if entry in self._recorded:
            return
        self._recorded.add(entry)
        profile = entry.offer.browser.profile
        if not self._store.was_called(profile, entry.origin):
            self._store.record_call(profile, entry.origin)

    async def store_choice(self, session: Session, doubt: Doubt, choice: str) -> None:
        """Keep an answer for later calls, if it is meant to last."""
        if doubt.is_about_site and choice != "once":
            await self._approvals.grant_approval(doubt.origin, choice, client_name(session))

    def _is_unrestricted(self, entry: Entry) -> bool:
        """Return whether a live tool is on for every client; remembered until pages or settings change."""
        registry = self._registry
        pages = registry.version, registry.version_of_tabs, registry.version_of_page_tools
        state = (self._changes, *pages, self._store.version_of_calls)
        if state != self._state:
            self._state = state
            self._unrestricted.clear()
            self._recorded.clear()
        if entry in self._unrestricted:
            return True
        if not isinstance(entry, LiveEntry) or self.refusal(entry):
            return False
        offer = entry.offer
        if any(use != "on" for _, use in self._settings_of(offer.browser, offer.source, offer.tab.origin)):
            return False
        self._unrestricted.add(entry)
        return True

    # ── One site ────────────────────────────────────────────────────────────────────────────────────────────

    def _unapproved_origins(self, entry: Entry, client: str) -> Iterator[str]:
        """Yield the origins that the user has to approve first, for this client or (empty) for all."""
        if isinstance(entry, LiveEntry):
            offer = entry.offer
            return self._unapproved_live(offer.browser, offer.source, offer.tab.origin, client)
        assert isinstance(entry, CachedEntry), "a tool is in a tab or without one"
        if entry.live is not None:
            return self._unapproved_origins(entry.live, client)
        was_called = self._store.was_called(entry.profile, entry.origin)
        use = self._setting_of(self._in_popup(entry), entry.origin, "on" if was_called else "ask")
        return self._unless_allowed([(entry.origin, use)], client)

    def _unapproved_live(self, browser: Browser, frame: Frame, host_page: str, client: str) -> Iterator[str]:
        return self._unless_allowed(self._settings_of(browser, frame, host_page), client)

    def _settings_of(self, browser: Browser, frame: Frame, host_page: str) -> Iterator[tuple[str, Use]]:
        """Yield the origins that a document's tools belong to, each with its setting."""
        announced = frame.announced
        is_own_page = announced.frame_id == 0 or announced.origin == host_page
        consent: Use = "on" if is_own_page or announced.opened or announced.delegated else "ask"
        yield announced.origin, self._setting_of(browser.page_tools, announced.origin, consent)
        if not is_own_page and host_page:
            yield host_page, self._setting_of(browser.page_tools, host_page, "on")

    def _unless_allowed(self, uses: Iterable[tuple[str, Use]], client: str) -> Iterator[str]:
        """Yield the origins that the user has to approve."""
        for origin, use in uses:
            if use == "on":
                continue
            if origin == OPAQUE or not self._approvals.has_approval(origins.canonicalize(origin), client):
                yield origin

    def _setting_of(self, in_popup: Popup, origin: str, consent: Use) -> Use:
        """Return the value for a site; `consent` holds where no value names it."""
        return self._user_setting(in_popup, origin) or _strictest_of([self._default_setting, consent])

    def _is_off(self, in_popup: Popup, origin: str) -> bool:
        return bool(origin) and (self._user_setting(in_popup, origin) or self._default_setting) == "off"

    @property
    def _default_setting(self) -> Use:
        return "ask" if self._asks_sites and self._settings.tools == "on" else self._settings.tools

    def _user_setting(self, in_popup: Popup, origin: str) -> Use | None:
        """Return the user's setting for this site: the stricter one of file and popup."""
        if not in_popup and not self._settings.sites:
            return None
        said = [site.tools for site in self._settings.sites if matches_pattern(site.origin, origin)][:1]
        value = in_popup.get(origins.canonicalize(origin))
        found = [*said, *([value] if value else [])]
        return _strictest_of(found) if found else None

    def _in_popup(self, entry: Entry) -> Popup:
        if isinstance(entry, LiveEntry):
            return entry.offer.browser.page_tools
        browser = self._registry.live_browser(entry.site.profile)
        return browser.page_tools if browser else {}


class SessionApprovals:
    """`OriginApprovals` in memory: what was allowed holds as long as this process runs."""

    def __init__(self) -> None:
        """Nothing is allowed yet."""
        self.version = 0
        self._granted: set[tuple[str, str]] = set()

    def has_approval(self, origin: str, client: str) -> bool:
        """See `OriginApprovals`."""
        return (origin, "") in self._granted or (origin, client) in self._granted

    async def grant_approval(self, origin: str, choice: str, client: str) -> None:
        """See `OriginApprovals`."""
        self._granted.add((origins.canonicalize(origin), "" if choice == "always" else client))
        self.version += 1


def _strictest_of(uses: Sequence[Use]) -> Use:
    return max(uses, key=STRICTNESS.index)


def _about_site(who: str, origin: str, what: Literal["tools"] | Primitive) -> Doubt:
    site = "a page without an origin" if origin == OPAQUE else single_line(origin, MAX_ORIGIN_CHARS)
    return Doubt(
        subject=("site", origins.canonicalize(origin)),
        origin=origin,
        text=f"{who} wants to use the {what} of {site}.",
        choices=CALL_CHOICES if origin == OPAQUE else SITE_CHOICES,
        is_about_site=True,
        instead=(
            f"The user can open {site} as a page of its own, turn its tools on in the extension's popup, or "
            f'add [[pages.sites]] with origin = "{site}" and tools = "on" to config.toml.'
        ),
    )


def _about_call(who: str, entry: Entry) -> Doubt:
    site, name = single_line(entry.origin, MAX_ORIGIN_CHARS), quote(entry.own_name, MAX_TITLE_CHARS)
    return Doubt(
        subject=("call", origins.canonicalize(entry.origin), entry.own_name, entry.tool.digest.hex()),
        origin=entry.origin,
        text=f"{who} wants to call {name} of {site}, which that page marks as consequential.",
        choices=CALL_CHOICES,
        is_about_site=False,
        instead="Ask the user to do it on the page.",
    )


def _host_page(entry: Entry) -> str:
    """Return the origin of the page around a frame's tool; empty without one."""
    if isinstance(entry, CachedEntry):
        return _host_page(entry.live) if entry.live else ""
    return entry.offer.tab.origin if isinstance(entry, LiveEntry) else ""
