"""`mcpb proxy`: runs a WebSocket proxy, and administers the one that runs."""
# ruff: noqa: PLC0415  (a subcommand imports what it needs: `serve` needs much, `approve` little)

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from native_host.protocol.untrusted_text import for_terminal
from native_host.system.home_layout import HomeLayout, mcpb_home
from native_host.system.private_files import UnusableFileError
from native_host.system.program_name import format_command
from websocket_proxy.protocol import Role

if TYPE_CHECKING:
    from websocket_proxy.node.admin import Request, SignedIn, Status, WaitingSignIn
    from websocket_proxy.node.admin_commands import RunningProxy
    from websocket_proxy.node.settings import ProxySettings

_ROLES = {"extension": Role.EXTENSION, "client": Role.CLIENT}
_NAMES = {Role.EXTENSION: "browser extension", Role.CLIENT: "MCP client"}
_DEFAULT_TTL_S = 3600
T = TypeVar("T")

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def proxy() -> None:
    """Connect browsers and MCP clients on different machines.

    `mcpb proxy serve` runs a proxy and prints the next steps. `login` and `logout` are for the machine of an
    MCP client, all others for that of the proxy. Permanent settings are in config.toml, below [proxy];
    docs/PROXY.md explains them.
    """


# ── The node ────────────────────────────────────────────────────────────────────────────────────────────────


@proxy.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on (default: loopback only).")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on (default 8765; 0: any free port)."
)
@click.option("--tls-cert", metavar="FILE", help="Encrypt with this certificate (PEM; needs --tls-key).")
@click.option("--tls-key", metavar="FILE", help="Private key of the certificate (PEM).")
@click.option(
    "--behind-tls-proxy", is_flag=True, default=None, help="Another server encrypts (needs --public-url)."
)
@click.option("--public-url", metavar="URL", help="URL by which browsers and clients reach the proxy.")
@click.option("--json", "as_json", is_flag=True, help="Write the log as JSON, one object per line.")
def serve(*, as_json: bool, **flags: Any) -> None:
    """Run a WebSocket proxy until Ctrl-C.

    Its log, with each opening, rejection, connection and end, is on stderr.
    """
    from http_serving.listeners import ListenError
    from http_serving.tls import CertificateError
    from native_host.system.private_files import PrivateFileError
    from websocket_proxy.node.addresses import StartError
    from websocket_proxy.node.audit import configure_log
    from websocket_proxy.node.server import run_server
    from websocket_proxy.token_verifier import IssuerError

    given = {key: value for key, value in flags.items() if value is not None}
    try:
        settings = msgspec.structs.replace(_read_settings(), **given)
    except ValueError as error:
        raise click.UsageError(f"--{str(error).replace('_', '-', 1)}") from None
    configure_log(is_json=as_json)
    try:
        run_server(settings, _state_directory(), lambda running: _print_next_steps(running, settings))
    except ListenError as error:
        raise click.ClickException(f"{error}{_listen_remedy(settings)}") from None
    except (StartError, CertificateError, IssuerError, PrivateFileError) as error:
        raise click.ClickException(str(error)) from None


def _listen_remedy(settings: ProxySettings) -> str:
    port = settings.port % 65535 + 1
    return (
        f" Choose another port: {format_command('proxy serve --port')} {port}. The port of /metrics is "
        f"{settings.admin_port_for(settings.port)}: admin_port below [proxy] in config.toml changes it."
    )


def _print_next_steps(running: RunningProxy, settings: ProxySettings) -> None:
    lines = [f"The WebSocket proxy runs at {running.url} (Ctrl-C ends it)."]
    if running.has_home_issuer:
        lines += [
            f"1. Browser: in the popup of the mcpb extension, click Details and enter {running.url}",
            *_describe_forwarding(running, settings),
            f"2. Here, with the code that the popup shows: {format_command('proxy approve CODE')}",
            f"3. Machine of the MCP client: mcpb proxy login {running.url} (approve its code, too)",
        ]
    else:
        lines += [
            f"Browsers sign in at {running.url}: in the popup of the mcpb extension, click Details.",
            f"MCP clients: mcpb proxy login {running.url}",
        ]
    lines.append(f"WebSockets: {running.extension_url} for extensions, {running.client_url} for MCP clients")
    lines.append(f"State: {running.admin_url}/metrics, or {format_command('proxy status')}")
    if running.direct_url:
        lines.append(f"Without tokens, for this user's browsers: {running.direct_url}")
    if settings.behind_tls_proxy:
        lines.append(f"The server that encrypts forwards to {running.local_url}")
    with suppress(BrokenPipeError):  # the reader has gone
        click.echo("\n".join(lines))
        sys.stdout.flush()


def _describe_forwarding(running: RunningProxy, settings: ProxySettings) -> list[str]:
    """Return how browsers of other machines reach a proxy that listens on loopback only."""
    if settings.is_encrypted or settings.behind_tls_proxy:
        return []
    port = running.local_url.rpartition(":")[2]
    return [f"   On another machine, run there first: ssh -N -L {port}:localhost:{port} YOU@THIS-MACHINE"]


# ── Sign-ins ────────────────────────────────────────────────────────────────────────────────────────────────


@proxy.command()
@click.argument("code")
@click.option("--deny", is_flag=True, help="Deny the sign-in.")
@click.option("--yes", is_flag=True, help="Approve without a question.")
def approve(*, code: str, deny: bool, yes: bool) -> None:
    """Let the browser or MCP client that shows CODE sign in."""
    from websocket_proxy.node.admin import DecideSignIn, FindSignIn, WaitingSignIn

    if deny and yes:
        raise click.UsageError("--deny cannot be combined with --yes")
    found = _ask(FindSignIn(code), WaitingSignIn)
    click.echo(_describe_waiting(found))
    if not (deny or yes):
        _confirm_approval()
    _ask(DecideSignIn(code, not deny), WaitingSignIn)
    click.echo("Denied." if deny else "Approved: it signs in within a few seconds.")


