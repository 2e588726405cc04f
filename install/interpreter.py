"""Python interpreter for the wrapper: it must import mcpb with -I, stay, and be accessible.

It also finds the clone that mcpb was installed from. mcpb is not on a package index, where the name may
belong to others.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from native_host.system.home_layout import user_home

PROBE_SECONDS = 20.0

_CACHE_TAG = "CACHEDIR.TAG"
"""Mark of a cache (https://bford.info/cachedir). uv and pipx also write it into permanent environments."""
_TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp")  # noqa: S108
_BUILD_PREFIXES = ("pip-build-env-", "build-env-", ".mount_")
"""Folders of builds by pip and build, and of a mounted AppImage: gone when the command ends."""


class InterpreterError(Exception):
    """The running interpreter cannot be baked into a wrapper; the text says what to do."""


def current_interpreter() -> Path:
    """Return the interpreter of this environment, not the file that its link names.

    Raises:
        InterpreterError: it is temporary, or cannot run the native host as the wrapper will.
    """
    interpreter = Path(sys.executable)
    if not interpreter.is_absolute():
        raise InterpreterError("Python does not know where it is: run mcpb by its full path")
    if reason := find_temporary(Path(sys.prefix), user_home(), os.environ):
        raise InterpreterError(
            f"{interpreter} will not stay: it is {reason}, and a browser must find it for as long as mcpb is "
            f"registered. {how_to_install(find_clone())}"
        )
    _prove_interpreter(interpreter)
    return interpreter


def find_temporary(environment: Path, user_home: Path, environ: Mapping[str, str]) -> str:
    """Return why a tool deletes an environment without asking; empty if the environment stays.

    `uvx`, `uv tool run`, `uv run --with` and `pipx run` make environments in their caches.
    """
    caches = _known_caches(user_home, environ)
    for folder in environment.parents:
        is_old_pipx = (folder.parent.name, folder.name) == ("pipx", ".cache")
        if folder in caches or is_old_pipx or (folder / _CACHE_TAG).is_file():
            return "in a cache (of uvx, pipx run or the like)"
    if any(part.startswith(_BUILD_PREFIXES) for part in environment.parts):
        return "made for one command only"
    return ""


def is_temporary(environment: Path) -> bool:
    """Return whether it lies in a temporary directory, which may be intended for a trial."""
    # Not `tempfile.gettempdir()`, which fails on a full disk.
    temporary = {Path(os.environ.get("TMPDIR") or "/tmp"), *map(Path, _TEMPORARY)}  # noqa: S108
    return not temporary.isdisjoint(environment.parents)


def _known_caches(user_home: Path, environ: Mapping[str, str]) -> set[Path]:
    bases = [user_home / ".cache", user_home / "Library/Caches"]
    if chosen := environ.get("XDG_CACHE_HOME"):
        bases.append(Path(chosen))
    caches = {base / tool for base in bases for tool in ("uv", "pipx")}
    if chosen := environ.get("UV_CACHE_DIR"):
        caches.add(Path(chosen))
    return caches


def _prove_interpreter(interpreter: Path) -> None:
    """Check the interpreter with -I, which ignores the user's site directory."""
    probe = [str(interpreter), "-I", "-c", "import native_host.__main__"]
    ended = subprocess.run(
        probe, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
    )
    if ended.returncode == 0:
        return
    reason = (ended.stderr.strip().splitlines() or ["no message"])[-1]
    raise InterpreterError(f"{interpreter} -I cannot import mcpb ({reason}). {how_to_install(find_clone())}")


def find_unreachable(interpreter: Path) -> Path | None:
    """Return the first path on the way to an interpreter that other users cannot read; None: all can.

    The way includes the file, the target of a link, and the packages beside it.
    """
    ends = [interpreter, interpreter.resolve(), Path(__file__)]
    ends += [Path(entry) for entry in sys.path if Path(entry).is_absolute() and Path(entry).exists()]
    for end in ends:
        for folder in reversed(end.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                return folder
        if not end.stat().st_mode & stat.S_IROTH:
            return end
    return None


_SCRIPT = "install/install.sh"


def find_clone() -> Path | None:
    """Return the directory that this mcpb was installed from; None if unknown or gone.

    pip, pipx and uv record it (https://packaging.python.org/en/latest/specifications/direct-url/).
    """
    try:
        record = metadata.distribution("mcpb").read_text("direct_url.json")
        url = urlsplit(json.loads(record or "{}")["url"])
    except (metadata.PackageNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return None
    folder = Path(unquote(url.path))
    return folder if url.scheme == "file" and (folder / _SCRIPT).is_file() else None


def find_install_script(folder: Path) -> Path:
    """Return the script of a clone that installs mcpb into an environment of its own."""
    return folder / _SCRIPT


def how_to_install(folder: Path | None) -> str:
    """Return the ways to install mcpb from a clone into an environment of its own, as a sentence."""
    if folder is None:
        return (
            "Install it from its clone into an environment of its own: install/install.sh "
            "(or: pipx install DIR, uv tool install DIR)"
        )
    here, script = shlex.quote(str(folder)), shlex.quote(str(find_install_script(folder)))
    return (
        f"Install it into an environment of its own: sh {script} "
        f"(or: pipx install {here}, uv tool install {here})"
    )
