"""Output of `mcpb call` and `mcpb prompt`: text on stdout, images and long texts in private files."""

from __future__ import annotations

import base64
import binascii
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from bridge.cli.group import format_json
from native_host.protocol.untrusted_text import for_terminal
from native_host.system.home_layout import HomeLayout, mcpb_home
from native_host.system.private_files import PrivateFileError, open_regular, prepare_directory

_STORED_S = 24 * 3600
"""Seconds after which a file may be removed, by a later call."""
_HEAD_CHARS = 2000
"""Characters of a long text that are printed besides the path of its file."""
_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


class ContentOutput:
    """Lines of mcpb, which name files, and texts of others, which stand below so that they forge none."""

    def __init__(self) -> None:
        self.own: list[str] = []
        """Lines of mcpb, one for each stored image."""

    def format_block(self, block: Any) -> str | None:
        """Return the text of a content block; None: it is an image, and its file is among `own`."""
        match block:
            case {"type": "text"}:
                return str(block.get("text", ""))
            case {"type": "resource_link"}:
                return f"Resource: {block.get('uri')}"
            case {"type": "resource", "resource": {"uri": uri, "text": str(text)}}:
                return f"Resource: {uri}\n{text}"
            case {"type": "image"} if self._add_image(block.get("mimeType"), block.get("data")):
                return None
            case {"type": "resource", "resource": {"mimeType": kind, "blob": blob}} if self._add_image(
                kind, blob
            ):
                return None
        return format_json(block)

    def _add_image(self, kind: Any, encoded: Any) -> bool:
        """Store an image; return whether it is one, because a page's tool may write anything."""
        if not isinstance(kind, str) or kind not in _SUFFIXES:
            return False
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            return False
        about = f"Image ({kind}, {len(data)} bytes)"
        try:
            self.own.append(f"{about}: {_write_file(data, _SUFFIXES[kind])}")
        except (PrivateFileError, OSError) as error:
            self.own.append(f"{about}, not stored: {error}")
        return True


def print_result(result: Any, max_chars: int | None) -> None:
    """Print a CallToolResult; a text above `max_chars` goes to a file, and every image.

    Where no file can be written, a text is printed whole, and the reason goes to stderr.
    """
    output = ContentOutput()
    content = result.get("content") if isinstance(result, dict) else None
    blocks = content if isinstance(content, list) else [result]
    text = "\n".join(line for block in blocks if (line := output.format_block(block)) is not None)
    if max_chars is not None and len(text) > max_chars:
        try:
            path = _write_file(text.encode(errors="replace"), ".txt")
        except (PrivateFileError, OSError) as error:
            click.echo(for_terminal(f"The result is not stored in a file: {error}", on=sys.stderr), err=True)
        else:
            output.own.append(f"The result has {len(text)} characters. All of it is in: {path}")
            head = text[: min(max_chars, _HEAD_CHARS)]
            text = (head if "\n" not in head else head.rpartition("\n")[0]) + "\n…"
    click.echo(for_terminal("\n".join([*output.own, text] if text else output.own)))


def _write_file(content: bytes, suffix: str) -> Path:
    directory = HomeLayout(mcpb_home()).results
    prepare_directory(directory)
    _remove_old_files(directory)
    path = directory / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}{suffix}"
    descriptor = open_regular(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError:  # the disk is full
        path.unlink()
        raise
    return path


def _remove_old_files(directory: Path) -> None:
    oldest = time.time() - _STORED_S
    for path in directory.iterdir():
        with suppress(OSError):
            if path.lstat().st_mtime < oldest:
                path.unlink()
