"""`mcpb doctor` as somebody types it, with the real installer and native host, in a home of its own."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from bridge.cli.group import main
from bridge.diagnostics.fixes import is_open_to_others
from bridge.state.remote_records import RemoteRecord, publish_remote
from demo.simulated.browser import SimulatedBrowser
from install.browsers import find_browser, known_browsers
from install.checks.running_browsers import RunningBrowser
from install.findings import MCPB
from native_host.ipc import endpoint
from native_host.protocol.wire import EXTENSION_ID, HOST_NAME

SECRET = "My salary"
SITE = "https://payroll.example"


@pytest.fixture
def home(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somebody who has used Chromium, on a machine where no browser runs."""
    (short_tmp / ".config/chromium").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(short_tmp))
    monkeypatch.setenv("MCPB_HOME", str(short_tmp / "mcpb"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("CHROME_CONFIG_HOME", raising=False)
    monkeypatch.setattr("install.checks.check_report.running_browsers", lambda *_: [])
    monkeypatch.setattr(
        "bridge.diagnostics.observation.command_name", lambda _: MCPB
    )  # whatever the tests' PATH is
    # Signals come to the main thread, and the command runs in another one.
    monkeypatch.setattr("install.checks.check_report.cancel_on_signals", nullcontext)
    yield short_tmp
    logging.getLogger("bridge").setLevel(logging.NOTSET)


async def pay(_arguments: dict[str, Any]) -> str:
    return "paid"


async def mcpb(*arguments: str) -> Result:
    """The command in a thread: it runs an event loop of its own."""
    with trio.fail_after(30):
        return await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, arguments))


async def report(*arguments: str) -> Any:
    return json.loads((await mcpb("doctor", "--json", *arguments)).output)


async def faults(*arguments: str) -> list[str]:
    found = await report(*arguments)
    return [finding["code"] for finding in found["findings"] if finding["level"] == "fault"]


def wrapper(home: Path) -> Path:
    return home / "mcpb/bin/mcpb-native-host"


def manifest(home: Path) -> Path:
    return home / f".config/chromium/NativeMessagingHosts/{HOST_NAME}.json"


@pytest.fixture
async def registered(home: Path) -> Path:
    assert (await mcpb("install-native-host", "--yes")).exit_code == 0
    return home


# ── A chain that works ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_chain_that_works_ends_with_0_and_says_how_fast_the_extension_answers(
    registered: Path,
) -> None:
    async with SimulatedBrowser([str(wrapper(registered))]) as browser:
        browser.add_tab(SITE, SECRET).offer("pay", pay)
        found = await mcpb("doctor")
    assert found.exit_code == 0
    lines = [line.split() for line in found.output.splitlines()]
    assert found.output.splitlines()[0] == "mcpb 0.2.0: It works. Connected: Chromium (1 tool)."
    assert ["✓", "worker", "answers", "in"] in [line[:4] for line in lines]
    assert ["✓", "page", "1", "tool"] in lines


async def test_what_is_shown_in_public_has_neither_person_nor_page_in_it(registered: Path) -> None:
    async with SimulatedBrowser([str(wrapper(registered))], profile_label="Ada") as browser:
        browser.add_tab(SITE, SECRET).offer("pay", pay)
        found = await mcpb("doctor", "--redact", "--json")
        plain = await mcpb("doctor", "--json")
    for word in (str(registered), "payroll", "salary", "Ada"):
        assert word not in found.output
        assert word in plain.output


async def test_a_paused_site_is_named_with_the_command_that_resumes_it(registered: Path) -> None:
    """It was paused while no browser was connected."""
    assert (await mcpb("pause", "payroll.example")).exit_code == 0
    async with SimulatedBrowser([str(wrapper(registered))]) as browser:
        browser.add_tab(SITE, SECRET).offer("pay", pay)
        found = await report()
        public = await mcpb("doctor", "--redact", "--json")
    (paused,) = [finding for finding in found["findings"] if finding["code"] == "paused"]
    assert paused["command"] == "mcpb pause payroll.example --resume"
    assert "the user paused payroll.example" in found["verdict"]
    assert "payroll" not in public.output


