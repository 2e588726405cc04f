"""Named sessions of `mcpb call --session NAME`, with the real native host and a simulated browser."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from bridge.app import open_hub
from bridge.cli.group import main
from bridge.config.settings import Config
from demo.simulated.browser import SimulatedBrowser
from native_host.ipc import named_sessions
from native_host.system import private_files, proc
from wire_peers import HOST_COMMAND, until

SHOP = "http://localhost:8123/"
BUY = "website_tool_localhost_8123_tab1_buy"
PICTURE = b64encode(b"\x89PNG of a cart").decode()
OUTDATED = "the version before an upgrade"
HOLD_OUTDATED = f"""
import sys
from bridge.cli.group import main
from native_host.ipc import named_sessions
named_sessions.CODE = {OUTDATED!r}
main(["session", "hold", *sys.argv[1:]])
"""


async def buy(arguments: dict[str, Any]) -> dict[str, Any]:
    if arguments.get("wait"):
        await trio.sleep_forever()
    if arguments.get("picture"):
        text = [{"type": "text", "text": arguments["text"]}] if "text" in arguments else []
        return {"content": [*text, {"type": "image", "mimeType": "image/png", "data": PICTURE}]}
    return {"content": [{"type": "text", "text": arguments.get("text") or "bought"}]}


@pytest.fixture
async def shop(mcpb_home: Path) -> AsyncIterator[SimulatedBrowser]:
    async with SimulatedBrowser(HOST_COMMAND, profile_label="Work") as browser:
        browser.add_tab(SHOP, "Shop").offer("buy", buy)
        async with open_hub(Config()) as hub:
            registry = hub.router.registry
            assert await hub.router.changes.wait_until(
                lambda: any(registry.offers()), until=trio.current_time() + 5
            )
        try:
            yield browser
        finally:
            with trio.CancelScope(shield=True):
                await run("session", "end", "--all")


async def run(*arguments: str) -> Result:
    """Run a command in a thread, because it runs an event loop of its own."""
    with trio.fail_after(60):
        return await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, arguments))


async def call(session: str, *arguments: str) -> str:
    done = await run("call", "--session", session, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


async def tab_ids(session: str) -> list[int]:
    result = json.loads(await call(session, "tabs_context", "--json"))
    return [tab["tabId"] for tab in result["structuredContent"]["availableTabs"]]


async def sessions() -> dict[str, int]:
    """Return the process of each session, by its name, as `mcpb session list` shows them."""
    listed = json.loads((await run("session", "list", "--json")).stdout)["sessions"]
    return {each["name"]: each["pid"] for each in listed}


@asynccontextmanager
async def outdated_session(name: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Open a session in the version before an upgrade; commands within the block are of that version too."""
    with monkeypatch.context() as earlier:
        earlier.setattr(named_sessions, "CODE", OUTDATED)
        command = [sys.executable, "-c", HOLD_OUTDATED, name]
        (await trio.to_thread.run_sync(named_sessions.find_or_start, name, command)).close()
        yield


def owners(browser: SimulatedBrowser) -> list[str | None]:
    return [tab.state.owner for tab in browser.tabs.values() if tab.state.url != SHOP]


async def test_calls_of_a_session_use_one_tab_and_its_end_releases_it(
    shop: SimulatedBrowser, mcpb_home: Path
) -> None:
    (mcpb_home / "config.toml").write_text('[browser]\nclose_tabs = "never"\n')
    await call("a", "tabs_create")
    (tab_id,) = await tab_ids("a")
    assert await tab_ids("a") == [tab_id]
    pid = (await sessions())["a"]
    done = await run("session", "end", "a")
    assert (done.exit_code, done.stdout) == (0, "Ended session a.\n")
    assert owners(shop) == [None], "the tab is the user's"
    await until(lambda: not proc.is_running(pid))
    assert await sessions() == {}


