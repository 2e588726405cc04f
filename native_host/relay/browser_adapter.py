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
        """Of frames, both ways."""
        ...

    @property
    def largest_bytes(self) -> int:
        """Of a body that the router may have for it."""
        ...

    @property
    def is_owed_an_answer(self) -> bool:
        """Whether who comes after us could take an answer for another than it is."""
        ...

    def opened(self) -> AdapterOutput:
        """It is connected."""
        ...

    def heard(self, body: bytes) -> AdapterOutput:
        """It has said `body`."""
        ...

    def silent(self) -> AdapterOutput:
        """It has had time to begin, and may have said nothing."""
        ...

    def said(self, body: bytes) -> AdapterOutput:
        """The router says `body` to it."""
        ...

    def ended(self, why: str) -> list[bytes]:
        """It is gone: what the router is to hear still. More may be `said` that had come too late."""
        ...


class PassThroughAdapter:
    """Adapter of our extension, which speaks the native wire."""

    byte_order: ByteOrder = "native"
    largest_bytes = wire.CHUNKED_BYTES
    is_owed_an_answer = False

    def opened(self) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return AdapterOutput([], [])

    def heard(self, body: bytes) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return AdapterOutput([body], [])

    def silent(self) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return AdapterOutput([], [])

    def said(self, body: bytes) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return AdapterOutput([], [body])

    def ended(self, why: str) -> list[bytes]:  # noqa: ARG002
        """See `BrowserAdapter`. Clients see the end of their connection, which says it all."""
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

    def opened(self) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return AdapterOutput([], [])

    def heard(self, body: bytes) -> AdapterOutput:
        """See `BrowserAdapter`."""
        if self._decided is not None:
            return self._decided.heard(body)
        self._decided = self._other if self._is_other(body) else PassThroughAdapter()
        steps = [self._decided.opened(), *map(self._decided.said, self._held_back)]
        self._held_back.clear()
        return joined([*steps, self._decided.heard(body)])

    def silent(self) -> AdapterOutput:
        """See `BrowserAdapter`: it may wait for us."""
        self._holds_back = False
        held_back, self._held_back = self._held_back, []
        return AdapterOutput([], held_back)

    def said(self, body: bytes) -> AdapterOutput:
        """See `BrowserAdapter`."""
        if self._decided is not None:
            return self._decided.said(body)
        if not self._holds_back:
            return AdapterOutput([], [body])
        self._held_back.append(body)
        return AdapterOutput([], [])

    def ended(self, why: str) -> list[bytes]:
        """See `BrowserAdapter`."""
        return self._decided.ended(why) if self._decided else []


def joined(steps: list[AdapterOutput]) -> AdapterOutput:
    """All that follows from several, in their order."""
    return AdapterOutput(
        [body for step in steps for body in step.ours], [body for step in steps for body in step.theirs]
    )


class _First(msgspec.Struct):
    type: str = ""
    jsonrpc: str = ""


def has_type(body: bytes) -> bool:
    """Whether a message has a `type`, as those of another dialect do; ours are JSON-RPC."""
    try:
        first = msgspec.json.decode(body, type=_First)
    except (msgspec.DecodeError, RecursionError):
        return False
    return bool(first.type) and not first.jsonrpc
