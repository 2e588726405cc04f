"""`mcpb demo --serve`: serves the shop's page alone, for the user's own browser and MCP clients."""

from __future__ import annotations

import signal

import trio

from demo import shop
from demo.served_page import served_page


def main() -> int:
    """Serve it until Ctrl-C; returns the exit code."""
    with served_page(shop.page()) as url:
        trio.run(_serve_until_interrupted, url)
    return 0


async def _serve_until_interrupted(url: str) -> None:
    # Handle signals before the address is printed: a reader may send one at once.
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        print(f"{shop.TITLE}, a small shop with tools, is open at {url} until Ctrl-C.", flush=True)
        print("Open it in the browser that has the mcpb extension. Its tools: mcpb tools", flush=True)
        await anext(signals)
