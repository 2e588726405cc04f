"""MCP sessions of HTTP clients: opened, found by id, ended by the client or when idle.

Clients of the handshake era continue a session by its id. MCP 2026-07-28 has no such id: all requests of one
principal (`peer_credentials.Principal`) share a session. It speaks no HTTP: that are the transports.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import trio

from bridge.errors import CallError
from bridge.frontends.http.access_tokens import DEFAULT
from bridge.frontends.http.event_store import MAX_UNSENT_BYTES, EventStream, SessionStream
from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.tool_schema import Era
from bridge.mcp_session.mcp_server import McpServer
from bridge.mcp_session.session import McpSession, NewSession, open_sessions
from http_serving.error_responses import RequestRejected
from http_serving.peer_credentials import Principal
from native_host.protocol import wire

TRANSPORTS = ("streamable", "sse", "stateless")
MAX_SESSIONS = 1024
INITIALIZE_TIMEOUT_S = 60.0
"""Seconds after which an idle session ends whose client has not sent `initialize`."""
MAX_OPEN_REQUESTS = 256
"""Limit of one session's requests without a response."""
MAX_STORED_STREAMS = 32
MAX_STORED_BYTES = 8 * 1024 * 1024
"""Limit of finished and delivered streams: a client that lost the end of one may resume it."""
RELEASE_S = 1.0
"""Seconds that browsers have to confirm that a session has ended."""
STATELESS = "stateless"
"""Transport of sessions that a principal's requests share."""
_STANDALONE = "0"

_log = logging.getLogger(__name__)


