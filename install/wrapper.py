"""Wrapper: shell script that host manifests name, which becomes the native host.

Manifests cannot carry arguments, and a browser's environment differs from a terminal's, so the script
contains everything. Browsers show the same message for every failure: if the interpreter is gone, the script
itself sends the remedy, in the one frame that a native host would use. It needs no program except the shell.
"""

from __future__ import annotations

import shlex

import msgspec

from native_host.protocol import framing, jsonrpc, wire
from native_host.protocol.wire import Code

_MARK = "# Written by `mcpb install-native-host` from "


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the script, stored in one of its comments."""

    version: str = ""
    interpreter: str
    """Absolute; run with -I, so that neither PYTHON* variables nor the current directory decide what runs."""
    home: str | None
    """`MCPB_HOME` of the registration; None: it was not set. The browser's own has no effect."""
    user_home: str | None = None
    """`HOME` of the registration; None: the host serves all users, or mcpb before 0.2.0 wrote the wrapper."""
    callers: tuple[str, ...] = ()
    """The extensions that may start the host: origins of Chromium's, add-on ids of Firefox's."""

    @property
    def environ(self) -> dict[str, str]:
        """Variables that decide on the home of the host."""
        found = {"HOME": self.user_home, "MCPB_HOME": self.home}
        return {name: value for name, value in found.items() if value is not None}


def make_stamp(version: str, interpreter: str) -> str:
    """Return the script's third line, which is out of date if it differs."""
    return " ".join(f"# mcpb {version} {interpreter}".split("\n"))


def make_script(wrapper: Wrapper) -> str:
    """Return the text of the script."""
    interpreter = shlex.quote(wrapper.interpreter)
    return f"""\
#!/bin/sh
{_MARK}{msgspec.json.encode(wrapper).decode()}
{make_stamp(wrapper.version, wrapper.interpreter)}
{_set_variable("MCPB_HOME", wrapper.home)}
{_set_variable("HOME", wrapper.user_home)}
export MCPB_CALLERS={shlex.quote(" ".join(wrapper.callers))}
if [ -x {interpreter} ]; then
    exec {interpreter} -I -m native_host "$@"
fi
# The interpreter is gone. Say so in one native messaging frame, then wait until the browser closes the pipe.
{_print_frame(_interpreter_is_gone(wrapper.interpreter))}
while read -r _; do :; done
"""


def _set_variable(variable: str, value: str | None) -> str:
    return f"unset {variable}" if value is None else f"export {variable}={shlex.quote(value)}"


def is_ours(text: str) -> bool:
    """Return whether mcpb wrote a script, in any version and possibly edited since."""
    return _second_line(text).startswith(_MARK)


def read_wrapper(text: str) -> Wrapper | None:
    """Return the data of a script; None without them."""
    if not is_ours(text):
        return None
    try:
        return msgspec.json.decode(_second_line(text).removeprefix(_MARK), type=Wrapper)
    except (msgspec.DecodeError, RecursionError):
        return None


def _second_line(text: str) -> str:
    # Not splitlines(): a path may hold what Unicode calls a line's end.
    return "".join(text.split("\n", 2)[1:2])


def _interpreter_is_gone(interpreter: str) -> bytes:
    error = wire.HostError(
        code=Code.INTERNAL_ERROR,
        message=f"mcpb was registered with {interpreter}, which is gone",
        command="mcpb install-native-host",
    )
    return jsonrpc.notification("host/error", error)


def _print_frame(body: bytes) -> str:
    """Return a printf of one frame. The length and bytes outside of ASCII are octal escapes."""
    frame = framing.frame(body, "native")
    return "printf " + shlex.quote("".join(_escape_byte(byte) for byte in frame))


def _escape_byte(byte: int) -> str:
    literal = 0x20 <= byte < 0x7F and byte not in b"\\%"
    return chr(byte) if literal else f"\\{byte:03o}"
