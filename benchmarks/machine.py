"""On what a run was made."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

BUSY = 1.0
"""Load of the last minute before the measurement above which another program uses a processor."""
PACKAGES = ("mcp", "trio", "msgspec")


def describe() -> dict[str, str]:
    """Machine, versions, date and load, as they are now."""
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in PACKAGES)
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "versions": f"Python {platform.python_version()}, mcpb {metadata.version('mcpb')}, {versions}",
        "load": load_in_words(os.getloadavg()),
    }


def load_in_words(averages: tuple[float, float, float]) -> str:
    """Return the load of the last 1, 5 and 15 minutes, with a warning if it affects the figures."""
    text = " ".join(f"{load:.2f}" for load in averages)
    if averages[0] < BUSY:
        return text
    return f"{text} (others are busy here: p99 and calls/s say little, and ratios of small calls shift)"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
