"""Platform check: rejects native Windows before the first import that fails there."""

from __future__ import annotations

import sys

_SENTENCE = """\
mcpb does not run in Windows itself, but it runs in WSL, also for browsers of Windows:
run `wsl --install` in a terminal of Windows, and install mcpb again in the Linux that it opens.
"""


def refuse_windows() -> None:
    """Exit with 1 and what to do instead, where this is native Windows."""
    if sys.platform == "win32":
        sys.stderr.write(_SENTENCE)
        sys.exit(1)
