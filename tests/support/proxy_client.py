"""A client of a WebSocket proxy on the `websockets` package, as a program of another author is one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from websockets.sync.client import ClientConnection, connect

MESSAGE_BYTES = 64 * 1024 * 1024
WAIT_S = 30.0
Message = dict[str, Any]


class ProxyClient:
    """A connected client; made by `connected_client`. It keeps the notifications that it receives."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._responses: dict[int, Message] = {}
        self.notifications: list[Message] = []
        self.connection = ""

    def send(self, **message: Any) -> None:
        self._socket.send(json.dumps({"jsonrpc": "2.0", **message}))

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
            message = json.loads(self._socket.recv(max(0.0, end - monotonic())))
            if "method" in message:
                self.notifications.append(message)
            else:
                self._responses[message["id"]] = message

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

    def connect(self) -> None:
        """Connect to the only extension."""
        (extension,) = self.request("list_extensions")["extensions"]
        self.connection = self.request("connect", extension_id=extension["id"])["connection_id"]


@contextmanager
def connected_client(
    url: str, *, token: str = "", wire: bool = False, name: str = ""
) -> Iterator[ProxyClient]:
    """Connect to a proxy and through it to its only extension; `wire`: as our own client."""
    with connect(
        f"{url}/mcp", max_size=MESSAGE_BYTES, compression=None, proxy=None, ping_interval=None
    ) as socket:
        client = ProxyClient(socket)
        ours = {"wire": 1} if wire else {}
        client.request("mcp_handshake", accessToken=token, client_id=name, **ours)
        client.connect()
        yield client
