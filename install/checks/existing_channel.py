"""Check of the existing channel: the sockets of its hosts, their owners and users.

It does not connect: the host would announce a client to its extension.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

import msgspec

from install.browsers import known_browsers
from install.checks.running_browsers import RunningBrowser, running_browsers
from install.findings import Command, Finding, FindingCode, Level, Message, Part, path_value, public_value
from install.machine import Machine
from native_host.existing_channel.channel_messages import BRAND, OLD_SOCKETS
from native_host.existing_channel.channel_sockets import (
    OPEN_RECONNECT,
    RECONNECT,
    FoundChannel,
    describe_stopped_host,
    find_channels,
)
from native_host.ipc import endpoint
from native_host.protocol.untrusted_text import escape
from native_host.system import proc, sock_diag
from native_host.system.private_files import PrivateFileError
from native_host.system.program_name import command_path

THEIR_HOST = "--chrome-native-host"
OPENING_S = 3.0
"""Until a host that has just started has its socket."""


class ChannelClient(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A process that is connected to a socket."""

    pid: int
    program: str


class Channel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A socket in that product's place, or a host of its that has none any more."""

    title: str
    use: str
    """For people: whether mcpb uses it, or why not, and what would make it."""
    path: str = ""
    """Path of the socket; empty: the host has stopped serving."""
    pid: int = 0
    """Process that owns it; 0 if unknown."""
    program: str = ""
    """Executable of that process; empty if unknown."""
    is_theirs: bool = False
    """It says in its command line that it is a host of that product."""
    browser: str = ""
    """That started it, by its title; empty where none that is known did."""
    browser_pid: int = 0
    user_data_dir: str = ""
    """With which that browser was started; empty for its usual one."""
    connections: int | None = None
    """None: the system does not say."""
    clients: tuple[ChannelClient, ...] = ()
    """Connected processes of this user, as far as the system shows them."""
    holder: int = 0
    """The process of mcpb that holds it for all bridges."""
    fault: str = ""
    mend: str = ""
    """The command that makes it usable; empty where none does."""
    is_old: bool = False
    """In the place that its hosts of 2025 had."""
    is_left: bool = False
    """True if no process listens there."""

    @property
    def is_dead(self) -> bool:
        """Return whether its host lives and serves no client."""
        return not self.path

    @property
    def is_usable(self) -> bool:
        """Return whether bridges can use it."""
        return bool(self.path) and not self.fault


def existing_channels(
    machine: Machine,
    running: Sequence[RunningBrowser],
    directory: Path | None = None,
    holders: Mapping[str, int] | None = None,
    *,
    is_attached: bool = False,
) -> list[Channel]:
    """Return the sockets found by `find_channels`, then hosts that have stopped serving.

    `holders` are mcpb's processes by the sockets that they hold; `is_attached`: mcpb is configured to use
    them.
    """
    system = _System(machine, running)
    found = find_channels(directory)
    seen = [_observe_channel(channel, system, (holders or {}).get(str(channel.path), 0)) for channel in found]
    elsewhere = find_channels() if directory else []
    with_sockets = {system.owner_of(channel) for channel in [*found, *elsewhere]}
    stopped = [_of_process(pid, system) for pid in system.stopped_hosts(with_sockets)]
    return [
        msgspec.structs.replace(each, use=describe_use(each, is_attached=is_attached).text)
        for each in [*seen, *stopped]
    ]


def channels_here(machine: Machine, home: Path, directory: Path | None, is_attached: bool) -> list[Channel]:
    """Return all channels of this user, with mcpb's own holders. `home` is mcpb's.

    Raises:
        TableError: the user's table of browsers is invalid.
    """
    running = running_browsers(machine, known_browsers(home), os.getuid())
    held = channel_holders(endpoint.candidates())
    return existing_channels(machine, running, directory, held, is_attached=is_attached)


def channel_holders(directories: Sequence[Path]) -> dict[str, int]:
    """Return the pids of holders by socket, from these directories of hosts."""
    found: dict[str, int] = {}
    for directory in directories:
        with suppress(PrivateFileError, OSError):
            found |= {each.channel: each.pid for each in endpoint.live_hosts(directory) if each.channel}
    return found


