"""What mcpb keeps in its home besides an installation: known by name, so that nothing else is removed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import extension
from native_host.existing_channel.published_socket import left_behind
from native_host.ipc import endpoint
from native_host.protocol.wire import FIREFOX_ID

_FILES = (
    "config.toml",
    "browsers.toml",
    "shortcuts.toml",
    "state/mcpb.log",
    "state/mcpb.log.1",
    "state/audit.jsonl",
    "state/audit.1.jsonl",
    "state/tools.sqlite",
    "state/tools.sqlite-wal",
    "state/tools.sqlite-shm",
    "state/tools.sqlite-journal",
    "state/tools.sqlite.broken",
    "state/http-token",
    "state/http-token.new",
    "state/http-tokens.json",
    "state/http-tokens.json.new",
    "state/device-id",
    "state/approvals.json",
    "state/approvals.json.new",
    "state/pauses.json",
    "state/pauses.json.new",
    "state/ledger.json.damaged",
)
_SERVERS = "state/serve-*.json"
"""Of servers that were killed, or run."""
_COPIES = ("extension", "extension-firefox")
"""Folders that `mcpb extension` fills."""
_PICTURES = "pictures"
"""Where they are saved if there is no folder for downloads."""
_HALF_COPIES = ".extension-*"
"""Of them: half made, or half removed."""


def kept_files(home: Path) -> list[Path]:
    """Logs, settings, kept tools, pictures and copies of the extension, as far as they are there."""
    files = [home / name for name in _FILES if (home / name).is_file() or (home / name).is_symlink()]
    copies = [home / name for name in _COPIES if _is_copy(home / name)]
    pictures = [home / _PICTURES] if _is_folder(home / _PICTURES) else []
    return sorted(home.glob(_HALF_COPIES)) + files + sorted(home.glob(_SERVERS)) + copies + pictures


def _is_copy(folder: Path) -> bool:
    """As the extension is known to browsers: by its key, or by the id of an add-on."""
    if not _is_folder(folder):
        return False
    ours = _manifest(Path(next(iter(extension.__path__))))
    theirs = _manifest(folder)
    addon = theirs.get("browser_specific_settings", {})
    return theirs.get("key") == ours["key"] or FIREFOX_ID in json.dumps(addon)


def _is_folder(path: Path) -> bool:
    """A link to one is not."""
    return path.is_dir() and not path.is_symlink()


def _manifest(folder: Path) -> dict[str, object]:
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def left_by_dead_hosts(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Sockets, records and locks of hosts that were killed, and the sockets that servers had beside another
    product's; running ones remove their own.
    """
    of_hosts = [endpoint.left_by_dead_hosts(folder) for folder in _meeting_places(environ, home)]
    return [*chain.from_iterable(of_hosts), *left_behind(home / "state").files]


def held_by_running_hosts(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Folders that cannot go before the browsers have gone whose hosts run now."""
    dead = left_by_dead_hosts(environ, home)
    folders = _meeting_places(environ, home)
    return [folder for folder in folders if any(lock not in dead for lock in folder.glob("*.lock"))]


def _meeting_places(environ: Mapping[str, str], home: Path) -> list[Path]:
    return list(dict.fromkeys([*endpoint.candidates(environ), home / "run"]))


def runtime_directories(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Outside of mcpb's home: where else hosts meet bridges, and what servers that were killed made for a
    socket beside another product's, as far as it is there.
    """
    meeting = [path for path in endpoint.candidates(environ) if path != home / "run"]
    return [path for path in [*meeting, *left_behind(home / "state").directories] if path.is_dir()]
