"""The MCP sessions of HTTP clients: opened, found, and ended: by their client, or when nobody uses them.

One whose client goes on with it by its id is a session of the handshake era, over either transport.
Since 2026-07-28 there is no such id: all requests of one principal (`connection.Principal`) share one.
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
from bridge.mcp_session.session import Lane, NewLane, open_lanes
from http_serving.error_responses import RequestRejected
from http_serving.peer_credentials import Principal
from native_host.protocol import wire

TRANSPORTS = ("streamable", "sse", "stateless")
MAX_SESSIONS = 1024
INITIALIZE_TIMEOUT_S = 60.0
"""A session whose client has not said who it is by then ends, unless it is waiting for an answer."""
MAX_OPEN_REQUESTS = 256
"""Requests of one session without an answer."""
MAX_STORED_STREAMS = 32
MAX_STORED_BYTES = 8 * 1024 * 1024
"""Of streams that are over and passed on: a client may have lost the last of them, and come back for it."""
RELEASE_S = 1.0
"""At the end, for browsers to hear that a session is over."""
STATELESS = "stateless"
"""The transport of those that are shared."""
_STANDALONE = "0"

_log = logging.getLogger(__name__)


class HttpSession:
    """One client's session."""

    def __init__(
        self, key: str, transport: str, principal: Principal, server: McpServer, hub_session: Session
    ) -> None:
        self.key = key
        self.transport = transport
        """One of TRANSPORTS."""
        self.principal = principal
        self.server = server
        self.hub_session = hub_session
        self.is_primed = False
        """Its client can read an event without a message, which tells it where to come back."""
        self.standalone = SessionStream(_STANDALONE, self.end)
        """What concerns no request of the client; the oldest transport puts its own here, for everything."""
        self._streams: dict[str, EventStream] = {}
        """Of requests, by name, the oldest first."""
        self._count = 0
        self._users = 0
        self.used_at = trio.current_time()
        self._ended = trio.Event()
        self._begun = trio.Event()
        self._new_lane: NewLane | None = None
        self._lane: Lane | None = None
        self._request_lanes: set[Lane] = set()
        """Of single requests since 2026-07-28."""

    @property
    def lane(self) -> Lane:
        """The one that all of its requests share."""
        if self._lane is None:
            self._lane = self._open_lane(self.standalone)
        return self._lane

    def new_lane(self, client: EventStream, era: Era | None = None) -> Lane:
        """One of its own for a request whose id may be another request's as well."""
        lane = self._open_lane(client, era)
        self._request_lanes.add(lane)
        return lane

    def end_lane(self, lane: Lane) -> None:
        """Cancel what is open on the lane of one request."""
        self._request_lanes.discard(lane)
        lane.abandon()

    def _open_lane(self, client: EventStream, era: Era | None = None) -> Lane:
        assert self._new_lane, "a session is found only while it runs"
        return self._new_lane(client, era)

    def check_request_limit(self) -> None:
        """Another request comes.

        Raises:
            RequestRejected: too many have no answer yet.
        """
        if len(self.lane.requests) >= MAX_OPEN_REQUESTS:
            text = f"{MAX_OPEN_REQUESTS} requests of this session are open: wait for an answer"
            raise RequestRejected(HTTPStatus.TOO_MANY_REQUESTS, text, headers={"Retry-After": "1"})

    def start(self, new_lane: NewLane) -> None:
        """It has begun."""
        self._new_lane = new_lane
        self._begun.set()

    async def wait_begun(self) -> None:
        """Until `new_lane` may be called."""
        await self._begun.wait()

    def create_stream(self, raw_id: bytes) -> EventStream:
        """For one request, to be kept when it goes out as events."""
        self._count += 1
        return EventStream(str(self._count), self.end, raw_id)

    def store_stream(self, stream: EventStream) -> None:
        """Its client may come back for it; for which those are given up that were over first."""
        self._streams[stream.name] = stream
        self._forget(lambda each: each.is_delivered, MAX_STORED_STREAMS, MAX_STORED_BYTES)
        self._forget(lambda each: each.is_finished, MAX_OPEN_REQUESTS, MAX_UNSENT_BYTES)

    def _forget(self, may_go: Callable[[EventStream], bool], count: int, size: int) -> None:
        """Those that may go, the oldest first, until no more are left than this."""
        streams = [each for each in self._streams.values() if may_go(each)]
        kept = sum(each.stored_bytes for each in streams)
        while len(streams) > count or kept > size:
            oldest = streams.pop(0)
            kept -= oldest.stored_bytes
            del self._streams[oldest.name]

    def find_stream(self, name: str) -> EventStream | None:
        """That has events of this name."""
        return self.standalone if name == _STANDALONE else self._streams.get(name)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While a response is open, a session is not idle."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self.used_at = trio.current_time()

    @property
    def open_responses(self) -> int:
        """That are not over: streams of events, and answers that are waited for."""
        return self._users

    @property
    def is_idle(self) -> bool:
        """No response is open, and no request: whoever lost its response may come back for the answer."""
        return not (self._users or (self._lane and self._lane.requests))

    @property
    def has_ended(self) -> bool:
        """Nobody finds it any more."""
        return self._ended.is_set()

    def end(self) -> None:
        """Answer what is open, and be gone."""
        self._ended.set()

    async def wait_ended(self) -> None:
        """Until somebody ends it."""
        await self._ended.wait()

    async def close(self) -> None:
        """Its last words."""
        for lane in [*([self._lane] if self._lane else []), *self._request_lanes]:
            await lane.close(patience_s=0)
        for stream in [self.standalone, *self._streams.values()]:
            stream.finish()

    def abandon(self) -> None:
        """End it without words: whoever could hear them is gone, and their calls are cancelled."""
        if self._lane:
            self._lane.abandon()
        self.end()


