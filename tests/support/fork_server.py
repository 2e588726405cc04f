"""Fork server: starts processes of one program by forking, since imports are most of the cost of a start.

    python fork_server.py LISTENER MODULE:FUNCTION [MODULE…]

It imports the modules and runs nothing of them. LISTENER is the descriptor of a Unix socket. Each connection
to it starts one process: the message is a `Start`, with the descriptors of stdin, stdout and stderr. The
server answers with the process id, and with the wait status when the process has ended; each byte that it
receives is a signal for the process. It kills a process whose connection ends, and all when its own stdin
ends. Only Linux has what it needs.

A fork differs from a started process in what no test of a browser depends on: its parent, what `/proc` has of
its command line and environment, limits, and one seed for the hashes of strings in all forks of a server.
`ForkServer` in forked_processes.py starts it; fork_stub.py stands for its processes.
"""

from __future__ import annotations

import gc
import marshal
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

MAX_START_BYTES = 1024 * 1024


class Start(NamedTuple):
    """A process to start. On the wire it is in the format of `marshal`, which the stub need not import."""

    argv: list[str]
    environment: dict[bytes, bytes]
    directory: str

    def encode(self) -> bytes:
        """Return the message for the server."""
        return marshal.dumps(tuple(self))


@dataclass
class _Child:
    pid: int
    exited: int
    """Its pidfd, which is readable when the process has ended."""
    starter: socket.socket


class _ForkServer:
    """Loop of the server. It has no threads and no signal handlers, which its forks would have as well."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._children: dict[int, _Child] = {}
        """By pidfd, and by the descriptor of the connection."""
        self._poll = select.poll()
        for each in (0, listener.fileno()):
            self._poll.register(each, select.POLLIN)

    def run(self) -> Start | None:
        """Serve until stdin ends; in each fork return at once, with what it shall be."""
        while True:
            descriptor = self._poll.poll()[0][0]  # one at a time: serving it may close the others
            if descriptor == 0:
                self._kill_all()
                return None
            if descriptor != self._listener.fileno():
                self._serve(
                    self._children[descriptor], is_exit=descriptor == self._children[descriptor].exited
                )
            elif start := self._accept():
                return start

    def _accept(self) -> Start | None:
        """Fork; return a value in the fork only."""
        starter, _ = self._listener.accept()
        message, descriptors, _, _ = socket.recv_fds(starter, MAX_START_BYTES, 3)
        if not message:  # the starter was killed
            starter.close()
            return None
        start = Start(*marshal.loads(message))
        pid = os.fork()
        if pid == 0:
            starter.close()
            self._close()
            _become(start, descriptors)
            return start
        for each in descriptors:
            os.close(each)
        child = _Child(pid, os.pidfd_open(pid), starter)
        for descriptor in (child.exited, starter.fileno()):
            self._children[descriptor] = child
            self._poll.register(descriptor, select.POLLIN)
        _send(starter, pid)
        return None

    def _serve(self, child: _Child, *, is_exit: bool) -> None:
        if is_exit:
            _send(child.starter, os.waitpid(child.pid, 0)[1])
            for descriptor in (child.exited, child.starter.fileno()):
                del self._children[descriptor]
                with suppress(KeyError):  # the connection had ended before
                    self._poll.unregister(descriptor)
            os.close(child.exited)
            child.starter.close()
            return
        numbers = _receive(child.starter)
        for number in numbers:
            os.kill(child.pid, number)
        if not numbers:
            os.kill(child.pid, signal.SIGKILL)
            self._poll.unregister(child.starter)

    def _kill_all(self) -> None:
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)  # a zombie at least, as only `_serve` waits for it

    def _close(self) -> None:
        """Close in a fork what is the server's."""
        self._listener.close()
        for descriptor, child in self._children.items():
            if descriptor == child.exited:
                os.close(descriptor)
                child.starter.close()


def _receive(starter: socket.socket) -> bytes:
    """Return the numbers of signals; none when the connection has ended."""
    try:
        return starter.recv(16)
    except ConnectionResetError:  # what was sent to the starter is unread
        return b""


def _send(starter: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # the starter was killed
        starter.sendall(number.to_bytes(4, "little"))


def _become(start: Start, descriptors: list[int]) -> None:
    """Set in a fork what a started process has of its own."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.setsid()
    os.chdir(start.directory)
    os.environ.clear()
    os.environb.update(start.environment)
    sys.argv = start.argv
    sys.path[0] = start.directory


def main() -> None:
    """Serve; in a fork, run the program, whose process then ends as any other."""
    listener, program, *modules = sys.argv[1:]
    module, _, function = program.partition(":")
    run = getattr(import_module(module), function)
    for each in modules:
        import_module(each)
    gc.freeze()  # a collection in a fork need not copy what was imported
    if _ForkServer(socket.socket(fileno=int(listener))).run():
        run()


if __name__ == "__main__":
    main()
