"""`make bench`."""

from __future__ import annotations

import sys

from benchmarks import browser, hub
from benchmarks.table import show


def main() -> int:
    """Measure and print; 1 when something is slower than it may be."""
    is_good = show("The hub alone", hub.rows())
    is_good &= show("From page to client, in a real Chromium", browser.rows())
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