class HttpSessions:
    """All of them. `run` is the task that they live in."""

    def __init__(
        self,
        router: Router,
        tell_hosts: Callable[[list[wire.Session]], None],
        *,
        idle_s: float,
        closes_tabs: bool,
    ) -> None:
        self._router = router
        self._tell_hosts = tell_hosts
        self._idle_s = idle_s
        self._closes_tabs = closes_tabs
        self._open: dict[str, HttpSession] = {}
        """By key."""
        self._nursery: trio.Nursery | None = None

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._open.values()))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled; call `end_all` before, so that all have their last words."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await self._end_the_idle()

    async def open(self, transport: str, principal: Principal) -> HttpSession:
        """A new one, under an id that nobody can guess (128 random bits).

        Raises:
            RequestRejected: there are too many.
        """
        return await self._begin(f"session_{secrets.token_hex(16)}", transport, principal)

    async def open_shared(self, principal: Principal) -> HttpSession:
        """The one of all requests of this principal, whatever they say of their client.

        Raises:
            RequestRejected: there are too many.
        """
        key = f"stateless {principal.key}"
        if (found := self._open.get(key)) and not found.has_ended:
            await found.wait_begun()
            return found
        return await self._begin(key, STATELESS, principal)

    def find(self, transport: str, key: str, principal: Principal) -> HttpSession:
        """The one that has this id, and was opened over this transport.

        Raises:
            RequestRejected: there is none that its owner may go on with.
        """
        found = self._open.get(key)
        is_mine = found is not None and found.principal.session_owner == principal.session_owner
        if found is None or found.has_ended or found.transport != transport or not is_mine:
            text = "there is no such session here: it ended, or mcpb was restarted. Initialize a new one"
            raise RequestRejected(HTTPStatus.NOT_FOUND, text)
        return found

    def end_revoked(self, is_valid: Callable[[str], bool]) -> None:
        """End the sessions whose token is not valid any more. `is_valid` takes a token's digest."""
        for session in self:
            token = session.principal.token
            if token and not is_valid(token):
                session.end()

    def end_all(self) -> None:
        """Everybody gets their last words."""
        for session in self:
            session.end()

    async def _begin(self, key: str, transport: str, principal: Principal) -> HttpSession:
        assert self._nursery, "begun after `run`"
        self._make_room()
        hub_session = Session(secrets.token_hex(8), is_local=principal.is_local, principal=principal.name)
        server = McpServer(self._router, hub_session, self._tell, where=_where(principal))
        session = HttpSession(key, transport, principal, server, hub_session)
        self._open[key] = session
        await self._nursery.start(self._live, session)
        return session

    def _make_room(self) -> None:
        """Some clients begin a session for each call, and end none."""
        living = [each for each in self if not each.has_ended]
        if len(living) < MAX_SESSIONS:
            return
        idle = [each for each in living if each.is_idle]
        if not idle:
            text = f"{MAX_SESSIONS} sessions are in use: end some, then try again"
            raise RequestRejected(HTTPStatus.TOO_MANY_REQUESTS, text, headers={"Retry-After": "10"})
        min(idle, key=lambda each: each.used_at).end()

    async def _live(
        self, session: HttpSession, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        try:
            async with open_lanes(session.server) as new_lane, trio.open_nursery() as nursery:
                await nursery.start(self._router.tell_changes, session.server.tell_list_changed)
                session.start(new_lane)
                task_status.started()
                await session.wait_ended()
                await session.close()
                nursery.cancel_scope.cancel()
        finally:
            if self._open.get(session.key) is session:  # else a new one shares its name
                del self._open[session.key]
            self._tell()
            with trio.move_on_after(RELEASE_S, shield=True):
                await self._release(session.hub_session)

    async def _release(self, hub_session: Session) -> None:
        try:
            await self._router.release(hub_session, close_tabs=self._closes_tabs)
        except CallError as error:
            _log.info("a browser did not hear that a session is over: %s", error)

    def _tell(self) -> None:
        """Hosts and popups know the sessions of clients that have said who they are."""
        self._tell_hosts([each.hub_session.on_wire() for each in self if each.hub_session.client.name])

    async def _end_the_idle(self) -> None:
        while True:
            await trio.sleep(min(self._idle_s, INITIALIZE_TIMEOUT_S) / 4)
            now = trio.current_time()
            for session in self:
                if self._is_unused(session, now):
                    session.end()

    def _is_unused(self, session: HttpSession, now: float) -> bool:
        has_spoken = bool(session.hub_session.client.name) or session.transport == STATELESS
        if has_spoken and not session.is_idle:
            return False
        return now - session.used_at >= (self._idle_s if has_spoken else INITIALIZE_TIMEOUT_S)


def _where(principal: Principal) -> str:
    """Return what a session's title adds to the client's own name: also the token, which it cannot choose."""
    is_named = principal.client and principal.client != DEFAULT
    return f"(HTTP, token {principal.client})" if is_named else "(HTTP)"
