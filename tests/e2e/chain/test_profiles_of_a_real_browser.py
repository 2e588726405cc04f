"""Profiles and processes of a real Chromium, as `mcpb doctor` reads them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import trio

import extension
from demo.chromium import open_chromium
from install.browsers import known_browsers
from install.checks.profiles import chromium_extensions, is_used_in
from install.checks.running_browsers import running_browsers
from install.machine import this_machine
from native_host import __version__
from native_host.protocol.wire import EXTENSION_ID
from wire_peers import until


async def test_a_real_chromium_writes_down_what_we_read(short_tmp: Path) -> None:
    """The list when it ends, and what the extension stores at once."""
    profile = short_tmp / "profile"
    folder = Path(next(iter(extension.__path__)))
    with trio.fail_after(120):
        async with open_chromium(profile) as chromium:
            assert chromium_extensions(profile) == []
            await chromium.load_extension(folder)
            await until(lambda: is_used_in(profile))
            await chromium.send("Browser.close")
            await chromium.process.wait()
    installed = chromium_extensions(profile)
    assert installed is not None
    (found,) = installed
    assert (found.extension_id, found.is_enabled, found.version) == (EXTENSION_ID, True, __version__)


async def test_a_real_chromium_is_found_once_with_its_folder(short_tmp: Path) -> None:
    if this_machine().system != "linux":
        pytest.skip("the executable's name is read from /proc")
    with trio.fail_after(120):
        async with open_chromium(short_tmp / "profile") as chromium:
            await chromium.open_page("data:text/html,a renderer of its own")
            its_own = replace(this_machine(), user_home=short_tmp / "profile")
            running = running_browsers(its_own, known_browsers(), os.getuid())
            ours = [each for each in running if each.user_data_dir == short_tmp / "profile"]
            assert [each.pid for each in ours] == [chromium.process.pid]
