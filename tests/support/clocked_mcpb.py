"""`mcpb` whose clock is ahead: `clocked_mcpb.py FILE ARGUMENTS…`; the file has the seconds, at any moment."""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    ahead, read_clock = Path(sys.argv.pop(1)), time.time
    time.time = lambda: read_clock() + float(ahead.read_text())
    sys.path[0] = str(ROOT)
    runpy.run_module("bridge", run_name="__main__")
