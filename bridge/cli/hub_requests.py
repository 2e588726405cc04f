"""Requests of commands to a named session, or to a hub in this process."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from native_host.protocol.untrusted_text import for_terminal

if TYPE_CHECKING:
    from bridge.app import Hub
    from bridge.hub.client_session import Session
    from native_host.ipc.named_sessions import (
        CallResult,
        HubRequest,
        PromptList,
        Reply,
        ResourceList,
        ToolList,
    )


def _check_session_name(_ctx: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    if name is not None:
        from bridge.cli.sessions import check_session_name

        check_session_name(name)
    return name


session_option = click.option(
    "--session",
    "session_name",
    callback=_check_session_name,
    envvar="MCPB_SESSION",
    metavar="NAME",
    help="The session to use, which keeps its tabs until `mcpb session end NAME` [env: MCPB_SESSION].",
)


def ask_hub(
    request: HubRequest,
    session_name: str | None,
    *,
    command: str = "",
    is_structured: bool = False,
    keeps_tabs: bool = False,
    existing_channel: bool,
) -> ToolList | ResourceList | PromptList | CallResult:
    """Ask the named session, or without a name a hub in this process.

    Args:
        request: what is asked.
        session_name: the session; None: one that ends with this command.
        command: its name towards hosts and popups; empty: they do not learn of it.
        is_structured: see `Session.is_structured`.
        keeps_tabs: see `Session.keeps_tabs`.
        existing_channel: whether the tools of Claude in Chrome are used too.

    Raises:
        ClickException: the request was rejected; the text says why.
        UsageError: an argument is not Unicode.
    """
    import msgspec

    from native_host.ipc.named_sessions import Rejection

    try:
        msgspec.json.encode(request)
    except UnicodeEncodeError:
        raise click.UsageError("an argument is not Unicode text") from None
    if session_name is not None:
        from bridge.cli.sessions import ask_session

        reply = ask_session(session_name, request, existing_channel=existing_channel)
    else:
        from bridge.app import new_session

        session = msgspec.structs.replace(
            new_session(command), is_structured=is_structured, keeps_tabs=keeps_tabs
        )
        reply = _ask_here(request, session, existing_channel=existing_channel)
    if isinstance(reply, Rejection):
        raise click.ClickException(for_terminal(reply.message, on=sys.stderr))
    return reply


def _ask_here(request: HubRequest, session: Session, *, existing_channel: bool) -> Reply:
    from bridge.app import run_with_hub
    from bridge.cli.sessions import show_progress
    from bridge.frontends.command_calls import CommandCalls
    from bridge.hub.transport import CallObserver

    observer = CallObserver(lambda progress: show_progress(progress.message))

    async def ask(hub: Hub, session: Session) -> Reply:
        return _shorten_missing(hub, await CommandCalls(hub.router, session).answer(request, observer))

    return run_with_hub(session, ask, existing_channel=existing_channel)


def _shorten_missing(hub: Hub, reply: Reply) -> Reply:
    """Shorten the reason why no browser is connected, if a remote server is: a browser may not be wanted."""
    import msgspec

    from native_host.ipc.named_sessions import PromptList, ResourceList, ToolList
    from native_host.system.program_name import format_command

    servers = hub.remotes.provider.servers() if hub.remotes.provider else []
    if not any(each.state.state == "ready" for each in servers) or hub.router.registry.browsers():
        return reply
    if isinstance(reply, ToolList | ResourceList | PromptList) and reply.missing:
        short = f"No browser is connected. To find out why, run: {format_command('doctor')}"
        return msgspec.structs.replace(reply, missing=short)
    return reply


def read_pair(pair: str) -> tuple[str, str]:
    """Split an argument KEY=VALUE.

    Raises:
        UsageError: it is not one.
    """
    key, equals, text = pair.partition("=")
    if not equals:
        raise click.UsageError(f"{pair!r} is not KEY=VALUE")
    return key, text


def reject_repeated(keys: list[str]) -> None:
    """Reject an argument with two values, of which one would be lost.

    Raises:
        UsageError: it names the argument.
    """
    if repeated := [key for key, count in Counter(keys).items() if count > 1]:
        raise click.UsageError(f"the argument {repeated[0]!r} is given more than once")
