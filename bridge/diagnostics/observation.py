"""`mcpb doctor`: examine files and processes, ask the browsers that are connected, and say what is wrong."""

from __future__ import annotations

import getpass
import json
import logging
import os
import shlex
import socket
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size

import click
import msgspec
import trio

from bridge import __version__
from bridge.cli.doctor_output import as_text
from bridge.config import shortcuts_file
from bridge.config.loader import ConfigError
from bridge.config.loader import read as read_config
from bridge.config.settings import ChannelSettings, Config
from bridge.diagnostics.browser_checks import PING_S, Answer, SeenBrowser, UnlinkedHost, see
from bridge.diagnostics.browser_matching import Looked
from bridge.diagnostics.fixes import fix, is_open_to_others
from bridge.diagnostics.redaction import Private, named_folders, redacted, without_sites
from bridge.diagnostics.report import diagnose
from bridge.errors import CallError
from bridge.hub.policy import Policy
from bridge.hub.router import Router, Terms
from bridge.hub.transport import TabAddress
from bridge.links.native_hosts import NativeLinks, Problem
from bridge.state import log_file
from bridge.state.site_approvals import Approvals, ApprovalsError
from install.browsers import TableError, known_browsers
from install.checks.check_report import Report, examine_and_try
from install.checks.environment import Environment, called, examine_environment, this_environment
from install.checks.existing_channel import Channel, channel_holders, existing_channels
from install.checks.running_browsers import RunningBrowser, hosts_started_by
from install.cli import check_home_owner, this_host
from install.findings import Finding, Hop, Level
from install.ledger import LedgerError
from install.machine import Machine, this_machine
from install.plan.apply import ApplyError, look
from install.plan.ownership import installed_wrapper
from install.targets import Choice, Names, UnknownBrowserError
from install.wrapper_repair import registered_interpreter
from native_host.existing_channel.published_socket import standing
from native_host.ipc import endpoint
from native_host.ipc.endpoint import EndpointError, Record
from native_host.protocol import wire
from native_host.protocol.untrusted_text import (
    MAX_NOTICE_CHARS,
    MAX_ORIGIN_CHARS,
    MAX_TITLE_CHARS,
    for_terminal,
    single_line,
)
from native_host.system.home_layout import HomeLayout, is_home_chosen, mcpb_home, password_home, user_home
from native_host.system.private_files import PrivateFileError, check_directory


def _known(_ctx: click.Context, _option: click.Parameter, names: Sequence[str]) -> Sequence[str]:
    """Rows of the table. A table that cannot be read is a finding, not a misspelt option."""
    machine, found = this_machine(), Names(browsers=names)
    try:
        Choice(machine, known_browsers(mcpb_home()), Path.exists).named(found)
    except UnknownBrowserError as error:
        raise click.BadParameter(str(error)) from None
    except TableError:
        pass
    return names


@click.command()
@click.option(
    "--fix", "is_fixing", is_flag=True, help="First put right what is only ours; it says what it did."
)
@click.option("--json", "as_json", is_flag=True, help="For scripts; docs/TROUBLESHOOTING.md has the shape.")
@click.option(
    "--redact", "is_public", is_flag=True, help="Without names, sites and titles, to show it around."
)
@click.option(
    "--browser",
    "names",
    multiple=True,
    metavar="NAME",
    callback=_known,
    help="Only this browser (repeatable). Default: all that are there.",
)
def doctor(*, is_fixing: bool, as_json: bool, is_public: bool, names: Sequence[str]) -> None:
    """Find out what is wrong between browsers and MCP clients, and which command mends it.

    Ends with 0 when what you use works, else with 1. docs/TROUBLESHOOTING.md explains each finding.
    """
    if is_fixing:
        check_home_owner()
    logging.getLogger("bridge").setLevel(logging.ERROR)  # what would be warned of is in the report
    log_file.configure()
    looked = trio.run(_look, names, _fix() if is_fixing else None)
    if is_public:
        looked = msgspec.structs.replace(looked, seen=without_sites(looked.seen))
    diagnosis = diagnose(looked)
    if is_public:
        commands = str(Path(sys.executable).parent)
        diagnosis = redacted(diagnosis, _private(), [*named_folders(looked), commands])
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(diagnosis), ensure_ascii=False, indent=2))
    else:
        width = get_terminal_size().columns if sys.stdout.isatty() else 0
        click.echo("\n".join(as_text(diagnosis, width)))
    sys.exit(0 if diagnosis.healthy else 1)


