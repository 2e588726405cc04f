"""The Chromium that tests and the demo drive: it starts, answers, and never outlives its starter."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from demo.chromium import Chromium, ChromiumError, ScriptError, open_chromium
from demo.devtools import BrowserGoneError, DevToolsError
from wire_peers import until

PAGE = "data:text/html,<title>hello</title>"


@pytest.fixture
async def chromium(short_tmp: Path) -> AsyncIterator[Chromium]:
    with trio.fail_after(120):
        async with open_chromium(short_tmp / "profile", env={"TMPDIR": str(short_tmp)}) as browser:
            yield browser


async def test_a_page_is_loaded_and_asked(chromium: Chromium) -> None:
    page = await chromium.open_page(PAGE)
    assert await page.evaluate("document.title") == "hello"
    assert await page.evaluate("Promise.resolve({a: [1, 'é']})") == {"a": [1, "é"]}
    assert "/" in chromium.version


async def test_what_a_script_throws_is_raised(chromium: Chromium) -> None:
    page = await chromium.open_page(PAGE)
    with pytest.raises(ScriptError, match="no such tea"):
        await page.evaluate("(() => { throw new Error('no such tea'); })()")


async def test_a_page_that_cannot_be_loaded_is_an_error_and_leaves_no_tab(chromium: Chromium) -> None:
    tabs = [tab["targetId"] for tab in await chromium.targets()]
    with pytest.raises(ChromiumError, match="ERR_"):
        await chromium.open_page("http://127.0.0.1:1/")
    assert [tab["targetId"] for tab in await chromium.targets()] == tabs


async def test_a_refused_command_is_an_error_in_the_browser_s_words(chromium: Chromium) -> None:
    with pytest.raises(DevToolsError, match=r"Browser\.fly"):
        await chromium.send("Browser.fly")


async def test_an_event_is_heard_by_who_listens(chromium: Chromium) -> None:
    await chromium.send("Target.setDiscoverTargets", {"discover": True})
    with chromium.devtools.listen("Target.targetCreated") as created:
        page = await chromium.open_page(PAGE)
        while (await created.next())["targetInfo"]["targetId"] != page.target_id:
            pass


async def test_a_command_fails_when_its_page_is_closed(chromium: Chromium) -> None:
    page = await chromium.open_page("data:text/html,x")
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(chromium.send, "Target.closeTarget", {"targetId": page.target_id})
            with pytest.raises(DevToolsError, match="closed"):
                await page.evaluate("new Promise(() => {})")


async def test_a_killed_browser_fails_what_waits_for_it(chromium: Chromium) -> None:
    page = await chromium.open_page(PAGE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chromium.kill)
        with pytest.raises(BrowserGoneError):
            await page.evaluate("new Promise(() => {})")
    with pytest.raises(BrowserGoneError):
        await page.evaluate("1")


async def test_a_program_that_is_no_browser_is_named(tmp_path: Path) -> None:
    no_browser = pytest.RaisesExc(ChromiumError, match="/bin/false did not start")
    with trio.fail_after(60), pytest.RaisesGroup(no_browser):
        async with open_chromium(tmp_path, executable=Path("/bin/false")):
            pass


async def test_the_browser_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    starter = f"""
import trio
from pathlib import Path
from demo.chromium import open_chromium

async def main():
    async with open_chromium(Path({str(tmp_path / "profile")!r})) as chromium:
        print(chromium.process.pid, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""
    with trio.fail_after(120):
        process = await trio.lowlevel.open_process([sys.executable, "-c", starter], stdout=subprocess.PIPE)
        assert process.stdout is not None
        async with process.stdout:
            browser = int(await process.stdout.receive_some())
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await until(lambda: not _is_running(browser))


def _is_running(pid: int) -> bool:
    """Whether it is there and no mere zombie of a machine whose first process reaps none."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
