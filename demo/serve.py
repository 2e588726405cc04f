"""`mcpb demo --serve`: serves the shop's page alone, for the user's own browser and MCP clients."""

from __future__ import annotations

import signal

import trio

from demo import shop
from demo.served_page import served_page

PORT = 8137
"""Port, if it is free: README.md names a tool of the page with it."""
_DESCRIPTION = """\
{title}, a small shop with tools, is open at {url} until Ctrl-C.
Open it in the browser that has the mcpb extension, or let your agent do so.
With Claude Code, in another terminal:

    claude -p 'Open {url} and put green tea into the cart.' --allowedTools 'mcp__browser__*'
"""


def main() -> int:
    """Serve it until Ctrl-C; returns the exit code."""
    with served_page(shop.page(), PORT) as url:
        trio.run(_serve_until_interrupted, url)
    return 0


async def _serve_until_interrupted(url: str) -> None:
    # Handle signals before the address is printed: a reader may send one at once.
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        print(_DESCRIPTION.format(title=shop.TITLE, url=url), flush=True)
        await anext(signals)
