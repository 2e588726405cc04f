"""Holder: process that shares one connection to the existing channel among all bridges.

A bridge that uses that channel starts it (`python -I -m native_host.existing_channel.holder SOCKET`); it ends
when no bridge is connected any more, or with the socket. Where responses have no id it waits for that of a
cancelled call: its successor would take it for another response. It only reads that product's files.
"""

from __future__ import annotations

import gc
import logging
import sys
from contextlib import closing
from pathlib import Path

import trio

from native_host import __version__
from native_host.existing_channel.channel_adapter import ChannelAdapter, describe_extension
from native_host.existing_channel.channel_messages import BRAND
from native_host.existing_channel.channel_sockets import SocketUsers, check_socket, describe_ended_host
from native_host.ipc import endpoint
from native_host.relay import relay_server
from native_host.system import malloc, proc
from native_host.system.private_files import PrivateFileError, lock_directory

LINGERS_S = 5.0
"""Seconds without a bridge. Not shorter: the extension sees every connection that opens and closes."""
_ENDING_S = 0.5
"""Seconds that a process may take to end after it has closed its sockets."""
_POLL_INTERVAL_S = 0.01
_OTHER_CLIENTS_SCAN_INTERVAL_S = 0.25
"""Seconds between scans for other clients, while responses may lack the name of their call."""

_log = logging.getLogger(__name__)


def main() -> None:
    """Hold the socket that the command line names.

    Exit codes: 0 done, or another process holds it; 1 it cannot be held; 2 usage.
    """
    logging.basicConfig(stream=sys.stderr, format="mcpb-holder: %(levelname)s %(message)s")
    match sys.argv[1:]:
        case [path]:
            sys.exit(_hold(Path(path)))
        case _:
            sys.stderr.write("mcpb starts this by itself: mcpb bridge --existing-channel\n")
            sys.exit(2)


def _hold(path: Path) -> int:
    gc.freeze()
    malloc.disable_malloc_trim()
    try:
        trio.run(hold, path)
    except (PrivateFileError, OSError) as error:
        _log.error("%s", error)
        return 1
    return 0


async def hold(path: Path) -> None:
    """Hold the socket until no bridge uses it, or it is gone.

    Raises:
        PrivateFileError: it must not be used, or there is no private directory for the holder's socket.
        OSError: no process listens there.
    """
    found = check_socket(path)
    if found.fault:
        raise endpoint.EndpointError(None, f"{path}: {found.fault}")
    with closing(endpoint.open_first(endpoint.host_directories())) as place:
        record = relay_server.record_of(place, "", proc.find_parent(found.pid or 0), channel=str(path))
        record.browser = BRAND
        # Several bridges may have found the same socket, and each have started a holder.
        with lock_directory(place.directory):
            if any(other.channel == str(path) for other in endpoint.live_hosts(place.directory)):
                return
            stream = await endpoint.connect_to(path)
            place.publish(record)
        async with stream:
            await _serve(place, record, stream, found.pid)


async def _serve(
    place: endpoint.Endpoint, record: endpoint.Record, stream: trio.SocketStream, pid: int | None
) -> None:
    path = Path(record.channel)
    users = SocketUsers(path, trio.current_time)
    hello = describe_extension(f"channel-{pid or place.instance}", __version__, sys.platform)
    adapter = ChannelAdapter("socket", hello, other_clients=users.look)
    descriptor = stream.socket.fileno()
    held = relay_server.RelayServer(
        place,
        record,
        adapter,
        descriptor,
        descriptor,
        lingers_s=LINGERS_S,
        why_ended=lambda: why_ended(path, pid),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, users, adapter)
        await held.serve()
        nursery.cancel_scope.cancel()


async def _watch(users: SocketUsers, adapter: ChannelAdapter) -> None:
    """Scan for other clients: one that leaves between two calls may leave a response behind."""
    while not adapter.names_calls:
        users.look()
        await trio.sleep(_OTHER_CLIENTS_SCAN_INTERVAL_S)


async def why_ended(path: Path, pid: int | None) -> str:
    """Return what happened to the host at the other end."""
    if pid is not None:
        with trio.move_on_after(_ENDING_S):
            await _until_ended(pid)
    return describe_ended_host(path, pid)


async def _until_ended(pid: int) -> None:
    """Wait until the process has ended: it closes its sockets first."""
    while True:
        if not proc.is_running(pid):
            return
        await trio.sleep(_POLL_INTERVAL_S)


if __name__ == "__main__":
    main()
