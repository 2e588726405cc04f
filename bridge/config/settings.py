"""Settings of config.toml: the whole file, and its tables [http], [browser] and [existing_channel].

docs/CONFIGURATION.md explains each key.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

import msgspec

from bridge import origins
from bridge.config.remote_settings import RemoteSettings, check_servers
from bridge.config.setting_error import SettingError
from bridge.hub.client_session import ToolSet
from bridge.hub.consent.page_tool_settings import PageSettings
from bridge.hub.policy import PolicyRules
from bridge.hub.primitives.page_contents import MAX_RESOURCE_BYTES
from bridge.hub.public_names import MIN_NAME
from bridge.hub.router import CALL_S
from http_serving.host_header import is_host, is_loopback
from native_host.protocol import wire

PORT = 3456
CALLS_PER_MINUTE = 100
IDLE_MINUTES = 30

ANY_PORT = ":*"
"""At the end of one of `cors_origins`."""

_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""Format of a bearer token that a client can send (RFC 6750, section 2.1)."""


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """docs/CONFIGURATION.md explains each.

    Raises:
        SettingError: a value is not allowed; show the text to the user, it never has the token.
    """

    enabled: bool = True
    host: str = "127.0.0.1"
    """`127.0.0.1` and `localhost` mean both loopback addresses."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = PORT
    """0 takes a free one."""
    socket: str = ""
    certificate: str = ""
    """Path of the certificate chain for TLS, in PEM format; empty: connections are not encrypted."""
    key: str = ""
    """Path of its private key."""
    auth: Literal["token", "same-user"] = "token"
    """Access over TCP: clients with an access token only, or every process of this user as well."""
    auth_token: str = ""
    """Access token of the client `default`; empty: the one in `state/http-token`."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may speak to us; `http://localhost:*` is any port there."""
    allowed_hosts: tuple[str, ...] = ()
    """Values of the Host header that are right besides our own addresses, without the port."""
    calls_per_minute: Annotated[int, msgspec.Meta(ge=0)] = CALLS_PER_MINUTE
    """For each client; 0 is no limit."""
    idle_minutes: Annotated[float, msgspec.Meta(gt=0, le=1440)] = IDLE_MINUTES
    structured: bool = False
    """True if results of mcpb's own tools contain `structuredContent`."""
    close_tabs: bool = False
    """True means `browser.close_tabs = "always"` for HTTP clients; older files have it."""

    def __post_init__(self) -> None:
        _check_host("host", self.host)
        for host in self.allowed_hosts:
            _check_host("allowed_hosts", host)
        for origin in self.cors_origins:
            if hint := _suggest_key(origin):
                raise SettingError("cors_origins", f'"{origin}" {hint}')
        if self.auth_token and not _BEARER.fullmatch(self.auth_token):
            raise SettingError("auth_token", "only letters, digits and - . _ ~ + / can be sent as a token")

    @property
    def scheme(self) -> Literal["http", "https"]:
        """Scheme of its URLs."""
        return "https" if self.certificate or self.key else "http"

    @property
    def is_exposed(self) -> bool:
        """True if other machines can reach it and the connection is not encrypted."""
        return self.scheme == "http" and not is_loopback(self.host)


def _check_host(key: str, host: str) -> None:
    if is_host(host):
        return
    raise SettingError(
        key,
        f'"{host}" is neither an address nor a name. Write it without scheme, port and brackets, '
        'as "127.0.0.1", "::1" or "my-machine.local"',
    )


