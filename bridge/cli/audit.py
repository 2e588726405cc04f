"""`mcpb audit`: the audit log, filtered, as a table or as it is kept."""

from __future__ import annotations

import errno
import json
import re
import sys
import time
from collections.abc import Callable
from datetime import datetime
from shutil import get_terminal_size
from typing import Any

import click

from bridge.cli.columns import Columns
from bridge.state import audit_rows
from bridge.state.audit_reader import Filter, follow_log, list_outcomes, read_recent
from native_host.protocol.untrusted_text import for_terminal
from native_host.system.exhaustion import find_exhaustion
from native_host.system.home_layout import HomeLayout, mcpb_home

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_FOLLOW_S = 0.25


def _read_since(_ctx: click.Context, _option: click.Parameter, text: str | None) -> float:
    """Seconds since the epoch."""
    if text is None:
        return 0.0
    if ago := re.fullmatch(r"(\d{1,9})([smhdw])", text):
        return max(0.0, time.time() - int(ago[1]) * _UNITS_S[ago[2]])
    try:
        return max(0.0, datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is no time. Write how long ago (30s, 15m, 1h, 2d, 1w) or when (2026-11-21, "
            "2026-11-21T14:30)."
        ) from None


def _read_glob(_ctx: click.Context, _option: click.Parameter, text: str | None) -> str:
    if text is not None and not text.removeprefix("!"):
        raise click.BadParameter("there is nothing to look for; write a glob, for instance '*.example'.")
    return text or ""


def _read_outcome(ctx: click.Context, option: click.Parameter, text: str | None) -> str:
    """Read a glob; reject a word that is not an outcome. `tool-error` is the spelling of earlier versions."""
    glob, known = _read_glob(ctx, option, text).casefold().replace("tool-", "tool_"), list_outcomes()
    word = glob.removeprefix("!")
    if glob and word not in known and not set("*?[") & set(word):
        raise click.BadParameter(f"no call ends with {text!r}. Outcomes are {', '.join(known)}.")
    return glob


@click.command()
@click.option(
    "-n",
    "count",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Number of entries to show.",
)
@click.option("--follow", "-f", "is_following", is_flag=True, help="Follow new entries until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print the stored entries, one JSON object per line.")
@click.option(
    "--origin",
    metavar="GLOB",
    callback=_read_glob,
    help="Only these sites, read or changed; the scheme is optional.",
)
@click.option("--client", metavar="GLOB", callback=_read_glob, help="Only these MCP clients.")
@click.option("--tool", metavar="GLOB", callback=_read_glob, help="Only these tools.")
@click.option(
    "--outcome", metavar="GLOB", callback=_read_outcome, help="Only this outcome: ok, '!ok', tool_error …"
)
@click.option(
    "--since", metavar="WHEN", callback=_read_since, help="Only calls since then: 1h, 2d, 2026-11-21."
)
@click.option(
    "--all/--calls",
    "is_with_registrations",
    help="Also show changed tool lists and definitions, or only calls.",
)
def audit(*, count: int, is_following: bool, as_json: bool, **where: Any) -> None:
    """Show past tool calls: tool, client, site and outcome.

    Each step of a batch or a shortcut has its own line: BATCH.STEP TOOL.
    A GLOB may contain * and ?; with ! before it, matches are left out.
    """
    layout, wanted = HomeLayout(mcpb_home()).state, Filter(**where)
    state, log = layout.path, layout.audit_log
    show = _audit_printer(as_json=as_json)
    if not log.exists():
        click.echo(f"Nothing has been called yet. The log will be {log}", err=True)
    try:
        if is_following:
            for line in follow_log(state, count, wanted, lambda: time.sleep(_FOLLOW_S)):
                show([line])
        elif found := read_recent(state, count, wanted):
            show(found)
        elif log.exists():
            click.echo("No matching entries.", err=True)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno == errno.EPIPE or find_exhaustion(error):
            raise
        raise click.ClickException(f"{log} cannot be read: {error.strerror}") from None


def _audit_printer(*, as_json: bool) -> Callable[[list[dict[str, Any]]], None]:
    columns = Columns(audit_rows.LIMITS, get_terminal_size().columns if sys.stdout.isatty() else 0)

    def show(lines: list[dict[str, Any]]) -> None:
        if as_json:
            texts = [for_terminal(json.dumps(line, ensure_ascii=False)) for line in lines]
        else:
            texts = columns.format_lines(map(audit_rows.format_row, lines))
        click.echo("\n".join(texts))

    return show
