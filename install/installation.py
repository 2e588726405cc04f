"""Paths of an installation, and the registered host: the Python that the wrapper starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from install.browsers import Level
from install.machine import Machine
from native_host import __version__
from native_host.system.home_layout import HomeLayout

SYSTEM_HOME = "usr/local/lib/mcpb"
"""Directory of wrapper and ledger of an installation for all users, from the root."""


@dataclass(frozen=True)
class InstallationPaths:
    """The folder below which everything of one installation is, but for manifests."""

    path: Path
    user_home: Path
    """Below which browsers look; of use when it moves."""
    level: Level = "user"

    @property
    def wrapper(self) -> Path:
        """Program that manifests name."""
        return HomeLayout(self.path).wrapper

    @property
    def ledger(self) -> Path:
        """Record of written files."""
        return HomeLayout(self.path).ledger

    @property
    def backup(self) -> Path:
        """Directory for files of others that were moved away."""
        return HomeLayout(self.path).backup

    @property
    def run(self) -> Path:
        """Directory of the hosts' sockets, unless the system has a better one."""
        return HomeLayout(self.path).run

    @property
    def directories(self) -> list[Path]:
        """All that may be ours, the inner ones first."""
        return [self.wrapper.parent, self.run, self.backup, self.ledger.parent, self.path]

    @property
    def directory_mode(self) -> int:
        """Return the mode of directories: private for a user's installation."""
        return 0o700 if self.level == "user" else 0o755

    @property
    def program_mode(self) -> int:
        """Return the mode of the wrapper."""
        return 0o700 if self.level == "user" else 0o755

    @property
    def file_mode(self) -> int:
        """Return the mode of manifests and of the ledger; Chromium and Firefox run as the same user."""
        return 0o600 if self.level == "user" else 0o644


def system_home(machine: Machine) -> InstallationPaths:
    """Return the paths of an installation for all users of this machine."""
    return InstallationPaths(machine.root / SYSTEM_HOME, machine.user_home, "system")


@dataclass(frozen=True)
class RegisteredHost:
    """Host that the wrapper starts."""

    home: InstallationPaths
    interpreter: Path
    bakes_home: bool = False
    """True if the wrapper exports `MCPB_HOME`; else the host follows the home rule."""
    version: str = __version__
