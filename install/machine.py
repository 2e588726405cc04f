"""Machine as the installer sees it: system, user, directories. Tests make their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from native_host.system.home_layout import user_home

System = Literal["linux", "macos"]


@dataclass(frozen=True)
class Machine:
    """System, home directory and environment of a user."""

    system: System
    user_home: Path
    """Home of the user by the home rule: `home_layout.user_home`."""
    environ: Mapping[str, str]
    root: Path = Path("/")
    """Root of the directories for all users, and of /proc."""


def this_machine(environ: Mapping[str, str] = os.environ) -> Machine:
    """Return this machine. The command line has rejected Windows."""
    return Machine("macos" if sys.platform == "darwin" else "linux", user_home(environ), environ)
