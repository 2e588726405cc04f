"""Native host: assembles the endpoint, the browser adapter and the relay server."""

from __future__ import annotations

import os
import socket
import sys
import time

from native_host import __version__
from native_host.ipc import endpoint
from native_host.protocol import wire
from native_host.relay.browser_adapter import BrowserAdapter, DialectDetector, PassThroughAdapter, has_type
from native_host.relay.relay_server import RelayServer, record_of
from native_host.system import malloc


async def run(browser_in: int, browser_out: int, extension_origin: str) -> None:
    """Serve one browser until it closes its end.

    Raises:
        EndpointError: no private directory exists for the socket.
    """
    malloc.disable_malloc_trim()
    place = endpoint.open_first(endpoint.host_directories())
    record = record_of(place, extension_origin, os.getppid())
    adapter = browser_side(extension_origin, place.instance)
    try:
        await RelayServer(place, record, adapter, browser_in, browser_out).serve()
    finally:
        place.close()


def browser_side(extension_origin: str, instance: str) -> BrowserAdapter:
    """Our own extension speaks our wire; of others that may start us, their first message tells."""
    if extension_origin in (wire.EXTENSION_ORIGIN, wire.FIREFOX_ID):
        return PassThroughAdapter()
    return DialectDetector(has_type, channel_of(instance))


def channel_of(instance: str) -> BrowserAdapter:
    """Return the adapter for an extension that uses mcpb as its native host."""
    # Not on top: ours starts without it.
    from native_host.existing_channel.channel_adapter import ChannelAdapter, describe_extension  # noqa: PLC0415

    hello = describe_extension(f"channel-{instance}", __version__, sys.platform)
    return ChannelAdapter(
        "extension", hello, computer=socket.gethostname(), now_ms=lambda: int(time.time() * 1000)
    )