async def test_remote_servers_are_shown_as_running_clients_have_them(home: Path) -> None:
    (home / "mcpb/state").mkdir(mode=0o700, parents=True)
    config = home / "mcpb/config.toml"
    config.write_text('[[remote]]\nname = "orders"\nurl = "https://orders.example/mcp?key=hidden"')
    config.chmod(0o600)
    lost = RemoteRecord(name="orders", state="unreachable", cause="refused", error="it is refused")
    with publish_remote(home / "mcpb/state", os.getpid()) as publish:
        publish([lost])
        found = await report()
        public = await mcpb("doctor", "--redact")
    (server,) = found["remote"]
    assert (server["state"], server["cause"], server["error"]) == ("unreachable", "refused", "it is refused")
    assert "remote-unreachable" in [finding["code"] for finding in found["findings"]]
    assert "hidden" not in str(found)
    assert "orders" not in public.output


# ── --fix ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_fix_puts_right_what_is_ours_and_says_what_it_did(registered: Path) -> None:
    wrapper(registered).chmod(0o600)
    run = registered / "mcpb/run"
    run.mkdir(exist_ok=True)
    run.chmod(0o755)
    (run / "0a1b2c3d.lock").touch()
    assert {"program-not-executable", "socket-directory"} <= set(await faults())
    fixed = (await report("--fix"))["fixed"]
    assert [text.split(" ")[0] for text in fixed] == ["chmod", "removed", "wrote"]
    assert not {"program-not-executable", "socket-directory"} & set(await faults())
    assert list(run.iterdir()) == []


def edit_manifest(home: Path, **changes: Any) -> None:
    found = json.loads(manifest(home).read_text())
    manifest(home).write_text(json.dumps({**found, **changes}))


def edit_wrapper(home: Path, fourth_line: str) -> None:
    lines = wrapper(home).read_text().split("\n")
    wrapper(home).write_text("\n".join([*lines[:3], fourth_line, *lines[3:]]))


@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("origin-missing", lambda home: edit_manifest(home, allowed_origins=[])),
        ("origin-malformed", lambda home: edit_manifest(home, allowed_origins=["chrome-extension://*/"])),
        ("manifest-type", lambda home: edit_manifest(home, type="pipe")),
        ("program-missing", lambda home: wrapper(home).unlink()),
        ("host-prints", lambda home: edit_wrapper(home, "echo Welcome back")),
        ("host-exits", lambda home: edit_wrapper(home, "exit 3")),
        ("wrapper-exposed", lambda home: wrapper(home).parent.chmod(0o777)),
    ],
)
async def test_what_is_safe_is_put_right(registered: Path, code: str, make: Callable[[Path], None]) -> None:
    make(registered)
    broken = (await report())["findings"]
    fixed = await report("--fix")
    assert code in {finding["code"] for finding in broken}
    assert any(finding["isSafe"] for finding in broken)
    assert len(fixed["fixed"]) == 1
    assert code not in {finding["code"] for finding in fixed["findings"]}
    assert not any(finding["isSafe"] for finding in fixed["findings"])


def test_a_folder_of_another_user_is_left_as_it_is(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short_tmp.chmod(0o755)
    assert is_open_to_others(short_tmp)
    monkeypatch.setattr("os.getuid", lambda: short_tmp.stat().st_uid + 1)
    assert not is_open_to_others(short_tmp)


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to(path)])
async def test_what_is_said_to_be_safe_is_put_right_whatever_stands_in_the_wrapper_s_place(
    registered: Path, make: Callable[[Path], None]
) -> None:
    wrapper(registered).unlink()
    make(wrapper(registered))
    before = (await report())["findings"]
    after = (await report("--fix"))["findings"]
    safe = {finding["code"] for finding in before if finding["isSafe"]}
    assert not safe & {finding["code"] for finding in after}


async def test_fix_leaves_alone_what_is_right(registered: Path) -> None:
    assert (await report("--fix"))["fixed"] == []


async def test_what_cannot_be_put_right_is_said_and_the_report_follows(registered: Path) -> None:
    (registered / "mcpb/state/ledger.json").write_text("{")
    wrapper(registered).parent.chmod(0o777)
    found = await mcpb("doctor", "--fix", "--json")
    assert "Not everything was fixed: " in found.stderr
    assert "ledger.json" in found.stderr
    assert json.loads(found.stdout)["fixed"] == [f"chmod 700 {wrapper(registered).parent}"]


async def test_fix_neither_touches_what_others_wrote_nor_registers_a_browser(registered: Path) -> None:
    edit_manifest(registered, path="/bin/cat")
    before = manifest(registered).read_bytes()
    (registered / ".config/google-chrome").mkdir()
    found = await report("--fix")
    assert found["fixed"] == []
    assert "Not fixed: " in found["left"][0]
    assert manifest(registered).read_bytes() == before
    assert list((registered / ".config/google-chrome").iterdir()) == []


