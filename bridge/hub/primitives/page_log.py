"""Log messages of pages and remote servers, by the sessions that have used them. Sans-IO.

A session receives what documents log that it has sent a request to, as long as it may send another one
without a question to the user, or while one runs. Page servers receive no level: each recipient has its own,
and what it does not want is left out here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import msgspec

from bridge.errors import CallError
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_consent import PageToolConsent
from bridge.hub.operation import FINISHED, Operation
from bridge.hub.policy import Policy
from bridge.hub.primitives.log_message import (
    MESSAGE,
    LogLevel,
    LogMessage,
    LogRecipient,
    is_wanted,
    read_message,
    severity_of,
)
from bridge.hub.registry import Browser, Frame, Registry
from native_host.protocol import wire

MAX_DOCUMENTS = 64
"""Documents of which a session receives messages: those that it used last."""
MAX_MESSAGES = 20
"""Messages of one document that a recipient receives in WINDOW_S; more are dropped and counted.

An extension passes on 10 a second, but its seconds begin elsewhere: those of two may arrive in one window.
"""
WINDOW_S = 1.0

_log = logging.getLogger(__name__)


class _DocumentKey(msgspec.Struct, frozen=True):
    """Identity of a document, also after its browser has connected again; or of a remote server."""

    profile: str
    """For a remote server, its origin."""
    tab_id: int = 0
    frame_id: int = 0
    document_id: str = ""


class _LoggingDocument(msgspec.Struct, frozen=True):
    """Document that has logged something."""

    browser: Browser
    frame: Frame
    tab: wire.Tab

    @property
    def tab_origin(self) -> str:
        """Origin of the page in its tab."""
        return self.tab.origin

    @property
    def origins(self) -> tuple[str, str]:
        """Its own origin, and that of the page in its tab."""
        return self.frame.announced.origin, self.tab.origin


class _Window(msgspec.Struct):
    """Messages of one document to one recipient."""

    began: float = 0.0
    count: int = 0
    dropped: int = 0
    """Messages that the recipient does not know to be dropped."""

    def has_room(self, now: float) -> bool:
        """Count one more message; return whether it is within the limit."""
        if not self.began <= now < self.began + WINDOW_S:
            self.began, self.count = now, 0
        self.count += 1
        return self.count <= MAX_MESSAGES


class _Reader:
    """A recipient, and what it was sent of each document. Each call has one, so it is made in little time."""

    __slots__ = ("_log", "_windows", "recipient", "session")

    def __init__(self, log: PageLog, session: Session, recipient: LogRecipient | None) -> None:
        self.session = session
        self.recipient = recipient
        """None for a request that wants no messages; its session may want them."""
        self._windows: dict[_DocumentKey, _Window] | None = None
        """The one that was used last at the end."""
        self._log = log

    def cancel(self) -> None:
        """End the messages to it."""
        self._log.end(self)

    def send(self, key: _DocumentKey, message: LogMessage, now: float) -> None:
        """Send a message, if it is wanted, or count it as dropped."""
        windows = self._windows = self._windows or {}
        window = windows[key] = windows.pop(key) if key in windows else _Window()
        if len(windows) > MAX_DOCUMENTS:
            del windows[next(iter(windows))]
        window.dropped += message.dropped
        if self.recipient is None or not is_wanted(message.level, self.recipient.level):
            return
        counted = msgspec.structs.replace(message, dropped=window.dropped)
        is_sent = window.has_room(now) and self.recipient.write(counted)
        window.dropped = 0 if is_sent else window.dropped + 1


class PageLog:
    """Passes messages of pages to recipients."""

    def __init__(self, registry: Registry, policy: Policy, consent: PageToolConsent) -> None:
        self._registry = registry
        self._policy = policy
        self._consent = consent
        self._used: dict[str, dict[_DocumentKey, None]] = {}
        """Documents by session, the one that was used last at the end."""
        self._latest: dict[str, Frame | str] = {}
        """The last of them as it was announced, or the origin of a remote server."""
        self._readers: dict[_Reader, _DocumentKey | None] = {}
        """With the document of the request that each is for; None: it reads all that its session has used."""

    def listen(self, session: Session, recipient: LogRecipient) -> Callable[[], None]:
        """Send a recipient what the documents log that its session has used; return what ends that."""
        reader = _Reader(self, session, recipient)
        self._readers[reader] = None
        return reader.cancel

    def follow(
        self, session: Session, browser: Browser, frame: Frame, recipient: LogRecipient | None
    ) -> Operation:
        """Note that a session uses a document; send a recipient what it logs until cancelled."""
        if self._latest.get(session.id) is not frame:
            self._latest[session.id] = frame
            self._note_use(session, _key_of(browser, frame.announced))
        if recipient is None and not self._readers:
            return FINISHED  # no session wants messages: most calls end here
        reader = _Reader(self, session, recipient)
        self._readers[reader] = _key_of(browser, frame.announced)
        return reader

    def follow_server(self, session: Session, origin: str, recipient: LogRecipient | None) -> Operation:
        """Note that a session uses a remote server; see `follow`."""
        if self._latest.get(session.id) != origin:
            self._latest[session.id] = origin
            self._note_use(session, _DocumentKey(origin))
        if recipient is None and not self._readers:
            return FINISHED
        reader = _Reader(self, session, recipient)
        self._readers[reader] = _DocumentKey(origin)
        return reader

    def least_level(self, session: Session, recipient: LogRecipient | None) -> LogLevel | None:
        """Return the least severe level that a request or its session wants; None: neither wants messages."""
        recipients = [recipient]
        for reader, only in self._readers.items():
            if only is None and reader.session is session:
                recipients.append(reader.recipient)
        levels = [each.level for each in recipients if each is not None and each.level is not None]
        return min(levels, key=severity_of, default=None)

    def _note_use(self, session: Session, key: _DocumentKey) -> None:
        used = self._used.setdefault(session.id, {})
        used.pop(key, None)
        used[key] = None
        if len(used) > MAX_DOCUMENTS:
            del used[next(iter(used))]

    def end(self, reader: _Reader) -> None:
        """End the messages to a reader."""
        self._readers.pop(reader, None)

    def release(self, session: Session) -> None:
        """Forget a session that has ended."""
        self._used.pop(session.id, None)
        self._latest.pop(session.id, None)

    def handle_notification(self, host: str, notification: wire.PageNotification, now: float) -> None:
        """Pass a page's notification on, if it is a log message."""
        if notification.method != MESSAGE or not self._readers:
            return
        document = self._find_document(host, notification)
        if document is None:
            return
        key = _key_of(document.browser, notification)
        readers = [
            reader for reader in self._readers_of(key) if self._may_read(reader.session, document, key)
        ]
        if not readers:
            return
        params = b"" if notification.params is msgspec.UNSET else bytes(notification.params)
        message = read_message(params, document.frame.announced.origin)
        if message is None:
            _log.debug("a log message of a page is not one of MCP")
            return
        message = msgspec.structs.replace(message, dropped=notification.dropped)
        for reader in readers:
            reader.send(key, message, now)

    def handle_server_message(
        self, origin: str, params: bytes, now: float, session: Session | None = None
    ) -> None:
        """Pass on what a remote server logs; only to one session if it belongs to a request of that."""
        if not self._readers:
            return
        message = read_message(params, origin)
        if message is None:
            _log.debug("a log message of a remote server is not one of MCP")
            return
        key = _DocumentKey(origin)
        for reader in list(self._readers_of(key)):
            if session in (None, reader.session) and self._is_unpaused(reader.session, origin):
                reader.send(key, message, now)

    def _is_unpaused(self, session: Session, *of: str) -> bool:
        try:
            self._registry.pauses.check(session, *of)
        except CallError:
            return False
        return True

    def _find_document(self, host: str, at: wire.FrameAddress) -> _LoggingDocument | None:
        """Return the document with this address; None: it is gone, private or forbidden."""
        browser = self._registry.find_browser(host)
        frame, tab = browser.find_frame(at.tab_id, at.frame_id), browser.tabs.get(at.tab_id)
        if frame is None or tab is None or tab.incognito or frame.announced.document_id != at.document_id:
            return None
        document = _LoggingDocument(browser, frame, tab)
        is_refused = any(origin and self._policy.origin_refusal(origin) for origin in document.origins)
        return None if is_refused or self._consent.is_off(document) else document

    def _readers_of(self, key: _DocumentKey) -> Iterator[_Reader]:
        for reader, only in self._readers.items():
            if only == key or (only is None and key in self._used.get(reader.session.id, ())):
                yield reader

    def _may_read(self, session: Session, document: _LoggingDocument, key: _DocumentKey) -> bool:
        """Return whether the session may use the document now, or has a request that runs in it."""
        if document.tab.owner not in (None, session.id):
            return False
        if not self._is_unpaused(session, *document.origins):
            return False
        return self._consent.is_approved(session, document) or self._is_in_use(session, key)

    def _is_in_use(self, session: Session, key: _DocumentKey) -> bool:
        return any(only == key and reader.session.id == session.id for reader, only in self._readers.items())


def _key_of(browser: Browser, at: wire.FrameAddress) -> _DocumentKey:
    return _DocumentKey(browser.profile, at.tab_id, at.frame_id, at.document_id)
