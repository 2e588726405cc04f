"""Log handlers: stderr, and for a bridge also a file, since MCP clients rarely show its stderr."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from native_host.system.exhaustion import LogFormatter
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import PrivateFileError, open_regular, prepare_directory

MAX_BYTES = 1024 * 1024
"""Limit of the log file; the previous file is kept as well. All bridges of a user write the same one."""

_BOOKKEEPING = ("bridge.state.tool_cache", "bridge.state.profiles_file")
"""Loggers for the file alone: without their files everything works, and a full disk is reported once."""

_log = logging.getLogger(__name__)


def configure_logging(state: Path | None = None, hidden: Sequence[str] = ()) -> None:
    """Warnings; more with `MCPB_LOG=debug`, with `MCPB_LOG=wire` each message's name. Never what it says.

    `state` is the directory for the file, if there shall be one. `hidden` are loggers whose records stderr
    does not show, because the command itself reports the fault.
    """
    on_stderr = logging.StreamHandler(sys.stderr)
    if not os.environ.get("MCPB_LOG"):
        on_stderr.addFilter(lambda record: record.name not in (*_BOOKKEEPING, *hidden))
    on_stderr.setFormatter(LogFormatter("mcpb %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[on_stderr])
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
        handler = _PrivateFile(StateLayout(state).log)
    except (PrivateFileError, OSError) as error:
        _log.warning("there will be no log file: %s", error)
        return
    handler.setFormatter(LogFormatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)


class _PrivateFile(logging.FileHandler):
    """A regular file for this user alone, never reached through a link. A full one is renamed.

    `logging.handlers` has the same, and imports pickle, for which each bridge would start 3 ms later.
    """

    _has_failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, to a new file if this one is full."""
        for step in (self._rename_full, partial(super().emit, record)):
            try:
                step()
            except OSError:
                self.handleError(record)

    def _rename_full(self) -> None:
        if not self.stream or (opened := os.fstat(self.stream.fileno())).st_size < MAX_BYTES:
            return
        self.stream.close()
        self.stream = None  # `emit` opens it again
        path = Path(self.baseFilename)
        with suppress(FileNotFoundError):
            if os.path.samestat(opened, path.stat()):  # else another bridge has renamed it
                path.replace(f"{path}.1")

    def _open(self) -> io.TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=open_regular)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the name is logging's)
        """Report on stderr, once, that the file cannot be written."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._has_failed:
            self._has_failed = True
            with suppress(OSError):
                sys.stderr.write(f"mcpb WARNING {self.baseFilename} cannot be written: {error.strerror}\n")