class HttpSession:
    """One client's session."""

    def __init__(
        self, key: str, transport: str, principal: Principal, server: McpServer, hub_session: Session
    ) -> None:
        self.key = key
        self.transport = transport
        self.principal = principal
        self.server = server
        self.hub_session = hub_session
        self.is_primed = False
        """The client understands an event without a message, whose id it needs to resume a stream."""
        self.standalone = SessionStream(_STANDALONE, self.end)
        """Messages that belong to no request. The legacy transport replaces it by its only stream."""
        self._streams: dict[str, EventStream] = {}
        self._count = 0
        self._open_responses = 0
        self.used_at = trio.current_time()
        self._ended = trio.Event()
        self._begun = trio.Event()
        self._new_lane: NewSession | None = None
        self._lane: McpSession | None = None
        self._request_lanes: set[McpSession] = set()
        """Lanes of single requests since 2026-07-28."""

    @property
    def lane(self) -> McpSession:
        """McpSession of the handshake era, which all requests share."""
        if self._lane is None:
            self._lane = self._open_lane(self.standalone)
        return self._lane

    def new_lane(self, client: EventStream, era: Era | None = None) -> McpSession:
        """Open a lane for one request, whose id other requests may use as well."""
        lane = self._open_lane(client, era)
        self._request_lanes.add(lane)
        return lane

    def end_lane(self, lane: McpSession) -> None:
        """Cancel the open requests of one request's lane."""
        self._request_lanes.discard(lane)
        lane.abandon()

    def _open_lane(self, client: EventStream, era: Era | None = None) -> McpSession:
        assert self._new_lane, "a session is found only while it runs"
        return self._new_lane(client, era)

    def check_request_limit(self) -> None:
        """Check the limit before a further request.

        Raises:
            RequestRejected: too many requests have no response (429).
        """
        if len(self.lane.requests) >= MAX_OPEN_REQUESTS:
            text = f"{MAX_OPEN_REQUESTS} requests of this session are open: wait for a response"
            raise RequestRejected(HTTPStatus.TOO_MANY_REQUESTS, text, headers={"Retry-After": "1"})

    def start(self, new_session: NewSession) -> None:
        """Make the session ready for requests."""
        self._new_lane = new_session
        self._begun.set()

    async def wait_begun(self) -> None:
        """Wait until `new_session` may be called."""
        await self._begun.wait()

    def create_stream(self) -> EventStream:
        """Create the stream of one request. Call `store_stream` if it is sent as events."""
        self._count += 1
        return EventStream(str(self._count), self.end)

    def store_stream(self, stream: EventStream) -> None:
        """Store a stream for its client to resume, and drop the oldest ones over the limits."""
        self._streams[stream.name] = stream
        self._drop_oldest(lambda each: each.is_delivered, MAX_STORED_STREAMS, MAX_STORED_BYTES)
        self._drop_oldest(lambda each: each.is_finished, MAX_OPEN_REQUESTS, MAX_UNSENT_BYTES)

    def _drop_oldest(self, is_candidate: Callable[[EventStream], bool], count: int, size_bytes: int) -> None:
        streams = [each for each in self._streams.values() if is_candidate(each)]
        stored_bytes = sum(each.stored_bytes for each in streams)
        while len(streams) > count or stored_bytes > size_bytes:
            oldest = streams.pop(0)
            stored_bytes -= oldest.stored_bytes
            del self._streams[oldest.name]

    def find_stream(self, name: str) -> EventStream | None:
        """Return the stream whose event ids have this name."""
        return self.standalone if name == _STANDALONE else self._streams.get(name)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Count an open response for the duration of the block."""
        self._open_responses += 1
        try:
            yield
        finally:
            self._open_responses -= 1
            self.used_at = trio.current_time()

    @property
    def open_responses(self) -> int:
        """Number of responses that are not complete, event streams included."""
        return self._open_responses

    @property
    def is_idle(self) -> bool:
        """True without open responses and requests. A client may still come back for an open request."""
        return not (self._open_responses or (self._lane and self._lane.requests))

    @property
    def has_ended(self) -> bool:
        """True once the session cannot be found any more."""
        return self._ended.is_set()

    def end(self) -> None:
        """End the session: its open requests get an error."""
        self._ended.set()

    async def wait_ended(self) -> None:
        """Wait until `end` is called."""
        await self._ended.wait()

    async def close(self) -> None:
        """Respond to open requests and finish all streams."""
        for lane in [*([self._lane] if self._lane else []), *self._request_lanes]:
            await lane.close()
        for stream in [self.standalone, *self._streams.values()]:
            stream.finish()

    def abandon(self) -> None:
        """End the session without responses and cancel its calls, because the client is gone."""
        if self._lane:
            self._lane.abandon()
        self.end()


class HttpSessions:
    """All sessions of one server. `run` is the task in which they live."""

    def __init__(
        self,
        router: Router,
        notify_hosts: Callable[[list[wire.Session]], None],
        *,
        idle_s: float,
        is_structured: bool = False,
    ) -> None:
        """Open sessions; those of clients that do not say otherwise are structured if `is_structured` is."""
        self._is_structured = is_structured
        self._router = router
        self._notify_hosts = notify_hosts
        self._idle_s = idle_s
        self._open: dict[str, HttpSession] = {}
        self._nursery: trio.Nursery | None = None

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._open.values()))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. Call `end_all` before, so that open requests get a response."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await self._end_idle_sessions()

    async def open(
        self, transport: str, principal: Principal, *, is_structured: bool | None = None
    ) -> HttpSession:
        """Open a session under a secret id of 128 random bits; `is_structured` None: as configured.

        Raises:
            RequestRejected: too many sessions are in use (429).
        """
        key = f"session_{secrets.token_hex(16)}"
        return await self._open_session(key, transport, principal, is_structured)

    async def open_shared(self, principal: Principal, *, is_structured: bool | None = None) -> HttpSession:
        """Return the session that all requests of a principal share; open it if it does not exist.

        Requests that say whether results are structured share another one than those that do not.

        Raises:
            RequestRejected: too many sessions are in use (429).
        """
        key = f"stateless {principal.key}{'' if is_structured is None else f' {is_structured}'}"
        if (found := self._open.get(key)) and not found.has_ended:
            await found.wait_begun()
            return found
        return await self._open_session(key, STATELESS, principal, is_structured)

    def find(self, transport: str, key: str, principal: Principal) -> HttpSession:
        """Return the session with this id that was opened over this transport.

        Raises:
            RequestRejected: this principal has no such session (404).
        """
        found = self._open.get(key)
        is_owner = found is not None and found.principal.session_owner == principal.session_owner
        if found is None or found.has_ended or found.transport != transport or not is_owner:
            text = "no such session: it ended, or mcpb serve was restarted. Send initialize to open one"
            raise RequestRejected(HTTPStatus.NOT_FOUND, text)
        return found

    def end_revoked(self, is_valid: Callable[[str], bool]) -> None:
        """End the sessions whose token is not valid any more. `is_valid` takes a token's digest."""
        for session in self:
            token = session.principal.token
            if token and not is_valid(token):
                session.end()

    def end_all(self) -> None:
        """End all sessions."""
        for session in self:
            session.end()

    async def _open_session(
        self, key: str, transport: str, principal: Principal, is_structured: bool | None
    ) -> HttpSession:
        assert self._nursery, "sessions are opened while `run` runs"
        self._check_session_limit()
        hub_session = Session(
            secrets.token_hex(8),
            is_local=principal.is_local,
            principal=principal.name,
            is_structured=self._is_structured if is_structured is None else is_structured,
        )
        server = McpServer(self._router, hub_session, self._notify, where=_format_location(principal))
        session = HttpSession(key, transport, principal, server, hub_session)
        self._open[key] = session
        await self._nursery.start(self._run_session, session)
        return session

    def _check_session_limit(self) -> None:
        # Some clients open a session for each call and end none, so the oldest idle one ends.
        active = [each for each in self if not each.has_ended]
        if len(active) < MAX_SESSIONS:
            return
        idle = [each for each in active if each.is_idle]
        if not idle:
            text = f"{MAX_SESSIONS} sessions are in use: end one, then try again"
            raise RequestRejected(HTTPStatus.TOO_MANY_REQUESTS, text, headers={"Retry-After": "10"})
        min(idle, key=lambda each: each.used_at).end()

    async def _run_session(
        self, session: HttpSession, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        try:
            async with open_sessions(session.server) as new_lane, trio.open_nursery() as nursery:
                await nursery.start(
                    self._router.notify_changes, session.server.tell_list_changed, session.server.session
                )
                session.start(new_lane)
                task_status.started()
                await session.wait_ended()
                await session.close()
                nursery.cancel_scope.cancel()
        finally:
            if self._open.get(session.key) is session:  # else a new one has the same key
                del self._open[session.key]
            self._notify()
            with trio.move_on_after(RELEASE_S, shield=True):
                await self._release(session.hub_session)

    async def _release(self, hub_session: Session) -> None:
        try:
            await self._router.release(hub_session)
        except CallError as error:
            _log.info("Did not release a session in a browser: %s", error)

    def _notify(self) -> None:
        """Send hosts the sessions whose clients have sent their name."""
        self._notify_hosts([each.hub_session.on_wire() for each in self if each.hub_session.client.name])

    async def _end_idle_sessions(self) -> None:
        while True:
            await trio.sleep(min(self._idle_s, INITIALIZE_TIMEOUT_S) / 4)
            now = trio.current_time()
            for session in self:
                if self._is_unused(session, now):
                    session.end()

    def _is_unused(self, session: HttpSession, now: float) -> bool:
        is_initialized = bool(session.hub_session.client.name) or session.transport == STATELESS
        if is_initialized and not session.is_idle:
            return False
        return now - session.used_at >= (self._idle_s if is_initialized else INITIALIZE_TIMEOUT_S)


def _format_location(principal: Principal) -> str:
    """Return the suffix of a session's title: transport and token name, which no client chooses."""
    is_named = principal.client and principal.client != DEFAULT
    return f"(HTTP, token {principal.client})" if is_named else "(HTTP)"
