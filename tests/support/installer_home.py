"""A home of its own for tests of the installer, and the two commands as somebody types them there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from install.cli import install_native_host, uninstall_native_host
from native_host.ipc import endpoint
from native_host.protocol import wire

MANIFEST = f"NativeMessagingHosts/{wire.HOST_NAME}.json"
FIREFOX_MANIFEST = f"native-messaging-hosts/{wire.HOST_NAME}.json"
FOREIGN = f'{{"name": "{wire.HOST_NAME}", "path": "/bin/cat"}}'
"""A sound manifest that starts somebody else's program."""


def live_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let this process belong to somebody whose home directory it is; mcpb's own is `.mcpb` there."""
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    for name in ("MCPB_HOME", "CHROME_CONFIG_HOME", "XDG_CONFIG_HOME", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    passwords = SimpleNamespace(getpwuid=lambda _uid: SimpleNamespace(pw_dir=str(home)))
    monkeypatch.setattr("native_host.system.home_layout.pwd", passwords)
    monkeypatch.setattr(endpoint, "host_directories", lambda _environ: [home / ".mcpb/run"])
    monkeypatch.setattr("install.interpreter._prove", lambda _interpreter: None)  # it starts a process
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