async def test_fix_does_not_bring_a_manifest_back_that_was_deleted_and_says_what_does(
    registered: Path,
) -> None:
    manifest(registered).unlink()
    found = await mcpb("doctor", "--fix")
    assert not manifest(registered).exists()
    (said,) = [line for line in found.output.splitlines() if "Not fixed" in line and "not registered" in line]
    assert "you decide which browsers start mcpb" in said
    assert said.endswith("run mcpb install-native-host --browser chromium")
    faults = [
        f["code"] for f in (await report())["findings"] if (f["level"], f["where"]) == ("fault", "Chromium")
    ]
    assert faults == ["manifest-missing"]


async def test_fix_brings_no_browser_back_that_was_taken_out(registered: Path) -> None:
    await mcpb("uninstall-native-host", "--browser", "chromium", "--yes")
    shutil.rmtree(manifest(registered).parent, ignore_errors=True)
    await mcpb("doctor", "--fix")
    assert not manifest(registered).exists()


async def test_without_fix_nothing_is_written(home: Path) -> None:
    await mcpb("doctor")
    assert sorted(path.name for path in home.rglob("*")) == [".config", "chromium"]


# ── What all browsers share ─────────────────────────────────────────────────────────────────────────────────


async def test_settings_that_cannot_be_read_are_named_and_the_rest_is_looked_at_all_the_same(
    home: Path,
) -> None:
    (home / "mcpb").mkdir(mode=0o700)
    (home / "mcpb/config.toml").write_text("max_name = 'long'")
    assert await faults() == ["config-invalid", "manifest-missing"]


async def test_a_file_of_pauses_that_cannot_be_read_is_named(home: Path) -> None:
    (home / "mcpb/state").mkdir(mode=0o700, parents=True)
    (home / "mcpb/state/pauses.json").write_text("{")
    found = {finding["code"]: finding for finding in (await report())["findings"]}
    assert found["pauses-invalid"]["level"] == "warning"


async def test_files_of_the_browser_s_own_tools_that_cannot_be_read_are_named(home: Path) -> None:
    (home / "mcpb/state").mkdir(mode=0o700, parents=True)
    (home / "mcpb").chmod(0o700)
    (home / "mcpb/state/approvals.json").write_text("[]")
    (home / "mcpb/shortcuts.toml").write_text("[[shortcut]]\nname = 3")
    found = {finding["code"]: finding for finding in (await report())["findings"]}
    assert found["approvals-invalid"]["level"] == found["shortcuts-invalid"]["level"] == "warning"
    assert "shortcut[0].name: expected str, got int" in found["shortcuts-invalid"]["text"]


async def test_a_table_of_browsers_that_cannot_be_read_is_named(home: Path) -> None:
    (home / "mcpb").mkdir(mode=0o700)
    (home / "mcpb/browsers.toml").write_text("[[browser]]\nname = 3")
    assert await faults() == ["browsers-table"]


async def test_a_folder_whose_sockets_would_have_no_address_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPB_HOME", str(home / ("deep" * 30)))
    assert "socket-path-long" in await faults()


async def test_files_of_a_dead_host_are_a_note_and_those_of_one_that_lives_are_its_own(home: Path) -> None:
    place = endpoint.open_endpoint(home / "mcpb/run")
    (home / "mcpb/run/0a1b2c3d.lock").touch(mode=0o600)
    found = [finding for finding in (await report())["findings"] if finding["code"] == "socket-stale"]
    place.close()
    (note,) = found
    assert (note["level"], note["command"]) == ("note", "mcpb doctor --fix")
    assert "0a1b2c3d.lock" in note["text"]
    assert place.instance not in note["text"]


def use_extension(home: Path) -> None:
    """Chromium has on disk that our extension stored something."""
    (home / f".config/chromium/Default/Local Extension Settings/{EXTENSION_ID}").mkdir(parents=True)


async def test_a_machine_that_is_set_up_is_not_broken_because_its_browser_is_closed(registered: Path) -> None:
    use_extension(registered)
    (registered / ".config/google-chrome").mkdir()
    (registered / ".mozilla").mkdir(exist_ok=True)
    found = await mcpb("doctor")
    assert found.exit_code == 0
    assert "Nothing is wrong, but Chromium is not running. Start it." in found.output