def describe_channel(directory: Path | None = None) -> str:
    """Return a sentence about a usable channel; empty without one. Reads directories only."""
    usable = [str(channel.path) for channel in find_channels(directory) if not channel.fault]
    if not usable:
        return ""
    is_held = not channel_holders(endpoint.candidates()).keys().isdisjoint(usable)
    beside = ", which mcpb uses for other MCP clients" if is_held else ""
    return f"{BRAND} runs here with a native host of its own{beside}. {_TO_USE}."


def stopped_host(machine: Machine, home: Path, directory: Path | None) -> str:
    """Return a sentence about a host that has stopped serving, with the remedy; empty without one.

    It reads all processes. `home` is mcpb's.

    Raises:
        TableError: the user's table of browsers is invalid.
    """
    found = channels_here(machine, home, directory, is_attached=True)
    return next((describe_stopped_host(channel.pid) for channel in found if channel.is_dead), "")


USE_CHANNEL = f"{command_path()} bridge --existing-channel"
_TO_USE = (
    f"To use it: `{USE_CHANNEL}` in your MCP client, or attach = true below "
    "[existing_channel] in ~/.mcpb/config.toml"
)


# ── In words ────────────────────────────────────────────────────────────────────────────────────────────────


def _channel_title(pid: int, *, is_theirs: bool, is_left: bool) -> str:
    if is_theirs:
        return f"{BRAND}, through its own host (pid {pid})"
    if is_left:
        return f"A socket that {BRAND}'s host has left behind"
    return f"A socket in {BRAND}'s place, of an unknown program{f' (pid {pid})' if pid else ''}"


def describe_use(channel: Channel, *, is_attached: bool) -> Message:
    """Return whether mcpb uses a channel, or why not and what changes it."""
    if channel.is_dead:
        return Message(template=f"it {_STOPPED}")
    if channel.holder:
        return Message(template=f"used by mcpb (pid {channel.holder})")
    if channel.fault:
        fault = {"fault": public_value(channel.fault)}
        command = make_channel_command(channel)
        if command is None:
            return Message(template="not used: {fault}", values=fault)
        return Message(template="not used: {fault}. Run: {command}", values={**fault, "command": command})
    if is_attached:
        return Message(template="used as soon as an MCP client runs")
    return Message(template=f"not used by mcpb. {_TO_USE}")


_STOPPED = (
    "has stopped serving, as it does after a message over 1 MiB, and will not again until its extension "
    f"reconnects. {OPEN_RECONNECT}"
)


# ── What is wrong ───────────────────────────────────────────────────────────────────────────────────────────


def channel_findings(channel: Channel) -> Iterator[Finding]:
    """Return notes; the caller raises their level if the channel is to be used.

    Codes: channel-dead, channel-unusable, channel-old.
    """
    socket = path_value(channel.path)
    if channel.is_dead:
        yield _make_finding(
            FindingCode.CHANNEL_DEAD, f"{{channel}}, {_STOPPED}", channel=public_value(channel.title)
        )
    elif channel.fault:
        yield _make_finding(
            FindingCode.CHANNEL_UNUSABLE,
            f"{{socket}}, of {BRAND}, cannot be used: {{fault}}",
            command=make_channel_command(channel),
            socket=socket,
            fault=public_value(channel.fault),
        )
    elif channel.is_old:
        template = (
            f"{{socket}} is where {BRAND}'s hosts of 2025 had their socket. Their results do not name their "
            f"request, so mcpb makes one call at a time. Update {BRAND}"
        )
        yield _make_finding(FindingCode.CHANNEL_OLD, template, socket=socket)


def make_channel_command(channel: Channel) -> Command | None:
    """Return the command that makes a channel usable; None if no command does."""
    return make_closing_command(Path(channel.path)) if channel.mend else None


def make_closing_command(socket: Path) -> Command:
    """Make the command that closes the directory of a socket to other users."""
    return Command(("chmod", "700", path_value(socket.parent)))


def missing_channel(level: Level = "warning", directory: Path | None = None) -> Finding:
    """Return the finding that no host serves, in `directory` if one is set. Code: channel-missing."""
    end = f"Start the browser that has it, or open {RECONNECT} in it"
    if directory is None:
        template = f"{BRAND} is to be used, and none of its hosts serves. {end}"
        return _make_finding(FindingCode.CHANNEL_MISSING, template, level)
    template = (
        f"{BRAND} is to be used, and none of its hosts serves in {{directory}} (existing_channel.directory "
        f"of the configuration{'' if directory.is_dir() else '; this directory does not exist'}). {end}"
    )
    return _make_finding(FindingCode.CHANNEL_MISSING, template, level, directory=path_value(directory))


