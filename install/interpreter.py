"""Which Python the wrapper starts, and whether it will do: it must have mcpb with -I, and stay there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from install.source import clone, how_to_install

PROBE_SECONDS = 20.0

_CACHE_TAG = "CACHEDIR.TAG"
"""What marks a cache (https://bford.info/cachedir). uv and pipx write it also into environments that stay."""
_BUILD_PREFIXES = ("pip-build-env-", "build-env-", ".mount_")
"""Folders of builds by pip and build, and of a mounted AppImage: gone when the command ends."""


class InterpreterError(Exception):
    """The running interpreter cannot be baked into a wrapper; the text says what to do."""


def current_interpreter() -> Path:
    """The interpreter that runs this command: of its environment, not what a link there leads to.

    Raises:
        InterpreterError: it will vanish, or cannot run the native host the way the wrapper will.
    """
    interpreter = Path(sys.executable)
    if not interpreter.is_absolute():
        raise InterpreterError("Python does not know where it is: run mcpb by its full path")
    if reason := vanishing(Path(sys.prefix), Path.home(), os.environ):
        raise InterpreterError(
            f"{interpreter} will not stay: it is {reason}, and a browser must find it for as long as mcpb is "
            f"registered. {how_to_install(clone())}"
        )
    _prove(interpreter)
    return interpreter


def vanishing(environment: Path, user_home: Path, environ: Mapping[str, str]) -> str:
    """What an environment is part of that is emptied without asking; empty when it stays.

    `uvx`, `uv tool run`, `uv run --with` and `pipx run` make environments in their caches.
    """
    caches = _known_caches(user_home, environ)
    for folder in environment.parents:
        is_old_pipx = (folder.parent.name, folder.name) == ("pipx", ".cache")
        if folder in caches or is_old_pipx or (folder / _CACHE_TAG).is_file():
            return f"in the cache {folder} (of uvx, pipx run or the like)"
    if any(part.startswith(_BUILD_PREFIXES) for part in environment.parts):
        return "made for one command only"
    return ""


def is_temporary(environment: Path) -> bool:
    """Whether it is where systems clean up, in days or at the next start. It may be meant, as for a trial."""
    temporary = {Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"), Path("/private/tmp")}  # noqa: S108
    return not temporary.isdisjoint(environment.parents)


def _known_caches(user_home: Path, environ: Mapping[str, str]) -> set[Path]:
    bases = [user_home / ".cache", user_home / "Library/Caches"]
    if chosen := environ.get("XDG_CACHE_HOME"):
        bases.append(Path(chosen))
    caches = {base / tool for base in bases for tool in ("uv", "pipx")}
    if chosen := environ.get("UV_CACHE_DIR"):
        caches.add(Path(chosen))
    return caches


def _prove(interpreter: Path) -> None:
    """With -I the person's own site directory is not searched: what was installed there is not found."""
    probe = [str(interpreter), "-I", "-c", "import native_host.__main__"]
    ended = subprocess.run(
        probe, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
    )
    if ended.returncode == 0:
        return
    reason = (ended.stderr.strip().splitlines() or ["no message"])[-1]
    raise InterpreterError(f"{interpreter} -I cannot import mcpb ({reason}). {how_to_install(clone())}")
