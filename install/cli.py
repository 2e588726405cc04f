"""`mcpb install-native-host` and `mcpb uninstall-native-host`: look, plan, show, ask, apply."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from install.browsers import Kind, Level, TableError, Target, known_browsers
from install.checks.client_entries import find_client_entries
from install.checks.loaded_extensions import find_loaded
from install.extension_copies import removable_copies
from install.host_manifest import caller_of
from install.installation import InstallationPaths, RegisteredHost, system_home
from install.interpreter import InterpreterError, current_interpreter, find_unreachable
from install.ledger import Ledger, LedgerError
from install.machine import Machine, this_machine
from install.plan import install_plan as planning
from install.plan import uninstall_plan
from install.plan.apply import ApplyError, apply_plan, read_place
from install.plan.ownership import installed_wrapper
from install.plan.plan_output import plan_json, plan_lines
from install.plan.steps import Plan, RemoveEmptyDirectory
from install.removable_files import held_by_running_hosts, kept_files, left_by_dead_hosts, runtime_directories
from install.skill_file import find_skills
from install.targets import (
    Names,
    TargetSelection,
    UnknownBrowserError,
    as_registered,
    each_once,
    install_command,
    option_for,
)
from install.wsl import is_wsl, make_recipe
from native_host.ipc import named_sessions
from native_host.system.home_layout import HomeLayout, foreign_home, is_home_chosen, mcpb_home
from native_host.system.program_name import command_name, sudo_command

_AFTERWARDS = """\
A running browser that has the extension connects within a minute, or at once when you open its popup.
If you start your browser with --user-data-dir DIR, run: {called} install-native-host --user-data-dir DIR
Undo: {undo}"""

_LISTS: Mapping[Kind, str] = {"chromium": "chrome://extensions", "firefox": "about:addons"}
"""Pages on which browsers list their extensions."""

_TAKES_STRAYS = {"allow_extra_args": True}
"""They are refused all the same, by a text that knows browsers."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _NoBrowserError(click.ClickException):
    """No browser to register with yet: scripts recognize it by the exit code."""

    exit_code = 3


# ── Options ─────────────────────────────────────────────────────────────────────────────────────────────────


def _parse_folders(_context: click.Context, _option: click.Parameter, given: Sequence[str]) -> Sequence[Path]:
    if "" in given:
        raise click.BadParameter("it is empty; name a folder")
    if not all(_is_text(directory) for directory in given):
        raise click.BadParameter("it is not UTF-8, and a host manifest can hold nothing else; rename it")
    return [Path(os.path.realpath(directory)) for directory in given]


def _is_text(path: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in path)  # how Python holds bytes that are not UTF-8


def _parse_callers(_context: click.Context, _option: click.Parameter, given: Sequence[str]) -> Sequence[str]:
    return [_parse_caller(extension_id) for extension_id in given]


def _parse_caller(extension_id: str) -> str:
    if asked := caller_of(extension_id):
        return asked
    raise click.BadParameter(
        f"{extension_id!r} is no extension id (32 letters from a to p, as chrome://extensions shows it; or a "
        "Firefox add-on's, as about:debugging shows it)"
    )


def _add_options(command: _Command) -> _Command:
    """Add the options of both commands."""
    for option in reversed(
        [
            click.option(
                "--browser", "browsers", multiple=True, metavar="NAME", help="Only this browser (repeatable)."
            ),
            click.option(
                "--user-data-dir",
                "user_data_dirs",
                multiple=True,
                type=click.Path(file_okay=False),
                callback=_parse_folders,
                help="User data directory with which a Chromium was started (repeatable).",
            ),
            click.option(
                "--dir",
                "directories",
                multiple=True,
                type=click.Path(file_okay=False),
                callback=_parse_folders,
                help="Directory of host manifests of a browser that mcpb does not know (repeatable).",
            ),
            click.option(
                "--kind",
                type=click.Choice(["chromium", "firefox"]),
                help="Kind of browser for --dir (default: by the directory's name).",
            ),
            click.option(
                "--system", "is_system", is_flag=True, help="For all users of this machine; needs root."
            ),
            click.option("--dry-run", is_flag=True, help="Show the plan, change nothing."),
            click.option("--yes", "-y", is_flag=True, help="Apply the plan without asking."),
            click.option(
                "--json", "as_json", is_flag=True, help="Print the plan as JSON; needs --yes or --dry-run."
            ),
        ]
    ):
        command = option(command)
    return command


