"""Reload of config.toml while clients run: polls the file and applies what has changed.

A file with an error keeps the rules that were applied before. It never changes what only a start decides:
`bridge.config.loader.LIVE_KEYS`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import trio

from bridge.config.loader import ConfigError, file_identity, read_config, rules_digest
from bridge.config.settings import Config

POLL_S = 0.5
"""Seconds between two looks. A change is applied when two looks in a row have seen it: an editor that empties
the file before it writes must not lift the rules in between."""

_log = logging.getLogger(__name__)


class ConfigReload:
    """The configuration of a running process."""

    def __init__(
        self,
        home: Path,
        config: Config,
        apply: Callable[[Config], None],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`config` is what was read at the start; `apply` is called when live rules are others."""
        self._home = home
        self.digest = rules_digest(config)
        self._apply = apply
        self._environ = environ
        self._read: object = None
        """Identity of the file that was read last; none at first, as it may have changed since the start."""
        self._seen: object = None
        self.problem: str = ""
        """Reason for which the file cannot be used; empty if it can."""

    async def run(self) -> None:
        """Apply changes until cancelled."""
        while True:
            self.poll()
            await trio.sleep(POLL_S)

    def poll(self) -> None:
        """Look at the file once."""
        now = file_identity(self._home)
        if now == self._read:
            return
        if now != self._seen:
            self._seen = now
            return
        problem, config = "", None
        try:
            config = read_config(self._home, self._environ)
        except ConfigError as error:
            problem = error.problem
        if file_identity(self._home) != now:  # it was written meanwhile
            return
        self._read = now
        if problem and problem != self.problem:
            _log.error("The rules stay as they were: %s", problem)
        self.problem = problem
        if config and (digest := rules_digest(config)) != self.digest:
            self.digest = digest
            _log.info("Applied the changes of config.toml.")
            self._apply(config)
