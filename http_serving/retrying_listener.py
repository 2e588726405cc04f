"""Listener that retries accept(2) while no file descriptor is free.

Trio would log each attempt, ten a second. Here the beginning and the end of a shortage are one line each.
"""

from __future__ import annotations

import errno
import logging

import trio

RETRY_S = 0.1
"""Seconds between two attempts."""
CALM_S = 10.0
"""Seconds without a failed attempt that end a shortage: a single connection may end and begin within it."""
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

_log = logging.getLogger(__name__)


class Shortage:
    """State of the shortage that all listeners of a server share."""

    def __init__(self) -> None:
        self._failed_at: float | None = None

    def note_failure(self, error: OSError) -> None:
        """Record a failed attempt; log the first one."""
        now = trio.current_time()
        if self._failed_at is None or now - self._failed_at > CALM_S:
            _log.error("Stopped accepting connections", exc_info=error)
        self._failed_at = now

    def note_success(self) -> None:
        """Record a connection; log the first one after the shortage."""
        if self._failed_at is not None and trio.current_time() - self._failed_at > CALM_S:
            self._failed_at = None
            _log.warning("Accepted a connection: the shortage is over.")


class RetryingListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts the connections of another listener, and waits where there is no room for one."""

    def __init__(self, listener: trio.abc.Listener[trio.SocketStream], shortage: Shortage) -> None:
        self._listener = listener
        self._shortage = shortage

    async def accept(self) -> trio.SocketStream:
        """Return the next connection.

        Raises:
            OSError: the socket cannot accept any connection.
        """
        while True:
            try:
                stream = await self._listener.accept()
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                self._shortage.note_failure(error)
                await trio.sleep(RETRY_S)
            else:
                self._shortage.note_success()
                return stream

    async def aclose(self) -> None:
        """Close the socket."""
        await self._listener.aclose()
