"""Recipe for browsers of Windows beside mcpb in WSL: they look up hosts in Windows.

It writes nothing to Windows: the user gets the commands. Within WSL everything is as on Linux.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from install.browsers import Browser, Kind
from install.host_manifest import OUR_CALLERS, manifest_text
from install.machine import Machine
from native_host.protocol.wire import HOST_NAME

_OSRELEASE = "proc/sys/kernel/osrelease"
_FOLDER = r"%LOCALAPPDATA%\mcpb"
_BATCH = "mcpb-native-host.bat"
_MANIFESTS: dict[Kind, str] = {"chromium": f"{HOST_NAME}.json", "firefox": f"{HOST_NAME}.firefox.json"}
_FAMILIES: dict[Kind, str] = {"chromium": "Chrome and its relatives", "firefox": "Firefox and its relatives"}
_SHOWN_TITLES = 3


def is_wsl(machine: Machine) -> bool:
    """Return whether this Linux runs in Windows."""
    if "WSL_DISTRO_NAME" in machine.environ:
        return True
    try:
        return "microsoft" in (machine.root / _OSRELEASE).read_text().lower()
    except OSError:
        return False


def make_recipe(
    browsers: Sequence[Browser], machine: Machine, wrapper: Path, callers: Sequence[str] = OUR_CALLERS
) -> str:
    """Return the commands for Windows by which browsers there start `wrapper` here, and those that undo it.

    Windows finds a manifest through the registry, and its `path` may be relative to itself.
    """
    keys = _registry_keys(browsers)
    parts = [
        "A browser of Windows looks for native hosts in Windows. To register mcpb there:",
        rf"1. In Windows, make the folder {_FOLDER} and save these lines in it as {_BATCH}:",
        _indent_text(_batch_file(wrapper, machine.environ.get("WSL_DISTRO_NAME", ""))),
        *_saved_manifests(sorted({kind for kind, _ in keys}), callers),
        "3. In a Command Prompt of Windows, run the line of each browser that you use:",
        *(
            _indent_text(f"rem {_join_titles(titles)}\n{_add_key(kind, key)}")
            for (kind, key), titles in keys.items()
        ),
        "To undo it, do this for each of these keys, then remove the folder:",
        _indent_text(_delete_key(next(iter(keys))[1])),
    ]
    return "\n\n".join(parts) + "\n"


def _registry_keys(browsers: Sequence[Browser]) -> dict[tuple[Kind, str], list[str]]:
    """Each key once, with the titles of those that read it."""
    keys: dict[tuple[Kind, str], list[str]] = {}
    for browser in browsers:
        for key in browser.windows:
            keys.setdefault((browser.kind, key), []).append(browser.title)
    return keys


def _batch_file(wrapper: Path, distribution: str) -> str:
    """`--exec` goes through no shell: one would take the backslashes that Firefox passes, and may print."""
    where = f"-d {_quote_batch(distribution)} " if distribution else ""
    unicode = "" if str(wrapper).isascii() else "chcp 65001 >NUL\n"
    return f"@echo off\n{unicode}wsl.exe {where}--exec {_quote_batch(str(wrapper))} %* 2>NUL"


def _saved_manifests(kinds: Sequence[Kind], callers: Sequence[str]) -> list[str]:
    parts = ["2. In the same folder save"]
    for kind in kinds:
        parts.append(f"   as {_MANIFESTS[kind]}, for {_FAMILIES[kind]}:")
        parts.append(_indent_text(manifest_text(kind, Path(_BATCH), callers).rstrip()))
    return parts


def _add_key(kind: Kind, key: str) -> str:
    return rf'reg add "HKCU\{key}\{HOST_NAME}" /ve /t REG_SZ /d "{_FOLDER}\{_MANIFESTS[kind]}" /f'


def _delete_key(key: str) -> str:
    return rf'reg delete "HKCU\{key}\{HOST_NAME}" /f'


def _join_titles(titles: Sequence[str]) -> str:
    more = len(titles) - _SHOWN_TITLES
    return ", ".join(titles[:_SHOWN_TITLES]) + (f" and {more} more" if more > 0 else "")


def _quote_batch(text: str) -> str:
    """Quote for a batch file, in which `%` begins a variable also between quotes."""
    return '"' + text.replace("%", "%%") + '"'


def _indent_text(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))
