"""Loader of config.toml: reads and validates the user's settings. docs/CONFIGURATION.md explains every key.

The file decides which tools may be called, so a file that other users could write or replace is rejected.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from bridge.config.remote_settings import RemoteSettings, find_secret, is_server_name
from bridge.config.restrictions import is_allowed
from bridge.config.setting_error import SettingError
from bridge.config.settings import BrowserSettings, ChannelSettings, Config, HttpSettings
from bridge.hub.consent.page_tool_settings import PageSettings, PageSite
from bridge.hub.policy import PolicyRules, ToolRule
from native_host.protocol.validation_errors import ProblemKind, describe_rule, explain
from native_host.system import private_files, toml_text
from native_host.system.home_layout import HomeLayout
from native_host.system.private_files import PrivateFileError, UnusableFileError

_SHOWN_CHARS = 60
_HIDDEN = "auth_token"
"""Key whose value is private; no message shows it."""
_TABLES: dict[str, type[msgspec.Struct]] = {
    "policy": PolicyRules,
    "http": HttpSettings,
    "browser": BrowserSettings,
    "pages": PageSettings,
    "existing_channel": ChannelSettings,
}
_ENTRIES: dict[str, type[msgspec.Struct]] = {
    "policy.tools": ToolRule,
    "pages.sites": PageSite,
    "remote": RemoteSettings,
}
"""Arrays of tables."""
_SHOWN_OF_REMOTE = {"name", "insecure", "watch", "timeout_s", "prefix", "enabled"}
"""Keys of `[[remote]]` whose values messages show; the others may have secrets."""
_FILE_ONLY = {*_TABLES, "remote", "proxy"}
"""Keys of the file that no variable `MCPB_<KEY>` replaces."""
_REPLACED = {"http.close_tabs": "browser.close_tabs"}
"""Older keys, and the keys that replace them."""
_VARIABLES_OF_HTTP = {
    "CLAUDE_BROWSER_MCP_PORT": "port",
    "CLAUDE_BROWSER_AUTH_TOKEN": "auth_token",
    **{f"MCPB_HTTP_{key.upper()}": key for key in HttpSettings.__struct_fields__ if key != "auth"},
}
"""Variables → keys of [http]; of two for one key, the later counts. `auth` stands in the file alone."""
_VARIABLES_OF_BROWSER = {f"MCPB_BROWSER_{key.upper()}": key for key in BrowserSettings.__struct_fields__}
_VARIABLES_OF_CHANNEL = {
    f"MCPB_EXISTING_CHANNEL_{key.upper()}": key for key in ChannelSettings.__struct_fields__
}

LIVE_KEYS = frozenset(
    {
        "call_timeout_s",
        "max_listed_tools",
        "max_resource_bytes",
        "calls_per_minute",
        "audit_arguments",
        "policy",
        "browser",
        "pages",
        "remote",
    }
)
"""Keys and tables that running clients apply when the file changes.

