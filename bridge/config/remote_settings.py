"""Table `[[remote]]` of config.toml: a remote MCP server, and what it may receive.

docs/CONFIGURATION.md explains each key. No message quotes a header, a variable or a query of a URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bridge import origins
from bridge.config.setting_error import SettingError
from http_serving.host_header import is_host, is_loopback
from native_host.protocol.untrusted_text import is_single_line, single_line

MAX_SERVERS = 32
_MAX_SHOWN_CHARS = 80

_NAME = re.compile(r"[a-z0-9-]{1,32}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^/?#@:\[\]]+)(:(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!$-;=@-Z_a-z~]*)?(?P<query>\?[!$-;=?@-Z_a-z~]*)?"
)
"""Strict, so that every parser finds the same host in it."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_HEADER_VALUE = re.compile(r"[!-~]([\t -~]*[!-~])?")
_FRAMING = {"connection", "content-length", "host", "transfer-encoding"}
"""Headers that say where a request goes and where it ends."""
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{0,64}")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")

_OF_URLS = ("headers", "bearer_env", "bearer_file", "header_command", "insecure")
_OF_COMMANDS = ("args", "env")
_SECRETS = ("headers", "env")

_NonEmpty = Annotated[str, Meta(min_length=1)]


class RemoteRoot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One of `roots`: a directory or site that the server may learn of.

    Raises:
        SettingError: the URI has no scheme, or the name has a line break.
    """

    uri: str
    name: str = ""

    def __post_init__(self) -> None:
        if not _SCHEME.match(self.uri) or " " in self.uri or not is_single_line(self.uri):
            raise SettingError("uri", "a root is a URI, such as file:///home/ann/orders")
        if not is_single_line(self.name):
            raise SettingError("name", "has a line break or another control character")


class RemoteSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One `[[remote]]`; docs/CONFIGURATION.md explains each key.

    Raises:
        SettingError: a value is not allowed; show the text to the user, it never has a secret.
    """

    name: str
    url: str = ""
    command: str = ""
    """Path or name of a program that speaks MCP on stdin and stdout."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    headers: dict[str, str] = {}
    bearer_env: str = ""
    """Environment variable that has a bearer token."""
    bearer_file: str = ""
    """Absolute path of a file that has a bearer token."""
    header_command: tuple[_NonEmpty, ...] = ()
    insecure: bool = False
    """True if `http:` may lead to another host than this machine."""
    prefix: str = ""
    """Text before the names of its tools in pages."""
    pages: tuple[str, ...] = ()
    """Origins whose pages get its tools, besides those that `mcpb allow` names."""
    offer: Literal["read-only", "all"] = "read-only"
    """Tools that these pages get: those with `readOnlyHint`, or all."""
    watch: bool = True
    """True if the server's reports of changed lists are received."""
    timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Seconds for a request; progress restarts them."""
    allow: tuple[_NonEmpty, ...] = ()
    """Globs of the server's own tool names; empty: all."""
    deny: tuple[_NonEmpty, ...] = ()
    rename: dict[str, str] = {}
    """Names that replace the server's own."""
    describe: dict[str, str] = {}
    """Descriptions by the server's own tool names."""
    roots: tuple[RemoteRoot, ...] = ()
    enabled: bool = True

    def __post_init__(self) -> None:
        if not is_server_name(self.name):
            reason = f"{_quote(self.name)} is no name: write 1 to 32 of the characters a-z, 0-9 and -"
            raise SettingError("name", reason)
        if bool(self.url) == bool(self.command):
            key = "url" if self.url else "name"
            raise SettingError(key, "a server has exactly one of url and command")
        if self.url:
            _reject_keys(self, _OF_COMMANDS, "command")
            _check_url(self.url, is_insecure=self.insecure)
        else:
            _reject_keys(self, _OF_URLS, "url")
            _check_program(self)
        _check_secrets(self)
        _check_names(self)
        _check_pages(self)

    @property
    def address(self) -> str:
        """URL without its query, or the command without its arguments: both may have secrets."""
        return self.url.partition("?")[0] or self.command

    @property
    def can_sign_in(self) -> bool:
        """Whether tokens of `mcpb remote login` are used: nothing else here authorizes its requests."""
        return bool(self.url) and not self.token_sources

    @property
    def token_sources(self) -> list[str]:
        """Keys that authorize its requests."""
        keys = [key for key in ("bearer_env", "bearer_file", "header_command") if getattr(self, key)]
        has_header = "authorization" in map(str.lower, self.headers)
        return [*keys, "headers.Authorization"] if has_header else keys


def is_server_name(name: str) -> bool:
    """Return whether a server may have this name: without `_`, so that names of its tools are unambiguous."""
    return bool(_NAME.fullmatch(name))


def find_secret(entry: Mapping[str, Any]) -> str:
    """Return the key of an entry that may have a secret, which only this user may read; empty if none has."""
    if isinstance(url := entry.get("url"), str) and "?" in url:
        return "url"
    return next((key for key in _SECRETS if entry.get(key)), "")


