"""Temporary homes: the installer's commands, an isolated machine, a second user."""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from bridge.cli.group import main
from demo.temporary_directory import throw_away_directory
from install.cli import install_native_host, uninstall_native_host
from native_host.ipc import endpoint
from native_host.protocol import wire

MANIFEST = f"NativeMessagingHosts/{wire.HOST_NAME}.json"
FIREFOX_MANIFEST = f"native-messaging-hosts/{wire.HOST_NAME}.json"
FOREIGN = f'{{"name": "{wire.HOST_NAME}", "path": "/bin/cat"}}'
"""A sound manifest that starts somebody else's program."""


def write_claude(directory: Path) -> Path:
    """Write a `claude` that notes its arguments in `calls` beside it, and changes no settings."""
    directory.mkdir(parents=True)
    program = directory / "claude"
    program.write_text('#!/bin/sh\necho "$@" >>"$(dirname "$0")/calls"\n')
    program.chmod(0o755)
    return program


def live_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let this process belong to somebody whose home directory it is; mcpb's own is `.mcpb` there."""
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    for name in ("MCPB_HOME", "CHROME_CONFIG_HOME", "XDG_CONFIG_HOME", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    passwords = SimpleNamespace(getpwuid=lambda _uid: SimpleNamespace(pw_dir=str(home)))
    monkeypatch.setattr("native_host.system.home_layout.pwd", passwords)
    monkeypatch.setattr("install.targets.installed_browsers", lambda *_: [])
    monkeypatch.setattr(endpoint, "host_directories", lambda _environ: [home / ".mcpb/run"])
    monkeypatch.setattr(
        "install.interpreter._prove_interpreter", lambda _interpreter: None
    )  # it starts a process
    return home


def use(browser: Path) -> Path:
    """A browser has been used: its folder is there."""
    browser.mkdir(parents=True)
    return browser


def install(*arguments: str) -> Result:
    """`mcpb install-native-host --yes …`."""
    return CliRunner().invoke(install_native_host, ["--yes", *arguments])


def uninstall(*arguments: str) -> Result:
    """`mcpb uninstall-native-host --yes …`."""
    return CliRunner().invoke(uninstall_native_host, ["--yes", *arguments])


def foreign(path: Path, content: str = FOREIGN) -> Path:
    """Another product's file in our place."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    return path


# ── An empty home directory for the product, and its commands there ─────────────────────────────────────────


@contextmanager
def isolated_machine() -> Iterator[Path]:
    """Give the product an empty home, without settings, browsers, native hosts or Claude in Chrome."""
    logger = logging.getLogger("bridge")
    level = logger.level
    with throw_away_directory() as home:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "MCPB_HOME": str(home / ".mcpb"),
            "MCPB_EXISTING_CHANNEL_DIRECTORY": "/nonexistent",
        }
        try:
            with (
                patch.dict(os.environ, environ, clear=True),
                patch("install.targets.installed_browsers", lambda *_: []),
            ):
                yield home
        finally:
            logger.setLevel(level)  # `mcpb doctor` and `MCPB_LOG` change it


def run_mcpb(command: str) -> Result:
    """Run a command line that begins with `mcpb`, in this process and without a terminal.

    A crash raises its exception: it would end with 1, as an error does.
    """
    return CliRunner().invoke(main, shlex.split(command)[1:], catch_exceptions=False)


def get_state_directory(home: Path) -> Path:
    """Return the state directory of mcpb below a home directory."""
    return home / ".mcpb/state"


# ── Commands that a second user of the machine runs, as root's tests can s ──────────────────────────────────


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
