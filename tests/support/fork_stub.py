"""Stub of a process of the fork server, for a program that starts a command: `python -I -S fork_stub.py`.

The arguments are the server's Unix socket and the process's `sys.argv`. The stub hands over its stdin,
stdout, stderr, environment and directory, passes signals on, and ends as the process ends. If the stub is
killed, the server kills the process. Each start pays for its imports: these modules read no files.
"""

import _signal  # type: ignore[import-not-found]  # `signal` imports files
import _socket
import marshal
import os
import sys

PASSED_ON = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
WITHOUT_SERVER = 70
"""Exit status if the server has ended."""


def main() -> None:
    """Start the process and wait for its end."""
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    server.connect(sys.argv[1])
    for number in PASSED_ON:
        _signal.signal(number, lambda number, _: server.send(bytes([number])))
    start = marshal.dumps((sys.argv[2:], dict(os.environb), os.getcwd()))  # noqa: PTH109
    stdio = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    server.sendmsg([start], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, stdio)])
    os.closerange(0, 3)  # else their other ends could not tell that the process has closed its own
    _pid, status = server.recv(4), server.recv(4)
    if not status:
        os._exit(WITHOUT_SERVER)
    end_with(int.from_bytes(status, "little"))


def end_with(status: int) -> None:
    """End as a process with this wait status has ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number in PASSED_ON:
            _signal.signal(number, _signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


main()
