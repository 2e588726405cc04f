"""The program that a manifest points at: a few lines of /bin/sh that become the native host.

Manifests cannot carry arguments, and a browser's environment is not a terminal's, so everything is baked in.
A browser shows the same few words for every failure: when the interpreter is gone, the script itself says
what to run, in the one frame that a native host would use. It needs no program but the shell.
"""

from __future__ import annotations

import shlex

import msgspec

from native_host.protocol import framing, jsonrpc, wire
from native_host.protocol.wire import Code

_MARK = "# Written by `mcpb install-native-host` from "


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """What the script is made from; it is kept in a comment of the script."""

    version: str = ""
    """Of the mcpb that wrote it."""
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
        """What decides about the home of the host that this wrapper starts."""
        found = {"HOME": self.user_home, "MCPB_HOME": self.home}
        return {name: value for name, value in found.items() if value is not None}


def stamp(version: str, interpreter: str) -> str:
    """The script's third line: equal to what it would be now, there is nothing to mend."""
    return " ".join(f"# mcpb {version} {interpreter}".split("\n"))


def script(wrapper: Wrapper) -> str:
    """The text of the script."""
    interpreter = shlex.quote(wrapper.interpreter)
    return f"""\
#!/bin/sh
{_MARK}{msgspec.json.encode(wrapper).decode()}
{stamp(wrapper.version, wrapper.interpreter)}
{_set("MCPB_HOME", wrapper.home)}
{_set("HOME", wrapper.user_home)}
export MCPB_CALLERS={shlex.quote(" ".join(wrapper.callers))}
if [ -x {interpreter} ]; then
    exec {interpreter} -I -m native_host "$@"
fi
# The interpreter is gone. Say so in one native messaging frame, then wait until the browser closes the pipe.
{_print_frame(_interpreter_is_gone(wrapper.interpreter))}
while read -r _; do :; done
"""


def _set(variable: str, value: str | None) -> str:
    return f"unset {variable}" if value is None else f"export {variable}={shlex.quote(value)}"


def is_ours(text: str) -> bool:
    """Whether mcpb wrote a script, of whatever version, and whatever became of it since."""
    return _second_line(text).startswith(_MARK)


def read(text: str) -> Wrapper | None:
    """What a script was made from; None when it is not one of ours, or does not say it any more."""
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
    """A printf of one frame. The length is in octal escapes; what is not ASCII (a path's name) is as well."""
    frame = framing.frame(body, "native")
    return "printf " + shlex.quote("".join(_escaped(byte) for byte in frame))


def _escaped(byte: int) -> str:
    literal = 0x20 <= byte < 0x7F and byte not in b"\\%"
    return chr(byte) if literal else f"\\{byte:03o}"