async def test_a_browser_whose_host_keeps_to_another_home_is_told_from_one_without_a_host(
    registered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_extension(registered)
    chromium = find_browser("chromium", known_browsers())
    assert chromium is not None
    us = RunningBrowser(os.getpid(), chromium, "/usr/bin/chromium")
    monkeypatch.setattr("install.checks.check_report.running_browsers", lambda *_: [us])
    assert await faults() == ["not-connected"]
    host = [sys.executable, "-I", "-m", "native_host"]
    async with SimulatedBrowser(host, env={"MCPB_HOME": str(registered / "other")}):
        assert await faults() == ["connected-elsewhere"]


async def test_a_host_that_lives_and_says_nothing_is_named_with_its_process(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.diagnostics.observation.PING_S", 0.3)
    place = endpoint.open_endpoint(home / "mcpb/run")  # nobody accepts what connects to it
    try:
        place.publish(
            endpoint.Record(
                instance=place.instance,
                pid=4711,
                browser_pid=700,
                extension_origin="",
                version="0.2.0",
                started_at=1.0,
            )
        )
        found = [item for item in (await report())["findings"] if item["code"] == "host-not-linked"]
    finally:
        place.close()
    (finding,) = found
    assert finding["level"] == "fault"
    assert f"the native host {place.instance} (process 4711, started by " in finding["text"]
    assert "process 700) runs" in finding["text"]


async def test_a_folder_that_is_not_private_is_one_finding_and_no_host(home: Path) -> None:
    (home / "mcpb/run").mkdir(parents=True, mode=0o755)
    found = [item["code"] for item in (await report())["findings"] if item["hop"] == "socket"]
    assert found == ["socket-directory"]


# ── Another product's channel ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def theirs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket in its place, of this process, which is none of its hosts."""
    directory = home / "theirs"
    directory.mkdir(mode=0o700)
    monkeypatch.setenv("MCPB_EXISTING_CHANNEL_DIRECTORY", str(directory))
    path = directory / f"{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
        listener.setblocking(False)
        yield listener


async def test_a_channel_is_looked_at_and_nobody_connects_to_it(theirs: socket.socket) -> None:
    (found,) = (await report())["channels"]
    with pytest.raises(BlockingIOError):
        theirs.accept()
    assert (found["pid"], found["isTheirs"], found["holder"]) == (os.getpid(), False, 0)
    assert "Channels of other products" in (await mcpb("doctor")).output


async def test_the_configuration_says_whether_what_is_wrong_with_it_is_a_fault(
    theirs: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(theirs.getsockname()).chmod(0o666)
    assert "channel-unusable" not in await faults()
    monkeypatch.setenv("MCPB_EXISTING_CHANNEL_ATTACH", "true")
    assert "channel-unusable" in await faults()


async def test_the_process_that_holds_a_channel_is_no_host_that_keeps_silent(
    home: Path, theirs: socket.socket
) -> None:
    place = endpoint.open_endpoint(home / "mcpb/run")
    try:
        place.publish(
            endpoint.Record(
                instance=place.instance,
                pid=4711,
                browser_pid=700,
                extension_origin="",
                version="0.2.0",
                started_at=1.0,
                channel=theirs.getsockname(),
            )
        )
        found = await report()
    finally:
        place.close()
    assert [channel["holder"] for channel in found["channels"]] == [4711]
    assert "host-not-linked" not in {finding["code"] for finding in found["findings"]}


# ── Names of files are anybody's ────────────────────────────────────────────────────────────────────────────


async def test_no_name_of_a_file_reaches_the_terminal_raw(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = Path(os.fsdecode(os.fsencode(home) + b"/a\x1b[2J\n\xffb"))
    (hostile / "run").mkdir(parents=True, mode=0o755)
    monkeypatch.setenv("MCPB_HOME", str(hostile))
    for arguments in ((), ("--json",), ("--redact",)):
        found = await mcpb("doctor", *arguments)
        text = found.stdout_bytes.decode("utf-8")
        assert not {char for char in text if not char.isprintable()} - {"\n"}
        assert r"\x1b[2J" in text or "--redact" in arguments
    assert json.loads((await mcpb("doctor", "--json")).stdout)["findings"]


# ── The command line ────────────────────────────────────────────────────────────────────────────────────────


async def test_only_the_browsers_that_are_named_are_looked_at(home: Path) -> None:
    (home / ".config/google-chrome").mkdir()
    both, one = await report(), await report("--browser", "chrome")
    assert [browser["name"] for browser in both["browsers"]] == ["chromium", "chrome"]
    assert [browser["name"] for browser in one["browsers"]] == ["chrome"]


async def test_a_misspelt_browser_is_refused_with_the_one_that_was_meant(home: Path) -> None:
    found = await mcpb("doctor", "--browser", "chromiun")
    assert found.exit_code == 2
    assert "Did you mean chromium?" in found.output
