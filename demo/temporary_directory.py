"""A directory that is gone afterwards, also when a browser was killed on it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TRIES = 100
PAUSE_SECONDS = 0.1
"""Measured: a killed Chromium's last processes write for up to 0.5 s, on an idle machine."""


@contextmanager
def throw_away_directory(prefix: str = "mcpb-") -> Iterator[Path]:
    """Create a private directory with a short path: sockets in it must fit into an address (108 bytes).

    Raises:
        OSError: it could not be removed in TRIES tries.
    """
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield directory
    finally:
        _remove(directory)


def _remove(directory: Path) -> None:
    for _ in range(TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(PAUSE_SECONDS)
    shutil.rmtree(directory)
