"""Pauses in a real browser: a host pauses all of its origins, also in a profile that connects later."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from demo.chromium import Chromium, Page
from full_chain import MCPB
from logged_hosts import LoggedHosts
from native_host.ipc import endpoint
from native_host.protocol.wire import EXTENSION_ID
from site_boundary import wait_true
from tool_browser import Browsing, Tools

PAUSED_CLIENT = "The user paused you. Nothing was run. Ask the user; they can resume you in the mcpb popup."
WAIT_S = 60


@pytest.fixture
def tools(browsing: Browsing) -> Iterator[Tools]:
    with browsing.client("pauses") as opened:
        yield opened


def mcpb(browsing: Browsing, *arguments: str) -> str:
    """A command that must succeed, without a terminal; its output."""
    done = subprocess.run(
        [*MCPB, *arguments],
        env=browsing.chain.env,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def resume(browsing: Browsing, target: str, answer: bytes = b"y\n") -> str:
    """`mcpb pause --resume` at a terminal; what it shows."""
    ours, theirs = pty.openpty()
    command = [*MCPB, "pause", target, "--resume"]
    process = subprocess.Popen(command, env=browsing.chain.env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, answer)
    shown = b""
    with suppress(OSError):  # the terminal's other end is closed
        while data := os.read(ours, 4096):
            shown += data
    process.wait(WAIT_S)
    os.close(ours)
    return shown.decode()


def connected(tools: Tools) -> list[dict[str, str]]:
    browsers: list[dict[str, str]] = tools.done("list_connected_browsers").structured["browsers"]
    return browsers


def test_pausing_a_host_stops_calls_to_each_of_its_origins(
    browsing: Browsing, hosts: LoggedHosts, tools: Tools
) -> None:
    url = hosts.set_page("localhost", "/secret", "the balance is 4711")
    tools.done("navigate", url=url)
    hosts.clear()
    said = mcpb(browsing, "pause", "localhost")
    try:
        assert "localhost is paused." in said
        assert f"{hosts.origin('localhost')} · tab 1" in said
        for tool, arguments in [
            ("get_page_text", {}),
            ("computer", {"action": "screenshot"}),
            ("javascript_tool", {"action": "javascript_exec", "text": "fetch('/acted')"}),
            ("navigate", {"url": f"{url}?again"}),
        ]:
            refused = tools.refused(tool, **arguments)
            assert refused.startswith(f"The user paused {hosts.origin('localhost')}. Nothing was run."), tool
            assert "4711" not in refused
            assert "--resume" not in refused
        assert hosts.requests("localhost") == []
        tools.done("navigate", url=hosts.url("app.localhost", "/"))
    finally:
        resume(browsing, "localhost")
    tools.done("navigate", url=url)
    assert "4711" in tools.done("get_page_text").text


def test_a_subdomain_is_paused_by_the_pattern_with_an_asterisk(
    browsing: Browsing, hosts: LoggedHosts, tools: Tools
) -> None:
    tools.done("navigate", url=hosts.url("shop.localhost", "/"))
    assert "No open tab is affected." in mcpb(browsing, "pause", "*.bank.localhost")
    try:
        for host in ("bank.localhost", "www.bank.localhost"):
            assert "The user paused" in tools.refused("navigate", url=hosts.url(host, "/"))
            assert hosts.requests(host) == []
        tools.done("navigate", url=hosts.url("otherbank.localhost", "/"))
    finally:
        resume(browsing, "*.bank.localhost")


def test_a_client_s_page_of_another_site_requests_nothing_from_a_paused_host(
    browsing: Browsing, hosts: LoggedHosts, tools: Tools
) -> None:
    images = [hosts.url(f"{name}vault.localhost", "/image.png") for name in ("", "www.", "other")]
    shop = hosts.set_page("shop.localhost", "/images", "".join(f"<img src={url}>" for url in images))
    tools.done("tabs_create")
    mcpb(browsing, "pause", "*.vault.localhost")
    try:
        tools.done("navigate", url=shop)
        wait_true(lambda: hosts.requests("othervault.localhost"))
        assert hosts.requests("vault.localhost") == hosts.requests("www.vault.localhost") == []
    finally:
        resume(browsing, "*.vault.localhost")


def test_a_profile_that_connects_later_is_paused_too(browsing: Browsing, hosts: LoggedHosts) -> None:
    mcpb(browsing, "pause", "localhost")
    try:
        with browsing.thread.holding(browsing.chain.browser("later")), browsing.client("later") as tools:
            browsing.browser.until(lambda: len(endpoint.live_hosts(browsing.chain.home / "run")) == 2)
            wait_true(lambda: len(connected(tools)) == 2)
            for browser in connected(tools):
                tools.done("select_browser", deviceId=browser["deviceId"])
                hosts.clear()
                refused = tools.refused("navigate", url=hosts.url("localhost", "/"))
                assert refused.startswith(f"The user paused {hosts.origin('localhost')}.")
                assert hosts.requests("localhost") == []
    finally:
        resume(browsing, "localhost")


def test_a_paused_client_is_not_told_how_to_resume_and_cannot_without_a_terminal(
    browsing: Browsing, tools: Tools
) -> None:
    found = json.loads(mcpb(browsing, "status", "--json"))
    (client,) = [each for each in found["browsers"][0]["sessions"] if each["title"].startswith("pauses")]
    mcpb(browsing, "pause", client["id"])
    try:
        assert tools.refused("tabs_create") == PAUSED_CLIENT
        command = [*MCPB, "pause", client["id"], "--resume"]
        settings = {**browsing.chain.env, "MCPB_BROWSER_RESUME": "any"}
        piped = subprocess.run(
            command, env=settings, input=b"y\n", check=False, capture_output=True, timeout=WAIT_S
        )
        assert piped.returncode == 1
        assert b"is not a terminal" in piped.stderr
        assert tools.refused("tabs_create") == PAUSED_CLIENT
        resume(browsing, client["id"], b"n\n")
        assert tools.refused("tabs_create") == PAUSED_CLIENT
    finally:
        resume(browsing, client["id"])
    tools.done("tabs_create")


def test_a_pause_in_the_popup_is_stored_and_reaches_the_other_browsers(
    browsing: Browsing, hosts: LoggedHosts, tools: Tools
) -> None:
    origin = hosts.origin("shop.localhost")
    tools.done("navigate", url=hosts.url("shop.localhost", "/"))
    with browsing.thread.holding(browsing.chain.browser("other")) as other:
        popup = browsing.thread.run(_popup_of, other)

        # What the popup's button sends, from a page of the extension.
        def send(paused: str) -> None:
            message = f"{{type: 'pause-site', origin: {json.dumps(origin)}, paused: {paused}}}"
            connect = f"chrome.runtime.connect({{name: 'mcpb-popup'}}).postMessage({message}), 0"
            browsing.thread.run(popup.evaluate, connect)

        send("true")
        wait_true(lambda: f"The user paused {origin}." in tools.call("get_page_text").text)
        stored = (browsing.chain.home / "state/pauses.json").read_text
        browsing.browser.until(lambda: origin in stored())
        send("false")
        wait_true(lambda: not tools.call("get_page_text").is_error)


async def _popup_of(chromium: Chromium) -> Page:
    return await chromium.open_page(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
