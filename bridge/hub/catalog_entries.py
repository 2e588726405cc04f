"""Catalog entries: a tool under its public name, live or cached, and the tools of one document. Sans-IO."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from functools import cached_property

import msgspec

from bridge.hub.audit_records import Site
from bridge.hub.cached_tools import CachedToolRow
from bridge.hub.client_session import ToolBinding, ToolIdentity
from bridge.hub.page_tool import PageTool
from bridge.hub.primitives.document_names import DocumentPlace, plain_name
from bridge.hub.primitives.page_resource import is_uri
from bridge.hub.primitives.resource_catalog import uri_of_name
from bridge.hub.public_names import Place
from bridge.hub.registry import Browser, Frame, Offer
from bridge.hub.tool_definition import (
    ASKED_FIRST,
    MAX_TOOL_BYTES,
    NO_TAB_OPEN,
    TEXTS_LEFT_OUT,
    ToolJson,
    format_page_text,
    in_tab,
    in_text,
    mark_of,
    shown_schema,
    with_texts,
    without_texts,
)
from bridge.hub.tool_schema import Era
from native_host.protocol import wire

NO_TAB = -1


class Entry(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Members of a tool that lists and searches need, live or cached."""

    name: str
    tool: PageTool
    origin: str
    refusal: str
    """Rule of the user's policy that forbids the tool; empty if it is allowed."""
    own_words: str | None
    """The user's description, which replaces the page's."""
    form: str
    """The name without a tab, which the best tab's tool answers to."""

    @property
    def own_name(self) -> str:
        """The page's name for the tool."""
        return self.tool.name

    @property
    def title(self) -> str:
        """The page's title for it, or empty."""
        return self.tool.title

    @property
    def page_words(self) -> str:
        """Description: the user's, else the page's, unsanitized."""
        return self.tool.description if self.own_words is None else self.own_words

    @property
    def input_schema(self) -> bytes:
        """The JSON Schema of its arguments as the page wrote it, as JSON."""
        return self.tool.input_schema

    @property
    def shown_schema(self) -> bytes:
        """The same as clients see it: with sanitized texts."""
        return shown_schema(self.tool.raw)

    @property
    def tab_title(self) -> str:
        """Current title of the tab."""
        return ""

    @property
    def ordinal(self) -> int:
        """Its tab's number in the profile; 0: no tab is open."""
        return 0

    @property
    def is_active(self) -> bool:
        """Return whether its tab is active."""
        return False

    @property
    @abstractmethod
    def place(self) -> str:
        """Location of the tool, as its description shows it."""

    @property
    @abstractmethod
    def binding(self) -> ToolBinding:
        """Binding of the name."""

    @property
    @abstractmethod
    def site(self) -> Site:
        """Location of the tool, for records."""

    def format_definition(self, room: int) -> bytes:
        """Return the MCP Tool as JSON, with the page's texts if they fit into `room` bytes."""
        before, behind = self.shown_within(room)
        return b"%b%b%b" % (before, in_text(self.place), behind)

    def shown_within(self, room: int) -> ToolJson:
        """Return the definition around its location, with the page's texts if they fit into `room` bytes."""
        return self.own_definition if self.own_definition.size <= room else self._without_texts

    def format_description(self) -> str:
        """Return origin, current location, and the description of the page (or the user)."""
        return f"{mark_of(self.origin)} {self.place} {self._describe_tool()}"

    def description_without_words(self) -> str:
        """Return the description without the page's text: its site is not approved yet."""
        return f"{mark_of(self.origin)} {self.place} {ASKED_FIRST}"

    @cached_property
    def own_definition(self) -> ToolJson:
        """The part of the definition that depends on the tool alone, with texts up to MAX_TOOL_BYTES."""
        shown = with_texts(self.name, self.tool.raw, self.origin, self._describe_tool(), self._rename_uri)
        return shown if shown.size <= MAX_TOOL_BYTES else self._without_texts

    @cached_property
    def _without_texts(self) -> ToolJson:
        return without_texts(self.name, self.tool.raw, self.origin, self.own_words or TEXTS_LEFT_OUT)

    def _rename_uri(self, own_uri: str) -> str:
        """Return the URI under which clients read a resource of the tool's page."""
        return own_uri

    def _describe_tool(self) -> str:
        return format_page_text(self.tool.description, self.own_words)


class LiveEntry(Entry, frozen=True, eq=False):
    """A tool that a page offers now."""

    offer: Offer
    named_at: Place
    """Everything that its name depends on."""

    @property
    def tab_title(self) -> str:
        """See `Entry`."""
        return self.offer.tab.title

    @property
    def ordinal(self) -> int:
        """See `Entry`."""
        return self.offer.tab.ordinal

    @property
    def is_active(self) -> bool:
        """See `Entry`."""
        return self.offer.tab.active and self.offer.tab.focused

    @property
    def place(self) -> str:
        """See `Entry`."""
        return in_tab(self.origin, self.offer.tab)

    @cached_property
    def binding(self) -> ToolBinding:
        """See `Entry`."""
        browser, frame = self.offer.browser, self.offer.frame
        at = frame.tab_id, frame.frame_id
        identity = ToolIdentity(browser.profile, browser.pid, *at, frame.origin, self.tool.name)
        return ToolBinding(identity, frame.document_id, self.offer.source.address, self.tool.digest)

    @property
    def site(self) -> Site:
        """See `Entry`."""
        return site_of(self.offer.browser, self.origin, self.offer.tab_id)

    def _rename_uri(self, own_uri: str) -> str:
        # A document that shares its tab and domain with another one has also had this name.
        at = self.named_at
        place = DocumentPlace(
            at.profile, at.browser_pid, at.tab_id, at.frame_id, at.ordinal, at.origin, at.mark
        )
        return uri_of_name(plain_name(place), own_uri) if is_uri(own_uri) else own_uri


