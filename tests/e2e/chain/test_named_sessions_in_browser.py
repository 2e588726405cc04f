"""`mcpb call --session NAME` with a real Chromium: the same tab from call to call."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from native_host.system import proc
from tool_browser import Browsing, open_browsing
from wire_peers import until


@pytest.fixture(scope="module")
def browsing() -> Iterator[Browsing]:
    with open_browsing() as opened:
        yield opened
        # A holder that outlived its home would write into it again.
        opened.run_long(partial(opened.chain.mcpb, "session", "end", "--all", check=False))


def mcpb(browsing: Browsing, *arguments: str) -> str:
    ended = browsing.run_long(partial(browsing.chain.mcpb, *arguments, check=False))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.decode()


def open_urls(browsing: Browsing) -> list[str]:
    return [target["url"] for target in browsing.browser.targets("page")]


@pytest.mark.parametrize("is_closed", [True, False])
def test_calls_of_a_session_use_its_tab_and_sessions_do_not_mix(browsing: Browsing, is_closed: bool) -> None:
    browsing.chain.settings["MCPB_BROWSER_CLOSE_TABS"] = str(is_closed).lower()
    first, second = f"{browsing.site.url}/search?of=a", f"{browsing.site.url}/login?of=b"
    mcpb(browsing, "call", "--session", "a", "navigate", f"url={first}")
    mcpb(browsing, "call", "--session", "b", "navigate", f"url={second}")
    script = ["action=javascript_exec", "text=document.title = 'seen by a'"]
    mcpb(browsing, "call", "--session", "a", "javascript_tool", *script)
    assert "login?of=b" in mcpb(browsing, "call", "--session", "b", "read_page")
    assert "seen by a" in mcpb(browsing, "call", "--session", "a", "tabs_context")
    assert {first, second} <= {*open_urls(browsing)}

    held = json.loads(mcpb(browsing, "session", "list", "--json"))["sessions"]
    assert [each["name"] for each in held] == ["a", "b"]
    assert mcpb(browsing, "session", "end", "a") == "Ended session a.\n"
    assert not proc.is_running(held[0]["pid"])
    assert (first in open_urls(browsing)) != is_closed
    assert second in open_urls(browsing)
    assert "login?of=b" in mcpb(browsing, "call", "--session", "b", "read_page")
    mcpb(browsing, "session", "end", "--all")


EARLIER_VERSION = """
import sys
from native_host.ipc import named_sessions
hold = "import sys; from bridge.cli.group import main; from native_host.ipc import named_sessions; " \\
    "named_sessions.CODE = 'the version before'; main(['session', 'hold', *sys.argv[1:]])"
named_sessions.CODE = "the version before"
named_sessions.find_or_start("c", [sys.executable, "-c", hold, "c"]).close()
from bridge.cli.group import main
main()
"""
"""Runs a command in the version before an upgrade."""


def test_a_session_keeps_its_tab_when_the_next_version_continues_it(browsing: Browsing) -> None:
    url = f"{browsing.site.url}/login?of=c"
    subprocess.run(
        [sys.executable, "-c", EARLIER_VERSION, "call", "--session", "c", "navigate", f"url={url}"],
        env=browsing.chain.env,
        check=True,
        timeout=120,
    )
    (before,) = json.loads(mcpb(browsing, "session", "list", "--json"))["sessions"]
    command = partial(browsing.chain.mcpb, "call", "--session", "c", "read_page", check=False)
    upgraded = browsing.run_long(command)
    assert b"Session c goes on in this version of mcpb, with its tabs." in upgraded.stderr
    assert b"login?of=c" in upgraded.stdout
    (after,) = json.loads(mcpb(browsing, "session", "list", "--json"))["sessions"]
    assert before["pid"] != after["pid"]
    assert "(own, current)" in mcpb(browsing, "call", "--session", "c", "tabs_context")
    mcpb(browsing, "session", "end", "c")


def test_an_uninstallation_ends_sessions_and_removes_the_files_of_results(browsing: Browsing) -> None:
    url = f"{browsing.site.url}/search"
    mcpb(browsing, "call", "--session", "a", "navigate", f"url={url}")
    shown = mcpb(browsing, "call", "--session", "a", "computer", "action=screenshot")
    (picture,) = (Path(line.partition(": ")[2]) for line in shown.splitlines() if line.startswith("Image ("))
    assert picture.read_bytes().startswith((b"\x89PNG", b"\xff\xd8"))
    (held,) = json.loads(mcpb(browsing, "session", "list", "--json"))["sessions"]
    mcpb(browsing, "uninstall-native-host", "--purge", "--yes")
    browsing.thread.run(until, lambda: not proc.is_running(held["pid"]))
    assert not picture.parent.exists()
