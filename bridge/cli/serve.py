"""`mcpb serve`: its options for one run, its access tokens, and what it prints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from bridge.app import load_configuration, serve_http
from bridge.cli.columns import Columns
from bridge.cli.group import proxy_option
from bridge.config.settings import PORT, Config, HttpSettings
from bridge.frontends.http.access_tokens import (
    DEFAULT,
    add_token,
    check_client_name,
    list_tokens,
    revoke_token,
)
from bridge.frontends.http.bearer_token import TokenError, token_for
from bridge.frontends.http.client_config import CLIENTS, client_config
from bridge.state.server_record import find_running
from http_serving.host_header import is_loopback
from http_serving.listeners import ListenError, ListenFault, local_url
from http_serving.tls import CertificateError
from native_host.system.home_layout import HomeLayout, mcpb_home
from native_host.system.private_files import PrivateFileError
from native_host.system.program_name import format_command

_print_config = click.option(
    "--print-config",
    "client",
    type=click.Choice(CLIENTS),
    help="Print a client's configuration with the token, and exit.",
)


@click.group(invoke_without_command=True)
@click.option("--host", metavar="ADDRESS", help="Address to listen on (default: loopback only).")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on (default 3456; 0: any free port)."
)
@click.option("--socket", metavar="PATH", help="Also listen on this Unix socket.")
@click.option("--certificate", metavar="FILE", help="Serve HTTPS with this certificate (PEM; needs --key).")
@click.option("--key", metavar="FILE", help="Private key of the certificate (PEM, readable by you alone).")
@click.option("--existing-channel", is_flag=True, help="Also use the tools of Claude in Chrome.")
@proxy_option
@click.option("--publish-channel", is_flag=True, help="Also open a socket for clients of Claude in Chrome.")
@_print_config
@click.pass_context
def serve(
    ctx: click.Context, /, *, existing_channel: bool, publish_channel: bool, client: str | None, **flags: Any
) -> None:
    """Serve MCP over HTTP, for clients with a URL.

    Permanent settings are in config.toml, below [http].
    """
    given = {key: value for key, value in flags.items() if value is not None}
    if ctx.invoked_subcommand:
        if given or existing_channel or publish_channel or client:
            raise click.UsageError(f"Options of mcpb serve cannot be combined with {ctx.invoked_subcommand}.")
        return
    config = load_configuration(existing_channel=existing_channel)
    channel = config.existing_channel
    channel = msgspec.structs.replace(channel, publish=channel.publish or publish_channel)
    try:
        settings = msgspec.structs.replace(config.http, **given)
    except ValueError as error:
        raise click.UsageError(f"--{error}") from None
    if client:
        _print_snippet(client, _parse_address(settings, is_given=bool(given)), _default_token(settings))
        return
    run_server(
        msgspec.structs.replace(config, http=settings, existing_channel=channel),
        lambda url, published: _print_address(url, published, settings),
    )


def run_server(config: Config, on_ready: Callable[[str, Path | None], None]) -> None:
    """Run the server until Ctrl-C; `on_ready` is that of `serve_http`.

    Raises:
        click.ClickException: it cannot run; the text has the remedy.
    """
    if not config.http.enabled:
        raise click.ClickException(
            "mcpb serve is disabled: remove enabled = false below [http] in config.toml"
        )
    if bool(config.http.certificate) != bool(config.http.key):
        raise click.ClickException(
            "a certificate and its key belong together: set both --certificate and --key, or both "
            "certificate and key below [http] in config.toml"
        )
    try:
        serve_http(config, on_ready)
    except ListenError as error:
        raise click.ClickException(f"{error}{_listen_remedy(error.fault, config.http.port)}") from None
    except (CertificateError, TokenError, PrivateFileError) as error:
        raise click.ClickException(str(error)) from None


@serve.group()
def token() -> None:
    """Give HTTP clients access tokens of their own."""


def _check_name(_ctx: click.Context, _argument: click.Parameter, name: str) -> str:
    try:
        check_client_name(name)
    except TokenError as error:
        raise click.BadParameter(str(error)) from None
    return name


@token.command("add")
@click.argument("name", callback=_check_name)
@_print_config
def add(*, name: str, client: str | None) -> None:
    """Print a new access token for the client NAME.

    It is printed once: only its digest is stored. A running mcpb serve accepts it at once.
    """
    try:
        created = add_token(_state_directory(), name)
    except TokenError as error:
        raise click.ClickException(str(error)) from None
    if client:
        _print_snippet(client, _parse_address(load_configuration().http), created)
        return
    click.echo(f"The token of {name}, printed once. Send it as Authorization: Bearer TOKEN", err=True)
    click.echo(created)


@token.command("list")
def list_() -> None:
    """List the clients that have an access token."""
    try:
        rows = list_tokens(load_configuration().http, _state_directory())
    except TokenError as error:
        raise click.ClickException(str(error)) from None
    click.echo("\n".join(Columns([64]).format_lines(rows)))


@token.command("revoke")
@click.argument("name")
def revoke(*, name: str) -> None:
    """Make the access token of the client NAME invalid.

    A running mcpb serve ends that client's sessions. The client `default` gets a new token.
    """
    try:
        revoke_token(load_configuration().http, _state_directory(), name)
    except TokenError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"Revoked the token of {name}.")
    if name == DEFAULT:
        click.echo(f"The new one: {format_command('serve --print-config CLIENT')}")


def _state_directory() -> Path:
    return HomeLayout(mcpb_home()).state.path


def _default_token(settings: HttpSettings) -> str:
    try:
        return token_for(settings, _state_directory())
    except TokenError as error:
        raise click.ClickException(str(error)) from None


def _parse_address(settings: HttpSettings, *, is_given: bool = False) -> str:
    """Return the address of the server that runs, else of the one that these settings describe."""
    server = None if is_given else find_running(_state_directory())
    return server.url if server else local_url(settings.host, settings.port, settings.scheme)


def _listen_remedy(fault: ListenFault, port: int) -> str:
    match fault:
        case ListenFault.UNKNOWN_ADDRESS:
            return " Without --host, mcpb serve listens on the loopback addresses."
        case ListenFault.PORT_IN_USE:
            return f" Choose another port: {format_command('serve --port')} {port % 65535 + 1}"
        case ListenFault.PORT_PRIVILEGED:
            return f" Choose a port above 1023: {format_command('serve --port')} {PORT}"
        case ListenFault.SOCKET_PATH:
            return f" Choose another path: {format_command('serve --socket ~/.mcpb/run/http.sock')}"
        case ListenFault.SYSTEM:
            return ""


def _print_snippet(client: str, address: str, access_token: str) -> None:
    snippet = client_config(client, address, access_token)
    click.echo(f"{snippet.place}:", err=True)
    click.echo(snippet.text)


def _print_address(url: str, published: Path | None, settings: HttpSettings) -> None:
    lines = [f"MCP is served at {url}mcp (for older clients: {url}sse). Ctrl-C ends it."]
    lines += _describe_access(url, settings)
    if settings.socket:
        lines.append(f"Unix socket: {settings.socket}")
    if published:
        lines.append(f"Clients of Claude in Chrome connect to: {published}")
    if not is_loopback(settings.host):
        lines.append(
            "Other machines reach it by an address of this one, or by a name that is among allowed_hosts "
            "(under [http] in config.toml)."
        )
    if settings.is_exposed:
        lines.append("The connection is not encrypted: add --certificate FILE --key FILE.")
    lines.append(f"The status page: {format_command('status --web')}")
    with suppress(BrokenPipeError):  # The reader has gone.
        click.echo("\n".join(lines))


def _describe_access(url: str, settings: HttpSettings) -> list[str]:
    """Return what a client needs. A token is printed to the user's terminal, never into a file or log."""
    others = f"{format_command('serve --print-config CLIENT')} (claude-code, cursor, vscode, codex, curl)"
    if settings.auth == "same-user":
        return [f'auth = "same-user": every program of your user may connect. With a token: {others}']
    if not sys.stdout.isatty():
        return [f"Clients send an access token: {others}"]
    access_token = _default_token(settings)
    commands = [client_config(each, url, access_token).text for each in ("claude-code", "curl")]
    return ["Clients send an access token. Claude Code, and curl:", *commands, f"Other clients: {others}"]
