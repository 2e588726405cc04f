"""Log handlers: stderr, and for a bridge also a file, since MCP clients rarely show its stderr."""

from __future__ import annotations

import io
import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from native_host.system.home_layout import StateLayout
from native_host.system.private_files import PrivateFileError, open_regular, prepare_directory

MAX_BYTES = 1024 * 1024
"""Limit of the log file; the previous file is kept as well. All bridges of a user write the same one."""

_log = logging.getLogger(__name__)


def configure_logging(state: Path | None = None) -> None:
    """Warnings; more with `MCPB_LOG=debug`, with `MCPB_LOG=wire` each message's name. Never what it says.

    `state` is the directory for the file, if there shall be one.
    """
    logging.basicConfig(stream=sys.stderr, format="mcpb %(levelname)s %(name)s: %(message)s")
    if state is not None:
        _add_file(state)
    wanted = os.environ.get("MCPB_LOG", "")
    if wanted not in ("", "debug", "wire"):
        _log.warning("MCPB_LOG is debug or wire; %s says nothing", wanted)
    if wanted in ("debug", "wire"):
        for package in ("bridge", "http_serving"):
            logging.getLogger(package).setLevel(logging.DEBUG)
    logging.getLogger("bridge.wire").setLevel(logging.DEBUG if wanted == "wire" else logging.WARNING)


def _add_file(state: Path) -> None:
    try:
        prepare_directory(state)
        handler = _PrivateFile(StateLayout(state).log, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8")
    except (PrivateFileError, OSError) as error:
        _log.warning("there will be no log file: %s", error)
        return
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)


class _PrivateFile(RotatingFileHandler):
    """A regular file for this user alone, never reached through a link."""

    def _open(self) -> io.TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=open_regular)
