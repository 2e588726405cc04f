"""Options of a remote server, and what they make of this client. It imports nothing of the mcp package."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from bridge import __version__
from bridge.links.remote_lists import Definition
from bridge.links.remote_problem import RemoteProblem

OWN_NAME = "mcpb"
"""Name in the `serverInfo` and `clientInfo` of every mcpb."""
_ABSOLUTE = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)


class RemoteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Address and options of a server. Either `url` or `command` is given.

    Raises:
        ValueError: neither or both of them are, or `url` has no scheme or host; the text is without the URL.
    """

    name: str = "remote"
    """For logs and errors."""
    url: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    get_headers: Callable[..., Awaitable[dict[str, str]]] | None = None
    """Returns headers that override `headers`, for each request; `is_rejected`: after HTTP status 401."""
    watch: bool = True
    """False: no stream of changes is opened, and resources cannot be subscribed."""
    prefix: str = ""
    """Of the names in `RemoteServer.tools`."""
    timeout_s: float = 60.0
    """Per request; progress restarts it."""
    logger: logging.Logger | None = None
    quiet: bool = False
    log_prefix: str = "[webmcp-adapter]"
    """Begin of all log messages: that of the page module, unless a program has another one."""
    on_sync: Callable[[list[Definition]], None] | None = None
    """Receives the server's tools after each sync, before `filter` and `map_tool`."""
    on_error: Callable[[RemoteProblem], None] | None = None
    """Receives failures of syncs in the background only."""
    filter: Callable[[Definition], bool] | None = None
    map_tool: Callable[[Definition], Definition] | None = None
    """Returns the tool to offer; the server gets its own name all the same."""
    roots: tuple[Any, ...] = ()
    """Objects with `uri` and `name`: with them, `roots/list` is answered without any client."""
    features: tuple[str, ...] = ("sampling", "elicitation")
    """Client features to declare, beside configured roots; `roots`: the observers of requests answer."""
    unauthorized_remedy: str = ""
    """What the user does after HTTP status 401: a sentence that errors end with."""

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.command):
            raise ValueError("a server has exactly one of url and command")
        if self.url and not _ABSOLUTE.match(self.url):
            raise ValueError("url is not absolute: write it as https://orders.example/mcp")


class ClientIdentity(msgspec.Struct, frozen=True):
    """How this client introduces itself."""

    client_info: dict[str, Any]
    capabilities: dict[str, Any]


def make_identity(options: RemoteOptions) -> ClientIdentity:
    """Return what is declared with these options."""
    declared: dict[str, Any] = {}
    if "sampling" in options.features:
        declared["sampling"] = {}
    if "elicitation" in options.features:
        declared["elicitation"] = {"form": {}, "url": {}}
    if options.roots or "roots" in options.features:
        declared["roots"] = {"listChanged": True}
    return ClientIdentity({"name": OWN_NAME, "title": "mcpb", "version": __version__}, declared)
