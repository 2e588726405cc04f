"""Where mcpb came from, so that it can be installed again: the clone that its record names.

It is not published: on a package index the name may be anybody's, and nobody is sent there.
"""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SCRIPT = "install/install.sh"


def clone() -> Path | None:
    """The folder that this mcpb was installed from; None when that is not known, or it is gone.

    pip, pipx and uv record it (https://packaging.python.org/en/latest/specifications/direct-url/).
    """
    try:
        record = metadata.distribution("mcpb").read_text("direct_url.json")
        url = urlsplit(json.loads(record or "{}")["url"])
    except (metadata.PackageNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return None
    folder = Path(unquote(url.path))
    return folder if url.scheme == "file" and (folder / _SCRIPT).is_file() else None


def installing(folder: Path | None) -> str:
    """The command that installs mcpb from this clone so that it stays; empty where there is none."""
    return f"sh {shlex.quote(str(folder / _SCRIPT))}" if folder else ""


def how_to_install(folder: Path | None) -> str:
    """The same as a sentence, with the ways beside it."""
    if folder is None:
        return (
            "Install it from its clone into an environment of its own: install/install.sh "
            "(or: pipx install DIR, uv tool install DIR)"
        )
    here = shlex.quote(str(folder))
    return (
        f"Install it into an environment of its own: {installing(folder)} "
        f"(or: pipx install {here}, uv tool install {here})"
    )