# ── The commands ────────────────────────────────────────────────────────────────────────────────────────────


@click.command("install-native-host", context_settings=_TAKES_STRAYS)
@_add_options
@click.option("--all", "take_all", is_flag=True, help="All installed browsers, also those that you removed.")
@click.option(
    "--extension-id",
    "callers",
    multiple=True,
    metavar="ID",
    callback=_parse_callers,
    help="Also allow the extension with this id (repeatable).",
)
@click.option("--replace", is_flag=True, help="Move files of other programs out of the way.")
def install_native_host(
    *,
    callers: Sequence[str],
    take_all: bool,
    replace: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Register the native host with browsers.

    Without names, register it with all installed browsers. The command shows its plan before it writes.
    Browsers need no restart. Files of other programs stay, and a browser that you removed stays removed
    until you name it or pass --all.
    """
    asked = _CommandOptions(**given)
    host = asked.host()
    ledger = _read_ledger(lambda: planning.ledger_of(host.home, read_place))
    targets, left_out = asked.targets_to_register(ledger, take_all=take_all)
    # In WSL the browser may be one of Windows, which needs the wrapper alone.
    is_wanted = bool(targets) or is_wsl(asked.machine)
    if not is_wanted and not left_out:
        raise _NoBrowserError(asked.no_browser())
    plan = Plan(host.home.path)
    if is_wanted:
        plan = _read_ledger(
            lambda: planning.plan_install(host, targets, callers, read_place, replace=replace)
        )
    plan.notes += left_out
    if asked.level == "user" and asked.names:
        plan.notes += asked.choice.not_there(asked.named_targets(ledger))
    plan.notes += asked.choice.confinement_notes() if asked.level == "user" else []
    if plan.refusals and len(targets) > 1:
        plan.refusals.append(f"To leave a browser out, name the others: {install_command()} --browser NAME")
    if not as_json and targets:
        click.echo(f"Register the native host with {_join_titles(targets)}")
    nothing_to_do = "Registered already." if is_wanted else "No browser is left to register with."
    _carry_out(plan, nothing_to_do, dry_run=dry_run, yes=yes, as_json=as_json)
    if is_wanted and not as_json and not dry_run:
        if not _is_idle(plan):
            click.echo(_AFTERWARDS.format(called=command_name(), undo=asked.undo()))
        if is_wsl(asked.machine):
            click.echo("\n" + make_recipe(asked.choice.browsers, asked.machine, host.home.wrapper))


@click.command("uninstall-native-host", context_settings=_TAKES_STRAYS)
@_add_options
@click.option("--purge", is_flag=True, help="Also remove settings, logs, cached tools and the extension.")
def uninstall_native_host(*, purge: bool, dry_run: bool, yes: bool, as_json: bool, **given: Any) -> None:
    """Remove the registration of the native host.

    With names, remove it from these browsers only. Files that were there before come back.
    """
    asked = _CommandOptions(**given, forgives_table=True)
    if purge and asked.names:
        raise click.UsageError("--purge cannot be combined with browser names")
    home = asked.home()
    if asked.names:
        ledger = _read_ledger(lambda: planning.ledger_of(home, read_place))
        targets = asked.named_targets(ledger)
        plan = _read_ledger(
            lambda: uninstall_plan.plan_removal(home, targets, read_place, usual=asked.usual_targets(ledger))
        )
        plan.notes += _also_read_by(asked.choice.find_sharing(targets))
    else:
        usual = asked.usual_targets(_read_ledger(lambda: planning.ledger_of(home, read_place)))
        kept = asked.belongings(home, purge=purge)
        unchanged, changed = removable_copies(home.path) if asked.level == "user" else ({}, [])
        plan = _read_ledger(
            lambda: uninstall_plan.plan_uninstall(
                home,
                usual,
                read_place,
                kept=kept,
                folders=asked.folders(home),
                sessions=asked.sessions(),
                # --purge removes a copy in mcpb's home as a whole.
                copies={directory: files for directory, files in unchanged.items() if directory not in kept},
            )
        )
        plan.notes += [
            f"{directory} has been changed, and stays" for directory in changed if directory not in kept
        ]
        plan.notes += asked.running_holds(home) if plan.steps else []
    plan.notes += _of_another_installation(home) if plan.steps else []
    _carry_out(plan, "Nothing of mcpb is registered here.", dry_run=dry_run, yes=yes, as_json=as_json)
    if not (asked.names or asked.level == "system" or dry_run or as_json):
        _print_remains(asked.machine, home.path)


def format_remains(machine: Machine, home: Path) -> str:
    """Return what an uninstallation leaves because it is in files of other programs; empty without it."""
    loaded = dict.fromkeys((each.browser, each.kind) for each in find_loaded(machine, home))
    lines = [f"  the extension in {browser}: remove it at {_LISTS[kind]}" for browser, kind in loaded]
    lines += [
        f"  the MCP server {entry.name} of {entry.client}: {entry.removal}"
        for entry in find_client_entries(machine)
    ]
    return "\n".join(["Still there:", *lines]) if lines else ""


def _print_remains(machine: Machine, home: Path) -> None:
    if text := format_remains(machine, home):
        click.echo(text)


def check_home_owner() -> None:
    """Reject a `HOME` of another user, as sudo may leave it: the command would write for the wrong user.

    Raises:
        click.ClickException: `HOME` is a directory of another user.
    """
    home = foreign_home()
    if home is None:
        return
    owner, me = _user_name(home.stat().st_uid), os.getuid()
    raise click.ClickException(
        f"HOME is {home}, which is {owner}'s, and this command runs as {_user_name(me)}. Run it as "
        f"{owner}{', without sudo' if me == 0 else ''}. (--system is for all users)"
    )


def this_home() -> InstallationPaths:
    """Return the installation paths of the user who runs this command."""
    return InstallationPaths(mcpb_home().absolute(), this_machine().user_home)


def this_host() -> RegisteredHost:
    """Return the installation that runs this command.

    Raises:
        click.ClickException: its interpreter cannot run the host.
    """
    home = this_home()
    for name, path in (("MCPB_HOME", home.path), ("HOME", home.user_home)):
        if not _is_text(str(path)):
            raise click.ClickException(f"{name} is not UTF-8, and a host manifest can hold nothing else")
    return RegisteredHost(home, _find_interpreter(), bakes_home=is_home_chosen())


def _find_interpreter() -> Path:
    try:
        return current_interpreter()
    except InterpreterError as error:
        raise click.ClickException(str(error)) from error


# ── What was asked for ──────────────────────────────────────────────────────────────────────────────────────


class _CommandOptions:
    """Options that both commands accept, with their errors."""

    def __init__(
        self,
        *,
        browsers: Sequence[str],
        user_data_dirs: Sequence[Path],
        directories: Sequence[Path],
        kind: Any,
        is_system: bool,
        forgives_table: bool = False,
    ) -> None:
        if kind and not directories:
            raise click.UsageError("--kind says whose manifests --dir takes: add --dir DIR")
        if is_system and (user_data_dirs or directories):
            raise click.UsageError(
                "--system writes where browsers look for all users: name them with --browser"
            )
        self.machine: Machine = this_machine()
        self.level: Level = "system" if is_system else "user"
        self.names = Names(browsers, user_data_dirs, directories, kind)
        try:
            rows = known_browsers(mcpb_home())
        except TableError as error:
            if self.names or not forgives_table:
                raise click.ClickException(str(error)) from error
            rows = known_browsers()  # the ledger knows the rest
        self.choice = TargetSelection(self.machine, rows, os.path.isdir, self.level)
        for word in click.get_current_context().args:
            hint = self.choice.suggest_option(word)
            raise click.UsageError(f"Got unexpected extra argument ({word}). {hint}".strip())

    def home(self) -> InstallationPaths:
        """Installation paths of the user, or of all users."""
        if self.level == "user":
            check_home_owner()
            return this_home()
        if os.geteuid() != 0:
            verb = click.get_current_context().info_name
            raise click.ClickException(
                f"--system is for all users and needs root: {sudo_command()} {verb} --system"
            )
        return system_home(self.machine)

    def undo(self) -> str:
        """Return the command that undoes the registration."""
        if self.level == "system":
            return f"{sudo_command()} uninstall-native-host --system"
        return f"{command_name()} uninstall-native-host"

    def host(self) -> RegisteredHost:
        """Return this installation of mcpb."""
        home = self.home()
        if self.level == "user":
            return this_host()
        interpreter = _find_interpreter()
        if closed := find_unreachable(interpreter):
            raise click.ClickException(
                f"other users cannot reach {interpreter}: {closed} is closed to them. Install mcpb where all "
                "may read it, from DIR, your clone of it: sudo python3 -m venv /opt/mcpb && "
                "sudo /opt/mcpb/bin/pip install DIR && "
                "sudo /opt/mcpb/bin/mcpb install-native-host --system"
            )
        return RegisteredHost(home, interpreter)

    def usual_targets(self, ledger: Ledger | None) -> list[Target]:
        """Return the directories that may have a manifest of mcpb without a ledger."""
        return as_registered(self.choice.find_usual(), planning.known_targets(ledger))

    def named_targets(self, ledger: Ledger | None) -> list[Target]:
        """Return the directories of the names."""
        try:
            return as_registered(self.choice.find_named(self.names), planning.known_targets(ledger))
        except UnknownBrowserError as error:
            raise click.BadParameter(str(error), param_hint="--browser") from error

    def targets_to_register(self, ledger: Ledger | None, *, take_all: bool) -> tuple[list[Target], list[str]]:
        """Return the directories, and the reason for each that the user has removed."""
        if self.names and not take_all:
            return self.named_targets(ledger), []
        known = [
            *planning.registered_targets(ledger, read_place),
            *planning.deleted_targets(ledger, read_place),
        ]
        present = as_registered(self.choice.find_present(), planning.known_targets(ledger))
        found = each_once([*present, *self.named_targets(ledger), *map(self.choice.with_title, known)])
        if take_all:
            return found, []
        left_out = {target: note for target in found if (note := _why_left_out(target, ledger))}
        return [target for target in found if target not in left_out], list(left_out.values())

    def no_browser(self) -> str:
        """Return the error that lists the directories."""
        if self.level == "system":
            name = f"{install_command()} --system --browser NAME"
            return f"no browser is installed here for all users. Name one: {name}"
        return (
            "no browser is installed here. Install one and run this again, or name it: "
            f"{install_command()} --browser chromium, or its directory with --user-data-dir DIR. "
            "(mcpb looked for Chrome, Chromium, Firefox and their relatives.)"
        )

    def belongings(self, home: InstallationPaths, *, purge: bool) -> list[Path]:
        """Return the other files that an uninstallation removes."""
        if self.level == "system":
            return []
        found = [*left_by_dead_hosts(os.environ, home.path), *(kept_files(home.path) if purge else [])]
        state = HomeLayout(home.path).state
        records = [record for record in (state.skills, state.extensions) if record.exists()]
        return [*found, *find_skills(home.path), *records]

    def running_holds(self, home: InstallationPaths) -> list[str]:
        """Return the files that running processes still use."""
        held = held_by_running_hosts(os.environ, home.path) if self.level == "user" else []
        return [
            f"{folder} is in use by a running browser, or by a client of Claude in Chrome (until 5 s after "
            "its end). To remove it as well, close them and run this again"
            for folder in held
        ]

    def sessions(self) -> list[Path]:
        """Return the sockets of named sessions, which end with the installation."""
        return named_sessions.find_sockets() if self.level == "user" else []

    def folders(self, home: InstallationPaths) -> list[Path]:
        """Outside of mcpb's home, removed if they are empty."""
        if self.level == "system":
            return []
        skills = [skill.parent for skill in find_skills(home.path)]
        return [*runtime_directories(os.environ, home.path), *skills]


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _join_titles(targets: Sequence[Target]) -> str:
    return ", ".join(dict.fromkeys(target.title for target in targets))


def _why_left_out(target: Target, ledger: Ledger | None) -> str:
    """Empty where it is not."""
    back = f"To register it again: {install_command()} {option_for(target)}"
    if planning.is_removed(target, ledger):
        return f"You removed {target.title} earlier. {back}"
    if planning.is_deleted(target, ledger, read_place):
        return f"The manifest of {target.title} was deleted by hand, and stays deleted. {back}"
    return ""


def _also_read_by(titles: Sequence[str]) -> list[str]:
    return [f"The same folder is read by {', '.join(titles)}"] if titles else []


def _of_another_installation(home: InstallationPaths) -> list[str]:
    known = installed_wrapper(home.path, read_place)
    if known is None or known.interpreter == sys.executable or not os.access(known.interpreter, os.X_OK):
        return []
    note = f"The host is that of another installation of mcpb, and started with {known.interpreter}"
    return [f"{note}: browsers will not find that one either"]


_T = TypeVar("_T")


def _read_ledger(work: Callable[[], _T]) -> _T:
    try:
        return work()
    except LedgerError as error:
        raise click.ClickException(str(error)) from error


# ── Show, ask, apply ────────────────────────────────────────────────────────────────────────────────────────


def _carry_out(plan: Plan, nothing_to_do: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    if as_json and not (dry_run or yes):
        raise click.UsageError("--json asks no questions: add --yes or --dry-run")
    if plan.refusals:
        if as_json:
            click.echo(plan_json(plan, applied=False))
        raise click.ClickException("\n".join(["nothing was changed.", *plan.refusals]))
    if not as_json:
        _print_plan(plan, nothing_to_do)
    if plan.steps and not dry_run:
        _confirm_plan(yes=yes)
        _apply_plan(plan)
        if not as_json and not _is_idle(plan):
            click.echo("Done.")
    if as_json:
        click.echo(plan_json(plan, applied=not dry_run))


def _confirm_plan(*, yes: bool) -> None:
    if yes:
        return
    if not _is_anybody_there():
        raise click.UsageError(
            "stdin is not a terminal: pass --yes to apply the plan, or --dry-run to preview it"
        )
    if not click.confirm("Apply this plan?"):
        click.echo("Nothing was changed.")
        raise click.exceptions.Exit(1)


def _is_anybody_there() -> bool:
    return sys.stdin.isatty()


def _apply_plan(plan: Plan) -> None:
    try:
        apply_plan(plan)
    except ApplyError as error:
        raise click.ClickException(str(error)) from error


def _print_plan(plan: Plan, nothing_to_do: str) -> None:
    for verb, text in plan_lines(plan):
        if not verb:
            click.echo(f"  {text}")
        else:
            click.echo(f"  {_style_verb(verb)} {text}")
    if _is_idle(plan):
        click.echo(nothing_to_do)


def _style_verb(verb: str) -> str:
    """Return a verb in bold, or dim. An attribute that is False resets the others, so only one is named."""
    return click.style(verb.ljust(7), dim=True) if verb == "keep" else click.style(verb.ljust(7), bold=True)


def _is_idle(plan: Plan) -> bool:
    return all(isinstance(step, RemoveEmptyDirectory) for step in plan.steps)