def _make_finding(
    code: FindingCode, template: str, level: Level = "note", *, command: Command | None = None, **values: Part
) -> Finding:
    return Finding(code=code, hop="socket", template=template, values=values, level=level, command=command)


# ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _System:
    """Sockets and processes of the system, each read once and on demand."""

    machine: Machine
    running: Sequence[RunningBrowser]
    uid: int = field(default_factory=os.getuid)

    @property
    def proc_root(self) -> Path:
        return self.machine.root / "proc"

    @cached_property
    def processes(self) -> Mapping[int, Path]:
        """Processes of this user."""
        found = proc.find_processes(self.uid, self.proc_root) if self.machine.system == "linux" else ()
        return {proc.pid_of(process): process for process in found}

    @cached_property
    def bound_sockets(self) -> Mapping[str, proc.BoundSocket]:
        """Sockets of the system by path; empty if unavailable."""
        return proc.find_bound_sockets(self.proc_root) if self.machine.system == "linux" else {}

    @cached_property
    def other_ends(self) -> Mapping[int, int]:
        return sock_diag.find_unix_peers()

    @cached_property
    def owners(self) -> Mapping[int, int]:
        """Process that owns the socket of an inode."""
        return {inode: pid for pid, process in self.processes.items() for inode in proc.find_sockets(process)}

    def owner_of(self, channel: FoundChannel) -> int:
        """Return the host's pid, by the socket's name or else by its listener; 0 if unknown."""
        listener = (
            self.bound_sockets[str(channel.path)].listener if str(channel.path) in self.bound_sockets else 0
        )
        return channel.pid or self.owners.get(listener, 0)

    def program_of(self, pid: int) -> str:
        with suppress(OSError, KeyError):
            return escape(proc.read_executable(self.processes[pid]))
        return ""

    def is_theirs(self, pid: int) -> bool:
        return pid in self.processes and THEIR_HOST in proc.read_command_line(self.processes[pid])

    def browser_above(self, pid: int) -> RunningBrowser | None:
        above = list(proc.find_ancestors(self.processes[pid])) if pid in self.processes else []
        return next((each for pid in above for each in self.running if each.pid == pid), None)

    def stopped_hosts(self, with_sockets: Container[int]) -> Iterator[int]:
        """Yield hosts of a browser that should have a socket by now, and have none."""
        for pid, process in self.processes.items():
            with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
                is_host = pid not in with_sockets and self.is_theirs(pid)
                if is_host and self.browser_above(pid) and proc.read_age_s(process) > OPENING_S:
                    yield pid


def _observe_channel(found: FoundChannel, system: _System, holder: int) -> Channel:
    bound = system.bound_sockets.get(str(found.path), proc.BoundSocket())
    ends = {system.other_ends.get(inode, 0) for inode in bound.connections}
    clients = sorted({system.owners[inode] for inode in ends & system.owners.keys()})
    is_left = bool(found.fault and system.bound_sockets) and not bound.listener
    return msgspec.structs.replace(
        _of_process(system.owner_of(found), system, is_left=is_left),
        path=escape(str(found.path)),
        connections=len(bound.connections) if system.bound_sockets else None,
        clients=tuple(ChannelClient(pid=client, program=system.program_of(client)) for client in clients),
        holder=holder,
        fault=escape(found.fault),
        mend=escape(make_closing_command(found.path).text) if found.is_directory_open else "",
        is_old=fnmatch(found.path.name, OLD_SOCKETS),
        is_left=is_left,
    )


def _of_process(pid: int, system: _System, *, is_left: bool = False) -> Channel:
    """Without its socket."""
    is_theirs, browser = system.is_theirs(pid), system.browser_above(pid)
    folder = browser.user_data_dir if browser else None
    return Channel(
        title=_channel_title(pid, is_theirs=is_theirs, is_left=is_left),
        use="",
        pid=pid,
        program=system.program_of(pid),
        is_theirs=is_theirs,
        browser=browser.browser.title if browser else "",
        browser_pid=browser.pid if browser else 0,
        user_data_dir=escape(str(folder)) if folder else "",
    )
