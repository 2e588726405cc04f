"""A native host beside a WebSocket proxy, and a client of it, for tests that are plain functions."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

from proxied_browser import ProxiedBrowser
from socket_observer import Onlooker, hosts
from wire_peers import until

SESSION = {"id": "session_1", "title": "", "client": {"name": "agent", "version": "1"}}


def add_host(machine: ProxiedBrowser) -> None:
    """Register a native host, and wait for it. The popup has to be open: then the browser looks at once."""
    machine.chain.register(machine.chain.home / "profile")
    machine.thread.run(until, lambda: bool(hosts(machine.chain)))


def lose_host(machine: ProxiedBrowser) -> None:
    """Kill the host, which cannot be started again."""
    for manifest in (machine.chain.home / "profile" / "NativeMessagingHosts").glob("*.json"):
        manifest.unlink()
    for host in hosts(machine.chain):
        os.kill(host.pid, signal.SIGKILL)


class Native:
    """A client of the native host."""

    def __init__(self, machine: ProxiedBrowser, onlooker: Onlooker) -> None:
        self._run = machine.thread.run
        self._onlooker = onlooker

    def request(self, method: str, **params: Any) -> Any:
        """The result of a request, or its error."""
        return self._run(partial(self._onlooker.request, method, **params))

    def begin(self, number: int, method: str, **params: Any) -> None:
        """Send a request with this id."""
        self._run(partial(self._onlooker.say, id=number, method=method, params=params))

    def response_to(self, number: int) -> Any:
        return self._run(self._onlooker.answer_to, number)

    def name_session(self) -> None:
        """Have the session, and wait until the extension knows."""
        self._run(partial(self._onlooker.notify, "bridge/sessions", sessions=[SESSION]))
        self.request("getTabs")
