"""Processes of the bench: each in a home that is thrown away, and none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from native_host.system.home_layout import HomeLayout

_GOODBYE_S = 5.0


@dataclass(frozen=True)
class Corner:
    """A directory of its own for one subject: what it starts finds no other mcpb and no real profile."""

    directory: Path

    @classmethod
    def below(cls, directory: Path) -> Corner:
        """Make a new directory with a short path, as sockets need."""
        number = sum(1 for _ in directory.glob("c*"))
        corner = cls(directory / f"c{number}")
        corner.directory.mkdir(mode=0o700)
        return corner

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of its processes."""
        own = str(self.directory)
        return {"HOME": own, "MCPB_HOME": own, "TMPDIR": own, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}

    @property
    def run(self) -> Path:
        """Where native hosts have their sockets."""
        return HomeLayout(self.directory).run

    @property
    def log(self) -> Path:
        """What its processes say on stderr."""
        return self.directory / "log"

    def last_words(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""


@contextmanager
def started(
    corner: Corner, command: Sequence[str], stdin: int, stdout: int, *also: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that takes over these descriptors, and close them here.

    `also` it gets under the numbers that they have here. It is in a group of its own, which is killed in the
    end: programs that it started go with it, and Ctrl-C reaches this process alone.
    """
    with corner.log.open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=log,
            pass_fds=also,
            env=corner.env,
            start_new_session=True,
        )
    for descriptor in {stdin, stdout, *also}:
        if descriptor >= 0:  # else one of subprocess's own constants
            os.close(descriptor)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and after a while make it and all that it started."""
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with suppress(BrokenPipeError):
                pipe.close()
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GOODBYE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ran_ms(pid: int) -> float:
    """How long the first thread of a process has run on a processor.

    Raises:
        FileNotFoundError: the process is gone, or the system is not Linux.
    """
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def all_ran_ms(pid: int) -> float:
    """Return how long all threads of a process have run on a processor. Raises as `ran_ms` does."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e6
