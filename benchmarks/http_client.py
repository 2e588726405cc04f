"""What an MCP client says over HTTP: by hand until the tools are known, then for the client's end."""

from __future__ import annotations

import http.client
import os
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Protocol

import msgspec

from benchmarks.client import FIRST_ID
from benchmarks.conversation import PATIENCE_S, Conversation, EndError
from benchmarks.mcp_client import Era
from benchmarks.responses import message_of

HOST = "127.0.0.1"
TOKEN = "of-the-benchmarks"  # noqa: S105 (of a server on this machine, for one run)
"""Access token of `mcpb serve`; servers that need none get it as well."""
_BEARER = {"Authorization": f"Bearer {TOKEN}"}
_JSON = "application/json"
_EVENTS = "text/event-stream"
_ID_BYTES = len(str(FIRST_ID))


class HttpClient(Protocol):
    """A client of the server on one port."""

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """As `Conversation`."""
        ...

    def say(self, message: dict[str, Any]) -> None:
        """As `Conversation`."""
        ...

    def open(self) -> Conversation:
        """Open connections for calls; the caller takes over their descriptors."""
        ...

    def close(self) -> None:
        """Where no connections were opened."""
        ...

    def request(self, message: bytes, tool: str) -> bytes:
        """Make a tool call, with a zero byte in place of its id, for the client program."""
        ...


class StreamableClient:
    """Each message is a POST, and what answers it is the response to it."""

    def __init__(self, port: int, era: Era = Era.HANDSHAKE) -> None:
        self._port = port
        self._era = era
        self._session: dict[str, str] = {}
        self._ids = iter(range(1, FIRST_ID))

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """See `HttpClient`."""
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        answer = msgspec.json.decode(self._post(message))
        if "result" not in answer:
            raise EndError(f"{method} was refused: {answer}")
        return answer["result"]

    def say(self, message: dict[str, Any]) -> None:
        """See `HttpClient`."""
        self._post(message)

    def open(self) -> Conversation:
        """See `HttpClient`."""
        descriptor = _connected(self._port).detach()
        return Conversation("http", descriptor, descriptor)

    def close(self) -> None:
        """Nothing is open between requests."""

    def request(self, message: bytes, tool: str) -> bytes:
        """See `HttpClient`."""
        headers = self._headers("tools/call") | ({"Mcp-Name": tool} if self._era is Era.STATELESS else {})
        return _request(self._port, "POST /mcp", headers, message)

    def _post(self, message: dict[str, Any]) -> bytes:
        headers, body = _posted(self._port, "/mcp", self._headers(message["method"]), message)
        if session := headers["Mcp-Session-Id"]:
            self._session = {"Mcp-Session-Id": session}
        return message_of(body)

    def _headers(self, method: str) -> dict[str, str]:
        headers = {"Content-Type": _JSON, "Accept": f"{_JSON}, {_EVENTS}", **self._session}
        if method != "initialize":
            headers["MCP-Protocol-Version"] = self._era.value
        if self._era is Era.STATELESS:
            headers["Mcp-Method"] = method
        return headers


class SseClient(Conversation):
    """Each message is a POST, and what answers it comes on a stream that was opened before (2024-11-05)."""

    def __init__(self, port: int) -> None:
        stream = _connected(port)
        stream.sendall(_request(port, "GET /sse", {"Accept": _EVENTS}))
        head = read_head(stream)
        if b" 200 " not in head:
            raise EndError(f"there is no stream: {head.decode()}")
        super().__init__("events", stream.detach(), -1)
        self._port = port
        self._path = self.next_body(time.monotonic() + PATIENCE_S).decode()

    def say(self, message: bytes | dict[str, Any]) -> None:
        """See `HttpClient`."""
        _posted(self._port, self._path, {"Content-Type": _JSON}, message)

    def open(self) -> Conversation:
        """See `HttpClient`."""
        return Conversation("events", self.from_fd, _connected(self._port).detach(), self.rest())

    def close(self) -> None:
        """See `HttpClient`."""
        os.close(self.from_fd)

    def request(self, message: bytes, tool: str) -> bytes:
        """See `HttpClient`."""
        del tool
        return _request(self._port, f"POST {self._path}", {"Content-Type": _JSON}, message)


def read_head(stream: socket.socket) -> bytes:
    """Of a response, and nothing behind it: messages follow."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and (byte := stream.recv(1)):
        head += byte
    return head


def _connected(port: int) -> socket.socket:
    stream = socket.create_connection((HOST, port), PATIENCE_S)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setblocking(True)
    return stream


def _posted(
    port: int, path: str, headers: Mapping[str, str], message: bytes | dict[str, Any]
) -> tuple[http.client.HTTPMessage, bytes]:
    body = message if isinstance(message, bytes) else msgspec.json.encode(message)
    with closing(http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)) as connection:
        connection.request("POST", path, body, {**_BEARER, **headers})
        response = connection.getresponse()
        answer = response.read()
    if response.status // 100 != 2:
        raise EndError(f"refused: {response.status} {answer.decode(errors='replace')}")
    return response.headers, answer


def _request(port: int, line: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """With the length that the body will have."""
    length = len(body) + (_ID_BYTES - 1 if b"\0" in body else 0)
    said = {"Host": f"{HOST}:{port}", **_BEARER, **headers} | (
        {"Content-Length": str(length)} if body else {}
    )
    head = [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items()), "", ""]
    return "\r\n".join(head).encode() + body