def _suggest_key(pattern: str) -> str:
    """Return the reason for which one of `cors_origins` is rejected; empty if it is valid."""
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
        SettingError: a value is not allowed; show the text to the user.
    """

    enabled: bool = True
    """True if the browser tools are offered."""
    tools: ToolSet = "all"
    """The browser tools that clients are shown; all of them can be called."""
    tabs: Literal["own", "ask", "any"] = "own"
    """Access to tabs that are neither the session's own nor handed over: none, those the user allows, all."""
    sites: Literal["any", "ask"] = "any"
    """Sites on which a session may act: any, or only those that the user approves."""
    roots: Literal["files", "guide", "strict"] = "files"
    """Use of the client's roots: for files; also to rank sites; also as the only sites for browser tools."""
    ask_in: Literal["extension", "client", "both"] = "extension"
    """Place of approval prompts: a window of the extension, the MCP client, or both."""
    upload_dirs: tuple[str, ...] = ()
    """Files, and directories with all below them, that may be given to pages without a prompt."""
    screenshot_format: Literal["jpeg", "png"] = "jpeg"
    """Image format of the screenshots that `computer` takes."""
    close_tabs: wire.Closing | bool = "unused"
    """Tabs of a session that are closed at its end; older files have true for `always`, false for `never`."""
    resume: Literal["terminal", "any"] = "terminal"
    """Place from which `mcpb pause --resume` works: a terminal only, or any process."""
    find_with_model: bool = False
    """True if `find` may send a page's content to the client's own model."""

    def __post_init__(self) -> None:
        for directory in self.upload_dirs:
            if not PurePath(directory).is_absolute():
                reason = f'"{directory}" is not an absolute path; write it as /home/ann/photos'
                raise SettingError("upload_dirs", reason)

    @property
    def closing(self) -> wire.Closing:
        """The word that `close_tabs` means."""
        if isinstance(self.close_tabs, str):
            return self.close_tabs
        return "always" if self.close_tabs else "never"


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """docs/CONFIGURATION.md explains each.

    Raises:
        SettingError: a value is not allowed; show the text to the user.
    """

    attach: bool = False
    """True if the tools of Claude in Chrome's browsers are used."""
    publish: bool = False
    """True if `mcpb serve` publishes a socket like those of Claude in Chrome's hosts."""
    directory: str = ""
    """Directory of the sockets; empty: the directories that Claude in Chrome uses."""

    def __post_init__(self) -> None:
        if self.directory and not PurePath(self.directory).is_absolute():
            reason = f'"{self.directory}" is not an absolute path; write it as /tmp/sockets'
            raise SettingError("directory", reason)

    @property
    def only_directory(self) -> Path | None:
        """The one to look into; None: all that have the product's form."""
        return Path(self.directory) if self.directory else None


Count = Annotated[int, msgspec.Meta(ge=0)]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All of config.toml; what is not set has its default.

    Raises:
        SettingError: the remote servers cannot be combined.
    """

    call_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = CALL_S
    max_name: Annotated[int, msgspec.Meta(ge=MIN_NAME, le=128)] | Literal["auto"] = "auto"
    """Characters of a public name; `auto`: what the client's prefix leaves."""
    max_listed_tools: Count = 128
    """Limit of page tools that are listed one by one to a client; 0 is no limit."""
    max_resource_bytes: Annotated[int, msgspec.Meta(ge=1)] = MAX_RESOURCE_BYTES
    """Bytes of a resource of a page; a larger one is rejected."""
    calls_per_minute: Count = 0
    """For each client over stdio; 0 is no limit."""
    cached_days: Count = 30
    """Days for which a tool is cached that its page no longer offers; 0 is no limit."""
    audit_arguments: bool = False
    """True if the audit log contains the arguments of calls."""
    policy: PolicyRules = PolicyRules()
    http: HttpSettings = HttpSettings()
    browser: BrowserSettings = BrowserSettings()
    pages: PageSettings = PageSettings()
    existing_channel: ChannelSettings = ChannelSettings()
    remote: tuple[RemoteSettings, ...] = ()
    """Remote MCP servers, in the order of the file."""
    proxy: dict[str, Any] = {}
    """Settings of the WebSocket proxy, which `mcpb proxy` reads and checks."""

    def __post_init__(self) -> None:
        check_servers(self.remote)