def _confirm_approval() -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("stdin is not a terminal: pass --yes to approve, or --deny.")
    if not click.confirm("Approve?"):
        raise click.ClickException("Not approved. The code is still open; to reject it, pass --deny.")


def _describe_waiting(found: WaitingSignIn) -> str:
    name = found.client_name or found.client_id
    effect = (
        "MCP clients of yours can use this browser"
        if found.role is Role.EXTENSION
        else "it can use the browsers that are signed in here"
    )
    return for_terminal(
        f"{found.code}: the {_NAMES[found.role]} {name} at {found.address or 'an unknown address'} wants to "
        f"sign in. If you approve, {effect}."
    )


@proxy.command()
@_json
def sessions(*, as_json: bool) -> None:
    """List the browsers and MCP clients that are signed in."""
    from websocket_proxy.node.admin import ListSessions, SignedIn

    found = _ask(ListSessions(), list[SignedIn])
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    for each in found:
        click.echo(for_terminal(_describe_session(each)))
    if not found:
        click.echo("No browser and no MCP client is signed in.")


def _describe_session(each: SignedIn) -> str:
    connected = f"{each.sockets} connected" if each.sockets else "not connected"
    return (
        f"{each.id[:8]}  {_NAMES[each.role]} {each.client_name or each.client_id}, {connected}, "
        f"signed in {_format_time(each.created_at)} from {each.address or 'an unknown address'}, "
        f"used {_format_time(each.refreshed_at)}"
    )


@proxy.command()
@click.argument("session")
def revoke(*, session: str) -> None:
    """End the sign-in SESSION, and close its connections.

    `mcpb proxy sessions` lists the ids; the first letters suffice.
    """
    from websocket_proxy.node.admin import RevokeSession

    _ask(RevokeSession(session), type(None))
    click.echo("Revoked: its connections are closed, and it has to sign in again.")


@proxy.command()
@_json
def status(*, as_json: bool) -> None:
    """Show the running proxy: addresses, connections and problems."""
    from websocket_proxy.node.admin import GetStatus, Status

    found = _ask(GetStatus(), Status)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    click.echo(for_terminal("\n".join(_describe_status(found))))


def _describe_status(found: Status) -> list[str]:
    lines = [
        f"{found.url} (mcpb {found.version}, pid {found.pid})" + (", shutting down" * found.is_draining),
        f"Extensions: {found.extension_url}",
        f"MCP clients: {found.client_url}",
        f"Metrics: {found.admin_url}/metrics",
        f"Connected: {found.extensions} extensions, {found.clients} MCP clients, {found.users} users",
        f"Requests that run: {found.requests_in_flight}",
    ]
    if found.waiting_sign_ins:
        lines.append(f"{found.waiting_sign_ins} sign-ins wait for: {format_command('proxy approve CODE')}")
    for issuer in found.issuers:
        text = f"Issuer {issuer.issuer}: {issuer.keys} keys from {issuer.source}"
        if issuer.problem:
            text += f". The latest attempt to read them failed: {issuer.problem}"
        if issuer.is_stale:
            text += ". They are too old, so its tokens are rejected"
        lines.append(text)
    return lines


# ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────


@proxy.command()
@click.option("--scope", type=click.Choice(list(_ROLES)), required=True, help="Role in which it is accepted.")
@click.option("--key", metavar="FILE", help="Key file of the issuer (default: key of the home issuer).")
@click.option("--user", metavar="ID", help="Id of the user (default: user of the home issuer).")
@click.option(
    "--ttl", type=click.IntRange(1), default=_DEFAULT_TTL_S, help="Lifetime in seconds (default 3600)."
)
@click.option("--issuer", metavar="TEXT", help="Claim iss (default: that of the only issuer).")
@click.option("--audience", metavar="TEXT", help="Claim aud (default: that of the only issuer).")
def token(
    *, scope: str, key: str | None, user: str | None, ttl: int, issuer: str | None, audience: str | None
) -> None:
    """Print an access token, for tests and scripts.

    It cannot be revoked, so keep its time short.
    """
    from websocket_proxy.node.issued_tokens import TokenRequest, issue_token
    from websocket_proxy.signing_keys import SigningKeyError

    request = TokenRequest(_ROLES[scope], key or "", user or "", ttl, issuer or "", audience or "")
    try:
        click.echo(issue_token(request, _read_settings(), _state_directory(), _find_url))
    except (SigningKeyError, UnusableFileError) as error:
        raise click.ClickException(str(error)) from None


def _find_url() -> str:
    """Return the URL of the running proxy."""
    from websocket_proxy.node.admin import GetStatus, Status

    return _ask(GetStatus(), Status).url


# ── All commands ────────────────────────────────────────────────────────────────────────────────────────────


def _read_settings() -> ProxySettings:
    from websocket_proxy.node.settings import ProxySettingsError, read_settings

    try:
        return read_settings(mcpb_home())
    except ProxySettingsError as error:
        raise click.ClickException(str(error)) from None


def _state_directory() -> Path:
    return HomeLayout(mcpb_home()).state.path


def _ask(request: Request, result: type[T]) -> T:
    """Return the response of the running node."""
    import trio

    from websocket_proxy.node.admin import AdminError, NodeClient

    ask: Callable[[], Any] = lambda: NodeClient(_state_directory()).ask(request, result)  # noqa: E731
    try:
        found: T = trio.run(ask)
    except (AdminError, UnusableFileError) as error:
        raise click.ClickException(str(error)) from None
    return found


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
