"""Owner of a port that a server cannot bind, as text for a message (Linux).

Elsewhere the owner is unknown, and the message does not name it.
"""

from __future__ import annotations

import pwd
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from native_host.protocol.untrusted_text import escape
from native_host.system import proc

_MCPB_COMMANDS = {"mcpb", "mcpb-bridge", "bridge"}
"""Names of the command of mcpb where it is started."""


def describe_port_owner(port: int, address: str) -> str:
    """Return the owner of a port, such as `python3 (pid 4711)`; empty when it is unknown.

    A process of another user shows no name; it becomes `a process of user www-data`.
    """
    for listener in proc.find_tcp_listeners(port, ip_address(address)):
        for process in proc.find_socket_processes(listener.inode):
            return f"{_describe(process)} (pid {proc.pid_of(process)})"
        return f"a process of user {_user_name(listener.uid)}"
    return ""


def _describe(process: Path) -> str:
    with suppress(OSError):
        words = proc.read_command_line(process)
        if "serve" in words and any(
            Path(word).name in _MCPB_COMMANDS for word in words[: words.index("serve")]
        ):
            return "another mcpb serve"
        return escape(proc.read_program_name(process))
    return "a process"


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
