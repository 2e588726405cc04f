"""`mcpb remote`: adds, lists, removes, tests and signs in to the remote MCP servers of config.toml."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bridge.cli.group import format_json
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, MAX_TITLE_CHARS, for_terminal, single_line
from native_host.system.home_layout import mcpb_home
from native_host.system.program_name import format_command

if TYPE_CHECKING:
    from bridge.config.remote_settings import RemoteSettings
    from bridge.diagnostics.remote_check import RemoteCheck


@click.group()
def remote() -> None:
    """Add, list, remove or test remote MCP servers, or sign in to one."""


class _AddCommand(click.Command):
    """Notes whether the words behind NAME follow `--`, which click removes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["is_command"] = "--" in args
        return super().parse_args(ctx, args)


@remote.command("add", cls=_AddCommand)
@click.argument("name")
@click.argument("target", nargs=-1, required=True, metavar="URL | -- COMMAND [ARG]...")
@click.option("--bearer-env", default="", metavar="VARIABLE", help="Read a bearer token from this variable.")
@click.option(
    "--bearer-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read a bearer token from this file, which only you can read.",
)
@click.option(
    "--header-command",
    default="",
    metavar="COMMAND",
    help="Run this command, which prints headers as JSON (docs/CONFIGURATION.md).",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="VARIABLE",
    help="Store your value of this variable for COMMAND (repeatable).",
)
@click.option("--allow", multiple=True, metavar="GLOB", help="Offer only these tools (repeatable).")
@click.option("--deny", multiple=True, metavar="GLOB", help="Do not offer these tools (repeatable).")
@click.option("--insecure", is_flag=True, help="Accept http: to another machine.")
@click.option("--no-check", "is_unchecked", is_flag=True, help="Add it without connecting to it.")
def add_server(
    name: str,
    target: tuple[str, ...],
    *,
    bearer_file: Path | None,
    header_command: str,
    variables: tuple[str, ...],
    is_unchecked: bool,
    **others: Any,
) -> None:
    """Add a remote MCP server to config.toml.

    Connect to URL, or start COMMAND, and add the server if it speaks MCP. Its tools are called
    `remote_NAME_…`. Tokens are never arguments: every user of this machine could read them.
    """
    from bridge.config.loader import ConfigError
    from bridge.config.remote_tables import add_server

    keys = _read_target(target, is_command=click.get_current_context().meta["is_command"]) | others
    keys["header_command"] = _split_command(header_command)
    keys["env"] = _read_variables(variables)
    keys["bearer_file"] = str(bearer_file.absolute()) if bearer_file else ""
    settings = _make_settings(name, keys)
    if name in {server.name for server in _read_servers()}:
        command = format_command(f"remote remove {name}")
        raise click.ClickException(
            f"There is a remote server {name} already. To replace it, first: {command}"
        )
    if not is_unchecked:
        _check_before_adding(settings)
    try:
        path = add_server(mcpb_home(), settings)
    except ConfigError as error:
        raise click.ClickException(for_terminal(str(error), on=sys.stderr)) from None
    click.echo(for_terminal(f"Added {name} to {path}. Running clients use it within 2 seconds."))


def _read_target(target: Sequence[str], *, is_command: bool) -> dict[str, Any]:
    if is_command:
        _reject_relative_paths(target)
        return {"command": target[0], "args": tuple(target[1:])}
    command = format_command("remote add NAME -- COMMAND ARG...")
    if len(target) > 1:
        raise click.UsageError(f"A server has one URL. For a command, write: {command}")
    if "://" not in target[0]:
        # It may have a password: it is not quoted.
        raise click.UsageError(f"A URL begins with https:// or http://. To start a program, write: {command}")
    return {"url": target[0]}


def _reject_relative_paths(command: Sequence[str]) -> None:
    for text in command:
        # `Path.exists` raises where a text, such as a script for a shell, is longer than a path may be.
        if "/" in text and not Path(text).is_absolute() and os.path.exists(text):  # noqa: PTH110
            path = shlex.quote(str(Path(text).absolute()))
            reason = f"{text} is a relative path, and clients start the program in other directories"
            raise click.UsageError(for_terminal(f"{reason}: write {path}", on=sys.stderr))


