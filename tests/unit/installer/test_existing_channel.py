"""Another product's sockets and hosts as an examination sees them: whose they are, and who uses them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio

from install.browsers import find_browser, known_browsers
from install.checks import existing_channel
from install.checks.existing_channel import (
    OPENING_S,
    THEIR_HOST,
    Channel,
    channel_findings,
    channel_holders,
    describe_channel,
    existing_channels,
    missing_channel,
    stopped_host,
)
from install.checks.running_browsers import RunningBrowser
from install.findings import path_value
from install.machine import Machine, this_machine
from native_host.existing_channel.channel_sockets import find_channels
from native_host.ipc import endpoint
from native_host.system import sock_diag

CLAUDE = "/opt/claude/versions/2.1.329"
BROWSER_PID = 700
ME = os.getpid()
UP_S = 5000.0


class Place:
    """A machine whose processes are made up, and the sockets of whose other product are real."""

    def __init__(self, root: Path, sockets: ExitStack) -> None:
        self.machine = Machine("linux", root / "home", {}, root)
        self.proc = root / "proc"
        (self.proc / "net").mkdir(parents=True)
        (self.proc / "uptime").write_text(f"{UP_S} 9000.0\n")
        self.directory = root / "channel"
        self.directory.mkdir(mode=0o700)
        self._sockets = sockets
        self._table = ["Num RefCount Protocol Flags Type St Inode Path"]
        chromium = find_browser("chromium", known_browsers())
        assert chromium is not None
        profile = root / "profile"
        self.running = [RunningBrowser(BROWSER_PID, chromium, "/usr/bin/chromium", profile)]
        self.start(BROWSER_PID, "/usr/bin/chromium", parent=1)

    def start(
        self,
        pid: int,
        program: str,
        *words: str,
        parent: int = BROWSER_PID,
        age_s: float = 60.0,
        inodes: Sequence[int] = (),
    ) -> None:
        """A process as the kernel shows it; `inodes` are of its sockets."""
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "exe").symlink_to(program)
        (folder / "cmdline").write_bytes("\0".join([program, *words, ""]).encode())
        ticks = int((UP_S - age_s) * os.sysconf("SC_CLK_TCK"))
        after = " ".join(["S", str(parent), *["0"] * 17, str(ticks), "0"])
        (folder / "stat").write_text(f"{pid} (a) b) {after}\n")
        for number, inode in enumerate(inodes):
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")

    def start_their_host(self, pid: int = ME) -> None:
        self.start(pid, CLAUDE, THEIR_HOST, "chrome-extension://x/")

    def bind(self, name: str = f"{ME}.sock", mode: int = 0o600) -> Path:
        path = self.directory / name
        listener = self._sockets.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        path.chmod(mode)
        return path

    def show(self, path: Path, inode: int, *, listens: bool = False) -> None:
        """In the kernel's table of Unix sockets."""
        flags, state = ("00010000", "01") if listens else ("00000000", "03")
        self._table.append(f"0: 00000002 00000000 {flags} 0001 {state} {inode} {path}")
        (self.proc / "net/unix").write_text("\n".join(self._table) + "\n")

    def look(self, holders: Mapping[str, int] | None = None, *, attached: bool = False) -> list[Channel]:
        return existing_channels(self.machine, self.running, self.directory, holders, is_attached=attached)

    def only(self, *, attached: bool = False) -> Channel:
        (channel,) = self.look(attached=attached)
        return channel


@pytest.fixture
def place(short_tmp: Path) -> Iterator[Place]:
    with ExitStack() as sockets:
        yield Place(short_tmp, sockets)


@contextmanager
def held(hosts: Path, channel: str) -> Iterator[None]:
    """A process of ours holds this socket; none: it is a browser's host."""
    host = endpoint.open_endpoint(hosts)
    host.publish(
        endpoint.Record(
            instance=host.instance,
            pid=4711,
            browser_pid=1,
            extension_origin="",
            version="0.2.0",
            started_at=1.0,
            channel=channel,
        )
    )
    yield
    host.close()


def codes(channel: Channel) -> list[str]:
    return [finding.code for finding in channel_findings(channel)]


# ── Whose it is ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_socket_is_told_with_its_host_the_browser_that_started_it_and_its_folder(place: Place) -> None:
    path = place.bind()
    place.start_their_host()
    found = place.only()
    assert (found.path, found.pid, found.program) == (str(path), ME, CLAUDE)
    assert (found.is_theirs, found.title) == (True, f"Claude in Chrome, through its own host (pid {ME})")
    assert (found.browser, found.browser_pid) == ("Chromium", BROWSER_PID)
    assert found.user_data_dir == str(place.machine.root / "profile")
    assert found.is_usable
    assert codes(found) == []


def test_a_host_that_a_shell_started_is_its_browser_s_all_the_same(place: Place) -> None:
    place.bind()
    place.start(800, "/bin/sh", "/home/ada/.claude/chrome/chrome-native-host")
    place.start(ME, CLAUDE, THEIR_HOST, parent=800)
    assert place.only().browser == "Chromium"


