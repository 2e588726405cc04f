"""Request ids: each connection's ids mapped to ids on the shared channel. Sans-IO.

A client's request goes to the browser as `"<connection>:<suffix>"`. No suffix is used again soon, so that a
late answer reaches no client instead of the wrong one. The caller's own id comes back as the bytes it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from native_host.protocol.wire import CLIENT_IN_FLIGHT

REMEMBERED_SUFFIXES = 4096
"""Latest suffixes of a connection that `OwnIdSuffixes` does not use again."""
MAX_ASKED = 1024
"""Requests of the extension without a response."""


class Asker(NamedTuple):
    """Connection that waits for a response, and its own request id as JSON text."""

    connection: str
    raw_id: bytes


class IdInUseError(ValueError):
    """A connection used an id again before its first request was answered."""


class TooManyRequestsError(Exception):
    """A connection, all connections together, or the extension have too many requests unanswered."""


class IdSuffixes(Protocol):
    """Source of the suffixes of one connection."""

    def mint(self, raw_id: bytes) -> str:
        """Return the suffix for a request with this id."""


class NumberedSuffixes:
    """Suffixes 1, 2, 3 …: none is ever used again."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = 0

    def mint(self, raw_id: bytes) -> str:  # noqa: ARG002 - the interface
        """Return the next number."""
        self._number += 1
        return str(self._number)


class OwnIdSuffixes:
    """The client's own id at its first use, then `<own>~<k>`; `1` and `"1"` have the same suffix."""

    __slots__ = ("_latest", "_next_k")

    def __init__(self) -> None:
        self._latest: deque[int] = deque()
        """Suffixes in the order of their use: a dict takes longer to find its oldest key."""
        self._next_k: dict[int, int] = {}
        """The number to try next by suffix. A suffix may be long: its hash stands for it. Two suffixes with
        one hash would only cost one of them a number."""

    def mint(self, raw_id: bytes) -> str:
        """Return a suffix that differs from the REMEMBERED_SUFFIXES latest ones."""
        own = format_id(raw_id)
        suffix = own if hash(own) not in self._next_k else self._mint_numbered(own)
        self._next_k[hash(suffix)] = 2
        self._latest.append(hash(suffix))
        if len(self._latest) > REMEMBERED_SUFFIXES:
            del self._next_k[self._latest.popleft()]
        return suffix

    def _mint_numbered(self, own: str) -> str:
        k = self._next_k[hash(own)]
        while hash(f"{own}~{k}") in self._next_k:  # a client may choose such an id itself
            k += 1
        self._next_k[hash(own)] = k + 1
        return f"{own}~{k}"


def format_id(raw_id: bytes) -> str:
    """Return the text of an id: of a string its content, of a number its digits as written."""
    return msgspec.json.decode(raw_id, type=str) if raw_id.startswith(b'"') else raw_id.decode()


class RequestIds:
    """Requests in flight, by shared id and by connection."""

    def __init__(
        self,
        make_suffixes: Callable[[], IdSuffixes] = NumberedSuffixes,
        *,
        max_per_connection: int = CLIENT_IN_FLIGHT,
        max_in_all: float = float("inf"),
    ) -> None:
        self._askers: dict[str, Asker] = {}
        self._shared_ids: dict[str, dict[bytes, str]] = {}
        self._suffixes: dict[str, IdSuffixes] = {}
        self._make_suffixes = make_suffixes
        self._max_per_connection = max_per_connection
        self._max_in_all = max_in_all

    def register(self, connection: str, raw_id: bytes) -> str:
        """Mint the shared id for a request.

        Raises:
            IdInUseError: the connection has a request of that id in flight.
            TooManyRequestsError: it, or all connections together, have too many in flight.
        """
        mine = self._shared_ids.get(connection)
        if mine is None:
            mine = self._shared_ids[connection] = {}
            self._suffixes[connection] = self._make_suffixes()
        if raw_id in mine:
            raise IdInUseError(f"id {raw_id.decode(errors='replace')} is in flight already")
        if len(mine) >= self._max_per_connection:
            raise TooManyRequestsError(f"{self._max_per_connection} requests are in flight")
        if len(self._askers) >= self._max_in_all:
            raise TooManyRequestsError(f"{self._max_in_all} requests of all clients are in flight")
        suffixes = self._suffixes[connection]
        shared = f"{connection}:{suffixes.mint(raw_id)}"
        while shared in self._askers:  # in flight for so long that its suffix is forgotten
            shared = f"{connection}:{suffixes.mint(raw_id)}"
        mine[raw_id] = shared
        self._askers[shared] = Asker(connection, raw_id)
        return shared

    def open_requests(self, connection: str) -> dict[bytes, str]:
        """Return the shared ids of a connection's requests in flight, by its own ids."""
        return dict(self._shared_ids.get(connection, {}))

    def __len__(self) -> int:
        """Return the number of requests in flight."""
        return len(self._askers)

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
        self._suffixes.pop(connection, None)
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
        """Register a request of a call to `connection`. Raises TooManyRequestsError."""
        if len(self._asked) >= MAX_ASKED and raw_id not in self._asked:
            raise TooManyRequestsError(f"{MAX_ASKED} requests to clients are open")
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
