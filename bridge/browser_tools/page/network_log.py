"""Network log of a tab: the latest requests from DevTools events. Sans-IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from bridge import origins
from bridge.browser_tools.page.credential_masking import masked_url
from bridge.browser_tools.page.frame_origins import FrameOrigins
from native_host.protocol import wire

MAX_REQUESTS = 1000
MAX_BYTES = 4 * 1024 * 1024
"""Approximate bytes of a tab's log."""
MAX_URL = 2000
"""Characters; also of an address in `data:`."""
MAX_HEADERS = 100
MAX_HEADER = 1000


class _Shape(msgspec.Struct, rename="camel"):
    """Members of an event that are read."""


class _RequestData(_Shape):
    url: str
    method: str
    headers: dict[str, str] = {}
    post_data: str = ""
    has_post_data: bool = False
    url_fragment: str = ""


class _Response(_Shape):
    status: int
    url: str = ""
    status_text: str = ""
    headers: dict[str, str] = {}
    mime_type: str = ""
    from_disk_cache: bool = False
    from_service_worker: bool = False
    from_prefetch_cache: bool = False
    encoded_data_length: float = 0


class _Frame(_Shape):
    url: str = ""
    line_number: int = 0


class _Stack(_Shape):
    call_frames: list[_Frame] = []
    parent: _Stack | None = None


class _Initiator(_Shape):
    type: str = ""
    url: str = ""
    line_number: float = 0
    stack: _Stack | None = None


class _RequestSent(_Shape):
    request_id: str
    request: _RequestData
    timestamp: float
    wall_time: float
    loader_id: str = ""
    frame_id: str = ""
    document_url: str = msgspec.field(name="documentURL", default="")
    initiator: _Initiator = msgspec.field(default_factory=_Initiator)
    redirect_response: _Response | None = None
    type: str = ""


class _OfRequest(_Shape):
    request_id: str


class _ResponseReceived(_OfRequest):
    response: _Response
    timestamp: float
    type: str = ""


class _LoadingEnd(_OfRequest):
    """Params of `loadingFinished`, `loadingFailed`, and of the end of sockets."""

    timestamp: float
    encoded_data_length: float | None = None
    error_text: str = ""
    error_message: str = ""
    canceled: bool = False
    blocked_reason: str = ""
    cors_error_status: dict[str, Any] | None = None

    @property
    def why(self) -> str:
        """Reason for a missing response; empty if there is one."""
        if self.canceled:
            return "cancelled"
        reasons = [self.error_text or self.error_message]
        if self.blocked_reason:
            reasons.append(f"blocked: {self.blocked_reason}")
        if cors := (self.cors_error_status or {}).get("corsError"):
            reasons.append(f"CORS: {cors}")
        return ", ".join(filter(None, reasons))


class _SocketCreated(_OfRequest):
    url: str
    initiator: _Initiator = msgspec.field(default_factory=_Initiator)


class _NavigatedFrame(_Shape):
    id: str
    url: str
    loader_id: str
    parent_id: str = ""


class _FrameAttachment(_Shape):
    frame_id: str
    parent_frame_id: str


class _FrameNavigation(_Shape):
    frame: _NavigatedFrame


@dataclass
class Request:
    """One, and what became of it."""

    id: str
    """For DevTools: all requests of a chain of redirects have the same."""
    session: str
    method: str
    url: str
    """With secrets masked, as it is shown and looked for."""
    origin: str
    loader: str
    began: float
    """Seconds, by the clock of events."""
    at: float
    """Seconds since 1970; 0: unknown."""
    kind: str = ""
    """document, script, fetch, xhr, image, websocket, …"""
    initiator: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    sent: str = ""
    has_body: bool = False
    status: int | None = None
    """None: there is no response yet, or there was none."""
    status_text: str = ""
    response_headers: dict[str, str] = field(default_factory=dict)
    mime_type: str = ""
    size: int | None = None
    """Bytes that were transferred."""
    seconds: float | None = None
    """None: it goes on."""
    failure: str = ""
    is_cached: bool = False
    is_by_worker: bool = False
    is_redirected: bool = False
    """To the next request with its id; there is no body."""

    @property
    def time(self) -> str:
        """Time of its start in UTC, as text."""
        return datetime.fromtimestamp(self.at, UTC).strftime("%H:%M:%S.%f")[:-3] if self.at else ""

    @property
    def bytes(self) -> int:
        """Approximate bytes of this entry."""
        headers = (self.headers, self.response_headers)
        told = sum(len(name) + len(value) for each in headers for name, value in each.items())
        return 500 + len(self.url) + len(self.origin) + len(self.sent) + told


