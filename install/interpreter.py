"""Which Python the wrapper starts, and whether it will do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROBE_SECONDS = 20.0


class InterpreterError(Exception):
    """The running interpreter cannot be baked into a wrapper; the text says what to do."""


def current_interpreter() -> Path:
    """The interpreter that runs this command: of its environment, not what a link there leads to.

    Raises:
        InterpreterError: it cannot run the native host the way the wrapper will.
    """
    interpreter = Path(sys.executable)
    if not interpreter.is_absolute():
        raise InterpreterError("Python does not know where it is: run mcpb by its full path")
    _prove(interpreter)
    return interpreter


def _prove(interpreter: Path) -> None:
    """With -I the person's own site directory is not searched: what was installed there is not found."""
    probe = [str(interpreter), "-I", "-c", "import native_host.__main__"]
    ended = subprocess.run(
        probe, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
    )
    if ended.returncode == 0:
        return
    reason = (ended.stderr.strip().splitlines() or ["no message"])[-1]
    raise InterpreterError(
        f"{interpreter} -I cannot import mcpb ({reason}). "
        "Install mcpb into an environment of its own: pipx install mcpb"
    )
