"""Browser profiles that have the extension, by the browsers' own files. It only reads.

These files omit an add-on that Firefox loaded temporarily, and recent changes in Chromium (it writes them
some seconds later, and when it ends).
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from install.browsers import Kind
from install.findings import (
    Command,
    Finding,
    FindingCode,
    Level,
    Part,
    Privacy,
    Value,
    mcpb_command,
    path_value,
    public_value,
)
from install.host_manifest import extension_origin, is_caller
from native_host import __version__
from native_host.protocol.untrusted_text import escape
from native_host.protocol.wire import EXTENSION_ID, FIREFOX_ID
from native_host.system.untrusted_files import entries, is_file, is_folder, whole

OUR_NAME = "mcpb"
MOST_PROFILES = 100
LARGEST_BYTES = 8 * 1024 * 1024
"""Bytes of a file: Preferences of well-used profiles have some MiB."""
MOST_BYTES = 64 * 1024 * 1024
"""Bytes of all files of a browser."""
# Chromium's ManifestLocation: loaded from a directory by the user, or with --load-extension.
_UNPACKED = {4, 8}

_NUMBER = re.compile(r"[0-9]{1,9}")

_REFRESH: dict[Kind, Command] = {
    "chromium": mcpb_command("extension"),
    "firefox": mcpb_command("extension", "--firefox"),
}


@dataclass(frozen=True)
class InstalledExtension:
    """Our extension in one profile."""

    profile: Path
    label: str
    """The browser's name for the profile, else its directory's name."""
    extension_id: str
    is_enabled: bool
    version: str = ""
    """Empty where it is not known."""
    lost_folder: str = ""
    """The folder that it was loaded from, if that is gone."""
    directory: Path | None = None
    """Directory that it was loaded from; None for an installed one."""


# ── Chromium ────────────────────────────────────────────────────────────────────────────────────────────────


def chromium_extensions(user_data_dir: Path) -> list[InstalledExtension] | None:
    """Return the extensions of all profiles of a user data directory; None if one was unreadable."""
    reader = _Reader()
    found = [each for profile in _chromium_profiles(user_data_dir) for each in _in_chromium(profile, reader)]
    return None if reader.has_passed_over and not found else found


def _chromium_profiles(user_data_dir: Path) -> list[Path]:
    return [path for path in entries(user_data_dir) if is_file(path / "Preferences")][:MOST_PROFILES]


def _in_chromium(profile: Path, reader: _Reader) -> Iterator[InstalledExtension]:
    """Yield the extensions of a profile, from both files: system and version decide which one has them."""
    preferences = reader.read_object(profile / "Preferences")
    label = _object_of(preferences.get("profile")).get("name")
    settings: dict[str, dict[str, Any]] = {}
    for source in (preferences, reader.read_object(profile / "Secure Preferences")):
        for extension_id, setting in _object_of(_object_of(source.get("extensions")).get("settings")).items():
            settings.setdefault(extension_id, {}).update(_object_of(setting))
    for extension_id, setting in settings.items():
        if not is_caller(extension_origin(extension_id), "chromium"):
            continue  # ids go into commands
        folder = _folder_of(setting)
        manifest = (
            reader.read_object(folder / "manifest.json") if folder else _object_of(setting.get("manifest"))
        )
        if extension_id == EXTENSION_ID or (folder and manifest.get("name") == OUR_NAME):
            yield InstalledExtension(
                profile=profile,
                label=escape(_text_of(label) or profile.name),
                extension_id=extension_id,
                is_enabled=setting.get("state") != 0 and not setting.get("disable_reasons"),
                version=escape(_text_of(manifest.get("version"))),
                lost_folder=_lost_directory(folder),
                directory=folder,
            )


def _lost_directory(folder: Path | None) -> str:
    return escape(str(folder)) if folder and not is_file(folder / "manifest.json") else ""


def is_used_in(user_data_dir: Path) -> bool:
    """Return whether the extension has stored something in a profile, which is on disk at once."""
    return any(
        is_folder(profile / "Local Extension Settings" / EXTENSION_ID) for profile in entries(user_data_dir)
    )


def _folder_of(setting: dict[str, Any]) -> Path | None:
    """Return the directory of an unpacked extension; for others the browser stores the manifest."""
    path = setting.get("path")
    if setting.get("location") in _UNPACKED and isinstance(path, str) and path.startswith("/"):
        return Path(path)
    return None


# ── Firefox ─────────────────────────────────────────────────────────────────────────────────────────────────


def firefox_profiles(data: Path) -> list[Path]:
    """Named by `profiles.ini` in the browser's folder, or in `firefox` below it."""
    profiles = [profile for root in (data, data / "firefox") for profile in _listed_profiles(root)]
    return profiles[:MOST_PROFILES]


