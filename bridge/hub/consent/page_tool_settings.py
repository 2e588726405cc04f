"""Table [pages] of config.toml: the use of what pages offer, per site."""

from __future__ import annotations

from typing import Literal

import msgspec

from bridge.hub.policy import check_pattern
from native_host.protocol.wire import Use

STRICTNESS: tuple[Use, ...] = ("on", "ask", "off")


class PageSite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[pages.sites]]`.

    Raises:
        ValueError: the origin is no pattern.
    """

    origin: str
    """An origin pattern, as in `[policy]`."""
    tools: Use

    def __post_init__(self) -> None:
        check_pattern(self.origin)


Primitive = Literal["resources", "prompts"]
"""What pages offer besides tools."""


class PageSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """docs/CONFIGURATION.md explains each."""

    tools: Use = "on"
    """For sites that neither `sites` nor the extension's popup names."""
    resources: Literal["on", "off"] = "on"
    """Whether resources of pages are listed and read."""
    prompts: Literal["on", "off"] = "on"
    """Whether prompts of pages are listed and got."""
    sites: tuple[PageSite, ...] = ()
