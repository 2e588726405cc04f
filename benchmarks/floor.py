"""The floor of calls in a browser: `floor_extension`, with C copiers in the place of bridge and native host.

It has the processes and hops of mcpb and passes messages on without a check: client → copier → Unix socket →
copier that the browser starts → service worker → content script → page. Requests are MCP's, in frames.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from benchmarks import routes
from benchmarks.conversation import PATIENCE_S, Conversation, EndError
from benchmarks.driver import driven
from benchmarks.loads import ALL, ARGUMENTS_1MB
from benchmarks.processes import Corner, started
from benchmarks.subject import Bench, Caller, Role, Subject
from demo.chromium import find_chromium, open_chromium

EXTENSION = Path(__file__).with_name("floor_extension")
NAME = "the floor"
LOADS = [load for load in ALL if load is not ARGUMENTS_1MB]
"""A browser takes 1 MiB from a native host at once, and the floor has no chunks."""
_HOST_NAME = "dev.mcpb.floor"
_WRAPPER = """#!{python} -IS
import os, socket
side = socket.socket(socket.AF_UNIX)
side.connect({path!r})
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
    side.setsockopt(socket.SOL_SOCKET, option, {socket_bytes})
side.set_inheritable(True)
os.execv({copier!r}, ["copier", "0", "1", str(side.fileno()), str(side.fileno())])
"""
"""Connects and becomes the copier: no Python runs during a call."""


@asynccontextmanager
async def open_floor(bench: Bench, url: str, queries: Sequence[str]) -> AsyncIterator[list[Subject]]:
    """Open a browser with the extension and a page for each query of the address; yield their subjects.

    Without a C compiler there is no browser, and the subjects say what is missing.
    """
    if not bench.programs.are_in_c:
        yield [Subject(NAME, _missing, Role.EXTENSION_FLOOR, LOADS, routes.NO_COMPILER) for _ in queries]
        return
    corner = Corner.below(bench.directory)
    profile = corner.directory / "profile"
    with _listening(corner) as listener, corner.log.open("wb") as log:
        browser = open_chromium(
            profile, [routes.WEBMCP], executable=find_chromium(), env=corner.env, stderr=log.fileno()
        )
        async with browser as chromium:
            extension_id = await chromium.load_extension(EXTENSION)
            _register_host(corner, profile, extension_id, bench.programs.copier)
            subjects: list[Subject] = []
            for query in queries:
                await chromium.open_page(url + query)
                through = partial(_through_browser, corner=corner, host=_accept(listener))
                subjects.append(Subject(NAME, through, Role.EXTENSION_FLOOR, LOADS))
            yield subjects


def _missing(_bench: Bench) -> AbstractContextManager[Caller]:
    raise EndError(routes.NO_COMPILER)


@contextmanager
def _listening(corner: Corner) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(_socket_path(corner)))
        listener.listen()
        listener.settimeout(PATIENCE_S)
        yield listener


def _socket_path(corner: Corner) -> Path:
    return corner.directory / "s"


def _register_host(corner: Corner, profile: Path, extension_id: str, copier: list[str]) -> None:
    [program] = copier
    wrapper = corner.directory / "host"
    path = str(_socket_path(corner))
    text = _WRAPPER.format(python=sys.executable, path=path, copier=program, socket_bytes=routes.SOCKET_BYTES)
    wrapper.write_text(text)
    wrapper.chmod(0o700)
    manifest = {
        "name": _HOST_NAME,
        "description": "Copier of the bench",
        "path": str(wrapper),
        "type": "stdio",
        "allowed_origins": [f"chrome-extension://{extension_id}/"],
    }
    directory = profile / "NativeMessagingHosts"
    directory.mkdir(exist_ok=True)
    (directory / f"{_HOST_NAME}.json").write_text(json.dumps(manifest))


def _accept(listener: socket.socket) -> socket.socket:
    """Return the connection of the host that the page last opened has started."""
    host, _ = listener.accept()
    host.setblocking(True)
    routes.give_room(host)
    return host


@contextmanager
def _through_browser(bench: Bench, corner: Corner, host: socket.socket) -> Iterator[Caller]:
    ours, theirs = routes.duplex("pipes")
    bridge = host.dup().detach()  # the copier ends with its client, the browser's connection stays
    ends = (*theirs, bridge, bridge)
    command = [*bench.programs.copier, *map(str, ends)]
    with (
        started(corner, command, subprocess.DEVNULL, subprocess.DEVNULL, *ends),
        driven(bench, corner, Conversation("frames", *ours), routes.mcp_request) as caller,
    ):
        yield caller
