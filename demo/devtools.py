"""DevTools commands and events over a pipe: JSON messages, each followed by a zero byte.

A `session` is Chromium's: one attached page or worker; the browser itself has none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import trio

COMMAND_SECONDS = 30.0
READ_BYTES = 1024 * 1024
SESSION_GONE = -32001
"""Code of Chromium's errors for a session that has ended."""

Params = dict[str, Any]


class DevToolsError(Exception):
    """The browser rejected a command, in its own words, or its page was closed before the response.

    Attributes:
        code: of the JSON-RPC error.
    """

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class BrowserGoneError(Exception):
    """The pipe has ended, and the browser with it."""


class Events:
    """Events of one name, in their order."""

    def __init__(self, name: str, heard: trio.MemoryReceiveChannel[Params]) -> None:
        self._name = name
        self._heard = heard

    async def next(self) -> Params:
        """Return the params of the next event.

        Raises:
            BrowserGoneError: the browser has ended.
        """
        try:
            return await self._heard.receive()
        except trio.EndOfChannel:
            raise BrowserGoneError(f"the browser ended before the next {self._name}") from None


class DevTools:
    """One pipe. `read_forever` and `write_forever` must run while it is used."""

    def __init__(self, to_browser: trio.abc.SendStream, from_browser: trio.abc.ReceiveStream) -> None:
        self._to_browser = to_browser
        self._from_browser = from_browser
        self._ids = itertools.count(1)
        self._answers: dict[int, tuple[str, trio.MemorySendChannel[Params]]] = {}
        """Of each command its session, and where its response goes."""
        self._listeners: dict[tuple[str, str], list[trio.MemorySendChannel[Params]]] = {}
        self._queue, self._queued = trio.open_memory_channel[bytes](math.inf)
        self._gone = False

    async def send(
        self, method: str, params: Params | None = None, session: str = "", timeout_s: float = COMMAND_SECONDS
    ) -> Params:
        """Run a command; return its result.

        Raises:
            DevToolsError: the browser rejected it.
            BrowserGoneError: the browser ended before its response.
            trio.TooSlowError: no response within `timeout_s`.
        """
        if self._gone:
            raise BrowserGoneError(f"{method}: the browser has ended")
        number = next(self._ids)
        command: Params = {"id": number, "method": method, "params": params or {}}
        if session:
            command["sessionId"] = session
        waiting, answers = trio.open_memory_channel[Params](1)
        self._answers[number] = session, waiting
        self._queue.send_nowait(msgspec.json.encode(command) + b"\0")
        try:
            with trio.fail_after(timeout_s):
                answer = await answers.receive()
        except trio.EndOfChannel:
            raise BrowserGoneError(f"{method}: the browser ended before it answered") from None
        finally:
            self._answers.pop(number, None)
        if error := answer.get("error"):
            raise DevToolsError(f"{method}: {error['message']}", error["code"])
        result: Params = answer["result"]
        return result

    @contextmanager
    def listen(self, event: str, session: str = "") -> Iterator[Events]:
        """Collect the events of this name from now on."""
        told, heard = trio.open_memory_channel[Params](math.inf)
        listeners = self._listeners.setdefault((event, session), [])
        listeners.append(told)
        try:
            yield Events(event, heard)
        finally:
            listeners.remove(told)
            told.close()

    async def write_forever(self) -> None:
        """Write the queued commands, until the browser closes its end."""
        try:
            async for message in self._queued:
                await self._to_browser.send_all(message)
        except trio.BrokenResourceError:
            return  # the reader sees the end as well, and tells those who wait

    async def read_forever(self) -> None:
        """Hand out answers and events until the browser closes the pipe."""
        buffer = bytearray()
        try:
            while data := await self._from_browser.receive_some(READ_BYTES):
                *whole, rest = data.split(b"\0")
                for piece in whole:
                    self._on_message(bytes(buffer) + piece)
                    buffer.clear()
                buffer += rest
        except trio.BrokenResourceError:
            pass  # killed in mid-sentence: an end like any other
        finally:
            self._end()

    def _on_message(self, body: bytes) -> None:
        message: Params = msgspec.json.decode(body)
        if "id" in message:
            if pending := self._answers.pop(message["id"], None):
                pending[1].send_nowait(message)
            return
        if message["method"] == "Target.detachedFromTarget":
            self._end_session(message["params"]["sessionId"])
        for listener in self._listeners.get((message["method"], message.get("sessionId", "")), ()):
            listener.send_nowait(message["params"])

    def _end_session(self, session: str) -> None:
        """Fail the commands of a closed page: the browser does not respond to them."""
        error = {"code": SESSION_GONE, "message": "the page was closed before it responded"}
        for number in [number for number, (of, _) in self._answers.items() if of == session]:
            self._answers.pop(number)[1].send_nowait({"error": error})

    def _end(self) -> None:
        self._gone = True
        for _, waiting in self._answers.values():
            waiting.close()
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close()
