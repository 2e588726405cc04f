"""Files of mcpb's home beside an installation, known by name, so that no other file is removed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import extension
from native_host.existing_channel.published_socket import find_leftovers
from native_host.ipc import endpoint, named_sessions
from native_host.protocol.wire import FIREFOX_ID
from native_host.system.home_layout import HomeLayout, Layout, Numbered, Place
from native_host.system.private_files import draft_of


def kept_files(home: Path) -> list[Path]:
    """Return what --purge removes besides the installation: settings, logs, pictures, copies."""
    return [
        path
        for layout in _layouts_of(home)
        for place in layout.places()
        for path in _find_files(layout, place)
    ]


def _layouts_of(home: Path) -> list[Layout]:
    layout = HomeLayout(home)
    return [layout, layout.state]


def _find_files(layout: Layout, place: Place | Numbered) -> list[Path]:
    if place.removal == "managed":
        return []
    if isinstance(place, Numbered):
        return place.of(layout).existing()
    path = place.of(layout)
    match place.removal:
        case "extension":
            return [path] if _is_copy(path) else []
        case "directory":
            return [path] if _is_folder(path) else []
        case "file":
            beside = (path.with_name(path.name + suffix) for suffix in place.beside)
            return [each for each in (path, draft_of(path), *beside) if each.is_file() or each.is_symlink()]


def _is_copy(folder: Path) -> bool:
    """As the extension is known to browsers: by its key, or by the id of an add-on."""
    if not _is_folder(folder):
        return False
    ours = _read_manifest(Path(next(iter(extension.__path__))))
    theirs = _read_manifest(folder)
    addon = theirs.get("browser_specific_settings", {})
    return theirs.get("key") == ours["key"] or FIREFOX_ID in json.dumps(addon)


def _is_folder(path: Path) -> bool:
    """Return whether it is a directory and not a link to one."""
    return path.is_dir() and not path.is_symlink()


def _read_manifest(folder: Path) -> dict[str, object]:
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def left_by_dead_hosts(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return sockets, records and locks of killed hosts, and published sockets of killed servers."""
    of_hosts = [endpoint.find_leftovers(folder) for folder in _meeting_places(environ, home)]
    return [*chain.from_iterable(of_hosts), *find_leftovers(HomeLayout(home).state.path).files]


def held_by_running_hosts(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Folders that cannot go before the browsers have gone whose hosts run now."""
    dead = left_by_dead_hosts(environ, home)
    folders = _meeting_places(environ, home)
    return [folder for folder in folders if any(lock not in dead for lock in folder.glob("*.lock"))]


def _meeting_places(environ: Mapping[str, str], home: Path) -> list[Path]:
    return list(dict.fromkeys([*endpoint.host_directories(environ), HomeLayout(home).run]))


def runtime_directories(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Return directories of sockets: of named sessions, hosts (outside of the home) and killed servers."""
    meeting = [path for path in endpoint.host_directories(environ) if path != HomeLayout(home).run]
    of_servers = find_leftovers(HomeLayout(home).state.path).directories
    of_sessions = named_sessions.directories(environ)
    return [path for path in [*of_sessions, *meeting, *of_servers] if path.is_dir()]
