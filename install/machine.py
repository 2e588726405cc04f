"""The machine as the rules of this package see it; a test makes one of its own, of either system."""

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
    """Whose browsers, on which system."""

    system: System
    user_home: Path
    """Home of the user by the home rule: `home_layout.user_home`."""
    environ: Mapping[str, str]
    root: Path = Path("/")
    """Where the folders for all users begin, and /proc."""


def this_machine(environ: Mapping[str, str] = os.environ) -> Machine:
    """The one we run on. (Windows has been refused by the command line before.)"""
    return Machine("macos" if sys.platform == "darwin" else "linux", user_home(environ), environ)
