"""`mcpb webmcp`: copies the page module, with which a page registers the tools of an MCP server."""

from __future__ import annotations

import json
from pathlib import Path

import click

_MANIFEST = "package.json"
# Not by an import: an earlier copy in the current directory could be found first.
_SOURCE = Path(__file__).parents[2] / "webmcp"


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def webmcp(*, directory: Path) -> None:
    """Copy the page module: a page registers an MCP server's tools with it.

    An earlier copy in DIR is updated. DIR/README.md describes the module.
    """
    files = _read_files()
    try:
        if not _is_copy(directory, files) and (others := _find_others(directory, files)):
            raise click.ClickException(
                f"{directory} has other files of these names: {', '.join(others)}. Name another directory."
            )
        directory.mkdir(parents=True, exist_ok=True)
        # The manifest marks a copy: one that was interrupted can be finished.
        for name in sorted(files, key=lambda name: name != _MANIFEST):
            (directory / name).write_bytes(files[name])
    except OSError as error:
        raise click.ClickException(f"{directory} cannot be written: {error.strerror or error}") from None
    click.echo(f"The page module is in {directory}: register.js for pages, README.md for you.")


def _read_files() -> dict[str, bytes]:
    """Return the content of each file of the module by its name."""
    return {path.name: path.read_bytes() for path in sorted(_SOURCE.iterdir()) if path.is_file()}


def _is_copy(directory: Path, files: dict[str, bytes]) -> bool:
    """Return whether the directory has a copy of the module, of any version."""
    try:
        manifest = json.loads((directory / _MANIFEST).read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("name") == json.loads(files[_MANIFEST])["name"]


def _find_others(directory: Path, files: dict[str, bytes]) -> list[str]:
    """Return the names in the directory that a copy would replace."""
    return [name for name in files if (directory / name).exists() or (directory / name).is_symlink()]
