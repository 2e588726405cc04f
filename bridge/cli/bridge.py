"""`mcpb bridge`: MCP over stdin and stdout, or over a transport of another package."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import click

from bridge.cli.group import existing_channel_option, proxy_option

if TYPE_CHECKING:
    from bridge.hub.client_session import ToolSet


@click.command()
@click.option("--structured", is_flag=True, help="For programs: results with structuredContent as well.")
@click.option(
    "--tools",
    "tool_set",
    type=click.Choice(["core", "all", "claude-in-chrome"]),
    help="The browser tools to list (default: all); the others can be called as well.",
)
@click.option(
    "--name",
    "server_name",
    default="",
    metavar="NAME",
    help="The name that this server has in the client; it shows how long names of tools may be.",
)
@click.option(
    "--transport",
    default="",
    metavar="MODULE:NAME",
    help="Transport of another package, in place of stdin and stdout.",
)
@proxy_option
@existing_channel_option
def bridge(
    *, structured: bool, tool_set: ToolSet | None, server_name: str, transport: str, existing_channel: bool
) -> None:
    """Serve one MCP client on stdin and stdout, or by --transport."""
    closed = [name for name in ("stdin", "stdout") if getattr(sys, name) is None]
    if closed and not transport:
        click.echo(f"mcpb bridge ends: there is no client, as its {' and '.join(closed)} is closed", err=True)
        return
    gc.disable()  # imports leave nothing to collect, and looking for it takes a twentieth of the start
    from bridge.app import serve_stdio

    gc.freeze()  # what was imported stays: no later collection has to walk through it
    gc.enable()
    if not transport and sys.stdin.isatty():
        from native_host.system.program_name import format_command

        commands = f"{format_command('tools')}, {format_command('call')}"
        click.echo(f"mcpb bridge waits for an MCP client on stdin. For people: {commands}", err=True)
    serve_stdio(
        existing_channel=existing_channel,
        is_structured=structured,
        tool_set=tool_set,
        server_name=server_name,
        transport=transport,
    )
