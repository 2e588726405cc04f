"""An empty home directory for the product, and its commands there."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner, Result

from bridge.cli.group import main
from demo.temporary_directory import throw_away_directory


@contextmanager
def isolated_machine() -> Iterator[Path]:
    """Give the product an empty home directory, without settings, native hosts or Claude in Chrome."""
    logger = logging.getLogger("bridge")
    level = logger.level
    with throw_away_directory() as home:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "MCPB_HOME": str(home / ".mcpb"),
            "MCPB_EXISTING_CHANNEL_DIRECTORY": "/nonexistent",
        }
        try:
            with patch.dict(os.environ, environ, clear=True):
                yield home
        finally:
            logger.setLevel(level)  # `mcpb doctor` and `MCPB_LOG` change it


def run_mcpb(command: str) -> Result:
    """Run a command line that begins with `mcpb`, in this process and without a terminal.

    A crash raises its exception: it would end with 1, as an error does.
    """
    return CliRunner().invoke(main, shlex.split(command)[1:], catch_exceptions=False)


def get_state_directory(home: Path) -> Path:
    """Return the state directory of mcpb below a home directory."""
    return home / ".mcpb/state"
