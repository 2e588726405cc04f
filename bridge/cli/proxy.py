"""`mcpb proxy login` and `logout`, beside the commands of the WebSocket proxy itself."""
# ruff: noqa: PLC0415  (`mcpb proxy approve` must not import what these commands need)

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from native_host.protocol.untrusted_text import for_terminal
from native_host.system.home_layout import mcpb_home
from websocket_proxy.commands import proxy

if TYPE_CHECKING:
    from bridge.links.browsers.proxy_address import ProxyAddress
    from bridge.links.browsers.proxy_login import SignInCode

__all__ = ["proxy"]


def _read_address(_ctx: click.Context, _argument: click.Parameter, url: str) -> ProxyAddress:
    from bridge.links.browsers.proxy_address import ProxyAddressError, read_address

    try:
        return read_address(url)
    except ProxyAddressError as error:
        raise click.BadParameter(str(error)) from None


@proxy.command("login")
@click.argument("url", callback=_read_address)
def log_in(url: ProxyAddress) -> None:
    """Sign in to the proxy at URL, as an MCP client.

    Show a code, wait until it is approved, and store the tokens. From then on every client of this mcpb
    has the browsers of the same user at that proxy.
    """
    import trio

    from bridge.links.browsers.proxy_login import SignInError, sign_in
    from bridge.links.remote_problem import RemoteProblem
    from native_host.system.private_files import PrivateFileError

    try:
        problem = trio.run(sign_in, url, mcpb_home(), _show_code)
    except (SignInError, RemoteProblem, PrivateFileError, TimeoutError) as error:
        detail = str(error) or "another mcpb uses its tokens"
        if isinstance(error, RemoteProblem) and error.may_recover:
            detail += ". Check the address, and that the proxy runs: mcpb proxy serve"
        raise click.ClickException(
            for_terminal(f"Cannot sign in to {url.url}: {detail}", on=sys.stderr)
        ) from None
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt):
            raise click.Abort from None
        raise
    _warn_not_revoked(problem)
    click.echo(f"Signed in to {url.url}. Running clients use its browsers within 5 seconds.")


def _show_code(code: SignInCode) -> None:
    if code.is_of_proxy:
        text = f"On the machine of the proxy, run: mcpb proxy approve {code.user_code}"
    else:
        text = f"Open {code.address} and enter the code {code.user_code}"
    click.echo(for_terminal(text))


def _warn_not_revoked(problem: str) -> None:
    if problem:
        text = f"The tokens of the earlier sign-in were not revoked: {problem}"
        click.echo(for_terminal(text, on=sys.stderr), err=True)


@proxy.command("logout")
@click.argument("url", callback=_read_address)
def log_out(url: ProxyAddress) -> None:
    """Remove the tokens for the proxy at URL.

    Revoke them at the server that issued them, if it offers that. Running clients lose the proxy's
    browsers.
    """
    import trio

    from bridge.links.browsers.proxy_credentials import login_file
    from bridge.links.oauth.login_tokens import forget_login
    from native_host.system.private_files import PrivateFileError

    try:
        was_stored, problem = trio.run(forget_login, login_file(mcpb_home(), url))
    except (PrivateFileError, TimeoutError) as error:
        detail = str(error) or "another mcpb uses them"
        raise click.ClickException(
            for_terminal(f"Cannot remove the tokens for {url.url}: {detail}", on=sys.stderr)
        ) from None
    _warn_not_revoked(problem)
    text = f"Signed out of {url.url}." if was_stored else f"No tokens for {url.url} were stored."
    click.echo(text)
