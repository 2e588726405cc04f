"""What is worth keeping of what happens: records of calls and of what pages offer, for the audit log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridge.errors import CallError, UnknownToolError
from bridge.hub.sessions import Session
from native_host.wire import Code


@dataclass(frozen=True, slots=True)
class Site:
    """Where in which browser something happened."""

    profile: str = ""
    """The profile's id."""
    browser: str = ""
    """What the person calls the profile, else the browser's brand."""
    origin: str = ""
    tab_id: int | None = None
    ordinal: int = 0
    """The tab's number within its domain, as public names have it."""


@dataclass(frozen=True, slots=True)
class Called:
    """A call that is over, whatever came of it."""

    session: Session
    name: str
    """As the client called it."""
    outcome: str
    """`ok`, `tool-error` (the page said so), `cancelled`, `unknown_tool`, or the wire's code by name."""
    duration_s: float
    site: Site = field(default_factory=Site)
    """Empty where the call never got as far as a site."""
    own_name: str = ""
    """The page's name for the tool."""
    detail: str = ""
    """Which limit, rule or field, where one refused the call."""
    handed: bool = True
    """Whether the page may have got the call."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """For those who asked for them: they may be anything, passwords included."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A frame announced its list of tools."""

    site: Site
    tools: tuple[str, ...]
    """The page's own names."""


@dataclass
class Recording:
    """A call on its way, and what is known of it so far."""

    session: Session
    name: str
    arguments: dict[str, Any]
    began: float
    site: Site = field(default_factory=Site)
    own_name: str = ""

    def ended(self, outcome: bytes | BaseException, now: float) -> Called:
        """It is over, with an answer or without."""
        detail, handed = "", True
        match outcome:
            case bytes():
                word = "tool-error" if _is_error(outcome) else "ok"
            case CallError():
                word, detail, handed = _outcome(outcome.code), outcome.detail, outcome.handed
            case UnknownToolError():
                word, handed = "unknown_tool", False
            case Exception():
                word = "internal_error"
            case _:  # what trio cancels with, and signals
                word = "cancelled"
        told = detail, handed, self.arguments
        duration_s = now - self.began
        return Called(self.session, self.name, word, duration_s, self.site, self.own_name, *told)


def _outcome(code: int) -> str:
    try:
        return Code(code).name.lower()
    except ValueError:
        return f"error {code}"


class _Flagged(msgspec.Struct, rename="camel"):
    is_error: bool = False


_flagged = msgspec.json.Decoder(_Flagged)


def _is_error(answer: bytes) -> bool:
    if b'"isError"' not in answer:
        return False
    try:
        return _flagged.decode(answer).is_error
    except (msgspec.DecodeError, RecursionError):
        return False


Record = Called | Registered
Keep = Callable[[Record], None]
"""Neither waits nor raises."""
