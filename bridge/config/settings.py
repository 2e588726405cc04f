"""What the person has set of `mcpb serve`: the table [http] of config.toml.

The table [browser] of config.toml: what the browser's own tools may do.

The table [existing_channel] of config.toml: another product's channel, and what it is used for.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Annotated, Literal

import msgspec

from bridge import origins
from bridge.hub.consent.page_tool_settings import PageSettings
from bridge.hub.policy import PolicyRules
from bridge.hub.public_names import MAX_NAME
from bridge.hub.router import CALL_S
from http_serving.host_header import is_host

PORT = 3456
CALLS_PER_MINUTE = 100
IDLE_MINUTES = 30

ANY_PORT = ":*"
"""At the end of one of `cors_origins`."""

_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What a client can send as a bearer token (RFC 6750, section 2.1)."""


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """docs/CONFIGURATION.md explains each.

    Raises:
        ValueError: one cannot be; the text has its key, what is wrong and how to write it, never the token.
    """

    enabled: bool = True
    host: str = "127.0.0.1"
    """`127.0.0.1` and `localhost` mean both loopback addresses."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = PORT
    """0 takes a free one."""
    socket: str = ""
    """Path of a Unix socket to listen on as well."""
    auth: Literal["token", "same-user"] = "token"
    """Who may send requests over TCP: clients with an access token, or every process of this user as well."""
    auth_token: str = ""
    """Access token of the client `default`; empty: the one in `state/http-token`."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may speak to us; `http://localhost:*` is any port there."""
    allowed_hosts: tuple[str, ...] = ()
    """Values of the Host header that are right besides our own addresses, without the port."""
    calls_per_minute: Annotated[int, msgspec.Meta(ge=0)] = CALLS_PER_MINUTE
    """For each client; 0 is no limit."""
    idle_minutes: Annotated[float, msgspec.Meta(gt=0, le=1440)] = IDLE_MINUTES
    """A session that nobody uses for so long ends."""
    close_tabs: bool = False
    """Whether the tabs that a session opened are closed at its end."""

    def __post_init__(self) -> None:
        _check_host("host", self.host)
        for host in self.allowed_hosts:
            _check_host("allowed_hosts", host)
        for origin in self.cors_origins:
            if hint := _hint(origin):
                raise ValueError(f'cors_origins: "{origin}" {hint}')
        if self.auth_token and not _BEARER.fullmatch(self.auth_token):
            raise ValueError("auth_token: only letters, digits and - . _ ~ + / can be sent as a token")


def _check_host(key: str, host: str) -> None:
    if is_host(host):
        return
    raise ValueError(
        f'{key}: "{host}" is neither an address nor a name. Write it without scheme, port and brackets, '
        'as "127.0.0.1", "::1" or "my-machine.local"'
    )


def _hint(pattern: str) -> str:
    """What is wrong with one of `cors_origins`; empty when nothing is."""
    if pattern == "*":
        return "would let every page of the web drive your browser: name the origins"
    if pattern == "null":
        return "is what any page can call itself: name an origin"
    origin = pattern.removesuffix(ANY_PORT)
    if "*" in origin:
        return 'is no origin: an asterisk stands for the port alone, as in "http://localhost:*"'
    try:
        found = origins.parse_origin(origin)
    except origins.OriginError as error:
        return f"is no origin: {error}; write it as http://localhost:3000"
    if found.port and origin != pattern:
        return "has two ports: write one, or the asterisk in its place"
    spelled = pattern.replace(origin, str(found), 1)
    return "" if spelled == pattern else f"is written otherwise by browsers: {spelled}"


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


Count = Annotated[int, msgspec.Meta(ge=0)]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All of config.toml; what is not set has its default."""

    call_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = CALL_S
    max_name: Annotated[int, msgspec.Meta(ge=24, le=128)] = MAX_NAME
    """Characters of a public name."""
    max_listed_tools: Count = 128
    """How many page tools a client is shown one by one; 0 is no limit."""
    calls_per_minute: Count = 0
    """For each client over stdio; 0 is no limit."""
    cached_days: Count = 30
    """How long a tool is kept that its page does not offer any more; 0 is no limit."""
    audit_arguments: bool = False
    """Whether the audit log has the arguments of calls."""
    policy: PolicyRules = PolicyRules()
    http: HttpSettings = HttpSettings()
    browser: BrowserSettings = BrowserSettings()
    pages: PageSettings = PageSettings()
    existing_channel: ChannelSettings = ChannelSettings()
