"""The socket of `mcpb serve --publish-channel` beside the one of the real native host of Claude in Chrome."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from channel_client import RawChannelClient
from claude_host import other_host
from concurrent_callers import find
from serve_process import SOON_S, serving


async def test_beside_a_host_of_that_product_both_are_found_and_ours_reaches_its_extension_as_well(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with other_host(mcpb_home) as theirs, trio.fail_after(2 * SOON_S):
        async with theirs.extension(tools={"find": find}).running() as extension:
            path = await theirs.socket(extension)
            monkeypatch.setenv("MCPB_EXISTING_CHANNEL_DIRECTORY", str(path.parent))
            async with serving("--publish-channel", "--existing-channel") as server:
                ours = path.parent / f"{server.process.pid}.sock"
                assert sorted(path.parent.iterdir()) == sorted([path, ours])
                async with RawChannelClient.connected(ours) as client:
                    answer = await client.call("find", query="through ours", tabId=7)
                    assert "through ours" in str(answer)
                async with RawChannelClient.connected(path) as neighbour:
                    assert "undisturbed" in str(await neighbour.call("find", query="undisturbed", tabId=7))
                assert await server.end() == 0
            assert list(path.parent.iterdir()) == [path]
