"""What a process does first that a browser starts: its pipes guarded, its log on stderr."""

from __future__ import annotations

import logging
import os
import signal
import sys
from types import FrameType


def take_pipes() -> tuple[int, int]:
    """Move the browser's pipes away from 0 and 1, so that no stray print and no child reaches them."""
    browser_in, browser_out = os.dup(0), os.dup(1)  # dup makes them close on exec
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return browser_in, browser_out


def overhear_terminal() -> None:
    """Go on at Ctrl-C or a hang-up: the browser shares its process group with us, and they are meant for it.

    What ends us is the end of input. A child begins with what signals usually do: it does not inherit this.
    """
    for meant_for_browser in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(meant_for_browser) is not signal.SIG_IGN:
            signal.signal(meant_for_browser, _go_on)


def _go_on(_signal: int, _frame: FrameType | None) -> None:
    pass


def log_to_stderr(program: str) -> None:
    """Warnings, unless MCPB_LOG asks for more."""
    level = {"debug": logging.DEBUG, "wire": logging.DEBUG}.get(
        os.environ.get("MCPB_LOG", ""), logging.WARNING
    )
    logging.basicConfig(stream=sys.stderr, level=level, format=f"{program}: %(levelname)s %(message)s")
