"""Fork servers of this run of tests, and the processes that they start."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fork_server import Start

SOON_S = 60
"""For a start or an end, on a busy machine."""
_SUPPORT = Path(__file__).parent
_PROGRAM = _SUPPORT.parents[1] / "bridge/__main__.py"


class ForkedProcess:
    """A process that a fork server has started; it is killed when this object is closed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = self._receive()

    def end(self, by: signal.Signals) -> None:
        """Send it a signal that ends it, and wait for its end."""
        with suppress(ProcessLookupError):  # it may have died
            os.kill(self.pid, by)
        self._receive()
        self._connection.close()

    def _receive(self) -> int:
        return int.from_bytes(self._connection.recv(4), "little")


class ForkServer:
    """Starts processes of one program without repeated imports; fork_server.py has the details."""

    def __init__(self, program: str, *modules: str) -> None:
        """Start the server of a program, `MODULE:FUNCTION`; it imports the modules as well."""
        self._directory = tempfile.mkdtemp(prefix="mcpb-")
        self.socket = f"{self._directory}/forks"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.socket)
            listener.listen(64)
            number = listener.fileno()
            command = [sys.executable, str(_SUPPORT / "fork_server.py"), str(number), program, *modules]
            # The environment decides on the encoding, so it is as small as that of the processes.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"]},
                pass_fds=[number],
            )

    def command(self, program: Path) -> list[str]:
        """Return a command whose arguments are those of the program; it can be started by anyone."""
        return [sys.executable, "-I", "-S", str(_SUPPORT / "fork_stub.py"), self.socket, str(program)]

    def start(self, argv: Sequence[str], environment: Mapping[str, str], stdout: int) -> ForkedProcess:
        """Start a process without input."""
        encoded = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(SOON_S)
        connection.connect(self.socket)
        nothing = os.open(os.devnull, os.O_RDWR)
        start = Start(list(argv), encoded, os.getcwd())  # noqa: PTH109 - as it is on the wire
        socket.send_fds(connection, [start.encode()], [nothing, stdout, nothing])
        os.close(nothing)
        return ForkedProcess(connection)

    def stop(self) -> None:
        """End the server and its processes."""
        self._process.communicate(timeout=SOON_S)
        shutil.rmtree(self._directory, ignore_errors=True)


@functools.cache
def fork_server(program: str, *modules: str) -> ForkServer:
    """Return the server of a program, which ends with this process."""
    server = ForkServer(program, *modules)
    atexit.register(server.stop)
    return server


def forked_mcpb() -> list[str]:
    """Return a command that runs `mcpb bridge` as `python -m bridge` does."""
    return fork_server("bridge.cli.group:main", "bridge.cli.bridge", "bridge.app").command(_PROGRAM)
