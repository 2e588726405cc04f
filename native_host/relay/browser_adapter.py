"""Browser adapter: interface of the browser side, and detection of its dialect. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from native_host.protocol import wire
from native_host.protocol.framing import ByteOrder


class AdapterOutput(NamedTuple):
    """Bodies that follow from a message: some for the router, some for the browser."""

    ours: list[bytes]
    theirs: list[bytes]


class BrowserAdapter(Protocol):
    """Translates between the native wire, which the router speaks, and the browser's dialect."""

    @property
    def byte_order(self) -> ByteOrder:
        """Byte order of frames in both directions."""
        ...

    @property
    def largest_bytes(self) -> int:
        """Largest body that the router may send."""
        ...

    @property
    def is_owed_an_answer(self) -> bool:
        """Return whether a response is due that a later process could take for its own."""
        ...

    def on_opened(self) -> AdapterOutput:
        """Handle the connection of the browser."""
        ...

    def on_message(self, body: bytes) -> AdapterOutput:
        """Handle a message of the browser."""
        ...

    def on_silence(self) -> AdapterOutput:
        """Handle the end of the time in which the browser may send its first message."""
        ...

    def translate(self, body: bytes) -> AdapterOutput:
        """Translate a message of the router to the browser."""
        ...

    def on_closed(self, why: str) -> list[bytes]:
        """Handle the end of the connection; return the last messages for the router, which may send more."""
        ...


class PassThroughAdapter:
    """Adapter of our extension, which speaks the native wire."""

    byte_order: ByteOrder = "native"
    largest_bytes = wire.CHUNKED_BYTES
    is_owed_an_answer = False

    def on_opened(self) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return AdapterOutput([], [])

    def on_message(self, body: bytes) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return AdapterOutput([body], [])

    def on_silence(self) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return AdapterOutput([], [])

    def translate(self, body: bytes) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return AdapterOutput([], [body])

    def on_closed(self, why: str) -> list[bytes]:  # noqa: ARG002
        """See `BrowserAdapter`. Clients see the end of their connection."""
        return []


class DialectDetector:
    """Adapter that selects the native wire or `other` by the first message of the browser.

    For a short time it sends nothing: the other dialect begins by itself, and could take a foreign message
    for a response. Our extension may wait for our hello.
    """

    byte_order: ByteOrder = "native"

    def __init__(self, is_other: Callable[[bytes], bool], other: BrowserAdapter) -> None:
        self._is_other = is_other
        self._other = other
        self._decided: BrowserAdapter | None = None
        self._held_back: list[bytes] = []
        self._holds_back = True

    @property
    def largest_bytes(self) -> int:
        """See `BrowserAdapter`."""
        return (self._decided or self._other).largest_bytes

    @property
    def is_owed_an_answer(self) -> bool:
        """See `BrowserAdapter`."""
        return (self._decided or self._other).is_owed_an_answer

    def on_opened(self) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return AdapterOutput([], [])

    def on_message(self, body: bytes) -> AdapterOutput:
        """See `BrowserAdapter`."""
        if self._decided is not None:
            return self._decided.on_message(body)
        self._decided = self._other if self._is_other(body) else PassThroughAdapter()
        steps = [self._decided.on_opened(), *map(self._decided.translate, self._held_back)]
        self._held_back.clear()
        return join_outputs([*steps, self._decided.on_message(body)])

    def on_silence(self) -> AdapterOutput:
        """See `BrowserAdapter`. The browser may wait for the hello of this host."""
        self._holds_back = False
        held_back, self._held_back = self._held_back, []
        return AdapterOutput([], held_back)

    def translate(self, body: bytes) -> AdapterOutput:
        """See `BrowserAdapter`."""
        if self._decided is not None:
            return self._decided.translate(body)
        if not self._holds_back:
            return AdapterOutput([], [body])
        self._held_back.append(body)
        return AdapterOutput([], [])

    def on_closed(self, why: str) -> list[bytes]:
        """See `BrowserAdapter`."""
        return self._decided.on_closed(why) if self._decided else []


def join_outputs(steps: list[AdapterOutput]) -> AdapterOutput:
    """Join outputs in their order."""
    return AdapterOutput(
        [body for step in steps for body in step.ours], [body for step in steps for body in step.theirs]
    )


class _First(msgspec.Struct):
    type: str = ""
    jsonrpc: str = ""


def has_type(body: bytes) -> bool:
    """Return whether a message has a `type`, as those of Claude in Chrome; the native wire is JSON-RPC."""
    try:
        first = msgspec.json.decode(body, type=_First)
    except (msgspec.DecodeError, RecursionError):
        return False
    return bool(first.type) and not first.jsonrpc
