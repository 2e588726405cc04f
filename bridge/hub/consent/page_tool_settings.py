"""Table [pages] of config.toml: the use of what pages offer, per site."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

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
    sampling: Use = "ask"
    """Whether pages may ask the client's model."""
    roots: Use = "off"
    """Whether pages may list the directories that the client works in."""
    max_tokens: Annotated[int, Meta(ge=1)] = 2000
    """Tokens of a model's response to a page."""
    tokens_per_hour: Annotated[int, Meta(ge=0)] = 20_000
    """Tokens that a site's sampling requests may cost in an hour."""
    requests_per_minute: Annotated[int, Meta(ge=1)] = 6
    """Sampling and roots requests of a site in a minute."""
    sites: tuple[PageSite, ...] = ()