def test_a_program_that_is_not_known_is_not_taken_for_theirs(place: Place) -> None:
    place.bind()
    place.start(ME, "/usr/bin/python3", "mcp_server.py", parent=1)
    found = place.only()
    assert (found.is_theirs, found.browser) == (False, "")
    assert found.title == f"A socket in Claude in Chrome's place, of an unknown program (pid {ME})"


def test_a_socket_that_is_not_called_by_a_pid_is_known_by_who_listens(place: Place) -> None:
    place.show(place.bind("old.sock"), 11, listens=True)
    place.start(800, CLAUDE, THEIR_HOST, inodes=[11])
    assert (place.only().pid, place.only().is_theirs) == (800, True)


def test_nothing_is_known_of_processes_where_the_system_does_not_say(place: Place) -> None:
    place.bind()
    mac = Machine("macos", place.machine.user_home, {}, place.machine.root)
    (found,) = existing_channels(mac, [], place.directory)
    assert (found.program, found.connections, found.is_usable) == ("", None, True)


# ── Who uses it ─────────────────────────────────────────────────────────────────────────────────────────────


def test_who_is_connected_is_counted_and_named_as_far_as_it_is_this_user(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.bind()
    place.start_their_host()
    place.start(900, "/usr/bin/claude", parent=1, inodes=[31])
    place.show(path, 10, listens=True)
    for inode in (21, 22):
        place.show(path, inode)
    place.show(Path(f"{path}.other"), 23)
    monkeypatch.setattr(sock_diag, "find_unix_peers", lambda: {21: 31, 22: 32})
    found = place.only()
    assert found.connections == 2
    assert [(client.pid, client.program) for client in found.clients] == [(900, "/usr/bin/claude")]


def test_a_name_that_breaks_the_system_s_table_hides_no_other(place: Place) -> None:
    path = place.bind()
    place.show(Path("/tmp/a\nb 1 2"), 9, listens=True)
    place.show(path, 10, listens=True)
    place.show(path, 21)
    assert place.only().connections == 1


def test_whether_mcpb_uses_it_is_said_and_what_would_make_it(place: Place) -> None:
    path = place.bind()
    place.start_their_host()
    assert place.only().use.startswith(
        "not used by mcpb. To use it: `mcpb bridge --existing-channel` in your"
    )
    assert place.only(attached=True).use == "used as soon as an MCP client runs"
    (held,) = place.look({str(path): 4711})
    assert (held.holder, held.use) == (4711, "used by mcpb (pid 4711)")


def test_our_holders_are_known_by_their_records(short_tmp: Path) -> None:
    hosts = short_tmp / "run"
    with held(hosts, "/tmp/c/1.sock"), held(hosts, ""):
        assert channel_holders([hosts, short_tmp / "none"]) == {"/tmp/c/1.sock": 4711}
    assert channel_holders([hosts]) == {}


def test_a_hint_is_given_only_where_it_would_help(place: Place) -> None:
    assert describe_channel(place.directory) == ""
    path = place.bind()
    assert "of its own. To use it: `mcpb bridge --existing-channel` in your MCP client" in describe_channel(
        place.directory
    )
    path.chmod(0o666)
    assert describe_channel(place.directory) == ""


def test_who_does_not_use_it_hears_that_others_do(place: Place, mcpb_home: Path) -> None:
    path = place.bind()
    with held(mcpb_home / "run", str(path)):
        assert "of its own, which mcpb uses for other MCP clients. To use it: " in describe_channel(
            place.directory
        )


# ── What is wrong ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_socket_that_is_open_to_others_is_named_with_the_reason(place: Place) -> None:
    place.show(place.bind(mode=0o666), 10, listens=True)
    place.start_their_host()
    found = place.only(attached=True)
    assert (found.is_usable, found.is_left) == (False, False)
    assert found.use == "not used: it is open to other users"
    (finding,) = channel_findings(found)
    assert (finding.code, finding.level, finding.hop) == ("channel-unusable", "note", "socket")


def test_where_its_folder_is_open_to_others_the_command_that_closes_it_is_said(place: Place) -> None:
    place.bind()
    place.start_their_host()
    place.directory.chmod(0o755)
    found = place.only(attached=True)
    reason = "its directory is open to other users"
    assert found.use == f"not used: {reason}. Run: chmod 700 {place.directory}"
    (finding,) = channel_findings(found)
    assert (finding.code, finding.command_line) == ("channel-unusable", f"chmod 700 {place.directory}")
    assert finding.text.endswith(f"cannot be used: {reason}")


def test_a_socket_that_is_a_link_is_not_followed(place: Place) -> None:
    (place.directory / "7.sock").symlink_to(place.bind("elsewhere"))
    assert place.only().fault == "it is a link"


def test_what_a_killed_host_has_left_is_told_from_what_is_used(place: Place) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(10)
    place.bind(f"{process.pid}.sock")
    place.show(Path("/elsewhere"), 1)
    found = place.only()
    assert (found.is_left, found.title) == (True, "A socket that Claude in Chrome's host has left behind")
    assert "has ended without removing it. Open https://clau.de/chrome/reconnect in that" in found.fault
    assert found.fault.endswith("its next host removes it")


def test_a_host_that_lives_without_its_socket_has_stopped_serving(place: Place) -> None:
    place.start_their_host(800)
    found = place.only(attached=True)
    assert (found.is_dead, found.is_usable, found.browser) == (True, False, "Chromium")
    (finding,) = channel_findings(found)
    assert finding.code == "channel-dead"
    assert "(pid 800), has stopped serving, as it does after a message over 1 MiB" in finding.text
    assert "https://clau.de/chrome/reconnect" in found.use


def test_a_host_that_has_stopped_serving_is_found_for_who_looks_for_a_channel(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the bridges say it that were open when it stopped."""
    monkeypatch.setattr(existing_channel, "running_browsers", lambda *_: place.running)
    home = place.machine.root / "mcpb"
    assert stopped_host(place.machine, home, place.directory) == ""
    place.start_their_host(800)
    said = stopped_host(place.machine, home, place.directory)
    assert said.startswith("Claude in Chrome's native host (pid 800) still runs, but has closed its socket")
    assert "Open https://clau.de/chrome/reconnect in that browser, or restart it" in said


def test_the_only_folder_that_is_looked_into_is_named_where_nothing_serves_in_it(tmp_path: Path) -> None:
    assert path_value(tmp_path) in missing_channel(directory=tmp_path).values.values()


@pytest.mark.parametrize(("age_s", "parent"), [(OPENING_S - 1, BROWSER_PID), (60.0, 1)])
def test_one_that_has_just_started_or_is_no_browser_s_has_not(
    age_s: float, parent: int, place: Place
) -> None:
    place.start(800, CLAUDE, THEIR_HOST, age_s=age_s, parent=parent)
    assert place.look() == []


def test_a_host_whose_socket_is_in_another_directory_has_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration may name one of several."""
    place.bind()
    place.start_their_host()
    other = place.machine.root / "other"
    other.mkdir(mode=0o700)
    monkeypatch.setattr("native_host.existing_channel.channel_sockets.ABOVE", str(place.machine.root))
    monkeypatch.setattr("native_host.existing_channel.channel_sockets.DIRECTORIES", "channel*")
    assert existing_channels(place.machine, place.running, other) == []


def test_the_place_of_2025_is_told_as_old(place: Place) -> None:
    place.bind("claude-code-mcp-ada.sock")
    assert codes(place.only()) == ["channel-old"]


def test_sockets_of_the_newer_directory_are_found_before_those_of_2025(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("native_host.existing_channel.channel_sockets.ABOVE", str(place.machine.root))
    newer = place.machine.root / "claude-mcp-browser-bridge-ada"
    newer.mkdir(mode=0o700)
    older = place.machine.root / "claude-code-mcp-ada.sock"
    for path in (older, newer / "7.sock"):
        path.touch()
    assert [found.path for found in find_channels()] == [newer / "7.sock", older]


def test_names_that_would_steer_a_terminal_are_shown_as_they_are_written(place: Place) -> None:
    place.bind("a\x1b[2J.sock")
    assert place.only().path.endswith(r"a\x1b[2J.sock")


# ── A real one ──────────────────────────────────────────────────────────────────────────────────────────────

HOST = """
import os, socket, sys
path = f"{sys.argv[1]}/{os.getpid()}.sock"
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o600)
listener.listen()
os.write(1, b"listens")
client = listener.accept()
os.write(1, b"accepted")
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system says it in /proc")
async def test_a_real_host_and_its_client_are_found_without_connecting_to_it(short_tmp: Path) -> None:
    short_tmp.chmod(0o700)
    command = [sys.executable, "-c", HOST, str(short_tmp), THEIR_HOST]
    with trio.fail_after(60):
        async with started(command) as host:
            assert host.stdout is not None
            assert await host.stdout.receive_some() == b"listens"
            before = as_if_we_were_its_browser(short_tmp)
            async with await trio.open_unix_socket(short_tmp / f"{host.pid}.sock"):
                assert await host.stdout.receive_some() == b"accepted"
                during = as_if_we_were_its_browser(short_tmp)
    assert (during.pid, during.is_theirs, during.browser_pid) == (host.pid, True, ME)
    assert (before.connections, during.connections) == (0, 1)
    if sock_diag.find_unix_peers():
        assert [client.pid for client in during.clients] == [ME]


@asynccontextmanager
async def started(command: Sequence[str]) -> AsyncIterator[trio.Process]:
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        await process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                await trio.aclose_forcefully(stream)


def as_if_we_were_its_browser(directory: Path) -> Channel:
    chromium = find_browser("chromium", known_browsers())
    assert chromium is not None
    us = RunningBrowser(ME, chromium, sys.executable)
    found = existing_channels(this_machine(), [us], directory)
    return next(channel for channel in found if channel.path)
