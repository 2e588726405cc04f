"""The installation that is registered: where its files are, for whom, and which Python runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from install.browsers import Level
from install.machine import Machine
from native_host import __version__
from native_host.system.home_layout import HomeLayout

SYSTEM_HOME = "usr/local/lib/mcpb"
"""Where wrapper and ledger of an installation for all users are, from the root."""


@dataclass(frozen=True)
class Home:
    """The folder below which everything of one installation is, but for manifests."""

    path: Path
    user_home: Path
    """Below which browsers look; of use when it moves."""
    level: Level = "user"

    @property
    def wrapper(self) -> Path:
        """What manifests point at."""
        return HomeLayout(self.path).wrapper

    @property
    def ledger(self) -> Path:
        """What we have written."""
        return HomeLayout(self.path).ledger

    @property
    def backup(self) -> Path:
        """Where other people's files wait that stood in our places."""
        return HomeLayout(self.path).backup

    @property
    def run(self) -> Path:
        """Where hosts put their sockets, unless the system has a better place."""
        return HomeLayout(self.path).run

    @property
    def directories(self) -> list[Path]:
        """All that may be ours, the inner ones first."""
        return [self.wrapper.parent, self.run, self.backup, self.ledger.parent, self.path]

    @property
    def directory_mode(self) -> int:
        """For the person alone, where it is the person's."""
        return 0o700 if self.level == "user" else 0o755

    @property
    def program_mode(self) -> int:
        """Of the wrapper."""
        return 0o700 if self.level == "user" else 0o755

    @property
    def file_mode(self) -> int:
        """Of manifests and of the ledger; Chromium and Firefox run as the same user and ask for no more."""
        return 0o600 if self.level == "user" else 0o644


def system_home(machine: Machine) -> Home:
    """Of an installation for all users of this machine."""
    return Home(machine.root / SYSTEM_HOME, machine.user_home, "system")


@dataclass(frozen=True)
class Host:
    """What the wrapper starts."""

    home: Home
    interpreter: Path
    bakes_home: bool = False
    """True if the wrapper exports `MCPB_HOME`; else the host follows the home rule."""
    version: str = __version__
