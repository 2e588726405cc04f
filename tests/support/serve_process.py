"""`mcpb serve` as a process."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import trio

SOON_S = 60
"""For a start or an end, on a busy machine."""
MCPB = [sys.executable, "-m", "bridge"]


class Server:
    """A server that runs."""

    def __init__(self, process: trio.Process, port: int, said: str) -> None:
        self.process = process
        self.port = port
        self.said = said
        """Before clients could connect."""

    def client(self, token: str) -> httpx2.AsyncClient:
        """An HTTP client with this token."""
        headers = {"Authorization": f"Bearer {token}"}
        url = f"http://127.0.0.1:{self.port}"
        return httpx2.AsyncClient(base_url=url, headers=headers, timeout=SOON_S)

    async def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(by)
        with trio.fail_after(SOON_S):
            return await self.process.wait()


@asynccontextmanager
async def serving(*arguments: str, port: int = 0) -> AsyncIterator[Server]:
    """`mcpb serve`, from where clients can connect."""
    command = [*MCPB, "serve", "--port", str(port), *arguments]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    assert process.stdout
    try:
        said = ""
        with trio.fail_after(SOON_S):
            while "--web\n" not in said:
                said += (await process.stdout.receive_some()).decode()
        found = re.search(r"https?://localhost:(\d+)/mcp", said)
        assert found
        yield Server(process, int(found[1]), said)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()
