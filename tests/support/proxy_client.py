"""A client of a WebSocket proxy on the `websockets` package, as a program of another author is one.

Its methods are plain functions. Its socket is in a trio run of another thread: with TLS, one thread may not
read while another one writes.
"""

from __future__ import annotations

import itertools
import json
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, Protocol, TypeVar

import trio
from websockets.trio.client import ClientConnection, connect

from proxy_node import OPTIONS, POLL_S
from tool_browser import TrioThread

WAIT_S = 30.0
Message = dict[str, Any]
T = TypeVar("T")


class Run(Protocol):
    """Runs an async function in the trio run of the socket."""

    def __call__(self, function: Callable[..., Awaitable[T]], /, *args: Any) -> T: ...


class ProxyClient:
    """A client of a proxy. It keeps the notifications that it receives."""

    def __init__(self, run: Run, socket: ClientConnection) -> None:
        self._run = run
        self._socket = socket
        self._ids = itertools.count(1)
        self._responses: dict[int, Message] = {}
        self.notifications: list[Message] = []
        self.connection = ""

    def send(self, **message: Any) -> None:
        self._run(self._socket.send, json.dumps({"jsonrpc": "2.0", **message}))

    def begin(self, method: str, /, **params: Any) -> int:
        """Send a request; its id."""
        number = next(self._ids)
        self.send(id=number, method=method, params=params)
        return number

    def response_to(self, number: int) -> Message:
        """Wait for the response to a request."""
        self.until(lambda: number in self._responses)
        return self._responses.pop(number)

    def request(self, method: str, /, **params: Any) -> Any:
        """Send a request; its result, which must not be an error."""
        response = self.response_to(self.begin(method, **params))
        assert "result" in response, response
        return response["result"]

    def rejection(self, method: str, /, **params: Any) -> Message:
        """Send a request; its error."""
        error: Message = self.response_to(self.begin(method, **params))["error"]
        return error

    def until(self, condition: Callable[[], object]) -> None:
        """Read until something is so."""
        end = monotonic() + WAIT_S
        while not condition():
            message = json.loads(self._run(self._receive, end - monotonic()))
            if "method" in message:
                self.notifications.append(message)
            else:
                self._responses[message["id"]] = message

    async def _receive(self, seconds: float) -> str | bytes:
        with trio.fail_after(max(0.0, seconds)):
            return await self._socket.recv()

    def params_of(self, method: str) -> list[Message]:
        """The parameters of all notifications of this name."""
        return [each["params"] for each in self.notifications if each["method"] == method]

    def until_offered(self, tool: str) -> Message:
        """Wait until a frame offers a tool; the address of its document."""

        def frames() -> list[Message]:
            said = [*self.params_of("browser/registerTools"), *self.params_of("browser/updateTools")]
            return [each for each in said if tool in [known["name"] for known in each["tools"]]]

        self.until(frames)
        return {name: frames()[-1][name] for name in ("tabId", "frameId", "documentId")}

    def sign_in(self, token: str, *, wire: bool = False, name: str = "") -> None:
        """Send the first message; `wire`: as our own client."""
        ours = {"wire": 1} if wire else {}
        self.request("mcp_handshake", accessToken=token, client_id=name, **ours)

    def connect(self) -> None:
        """Connect to the only extension, as soon as there is one."""
        end = monotonic() + WAIT_S
        while not (extensions := self.request("list_extensions")["extensions"]):
            assert monotonic() < end, "no extension is listed"
            sleep(POLL_S)
        (extension,) = extensions
        self.connection = self.request("connect", extension_id=extension["id"])["connection_id"]


@contextmanager
def connected_client(
    thread: TrioThread, url: str, token: str, *, tls: ssl.SSLContext | None = None, **handshake: Any
) -> Iterator[ProxyClient]:
    """Connect to a proxy and through it to its only extension; `handshake`: `ProxyClient.sign_in`."""
    options = {**OPTIONS, "ssl": tls} if tls else OPTIONS
    with thread.holding(connect(f"{url}/mcp", **options)) as socket:
        client = ProxyClient(thread.run, socket)
        client.sign_in(token, **handshake)
        client.connect()
        yield client
