"""How the browser's end speaks: as our extension does, or as another that is taken for one. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from native_host.protocol import wire
from native_host.protocol.framing import ByteOrder


class Turned(NamedTuple):
    """What follows from a message: bodies for the router, and for the browser's end."""

    ours: list[bytes]
    theirs: list[bytes]


class BrowserSide(Protocol):
    """What stands between the router, which knows our wire alone, and the browser's end."""

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

    def opened(self) -> Turned:
        """It is connected."""
        ...

    def heard(self, body: bytes) -> Turned:
        """It has said `body`."""
        ...

    def silent(self) -> Turned:
        """It has had time to begin, and may have said nothing."""
        ...

    def said(self, body: bytes) -> Turned:
        """The router says `body` to it."""
        ...

    def ended(self, why: str) -> list[bytes]:
        """It is gone: what the router is to hear still. More may be `said` that had come too late."""
        ...


class OwnExtension:
    """A `BrowserSide` that speaks our wire."""

    byte_order: ByteOrder = "native"
    largest_bytes = wire.CHUNKED_BYTES
    is_owed_an_answer = False

    def opened(self) -> Turned:
        """See `BrowserSide`."""
        return Turned([], [])

    def heard(self, body: bytes) -> Turned:
        """See `BrowserSide`."""
        return Turned([body], [])

    def silent(self) -> Turned:
        """See `BrowserSide`."""
        return Turned([], [])

    def said(self, body: bytes) -> Turned:
        """See `BrowserSide`."""
        return Turned([], [body])

    def ended(self, why: str) -> list[bytes]:  # noqa: ARG002
        """See `BrowserSide`. Clients see the end of their connection, which says it all."""
        return []


class FirstMessage:
    """A `BrowserSide` that its own first message decides: ours, or `other` where that speaks another dialect.

    Before that, and for a moment, nothing is said to it: another dialect begins by itself, and what is no
    message there could be taken for the answer to one. Ours may wait for our hello.
    """

    byte_order: ByteOrder = "native"

    def __init__(self, is_other: Callable[[bytes], bool], other: BrowserSide) -> None:
        self._is_other = is_other
        self._other = other
        self._decided: BrowserSide | None = None
        self._held_back: list[bytes] = []
        self._holds_back = True

    @property
    def largest_bytes(self) -> int:
        """See `BrowserSide`."""
        return (self._decided or self._other).largest_bytes

    @property
    def is_owed_an_answer(self) -> bool:
        """See `BrowserSide`."""
        return (self._decided or self._other).is_owed_an_answer

    def opened(self) -> Turned:
        """See `BrowserSide`."""
        return Turned([], [])

    def heard(self, body: bytes) -> Turned:
        """See `BrowserSide`."""
        if self._decided is not None:
            return self._decided.heard(body)
        self._decided = self._other if self._is_other(body) else OwnExtension()
        steps = [self._decided.opened(), *map(self._decided.said, self._held_back)]
        self._held_back.clear()
        return joined([*steps, self._decided.heard(body)])

    def silent(self) -> Turned:
        """See `BrowserSide`: it may wait for us."""
        self._holds_back = False
        held_back, self._held_back = self._held_back, []
        return Turned([], held_back)

    def said(self, body: bytes) -> Turned:
        """See `BrowserSide`."""
        if self._decided is not None:
            return self._decided.said(body)
        if not self._holds_back:
            return Turned([], [body])
        self._held_back.append(body)
        return Turned([], [])

    def ended(self, why: str) -> list[bytes]:
        """See `BrowserSide`."""
        return self._decided.ended(why) if self._decided else []


def joined(steps: list[Turned]) -> Turned:
    """All that follows from several, in their order."""
    return Turned(
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
