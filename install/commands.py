"""`mcpb install-native-host` and `mcpb uninstall-native-host`: look, plan, show, ask, apply."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from install import plan as planning
from install.browsers import Target, known_browsers, user_data_dir_target, user_targets
from install.callers import caller
from install.checks import present_targets
from install.disk import ApplyError, apply, look
from install.interpreter import InterpreterError, current_interpreter
from install.machine import this_machine
from install.plan import Host, MakeDirectory, Plan, Remove, RemoveEmptyDirectory, Step, Write
from native_host.home import mcpb_home
from native_host.wire import EXTENSION_ID

INSTALL = "mcpb install-native-host"
UNINSTALL = "mcpb uninstall-native-host"

_AFTERWARDS = f"""\
A running browser with the extension connects within a minute, at once when you open the extension's popup.
Without the extension yet: mcpb extension. A browser started with --user-data-dir looks only there: name it.
Undo: {UNINSTALL}"""

_browser = click.option(
    "--browser",
    "browsers",
    multiple=True,
    type=click.Choice([browser.name for browser in known_browsers()]),
    help="Only this browser (repeatable). Default: all that are there.",
)


def _named(_context: click.Context, _option: click.Parameter, given: Sequence[str]) -> Sequence[Path]:
    if "" in given:
        raise click.BadParameter("it is empty; name a browser's user data directory")
    if not all(_is_text(directory) for directory in given):
        raise click.BadParameter("it is not UTF-8, and a host manifest can hold nothing else; rename it")
    return [Path(directory).resolve() for directory in given]


def _is_text(path: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in path)  # how Python holds bytes that are not UTF-8


_user_data_dir = click.option(
    "--user-data-dir",
    "user_data_dirs",
    multiple=True,
    type=click.Path(file_okay=False),
    callback=_named,
    help="A browser's user data directory, as in its own option of this name (repeatable).",
)
_dry_run = click.option("--dry-run", is_flag=True, help="Show the plan, change nothing.")
_yes = click.option("--yes", "-y", is_flag=True, help="Apply the plan without asking.")
_json = click.option("--json", "as_json", is_flag=True, help="The plan as JSON; with --yes or --dry-run.")


@click.command("install-native-host")
@_browser
@_user_data_dir
@click.option(
    "--extension-id",
    "extension_ids",
    multiple=True,
    metavar="ID",
    help="Admit another build of the extension as well (repeatable).",
)
@_dry_run
@_yes
@_json
def install_native_host(
    *,
    browsers: Sequence[str],
    user_data_dirs: Sequence[Path],
    extension_ids: Sequence[str],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Register the native host with browsers.

    The plan is shown before anything is written. Browsers need no restart.
    """
    origins = [_origin(extension_id) for extension_id in extension_ids]
    targets = _chosen(browsers, user_data_dirs) or present_targets(os.environ)
    if not targets:
        raise click.ClickException(_no_browser())
    plan = planning.install(this_host(), targets, origins, look)
    if not as_json:
        click.echo(
            "Register the native host in " + ", ".join(str(target.directory.parent) for target in targets)
        )
    _carry_out(plan, "Registered already.", dry_run=dry_run, yes=yes, as_json=as_json)
    if not as_json and not dry_run:
        click.echo(_AFTERWARDS)


