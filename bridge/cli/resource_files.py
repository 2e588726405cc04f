"""New private files with the contents of a resource, for `mcpb read -o FILE`."""

from __future__ import annotations

import base64
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, for_terminal, single_line
from native_host.system.private_files import open_regular

MAX_FILES = 100
"""Contents of a resource that are written: a page decides how many there are."""


def bytes_of(content: dict[str, Any]) -> bytes:
    """Return a content of MCP as it goes to a file."""
    if "text" in content:
        text: str = content["text"]
        return text.encode(errors="replace")
    return base64.b64decode(content["blob"])


def describe_content(content: dict[str, Any]) -> str:
    """Return the type and the size of a content."""
    kind = single_line(str(content.get("mimeType") or "unknown type"), MAX_TITLE_CHARS)
    return f"{kind}, {len(bytes_of(content))} bytes"


def check_free(path: Path) -> None:
    """Check that a file can be created.

    Raises:
        ClickException: its name is taken, or its directory is missing.
    """
    if os.path.lexists(path):
        raise _failure(path, "exists: choose another name, or remove it")
    if not path.parent.is_dir():
        raise _failure(path, "cannot be written: its directory is missing")


def write_contents(contents: list[dict[str, Any]], path: Path) -> None:
    """Write a content to a file, or each of several to a file with a number, and print the names.

    No existing file is changed, and after a failure none of the new ones stays.

    Raises:
        ClickException: a file cannot be created, or there are too many contents.
    """
    if len(contents) > MAX_FILES:
        count = f"the resource has {len(contents)} contents"
        raise click.ClickException(f"{count}, and at most {MAX_FILES} files are written: pass --json")
    paths = [path]
    if len(contents) > 1:
        paths = [path.with_name(f"{path.stem}-{at}{path.suffix}") for at in range(1, len(contents) + 1)]
    written: list[Path] = []
    try:
        for each, content in zip(paths, contents, strict=True):
            _write_file(each, bytes_of(content), written)
    except BaseException:
        for each in written:
            with suppress(OSError):
                each.unlink()
        raise
    for each, content in zip(paths, contents, strict=True):
        click.echo(for_terminal(f"Wrote {each} ({describe_content(content)})"))


def _write_file(path: Path, data: bytes, written: list[Path]) -> None:
    try:
        descriptor = open_regular(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        written.append(path)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except FileExistsError:
        raise _failure(path, "exists: choose another name, or remove it") from None
    except OSError as error:
        raise _failure(path, f"cannot be written: {error.strerror}") from None


def _failure(path: Path, why: str) -> click.ClickException:
    return click.ClickException(for_terminal(f"{path} {why}", on=sys.stderr))
