"""`mcpb status`: browsers, tabs, tools and clients that are connected."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import json
import sys
from contextlib import closing, suppress
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from bridge.cli.group import format_json, proxy_option
from native_host.protocol.untrusted_text import for_terminal

if TYPE_CHECKING:
    from bridge.app import Hub
    from bridge.config.settings import ChannelSettings, Config
    from bridge.hub.client_session import Session
    from bridge.state.audit_reader import LatestCalls

_RECENT_CALLS = 5
"""Calls in `mcpb status`, and requests of pages."""
_WATCH_S = 0.5
_CLIENTS_S = 1.0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --watch one line per change.")
@click.option("--watch", "-w", "is_watching", is_flag=True, help="Show each change until Ctrl-C.")
@click.option("--check", "is_checking", is_flag=True, help="Exit with 1 if clients cannot work (default 0).")
@click.option("--details", "is_detailed", is_flag=True, help="Also show ids, processes and capabilities.")
@click.option("--web", "is_web", is_flag=True, help="Open the status page; serve it if no server runs.")
@click.option(
    "--no-open", "is_link_shown", is_flag=True, help="With --web: print the link instead of opening it."
)
@proxy_option
def status(
    *,
    as_json: bool,
    is_watching: bool,
    is_checking: bool,
    is_detailed: bool,
    is_web: bool,
    is_link_shown: bool,
) -> None:
    """Show connections, calls and problems.

    The first line says whether clients can work, and if not, why.
    """
    if is_checking and is_watching:
        raise click.UsageError("--check cannot be combined with --watch.")
    if not (is_web or is_link_shown):
        _show_in_terminal(
            as_json=as_json, is_watching=is_watching, is_checking=is_checking, is_detailed=is_detailed
        )
    elif as_json or is_watching or is_checking or is_detailed or not is_web:
        raise click.UsageError("--web can only be combined with --no-open, and --no-open needs --web.")
    else:
        _show_web_page(opens=not is_link_shown)


def _show_in_terminal(*, as_json: bool, is_watching: bool, is_checking: bool, is_detailed: bool) -> None:
    import msgspec
    import trio

    from bridge.app import load_for_reading, new_session, run_with_hub
    from bridge.config.loader import rules_digest
    from bridge.diagnostics.status_snapshot import LocalState, Rules
    from bridge.diagnostics.status_snapshot import make_status as read_status
    from bridge.state.audit_reader import LatestCalls
    from install.extension_copies import find_current_kinds
    from native_host.system.home_layout import HomeLayout, mcpb_home

    config, _ = load_for_reading()
    ready = True

    async def watch_status(hub: Hub, _session: Session) -> OSError | None:
        nonlocal ready
        last: Any = None
        await wait_clients_named(hub)
        while True:
            current, problem = load_for_reading()
            sessions = await trio.to_thread.run_sync(_read_sessions)  # one of them may not answer
            rules = Rules("" if problem else rules_digest(current), problem, hub.pauses.problem)
            await trio.to_thread.run_sync(_read_calls, latest)  # the first time it may be the whole log
            local = LocalState(
                list(latest.calls),
                _read_channels(config.existing_channel),
                _read_published(),
                _read_servers(),
                sessions,
                rules,
                find_current_kinds(mcpb_home()),
                list(latest.page_requests),
                _read_remote(current),
            )
            found = read_status(hub.router, hub.links, local)
            ready = found["ready"]
            if (now := (found, get_terminal_size())) != last:
                try:
                    _show_status(found, as_json=as_json, is_watching=is_watching, is_detailed=is_detailed)
                except OSError as error:
                    return error
                last = now
            if not is_watching:
                return None
            await trio.sleep(_WATCH_S)

    latest = LatestCalls(HomeLayout(mcpb_home()).state.path, _RECENT_CALLS, _RECENT_CALLS)
    # A connection would start the programs of remote servers, and wait for them.
    config = msgspec.structs.replace(config, remote=())
    with closing(latest):
        error = run_with_hub(new_session(), watch_status, config=config, reports_pauses=True)
    if error:
        raise error  # stdout takes no more: the group reports it, where a nursery would wrap it
    if is_checking and not ready:
        sys.exit(1)


def _show_web_page(*, opens: bool) -> None:
    from bridge.app import load_configuration
    from bridge.cli.status_page import open_or_serve_page
    from native_host.system.home_layout import HomeLayout, mcpb_home

    open_or_serve_page(HomeLayout(mcpb_home()).state.path, load_configuration(), opens=opens)


def _read_calls(latest: LatestCalls) -> None:
    with suppress(OSError):  # `mcpb audit` says what is wrong with it
        latest.read_new()


def _read_channels(settings: ChannelSettings) -> list[dict[str, Any]]:
    """Return the sockets of the existing channel."""
    import msgspec

    from install.browsers import TableError
    from install.checks.existing_channel import channels_here
    from install.machine import this_machine
    from native_host.system.home_layout import mcpb_home

    with suppress(TableError):  # `mcpb doctor` says what is wrong with it
        found = channels_here(this_machine(), mcpb_home(), settings.only_directory, settings.attach)
        return [msgspec.to_builtins(channel) for channel in found]
    return []


def _read_published() -> list[dict[str, Any]]:
    """Return the published sockets of mcpb."""
    import msgspec

    from native_host.existing_channel.published_socket import read_published_sockets
    from native_host.system.home_layout import HomeLayout, mcpb_home

    return [msgspec.to_builtins(each) for each in read_published_sockets(HomeLayout(mcpb_home()).state.path)]


def _read_servers() -> list[dict[str, Any]]:
    """Return the running `mcpb serve` processes, the latest first."""
    import msgspec

    from bridge.state.server_record import all_running
    from native_host.system.home_layout import HomeLayout, mcpb_home

    return [msgspec.to_builtins(record) for record in all_running(HomeLayout(mcpb_home()).state.path)]


def _read_remote(config: Config) -> list[dict[str, Any]]:
    """Return the remote servers, as running bridges have them. This command connects to none."""
    from bridge.diagnostics.remote_status import describe_remote
    from bridge.state.remote_records import read_records
    from native_host.system.home_layout import HomeLayout, mcpb_home

    return list(describe_remote(config.remote, read_records(HomeLayout(mcpb_home()).state.path)))


def _read_sessions() -> list[dict[str, Any]]:
    """Return the open named sessions, sorted by name."""
    import msgspec

    from native_host.ipc.named_sessions import list_sessions

    return [msgspec.to_builtins(session) for session in list_sessions()]


def _show_status(found: dict[str, Any], *, as_json: bool, is_watching: bool, is_detailed: bool) -> None:
    from bridge.cli.status_output import as_text

    if as_json:
        click.echo(for_terminal(json.dumps(found, ensure_ascii=False) if is_watching else format_json(found)))
        return
    if not sys.stdout.isatty():
        lines = list(as_text(found, is_detailed=is_detailed))
        click.echo("\n".join([*lines, ""] if is_watching else lines))
        return
    size = get_terminal_size()
    lines = [for_terminal(line) for line in as_text(found, size.columns, is_detailed=is_detailed)]
    if is_watching:
        click.clear()
        lines = _first_lines(lines, size.lines - 1)
    click.echo("\n".join(lines))


def _first_lines(lines: list[str], count: int) -> list[str]:
    from native_host.system.program_name import format_command

    if len(lines) <= count:
        return lines
    return [*lines[: count - 1], f"… {len(lines) - count + 1} more lines: {format_command('status')}"]


async def wait_clients_named(hub: Hub) -> None:
    """Until each host has said who is connected to it, which it does after its replay: we are among them."""
    import trio

    from bridge.state.pause_control import live_browsers

    await hub.router.changes.wait_until(
        lambda: all(browser.clients for browser in live_browsers(hub.router.registry)),
        until=trio.current_time() + _CLIENTS_S,
    )
