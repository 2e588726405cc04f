"""`mcpb session`: lists, ends and holds the named sessions of `mcpb call --session NAME`."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from bridge.cli.group import existing_channel_option, format_json
from native_host.protocol.untrusted_text import for_terminal
from native_host.system.program_name import format_command

if TYPE_CHECKING:
    from native_host.ipc.named_sessions import HubRequest, Reply

_HOLDER = (sys.executable, "-I", "-m", "bridge", "session", "hold")
_TRIES = 3
"""Sessions of a name that may end just when a command wants to use them."""
_MAX_PROGRESS = 200
"""Characters of a progress message of `mcpb call`."""


@click.group()
def session() -> None:
    """List or end the sessions of `mcpb call --session NAME`."""


@session.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_sessions(*, as_json: bool) -> None:
    """List the sessions that are open."""
    import msgspec

    from bridge.cli.status_output import format_sessions
    from native_host.ipc import named_sessions

    found = named_sessions.list_sessions()
    if as_json:
        click.echo(for_terminal(format_json({"sessions": msgspec.to_builtins(found)})))
        return
    if not found:
        click.echo(f"No session is open. To open one, run: {format_command('call --session NAME TOOL')}")
    for line in format_sessions(map(msgspec.to_builtins, found), 0):
        click.echo(for_terminal(line))


def _check_names(_ctx: click.Context, _argument: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        check_session_name(name)
    return names


def check_session_name(name: str) -> None:
    """Check that a session can have this name.

    Raises:
        BadParameter: it cannot.
    """
    from native_host.ipc.named_sessions import SessionError, check_name

    try:
        check_name(name)
    except SessionError as error:
        raise click.BadParameter(for_terminal(str(error), on=sys.stderr)) from None


@session.command("end")
@click.argument("names", nargs=-1, metavar="[NAME]...", callback=_check_names)
@click.option("--all", "is_all", is_flag=True, help="End every session.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def end_sessions(names: tuple[str, ...], *, is_all: bool, as_json: bool) -> None:
    """End the sessions with these names.

    `browser.close_tabs` says which of the tabs that they opened are closed.
    """
    from native_host.ipc.named_sessions import SessionError

    if bool(names) == is_all:
        raise click.UsageError(
            f"Name the sessions to end, or pass --all: {format_command('session list')} shows them."
        )
    ended: list[str] = []
    problems: list[str] = []
    for name in names or _open_names():
        try:
            if _end_one(name):
                ended.append(name)
                if not as_json:
                    click.echo(f"Ended session {name}.")
            elif not is_all:  # a holder that was killed leaves its socket, which is removed now
                shown = format_command("session list")
                problems.append(f"no session {name} is open: {shown} shows those that are")
        except SessionError as error:
            problems.append(str(error))
    if as_json:
        click.echo(for_terminal(format_json({"ended": ended, "problems": problems})))
    if problems:
        raise click.ClickException(for_terminal("\nError: ".join(problems), on=sys.stderr))


def _open_names() -> list[str]:
    from native_host.ipc.named_sessions import find_sockets

    return list(dict.fromkeys(path.stem for path in find_sockets()))


def _end_one(name: str) -> bool:
    """End a session; return whether it was open.

    Raises:
        SessionError: it could not be ended.
    """
    from native_host.ipc.named_sessions import end_session, find_sockets

    ends = [end_session(path) for path in find_sockets() if path.stem == name]
    return any(ends)


@session.command(hidden=True)
@click.argument("name")
@click.option("--lock", type=int, metavar="N", help="Descriptor to close once the session accepts calls.")
@existing_channel_option
def hold(name: str, *, lock: int | None, existing_channel: bool) -> None:
    """Hold the session NAME until it ends: `mcpb call --session` starts this."""
    from bridge.app import hold_session
    from native_host.ipc.named_sessions import SessionError, check_name
    from native_host.system.private_files import PrivateFileError

    try:
        check_name(name)
        hold_session(name, partial(_report_ready, lock), existing_channel=existing_channel)
    except (SessionError, PrivateFileError) as error:
        raise click.ClickException(str(error)) from None


def _report_ready(lock: int | None) -> None:
    """Release the lock that the starter shares, report readiness, and close the pipe on which it waits."""
    from native_host.ipc.named_sessions import READY

    if lock is not None:
        os.close(lock)
    with suppress(BrokenPipeError):  # the starter was killed, and the session goes on
        os.write(1, READY)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def ask_session(name: str, request: HubRequest, *, existing_channel: bool) -> Reply:
    """Ask a named session, opened if it is not yet, and show the progress of a request."""
    from native_host.ipc.named_sessions import (
        NotStartedError,
        SessionError,
        find_or_start,
        is_of_other_version,
    )
    from native_host.system.private_files import PrivateFileError

    command = [*_HOLDER, name, *(["--existing-channel"] if existing_channel else [])]
    try:
        for _ in range(_TRIES):
            replaced = partial(_report_replaced, name)
            with find_or_start(name, command, replaced) as connection, suppress(NotStartedError):
                if is_of_other_version(connection.greeting):
                    _report_other_version(name)
                return connection.ask(request, show_progress)
        raise NotStartedError(name)
    except (SessionError, PrivateFileError) as error:
        raise click.ClickException(for_terminal(str(error), on=sys.stderr)) from None


def _report_replaced(name: str) -> None:
    text = (
        f"Session {name} goes on in this version of mcpb, with its tabs. Read pages anew: refs have changed."
    )
    click.echo(for_terminal(text, on=sys.stderr), err=True)


def _report_other_version(name: str) -> None:
    command = format_command(f"session end {name}")
    text = f"Session {name} runs in another version of mcpb. To use this one, run: {command}"
    click.echo(for_terminal(text, on=sys.stderr), err=True)


def show_progress(text: str) -> None:
    """Write a progress message to stderr: where the user is asked, and what pages report."""
    from native_host.protocol.untrusted_text import single_line

    if message := single_line(text, _MAX_PROGRESS):
        # The call goes on when the reader of stderr has gone.
        with suppress(OSError):
            click.echo(message, err=True)
