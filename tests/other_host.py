"""The real native host of another product, as its extension starts it; install/prepare.sh brings it.

Its home is thrown away, and so is the directory of its sockets: that is named by its user.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from native_host.channel_wire import ABOVE, DIRECTORIES
from peers import until
from stub_extension import Dialect, StubExtension, Tool

PROGRAM = Path(__file__).parent / "interop/node_modules/@anthropic-ai/claude-code-linux-x64/claude"


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
