"""The program that stands before another product's native host: a few lines of /bin/sh, as wrapper.py's.

The browser's environment passes as it is, because that host is to have it. When mcpb is gone the script
starts that host alone: what is not ours goes on working.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

import native_host

MODULE = Path(native_host.__file__).with_name("shim.py")
"""What is run, by its path: it sees for itself where the rest of mcpb is gone, as it is for an interpreter
that has become another version, and goes on without it."""
_MARK = "# Written by `mcpb install-native-host --shim` from "


class Shim(msgspec.Struct, frozen=True, kw_only=True):
    """What the script is made from; it is kept in a comment of the script."""

    version: str
    """Of the mcpb that wrote it."""
    interpreter: str
    """Absolute; run with -I, as the wrapper's."""
    module: str
    home: str | None
    """MCPB_HOME, or None where it is not set."""
    program: str
    """The other product's, to be started with what the browser says."""


def script(shim: Shim) -> str:
    """The text of the script."""
    home = f"--home {shlex.quote(shim.home)} " if shim.home is not None else ""
    interpreter, module, program = map(shlex.quote, (shim.interpreter, shim.module, shim.program))
    return f"""\
#!/bin/sh
{_MARK}{msgspec.json.encode(shim).decode()}
if [ -x {interpreter} ] && [ -f {module} ]; then
    exec {interpreter} -I {module} {home}{program} "$@"
fi
# mcpb is gone: the browser gets what it had before.
exec {program} "$@"
"""


def is_ours(text: str) -> bool:
    """Whether mcpb wrote a script, of whatever version."""
    return _second_line(text).startswith(_MARK)


def read(text: str) -> Shim | None:
    """What a script was made from; None when it is not one of ours, or does not say it any more."""
    if not is_ours(text):
        return None
    try:
        return msgspec.json.decode(_second_line(text).removeprefix(_MARK), type=Shim)
    except (msgspec.DecodeError, RecursionError):
        return None


def _second_line(text: str) -> str:
    return "".join(text.split("\n", 2)[1:2])
