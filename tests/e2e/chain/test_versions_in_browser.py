"""Chromium with an extension of another wire version: every reader learns both versions and the command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import trio

from full_chain import EXTENSION, Chain, until_said
from native_host.protocol.wire import WIRE_VERSION

SPOKEN = f"WIRE_VERSION = {WIRE_VERSION};"


@pytest.mark.parametrize(
    ("theirs", "command"),
    [(WIRE_VERSION - 1, "mcpb extension"), (WIRE_VERSION + 1, "mcpb install-native-host")],
)
async def test_an_extension_of_another_wire_version_is_reported_with_both_and_the_command(
    chain: Chain, theirs: int, command: str
) -> None:
    folder = chain.home / "other-extension"
    shutil.copytree(EXTENSION, folder)
    set_wire_version(folder, theirs)
    versions = f"speaks wire version {theirs}, the native host 0.2.0 speaks {WIRE_VERSION}"
    with trio.fail_after(120):
        async with chain.browser() as browser:
            await browser.load_extension(folder)

            async def read_status() -> str:
                return str((await chain.status())["missing"])

            await until_said(read_status, versions)
            missing = await read_status()
            doctor = json.loads((await chain.mcpb("doctor", "--json", check=False)).stdout)
            async with chain.client() as client:
                listed = await client.call_tool("list_page_tools", {})
                refused = await client.call_tool("tabs_context", {})
    assert missing.endswith(f"Run: {command}")
    (finding,) = [each for each in doctor["findings"] if each["code"] == "wire-version"]
    assert finding["level"] == "fault"
    assert finding["command"].endswith(command.removeprefix("mcpb"))  # its path is that of this mcpb
    assert versions in finding["text"]
    assert versions in doctor["verdict"]
    assert not doctor["healthy"]
    for result in (listed, refused):
        assert versions in str(result.content)
        assert command in str(result.content)


def set_wire_version(extension: Path, version: int) -> None:
    module = extension / "worker/wire.js"
    text = module.read_text()
    assert SPOKEN in text
    module.write_text(text.replace(SPOKEN, f"WIRE_VERSION = {version};"))
