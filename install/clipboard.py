"""Clipboard of the user's desktop: copies a text with the program that the desktop has."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

_SECONDS = 3
_WITHOUT_OSC_52 = {"", "dumb", "linux"}
"""Values of TERM; the Linux console would print the sequence."""


def copy_text(text: str, environ: Mapping[str, str]) -> bool:
    """Put a text on the clipboard; return whether a program has done it."""
    return any(_run(command, text) for command in _commands(environ) if shutil.which(command[0]))


def make_terminal_sequence(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that asks a terminal to copy a text (OSC 52); no terminal says whether it did."""
    if environ.get("TERM", "") in _WITHOUT_OSC_52:
        return ""
    return f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"


def _commands(environ: Mapping[str, str]) -> Iterator[list[str]]:
    if sys.platform == "darwin":
        yield ["pbcopy"]
    if environ.get("WAYLAND_DISPLAY"):
        yield ["wl-copy"]
    if environ.get("DISPLAY"):
        yield ["xclip", "-selection", "clipboard"]
        yield ["xsel", "--input", "--clipboard"]
    if environ.get("WSL_DISTRO_NAME"):
        yield ["clip.exe"]


def _run(command: list[str], text: str) -> bool:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command,
            input=text.encode(),
            stdout=subprocess.DEVNULL,  # xclip keeps it open for as long as it holds the text
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
        return done.returncode == 0
    return False
