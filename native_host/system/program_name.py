"""Name of the program that runs, as a command that the user's shell can run."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

NAMES = ("mcpb", "mcpb-bridge")


def command_name(program: str = "", path: str | None = None) -> str:
    """Return what to type: the name if `PATH` has this program, else its path, quoted.

    `program` is how it was started (default: `sys.argv[0]`); `path` replaces `PATH`.
    """
    return shlex.quote(find_program(program, path))


def find_program(program: str = "", path: str | None = None) -> str:
    """Return `command_name` without quotes."""
    own = Path(program or sys.argv[0])
    if own.name not in NAMES:  # `python -m bridge`
        return NAMES[0]
    found = shutil.which(own.name, path=path)
    is_found = found is not None and own.exists() and own.samefile(found)
    return own.name if is_found else str(own.absolute())


def format_command(arguments: str) -> str:
    """Return a command line of this mcpb for a message, such as `mcpb session end shop`."""
    return f"{command_name()} {arguments}"


def sudo_command() -> str:
    """Return what to type to run the program as root, with the `PATH` of root."""
    name = command_name()
    return f'sudo "$(command -v {name})"' if name in NAMES else f"sudo {name}"


def command_path(program: str = "") -> str:
    """Return the whole path of the program, quoted: for programs that do not have the user's `PATH`."""
    own = Path(program or sys.argv[0])
    return shlex.quote(str(own.absolute())) if own.name in NAMES else NAMES[0]


def installed_command() -> str:
    """Return the whole path of the `mcpb` of this virtual environment, quoted; empty outside of one."""
    if sys.prefix == sys.base_prefix:
        return ""  # beside the system's Python, an mcpb may belong to another package
    own = Path(sys.executable).with_name(NAMES[0])
    return command_path(str(own)) if own.exists() else ""
