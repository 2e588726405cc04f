"""`mcpb extension`: copies the extension for a browser, and keeps its copies up to date."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from install.browsers import Kind
    from install.checks.loaded_extensions import LoadedExtension
    from install.extension_copies import ExtensionCopy

_LOAD_IN_CHROMIUM = """\
To load it, open chrome://extensions, switch on “Developer mode” and click “Load unpacked”.
In the window that opens, press {keys}, paste the path, and click Open:

    {directory}
"""
_LOAD_IN_FIREFOX = """\
To load it, open about:debugging#/runtime/this-firefox, click “Load Temporary Add-on…”, press {keys}, paste
this path, and click Open:

    {directory}/manifest.json

Firefox forgets a temporary add-on when it is closed: load it again after each start. One that stays has to
be signed by Mozilla, except in Firefox ESR, Developer Edition and Nightly: there set
xpinstall.signatures.required to false in about:config, run `{called} extension --firefox --zip mcpb.xpi`,
and open that file with the browser.
"""
_PATH_KEYS = "Cmd+Shift+G" if sys.platform == "darwin" else "Ctrl+L"
"""Keys with which a file chooser takes a path."""


@click.command()
@click.option("--firefox", "is_firefox", is_flag=True, help="The extension for Firefox and its forks.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to copy it (default: ~/mcpb-extension, or below $MCPB_HOME).",
)
@click.option(
    "--zip",
    "zip_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Instead write it as a zip: for a store, or for Firefox as an .xpi.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the copies as JSON.")
def extension(*, is_firefox: bool, directory: Path | None, zip_file: Path | None, as_json: bool) -> None:
    """Copy the browser extension, and print how to load it.

    Run it again after an upgrade: it updates every copy that it has made.
    """
    from install.extension_files import UnpackedError, pack_extension

    if zip_file and (directory or as_json):
        raise click.UsageError(f"--zip cannot be combined with {'--directory' if directory else '--json'}")
    kind: Kind = "firefox" if is_firefox else "chromium"
    try:
        if zip_file is not None:
            pack_extension(zip_file, kind)
            click.echo(f"The extension is in {zip_file}")
            return
        _update_copies(kind, directory, as_json=as_json)
    except UnpackedError as error:
        raise click.ClickException(str(error)) from None


def _update_copies(kind: Kind, named: Path | None, *, as_json: bool) -> None:
    from install.checks.loaded_extensions import find_loaded
    from install.extension_copies import find_copies, update_copy, usual_directory
    from install.extension_files import UnpackedError
    from install.machine import this_machine
    from native_host.system.home_layout import mcpb_home

    home = mcpb_home()
    loaded = [each for each in find_loaded(this_machine(), home) if each.kind == kind]
    known = [copy.directory for copy in find_copies(home) if copy.kind == kind]
    wanted = [Path(os.path.abspath(named))] if named else []  # noqa: PTH100  (keeps links, removes `..`)
    if not wanted and not any(each.directory in known for each in loaded):
        wanted = [each for each in known if each.parent != home] or [usual_directory(home, kind)]
    copies, problems = [], []
    for directory in dict.fromkeys([*wanted, *known]):
        try:
            copies.append(update_copy(home, directory, kind))
        except UnpackedError as error:  # the other copies are updated all the same
            problems.append(str(error))
    if as_json:
        _print_json(copies, loaded)
    elif copies:
        _print_copies(kind, copies, loaded)
    if problems:
        raise click.ClickException("\nError: ".join(problems))


def _print_copies(kind: Kind, copies: Sequence[ExtensionCopy], loaded: Sequence[LoadedExtension]) -> None:
    from install.wrapper_repair import registered_interpreter
    from native_host.system.program_name import command_name

    directories = [copy.directory for copy in copies]
    for path in (path for copy in copies for path in copy.edited_files):
        click.echo(f"A file that you had edited was replaced. Your version: {path}")
    for copy in copies:
        browsers = dict.fromkeys(each.browser for each in loaded if each.directory == copy.directory)
        if browsers:
            click.echo(_describe_loaded(copy, " and ".join(browsers)))
        elif copy is copies[0]:
            click.echo(f"The extension is in {copy.directory}")
        else:
            click.echo(f"An earlier copy is up to date as well: {copy.directory}")
    for each in loaded:
        if each.directory and each.directory not in directories:
            click.echo(
                f"{each.browser} has loaded it from {each.directory}, which this command does not update: "
                f"load {directories[0]} in its place."
            )
    if not any(each.directory in {*directories, None} for each in loaded):
        _print_loading(kind, directories[0], command_name())
    if not registered_interpreter():
        click.echo(f"Then run: {command_name()} install-native-host")


def _describe_loaded(copy: ExtensionCopy, browsers: str) -> str:
    place = f"{browsers} has loaded the extension from {copy.directory}"
    match copy.outcome:
        case "unchanged" | "new":
            return f"{place}. It is up to date: nothing to do."
        case "reloads":
            return f"{place}, and reloads it: nothing to do."
        case "needs reload":
            return (
                f"{place}, which has another version now. Reload it, this once: open chrome://extensions and "
                "click the round arrow of mcpb."
            )


def _print_loading(kind: Kind, directory: Path, called: str) -> None:
    from install.clipboard import copy_text, make_terminal_sequence

    text = _LOAD_IN_FIREFOX if kind == "firefox" else _LOAD_IN_CHROMIUM
    click.echo(text.format(keys=_PATH_KEYS, directory=directory, called=called), nl=False)
    if not sys.stdout.isatty():
        return
    path = str(directory / "manifest.json" if kind == "firefox" else directory)
    if copy_text(path, os.environ):
        click.echo("\nThe path is on the clipboard.")
    else:
        click.echo(make_terminal_sequence(path, os.environ), nl=False)


def _print_json(copies: Sequence[ExtensionCopy], loaded: Sequence[LoadedExtension]) -> None:
    from bridge.cli.group import format_json
    from install.wrapper_repair import registered_interpreter

    shown = {
        "copies": [
            {
                "directory": str(copy.directory),
                "kind": copy.kind,
                "outcome": copy.outcome,
                "editedFiles": list(map(str, copy.edited_files)),
            }
            for copy in copies
        ],
        "loaded": [
            {"browser": each.browser, "directory": str(each.directory) if each.directory else None}
            for each in loaded
        ],
        "registered": bool(registered_interpreter()),
    }
    click.echo(format_json(shown))
