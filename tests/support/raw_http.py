"""HTTP by hand, for what no HTTP client would say: bytes out, answers in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import trio

SOON_S = 30


class Answer(NamedTuple):
    """A response with a length."""

    status: int
    headers: dict[str, str]
    """Their names in lower case."""
    body: bytes

    @property
    def why(self) -> str:
        """What a refusal says."""
        message: str = json.loads(self.body)["error"]["message"]
        return message


class RawClient:
    """A connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._rest = b""

    async def say(self, data: bytes) -> None:
        """As it is. Who is cut off meanwhile may still have an answer to read."""
        with trio.fail_after(SOON_S):
            await self.stream.send_all(data)

    async def answer(self) -> Answer:
        """The next response, which has a length."""
        status, headers = await self.head()
        while len(self._rest) < (length := int(headers["content-length"])):
            self._rest += await self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return Answer(status, headers, body)

    async def head(self) -> tuple[int, dict[str, str]]:
        """The status and headers of the next response."""
        while b"\r\n\r\n" not in self._rest:
            self._rest += await self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return int(first.split(" ")[1]), headers

    async def until_end(self) -> bytes:
        """All that comes before the server closes in order."""
        with trio.fail_after(SOON_S):
            async for data in self.stream:
                self._rest += data
        return self._rest

    async def is_closed(self) -> bool:
        """Wait until the server has, in order or not; what comes before is passed over."""
        with suppress(trio.BrokenResourceError):
            await self.until_end()
        return True

    async def _more(self) -> bytes:
        with trio.fail_after(SOON_S):
            data = await self.stream.receive_some()
        assert data, f"the server closed after {self._rest!r}"
        return bytes(data)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[RawClient]:
    """A connection to a port of this machine."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    try:
        yield RawClient(stream)
    finally:
        await trio.aclose_forcefully(stream)


async def asked(port: int, data: bytes) -> Answer:
    """The answer to what is said on a connection of its own."""
    async with connected(port) as client:
        await client.say(data)
        return await client.answer()


def head(first: str = "GET /health", *, port: int, **headers: str) -> bytes:
    """The head of a request, with a right Host unless another is given; `_` stands for `-` in names."""
    found = {"Host": f"localhost:{port}"} | {name.replace("_", "-"): text for name, text in headers.items()}
    lines = [f"{first} HTTP/1.1", *(f"{name}: {text}" for name, text in found.items())]
    return "\r\n".join([*lines, "", ""]).encode()
