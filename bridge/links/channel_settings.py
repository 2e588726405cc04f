"""The table [existing_channel] of config.toml: another product's channel, and what it is used for."""

from __future__ import annotations

from pathlib import Path, PurePath

import msgspec


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """docs/CONFIGURATION.md explains each.

    Raises:
        ValueError: one cannot be; the text has its key and how to write it.
    """

    attach: bool = False
    """Whether its browsers' tools are used."""
    publish: bool = False
    """Whether `mcpb serve` has a socket as its hosts have."""
    directory: str = ""
    """Where its sockets are; empty: wherever that product puts them."""

    def __post_init__(self) -> None:
        if self.directory and not PurePath(self.directory).is_absolute():
            raise ValueError(f'directory: "{self.directory}" is no whole path; write it as /tmp/sockets')

    @property
    def only_directory(self) -> Path | None:
        """The one to look into; None: all that have the product's form."""
        return Path(self.directory) if self.directory else None
