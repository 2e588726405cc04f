"""Loopback redirect of a sign-in: a web server for the one request that brings the authorization code.

It takes only a request with the state that the sign-in has drawn, from a process of this user: web pages can
send others, and other users can read the state on the command line that opens the browser.
Rules: RFC 8252, section 7.3.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import parse_qs

import trio

from native_host.system.sock_diag import TcpAddress, find_socket_owner

PATH = "/callback"
_REQUEST_S = 10.0
_MAX_HEAD_BYTES = 32 * 1024
_MAX_PARAMETERS = 32
_REQUEST_LINE = re.compile(rb"GET ([!-~]+) HTTP/1\.[01]\r\n")
_HOST = re.compile(rb"\r\nhost:[ \t]*([!-~]+)[ \t]*(?=\r\n)", re.IGNORECASE)
_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<title>mcpb</title>
<p>{text}
"""


class RedirectServer:
    """The server, and what it has received."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}{PATH}"
        """Address that the authorization server redirects the browser to."""
        self._host = f"127.0.0.1:{port}".encode()
        self._state = ""
        self._parameters: Mapping[str, str] = {}
        self._received = trio.Event()

    async def wait_parameters(self, state: str) -> Mapping[str, str]:
        """Wait for the redirect with this state; return the parameters of its query."""
        self._state = state
        await self._received.wait()
        return self._parameters

    async def handle(self, stream: trio.SocketStream) -> None:
        """Answer one request, then close the connection."""
        async with stream:
            with trio.move_on_after(_REQUEST_S):
                try:
                    await self._answer(stream)
                except trio.BrokenResourceError:
                    return

    async def _answer(self, stream: trio.SocketStream) -> None:
        status, parameters = self._judge(await _read_head(stream))
        if parameters and _is_of_another_user(stream.socket):
            status, parameters = HTTPStatus.FORBIDDEN, {}
        is_first = bool(parameters) and not self._parameters
        if is_first:
            self._parameters = parameters
        text = (
            "You can close this window: the terminal has the result."
            if parameters
            else "mcpb does not expect this request."
        )
        try:
            await stream.send_all(_format_response(status, _PAGE.format(text=text)))
        finally:
            if is_first:
                self._received.set()

    def _judge(self, head: bytes) -> tuple[HTTPStatus, Mapping[str, str]]:
        line = _REQUEST_LINE.match(head)
        if line is None or _HOST.findall(head) != [self._host]:
            return HTTPStatus.BAD_REQUEST, {}
        path, _, query = line[1].decode("ascii").partition("?")
        if path != PATH:
            return HTTPStatus.NOT_FOUND, {}
        try:
            found = parse_qs(query, max_num_fields=_MAX_PARAMETERS)
        except ValueError:
            return HTTPStatus.BAD_REQUEST, {}
        states = found.get("state", [])
        is_expected = bool(self._state) and secrets.compare_digest(
            "\n".join(states).encode(), self._state.encode()
        )
        if not is_expected or any(len(values) > 1 for values in found.values()):
            return HTTPStatus.BAD_REQUEST, {}
        return HTTPStatus.OK, {name: values[0] for name, values in found.items()}


@asynccontextmanager
async def open_redirect_server() -> AsyncIterator[RedirectServer]:
    """Serve on a free port of 127.0.0.1 for the time of the context. Raises OSError."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = RedirectServer(listeners[0].socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.handle, listeners)
        yield server
        nursery.cancel_scope.cancel()


async def _read_head(stream: trio.SocketStream) -> bytes:
    """Return the request line and the headers; empty if they are too long or incomplete."""
    head = bytearray()
    while b"\r\n\r\n" not in head:
        chunk = await stream.receive_some(4096)
        head += chunk
        if not chunk or len(head) > _MAX_HEAD_BYTES:
            return b""
    return bytes(head)


def _is_of_another_user(ours: trio.socket.SocketType) -> bool:
    """Return whether another user, except root, has the other end; only Linux reports that.

    Browsers wait for the response: what has closed its end conceals whose it was.
    """
    if sys.platform != "linux":
        return False
    try:
        here, there = (
            TcpAddress(ip_address(end[0]), end[1]) for end in (ours.getsockname(), ours.getpeername())
        )
        with suppress(OSError):
            owner = find_socket_owner(there, here)
            return owner is None or owner.uid not in {os.getuid(), 0}
        # The system does not know the other end: it is outside of this virtual machine, or closed.
        ours.getpeername()
    except OSError:
        return True
    return False


def _format_response(status: HTTPStatus, page: str) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(page)}\r\n"
        "Content-Security-Policy: default-src 'none'\r\n"
        "Referrer-Policy: no-referrer\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return (head + page).encode("ascii")