def _listed_profiles(root: Path) -> Iterator[Path]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string((whole(root / "profiles.ini", LARGEST_BYTES) or b"").decode(errors="replace"))
    except configparser.Error:
        return
    for name in parser.sections():
        if name.startswith("Profile") and (path := parser[name].get("Path")):
            yield root / path  # which is the path, if it is an absolute one


def firefox_extensions(profiles: Sequence[Path]) -> list[InstalledExtension]:
    """Return the extensions of these profiles."""
    reader = _Reader()
    return [found for profile in profiles for found in _in_firefox(profile, reader)]


def _in_firefox(profile: Path, reader: _Reader) -> Iterator[InstalledExtension]:
    addons = reader.read_object(profile / "extensions.json").get("addons")
    for addon in addons if isinstance(addons, list) else []:
        if _object_of(addon).get("id") == FIREFOX_ID:
            yield InstalledExtension(
                profile=profile,
                label=escape(profile.name),
                extension_id=FIREFOX_ID,
                is_enabled=addon.get("active") is True,
                version=escape(_text_of(addon.get("version"))),
            )


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Reader:
    """Reads objects of JSON until it was enough."""

    def __init__(self) -> None:
        self._left = MOST_BYTES
        self.has_passed_over = False

    def read_object(self, path: Path) -> dict[str, Any]:
        """Return the object in a file; an empty one without it."""
        content = whole(path, min(LARGEST_BYTES, self._left))
        if content is None:
            self.has_passed_over = self.has_passed_over or is_file(path)
            return {}
        self._left -= len(content)
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _object_of(msgspec.json.decode(content))
        return {}


def _object_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


# ── What follows ────────────────────────────────────────────────────────────────────────────────────────────


def extension_findings(
    browser: Part, kind: Kind, found: Sequence[InstalledExtension], admitted: Collection[str]
) -> list[Finding]:
    """Find faults of the extension in the profiles of a browser; `admitted` may start the host.

    Codes: extension-missing, extension-folder-gone, extension-disabled, extension-other-id, extension-old.
    A fault of one profile is a warning if another profile of the browser has none.
    """
    if not found:
        template = "the mcpb extension is not installed in {browser}, according to its files"
        if kind == "firefox":
            template += " (which do not contain temporary extensions)"
        return [_make_finding(FindingCode.EXTENSION_MISSING, browser, template, _REFRESH[kind], "warning")]
    faults = [_find_fault(browser, item, admitted) for item in found]
    if all(fault and fault.level == "fault" for fault in faults):
        return [fault for fault in faults if fault]
    return [msgspec.structs.replace(fault, level="warning") for fault in faults if fault]


def _find_fault(browser: Part, item: InstalledExtension, admitted: Collection[str]) -> Finding | None:
    profile = Value(item.label, Privacy.PROFILE)
    prefix = "{browser}, profile {profile}: the extension"
    is_chromium = item.extension_id != FIREFOX_ID
    refresh = _REFRESH["chromium" if is_chromium else "firefox"]
    if item.lost_folder:
        template = f"{prefix} was loaded from {{directory}}, which is gone. Restore this directory"
        code, directory = FindingCode.EXTENSION_FOLDER_GONE, path_value(item.lost_folder)
        return _make_finding(code, browser, template, refresh, profile=profile, directory=directory)
    if not item.is_enabled:
        template = f"{prefix} is switched off. Switch it on where the browser lists its extensions"
        return _make_finding(FindingCode.EXTENSION_DISABLED, browser, template, profile=profile)
    if (
        is_chromium
        and item.extension_id != EXTENSION_ID
        and extension_origin(item.extension_id) not in admitted
    ):
        template = f"{prefix} has the id {{id}}, which may not start the host"
        command = mcpb_command("install-native-host", "--extension-id", item.extension_id)
        code, extension_id = FindingCode.EXTENSION_OTHER_ID, public_value(item.extension_id)
        return _make_finding(code, browser, template, command, profile=profile, id=extension_id)
    if item.version and _is_older(item.version, __version__):
        template = f"{prefix} has version {{version}}, mcpb {__version__}. Update and reload it"
        code, version = FindingCode.EXTENSION_OLD, public_value(item.version)
        return _make_finding(code, browser, template, refresh, "warning", profile=profile, version=version)
    return None


def _make_finding(
    code: FindingCode,
    browser: Part,
    template: str,
    command: Command | None = None,
    level: Level = "fault",
    **values: Part,
) -> Finding:
    return Finding(
        code=code,
        hop="extension",
        template=template,
        values={"browser": browser, **values},
        command=command,
        level=level,
        where=browser,
    )


def _is_older(version: str, than: str) -> bool:
    numbers = [[int(part) for part in _NUMBER.findall(text)] for text in (version, than)]
    return numbers[0] < numbers[1]
