"""The real native host of another product, as its extension starts it; install/prepare.sh brings it.

Its home is thrown away, and so is the directory of its sockets: that is named by its user.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fake_claude_extension import ORIGIN, Dialect, StubExtension, Tool
from native_host.existing_channel.channel_messages import ABOVE, CLAUDE_CODE, CLAUDE_DESKTOP, DIRECTORIES
from wire_peers import until

PROGRAM = Path(__file__).parents[1] / "data/interop/node_modules/@anthropic-ai/claude-code-linux-x64/claude"

HOST_NAMES = (CLAUDE_CODE, CLAUDE_DESKTOP)


def why_missing() -> str:
    """Why its tests cannot run; empty where they can, and in CI on a system that it is made for."""
    system = f"{platform.system()} {platform.machine()}"
    if system != "Linux x86_64":
        return f"the other product's host in package.json is that for Linux x86_64, this is {system}"
    if PROGRAM.exists() or os.environ.get("CI"):
        return ""
    return "the other product's host is not there: make interop"


@dataclass
class OtherHost:
    """One user of that product: where it has its files, and how it is started."""

    home: Path
    user: str = field(default_factory=lambda: f"mcpb-test-{secrets.token_hex(4)}")

    @property
    def command(self) -> list[str]:
        return [str(PROGRAM), "--chrome-native-host"]

    @property
    def env(self) -> dict[str, str]:
        """Nothing of ours is told to anybody."""
        quiet = {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return {**quiet, "HOME": str(self.home), "USER": self.user}

    @property
    def directory(self) -> Path:
        """Of its sockets."""
        return Path(ABOVE) / DIRECTORIES.replace("*", self.user)

    def installed(self) -> Path:
        """As the product leaves it on a disk: settings, manifests for Chromium, and what they start."""
        wrapper = self.home / ".claude/chrome/chrome-native-host"
        wrapper.parent.mkdir(parents=True)
        wrapper.write_text(f"#!/bin/sh\nexec {shlex.join(self.command)}\n")
        wrapper.chmod(0o755)
        (self.home / ".claude/settings.json").write_text("{}")
        manifests = self.home / ".config/chromium/NativeMessagingHosts"
        manifests.mkdir(parents=True)
        for name in HOST_NAMES:
            about = {"name": name, "description": "another", "type": "stdio", "path": str(wrapper)}
            text = json.dumps({**about, "allowed_origins": [ORIGIN]})
            (manifests / f"{name}.json").write_text(text)
        return wrapper

    def files(self) -> dict[Path, object]:
        """All that is theirs and how it is: kind, mode, inode, when it was changed, and what is in it."""
        manifests = [self.home / f".config/chromium/NativeMessagingHosts/{name}.json" for name in HOST_NAMES]
        folders = [self.home / ".claude", self.directory]
        found = [*manifests, *(path for folder in folders for path in [folder, *sorted(folder.rglob("*"))])]
        return {path: _state(path) for path in found}

    def extension(
        self, dialect: Dialect = "tagged", tools: Mapping[str, Tool] | None = None
    ) -> StubExtension:
        """An extension that starts this host."""
        return StubExtension(self.command, env=self.env, dialect=dialect, tools=tools)

    async def socket(self, extension: StubExtension) -> Path:
        """Where clients of the extension's present host connect, once they can."""
        path = self.directory / f"{extension.pid}.sock"
        await until(path.is_socket)
        return path


def _state(path: Path) -> object:
    how = path.lstat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return how.st_mode, how.st_ino, how.st_uid, how.st_size, how.st_mtime_ns, how.st_ctime_ns, content


@contextmanager
def other_host(directory: Path) -> Iterator[OtherHost]:
    """A user of that product whose home is below the directory; a killed host's sockets go with the block."""
    if reason := why_missing():
        pytest.skip(reason)
    host = OtherHost(directory / "theirs")
    host.home.mkdir()
    try:
        yield host
    finally:
        shutil.rmtree(host.directory, ignore_errors=True)
