"""Output of `mcpb call`: text on stdout, images and long texts in private files."""

from __future__ import annotations

import base64
import binascii
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from bridge.cli.group import format_json
from native_host.protocol.untrusted_text import for_terminal
from native_host.system.home_layout import HomeLayout, mcpb_home
from native_host.system.private_files import open_regular, prepare_directory

_STORED_S = 24 * 3600
"""Seconds after which a file may be removed, by a later call."""
_HEAD_CHARS = 2000
"""Characters of a long text that are printed besides the path of its file."""
_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


def print_result(result: Any, max_chars: int | None) -> None:
    """Print a CallToolResult; a text above `max_chars` goes to a file, and every image.

    Raises:
        PrivateFileError: the directory of the files is not private.
    """
    text = _format_content(result)
    if max_chars is None or len(text) <= max_chars:
        click.echo(for_terminal(text))
        return
    path = _write_file(text.encode(errors="replace"), ".txt")
    head = text[: min(max_chars, _HEAD_CHARS)]
    click.echo(for_terminal(head if "\n" not in head else head.rpartition("\n")[0]))
    click.echo(f"… The result has {len(text)} characters. All of it is in: {path}")


def _format_content(result: Any) -> str:
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return format_json(result)
    return "\n".join(map(_format_block, content))


def _format_block(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource_link":
        return f"Resource: {block.get('uri')}"
    if kind == "image" and (suffix := _SUFFIXES.get(str(block.get("mimeType")))):
        with suppress(binascii.Error, KeyError, TypeError, ValueError):  # a page's tool may write anything
            data = base64.b64decode(block["data"], validate=True)
            return f"Image ({block['mimeType']}, {len(data)} bytes): {_write_file(data, suffix)}"
    return format_json(block)


def _write_file(content: bytes, suffix: str) -> Path:
    directory = HomeLayout(mcpb_home()).results
    prepare_directory(directory)
    _remove_old_files(directory)
    path = directory / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}{suffix}"
    descriptor = open_regular(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return path


def _remove_old_files(directory: Path) -> None:
    oldest = time.time() - _STORED_S
    for path in directory.iterdir():
        with suppress(OSError):
            if path.lstat().st_mtime < oldest:
                path.unlink()
