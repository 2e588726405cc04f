"""Observations for a report: files, processes, configuration and connected browsers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from bridge import __version__
from bridge.config import shortcuts_file
from bridge.config.loader import ConfigError, read_config
from bridge.config.settings import ChannelSettings, Config
from bridge.diagnostics.browser_checks import PING_S, Answer, ObservedBrowser, UnlinkedHost, observe_browsers
from bridge.diagnostics.browser_matching import Observations
from bridge.diagnostics.fixes import is_open_to_others
from bridge.diagnostics.proxy_checks import ObservedProxy
from bridge.diagnostics.remote_status import describe_remote
from bridge.errors import CallError
from bridge.hub.policy import Policy
from bridge.hub.registry import Registry
from bridge.hub.router import Router, Terms
from bridge.hub.transport import TabAddress
from bridge.links.browsers.composite_transport import CompositeTransport
from bridge.links.browsers.link_problem import LinkProblem
from bridge.links.browsers.native_hosts import NativeLinks
from bridge.links.browsers.proxied_links import VARIABLES, ProxiedLinks
from bridge.links.browsers.proxy_address import ProxyAddressError
from bridge.links.browsers.proxy_problem import ProxyCause, ProxyProblem
from bridge.state.pause_control import Target, paused_targets
from bridge.state.pauses_file import PausesFile, PausesFileError
from bridge.state.remote_records import read_records
from bridge.state.site_approvals import Approvals, ApprovalsError
from install.browsers import TableError
from install.checks.check_report import Report, examine_and_try
from install.checks.environment import Environment, command_name, examine_environment, this_environment
from install.checks.existing_channel import Channel, channel_holders, existing_channels
from install.checks.running_browsers import RunningBrowser, hosts_started_by
from install.extension_copies import find_current_kinds
from install.findings import (
    Command,
    Finding,
    FindingCode,
    Hop,
    Level,
    Message,
    Part,
    foreign_value,
    mcpb_command,
    path_value,
    public_value,
)
from install.machine import Machine, this_machine
from install.plan.apply import read_place
from install.plan.ownership import installed_wrapper
from install.wrapper_repair import registered_interpreter
from native_host.existing_channel.published_socket import read_published_sockets
from native_host.ipc import endpoint
from native_host.ipc.endpoint import EndpointError, Record
from native_host.protocol import wire
from native_host.protocol.untrusted_text import (
    MAX_NOTICE_CHARS,
    MAX_ORIGIN_CHARS,
    MAX_TITLE_CHARS,
    single_line,
)
from native_host.protocol.validation_errors import describe_problem
from native_host.system.home_layout import HomeLayout, is_home_chosen, mcpb_home, password_home, user_home
from native_host.system.private_files import PrivateFileError, check_directory
from native_host.system.problem import Problem
from native_host.system.program_name import format_command

_PROXY_S = 5.0
"""Seconds for browsers at WebSocket proxies to be connected."""


async def observe_machine(names: Sequence[str], fixed: Sequence[Part] | None) -> Observations:
    """Observe files and processes first, then the connected browsers."""
    machine, home = this_machine(), mcpb_home()
    files, config = Report(), Config()
    here = this_environment(machine)
    shared = list(_check_environment(here))
    try:
        files = await examine_and_try(machine, home, names)
    except TableError as error:
        shared.append(_file_finding(FindingCode.BROWSERS_TABLE, "browsers.toml", error))
    try:
        config = read_config(home)
    except ConfigError as error:
        shared.append(_file_finding(FindingCode.CONFIG_INVALID, "config.toml", error))
    pauses = PausesFile(HomeLayout(home).state.path)
    shared += _check_edited_files(home, pauses)
    replies = await _ask_browsers(Policy(config.policy), pauses)
    channel = config.existing_channel
    hosts = hosts_started_by(machine, [browser.pid for browser in files.running])
    return Observations(
        files=files,
        shared=[*shared, *_check_sockets()],
        seen=replies.seen,
        unlinked=replies.unlinked,
        paused=replies.paused,
        proxies=replies.proxies,
        remote=list(describe_remote(config.remote, read_records(HomeLayout(home).state.path))),
        current_copies=find_current_kinds(home),
        hosts={browser: host for host, browser in hosts.items()},
        channels=_find_channels(machine, files.running, channel, is_partial=bool(names)),
        is_attached=channel.attach,
        only_directory=channel.only_directory,
        is_published=channel.publish,
        published=read_published_sockets(HomeLayout(home).state.path),
        is_partial=bool(names),
        details=_collect_details(home),
        fixed=fixed,
        called=command_name(here),
        now=time.time(),
    )


def _check_edited_files(home: Path, pauses: PausesFile) -> Iterator[Finding]:
    """Check the files besides config.toml that the user may have edited; read `pauses`."""
    try:
        pauses.refresh()
    except PausesFileError as error:
        yield _file_finding(FindingCode.PAUSES_INVALID, "pauses.json", error, "warning")
    try:
        Approvals(HomeLayout(home).state.path).refresh()
    except ApprovalsError as error:
        yield _file_finding(FindingCode.APPROVALS_INVALID, "approvals.json", error, "warning")
    try:
        shortcuts_file.read_shortcuts(home)
    except shortcuts_file.ShortcutsError as error:
        yield _file_finding(FindingCode.SHORTCUTS_INVALID, "shortcuts.toml", error, "warning")


def _file_finding(code: FindingCode, name: str, error: Exception, level: Level = "fault") -> Finding:
    return Finding(
        code=code,
        hop="environment",
        template="{file} cannot be used: {reason}",
        values={"file": public_value(name), "reason": foreign_value(str(error))},
        level=level,
    )


def _find_channels(
    machine: Machine, running: Sequence[RunningBrowser], settings: ChannelSettings, *, is_partial: bool
) -> list[Channel]:
    """Find the sockets of the existing channel without a connection, which its extension would notice."""
    held = channel_holders(endpoint.candidates())
    found = existing_channels(machine, running, settings.only_directory, held, is_attached=settings.attach)
    return [channel for channel in found if channel.browser_pid or not is_partial]


# ── A running chain ─────────────────────────────────────────────────────────────────────────────────────────


class _BrowserReplies(NamedTuple):
    seen: list[ObservedBrowser]
    unlinked: list[UnlinkedHost]
    paused: list[Target]
    proxies: list[ObservedProxy]


async def _ask_browsers(policy: Policy, pauses: PausesFile) -> _BrowserReplies:
    """Return connected browsers, after a round trip to each extension, unconnected live hosts, and pauses.

    It uses a hub of its own that writes no files.
    """
    native = NativeLinks(endpoint.candidates())
    links = CompositeTransport(native)
    proxied, rejected = _find_proxies(links, native)
    router = Router(links, terms=Terms(policy=policy))
    answers: dict[str, Answer] = {}

    async def ask_browser(host: str) -> None:
        answers[host] = await _ping_extension(links, host)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(native.run)
        if proxied:
            nursery.start_soon(proxied.run)
        await router.wait_discovered()
        if proxied and proxied.links:
            until = trio.current_time() + _PROXY_S
            await router.changes.wait_until(lambda: router.registry.is_settled, until=until)
        async with trio.open_nursery() as asking:
            for browser in router.registry.browsers():
                if not browser.is_channel:  # it is asked for nothing but its tools
                    asking.start_soon(ask_browser, browser.host)
        await router.changes.wait_until(lambda: _is_clear(router, links), until=trio.current_time() + PING_S)
        seen = observe_browsers(router.registry, router.catalog, answers)
        linked = {browser.host for browser in router.registry.all_browsers() if browser.is_live}
        paused = _find_paused(router.registry, pauses) if seen else []
        nursery.cancel_scope.cancel()
    states = proxied.links.states if proxied and proxied.links else []
    return _BrowserReplies(
        seen,
        list(_find_unlinked(linked, links.problems)),
        paused,
        [*rejected, *(ObservedProxy(state.url, state.problems) for state in states)],
    )


def _find_proxies(
    links: CompositeTransport, native: NativeLinks
) -> tuple[ProxiedLinks | None, list[ObservedProxy]]:
    """Return the links to proxies, or the proxy whose address in the environment cannot be used."""
    try:
        return ProxiedLinks(links, native, mcpb_home(), os.environ), []
    except ProxyAddressError as error:
        problem = ProxyProblem(ProxyCause.ADDRESS, str(error))
        return None, [ObservedProxy(", ".join(filter(os.environ.get, VARIABLES)), (problem,))]


def _find_paused(registry: Registry, pauses: PausesFile) -> list[Target]:
    """Return the paused sites, and those paused clients that are connected."""
    registry.set_stored_pauses(pauses.changes)
    return [target for target in paused_targets(registry) if target.site or target.title]


def _is_clear(router: Router, links: CompositeTransport) -> bool:
    """Return whether each host has sent its hello, or has a known problem."""
    return all(
        browser.is_live or browser.host in links.problems for browser in router.registry.all_browsers()
    )


def _find_unlinked(linked: Container[str], problems: Mapping[str, LinkProblem]) -> Iterator[UnlinkedHost]:
    """Find live hosts, by their locks, that belong to a browser with the mcpb extension.

    An unusable directory is a separate finding.
    """
    for directory in endpoint.candidates():
        with suppress(PrivateFileError, OSError):
            for record in endpoint.live_hosts(directory):
                if record.instance not in linked and not record.channel:
                    yield unlinked_host(record, problems.get(record.instance))


def unlinked_host(record: Record, problem: LinkProblem | None) -> UnlinkedHost:
    """Return a live host without a hello: it was rejected, or is silent."""
    return UnlinkedHost(
        host=record.instance,
        host_pid=record.pid,
        host_version=single_line(record.version, MAX_TITLE_CHARS),
        browser_pid=record.browser_pid,
        caller=single_line(record.extension_origin, MAX_ORIGIN_CHARS),
        brand=single_line(record.browser, MAX_TITLE_CHARS),
        reason=problem.text if problem else "it accepts the connection and says nothing",
        is_final=problem is not None and problem.is_final,
        command=_find_command(problem.text) if problem else None,
    )


def _find_command(text: str) -> Command | None:
    """Return the mcpb command of a problem; None for another program, whose name a host may have sent."""
    command = text.commands[0] if isinstance(text, Problem) and text.commands else ""
    arguments = command.removeprefix(format_command(""))
    return mcpb_command(*arguments.split()) if arguments != command else None


async def _ping_extension(links: CompositeTransport, host: str) -> Answer:
    """To the extension, not only to its host, and with an answer that no mere life would give."""
    began = trio.current_time()
    try:
        answer = await links.request(TabAddress(host), "getTabs", wire.Asked(), PING_S)
        msgspec.json.decode(answer, type=wire.Tabs)
    except CallError as error:
        return single_line(error.detail, MAX_NOTICE_CHARS) or "it went away"
    except msgspec.DecodeError as error:
        return f"what it says cannot be read ({describe_problem(error)})"
    return trio.current_time() - began


# ── What all browsers share ─────────────────────────────────────────────────────────────────────────────────


def _check_environment(here: Environment) -> Iterator[Finding]:
    registered = registered_interpreter()
    yield from examine_environment(here, Path(registered) if registered else None)


def _check_sockets() -> Iterator[Finding]:
    for directory in endpoint.candidates():
        yield from _check_directory(directory)
        with suppress(PrivateFileError, OSError):
            check_directory(directory)
            if left := endpoint.find_leftovers(directory):
                yield _socket_finding(
                    FindingCode.SOCKET_STALE,
                    "{directory} has {files} of native hosts that were killed",
                    mcpb_command("doctor", "--fix"),
                    "note",
                    is_safe=True,
                    directory=path_value(directory),
                    files=public_value(", ".join(path.name for path in left)),
                )


def _check_directory(directory: Path) -> Iterator[Finding]:
    """Find why hosts and bridges cannot use a directory. The next host creates a missing one."""
    at = path_value(directory)
    try:
        endpoint.check_length(endpoint.socket_path(directory, "0" * 8))
    except EndpointError as error:
        reason = foreign_value(str(error))
        template = "{directory} is too long for a socket: {reason}"
        yield _socket_finding(FindingCode.SOCKET_PATH_LONG, template, directory=at, reason=reason)
    if not os.path.lexists(directory):
        return
    try:
        check_directory(directory)
    except PrivateFileError as error:
        is_ours = is_open_to_others(directory)
        yield _socket_finding(
            FindingCode.SOCKET_DIRECTORY,
            "{directory} {reason}",
            Command(("chmod", "700", at)) if is_ours else None,
            is_safe=is_ours,
            directory=at,
            reason=public_value(error.reason),
        )


def _socket_finding(
    code: FindingCode,
    template: str,
    command: Command | None = None,
    level: Level = "fault",
    *,
    is_safe: bool = False,
    **values: Part,
) -> Finding:
    return Finding(
        code=code,
        hop="socket",
        template=template,
        values=values,
        command=command,
        level=level,
        is_safe=is_safe,
    )


def _collect_details(home: Path) -> dict[Hop, Part]:
    interpreter = {"interpreter": path_value(sys.executable)}
    found: dict[Hop, Part] = {
        "environment": Message(template=f"mcpb {__version__}, {{interpreter}}", values=interpreter)
    }
    directories = [path_value(each) for each in endpoint.candidates() if each.is_dir()]
    if directories:
        template = ", ".join(f"{{part_{number}}}" for number in range(len(directories)))
        values = {f"part_{number}": each for number, each in enumerate(directories)}
        found["socket"] = Message(template=template, values=values)
    if installed_wrapper(home, read_place):
        found["wrapper"] = path_value(HomeLayout(home).wrapper)
    return found


# ── Homes ───────────────────────────────────────────────────────────────────────────────────────────────────


def find_homes() -> dict[str, str]:
    """Return the home directories of this user with the names that `--redact` shows."""
    homes = {str(each): "~" for each in (user_home(), password_home()) if each != Path("/")}
    if is_home_chosen():
        homes[str(mcpb_home())] = "$MCPB_HOME"
    return homes
