"""The requests of a client that are neither answered nor cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

import trio

Key = int | str
"""A request's id, as `client_messages.correlate_id` makes ids comparable."""


class OpenRequest(Protocol):
    """A request that can be cancelled."""

    @property
    def key(self) -> Key:
        """Its id."""
        ...

    @property
    def is_call(self) -> bool:
        """True for a `tools/call`."""
        ...

    def cancel(self) -> None:
        """Cancel it without a response."""
        ...

    def close(self) -> None:
        """Respond that the session ends."""
        ...


R = TypeVar("R", bound=OpenRequest)


class OpenRequests(Generic[R]):
    """Requests without a response yet. Of those with the same id the latest is found."""

    def __init__(self) -> None:
        self._open: dict[R, None] = {}
        self._last: dict[Key, R] = {}
        self._fewer = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[R]:
        return iter(list(self._open))

    def add(self, request: R) -> None:
        """Add a request."""
        self._open[request] = None
        self._last[request.key] = request

    def find(self, key: Key) -> R | None:
        """Return the request with this id."""
        return self._last.get(key)

    def discard(self, request: R) -> None:
        """Remove a request that has its response or is cancelled."""
        self._open.pop(request, None)
        if self._last.get(request.key) is request:
            del self._last[request.key]
        if self._fewer:
            self._fewer.unpark_all()

    async def wait_at_most(self, limit: int) -> None:
        """Wait until no more than `limit` are open."""
        while len(self._open) > limit:
            await self._fewer.park()
