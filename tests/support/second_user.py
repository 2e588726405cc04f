"""Commands that a second user of the machine runs, as root's tests can start them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")


def as_nobody(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    """Run Python code as another user, who may read the project but nothing of ours."""
    program = f"import os, socket, sys\nos.setgid({NOBODY}); os.setuid({NOBODY})\n{code}"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


CONNECT = "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
