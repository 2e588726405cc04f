"""Publishes to hosts the sessions of this bridge, each with the resources that it is subscribed to.

Rules: docs/PROTOCOL.md, "bridge/sessions".
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import msgspec
import trio

from bridge.hub.change_signal import ChangeSignal
from bridge.hub.primitives.resource_subscriptions import ResourceSubscriptions
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, single_line

MAX_PUBLISHED = 256
"""Subscriptions of a bridge that are published: each change goes to all clients of a browser."""
APART_S = 1.0
"""Seconds between two messages about changed subscriptions."""


class SessionPublisher:
    """Sends the list whenever the sessions or their subscriptions change."""

    def __init__(
        self,
        subscriptions: ResourceSubscriptions,
        changes: ChangeSignal,
        send: Callable[[list[wire.Session]], None],
    ) -> None:
        self._subscriptions = subscriptions
        self._changes = changes
        self._send = send
        self._sessions: list[wire.Session] = []
        self._version = subscriptions.version

    async def run(self) -> None:
        """Publish changes of subscriptions until cancelled."""
        while True:
            while self._version == self._subscriptions.version:
                await self._changes.wait()
            self.set_sessions(self._sessions)
            await trio.sleep(APART_S)

    def set_sessions(self, sessions: list[wire.Session]) -> None:
        """Publish these sessions now."""
        self._sessions, self._version = sessions, self._subscriptions.version
        left = MAX_PUBLISHED
        published: list[wire.Session] = []
        for session in sessions:
            uris = [
                single_line(uri, MAX_ORIGIN_CHARS)
                for uri in islice(self._subscriptions.uris_of(session.id), left)
            ]
            left -= len(uris)
            published.append(msgspec.structs.replace(session, subscriptions=uris))
        self._send(published)
