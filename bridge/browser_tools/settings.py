"""The table [browser] of config.toml: what the browser's own tools may do."""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

import msgspec


class BrowserSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """docs/CONFIGURATION.md explains each.

    Raises:
        ValueError: one cannot be; the text has its key and how to write it.
    """

    enabled: bool = True
    """Whether these tools are offered at all."""
    tabs: Literal["own", "ask", "any"] = "own"
    """Which tabs besides a session's own and those handed over: none, those the person allows, all."""
    sites: Literal["any", "ask"] = "any"
    """Whether the person is asked before a session first acts on a site."""
    ask_in: Literal["extension", "client", "both"] = "extension"
    """Where the user is asked to approve: in a window of the extension, in the MCP client, or in both."""
    upload_dirs: tuple[str, ...] = ()
    """Files, and directories with all below them, that may be given to pages without a prompt."""
    screenshot_format: Literal["jpeg", "png"] = "jpeg"
    """What `computer` takes pictures in."""
    resume: Literal["terminal", "any"] = "terminal"
    """Where `mcpb pause --resume` works: at a terminal, or also without one."""
    find_with_model: bool = False
    """Whether `find` may show the client's own model what is in a page."""

    def __post_init__(self) -> None:
        for directory in self.upload_dirs:
            if not PurePath(directory).is_absolute():
                raise ValueError(f'upload_dirs: "{directory}" is no whole path; write it as /home/ann/photos')