def _fix() -> list[str]:
    """What was done. What could not be is said at once, and the report shows what is left."""
    done: list[str] = []
    try:
        done.extend(fix(this_host(), endpoint.candidates()))
    except (LedgerError, ApplyError, click.ClickException) as error:
        click.echo(for_terminal(f"Not everything was put right: {error}", on=sys.stderr), err=True)
    return done


async def _look(names: Sequence[str], fixed: Sequence[str] | None) -> Looked:
    """First what does not depend on a running chain, then the chain."""
    machine, home = this_machine(), mcpb_home()
    files, config = Report(), Config()
    here = this_environment(machine)
    shared = list(_environment(here))
    try:
        files = await examine_and_try(machine, home, names)
    except TableError as error:
        shared.append(Finding(code="browsers-table", hop="environment", text=str(error)))
    try:
        config = read_config(home)
    except ConfigError as error:
        shared.append(Finding(code="config-invalid", hop="environment", text=str(error)))
    shared += _of_browser_tools(home)
    seen, unlinked = await _ask_browsers(Policy(config.policy))
    channel = config.existing_channel
    hosts = hosts_started_by(machine, [browser.pid for browser in files.running])
    return Looked(
        files=files,
        shared=[*shared, *_sockets()],
        seen=seen,
        unlinked=unlinked,
        hosts={browser: host for host, browser in hosts.items()},
        channels=_channels(machine, files.running, channel, is_partial=bool(names)),
        is_attached=channel.attach,
        only_directory=channel.only_directory,
        is_published=channel.publish,
        published=standing(HomeLayout(home).state.path),
        is_partial=bool(names),
        details=_details(home),
        fixed=fixed,
        called=called(here),
        now=time.time(),
    )


def _of_browser_tools(home: Path) -> Iterator[Finding]:
    """Files of the browser's own tools that the person may edit."""
    try:
        Approvals(HomeLayout(home).state.path).refresh()
    except ApprovalsError as error:
        yield Finding(code="approvals-invalid", hop="environment", text=str(error), level="warning")
    try:
        shortcuts_file.read(home)
    except shortcuts_file.ShortcutsError as error:
        yield Finding(code="shortcuts-invalid", hop="environment", text=str(error), level="warning")


def _channels(
    machine: Machine, running: Sequence[RunningBrowser], settings: ChannelSettings, *, is_partial: bool
) -> list[Channel]:
    """Another product's. Nobody connects to them for that: its extension would hear of it."""
    held = channel_holders(endpoint.candidates())
    found = existing_channels(machine, running, settings.only_directory, held, is_attached=settings.attach)
    return [channel for channel in found if channel.browser_pid or not is_partial]


# ── A running chain ─────────────────────────────────────────────────────────────────────────────────────────


async def _ask_browsers(policy: Policy) -> tuple[list[SeenBrowser], list[UnlinkedHost]]:
    """What is connected, after a round trip to each extension; and the hosts that live and are not linked.

    A hub of its own, without what `mcpb bridge` writes: nothing is kept.
    """
    links = NativeLinks(endpoint.candidates())
    router = Router(links, terms=Terms(policy=policy))
    answers: dict[str, Answer] = {}

    async def ask(host: str) -> None:
        answers[host] = await _ping(links, host)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(links.run)
        await router.settle()
        async with trio.open_nursery() as asking:
            for browser in router.registry.browsers():
                if not browser.is_channel:  # it is asked for nothing but its tools
                    asking.start_soon(ask, browser.host)
        await router.news.wait_until(lambda: _is_clear(router, links), until=trio.current_time() + PING_S)
        seen = see(router.registry, router.catalog, answers)
        linked = {browser.host for browser in router.registry.links() if browser.is_live}
        nursery.cancel_scope.cancel()
    return seen, list(_unlinked(linked, links.problems))


def _is_clear(router: Router, links: NativeLinks) -> bool:
    """Whether each host that was seen has said hello, or why not is known."""
    return all(browser.is_live or browser.host in links.problems for browser in router.registry.links())


