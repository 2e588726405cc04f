"""Progress of `make test`: passes the output of the groups on, and shows which run and for how long.

The Makefile keeps `running-<group>`, a time in seconds since 1970, in the directory of results while a group
runs. On a terminal one line shows them; elsewhere each group has a line when it begins.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

POLL_S = 1.0
_ERASE = "\r\x1b[K"


def show_progress(results: Path, source: int) -> None:
    """Copy a descriptor's lines to stdout until its end, with the groups that run."""
    is_terminal, named = sys.stdout.isatty(), set[str]()
    for lines in _read_lines(source):
        if is_terminal:
            sys.stdout.write(_ERASE + lines + format_groups(results, time.time())[: _columns()])
        else:
            groups = set(_find_groups(results))
            sys.stdout.write("".join(f"Running {group} ...\n" for group in sorted(groups - named)) + lines)
            named |= groups
        sys.stdout.flush()
    if is_terminal:
        sys.stdout.write(_ERASE)


def format_groups(results: Path, now: float) -> str:
    """Return `test-unit 1:05, check 0:03`."""
    seconds = {group: max(0, int(now - began)) for group, began in _find_groups(results).items()}
    return ", ".join(f"{group} {ran // 60}:{ran % 60:02}" for group, ran in seconds.items())


def _find_groups(results: Path) -> dict[str, float]:
    found = {}
    for path in sorted(results.glob("running-*")):
        text = path.read_text() if path.exists() else ""
        if text.strip().isdigit():  # else it begins or ends at this moment
            found[path.name.removeprefix("running-")] = float(text)
    return found


def _columns() -> int:
    return os.get_terminal_size(sys.stdout.fileno()).columns - 1


def _read_lines(source: int) -> Iterator[str]:
    """Yield whole lines as they come, and an empty text each second; at the end what is left."""
    waiting = b""
    while True:
        if not select.select([source], [], [], POLL_S)[0]:
            yield ""
            continue
        data = os.read(source, 65536)
        *lines, waiting = (waiting + data).split(b"\n")
        if lines:
            yield b"\n".join([*lines, b""]).decode(errors="replace")
        if not data:
            yield waiting.decode(errors="replace")
            return


if __name__ == "__main__":
    try:
        show_progress(Path(sys.argv[1]), sys.stdin.fileno())
    except KeyboardInterrupt:
        sys.exit(130)
