"""What is worth keeping of what happens: records of calls and of what pages offer, for the audit log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bridge.hub.sessions import Session


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
    """`ok`, `tool-error` (the page said so itself), `cancelled`, or the name of the wire's code in lower case."""
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


Record = Called | Registered
Keep = Callable[[Record], None]
"""Neither waits nor raises."""