def _unlinked(linked: Container[str], problems: Mapping[str, Problem]) -> Iterator[UnlinkedHost]:
    """Hosts that live, by their locks, and have a browser of ours behind them.

    A directory that cannot be used is a finding of its own.
    """
    for directory in endpoint.candidates():
        with suppress(PrivateFileError, OSError):
            for record in endpoint.live_hosts(directory):
                if record.instance not in linked and not record.channel:
                    yield unlinked_host(record, problems.get(record.instance))


def unlinked_host(record: Record, problem: Problem | None) -> UnlinkedHost:
    """A live host that has not said hello: it was refused, or says nothing."""
    return UnlinkedHost(
        host=record.instance,
        host_pid=record.pid,
        host_version=single_line(record.version, MAX_TITLE_CHARS),
        browser_pid=record.browser_pid,
        caller=single_line(record.extension_origin, MAX_ORIGIN_CHARS),
        brand=single_line(record.browser, MAX_TITLE_CHARS),
        reason=problem.text if problem else "it accepts the connection and says nothing",
        is_final=problem is not None and problem.is_final,
    )


async def _ping(links: NativeLinks, host: str) -> Answer:
    """To the extension, not only to its host, and with an answer that no mere life would give."""
    began = trio.current_time()
    try:
        answer = await links.request(TabAddress(host), "getTabs", wire.Asked(), PING_S)
        msgspec.json.decode(answer, type=wire.Tabs)
    except CallError as error:
        return single_line(error.detail, MAX_NOTICE_CHARS) or "it went away"
    except msgspec.DecodeError as error:
        return f"what it says cannot be read ({error})"
    return trio.current_time() - began


# ── What all browsers share ─────────────────────────────────────────────────────────────────────────────────


def _environment(here: Environment) -> Iterator[Finding]:
    registered = registered_interpreter()
    yield from examine_environment(here, Path(registered) if registered else None)


def _sockets() -> Iterator[Finding]:
    for directory in endpoint.candidates():
        yield from _unusable(directory)
        with suppress(PrivateFileError, OSError):
            check_directory(directory)
            if left := endpoint.left_by_dead_hosts(directory):
                names = ", ".join(path.name for path in left)
                text = f"{directory} has {names} of native hosts that were killed"
                yield _socket_finding("socket-stale", text, "mcpb doctor --fix", "note", is_safe=True)


def _unusable(directory: Path) -> Iterator[Finding]:
    """Why hosts cannot meet bridges there. One that is missing is made by the next host."""
    try:
        endpoint.check_length(endpoint.socket_path(directory, "0" * 8))
    except EndpointError as error:
        yield _socket_finding("socket-path-long", str(error))
    if not os.path.lexists(directory):
        return
    try:
        check_directory(directory)
    except PrivateFileError as error:
        is_ours = is_open_to_others(directory)
        command = f"chmod 700 {shlex.quote(str(directory))}" if is_ours else ""
        yield _socket_finding("socket-directory", f"{directory} {error.reason}", command, is_safe=is_ours)


def _socket_finding(
    code: str, text: str, command: str = "", level: Level = "fault", *, is_safe: bool = False
) -> Finding:
    return Finding(code=code, hop="socket", text=text, command=command, level=level, is_safe=is_safe)


def _details(home: Path) -> dict[Hop, str]:
    found: dict[Hop, str] = {"environment": f"mcpb {__version__}, {sys.executable}"}
    if directories := [str(directory) for directory in endpoint.candidates() if directory.is_dir()]:
        found["socket"] = ", ".join(directories)
    if installed_wrapper(home, look):
        found["wrapper"] = str(HomeLayout(home).wrapper)
    return found


# ── What nobody else need know ──────────────────────────────────────────────────────────────────────────────


def _private() -> Private:
    """Of this person and machine."""
    home = mcpb_home()
    paths = {str(each): "~" for each in (user_home(), password_home()) if each != Path("/")}
    if is_home_chosen():
        paths[str(home)] = "$MCPB_HOME"
    user = ""
    with suppress(OSError, KeyError):  # a user without a name
        user = getpass.getuser()
    return Private(paths=paths, user=user, machine=socket.gethostname())
