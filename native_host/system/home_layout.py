"""Where everything of mcpb is: a file of its own, wanted where nothing heavy may be imported."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path


def mcpb_home(environ: Mapping[str, str] = os.environ) -> Path:
    """`MCPB_HOME`, or `.mcpb` in the home directory that the password database names (not `$HOME`)."""
    if chosen := environ.get("MCPB_HOME"):
        return Path(chosen).absolute()
    return Path(pwd.getpwuid(os.getuid()).pw_dir) / ".mcpb"
