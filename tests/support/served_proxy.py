"""`mcpb proxy serve` with TLS and the home issuer, for tests that are plain functions.

It is stopped and started again at the same port, and its clock is set ahead while it runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from click.testing import CliRunner

import clocked_mcpb
from demo.temporary_directory import throw_away_directory
from proxy_node import MCPB, POLL_S, SOON_S, ProxyNode, running_node
from tool_browser import TrioThread
from websocket_ends import Authority
from websocket_proxy.commands import proxy
from websocket_proxy.protocol import Role
from websocket_proxy.signing_keys import create_token
from websocket_proxy.token_store import read_home_key

WAIT_S = 30.0
Line = dict[str, Any]
"""One line of the log."""


class ServedProxy:
    """A running proxy; made by `serving_proxy`."""

    def __init__(self, thread: TrioThread, home: Path, settings: str) -> None:
        self._thread = thread
        self._home = home
        self._running = ExitStack()
        self._clock = home / "clock"
        self._log: list[Line] = []
        self._log_bytes = 0
        self.authority = Authority(home, "localhost")
        self.port = 0
        self.node: ProxyNode
        self._ahead_s = 0.0
        self.advance_clock(0)
        (home / "config.toml").write_text(f"[proxy]\nadmin_port = 0\n{settings}")

    @property
    def url(self) -> str:
        """What users enter."""
        return f"https://localhost:{self.port}"

    def start(self) -> None:
        """Start it, at the port that it had before."""
        files = "--tls-cert", str(self.authority.certificate), "--tls-key", str(self.authority.key)
        program = [sys.executable, clocked_mcpb.__file__, str(self._clock)]
        node = running_node(
            self._home, *files, "--port", str(self.port), tls=self.authority.client, program=program
        )
        self.node = self._running.enter_context(self._thread.holding(node))
        self.port = self.node.port

    def kill(self) -> None:
        """SIGKILL."""
        self._running.close()

    def advance_clock(self, seconds: float) -> None:
        """Let so much time pass for it at once."""
        self._ahead_s += seconds
        draft = self._clock.with_suffix(".new")
        draft.write_text(str(self._ahead_s))
        draft.rename(self._clock)

    # ── The user at its machine ─────────────────────────────────────────────────────────────────────────────

    def command(self, *arguments: str) -> str:
        """What `mcpb proxy …` prints; it runs in this process, which is cheaper."""
        run = CliRunner().invoke(proxy, arguments, env={"MCPB_HOME": str(self._home)})
        assert run.exit_code == 0, run.output
        return run.output

    def approve(self, code: str) -> str:
        """What `mcpb proxy approve`, as a process, prints."""
        run = subprocess.run(
            [*MCPB, "proxy", "approve", code, "--yes"],
            env={**os.environ, "MCPB_HOME": str(self._home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SOON_S,
            check=True,
        )
        return run.stdout

    def sessions(self, role: Role = Role.EXTENSION) -> list[Line]:
        """The sign-ins in this role, as `mcpb proxy sessions` lists them."""
        found = json.loads(self.command("sessions", "--json"))
        return [each for each in found if each["role"] == role]

    def token(self) -> str:
        """An access token for clients of the home user."""
        key = read_home_key(self._home / "state")
        assert key
        return create_token(
            key.signing, user=key.user_id, role=Role.CLIENT, issuer=self.url, audience=self.url, ttl_s=86_400
        )

    # ── Its log ─────────────────────────────────────────────────────────────────────────────────────────────

    def events(self, event: str, role: Role | None = None) -> list[Line]:
        """The lines with an event, of all processes that have run here."""
        lines = self._read_log()
        return [each for each in lines if each["event"] == event and role in {None, each.get("role")}]

    def _read_log(self) -> list[Line]:
        size = self.node.log.stat().st_size
        if size != self._log_bytes:
            self._log_bytes, self._log = size, self.node.read_log()
        return self._log

    @property
    def openings(self) -> list[Line]:
        """The extensions that have connected so far."""
        return self.events("opened", Role.EXTENSION)

    @property
    def is_connected(self) -> bool:
        """Whether an extension is connected."""
        count = 0
        for line in self._read_log():
            if line["event"] == "started":
                count = 0
            elif line.get("role") == Role.EXTENSION:
                count += {"opened": 1, "closed": -1}.get(line["event"], 0)
        return count > 0

    def until_connected(self, after: int = 0) -> Line:
        """Wait until an extension is connected that was not among the first so many; its line."""
        self.until(lambda: len(self.openings) > after and self.is_connected)
        return self.openings[-1]

    def until(self, condition: Callable[[], object], seconds: float = WAIT_S) -> None:
        """Wait until something is so: `becomes`."""
        assert self.becomes(condition, seconds), "not within its time"

    def becomes(self, condition: Callable[[], object], seconds: float) -> bool:
        """Whether something is so within this time. The log is a file, which reports no changes."""
        end = monotonic() + seconds
        while not (is_so := condition()) and monotonic() < end:
            sleep(POLL_S)
        return bool(is_so)


def seconds_between(first: Line, second: Line) -> float:
    """Seconds from one line of a log to another one."""
    return time_of(second) - time_of(first)


def time_of(line: Line) -> float:
    """The time of a line of a log, in seconds since the epoch."""
    return datetime.fromisoformat(line["time"]).timestamp()


@contextmanager
def serving_proxy(thread: TrioThread, settings: str = "") -> Iterator[ServedProxy]:
    """A proxy on a free port, until the block ends; `settings` are lines of `[proxy]` in its config.toml."""
    with throw_away_directory() as home:
        served = ServedProxy(thread, home, settings)
        try:
            served.start()
            yield served
        finally:
            served.kill()
