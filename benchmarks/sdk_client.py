"""Client of the mcp package over Streamable HTTP. client.c describes its orders and its output.

    python -m benchmarks.sdk_client URL

A request is the params of `tools/call`. Calls are made one after the other, whatever depth is ordered. The
figures of a call end when the package returns its result; the length of the answer is given as 0.
"""

from __future__ import annotations

import struct
import sys
import time

import msgspec
import trio
from mcp import Client

_ORDER = struct.Struct("=III")
_CALL = struct.Struct("=qqq")


class _Params(msgspec.Struct):
    name: str
    arguments: dict[str, str | int]


async def main(url: str) -> None:
    """Obey orders until stdin ends."""
    async with Client(url) as client:
        await client.list_tools()  # else the first call of a tool does
        while order := await trio.to_thread.run_sync(_read_order):
            count, request = order
            params = msgspec.json.decode(request, type=_Params)
            sys.stdout.buffer.write(b"".join([await _call(client, params) for _ in range(count)]))
            sys.stdout.buffer.flush()


def _read_order() -> tuple[int, bytes] | None:
    orders = sys.stdin.buffer
    order = orders.read(_ORDER.size)
    if len(order) < _ORDER.size:
        return None
    count, _depth, length = _ORDER.unpack(order)
    return count, orders.read(length)


async def _call(client: Client, params: _Params) -> bytes:
    written = time.monotonic_ns()
    result = await client.call_tool(params.name, params.arguments)
    answered = time.monotonic_ns()
    if result.is_error:
        raise SystemExit(f"refused: {result}")
    return _CALL.pack(written, answered, 0)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
