"""`mcpb doctor`: reports faults between browsers and MCP clients, and fixes those that are safe to fix."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size

import click
import msgspec
import trio

from bridge.cli.doctor_output import as_text
from bridge.cli.group import proxy_option
from bridge.diagnostics.fixes import apply_fixes
from bridge.diagnostics.observation import find_homes, observe_machine
from bridge.diagnostics.redaction import make_redacted_report
from bridge.diagnostics.report import make_report
from bridge.state import log_file
from install.browsers import TableError, known_browsers
from install.cli import check_home_owner, this_host
from install.findings import Part
from install.ledger import LedgerError
from install.machine import this_machine
from install.plan.apply import ApplyError
from install.targets import Names, TargetSelection, UnknownBrowserError
from native_host.ipc import endpoint
from native_host.protocol.untrusted_text import for_terminal
from native_host.system.home_layout import mcpb_home


def _check_names(_ctx: click.Context, _option: click.Parameter, names: Sequence[str]) -> Sequence[str]:
    """Reject unknown names of browsers. A table that cannot be read is a finding, not a misspelt option."""
    machine, found = this_machine(), Names(browsers=names)
    try:
        TargetSelection(machine, known_browsers(mcpb_home()), Path.exists).find_named(found)
    except UnknownBrowserError as error:
        raise click.BadParameter(str(error)) from None
    except TableError:
        pass
    return names


@click.command()
@click.option("--fix", "is_fixing", is_flag=True, help="First apply all safe fixes, and list them.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/TROUBLESHOOTING.md).")
@click.option("--redact", "is_public", is_flag=True, help="Replace personal data, for a bug report.")
@click.option(
    "--browser",
    "names",
    multiple=True,
    metavar="NAME",
    callback=_check_names,
    help="Check only this browser (repeatable; default: all).",
)
@proxy_option
def doctor(*, is_fixing: bool, as_json: bool, is_public: bool, names: Sequence[str]) -> None:
    """Check the chain from browsers to MCP clients.

    Print what is wrong and the command that fixes it. Exit with 0 if the
    chain works, else with 1. docs/TROUBLESHOOTING.md explains each finding.
    """
    if is_fixing:
        check_home_owner()
    logging.getLogger("bridge").setLevel(logging.ERROR)  # what would be warned of is in the report
    log_file.configure_logging()
    looked = trio.run(observe_machine, names, _fix_all() if is_fixing else None)
    diagnosis = make_redacted_report(looked, find_homes()) if is_public else make_report(looked)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(diagnosis), ensure_ascii=False, indent=2))
    else:
        width = get_terminal_size().columns if sys.stdout.isatty() else 0
        click.echo("\n".join(as_text(diagnosis, width)))
    sys.exit(0 if diagnosis.healthy else 1)


def _fix_all() -> list[Part]:
    """Fix what is safe to fix; return what was done. Errors go to stderr, and the report shows the rest."""
    done: list[Part] = []
    try:
        done.extend(apply_fixes(this_host(), endpoint.candidates()))
    except (LedgerError, ApplyError, click.ClickException) as error:
        click.echo(for_terminal(f"Not everything was fixed: {error}", on=sys.stderr), err=True)
    return done