def _split_command(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:
        raise click.BadParameter("a quotation mark is not closed", param_hint="'--header-command'") from None


def _read_variables(names: Sequence[str]) -> dict[str, str]:
    for name in names:
        if name not in os.environ:
            shown = single_line(name.partition("=")[0], MAX_TITLE_CHARS)
            reason = f"{shown} is not set: export it first, and pass its name without a value"
            raise click.BadParameter(reason, param_hint="'--env'")
    return {name: os.environ[name] for name in names}


def _make_settings(name: str, keys: dict[str, Any]) -> RemoteSettings:
    from bridge.config.remote_settings import RemoteSettings
    from bridge.config.setting_error import SettingError

    try:
        return RemoteSettings(name=name, **keys)
    except SettingError as error:
        reason = str(error)
    if not keys["insecure"]:
        with suppress(SettingError):
            RemoteSettings(name=name, **keys | {"insecure": True})
            reason = (
                "http: to another machine is not encrypted: "
                "write https, or add --insecure if only you can read this network"
            )
    raise click.UsageError(for_terminal(reason, on=sys.stderr))


def _read_servers() -> Sequence[RemoteSettings]:
    from bridge.config.loader import ConfigError, read_config

    try:
        return read_config(mcpb_home()).remote
    except ConfigError as error:
        raise click.ClickException(for_terminal(str(error), on=sys.stderr)) from None


def _check_before_adding(settings: RemoteSettings) -> None:
    """Print what was found. Raises ClickException if the server cannot be used."""
    (check,) = _check([settings], is_configured=False)
    if not check.is_connected:
        raise click.ClickException(
            for_terminal(
                "\n".join([*_format_check(check), "It was not added (--no-check adds it all the same)."])
            )
        )
    click.echo(for_terminal("\n".join(_format_check(check))))


@remote.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_servers(*, as_json: bool) -> None:
    """List the remote MCP servers."""
    from bridge.cli.columns import Columns

    servers = _read_servers()
    if as_json:
        rows = [
            {
                "name": each.name,
                "enabled": each.enabled,
                "url": each.address if each.url else "",
                "command": each.command,
            }
            for each in servers
        ]
        click.echo(for_terminal(format_json({"servers": rows})))
        return
    if not servers:
        click.echo(
            f"No remote server is configured. To add one, run: {format_command('remote add NAME URL')}"
        )
    cells = [(each.name, "" if each.enabled else "off", _describe_target(each)) for each in servers]
    for line in Columns([MAX_TITLE_CHARS, MAX_TITLE_CHARS]).format_lines(cells):
        click.echo(for_terminal(line))


def _describe_target(server: RemoteSettings) -> str:
    return single_line(
        server.address if server.url else shlex.join([server.command, *server.args]), MAX_ORIGIN_CHARS
    )


@remote.command("remove")
@click.argument("name")
def remove_server(name: str) -> None:
    """Remove the server NAME from config.toml.

    Comments stay. Running clients lose its tools within 2 seconds. Tokens of a sign-in are removed and
    revoked.
    """
    from bridge.config.loader import ConfigError
    from bridge.config.remote_tables import remove_server

    try:
        is_removed = remove_server(mcpb_home(), name)
    except ConfigError as error:
        raise click.ClickException(for_terminal(str(error), on=sys.stderr)) from None
    if not is_removed:
        raise _unknown(name)
    click.echo(f"Removed {name}.")
    _forget_login(name)


def _unknown(name: str) -> click.ClickException:
    known = ", ".join(server.name for server in _read_servers())
    remedy = f"known: {known}" if known else f"to add one, run: {format_command('remote add NAME URL')}"
    shown = single_line(name, MAX_TITLE_CHARS)
    return click.ClickException(for_terminal(f"There is no remote server {shown}; {remedy}", on=sys.stderr))


@remote.command("login")
@click.argument("name")
@click.option("--no-open", "is_address_shown", is_flag=True, help="Print the address instead of opening it.")
def log_in(name: str, *, is_address_shown: bool) -> None:
    """Sign in to the server NAME in your browser.

    Store its tokens, which running clients use within a minute and refresh. End with an error after 5
    minutes without a sign-in.
    """
    import trio

    from bridge.cli.web_browser import open_address
    from bridge.links.remote_headers import RemoteHeaders
    from bridge.links.remote_problem import RemoteProblem
    from native_host.system.private_files import PrivateFileError

    settings = next((each for each in _read_servers() if each.name == name), None)
    if settings is None:
        raise _unknown(name)
    if not settings.can_sign_in:
        sources = " and ".join(settings.token_sources)
        reason = f"remove its {sources} from config.toml first" if settings.url else "it has no url"
        raise click.ClickException(f"{name} takes no sign-in: {reason}")
    from bridge.links.oauth.oauth_login import sign_in

    def on_address(address: str, origin: str) -> None:
        click.echo(for_terminal(f"Sign in to {name} ({settings.address}) at {origin}:"))
        click.echo(for_terminal(address))
        if not is_address_shown:
            # A browser in the terminal would keep the redirect from being answered.
            threading.Thread(target=open_address, args=(address,), daemon=True).start()

    try:
        problem = trio.run(sign_in, settings, mcpb_home(), on_address)
    except (RemoteProblem, PrivateFileError, TimeoutError) as error:
        detail = RemoteHeaders(settings).mask(str(error)) or "another mcpb uses its tokens"
        raise click.ClickException(
            for_terminal(f"Cannot sign in to {name}: {detail}", on=sys.stderr)
        ) from None
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt):
            raise click.Abort from None
        raise
    if problem:
        text = f"The tokens of the earlier sign-in were not revoked: {problem}"
        click.echo(for_terminal(text, on=sys.stderr), err=True)
    (check,) = _check([settings])
    click.echo(for_terminal("\n".join([f"Signed in to {name}.", *_format_check(check)])))
    sys.exit(0 if check.is_connected else 1)