Besides them `http.calls_per_minute` and `http.close_tabs`.
"""

_log = logging.getLogger(__name__)
_warned: set[str] = set()

_Settings = TypeVar("_Settings", bound=msgspec.Struct)


class ConfigError(UnusableFileError):
    """The configuration cannot be used: config.toml, or without a path the variable that the reason names."""


def read_config(home: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """Read the configuration in `home`; `MCPB_<KEY>` in the environment overrides a key of the file.

    A key of a table is overridden by `MCPB_<TABLE>_<KEY>`; [policy] and [[remote]] are read from the file
    alone.
    A variable that would loosen a restriction of the file is ignored, with one warning in the log.

    Raises:
        ConfigError: something in it cannot be used, or others could have written it.
    """
    path = HomeLayout(home).config
    content, found = _parse_file(path)
    config = _convert(path, content, found)
    variables = {f"MCPB_{key.upper()}": key for key in Config.__struct_fields__ if key not in _FILE_ONLY}
    given = _Environment(environ, found)
    http = given.override_settings(config.http, _VARIABLES_OF_HTTP, "http")
    browser = given.override_settings(config.browser, _VARIABLES_OF_BROWSER, "browser")
    if given.is_set("browser", "close_tabs", "MCPB_BROWSER_CLOSE_TABS"):
        http = msgspec.structs.replace(http, close_tabs=False)
    dirs = _narrow_directories(config.browser.upload_dirs, browser.upload_dirs)
    browser = msgspec.structs.replace(browser, upload_dirs=dirs)
    channel = given.override_settings(config.existing_channel, _VARIABLES_OF_CHANNEL, "existing_channel")
    whole = given.override_settings(config, variables)
    return msgspec.structs.replace(whole, http=http, browser=browser, existing_channel=channel)


def read_content(home: Path) -> bytes:
    """Return the content of the file, for a command that edits it; empty if it is missing.

    Raises:
        ConfigError: it cannot be used, or others could have written it.
    """
    path = HomeLayout(home).config
    content, found = _parse_file(path)
    _convert(path, content, found)
    return content


def check_content(path: Path, content: bytes) -> Config:
    """Return the configuration that a text for the file means, without the environment.

    Raises:
        ConfigError: the text cannot be used; do not write it.
    """
    try:
        found = toml_text.parse_toml(path, content)
    except PrivateFileError as error:
        raise ConfigError.wrap(error) from error
    return _convert(path, content, found)


def file_identity(home: Path) -> tuple[object, ...]:
    """Return a value that changes when the file or its permissions change."""
    path = HomeLayout(home).config
    return _stat_file(path), _stat_file(path.parent), path.is_symlink()


def rules_digest(config: Config) -> str:
    """Return a digest of the rules that running clients apply, to compare processes."""
    applied = {key: getattr(config, key) for key in LIVE_KEYS if key not in _TABLES}
    http = (config.http.calls_per_minute, config.http.close_tabs)
    rules = (applied, config.policy, config.browser, config.pages, http)
    return sha256(msgspec.json.encode(rules, order="sorted")).hexdigest()[:12]


# ── The file ────────────────────────────────────────────────────────────────────────────────────────────────


def _stat_file(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    is_file = stat.S_ISREG(found.st_mode)
    written = (found.st_mtime_ns, found.st_ctime_ns, found.st_size) if is_file else ()
    return found.st_dev, found.st_ino, found.st_mode, found.st_uid, *written


def _parse_file(path: Path) -> tuple[bytes, dict[str, Any]]:
    try:
        file = private_files.read(path)
        if file is None:
            return b"", {}
        found = toml_text.parse_toml(path, file.content)
        if file.is_open:
            _reject_token(path, found)
    except PrivateFileError as error:
        raise ConfigError.wrap(error) from error
    return file.content, found


def _reject_token(path: Path, found: dict[str, Any]) -> None:
    """Reject an access token, or a secret of a remote server, in a file that other users can read."""
    command = f"chmod go-r {shlex.quote(str(path))}"
    if isinstance(http := found.get("http"), dict) and http.get(_HIDDEN):
        raise PrivateFileError(path, f"has http.{_HIDDEN} and others can read it: write another one", command)
    servers = found.get("remote")
    for number, server in enumerate(servers if isinstance(servers, list) else []):
        if isinstance(server, dict) and (key := find_secret(server)):
            place = _name_place(found, f"remote[{number}].{key}")
            raise PrivateFileError(path, f"has {place}, which others can read: replace the secret", command)


def _convert(path: Path, content: bytes, found: dict[str, Any]) -> Config:
    """Check and convert the parsed file. Raises ConfigError."""
    try:
        _refuse_unknown_keys(found)
        return msgspec.convert(found, Config)
    except _UnknownKeyError as error:
        key, text = error.args
        raise ConfigError(path, f"{text}{_at_line(content, key)}") from None
    except msgspec.ValidationError as error:
        key, text = _explain_error(error, found)
        raise ConfigError(path, f"{_name_place(found, key)}{text}{_at_line(content, key)}") from None


def _at_line(content: bytes, key: str) -> str:
    line = toml_text.line_of(content, key)
    return f" (at line {line})" if line else ""


# ── Keys ────────────────────────────────────────────────────────────────────────────────────────────────────


class _UnknownKeyError(ValueError):
    """Its arguments are the key and the text."""


def _refuse_unknown_keys(found: dict[str, Any]) -> None:
    for place, table, shape in _known_tables(found):
        for key in table:
            if key not in shape.__struct_fields__:
                shown = f"[{place}]" if place in _TABLES else _name_place(found, place)
                where = f" in {shown}" if place else ""
                text = f"there is no key {key}{where}{_suggest_table(key, shape)}"
                raise _UnknownKeyError(f"{place}.{key}".lstrip("."), text)


def _known_tables(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], type[msgspec.Struct]]]:
    """Each table that is one, where it is and what it should be; wrong types are complained of elsewhere."""
    yield "", found, Config
    for name, shape in _TABLES.items():
        if isinstance(table := found.get(name), dict):
            yield name, table, shape
    for place, entry in _ENTRIES.items():
        name, _, key = place.rpartition(".")
        table = found.get(name) if name else found
        entries = table.get(key) if isinstance(table, dict) else None
        for index, each in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(each, dict):
                yield f"{place}[{index}]", each, entry


def _name_place(found: dict[str, Any], place: str) -> str:
    """Return a key as messages name it: `remote orders: url` for `remote[2].url`, else as it is."""
    entry = re.fullmatch(r"remote\[(\d+)\]\.?(.*)", place)
    if entry is None:
        return place
    server = found["remote"][int(entry[1])]
    name = server.get("name") if isinstance(server, dict) else None
    if not isinstance(name, str) or not is_server_name(name):
        return place
    return f"remote {name}: {entry[2]}" if entry[2] else f"remote {name}"


def _suggest_table(key: str, shape: type[msgspec.Struct]) -> str:
    if key in Config.__struct_fields__:
        return "; write it above the first [table]"  # TOML takes what follows a table's head for its content
    if key in PolicyRules.__struct_fields__:
        return "; write it below [policy], above the first [[policy.tools]]"
    for name, table in _TABLES.items():
        if key in table.__struct_fields__:
            return f"; write it below [{name}]"
    if key in RemoteSettings.__struct_fields__:
        return "; write it below a [[remote]]"
    from difflib import get_close_matches  # noqa: PLC0415  (docs/DEVELOPMENT.md, "Cold start")

    near = get_close_matches(key, shape.__struct_fields__, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(shape.__struct_fields__)}"


# ── Values ──────────────────────────────────────────────────────────────────────────────────────────────────


def _explain_error(error: msgspec.ValidationError, found: dict[str, Any]) -> tuple[str, str]:
    """Return the key and what follows it, for instance `max_name` and ` = 200: expected int <= 128`."""
    problem = explain(error)
    key = problem.path
    if problem.kind is ProblemKind.CHOICE:
        return key, f" = {_format_value(_value_at(found, key))}: expected {_format_choices(key)}"
    if problem.kind is ProblemKind.MISSING:
        return key, f": {describe_rule(problem, is_toml=True)}"
    if problem.kind is ProblemKind.OTHER:
        if isinstance(cause := error.__cause__, SettingError):
            return f"{key}.{cause.key}".lstrip("."), f": {cause.reason}"
        return key, f": {problem.expected}"
    value = _value_at(found, key)
    entry = re.fullmatch(r"remote\b(?:\[\d+\]\.)?(.*)", key)
    is_hidden = entry[1] not in _SHOWN_OF_REMOTE if entry else _HIDDEN in f"{key} {value!r}"
    given = f" = {'…' if is_hidden else _format_value(value)}"
    if replacement := _REPLACED.get(key):
        return key, f"{given}: write {replacement}, which replaces this key"
    if key == "remote" and problem.kind is ProblemKind.TYPE:
        return key, ": write [[remote]], and below it the keys of one server, such as name"
    if key in _TABLES:
        return key, f"{given}: write [{key}], and below it its keys, such as {_keys_of(key)[0]}"
    if problem.kind is ProblemKind.TYPE and (choices := _format_choices(key)):
        return key, f"{given}: expected {choices}"
    return key, f"{given}: {describe_rule(problem, is_toml=True)}"


def _value_at(found: Any, key: str) -> Any:
    for step in re.findall(r"[^.\[\]]+", key):
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found


def _format_choices(key: str) -> str:
    """Format the accepted words of a key; empty if it accepts no words of its own."""
    table, _, name = re.sub(r"\[\d+\]", "", key).partition(".")
    shape: type[msgspec.Struct]
    if not name:
        shape, name = Config, table
    else:
        shape = PageSite if name.startswith("sites.") else {**_TABLES, **_ENTRIES}[table]
    kind = get_type_hints(shape).get(name.removeprefix("sites."))
    kinds = [kind, *get_args(kind)]
    words = [f'"{word}"' for member in kinds if get_origin(member) is Literal for word in get_args(member)]
    return " or ".join([*(["a number"] if words and int in kinds else []), *words])


def _format_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _keys_of(table: str) -> tuple[str, ...]:
    """Return the keys of a top-level table; empty if the table is unknown."""
    return _TABLES[table].__struct_fields__ if table in _TABLES else ()


# ── The environment ─────────────────────────────────────────────────────────────────────────────────────────


class _Environment:
    """The variables, and the file that they may tighten."""

    def __init__(self, environ: Mapping[str, str], found: Mapping[str, Any]) -> None:
        self._environ = environ
        self._found = found

    def is_set(self, table: str, key: str, variable: str) -> bool:
        """Return whether the file or a variable sets a key."""
        return key in self._found.get(table, {}) or bool(self._environ.get(variable))

    def override_settings(
        self, settings: _Settings, variables: Mapping[str, str], table: str = ""
    ) -> _Settings:
        """Return the settings of a table with the variables' values.

        Raises:
            ConfigError: a value cannot be used; the reason names its variable.
        """
        hints = get_type_hints(type(settings), include_extras=True)
        in_file = self._found.get(table, {}) if table else self._found
        of_file = settings
        for variable, key in variables.items():
            if not (text := self._environ.get(variable)):
                continue
            value = _value_of(variable, text, hints[key])
            dotted = f"{table}.{key}" if table else key
            if not is_allowed(dotted, value, getattr(of_file, key), is_in_file=key in in_file):
                _warn_once(
                    variable, f"{variable} is ignored: it would loosen {dotted} of {HomeLayout.config.name}"
                )
                continue
            try:
                settings = msgspec.structs.replace(settings, **{key: value})
            except SettingError as error:
                raise ConfigError(None, f"{variable}: {error}") from None
        return settings


def _value_of(variable: str, text: str, hint: Any) -> Any:
    given = _split_list(text) if get_origin(hint) is tuple else text
    try:
        return msgspec.convert(given, hint, strict=False)
    except msgspec.ValidationError as error:
        rule = describe_rule(explain(error), is_toml=True)
        raise ConfigError(None, f"{variable}={_format_value(text)}: {rule}") from None


def _warn_once(variable: str, text: str) -> None:
    if variable not in _warned:
        _warned.add(variable)
        _log.warning("%s", text)


def _narrow_directories(allowed: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return those wanted directories that are allowed: a project may set variables for its clients."""
    real = [os.path.realpath(directory) for directory in allowed]
    return tuple(
        directory
        for directory in wanted
        if any(PurePath(os.path.realpath(directory)).is_relative_to(each) for each in real)
    )


def _split_list(text: str) -> list[str]:
    """Split a list such as `http://localhost:3000, https://shop.example`."""
    return [part.strip() for part in text.split(",") if part.strip()]
