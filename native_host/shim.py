"""Process entry of the shim: in front of another product's native host, for its own clients and ours.

    python -I …/native_host/shim.py [--home DIR] PROGRAM [what the browser said]

`mcpb install-native-host --shim` writes the script that starts it. That product has to go on whatever becomes
of us: where the rest of mcpb is missing, this process becomes its host. It is started by its path, because
Python would not find it by its name once that is so.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

_GONE = 127
"""As a shell says it."""
_BY_HAND = "A browser starts this. See: mcpb install-native-host --shim\n"


class CommandLine(NamedTuple):
    """What the script says."""

    home: str
    """MCPB_HOME; empty: it is not set."""
    command: list[str]
    """The original program, with the browser's arguments."""


def main() -> None:
    """Relay until the browser or the original host ends.

    Exit codes: 0 one of them has; 2 not started by the script; 127 the original cannot be started.
    """
    given = read_command_line(sys.argv[1:])
    if given is None:
        sys.stderr.write(_BY_HAND)
        sys.exit(2)
    try:
        from native_host import entry, shim_relay  # noqa: PLC0415  (it may be missing)
    except Exception as error:  # noqa: BLE001  (half an upgrade can fail in any way)
        sys.stderr.write(f"mcpb-shim: {error}: going on without mcpb\n")
        _become(given.command)
    gc.freeze()
    entry.overhear_terminal()
    browser_in, browser_out = entry.take_pipes()
    entry.log_to_stderr("mcpb-shim")
    try:
        shim_relay.run(browser_in, browser_out, given.command, given.home)
    except OSError as error:
        _say_gone(given.command, error)


def read_command_line(arguments: Sequence[str]) -> CommandLine | None:
    """None: it is none of the script's."""
    match arguments:
        case ["--home", home, program, *said] if program.startswith("/"):
            return CommandLine(home, [program, *said])
        case [program, *said] if program.startswith("/"):
            return CommandLine("", [program, *said])
    return None


def _become(command: list[str]) -> None:
    try:
        os.execv(command[0], command)  # noqa: S606
    except OSError as error:
        _say_gone(command, error)


def _say_gone(command: list[str], error: OSError) -> None:
    sys.stderr.write(
        f"mcpb-shim: {command[0]}, which mcpb stands before, cannot be started ({error.strerror}). Start the "
        "product that it is of, which puts it right, or: mcpb install-native-host --unshim\n"
    )
    sys.exit(_GONE)


if __name__ == "__main__":
    main()