@remote.command("logout")
@click.argument("name")
def log_out(name: str) -> None:
    """Remove the tokens of the server NAME.

    Revoke them at the server that issued them, if it offers that.
    """
    from bridge.config.remote_settings import is_server_name

    if not is_server_name(name):
        raise _unknown(name)
    was_stored = _forget_login(name)
    if not was_stored and name not in {each.name for each in _read_servers()}:
        raise _unknown(name)
    click.echo(f"Signed out of {name}." if was_stored else f"No tokens of {name} were stored.")


def _forget_login(name: str) -> bool:
    """Remove and revoke the tokens of a server; return whether there were any."""
    import trio

    from bridge.links.oauth.login_file import LoginFile
    from bridge.links.oauth.login_tokens import forget_login
    from native_host.system.private_files import PrivateFileError

    try:
        was_stored, problem = trio.run(forget_login, LoginFile(mcpb_home(), name))
    except (PrivateFileError, TimeoutError) as error:
        detail = str(error) or "another mcpb uses them"
        raise click.ClickException(
            for_terminal(f"Cannot remove the tokens of {name}: {detail}", on=sys.stderr)
        ) from None
    if problem:
        text = f"The tokens of {name} were removed, but not revoked: {problem}"
        click.echo(for_terminal(text, on=sys.stderr), err=True)
    return was_stored


@remote.command("test")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def test_servers(name: str | None, *, as_json: bool) -> None:
    """Connect to the server NAME, or to all that are enabled.

    Print what each offers, or why it cannot be used and what remedies that. Exit with 0 if nothing is
    wrong, else with 1.
    """
    import msgspec

    servers = _read_servers()
    chosen = [each for each in servers if (each.enabled if name is None else each.name == name)]
    if name is not None and not chosen:
        raise _unknown(name)
    checks = _check(chosen)
    if as_json:
        click.echo(for_terminal(format_json({"servers": msgspec.to_builtins(checks)})))
    elif not checks:
        click.echo("No remote server is enabled.")
    else:
        click.echo(for_terminal("\n".join(line for check in checks for line in _format_check(check))))
    sys.exit(1 if any(check.findings for check in checks) else 0)


def _check(servers: Sequence[RemoteSettings], *, is_configured: bool = True) -> list[RemoteCheck]:
    """Check servers at once; return the outcomes in their order."""
    import trio

    from bridge.diagnostics.remote_check import check_server

    checks: dict[str, RemoteCheck] = {}

    async def check(settings: RemoteSettings) -> None:
        checks[settings.name] = await check_server(
            settings, mcpb_home(), os.environ, is_configured=is_configured
        )

    async def check_all() -> None:
        async with trio.open_nursery() as nursery:
            for settings in servers:
                nursery.start_soon(check, settings)

    if servers:
        trio.run(check_all)
    return [checks[settings.name] for settings in servers]


def _format_check(check: RemoteCheck) -> list[str]:
    lines = []
    if check.is_connected:
        counts = {
            "tool": check.tools,
            "resource": check.resources,
            "template": check.templates,
            "prompt": check.prompts,
        }
        offer = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items())
        server = single_line(check.server, MAX_TITLE_CHARS) or "a server without a name"
        lines.append(
            f"{check.name}: connected to {server}, MCP {check.revision} over {check.transport}: {offer}"
        )
    for finding in check.findings:
        lines += [f"{check.name}: {finding.cause}: {finding.detail}", f"    {finding.remedy}"]
    return lines
