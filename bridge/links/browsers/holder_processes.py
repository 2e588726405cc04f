"""Holder processes of the existing channel: detected once a second, started where one is missing.

A holder (`native_host/existing_channel/holder.py`) belongs to no bridge: the first that needs it starts it,
all share it, and it ends when no bridge uses it.
"""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path

from native_host.existing_channel.channel_messages import BRAND
from native_host.existing_channel.channel_sockets import (
    FoundChannel,
    describe_directory,
    describe_ended_host,
    find_channels,
)
from native_host.system import proc
from native_host.system.problem import Problem
from native_host.system.program_name import format_command

LOOK_EVERY_S = 1.0
AGAIN_S = 5.0
"""Before a holder is started again for the same socket: after each failure twice as long as before."""
MOST_AGAIN_S = 160.0
"""A socket of a killed host, whose pid another process has now, is never held."""
COMING_S = 3.0
"""Seconds that a started holder has to appear."""
COMMAND = (sys.executable, "-I", "-m", "native_host.existing_channel.holder")

_DOCTOR = format_command("doctor")
_NOTHING = (
    "The process that is to hold {socket} has come to nothing; it is started again now and then. To find out "
    "why, run: {doctor}"
)

_log = logging.getLogger(__name__)


@dataclass
class _HolderProcess:
    """A holder that this bridge has started."""

    at: float
    process: subprocess.Popen[bytes] | None = None
    """None: it could not be started."""
    problem: str = ""
    again_s: float = AGAIN_S
    """Seconds until the next one may be started."""

    @property
    def is_running(self) -> bool:
        """A child that has ended is reaped by that."""
        return self.process is not None and self.process.poll() is None

    @property
    def has_failed(self) -> bool:
        """One that ends in peace leaves the socket to another holder, or found it gone."""
        return self.process is None or self.process.poll() not in (None, 0)


class HolderProcesses:
    """Starts a holder for each usable socket. Times are on trio's clock."""

    def __init__(self, directory: Path | None = None, command: tuple[str, ...] = COMMAND) -> None:
        """Make the starter of holders.

        Args:
            directory: the only one to scan; None: all directories in which that product puts sockets.
            command: command line of a holder, which gets the socket's path as its last argument.
        """
        self._directory = directory
        self._command = command
        self._look_at = -math.inf
        self._found: list[FoundChannel] = []
        self._last: FoundChannel | None = None
        """That could be used, of all that were ever found."""
        self._started: dict[str, _HolderProcess] = {}

    def scan_sockets(self, held: Container[str], now: float, *, at_once: bool = False) -> set[str]:
        """Start the holders that are missing. `held` are the sockets that have one.

        Without `at_once` it is looked for sockets LOOK_EVERY_S apart.

        Returns:
            The sockets whose holders are on their way.
        """
        for socket, started in self._started.items():
            if socket in held:
                started.again_s = 0  # it serves: what ends it may not end the next
        if at_once or now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._found = find_channels(self._directory)
            for channel in self._found:
                if not channel.fault:
                    self._last = channel
                    self._see_to(str(channel.path), held, now)
        return {socket for socket, it in self._started.items() if socket not in held and _is_coming(it, now)}

    def find_problems(self, held: Container[str], now: float) -> dict[str, str]:
        """Return the reason why a usable socket has no holder, by socket."""
        usable = {str(channel.path) for channel in self._found if not channel.fault}
        told = {}
        for socket in usable & self._started.keys():
            started = self._started[socket]
            if socket not in held and not _is_coming(started, now):
                text = _NOTHING.format(socket=socket, doctor=_DOCTOR)
                told[socket] = started.problem or Problem(text, _DOCTOR)
        return told

    def let_go(self) -> None:
        """Our bridge ends; other bridges may need the holders that it has started."""
        for started in self._started.values():
            if started.is_running and started.process:
                started.process.returncode = 0  # It continues without a parent: avoid the warning.
        self._started.clear()

    def explain_missing(self, stopped_host: Callable[[], str] = lambda: "") -> str:
        """Return a sentence on why no channel is used.

        `stopped_host` detects a host that serves no client any more, and returns the remedy. It reads all
        processes, so it is called last.
        """
        if any(not channel.fault for channel in self._found):
            return "An existing channel was found, but no holder is connected to it yet."
        if (last := self._last) and last.pid and proc.is_running(last.pid):
            return f"{describe_ended_host(last.path, last.pid)}."
        if stopped := stopped_host():
            return f"{stopped}."
        if unusable := next(iter(self._found), None):
            run = f" Run: {unusable.mend}" if unusable.mend else ""
            text = f"The existing channel {unusable.path} is not used: {unusable.fault}.{run}"
            return Problem(text, unusable.mend)
        where = f" {describe_directory(self._directory)}" if self._directory else ""
        return Problem(
            f"No existing channel was found either{where}: {BRAND} has none until its extension has started "
            f"its native host. To see what is there, run: {_DOCTOR}",
            _DOCTOR,
        )

    def _see_to(self, socket: str, held: Container[str], now: float) -> None:
        if socket in held:
            return
        last = self._started.get(socket)
        if last is None:
            self._started[socket] = self._start_holder(socket, now)
        elif not last.is_running and now >= last.at + last.again_s:
            self._started[socket] = started = self._start_holder(socket, now)
            if last.has_failed:
                started.again_s = max(AGAIN_S, min(2 * last.again_s, MOST_AGAIN_S))

    def _start_holder(self, socket: str, now: float) -> _HolderProcess:
        try:
            process = subprocess.Popen(
                [*self._command, socket],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            problem = f"The process that holds {socket} cannot be started: {error.strerror}"
            _log.warning("%s", problem)
            return _HolderProcess(now, problem=problem)
        _log.debug("a holder of %s is started (pid %d)", socket, process.pid)
        return _HolderProcess(now, process)


def _is_coming(started: _HolderProcess, now: float) -> bool:
    return now < started.at + COMING_S and not started.has_failed