def check_servers(servers: Iterable[RemoteSettings]) -> None:
    """Check what one entry alone cannot know.

    Raises:
        SettingError: there are too many, or two have one name.
    """
    seen: set[str] = set()
    for number, server in enumerate(servers):
        if number == MAX_SERVERS:
            raise SettingError(f"remote[{number}]", f"there are more than {MAX_SERVERS} servers")
        if server.name in seen:
            raise SettingError(
                f"remote[{number}].name", "another server has this name: rename or remove one of them"
            )
        seen.add(server.name)


def check_headers(headers: Mapping[str, Any]) -> str:
    """Return why headers cannot be sent, without their values; empty if they can."""
    seen: set[str] = set()
    for name, value in headers.items():
        shown = single_line(name, _MAX_SHOWN_CHARS)
        if not _HEADER_NAME.fullmatch(name):
            return f"{shown} is no name of a header"
        if name.lower() in _FRAMING:
            return f"{shown} is a header that the connection itself sets"
        if name.lower() in seen:
            return f"{shown} is there twice"
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            return f"the value of {shown} is not one line of ASCII without spaces around it"
        seen.add(name.lower())
    return ""


def is_bearer_token(token: str) -> bool:
    """Return whether a token can be sent in a header."""
    return bool(_HEADER_VALUE.fullmatch(token)) and " " not in token and "\t" not in token


# ── Checks of an entry ──────────────────────────────────────────────────────────────────────────────────────


def _reject_keys(server: RemoteSettings, keys: Iterable[str], owner: str) -> None:
    for key in keys:
        if getattr(server, key):
            raise SettingError(key, f"is for a server with {owner}")


def _check_url(url: str, *, is_insecure: bool) -> None:
    scheme = _SCHEME.match(url)
    authority = re.split(r"[/\\?#]", url[scheme.end() if scheme else 0 :].lstrip("/\\"), maxsplit=1)[0]
    if "@" in authority:  # before a message quotes it
        raise SettingError("url", "has a user name or password: write headers or bearer_file instead")
    shown = _quote(re.split(r"[?#]", url)[0])
    # `localhost:3000/mcp` has no scheme, although its host looks like one.
    if not scheme or url[scheme.end() :][:1].isdigit():
        reason = (
            f"{shown} is relative, and a bridge has no page to which it could be: "
            "write all of it, as https://orders.example/mcp"
        )
        raise SettingError("url", reason)
    if scheme[1].lower() not in {"http", "https"}:
        raise SettingError("url", f"{single_line(scheme[1], _MAX_SHOWN_CHARS)}: is neither https: nor http:")
    if "#" in url:
        raise SettingError("url", "has a fragment (#), which no server receives: remove it")
    found = _URL.fullmatch(url)
    host = found["host"].strip("[]").lower() if found else ""
    if not found or not is_host(host) or not 0 < int(found["port"] or 80) <= 65535:
        reason = f"{shown} is no URL: write it in ASCII, as https://orders.example/mcp"
        raise SettingError("url", reason)
    if found["scheme"] == "http" and not is_loopback(host) and not is_insecure:
        raise SettingError(
            "url",
            f"http: to {host} is not encrypted, and leads to another machine: "
            "write https, or insecure = true if only you can read this network",
        )


def _quote(text: str) -> str:
    return f'"{single_line(text, _MAX_SHOWN_CHARS)}"'


def _check_program(server: RemoteSettings) -> None:
    for key, texts in (("command", [server.command]), ("args", server.args), ("env", server.env.values())):
        if any("\0" in text for text in texts):
            raise SettingError(key, "has a null character")
    for name in server.env:
        if not _VARIABLE.fullmatch(name):
            reason = "a name of a variable consists of letters, digits and _, and begins with no digit"
            raise SettingError("env", reason)


def _check_secrets(server: RemoteSettings) -> None:
    if problem := check_headers(server.headers):
        raise SettingError("headers", problem)
    if server.bearer_env and not _VARIABLE.fullmatch(server.bearer_env):
        # It may be the token itself.
        raise SettingError("bearer_env", "is the name of an environment variable, such as ORDERS_TOKEN")
    if server.bearer_file and not PurePath(server.bearer_file).is_absolute():
        reason = "is not an absolute path; write it as /home/ann/.secrets/orders"
        raise SettingError("bearer_file", reason)
    if server.bearer_env and server.bearer_file:
        raise SettingError("bearer_file", "cannot be combined with bearer_env")


def _check_names(server: RemoteSettings) -> None:
    if not _PREFIX.fullmatch(server.prefix):
        raise SettingError("prefix", "at most 64 letters, digits and characters of _.-")
    for name in server.rename.values():
        if not _TOOL_NAME.fullmatch(name):
            reason = (
                f"{_quote(name)} is no name of a tool: write 1 to 128 letters, digits and characters of _.-"
            )
            raise SettingError("rename", reason)


def _check_pages(server: RemoteSettings) -> None:
    for page in server.pages:
        try:
            found = str(origins.parse_origin(page))
        except origins.OriginError as error:
            reason = f"{_quote(page)} is no origin: {error}; write it as https://app.example"
            raise SettingError("pages", reason) from None
        if found != page:
            raise SettingError("pages", f"{_quote(page)} is no origin: write {found}")
