"""`mcpb extension`: copies the extension for a browser."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from install.browsers import Kind


_LOAD_IN_CHROMIUM = """\
To load it: open chrome://extensions, switch on “Developer mode”, choose “Load unpacked” and that
folder."""
_LOAD_IN_FIREFOX = """\
To load it: open about:debugging#/runtime/this-firefox, choose “Load Temporary Add-on…” and the file
manifest.json in that folder.
Firefox forgets a temporary add-on when it is closed: load it again after each start. One that stays has to
be signed by Mozilla, except in Firefox ESR, Developer Edition and Nightly: there set
xpinstall.signatures.required to false in about:config, run `mcpb extension --firefox --zip mcpb.xpi`, and
open that file with the browser."""


@click.command()
@click.option("--firefox", "is_firefox", is_flag=True, help="The extension for Firefox and its forks.")
@click.option(
    "--zip",
    "zip_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Instead write it as a zip: for a store, or for Firefox as an .xpi.",
)
@click.pass_context
def extension(ctx: click.Context, *, is_firefox: bool, zip_file: Path | None) -> None:
    """Copy the browser extension to where it can stay, and say how to load it."""
    from install.extension_files import UnpackedError, pack_extension, unpack_extension
    from install.wrapper_repair import registered_interpreter
    from native_host.system.home_layout import mcpb_home

    kind: Kind = "firefox" if is_firefox else "chromium"
    try:
        if zip_file is not None:
            pack_extension(zip_file, kind)
            click.echo(f"The extension is in {zip_file}")
            return
        target = unpack_extension(mcpb_home(), kind)
    except UnpackedError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"The extension is in {target}\n{_LOAD_IN_FIREFOX if is_firefox else _LOAD_IN_CHROMIUM}")
    if not registered_interpreter():
        called = ctx.find_root().info_name  # where another `mcpb` comes first, it is mcpb-bridge
        click.echo(f"Then run: {called} install-native-host")
