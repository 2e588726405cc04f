"""`mcpb tools` and `mcpb call`: lists and calls tools of pages and browsers."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import click

from bridge.cli.group import existing_channel_option, format_json, proxy_option
from bridge.cli.hub_requests import ask_hub, read_pair, reject_repeated, session_option
from native_host.protocol.untrusted_text import for_terminal

MAX_CHARS = 20_000
"""Characters of a result that `mcpb call --session` prints by default; longer ones go to a file."""


def _read_origin(_ctx: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    from bridge.origins import get_web_origin

    if origin := get_web_origin(text.strip()):
        return origin
    given = for_terminal(repr(text), on=sys.stderr)
    raise click.BadParameter(f"{given} is no origin of web pages; write it like https://shop.example")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the tools as JSON, as MCP clients get them.")
@click.option(
    "--forget",
    metavar="ORIGIN",
    callback=_read_origin,
    help="Remove a site's cached tools, and list nothing.",
)
@session_option
@proxy_option
@existing_channel_option
def tools(*, as_json: bool, forget: str | None, session_name: str | None, existing_channel: bool) -> None:
    """List the tools that MCP clients may call."""
    if forget is not None:
        _forget_tools(forget, as_json=as_json)
        return
    from native_host.ipc.named_sessions import ListTools, ToolList

    found = ask_hub(ListTools(), session_name, existing_channel=existing_channel)
    assert isinstance(found, ToolList)
    if as_json:
        click.echo(for_terminal(format_json({"tools": found.tools})))
        return
    for tool in found.tools:
        click.echo(f"{click.style(tool['name'], bold=True)}{for_terminal(_format_parameters(tool))}")
        click.echo(f"    {for_terminal(_first_line(tool['description']))}")
    if found.missing:
        click.echo(f"\n{for_terminal(found.missing, on=sys.stderr)}", err=True)


def _forget_tools(origin: str, *, as_json: bool) -> None:
    from bridge.state import log_file
    from bridge.state.tool_cache import SqliteToolStore, StoreError
    from native_host.system.home_layout import HomeLayout, mcpb_home

    log_file.configure_logging()
    with closing(SqliteToolStore(HomeLayout(mcpb_home()).state.path)) as store:
        try:
            count = store.forget_site(origin)
        except StoreError as error:
            raise click.ClickException(for_terminal(str(error), on=sys.stderr)) from None
    if as_json:
        click.echo(for_terminal(format_json({"origin": origin, "removed": count})))
        return
    tools = f"{count} cached tool{'' if count == 1 else 's'}"
    click.echo(for_terminal(f"Removed {tools} of {origin}." if count else f"{origin} has no cached tools."))
    if count:
        click.echo("An open page of this site may have its tools cached again.")


@click.command()
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", "args_json", metavar="JSON", help="All arguments as one JSON object.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option(
    "--max-chars",
    type=click.IntRange(min=1),
    metavar="N",
    help="Write a longer text to a file, and print its path and first lines "
    f"(default: {MAX_CHARS} with --session, else no limit).",
)
@click.option("--keep", is_flag=True, help="Leave the tabs open that the call opens.")
@session_option
@proxy_option
@existing_channel_option
def call(
    name: str,
    arguments: tuple[str, ...],
    args_json: str | None,
    *,
    as_json: bool,
    keep: bool,
    max_chars: int | None,
    session_name: str | None,
    existing_channel: bool,
) -> None:
    """Call the tool NAME, with KEY=VALUE for each argument.

    Numbers, lists and the like are JSON: quantity=2, sizes='["S", "M"]'. Images are written to files, unless
    --json prints them.

    Without --session each call is a session of its own, whose tabs are closed when it ends (--keep, and
    browser.close_tabs of the configuration). With it, calls of the same session name use the same tabs:

    \b
    mcpb call --session shop navigate url=https://example.com
    mcpb call --session shop read_page
    mcpb session end shop
    """
    from native_host.ipc.named_sessions import CallResult, CallTool

    if as_json and max_chars is not None:
        raise click.UsageError("--max-chars cannot be combined with --json.")
    if keep and session_name is not None:
        raise click.UsageError(
            "--keep cannot be combined with --session, which keeps its tabs until its end."
        )
    texts, values = [read_pair(pair) for pair in arguments], _read_object(args_json)
    reject_repeated([*values, *(key for key, _ in texts)])
    reply = ask_hub(
        CallTool(name=name, arguments=values, texts=texts),
        session_name,
        command="call",
        is_structured=as_json,
        keeps_tabs=keep,
        existing_channel=existing_channel,
    )
    assert isinstance(reply, CallResult)
    result = json.loads(bytes(reply.result))
    if as_json:
        click.echo(for_terminal(format_json(result)))
    else:
        from bridge.cli.call_output import print_result

        print_result(result, max_chars or (None if session_name is None else MAX_CHARS))
    if isinstance(result, dict) and result.get("isError") is True:
        sys.exit(1)


def _read_object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise click.UsageError(f"--args is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.UsageError('--args must be a JSON object, for instance \'{"item": "tea"}\'')
    return found


def _format_parameters(tool: Mapping[str, Any]) -> str:
    """Format a tool's parameters, for instance ` item= [quantity=]`."""
    from bridge.frontends.command_calls import argument_schemas

    required = tool["inputSchema"].get("required")
    needed = required if isinstance(required, list) else []
    names = ((" ".join(name.split()), name in needed) for name in argument_schemas(tool))
    return "".join(f" {name}=" if is_needed else f" [{name}=]" for name, is_needed in names)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
