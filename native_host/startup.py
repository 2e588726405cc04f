"""Startup of a process that a browser starts: guarded pipes, terminal signals, log on stderr."""

from __future__ import annotations

import logging
import os
import signal
import sys
from types import FrameType

from native_host.system.exhaustion import LogFormatter


def detach_stdio() -> tuple[int, int]:
    """Move the browser's pipes away from 0 and 1, so that no print and no child process reaches them."""
    browser_in, browser_out = os.dup(0), os.dup(1)  # dup makes them close on exec
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return browser_in, browser_out


def ignore_terminal_signals() -> None:
    """Ignore Ctrl-C and a hang-up: they are meant for the browser, which shares the process group.

    The process ends at the end of input. Child processes do not inherit the handlers.
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
    on_stderr = logging.StreamHandler(sys.stderr)
    on_stderr.setFormatter(LogFormatter(f"{program}: %(levelname)s %(message)s"))
    logging.basicConfig(level=level, handlers=[on_stderr])
