"""Edit of config.toml: adds and removes a `[[remote]]`, and leaves every other byte as it is.

It edits the text, and parses the result before it is written: an edit that would change anything else is
rejected. Commands hold a lock meanwhile; an editor does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from bridge.config.loader import ConfigError, check_content, read_content
from bridge.config.remote_settings import RemoteSettings
from native_host.system import private_files, toml_text
from native_host.system.home_layout import HomeLayout
from native_host.system.private_files import PrivateFileError, lock_directory


def add_server(home: Path, server: RemoteSettings) -> Path:
    """Append a `[[remote]]` to the file, which only this user can read from then on; return its path.

    Raises:
        ConfigError: the file cannot be used or written, or the server cannot be added to it.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with lock_directory(home):
        path, content = HomeLayout(home).config, read_content(home)
        before = toml_text.parse_toml(path, content)
        try:
            # As JSON: TOML has lists, and no tuples. Keys with their defaults are left out.
            entry = msgspec.json.decode(msgspec.json.encode(server))
        except UnicodeEncodeError:  # of a command line in another encoding
            raise ConfigError(path, f"remote {server.name}: a text is not UTF-8") from None
        if not isinstance(before.get("remote", []), list):
            raise _rejected_edit(path, f"add remote {server.name} to")
        changed = _append(content, entry)
        expected = {**before, "remote": [*before.get("remote", []), entry]}
        _write(path, changed, expected, f"add remote {server.name} to")
        return path


def remove_server(home: Path, name: str) -> bool:
    """Remove the `[[remote]]` of this name from the file; return whether there was one.

    Raises:
        ConfigError: the file cannot be used or written, or its table is written in an unusual way.
    """
    if not home.is_dir():
        return False
    with lock_directory(home):
        path, content = HomeLayout(home).config, read_content(home)
        before = toml_text.parse_toml(path, content)
        entries = before.get("remote", [])
        index = next((number for number, each in enumerate(entries) if each["name"] == name), None)
        if index is None:
            return False
        remaining = [*entries[:index], *entries[index + 1 :]]
        expected = {key: value for key, value in before.items() if key != "remote"}
        if remaining:
            expected["remote"] = remaining
        try:
            changed = _remove(content, index)
        except LookupError:
            raise _rejected_edit(path, f"remove remote {name} from") from None
        _write(path, changed, expected, f"remove remote {name} from")
        return True


def _append(content: bytes, entry: dict[str, Any]) -> bytes:
    lines = ["[[remote]]", *(f"{key} = {toml_text.format_value(value)}" for key, value in entry.items())]
    separator = b"\n" if content else b""
    if content and not content.endswith(b"\n"):
        separator = b"\n\n"
    return content + separator + "\n".join([*lines, ""]).encode()


def _remove(content: bytes, index: int) -> bytes:
    """Remove an entry and the blank line that separated it. Raises LookupError."""
    start, end = toml_text.find_entry(content, "remote", index)
    lines = content.split(b"\n")
    if not any(line.strip() for line in lines[end : end + 1]):
        if start and not lines[start - 1].strip():
            start -= 1
        elif not start and end + 1 < len(lines):
            end += 1
    return b"\n".join(lines[:start] + lines[end:])


def _write(path: Path, content: bytes, expected: dict[str, Any], purpose: str) -> None:
    """Write the file if its content means what is expected. Raises ConfigError."""
    try:
        # An array `remote = […]`, or text that looks like a table, can make the edit mean something else.
        is_expected = toml_text.parse_toml(path, content) == expected
    except PrivateFileError:
        is_expected = False
    if not is_expected:
        raise _rejected_edit(path, purpose)
    check_content(path, content)
    try:
        # A link stays: users keep the file where they like.
        private_files.replace(path.resolve(), content)
    except PrivateFileError as error:
        raise ConfigError.wrap(error) from error


def _rejected_edit(path: Path, purpose: str) -> ConfigError:
    return ConfigError(path, f"cannot {purpose} it without changing something else: edit it yourself")
