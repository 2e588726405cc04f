"""The client's end, the tools' end and the bare copier: in C where there is a compiler, else in Python.

Each is there twice, with one command line (said on top of the C file). What is measured then is the route
between the ends, and not the ends.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SOURCES = Path(__file__).parent
COMPILERS = ("cc", "gcc", "clang")


@dataclass(frozen=True)
class Programs:
    """Commands, without their arguments."""

    client: list[str]
    answerer: list[str]
    copier: list[str]
    python_copier: list[str]
    are_in_c: bool
    """Else the copier in C, the floor, is missing, and `copier` is the one in Python."""

    @property
    def name(self) -> str:
        """What the ends are, for a table's note."""
        return "both ends in C" if self.are_in_c else "both ends in Python (no C compiler: no floor)"


def build(directory: Path) -> Programs:
    """Compile the C programs into `directory`.

    Raises:
        subprocess.CalledProcessError: there is a compiler, and it does not take them.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    python = {name: [sys.executable, "-I", "-m", f"benchmarks.{name}"] for name in _NAMES}
    if compiler is None:
        return Programs(**python, python_copier=python["copier"], are_in_c=False)
    for name in _NAMES:
        command = [compiler, "-O2", "-Wall", "-o", str(directory / name), str(_SOURCES / f"{name}.c")]
        subprocess.run(command, check=True, timeout=60)
    compiled = {name: [str(directory / name)] for name in _NAMES}
    return Programs(**compiled, python_copier=python["copier"], are_in_c=True)


_NAMES = ("client", "answerer", "copier")
