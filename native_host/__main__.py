"""Process entry of the native host: guard the pipes, check the caller, run the relay."""
# ruff: noqa: E402  (Windows is refused before anything is imported that is not there)

from __future__ import annotations

import gc
import logging
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from native_host.platform_check import refuse_windows

refuse_windows()
gc.disable()  # imports leave nothing to collect, and looking for it takes a tenth of the start

import trio

from native_host import __version__, host, startup
from native_host.protocol import jsonrpc, wire
from native_host.protocol.framing import frame
from native_host.protocol.wire import Code
from native_host.system.exhaustion import describe_exhaustion, find_exhaustion
from native_host.system.home_layout import relative_home
from native_host.system.private_files import PrivateFileError

gc.freeze()  # what has been imported stays: no collection has to walk through it, neither now nor later
gc.enable()

_BY_HAND = f"""\
mcpb-native-host {__version__}: the native messaging host of mcpb.
A browser starts it when the mcpb extension asks for it; by hand it does nothing.
To register it with your browser:  mcpb install-native-host
To see what is connected:          mcpb status"""


def main() -> None:
    """Serve the browser that started this process.

    Exit codes: 0 the browser closed its end; 1 no endpoint; 2 not started by a browser, or by an extension
    that was not registered with `mcpb install-native-host --extension-id`, or with a relative `MCPB_HOME`.
    """
    caller = _caller(sys.argv[1:])
    if caller is None:
        sys.exit(_by_hand())
    try:
        sys.exit(_serve_caller(caller))
    except (OSError, BaseExceptionGroup) as error:
        if (exhausted := find_exhaustion(error)) is None:
            raise
        sys.exit(f"mcpb-native-host: {describe_exhaustion(exhausted)}")


def _serve_caller(caller: str) -> int:
    startup.ignore_terminal_signals()
    browser_in, browser_out = startup.detach_stdio()
    startup.log_to_stderr("mcpb-native-host")
    if caller not in _accepted_callers():
        return _refuse(browser_out, caller)
    if home := relative_home():
        text = f"MCPB_HOME is {home!r}, a relative path: clients would not find the native host"
        _say_error(browser_out, Code.INTERNAL_ERROR, text, "mcpb install-native-host")
        return 2
    return _serve(browser_in, browser_out, caller)


def _caller(arguments: Sequence[str]) -> str | None:
    """Return the extension that started this process, as its browser names it; None without a browser.

    Chromium gives its origin (on Windows also a window's number), Firefox the manifest's path and the
    add-on's id.
    """
    match arguments:
        case [origin, *_] if origin.startswith("chrome-extension://"):
            return origin
        case [manifest, addon_id, *_] if Path(manifest).name == f"{wire.HOST_NAME}.json":
            return addon_id
    return None


def _by_hand() -> int:
    sys.stderr.write(_BY_HAND + "\n")
    return 2


def _accepted_callers() -> set[str]:
    """Our own extension, and those that the installer baked into the wrapper."""
    registered = os.environ.get("MCPB_CALLERS", "").split()
    return {wire.EXTENSION_ORIGIN, wire.FIREFOX_ID, *registered}


def _refuse(browser_out: int, caller: str) -> int:
    extension = caller.removeprefix("chrome-extension://").rstrip("/")
    _say_error(
        browser_out,
        Code.NOT_ALLOWED,
        f"the extension {extension} is not registered with mcpb",
        f"mcpb install-native-host --extension-id {shlex.quote(extension)}",
    )
    return 2


def _serve(browser_in: int, browser_out: int, caller: str) -> int:
    try:
        trio.run(host.run, browser_in, browser_out, caller)
    except PrivateFileError as error:
        logging.getLogger(__name__).error("%s", error)  # noqa: TRY400  (the text says it all)
        _say_error(browser_out, Code.INTERNAL_ERROR, str(error), "mcpb status")
        return 1
    return 0


def _say_error(browser_out: int, code: Code, text: str, command: str) -> None:
    error = wire.HostError(code=code, message=text, command=command)
    os.write(browser_out, frame(jsonrpc.notification("host/error", error), "native"))


if __name__ == "__main__":
    main()
