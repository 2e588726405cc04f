"""The program that a manifest points at: a few lines of /bin/sh that become the native host.

Manifests cannot carry arguments, and a browser's environment is not a terminal's, so everything is baked in.
A browser shows the same few words for every failure: when the interpreter is gone, the script itself says
what to run, in the one frame that a native host would use. It needs no program but the shell.
"""

from __future__ import annotations

import shlex

import msgspec

from native_host import envelope, framing, wire
from native_host.wire import Code

NAME = "mcpb-native-host"
MODE = 0o700
_MARK = "# Written by `mcpb install-native-host` from "


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """What the script is made from; it is kept in a comment of the script."""

    interpreter: str
    """Absolute; run with -I, so that neither PYTHON* variables nor the current directory decide what runs."""
    home: str | None
    """MCPB_HOME, or None where it is not set; the browser's own environment has no say."""
    origins: tuple[str, ...]
    """The extensions that may start the host."""
    manifests: tuple[str, ...]
    """The manifests that point here."""


def script(wrapper: Wrapper) -> str:
    """The text of the script."""
    home = f"export MCPB_HOME={shlex.quote(wrapper.home)}" if wrapper.home is not None else "unset MCPB_HOME"
    interpreter = shlex.quote(wrapper.interpreter)
    return f"""\
#!/bin/sh
{_MARK}{msgspec.json.encode(wrapper).decode()}
{home}
export MCPB_ORIGINS={shlex.quote(" ".join(wrapper.origins))}
if [ -x {interpreter} ]; then
    exec {interpreter} -I -m native_host "$@"
fi
# The interpreter is gone. Say so in one native messaging frame, then wait until the browser closes the pipe.
{_print_frame(_interpreter_is_gone(wrapper.interpreter))}
while read -r _; do :; done
"""


def read(text: str) -> Wrapper | None:
    """What a script was made from; None when it is not one of ours."""
    for line in text.split("\n")[1:2]:  # not splitlines(): a path may hold what Unicode calls a line's end
        if line.startswith(_MARK):
            return _decoded(line.removeprefix(_MARK))
    return None


def _decoded(text: str) -> Wrapper | None:
    try:
        return msgspec.json.decode(text, type=Wrapper)
    except msgspec.DecodeError:
        return None


def _interpreter_is_gone(interpreter: str) -> bytes:
    error = wire.HostError(
        code=Code.INTERNAL_ERROR,
        message=f"mcpb was registered with {interpreter}, which is gone",
        command="mcpb install-native-host",
    )
    return envelope.notification("host/error", error)


def _print_frame(body: bytes) -> str:
    """A printf of one frame. The length is in octal escapes; what is not ASCII (a path's name) is as well."""
    frame = framing.frame(body, "native")
    return "printf " + shlex.quote("".join(_escaped(byte) for byte in frame))


def _escaped(byte: int) -> str:
    literal = 0x20 <= byte < 0x7F and byte not in b"\\%"
    return chr(byte) if literal else f"\\{byte:03o}"