class Network:
    """The newest requests of one tab."""

    def __init__(self, url: str) -> None:
        """`url`: where the tab is."""
        self.dropped = 0
        self.frames = FrameOrigins()
        self._host = origins.get_host(url)
        self._requests: deque[Request] = deque()
        self._newest: dict[tuple[str, str], Request] = {}
        """By DevTools' session and id; of a chain of redirects the last."""
        self._bytes = 0

    def on_event(self, event: wire.CdpEvent) -> None:
        """Something has happened."""
        shape, fold = self.folds[event.method]
        try:
            told = msgspec.json.decode(event.params or b"{}", type=shape)
        except msgspec.DecodeError:
            return  # of another shape than any that is known
        fold(self, told, event.session_id)

    def find_latest(
        self, limit: int, *, fits: Callable[[Request], bool] = lambda _: True
    ) -> tuple[list[Request], int]:
        """Return the latest matching requests in the order of their starts, and the number of all matches."""
        wanted = [request for request in self._requests if fits(request)]
        return wanted[-limit:], len(wanted)

    def clear(self) -> None:
        """Forget all."""
        self._requests.clear()
        self._newest.clear()
        self._bytes = self.dropped = 0

    # ── What events say ─────────────────────────────────────────────────────────────────────────────────────

    def _add_request(self, sent: _RequestSent, session: str) -> None:
        if origins.is_of_browser(sent.document_url):
            return
        if sent.redirect_response and (earlier := self._newest.get((session, sent.request_id))):
            self._set_response(earlier, sent.redirect_response)
            earlier.is_redirected, earlier.seconds = True, sent.timestamp - earlier.began
        asked = sent.request
        self._add_entry(
            Request(
                sent.request_id,
                session,
                asked.method,
                _shorten_url(asked.url + asked.url_fragment),
                self._origin_of(sent.document_url, sent.frame_id),
                sent.loader_id,
                sent.timestamp,
                sent.wall_time,
                sent.type.lower(),
                _format_initiator(sent.initiator),
                _limit_headers(asked.headers),
                asked.post_data,
                asked.has_post_data,
            )
        )

    def _add_socket(self, created: _SocketCreated, session: str) -> None:
        kind, url, initiator = "websocket", _shorten_url(created.url), _format_initiator(created.initiator)
        origin = self._origin_of(_script_of(created.initiator))
        self._add_entry(Request(created.request_id, session, "GET", url, origin, "", 0, 0, kind, initiator))

    def _origin_of(self, document: str, frame_id: str = "") -> str:
        found = origins.get_origin(document)
        return self.frames.of_frame(frame_id) if found in ("", origins.OPAQUE) else found

    def _handle_attachment(self, attached: _FrameAttachment, session: str) -> None:
        self.frames.handle_attachment(attached.frame_id, attached.parent_frame_id, session)

    def _from_cache(self, of: _OfRequest, session: str) -> None:
        if request := self._newest.get((session, of.request_id)):
            request.is_cached = True

    def _handle_response(self, received: _ResponseReceived, session: str) -> None:
        if request := self._newest.get((session, received.request_id)):
            request.kind = received.type.lower() or request.kind
            self._set_response(request, received.response)

    def _set_response(self, request: Request, response: _Response) -> None:
        self._bytes -= request.bytes
        request.status, request.status_text = response.status, response.status_text[:MAX_HEADER]
        request.response_headers = _limit_headers(response.headers)
        request.mime_type = response.mime_type[:MAX_HEADER]
        request.size = int(response.encoded_data_length)
        request.is_cached |= response.from_disk_cache or response.from_prefetch_cache
        request.is_by_worker = response.from_service_worker
        self._bytes += request.bytes
        self._make_room()

    def _handle_end(self, ended: _LoadingEnd, session: str) -> None:
        request = self._newest.get((session, ended.request_id))
        if request is None:
            return
        request.failure = request.failure or ended.why[:MAX_HEADER]
        if request.began:
            request.seconds = ended.timestamp - request.began
        if ended.encoded_data_length is not None:
            request.size = int(ended.encoded_data_length)

    def _handle_navigation(self, navigated: _FrameNavigation, session: str) -> None:
        frame = navigated.frame
        self.frames.handle_navigation(frame.id, frame.parent_id, frame.url, session)
        host = origins.get_host(frame.url)
        if session or frame.parent_id or host == self._host:
            return
        self._host = host
        kept = [request for request in self._requests if request.loader == frame.loader_id]
        self.clear()
        for request in kept:
            self._add_entry(request)

    def _add_entry(self, request: Request) -> None:
        self._requests.append(request)
        self._newest[request.session, request.id] = request
        self._bytes += request.bytes
        self._make_room()

    def _make_room(self) -> None:
        while len(self._requests) > MAX_REQUESTS or self._bytes > MAX_BYTES:
            oldest = self._requests.popleft()
            self._bytes -= oldest.bytes
            self.dropped += 1
            if self._newest.get((oldest.session, oldest.id)) is oldest:
                del self._newest[oldest.session, oldest.id]

    folds: ClassVar[dict[str, tuple[type[Any], Callable[[Network, Any, str], None]]]] = {
        "Network.requestWillBeSent": (_RequestSent, _add_request),
        "Network.requestServedFromCache": (_OfRequest, _from_cache),
        "Network.responseReceived": (_ResponseReceived, _handle_response),
        "Network.loadingFinished": (_LoadingEnd, _handle_end),
        "Network.loadingFailed": (_LoadingEnd, _handle_end),
        "Network.webSocketCreated": (_SocketCreated, _add_socket),
        "Network.webSocketHandshakeResponseReceived": (_ResponseReceived, _handle_response),
        "Network.webSocketFrameError": (_LoadingEnd, _handle_end),
        "Network.webSocketClosed": (_LoadingEnd, _handle_end),
        "Page.frameAttached": (_FrameAttachment, _handle_attachment),
        "Page.frameNavigated": (_FrameNavigation, _handle_navigation),
    }


EVENTS = tuple(Network.folds)


def _shorten_url(url: str) -> str:
    if url.startswith("data:"):
        url = f"{url[:100]}… ({len(url)} characters)" if len(url) > 100 else url
    return masked_url(url[:MAX_URL])


def _limit_headers(headers: dict[str, str]) -> dict[str, str]:
    few = list(headers.items())[:MAX_HEADERS]
    return {name[:MAX_HEADER]: value[:MAX_HEADER] for name, value in few}


def _format_initiator(initiator: _Initiator) -> str:
    """Return the file and line that sent it, or another initiator."""
    for frame in _stack_frames(initiator.stack):
        if frame.url:
            return f"{masked_url(frame.url[:300])}:{frame.line_number + 1}"
    if initiator.url:
        return f"{masked_url(initiator.url[:300])}:{int(initiator.line_number) + 1}"
    return initiator.type if initiator.type != "other" else ""


def _script_of(initiator: _Initiator) -> str:
    """Return the address of the script that asked for it; that of a page for a script inside."""
    return next((frame.url for frame in _stack_frames(initiator.stack) if frame.url), initiator.url)


def _stack_frames(stack: _Stack | None) -> Iterator[_Frame]:
    while stack:
        yield from stack.call_frames
        stack = stack.parent
