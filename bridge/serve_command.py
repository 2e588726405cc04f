"""`mcpb serve`: what may be set for one run, and what a person is told."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from bridge.app import configuration, serve_http
from bridge.frontends.http.listening import LOOPBACK_NAMES, ListenError
from bridge.frontends.http.settings import HttpSettings
from bridge.frontends.http.token import FILE, TokenError
from native_host.endpoint import EndpointError
from native_host.home import mcpb_home


@click.command()
@click.option("--host", metavar="ADDRESS", help="Listen there, not only for this machine.")
@click.option("--port", type=click.IntRange(0, 65535), help="Instead of 3456; 0 takes one that is free.")
@click.option("--socket", metavar="PATH", help="Listen on a Unix socket as well.")
@click.option("--existing-channel", is_flag=True, help="Also use Claude in Chrome, where its own host runs.")
@click.option(
    "--publish-channel", is_flag=True, help="Also have a socket as another product's native hosts have."
)
def serve(*, existing_channel: bool, publish_channel: bool, **flags: Any) -> None:
    """Speak MCP over HTTP (for clients that want a URL).

    What stays the same from one run to the next is set in config.toml, under [http].
    """
    config = configuration(existing_channel=existing_channel)
    channel = config.existing_channel
    channel = msgspec.structs.replace(channel, publish=channel.publish or publish_channel)
    given = {key: value for key, value in flags.items() if value is not None}
    try:
        settings = msgspec.structs.replace(config.http, **given)
    except ValueError as error:
        raise click.UsageError(f"--{error}") from None
    if not settings.enabled:
        raise click.ClickException("config.toml says not to: [http] has enabled = false")
    try:
        serve_http(
            msgspec.structs.replace(config, http=settings, existing_channel=channel),
            lambda url, published: _tell(url, published, settings),
        )
    except (ListenError, TokenError, EndpointError) as error:
        raise click.ClickException(str(error)) from None


def _tell(url: str, published: Path | None, settings: HttpSettings) -> None:
    lines = [f"MCP is served at {url}mcp (for older clients: {url}sse). Ctrl-C ends it."]
    lines.append("The status page: mcpb status --web")
    if settings.socket:
        lines.append(f"Unix socket: {settings.socket}")
    if published:
        lines.append(f"Clients made for another product's socket find: {published}")
    if settings.host not in LOOPBACK_NAMES:
        lines.append(
            "Other machines reach it by an address of this one, or by a name that is among allowed_hosts "
            "(under [http] in config.toml). Nothing on the way is encrypted."
        )
    if wanted := _wanted_token(settings):
        lines.append(wanted)
    with suppress(BrokenPipeError):  # nobody wants to know
        click.echo("\n".join(lines))


def _wanted_token(settings: HttpSettings) -> str:
    """What a client has to send besides; empty where the system tells which connections are ours."""
    if settings.auth_token:
        return "Clients send the token that you have configured: Authorization: Bearer TOKEN"
    is_told = sys.platform == "linux"
    if is_told and settings.host in LOOPBACK_NAMES:
        return ""
    who = "Others than your own programs" if is_told else "Clients"
    return f"{who} send the token in {mcpb_home() / 'state' / FILE}: Authorization: Bearer TOKEN"
