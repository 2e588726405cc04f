"""Program that shows what kind of process it is in, for the tests of the fork server."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from pathlib import Path


def main() -> None:
    """Answer each line of stdin, a command, with a line."""
    for line in sys.stdin:
        match line.split():
            case ["show"]:
                sys.stderr.write("shown\n")
                _answer(json.dumps(_describe()))
            case ["pid"]:
                _answer(os.getpid())
            case ["random"]:
                _answer(random.random())
            case ["close"]:
                os.close(1)
            case ["exit", status]:
                sys.exit(int(status))


def _answer(value: object) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


def _describe() -> dict[str, object]:
    return {
        "argv": sys.argv,
        "directory": str(Path.cwd()),
        "environment": dict(os.environ),
        "descriptors": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists()),
        "threads": threading.active_count(),
        "pid": os.getpid(),
        "session": os.getsid(0),
    }
