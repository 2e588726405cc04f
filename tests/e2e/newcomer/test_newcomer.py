"""What README.md tells a newcomer, done as it says: from a clone to a page's tool in a client, and back."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio

from demo.chromium import open_chromium
from demo.shop import TITLE, SimulatedShop
from demo.simulated.browser import SimulatedBrowser
from full_chain import INSPECTOR, ROOT, until_said
from installer_home import write_claude
from wire_peers import HOST_COMMAND

README = (ROOT / "README.md").read_text()
WHOLE_SECONDS = 200
STEPS = 4


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def commands(text: str) -> list[str]:
    """The lines of its sh blocks, without what they say about themselves."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]


class Newcomer:
    """Somebody with a clone, a home, and a Chromium that has been used."""

    def __init__(self, home: Path) -> None:
        self.profile = home / ".config/chromium"
        self.profile.mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        claude = write_claude(home.parent / "claude")
        self.env = {
            **kept,
            "HOME": str(home),
            "MCPB_HOME": str(home / ".mcpb"),  # where it would be, if the home were the password database's
            "PATH": f"{home}/.local/bin:{claude.parent}:{os.environ['PATH']}",
            "PYTHON": sys.executable,
            # pip asks rustc for its version; where rustup stands for it, that makes a folder of its own.
            "RUSTUP_HOME": str(home.parent / "rustup"),
            "PYTHONUNBUFFERED": "1",
        }

    async def types(self, line: str, answer: str = "") -> str:
        """A command in a terminal, in the clone; returns what it shows."""
        ours, theirs = pty.openpty()
        os.write(ours, answer.encode())
        process = await trio.lowlevel.open_process(
            ["/bin/sh", "-c", line], env=self.env, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        shown = ""
        async with _ended_with_the_block(process), trio.lowlevel.FdStream(ours) as terminal:
            with suppress(trio.BrokenResourceError):  # how Linux says that nobody has it open any more
                async for data in terminal:
                    shown += data.decode(errors="replace")
            assert await process.wait() == 0, shown
        return shown

    @asynccontextmanager
    async def leaves_running(self, line: str) -> AsyncIterator[str]:
        """A command in a second terminal, until the block ends; yields what it shows first."""
        process = await trio.lowlevel.open_process(
            line.split(), env=self.env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert process.stdout is not None
        async with _ended_with_the_block(process), process.stdout:
            yield (await process.stdout.receive_some()).decode()

    async def asks(self, client: str, method: str, *more: str) -> Any:
        """One request of an MCP client that was told to start `client`."""
        command = [str(INSPECTOR), "--cli", *client.split(), "--method", method, *more]
        run = await trio.run_process(command, env=self.env, capture_stdout=True, capture_stderr=True)
        return json.loads(run.stdout)


@asynccontextmanager
async def _ended_with_the_block(process: trio.Process) -> AsyncIterator[None]:
    try:
        yield
    finally:
        process.terminate()
        with trio.CancelScope(shield=True), trio.move_on_after(5):
            await process.wait()


def test_the_steps_are_fewer_than_five() -> None:
    assert re.findall(r"^(\d)\. ", section("Install"), re.MULTILINE) == [str(n + 1) for n in range(STEPS)]
    assert commands(section("Install")) == [
        "install/install.sh --yes",
        "claude mcp add --scope user browser -- ~/.local/bin/mcpb bridge --name browser",
        "~/.local/bin/mcpb demo --serve",
    ]


async def test_the_call_that_is_shown_does_something_in_the_demo_s_shop(mcpb_home: Path) -> None:
    shown = commands(section("Connect a client"))
    (example,) = [line for line in shown if line.startswith("mcpb call website_tool_")]
    port = re.search(r"_localhost_(\d+)_", example)
    assert port is not None
    shop = SimulatedShop()
    with trio.fail_after(60):
        async with SimulatedBrowser(HOST_COMMAND) as browser:
            shop.open_in(browser.add_tab(f"http://localhost:{port[1]}/", TITLE))
            await until_said(partial(mcpb, "tools"), "addToCart")
            await mcpb(*shlex.split(example)[1:])
    assert shop.shown == "Total €9.00"


async def mcpb(*arguments: str) -> str:
    """A command of this clone's; returns what it says."""
    command = [sys.executable, "-m", "bridge", *arguments]
    return (await trio.run_process(command, capture_stdout=True)).stdout.decode()


async def test_a_newcomer_comes_from_a_clone_to_a_page_s_tool_and_back(short_tmp: Path) -> None:
    assert INSPECTOR.exists(), "run: npm ci"
    newcomer = Newcomer(short_tmp / "home")
    home = short_tmp / "home"
    shown_steps = commands(section("Install"))
    install, tell_client, have_page = (line.replace("~", str(home)) for line in shown_steps)
    _, uninstall_and_purge, *_ = commands(section("Uninstall"))
    client = tell_client.partition(" -- ")[2]
    with trio.fail_after(WHOLE_SECONDS):
        shown = await newcomer.types(install)
        folder = re.search(r"The extension is in (\S+)", shown)
        assert folder is not None, shown
        assert tell_client in shown
        async with open_chromium(newcomer.profile) as chromium, newcomer.leaves_running(have_page) as served:
            await chromium.load_extension(Path(folder[1]))
            address = re.search(r"http://\S+", served)
            assert address is not None, served
            page = await chromium.open_page(address[0])
            await until_said(partial(newcomer.types, "mcpb tools"), "addToCart")
            listed = (await newcomer.asks(client, "tools/list"))["tools"]
            (name,) = [tool["name"] for tool in listed if tool["name"].endswith("addToCart")]
            await newcomer.asks(client, "tools/call", "--tool-name", name, "--tool-arg", "item=green tea")
            assert await page.evaluate("document.getElementById('total').textContent") == "Total €4.50"
        await newcomer.types(uninstall_and_purge, answer="y\n")
    left = [path for path in home.rglob("*") if newcomer.profile not in path.parents]
    assert left == [home / ".config", newcomer.profile]
    assert not list(newcomer.profile.rglob("dev.mcpb.*"))
