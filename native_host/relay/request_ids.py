"""Request ids: each connection's ids mapped to ids on the shared channel. Sans-IO.

A client's request goes to the browser as `"<connection>:<n>"`, n minted here and never used again, so that a
late answer reaches no client instead of the wrong one. The caller's own id comes back as the bytes it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from native_host.protocol.wire import CLIENT_IN_FLIGHT


class Asker(NamedTuple):
    """Connection that waits for a response, and its own request id as JSON text."""

    connection: str
    raw_id: bytes


class IdInUseError(ValueError):
    """A connection used an id again before its first request was answered."""


class TooManyRequestsError(Exception):
    """A connection has CLIENT_IN_FLIGHT requests unanswered."""


class RequestIds:
    """Requests in flight, by shared id and by connection."""

    def __init__(self) -> None:
        self._askers: dict[str, Asker] = {}
        self._shared_ids: dict[str, dict[bytes, str]] = {}
        self._minted: dict[str, int] = {}

    def register(self, connection: str, raw_id: bytes) -> str:
        """Mint the shared id for a request.

        Raises:
            IdInUseError: the connection has a request of that id in flight.
            TooManyRequestsError: it has too many in flight.
        """
        mine = self._shared_ids.setdefault(connection, {})
        if raw_id in mine:
            raise IdInUseError(f"id {raw_id.decode(errors='replace')} is in flight already")
        if len(mine) >= CLIENT_IN_FLIGHT:
            raise TooManyRequestsError(f"{CLIENT_IN_FLIGHT} requests are in flight")
        number = self._minted.get(connection, 0) + 1
        self._minted[connection] = number
        shared = f"{connection}:{number}"
        mine[raw_id] = shared
        self._askers[shared] = Asker(connection, raw_id)
        return shared

    def find(self, shared: str) -> Asker | None:
        """Return the connection that waits for `shared`; None if it waits no longer."""
        return self._askers.get(shared)

    def complete(self, shared: str) -> Asker | None:
        """Return the connection that gets the response to `shared`; None for a late or unknown response."""
        asker = self._askers.pop(shared, None)
        if asker is not None:
            del self._shared_ids[asker.connection][asker.raw_id]
        return asker

    def cancel(self, connection: str, raw_id: bytes) -> str | None:
        """Cancel a request of a connection; return its shared id if it was in flight."""
        shared = self._shared_ids.get(connection, {}).get(raw_id)
        if shared is not None:
            self.complete(shared)
        return shared

    def abandon(self, connection: str) -> list[str]:
        """Remove a connection; return the shared ids for which it waited."""
        self._minted.pop(connection, None)
        gone = self._shared_ids.pop(connection, {})
        for shared in gone.values():
            del self._askers[shared]
        return list(gone.values())


class _OpenRequest(NamedTuple):
    connection: str
    call: str
    """Shared id of the call during which the extension asked."""


class OpenElicitations:
    """Requests of the extension to one client: only the connection that was asked may answer."""

    def __init__(self) -> None:
        self._asked: dict[bytes, _OpenRequest] = {}

    def ask(self, raw_id: bytes, connection: str, call: str) -> None:
        """Register a request of a call to `connection`."""
        self._asked[raw_id] = _OpenRequest(connection, call)

    def answer(self, raw_id: bytes, connection: str) -> bool:
        """Return whether this is the first response of the connection that was asked."""
        asked = self._asked.get(raw_id)
        if asked is None or asked.connection != connection:
            return False
        del self._asked[raw_id]
        return True

    def close(self, call: str) -> None:
        """Drop the requests of a call that has ended."""
        self._drop(lambda asked: asked.call == call)

    def abandon(self, connection: str) -> list[bytes]:
        """Remove a connection; return the ids of requests that it will not answer."""
        return self._drop(lambda asked: asked.connection == connection)

    def _drop(self, is_over: Callable[[_OpenRequest], bool]) -> list[bytes]:
        if not self._asked:  # as after almost every answer
            return []
        gone = [raw_id for raw_id, asked in self._asked.items() if is_over(asked)]
        for raw_id in gone:
            del self._asked[raw_id]
        return gone
