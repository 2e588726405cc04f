"""A native host by hand: a real socket in a real endpoint directory, and the test says what it says."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import trio

from fake_transport import browser_hello, host_hello
from native_host.ipc import endpoint
from native_host.protocol import jsonrpc, wire
from native_host.protocol.framing import FrameDecoder, frame
from native_host.protocol.wire import Wire


class PlayedHost:
    """One host and its one client."""

    def __init__(self, place: endpoint.Endpoint) -> None:
        self.instance = place.instance
        self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(place.listener))
        self._decoder = FrameDecoder(wire.SOCKET_BYTES, "little")
        self.stream: trio.SocketStream
        self.calls: list[dict[str, Any]] = []
        """Every `browser/executeTool` that has been taken from the wire."""

    @classmethod
    @asynccontextmanager
    async def in_directory(
        cls, directory: Path, browser_pid: int = 100, channel: str = ""
    ) -> AsyncIterator[Self]:
        """Be found there; no client is accepted yet."""
        place = endpoint.open_endpoint(directory)
        host = cls(place)
        record = endpoint.Record(
            instance=place.instance,
            pid=os.getpid(),
            browser_pid=browser_pid,
            extension_origin="",
            version="0.2.0",
            started_at=time.time(),
            channel=channel,
        )
        place.publish(record)
        try:
            yield host
        finally:
            if hasattr(host, "stream"):
                await trio.aclose_forcefully(host.stream)
            place.close()

    async def accept(self) -> None:
        """Let the bridge connect."""
        self.stream = await self._listener.accept()
        self._decoder = FrameDecoder(wire.SOCKET_BYTES, "little")

    async def welcome(self, *announcements: Wire, profile: str = "p1") -> None:
        """Accept, say hello and the whole replay, and hear the bridge's hello."""
        await self.accept()
        await self.say("host/hello", host_hello(self.instance))
        await self.announce(browser_hello(profile), *announcements, wire.HostReplayed())
        await self.heard("bridge/hello")

    async def announce(self, *messages: Wire) -> None:
        for message in messages:
            await self.say(METHOD_OF[type(message)], message)

    async def say(self, method: str, params: Wire) -> None:
        await self.say_raw(jsonrpc.notification(method, params))

    async def say_raw(self, body: bytes) -> None:
        await self.stream.send_all(frame(body, "little"))

    async def answer(self, request: dict[str, Any], result: Any) -> None:
        await self.say_raw(jsonrpc.result(msgspec.json.encode(request["id"]), msgspec.json.encode(result)))

    async def ask(self, call: dict[str, Any], question_id: str, **params: Any) -> None:
        """A page's question about its call, as the host passes it on. `params`: message, requestedSchema."""
        question = {"id": question_id, "method": "browser/elicitConfirmation", "for": call["id"]}
        await self.say_raw(msgspec.json.encode({"jsonrpc": "2.0", **question, "params": params}))

    async def answer_to(self, question_id: str) -> dict[str, Any]:
        """The answer to a question; all else is passed over."""
        while (message := await self.next_message()).get("id") != question_id:
            pass
        return message

    async def heard(self, method: str) -> dict[str, Any]:
        """The next message of this method."""
        while (message := await self.next_message()).get("method") != method:
            pass
        return message

    async def next_message(self) -> dict[str, Any]:
        while (body := self._decoder.next_frame()) is None:
            data = await self.stream.receive_some(1 << 20)
            if not data:
                raise EOFError("the bridge closed the connection")
            self._decoder.feed(data)
        message: dict[str, Any] = msgspec.json.decode(body)
        if message.get("method") == "browser/executeTool":
            self.calls.append(message)
        return message


METHOD_OF: dict[type[Wire], str] = {
    method.params: name for name, method in wire.METHODS.items() if method.route != "client → extension"
} | {wire.FrameTools: "browser/updateTools"}
