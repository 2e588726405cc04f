"""`mcpb tools` and `mcpb call`: lists and calls tools of pages and browsers."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from bridge.cli.group import existing_channel_option, format_json
from native_host.protocol.untrusted_text import for_terminal

if TYPE_CHECKING:
    from bridge.app import Hub
    from bridge.hub.client_session import Session
    from native_host.protocol.wire import Progress

_MAX_PROGRESS = 200
"""Characters of a progress message of `mcpb call`."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The tools as MCP sees them.")
@click.option("--forget", metavar="ORIGIN", help="Instead forget the tools that were kept of a site.")
@existing_channel_option
def tools(*, as_json: bool, forget: str | None, existing_channel: bool) -> None:
    """List the tools that MCP clients may call."""
    if forget is not None:
        _forget_tools(forget)
        return
    from bridge.app import new_session, run_with_hub

    async def read_tools(hub: Hub, session: Session) -> tuple[list[dict[str, Any]], str]:
        return await hub.router.list_tools_decoded(session), hub.router.connection_problem()

    found, missing = run_with_hub(new_session(), read_tools, existing_channel=existing_channel)
    if as_json:
        click.echo(for_terminal(format_json({"tools": found})))
        return
    for tool in found:
        click.echo(f"{click.style(tool['name'], bold=True)}{for_terminal(_format_parameters(tool))}")
        click.echo(f"    {for_terminal(_first_line(tool['description']))}")
    if missing:
        click.echo(f"\n{for_terminal(missing, on=sys.stderr)}", err=True)


def _forget_tools(origin: str) -> None:
    from bridge.state.tool_cache import SqliteToolStore, StoreError
    from native_host.system.home_layout import HomeLayout, mcpb_home

    with closing(SqliteToolStore(HomeLayout(mcpb_home()).state.path)) as store:
        try:
            count = store.forget_site(origin)
        except StoreError as error:
            raise click.ClickException(for_terminal(str(error), on=sys.stderr)) from None
    tools = f"{count} tool{'' if count == 1 else 's'}"
    click.echo(for_terminal(f"Forgot {tools} of {origin}." if count else f"Nothing was kept of {origin}."))
    if count:
        click.echo("A page of it that is open may let its tools be kept again.")


@click.command()
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", "args_json", metavar="JSON", help="All arguments as one JSON object.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@existing_channel_option
def call(
    name: str, arguments: tuple[str, ...], args_json: str | None, *, as_json: bool, existing_channel: bool
) -> None:
    """Call the tool NAME, with KEY=VALUE for each argument.

    Numbers, lists and the like are JSON: quantity=2, sizes='["S", "M"]'.

    Each call is a session of its own: later calls cannot use the tabs that it opens. For several steps
    in one tab, call browser_batch:

    \b
    mcpb call browser_batch actions='[{"name": "navigate", "input": {…}}, …]'
    """
    import msgspec

    from bridge.app import new_session, run_with_hub
    from bridge.errors import UnknownToolError
    from bridge.hub.argument_validation import Arguments
    from bridge.hub.transport import CallObserver

    given = _read_object(args_json)
    pairs = [_read_pair(pair) for pair in arguments]

    async def run_call(hub: Hub, session: Session) -> bytes | str:
        listed = {tool["name"]: tool for tool in await hub.router.list_tools_decoded(session)}
        schemas = _argument_schemas(listed.get(name))
        given.update((key, _parse_value(text, schemas.get(key))) for key, text in pairs)
        try:
            return await hub.router.call(session, name, Arguments.of(given), CallObserver(_show_progress))
        except UnknownToolError:
            return _not_offered(name, listed, hub.router.connection_problem())

    session = msgspec.structs.replace(new_session("call"), is_structured=as_json)
    answer = run_with_hub(session, run_call, existing_channel=existing_channel)
    if isinstance(answer, str):
        raise click.ClickException(for_terminal(answer, on=sys.stderr))
    result = json.loads(answer)
    click.echo(for_terminal(format_json(result) if as_json else _as_text(result)))
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


def _read_pair(pair: str) -> tuple[str, str]:
    key, equals, text = pair.partition("=")
    if not equals:
        raise click.UsageError(f"{pair!r} is not KEY=VALUE")
    return key, text


def _parse_value(text: str, schema: Any) -> Any:
    """JSON where it is JSON, else the text; always the text where the tool wants one."""
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _argument_schemas(tool: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the schema of each argument that the tool declares."""
    properties = tool["inputSchema"].get("properties") if tool else None
    return properties if isinstance(properties, dict) else {}


def _format_parameters(tool: Mapping[str, Any]) -> str:
    """Format a tool's parameters, for instance ` item= [quantity=]`."""
    required = tool["inputSchema"].get("required")
    needed = required if isinstance(required, list) else []
    names = ((" ".join(name.split()), name in needed) for name in _argument_schemas(tool))
    return "".join(f" {name}=" if is_needed else f" [{name}=]" for name, is_needed in names)


def _show_progress(progress: Progress) -> None:
    """Write the message to stderr: where the user is asked, and what pages report."""
    from native_host.protocol.untrusted_text import single_line

    if message := single_line(progress.message, _MAX_PROGRESS):
        # The call goes on when the reader of stderr has gone.
        with suppress(OSError):
            click.echo(message, err=True)


def _not_offered(name: str, listed: Iterable[str], missing: str) -> str:
    """Format the error for a name that is not offered: similar names, or why no tool is offered."""
    names = list(listed)
    close = [known for known in names if known.endswith(f"_{name}")] or get_close_matches(name, names)
    hint = f"Close to it: {', '.join(close)}. " if close else ""
    return f"No page offers {name!r}. {missing or hint + 'To see what there is, run: mcpb tools'}"


def _as_text(result: Any) -> str:
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return format_json(result)
    return "\n".join(_block_text(block) for block in content)


def _block_text(block: Any) -> str:
    if isinstance(block, dict) and block.get("type") == "text":
        return str(block.get("text", ""))
    return format_json(block)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
