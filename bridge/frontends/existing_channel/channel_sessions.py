"""Sessions behind one connection: a client may speak for several agents, each with its own tabs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator

from msgspec import UNSET

from bridge.hub.client_session import Session
from bridge.mcp_session.mcp_server import MAX_SAID
from native_host.existing_channel.channel_messages import ExecuteTool
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line

MAX_SESSIONS = 64
"""Sessions of one connection; beyond it the least recently used one ends."""


class ChannelSessions:
    """By the scope that a call names; calls without one share a session as well."""

    def __init__(
        self, program: str, on_change: Callable[[], None], on_end: Callable[[Session], None]
    ) -> None:
        """Make the sessions of a connection.

        Args:
            program: connected program, for the user.
            on_change: is called when a session begins or ends.
            on_end: is called with each session that ends before its connection.
        """
        self._program = program
        self._on_change = on_change
        self._on_end = on_end
        self._sessions: dict[str, Session] = {}
        """Sessions by scope, the least recently used first."""

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def session_of(self, call: ExecuteTool, busy: Iterable[Session]) -> Session | None:
        """Return the session of a call; None: there are too many, and all of them are `busy`."""
        scope = "" if call.session_scope is UNSET else call.session_scope.session_id
        if (found := self._sessions.pop(scope, None)) is None:
            if len(self._sessions) >= MAX_SESSIONS and not self._end_one(busy):
                return None
            found = self._open_session(call)
            self._sessions[scope] = found
            self._on_change()
        self._sessions[scope] = found
        return found

    def find_session(self, scopes: Iterable[str]) -> Session | None:
        """Return the session of the first known scope, else the one without a scope."""
        return next((self._sessions[scope] for scope in [*scopes, ""] if scope in self._sessions), None)

    def _open_session(self, call: ExecuteTool) -> Session:
        client = single_line(call.client_id, MAX_SAID)
        shown = "" if call.session_scope is UNSET else single_line(call.session_scope.display_name, MAX_SAID)
        title = " ".join(filter(None, [shown or client, f"({self._program})"]))
        named = wire.ClientInfo(name=client or self._program)
        return Session(secrets.token_hex(8), title=title, client=named, is_local=True, is_structured=True)

    def _end_one(self, busy: Iterable[Session]) -> bool:
        working = {session.id for session in busy}
        for scope, session in self._sessions.items():
            if session.id not in working:
                del self._sessions[scope]
                self._on_end(session)
                return True
        return False