class CachedEntry(Entry, frozen=True, eq=False):
    """A tool that outlives its page: a call opens a tab for it."""

    profile: str
    url: str
    live: LiveEntry | None = None
    """The tool in a tab that another session owns, in whose place a tab is opened; None: it is cached."""

    @classmethod
    def of(
        cls, name: str, cached: CachedToolRow, refusal: str, own_words: str | None, form: str
    ) -> CachedEntry:
        """Return the entry of a cached tool under a name."""
        return cls(name, cached.tool, cached.origin, refusal, own_words, form, cached.profile, cached.url)

    @property
    def place(self) -> str:
        """See `Entry`."""
        return NO_TAB_OPEN

    @cached_property
    def binding(self) -> ToolBinding:
        """See `Entry`."""
        return ToolBinding(ToolIdentity(self.profile, 0, NO_TAB, 0, self.origin, self.tool.name), "", "", b"")

    @property
    def site(self) -> Site:
        """See `Entry`."""
        return Site(profile=self.profile, origin=self.origin)


def site_of(browser: Browser, origin: str, tab_id: int | None) -> Site:
    """Return an origin for records, in a tab if one is known."""
    called = browser.hello.profile.label or browser.hello.browser.brand if browser.hello else ""
    tab = None if tab_id is None else browser.tabs.get(tab_id)
    return Site(browser.profile, called, origin, tab_id, tab.ordinal if tab else 0)


class _FormatKey(msgspec.Struct, frozen=True):
    tab: wire.Tab
    era: Era
    room: int
    """Bytes; that of a document whose texts all fit does not depend on what is left."""


class DocumentTools(msgspec.Struct, eq=False, dict=True):
    """Tools that a document offers, forbidden ones included; replaced whenever one of them changes."""

    browser: Browser
    frame: Frame
    tools: list[PageTool]
    ordinal: int
    tab_origin: str
    mark: str
    """Of its profile, in the names of the tools."""
    entries: dict[Place, LiveEntry]
    _written: tuple[_FormatKey, tuple[bytes, int]] | None = None
    """The latest result of `format_tools`."""

    @property
    def frame_of_browser(self) -> tuple[str, int, int, int]:
        """Identity of the frame, also behind another host of the same browser."""
        announced = self.frame.announced
        return self.browser.profile, self.browser.pid, announced.tab_id, announced.frame_id

    @cached_property
    def allowed_entries(self) -> list[LiveEntry]:
        """Entries that the policy shows to clients."""
        return [entry for entry in self.entries.values() if not entry.refusal]

    @cached_property
    def size(self) -> int:
        """Bytes of the tools with all texts, in either era."""
        return sum(entry.own_definition.size for entry in self.allowed_entries)

    @cached_property
    def fingerprint(self) -> bytes:
        """Fingerprint of the definitions: clients are notified of changes. It omits the active tab."""
        origin = self.frame.announced.origin.encode()
        names = (b"%b %b" % (entry.name.encode(), entry.tool.digest) for entry in self.allowed_entries)
        return hashlib.blake2b(b"\n".join([origin, *names]), digest_size=16).digest()

    @cached_property
    def bindings(self) -> dict[str, ToolBinding]:
        """Bindings of the allowed entries."""
        return {entry.name: entry.binding for entry in self.allowed_entries}

    @property
    def site(self) -> str:
        """The origin whose limits it shares: its page's, so that a page cannot multiply them by frames."""
        return self.tab_origin or self.frame.announced.origin

    def format_tools(self, era: Era, room: int) -> tuple[bytes, int]:
        """Return the MCP Tools as JSON, a comma before each, and the bytes of `room` that they take.

        Texts that do not fit are omitted. Tab titles change often: only the location in the definitions is
        rewritten then.
        """
        announced = self.frame.announced
        tab = self.browser.tabs[announced.tab_id]
        wanted = _FormatKey(tab, era, min(room, self.size))
        if self._written is None or self._written[0] != wanted:
            place = in_text(in_tab(announced.origin, tab))
            parts: list[bytes] = []
            left = room
            for entry in self.allowed_entries:
                if entry.tool.is_for(era):
                    shown = entry.shown_within(left)
                    left -= shown.size
                    parts += (b",", shown.before, place, shown.behind)
            self._written = wanted, (b"".join(parts), room - left)
        return self._written[1]

    def is_of(self, browser: Browser, tab: wire.Tab, frame: Frame) -> bool:
        """Return whether these are tools of this document, which may offer others by now."""
        return self.browser is browser and self.frame is frame and self.tab_origin == tab.origin

    def is_up_to_date(self, browser: Browser, tab: wire.Tab, frame: Frame) -> bool:
        """Return whether rebuilding would change nothing."""
        is_same_list = self.tools is frame.tools and self.ordinal == tab.ordinal
        return is_same_list and self.is_of(browser, tab, frame)
