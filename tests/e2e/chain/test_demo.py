"""`mcpb demo` as a newcomer starts it: what is printed, and that nothing stays behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import trio

from demo import shop
from demo.run import ORDERED
from demo.served_page import served_page

DEMO = [sys.executable, "-m", "bridge", "demo"]


def environment(tmp: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp), "TMPDIR": str(tmp), **more}


def processes_below(directory: Path) -> list[str]:
    """Command lines that name the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in found if str(directory) in line]


async def play(short_tmp: Path, **env: str) -> str:
    with trio.fail_after(120):
        ended = await trio.run_process(
            DEMO, env=environment(short_tmp, **env), capture_stdout=True, capture_stderr=True, check=False
        )
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()
    assert list(short_tmp.iterdir()) == []
    assert processes_below(short_tmp) == []
    return ended.stdout.decode()


async def test_without_a_browser_the_simulated_one_speaks_and_the_transcript_says_so(short_tmp: Path) -> None:
    transcript = await play(short_tmp, MCPB_CHROMIUM="")
    assert "a simulated browser speaks in its place" in transcript
    assert "website_tool_localhost_8123_tab1_addToCart" in transcript
    assert "→ error: There is no coffee on the shelf." in transcript
    assert "tabs_create" not in transcript
    assert f"The page itself now shows: {ORDERED}" in transcript


async def test_a_browser_that_does_not_start_is_named_and_replaced(short_tmp: Path) -> None:
    transcript = await play(short_tmp, MCPB_CHROMIUM="/bin/false")
    assert "/bin/false cannot be used here" in transcript
    assert f"The page itself now shows: {ORDERED}" in transcript


async def test_the_reason_of_a_browser_that_does_not_start_is_its_own(
    short_tmp: Path, tmp_path: Path
) -> None:
    browser = tmp_path / "chromium"
    log = "[4711:4711:1126/181922.1:FATAL:content/zygote_host_impl_linux.cc:132] No usable sandbox!"
    browser.write_text(f"#!/bin/sh\necho '{log}' >&2\nexit 1\n")
    browser.chmod(0o755)
    transcript = await play(short_tmp, MCPB_CHROMIUM=str(browser))
    assert f"{browser} cannot be used here: No usable sandbox!" in transcript


async def test_in_a_real_browser_the_page_shows_what_the_client_did(short_tmp: Path) -> None:
    transcript = await play(short_tmp)
    assert "simulated" not in transcript
    assert f"The page itself now shows: {ORDERED}" in transcript


@pytest.mark.parametrize(
    ("number", "more"),
    [(signal.SIGINT, {}), (signal.SIGTERM, {"MCPB_CHROMIUM": ""})],
    ids=["SIGINT, whatever browser there is", "SIGTERM, the simulated browser"],
)
async def test_an_interrupted_demo_cleans_up(
    short_tmp: Path, number: signal.Signals, more: dict[str, str]
) -> None:
    with trio.fail_after(120):
        process = await trio.lowlevel.open_process(
            DEMO,
            env={**environment(short_tmp, **more), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        printed = b""
        async with process.stdout:
            while b"The client calls" not in printed:
                data = await process.stdout.receive_some()
                assert data, printed.decode()
                printed += data
            process.send_signal(number)
            while data := await process.stdout.receive_some():
                printed += data
        assert await process.wait() == 130, printed.decode()
    assert list(short_tmp.iterdir()) == []
    assert processes_below(short_tmp) == []


async def test_the_shop_alone_is_served_until_it_is_interrupted(short_tmp: Path) -> None:
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(
            [*DEMO, "--serve"], env=environment(short_tmp), stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        async with process.stdout:
            address = (await process.stdout.receive_some()).decode().partition(" is open at ")[2].split()[0]
            page = await trio.to_thread.run_sync(lambda: urlopen(address, timeout=60).read().decode())
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
    assert page == shop.page()
    assert list(short_tmp.iterdir()) == []


def test_a_page_whose_port_is_in_use_has_another_one() -> None:
    with served_page("first") as first, served_page("second", urlsplit(first).port or 0) as second:
        assert [urlopen(url, timeout=60).read() for url in (first, second)] == [b"first", b"second"]
