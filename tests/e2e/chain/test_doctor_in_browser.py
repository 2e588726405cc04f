"""`mcpb doctor` and a real Chromium: error pages, pauses, and an extension that has to be reloaded."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from full_chain import EXTENSION, Chain

OLD = "0.0.9"


async def doctor(chain: Chain) -> Any:
    """The report without browsers that happen to be on this machine: works, findings of it, verdict."""
    return json.loads((await chain.mcpb("doctor", "--json", check=False)).stdout)


def codes(report: Any) -> set[str]:
    return {finding["code"] for finding in report["findings"]}


def tabs_of(report: Any) -> dict[str, Any]:
    """The tabs with an origin, by it."""
    seen = [seen for browser in report["browsers"] for seen in browser["seen"]]
    return {tab["origin"]: tab for each in seen for tab in each["tabs"] if tab["origin"].startswith("http")}


async def wait_tab(chain: Chain, origin: str) -> Any:
    """Ask the doctor until it sees a tab of this origin; return that report. Bound it."""
    while origin not in tabs_of(report := await doctor(chain)):
        pass
    return report


@pytest.fixture
def dead() -> Iterator[str]:
    """An origin where each connection is refused."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}"


async def test_no_reload_is_asked_for_a_tab_that_shows_a_network_error(chain: Chain, dead: str) -> None:
    with trio.fail_after(120):
        async with chain.browser() as browser:
            await chain.open(browser, "plain.html")
            opened = await browser.send("Target.createTarget", {"url": f"{dead}/"})
            page = await browser.attach(opened["targetId"])
            await page.wait_until("location.protocol === 'chrome-error:'")
            while tabs_of(report := await doctor(chain)).get(dead, {}).get("title") != "127.0.0.1":
                pass
    assert not tabs_of(report)[dead]["isSilent"]
    assert "tab-needs-reload" not in codes(report)


async def test_a_paused_site_and_a_paused_client_are_named_while_everything_works(chain: Chain) -> None:
    with trio.fail_after(120):
        async with chain.browser() as browser, chain.client() as client:
            page = await chain.open(browser, "plain.html")
            await client.call_tool("tabs_context", {})
            origin = await page.evaluate("location.origin")
            await wait_tab(chain, origin)
            (session,) = (await chain.status())["browsers"][0]["sessions"]
            await chain.mcpb("pause", origin)
            await chain.mcpb("pause", session["id"])
            report = await doctor(chain)
    commands = [finding["command"] for finding in report["findings"] if finding["code"] == "paused"]
    assert {command.partition(" ")[2] for command in commands} == {
        f"pause {origin} --resume",
        f"pause {session['id'][:8]} --resume",
    }
    assert f"the user paused {origin}" in report["verdict"]
    assert not report["verdict"].startswith("It works")


async def test_an_extension_of_another_version_works_only_after_its_reload(chain: Chain) -> None:
    """The copy in mcpb's home has this version already: no command is left but the reload."""
    old = chain.home / "old-extension"
    shutil.copytree(EXTENSION, old)
    manifest = json.loads((old / "manifest.json").read_text())
    (old / "manifest.json").write_text(json.dumps({**manifest, "version": OLD}))
    await chain.mcpb("extension")
    with trio.fail_after(120):
        async with chain.browser() as browser:
            await browser.load_extension(old)
            page = await chain.open(browser, "plain.html")
            report = await wait_tab(chain, await page.evaluate("location.origin"))
            (seen,) = [seen for each in report["browsers"] for seen in each["seen"]]
    (finding,) = [finding for finding in report["findings"] if finding["code"] == "extension-old"]
    assert (seen["extensionVersion"], finding["command"]) == (OLD, "")
    assert "Reload the extension on chrome://extensions" in finding["text"]
    assert f"the extension is version {OLD}" in report["verdict"]
