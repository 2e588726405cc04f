"""A browser whose HOME is not that of the terminal: the installed command registers, and finds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from demo.chromium import open_chromium
from full_chain import EXTENSION
from native_host.system.home_layout import HomeLayout

MCPB = Path(sys.executable).with_name("mcpb")
"""As pip installed it."""
SOON_S = 60.0


@dataclass
class Terminal:
    """A terminal with a home directory."""

    home: Path

    async def mcpb(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run the installed command. It gets no MCPB_HOME."""
        kept = ("PATH", "MCPB_EXISTING_CHANNEL_DIRECTORY")
        env = {"HOME": str(self.home), **{name: os.environ[name] for name in kept}}
        return await trio.run_process(
            [str(MCPB), *arguments], env=env, capture_stdout=True, capture_stderr=True, check=False
        )

    async def browsers(self) -> list[Any]:
        """Return the browsers that `mcpb status` lists."""
        found: list[Any] = json.loads((await self.mcpb("status", "--json")).stdout)["browsers"]
        return found

    async def wait_browser(self) -> Any:
        """Wait until `mcpb status` lists a browser, and return it."""
        while not (found := await self.browsers()):  # noqa: ASYNC110 - a command announces nothing
            await trio.sleep(0.1)
        return found[0]


@pytest.fixture
def terminal(short_tmp: Path) -> Terminal:
    home = short_tmp / "h"
    home.mkdir(mode=0o700)
    return Terminal(home)


async def test_a_browser_with_another_home_is_listed_in_the_home_of_the_registration(
    terminal: Terminal, short_tmp: Path
) -> None:
    profile, other_home = short_tmp / "profile", short_tmp / "other"
    profile.mkdir()
    other_home.mkdir(mode=0o700)
    registered = await terminal.mcpb("install-native-host", "--yes", "--user-data-dir", str(profile))
    assert registered.returncode == 0, registered.stderr
    assert HomeLayout(terminal.home / ".mcpb").wrapper.exists()

    env = {"HOME": str(other_home), "MCPB_HOME": "/nonexistent", "TMPDIR": str(short_tmp)}
    with trio.fail_after(SOON_S):
        async with open_chromium(profile, env=env) as chromium:
            await chromium.load_extension(EXTENSION)
            assert (await terminal.wait_browser())["brand"] == "Chromium"

    assert not HomeLayout(other_home / ".mcpb").path.exists()
    assert (await terminal.mcpb("uninstall-native-host", "--yes", "--purge")).returncode == 0
    assert not (terminal.home / ".mcpb").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")
@pytest.mark.parametrize(
    "arguments", [["install-native-host", "--yes"], ["uninstall-native-host", "--yes"], ["doctor", "--fix"]]
)
async def test_a_command_that_writes_rejects_the_home_of_another_user_and_names_it(
    terminal: Terminal, arguments: list[str]
) -> None:
    os.chown(terminal.home, 65534, 65534)
    rejected = await terminal.mcpb(*arguments)
    assert rejected.returncode == 1
    assert str(terminal.home) in rejected.stderr.decode()
    assert not (terminal.home / ".mcpb").exists()
