"""Directory for pictures that the user gets as files: among the downloads."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from bridge.browser_tools.tool_output import ToolError
from native_host.system.home_layout import HomeLayout, mcpb_home, user_home

MAX_NAME = 100
_DOWNLOADS = re.compile(r'^\s*XDG_DOWNLOAD_DIR\s*=\s*"(.*)"\s*$', re.MULTILINE)


def download_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory from environment or xdg-user-dirs, else ~/Downloads, else one of mcpb."""
    home = user_home(environ)
    for named in (
        environ.get("XDG_DOWNLOAD_DIR", ""),
        _configured_directory(home, environ),
        "$HOME/Downloads",
    ):
        folder = Path(named.replace("$HOME", str(home)))
        if named and folder.is_absolute() and folder.is_dir() and folder != home:
            return folder
    return HomeLayout(mcpb_home(environ)).pictures


def _configured_directory(home: Path, environ: Mapping[str, str]) -> str:
    folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    try:
        found = _DOWNLOADS.search((folder / "user-dirs.dirs").read_text("utf-8", "replace"))
    except OSError:
        return ""
    return found[1] if found else ""


def save_file(data: bytes, name: str, folder: Path) -> Path:
    """Write a file of that name, or of one with a number if there is one; what is there is never touched.

    Raises:
        ToolError: the folder cannot be written.
    """
    stem, suffix = Path(name).stem, Path(name).suffix
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(1, 1000):
            path = folder / (name if number == 1 else f"{stem}-{number}{suffix}")
            try:
                with path.open("xb") as file:
                    file.write(data)
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise ToolError(
            f"The picture could not be saved in {folder}: {error.strerror}. It can still be read by its link."
        ) from None
    raise ToolError(f"{folder} has a thousand pictures of that name. It can still be read by its link.")


def file_name(wanted: str, suffix: str) -> str:
    """Return a plain name with that suffix."""
    plain = re.sub(r"[^\w. -]", "_", wanted.replace("\\", "/").rpartition("/")[2]).strip(" .")
    stem = plain[: -len(suffix)] if plain.lower().endswith(suffix) else plain
    return f"{stem[:MAX_NAME] or 'picture'}{suffix}"
