"""docs/PROXY.md, done as it says: a Chromium without a native host and a bridge meet at the proxy."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic

import pytest

from full_chain import ROOT, Chain, serving_pages
from native_host.protocol.wire import EXTENSION_ID
from proxied_browser import Popup
from tool_browser import Browser, trio_thread

PAGE = (ROOT / "docs/PROXY.md").read_text()
COMMANDS = json.loads((ROOT / "tests/data/interfaces.json").read_text())["commands"]
PORT = 8765
SOON_S = 60.0
CODE = "WDJB-MJHT"
SESSION = "3f2a"


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def commands(text: str) -> list[str]:
    """The lines of its sh blocks, without what they say about themselves."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]


SERVE, FORWARD, APPROVE, LOGIN, TOOLS, SESSIONS, REVOKE, STATUS = commands(section("At home, in five steps"))


class Terminal:
    """A user with a fresh home, who types the commands of the page."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        (home / ".mcpb").mkdir(mode=0o700)
        self.port = _find_port()
        if self.port != PORT:  # another program of this machine has it
            (home / ".mcpb/config.toml").write_text(f"[proxy]\nport = {self.port}\n")
        self.env = {
            "HOME": str(home),
            "MCPB_HOME": str(home / ".mcpb"),  # where it would be, if the home were the password database's
            "MCPB_EXISTING_CHANNEL_DIRECTORY": "/nonexistent",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def with_port(self, text: str) -> str:
        return text.replace(str(PORT), str(self.port))

    def type(self, line: str, answer: str = "") -> str:
        """What a command prints, in a terminal."""
        ours, theirs = pty.openpty()
        os.write(ours, answer.encode())
        run = subprocess.run(
            ["/bin/sh", "-c", self.with_port(line)],
            env=self.env,
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=SOON_S,
            check=False,
        )
        os.close(ours)
        os.close(theirs)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    @contextmanager
    def running(self, line: str) -> Iterator[subprocess.Popen[str]]:
        """A command in another terminal, until the block ends."""
        process = subprocess.Popen(
            shlex.split(self.with_port(line)),
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.terminate()


def _find_port() -> int:
    """The port of the page, if it and the one after it are free; else another one."""
    for port in (PORT, *random.sample(range(20_000, 30_000), 20)):
        with (
            suppress(OSError),
            socket.create_server(("127.0.0.1", port)),
            socket.create_server(("127.0.0.1", port + 1)),
        ):
            return port
    raise AssertionError("no port is free")


def read_code(process: subprocess.Popen[str]) -> str:
    """The code in the next line that a command prints."""
    assert process.stdout
    line = process.stdout.readline()
    found = re.search(APPROVE.replace(CODE, "([A-Z]{4}-[A-Z]{4})"), line)
    assert found, line
    return found[1]


def test_the_five_steps_bring_the_tools_of_a_browser_to_the_terminal(short_tmp: Path) -> None:
    user = Terminal(short_tmp / "home")
    with ExitStack() as stack:
        chain = Chain(short_tmp, stack.enter_context(serving_pages()))
        proxy = stack.enter_context(user.running(SERVE))
        thread = stack.enter_context(trio_thread())
        browser = Browser(thread, stack.enter_context(thread.holding(chain.browser(is_registered=False))))
        browser.open(f"{chain.pages}/tabserver.html")
        assert proxy.stdout
        assert user.with_port(address_of(section("At home, in five steps"))) in proxy.stdout.readline()

        popup = Popup(browser.open(f"chrome-extension://{EXTENSION_ID}/popup/popup.html"))
        popup.choose(user.with_port(address_of(section("At home, in five steps"))))
        shown = user.type(APPROVE.replace(CODE, popup.until_code()), answer="y\n")
        assert "the browser extension" in shown
        state = "document.getElementById('proxy-state').textContent"
        popup.tab.wait_until(f"{state}.startsWith('Connected as')")

        with user.running(LOGIN) as login:
            user.type(APPROVE.replace(CODE, read_code(login)), answer="y\n")
            assert login.wait(SOON_S) == 0

        end = monotonic() + SOON_S
        while chain.name("echo", None).rpartition("_")[2] not in user.type(TOOLS):
            assert monotonic() < end, "the tools of the page are not listed"

        browser_session, client_session = user.type(SESSIONS).splitlines()
        assert "browser extension" in browser_session
        assert "MCP client" in client_session
        assert "Connected: 1 extensions" in user.type(STATUS)
        user.type(REVOKE.replace(SESSION, browser_session[:4]))
        popup.until_step("The sign-in has ended.")


def address_of(text: str) -> str:
    """The address that the user enters in the popup."""
    found = re.search(r"enter `(http\S+)`", text)
    assert found
    return found[1]


def test_the_steps_are_five() -> None:
    steps = re.findall(r"^(\d)\. ", section("At home, in five steps"), re.MULTILINE)
    assert steps == ["1", "2", "3", "4", "5"]
    assert [each.split()[:3] for each in (SERVE, APPROVE, LOGIN)] == [
        ["mcpb", "proxy", name] for name in ("serve", "approve", "login")
    ]
    assert TOOLS == "mcpb tools"


@pytest.mark.skipif(not shutil.which("ssh"), reason="no ssh: apt install openssh-client")
def test_the_command_for_another_machine_forwards_the_port_of_the_proxy() -> None:
    """`ssh -G` reads a command, and prints the settings that it results in."""
    ssh, *arguments = shlex.split(FORWARD)
    printed = subprocess.run(
        [ssh, "-G", "-F", "none", *arguments], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert f"localforward {PORT} [localhost]:{PORT}" in printed
    assert "user YOU" in printed


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    found = re.search(r"```text /etc/systemd/system/(\S+)\n(.*?)```", PAGE, re.DOTALL)
    assert found
    unit = tmp_path / found[1]
    command = re.search(r"^ExecStart=(\S+)", found[2], re.MULTILINE)
    assert command
    unit.write_text(found[2].replace(command[1], sys.executable))  # it has to exist
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], check=False, capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (0, "")


def shown_commands() -> list[str]:
    """All commands of the page: in blocks, in sentences, and in the unit."""
    found = [
        *commands(PAGE),
        *re.findall(r"`(mcpb [^`]+)`", PAGE),
        *re.findall(r"^ExecStart=(.+)", PAGE, re.MULTILINE),
    ]
    return [each for each in found if "mcpb" in each]


@pytest.mark.parametrize("command", shown_commands())
def test_the_commands_exist_with_their_options(command: str) -> None:
    words = command[command.index("mcpb ") :].split()
    name = max((" ".join(words[:count]) for count in (2, 3) if " ".join(words[:count]) in COMMANDS), key=len)
    options = {word for word in words if word.startswith("--")}
    assert options <= COMMANDS[name].get("options", {}).keys()