async def test_the_environment_names_the_session(
    shop: SimulatedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPB_SESSION", "a")
    assert (await run("call", "tabs_create")).exit_code == 0
    assert (await run("tools")).stdout.count(BUY) == 1
    assert len(await tab_ids("a")) == 1
    assert list(await sessions()) == ["a"]


async def test_tabs_are_closed_where_the_user_has_set_it(shop: SimulatedBrowser, mcpb_home: Path) -> None:
    (mcpb_home / "config.toml").write_text("[browser]\nclose_tabs = true\n")
    await call("a", "tabs_create")
    await run("session", "end", "a")
    await until(lambda: owners(shop) == [])


async def test_two_sessions_at_once_do_not_mix(shop: SimulatedBrowser) -> None:
    async with trio.open_nursery() as nursery:
        for name in ("a", "b"):
            nursery.start_soon(call, name, "tabs_create")
    of_a, of_b = await tab_ids("a"), await tab_ids("b")
    assert len(of_a) == len(of_b) == 1
    assert of_a != of_b
    await run("session", "end", "a")
    assert await tab_ids("b") == of_b


def holders_of(name: str) -> list[int]:
    """Processes that hold a session of this name, for the mcpb of this test."""
    own = {"MCPB_HOME": os.environ["MCPB_HOME"]}
    return [
        proc.pid_of(process)
        for process in proc.find_processes(os.getuid())
        if list(proc.read_command_line(process))[-3:-1] == ["hold", name]
        and proc.read_environment(process, own) == own
    ]


async def test_two_first_calls_at_once_start_one_process(shop: SimulatedBrowser) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(call, "a", "tabs_create")
    assert len(await tab_ids("a")) == 3
    assert holders_of("a") == [(await sessions())["a"]]


async def test_a_killed_process_leaves_nothing_that_blocks_the_next(shop: SimulatedBrowser) -> None:
    await call("a", "tabs_create")
    first = (await sessions())["a"]
    os.kill(first, signal.SIGKILL)
    await until(lambda: not proc.is_running(first))
    assert await sessions() == {}
    await call("a", "tabs_create")
    assert len(await tab_ids("a")) == 1
    assert (await sessions())["a"] != first


async def test_a_process_that_does_not_answer_is_named_and_ended(
    shop: SimulatedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_sessions, "GREETING_S", 0.2)
    await call("a", "tabs_create")
    pid = (await sessions())["a"]
    os.kill(pid, signal.SIGSTOP)
    done = await run("call", "--session", "a", "tabs_context")
    assert done.exit_code == 1
    assert f"(pid {pid}) does not answer. To stop it, run: mcpb session end a" in done.output
    assert (await run("session", "end", "a")).stdout == "Ended session a.\n"
    await until(lambda: not proc.is_running(pid))
    assert await sessions() == {}


async def test_the_end_of_the_command_cancels_its_call_and_not_the_session(shop: SimulatedBrowser) -> None:
    await call("a", "tabs_create")
    command = [sys.executable, "-m", "bridge", "call", "--session", "a", BUY, "wait=true"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        await shop.wait_heard("browser/executeTool")
        process.send_signal(signal.SIGINT)
        with trio.fail_after(30):
            await trio.to_thread.run_sync(process.wait)
    with trio.fail_after(30):
        await shop.wait_heard("browser/cancel")
    assert len(await tab_ids("a")) == 1


async def test_a_session_that_ends_during_a_call_says_that_it_may_have_run(shop: SimulatedBrowser) -> None:
    await call("a", "tabs_create")
    command = [sys.executable, "-m", "bridge", "call", "--session", "a", BUY, "wait=true"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        await shop.wait_heard("browser/executeTool")
        await run("session", "end", "a")
        with trio.fail_after(30):
            _, problem = await trio.to_thread.run_sync(process.communicate)
    assert process.returncode == 1
    assert "session a ended before the answer. The tool may have run" in problem


async def test_the_first_call_after_an_upgrade_continues_the_session_with_its_tabs(
    shop: SimulatedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outdated_session("a", monkeypatch):
        await call("a", "navigate", f"url={SHOP}")
        (tab,), before = await tab_ids("a"), await sessions()
    owner = shop.tab(tab).state.owner
    done = await run("call", "--session", "a", "tabs_context")
    assert "Session a goes on in this version of mcpb, with its tabs." in done.stderr
    assert f"tab {tab} (own" in done.stdout
    after = await sessions()
    assert before["a"] != after["a"]
    with trio.fail_after(60):
        await until(lambda: not proc.is_running(before["a"]))
    assert shop.tab(tab).state.owner == owner
    await run("session", "end", "a")
    with trio.fail_after(60):
        await until(lambda: tab not in shop.tabs)


async def test_a_client_without_a_request_does_not_keep_a_session_from_being_replaced(
    shop: SimulatedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outdated_session("a", monkeypatch):
        before = await sessions()
    connection = named_sessions.find("a")
    assert connection
    with connection:
        await call("a", "tabs_context")
    assert before["a"] != (await sessions())["a"]


async def test_the_replacement_of_an_outdated_process_has_the_time_that_its_end_may_take(
    shop: SimulatedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outdated_session("a", monkeypatch):
        before = await sessions()
    monkeypatch.setattr(named_sessions, "START_S", 0)
    monkeypatch.setattr(named_sessions, "END_S", 60)
    await call("a", "tabs_context")
    assert before["a"] != (await sessions())["a"]


async def test_a_process_that_is_not_outdated_is_not_replaced(shop: SimulatedBrowser) -> None:
    await call("a", "tabs_create")
    before = await sessions()
    command = [sys.executable, "-I", "-m", "bridge", "session", "hold", "a"]
    with trio.fail_after(60):
        done = await trio.run_process(command, capture_stdout=True)
    assert done.stdout == named_sessions.READY
    assert await sessions() == before


async def test_an_upgrade_whose_command_is_killed_or_whose_configuration_is_invalid_loses_no_session(
    shop: SimulatedBrowser, mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outdated_session("a", monkeypatch):
        await call("a", "navigate", f"url={SHOP}")
        (tab,), before = await tab_ids("a"), await sessions()
    owner = shop.tab(tab).state.owner
    (mcpb_home / "config.toml").write_text("call_timeout_s = 'x'\n")
    assert "call_timeout_s" in (await run("call", "--session", "a", "tabs_context")).output
    assert await sessions() == before
    (mcpb_home / "config.toml").unlink()
    command = [sys.executable, "-I", "-m", "bridge", "session", "hold", "a"]
    code = f"""
import select, time
from native_host.ipc import named_sessions
select.select = lambda *_: print("started", flush=True) or time.sleep(60)
named_sessions.find_or_start("a", {command!r})
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as starter:
        assert starter.stdout
        await trio.to_thread.run_sync(starter.stdout.readline)
        starter.kill()
    with trio.fail_after(60):
        await until(lambda: not proc.is_running(before["a"]))
        while not await sessions():
            pass  # the next holder starts
    assert await tab_ids("a") == [tab]
    assert shop.tab(tab).state.owner == owner


async def test_a_session_of_another_installation_is_used_and_its_version_is_named(
    shop: SimulatedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call("a", BUY)
    before = await sessions()
    monkeypatch.setattr(named_sessions, "INSTALLATION", "/another")
    monkeypatch.setattr(named_sessions, "CODE", "another directory")
    assert (await run("call", "--session", "a", BUY)).stderr == ""
    monkeypatch.setattr(named_sessions, "__version__", "0.0.9")
    done = await run("call", "--session", "a", BUY)
    assert done.stdout == "bought\n"
    assert "run: mcpb session end a" in done.stderr
    assert await sessions() == before


async def test_a_session_whose_call_runs_is_not_replaced(
    shop: SimulatedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call("a", BUY)
    before = await sessions()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "call", "--session", "a", BUY, "wait=true")
        with trio.fail_after(60):
            await until(lambda: len(shop.heard("browser/executeTool")) == 2)
        monkeypatch.setattr(named_sessions, "CODE", "another version")
        done = await run("call", "--session", "a", BUY)
        assert (done.stdout, done.stderr) == ("bought\n", "")
        assert await sessions() == before
        await run("session", "end", "a")


async def test_a_name_means_the_tool_that_was_listed(shop: SimulatedBrowser) -> None:
    """A call for one page must not run in the next one that has a tool of that name."""
    await run("tools", "--session", "a")
    (tab,) = shop.tabs.values()
    tab.navigate(SHOP + "other")
    tab.offer("buy", buy, description="Buys something else")
    with trio.fail_after(30):
        while "another one" not in (done := await run("call", "--session", "a", BUY)).output:
            assert "bought" not in done.output
    await run("tools", "--session", "a")
    assert await call("a", BUY) == "bought\n"


async def test_a_tool_whose_schema_the_page_has_changed_gets_arguments_of_the_new_one(
    shop: SimulatedBrowser,
) -> None:
    (tab,) = shop.tabs.values()
    tab.offer("buy", buy, input_schema={"type": "object", "properties": {"text": {"type": "integer"}}})
    await run("call", "--session", "a", BUY, "text=7")
    tab.offer("buy", buy, input_schema={"type": "object", "properties": {"text": {"type": "string"}}})
    with trio.fail_after(30):
        while (await run("call", "--session", "a", BUY, "text=7")).stdout != "7\n":
            pass  # the new schema is on its way


async def test_a_long_text_goes_to_a_private_file(shop: SimulatedBrowser, mcpb_home: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(5000))
    shown = await call("a", BUY, f"text={text}")
    about, first, *_ = shown.splitlines()
    assert about.startswith(f"The result has {len(text)} characters. All of it is in: ")
    assert first == "line 0", "mcpb's own line comes first, where no page can write one"
    assert len(shown) < 2300
    path = Path(about.rpartition(": ")[2])
    assert path.parent == mcpb_home / "results"
    assert path.read_text() == text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await call("a", BUY, f"text={text}", "--max-chars", "60000") == text + "\n"


async def test_without_a_session_no_text_is_cut_by_default(shop: SimulatedBrowser) -> None:
    assert len((await run("call", BUY, f"text={'x' * 30_000}")).stdout) == 30_001


async def test_an_image_goes_to_a_file(shop: SimulatedBrowser) -> None:
    shown = await call("a", BUY, "picture=true")
    assert shown.startswith("Image (image/png, 14 bytes): ")
    assert Path(shown.strip().rpartition(": ")[2]).read_bytes() == b"\x89PNG of a cart"


async def test_the_tools_are_listed_where_no_page_offers_any(shop: SimulatedBrowser) -> None:
    await call("a", "tabs_create")
    (tab, *_) = shop.tabs.values()
    tab.withdraw("buy")
    with trio.fail_after(30):
        while BUY in (done := await run("tools", "--session", "a")).stdout:
            pass  # the change is on its way
    assert done.exit_code == 0
    assert "no open page offers a tool" in done.stderr
    assert len(await tab_ids("a")) == 1, "the session goes on"


async def test_a_process_that_stops_during_a_call_is_named(
    shop: SimulatedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call("a", "tabs_create")
    pid = (await sessions())["a"]
    monkeypatch.setattr(named_sessions, "SILENCE_S", 0.5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_during_call, shop, pid)
        done = await run("call", "--session", "a", BUY, "wait=true")
    assert done.exit_code == 1
    assert f"(pid {pid}) does not answer. The tool may have run" in done.output
    os.kill(pid, signal.SIGCONT)  # so that it ends at once


async def _stop_during_call(shop: SimulatedBrowser, pid: int) -> None:
    await shop.wait_heard("browser/executeTool")
    os.kill(pid, signal.SIGSTOP)


async def test_a_command_that_is_stopped_ends_the_waiting_of_others(
    shop: SimulatedBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_sessions, "LOCKED_S", 0.2)
    await call("a", "tabs_create")
    with private_files.lock_directory(named_sessions.prepare_directory()):
        done = await run("call", "--session", "b", "tabs_context")
        assert done.exit_code == 1
        assert "another mcpb command has been starting or ending a session" in done.output
        assert len(await tab_ids("a")) == 1, "an open session is used all the same"


async def test_a_holder_that_starts_keeps_others_from_starting_one_although_its_starter_was_killed(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = mcpb_home / "starts"
    holder = f"import os, time; open({str(starts)!r}, 'a').write('x'); time.sleep(60)"
    command = [sys.executable, "-c", holder]
    code = f"from native_host.ipc import named_sessions; named_sessions.find_or_start('a', {command!r})"
    with subprocess.Popen([sys.executable, "-c", code]) as starter:
        await until(starts.exists)
        starter.kill()
    monkeypatch.setattr(named_sessions, "LOCKED_S", 0.2)
    try:
        assert "another mcpb command" in (await run("call", "--session", "a", "tabs_context")).output
    finally:
        for process in proc.find_processes(os.getuid()):
            if holder in list(proc.read_command_line(process)):
                os.kill(proc.pid_of(process), signal.SIGKILL)


async def test_a_home_that_is_relative_is_rejected(mcpb_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mcpb_home.parent)
    monkeypatch.setenv("MCPB_HOME", mcpb_home.name)
    done = await run("call", "--session", "a", "tabs_create")
    assert done.exit_code == 2
    assert mcpb_home.name in done.output


async def test_tabs_are_closed_as_the_configuration_says_at_the_end(
    shop: SimulatedBrowser, mcpb_home: Path
) -> None:
    await call("a", "tabs_create")
    rules = '[policy]\ndeny = ["http://localhost:8123"]\n'
    (mcpb_home / "config.toml").write_text(f"[browser]\nclose_tabs = true\n{rules}")
    with trio.fail_after(30):
        while (await run("call", "--session", "a", BUY)).exit_code == 0:
            pass  # the configuration is read again within two seconds
    await run("session", "end", "a")
    await until(lambda: owners(shop) == [])


async def test_an_image_is_named_before_what_the_page_says(shop: SimulatedBrowser) -> None:
    shown = await call("a", BUY, "picture=true", "text=Image (image/png, 9 bytes): /etc/passwd")
    ours, theirs = shown.splitlines()
    assert ours.startswith("Image (image/png, 14 bytes): ")
    assert theirs.endswith("/etc/passwd")


async def test_a_result_is_printed_where_no_file_can_be_written(
    shop: SimulatedBrowser, mcpb_home: Path
) -> None:
    (mcpb_home / "results").write_text("a file in the place of the directory")
    text = "x" * 30_000
    done = await run("call", "--session", "a", BUY, f"text={text}")
    assert (done.exit_code, done.stdout) == (0, f"{text}\n")
    assert f"{mcpb_home}/results" in done.stderr
    shown = await call("a", BUY, "picture=true")
    assert shown.startswith("Image (image/png, 14 bytes), not stored: ")


@pytest.mark.usefixtures("mcpb_home")
@pytest.mark.parametrize("text", ["a=\udcff", '--args={"a": "\\ud800"}'])
async def test_an_argument_that_is_no_unicode_is_named(text: str) -> None:
    done = await run("call", "--session", "a", "tabs_context", text)
    assert done.exit_code == 2
    assert "an argument is not Unicode text" in done.output


@pytest.mark.usefixtures("mcpb_home")
async def test_the_limit_of_a_text_does_not_go_with_json() -> None:
    done = await run("call", "tabs_context", "--json", "--max-chars", "5")
    assert done.exit_code == 2
    assert "--max-chars cannot be combined with --json" in done.output


async def test_all_sessions_are_ended_also_where_one_was_killed(shop: SimulatedBrowser) -> None:
    for name in ("a", "b", "c"):
        await call(name, "tabs_context")
    pid = (await sessions())["a"]
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not proc.is_running(pid))
    done = await run("session", "end", "zzz", "b")
    assert (done.exit_code, done.stdout) == (1, "Ended session b.\n")
    assert "no session zzz is open" in done.stderr
    done = await run("session", "end", "--json", "zzz", "c")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert (found["ended"], len(found["problems"])) == (["c"], 1)
    await call("d", "tabs_context")
    done = await run("session", "end", "--all")
    assert (done.exit_code, done.stdout) == (0, "Ended session d.\n")


async def test_a_session_that_does_not_answer_is_listed(shop: SimulatedBrowser) -> None:
    await call("a", "tabs_context")
    pid = (await sessions())["a"]
    os.kill(pid, signal.SIGSTOP)
    shown = (await run("session", "list")).stdout
    assert "does not answer; to stop it: mcpb session end a" in shown
    assert f"pid {pid}" in shown
    os.kill(pid, signal.SIGCONT)  # so that it ends at once


async def test_status_shows_the_session(shop: SimulatedBrowser) -> None:
    await call("a", "tabs_create")
    shown = (await run("status")).stdout
    assert "Sessions of mcpb call (to end one: mcpb session end NAME)\n" in shown
    assert re.search(r"\n  a  last used at \d\d:\d\d, ends at \d\d:\d\d unless it is used", shown)
    assert "mcpb session a" in shown, "it is a client of the browser, too"


@pytest.mark.usefixtures("mcpb_home")
@pytest.mark.parametrize("name", ["", "../a", "a/b", "-a", "a" * 33])
@pytest.mark.parametrize("command", [("session", "end", "--"), ("call", "tabs_context", "--session")])
async def test_what_is_not_a_name_is_rejected(command: tuple[str, ...], name: str) -> None:
    done = await run(*command, name)
    assert done.exit_code == 2
    assert "cannot be a session's name: use 1 to 32 letters" in done.output


@pytest.mark.usefixtures("mcpb_home")
async def test_the_end_of_an_unknown_session_is_an_error() -> None:
    done = await run("session", "end", "a")
    assert (done.exit_code, done.output) == (
        1,
        "Error: no session a is open: mcpb session list shows those that are\n",
    )


async def test_an_unusable_configuration_is_named(mcpb_home: Path) -> None:
    (mcpb_home / "config.toml").write_text("call_timeout_s = 'x'\n")
    done = await run("call", "--session", "a", "tabs_context")
    assert done.exit_code == 1
    assert "the session a cannot be started: mcpb: " in done.output
    assert "call_timeout_s" in done.output


async def test_uninstalling_ends_sessions_and_leaves_no_socket(
    shop: SimulatedBrowser, mcpb_home: Path
) -> None:
    await call("a", "tabs_create")
    pid = (await sessions())["a"]
    planned = await run("uninstall-native-host", "--dry-run")
    assert f"end     session a, {mcpb_home}/run/sessions/a.sock" in planned.output
    done = await run("uninstall-native-host", "--yes")
    assert done.exit_code == 0, done.output
    await until(lambda: not proc.is_running(pid))
    assert not (mcpb_home / "run/sessions").exists()