@click.command("uninstall-native-host")
@_browser
@_user_data_dir
@_dry_run
@_yes
@_json
def uninstall_native_host(
    *, browsers: Sequence[str], user_data_dirs: Sequence[Path], dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Remove what install-native-host wrote, from all browsers or from those named."""
    home = mcpb_home()
    manifests = [target.manifest for target in _chosen(browsers, user_data_dirs)]
    manifests = manifests or planning.our_manifests(home, present_targets(os.environ), look)
    plan = planning.uninstall(home, manifests, look)
    _carry_out(plan, "Nothing of mcpb is registered here.", dry_run=dry_run, yes=yes, as_json=as_json)


def this_host() -> Host:
    """The installation that runs this command.

    Raises:
        click.ClickException: its interpreter will not do.
    """
    home = mcpb_home()
    if not _is_text(str(home)):
        raise click.ClickException("MCPB_HOME is not UTF-8, and a host manifest can hold nothing else")
    try:
        interpreter = current_interpreter()
    except InterpreterError as error:
        raise click.ClickException(str(error)) from error
    return Host(home, home if os.environ.get("MCPB_HOME") else None, interpreter)


# ── What was asked for ──────────────────────────────────────────────────────────────────────────────────────


def _chosen(browsers: Sequence[str], user_data_dirs: Sequence[Path]) -> list[Target]:
    known = known_browsers()
    named = [browser for browser in known if browser.name in browsers]
    return [
        *(target for browser in named for target in user_targets(browser, this_machine(), known)),
        *(user_data_dir_target(directory) for directory in user_data_dirs),
    ]


def _origin(extension_id: str) -> str:
    if asked := caller(extension_id):
        return asked
    raise click.BadParameter(
        f"{extension_id!r} is no extension id (32 letters from a to p, as chrome://extensions shows it)",
        param_hint="--extension-id",
    )


def _no_browser() -> str:
    known = known_browsers()
    looked = [target for browser in known for target in user_targets(browser, this_machine(), known)]
    places = ", ".join(f"{target.title} ({target.data})" for target in looked)
    return (
        f"No browser has been used here; looked for {places}. "
        f"Start one once, or name one: {INSTALL} --browser chromium, or --user-data-dir DIR"
    )


# ── Show, ask, apply ────────────────────────────────────────────────────────────────────────────────────────


def _carry_out(plan: Plan, nothing_to_do: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    if as_json and not (dry_run or yes):
        raise click.UsageError("--json asks no questions: add --yes or --dry-run")
    if plan.refusals:
        if as_json:
            click.echo(_as_json(plan, applied=False))
        raise click.ClickException(
            "\n".join(["nothing was changed, because something is in the way.", *plan.refusals])
        )
    if not as_json:
        _show(plan, nothing_to_do)
    if plan.steps and not dry_run:
        _confirm(yes=yes)
        _apply(plan)
        if not as_json:
            click.echo("Done.")
    if as_json:
        click.echo(_as_json(plan, applied=not dry_run))


def _confirm(*, yes: bool) -> None:
    if yes:
        return
    if not _is_anybody_there():
        raise click.UsageError("nobody is there to ask: add --yes to apply the plan, or --dry-run to see it")
    if not click.confirm("Apply this plan?"):
        click.echo("Nothing was changed.")
        raise click.exceptions.Exit(1)


def _is_anybody_there() -> bool:
    return sys.stdin.isatty()


def _apply(plan: Plan) -> None:
    try:
        apply(plan)
    except ApplyError as error:
        raise click.ClickException(str(error)) from error


def _show(plan: Plan, nothing_to_do: str) -> None:
    for path in plan.kept:
        click.echo(f"  {click.style('keep', dim=True)}    {path}")
    for step in plan.steps:
        verb, note = _described(step)
        click.echo(f"  {click.style(verb.ljust(7), bold=True)} {step.path}{note}")
    if not plan.steps:
        click.echo(nothing_to_do)


def _described(step: Step) -> tuple[str, str]:
    match step:
        case MakeDirectory():
            return "make", "/"
        case Write(mode=mode, before=before):
            return ("write" if before is None else "replace"), f"  (mode {mode:04o})"
        case Remove():
            return "remove", ""
        case RemoveEmptyDirectory():
            return "remove", "/  (if empty)"


def _as_json(plan: Plan, *, applied: bool) -> str:
    steps: list[dict[str, Any]] = []
    for step in plan.steps:
        verb, _ = _described(step)
        steps.append({"action": verb, "path": str(step.path)})
        if isinstance(step, Write):
            steps[-1] |= {"mode": f"{step.mode:04o}", "content": step.content.decode()}
    shown = {
        "steps": steps,
        "kept": [str(path) for path in plan.kept],
        "refused": plan.refusals,
        "applied": applied and not plan.refusals,
        "extension": EXTENSION_ID,
    }
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()
