"""`mcpb allow`: lists, grants and revokes approvals of sites."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import click

from bridge import origins
from bridge.state.site_approvals import (
    OFFERING,
    WORDS,
    Approval,
    Approvals,
    ApprovalsError,
    SiteApproval,
    is_word,
)
from native_host.protocol.untrusted_text import for_terminal
from native_host.system.home_layout import HomeLayout, mcpb_home
from native_host.system.program_name import format_command

_UNITS_S = {"m": 60, "h": 3600, "d": 86_400}


def _read_words(_ctx: click.Context, _argument: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if not is_word(word):
            close = get_close_matches(word, WORDS, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise click.BadParameter(
                f"{word!r} cannot be approved.{hint} Words are {', '.join(WORDS)}, {OFFERING}NAME."
            )
    return words


def _read_origin(_ctx: click.Context, _argument: click.Parameter, origin: str | None) -> str | None:
    if origin is None:
        return None
    try:
        return origins.parse_subject(origin)
    except origins.OriginError as error:
        raise click.BadParameter(
            f"{origin!r} is not a site: {error}. Write it as https://shop.example, or remote:NAME for a "
            "remote server."
        ) from None


def _read_duration(_ctx: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    if not (found := re.fullmatch(r"([1-9]\d{0,4})([mhd])", text)):
        raise click.BadParameter(f"{text!r} is not a duration: write 30m, 1h or 7d.")
    return float(int(found[1]) * _UNITS_S[found[2]])


@click.command()
@click.argument("origin", required=False, callback=_read_origin)
@click.argument("what", nargs=-1, callback=_read_words)
@click.option("--client", metavar="NAME", help="Only for this client (default: every client).")
@click.option(
    "--for",
    "lasts_s",
    metavar="TIME",
    callback=_read_duration,
    help="Time until it ends: 30m, 1h or 7d (default: no end).",
)
@click.option("--revoke", is_flag=True, help="Revoke it; without WHAT, everything for ORIGIN.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def allow(
    origin: str | None,
    what: tuple[str, ...],
    *,
    client: str | None,
    lasts_s: float | None,
    revoke: bool,
    as_json: bool,
) -> None:
    """List, grant or revoke approvals of sites.

    Without WHAT, list the approvals. ORIGIN is a site, or remote:NAME for what a remote MCP server asks of
    clients (sampling, roots). WHAT is one of these words, or several:

    \b
    read        read the pages of the site
    act         the same, and act on them
    page-tools  use the tools, resources and prompts of its pages
    upload      upload files to it
    sampling    let its pages ask the client's model
    roots       let its pages list the client's directories
    tools:NAME  give its pages the tools of the remote server NAME
    """
    if revoke and origin is None:
        command = format_command("allow")
        raise click.UsageError(f"--revoke needs an ORIGIN; `{command}` lists what is approved.")
    if revoke and lasts_s is not None:
        raise click.UsageError("--revoke cannot be combined with --for.")
    if not revoke and (servers := [word for word in what if word.startswith(OFFERING)]):
        _check_offering(str(origin), servers, client)
    approvals = Approvals(HomeLayout(mcpb_home()).state.path)
    try:
        if revoke and origin:
            _revoke_approvals(approvals, origin, what, client)
        elif origin and what:
            approvals.grant([origin], what, client=client or "", lasts_s=lasts_s)
            _report_grant(origin, Approval(words=what, client=client or ""))
        else:
            _list_approvals(
                [each for each in approvals.read_all() if origin in (None, each.origin)], as_json=as_json
            )
    except ApprovalsError as error:
        raise click.ClickException(for_terminal(str(error), on=sys.stderr)) from None


def _report_grant(origin: str, granted: Approval) -> None:
    words = granted.granted_actions
    click.echo(for_terminal(f"Approved {origin} for {', '.join(words)}, to {granted.audience}."))
    if any(word.startswith(OFFERING) for word in words):
        status = format_command("status")
        click.echo(
            f"Pages have the tools while a client or `mcpb serve` runs. To see which do, run: {status}"
        )


def _check_offering(origin: str, words: Sequence[str], client: str | None) -> None:
    """Reject approvals of pages for the tools of a server that could never apply."""
    if origin.startswith(origins.REMOTE):
        raise click.UsageError(f"{words[0]} is for pages: name their site, as https://shop.example.")
    if client is not None:
        raise click.UsageError(f"{words[0]} cannot be combined with --client: pages call these tools.")
    from bridge.config.loader import ConfigError, read_config  # noqa: PLC0415  (only this approval needs it)

    try:
        names = [server.name for server in read_config(mcpb_home()).remote]
    except ConfigError as error:
        raise click.ClickException(for_terminal(str(error), on=sys.stderr)) from None
    for word in words:
        if (name := word.removeprefix(OFFERING)) not in names:
            known = f"There are {', '.join(names)}." if names else ""
            command = format_command(f"remote add {name} URL")
            raise click.UsageError(
                f"No remote server is called {name}: add it with `{command}`. {known}".strip()
            )


def _revoke_approvals(approvals: Approvals, origin: str, what: Sequence[str], client: str | None) -> None:
    revoked = sum(approvals.revoke(origin, word, client) for word in what or ("",))
    if revoked == 0:
        named = ", ".join(
            f"{each.origin} for {', '.join(each.approval.granted_actions)}" for each in approvals.read_all()
        )
        raise click.ClickException(
            for_terminal(
                f"Nothing like that is approved for {origin}. Approved: {named or 'nothing'}.", on=sys.stderr
            )
        )
    click.echo(for_terminal(f"Revoked {revoked} approval{'' if revoked == 1 else 's'} of {origin}."))


def _list_approvals(found: Sequence[SiteApproval], *, as_json: bool) -> None:
    if as_json:
        click.echo(for_terminal(json.dumps({"approvals": [_make_row(each) for each in found]}, indent=2)))
        return
    for origin, approval in found:
        end = f", until {approval.until}" if approval.until else ""
        words = ", ".join(approval.granted_actions)
        click.echo(for_terminal(f"{origin}  {words}  for {approval.audience}{end}"))
    if not found:
        click.echo("No site is approved.")


def _make_row(each: SiteApproval) -> dict[str, Any]:
    approval = each.approval
    row = {"origin": each.origin, "for": list(approval.granted_actions)}
    return row | {"client": approval.only_client, "until": approval.until, "since": approval.since}
