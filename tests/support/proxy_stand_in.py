"""A stand-in for a WebSocket proxy that does what `mcpb proxy serve` never does, for one extension.

It loses responses to refreshes, rejects tokens for any reason, speaks another wire version, names another
authorization server, and sends requests of no connection. It has no clients, no TLS and no limits.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep
from typing import Any
from urllib.parse import parse_qs

from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.utils import accept_key

READ_BYTES = 256 * 1024
WAIT_S = 30.0
POLL_S = 0.02
USER = "83898119-db4f-4848-9d27-ea328b73a4df"
METADATA = "/.well-known/oauth-authorization-server"
RESOURCE = "/.well-known/oauth-protected-resource"
Message = dict[str, Any]


class Socket:
    """One WebSocket of the server, after its upgrade; one thread reads, any may write."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._protocol = ServerProtocol(state=State.OPEN)
        self._turn = threading.Lock()

    def messages(self) -> Iterator[Message]:
        """Yield what is received, until the end."""
        parts: list[bytes] = []
        while not self._protocol.close_expected() and (data := self._read()):
            with self._turn:
                self._protocol.receive_data(data)
                frames = [event for event in self._protocol.events_received() if isinstance(event, Frame)]
                self._write()
            for frame in frames:
                if frame.opcode in {Opcode.TEXT, Opcode.CONT}:
                    parts.append(bytes(frame.data))
                    if frame.fin:
                        yield json.loads(b"".join(parts))
                        parts = []

    def send(self, **message: Any) -> None:
        """Send a message, unless the socket has ended."""
        with self._turn, suppress(OSError):
            if self._protocol.state is State.OPEN:
                self._protocol.send_text(json.dumps({"jsonrpc": "2.0", **message}).encode())
                self._write()

    def close(self, code: int, reason: str = "") -> None:
        """Send a close frame; the other side ends the connection."""
        with self._turn, suppress(OSError):
            if self._protocol.state is State.OPEN:
                self._protocol.send_close(code, reason)
                self._write()

    def _read(self) -> bytes:
        with suppress(OSError):
            return self._connection.recv(READ_BYTES)
        return b""

    def _write(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._connection.sendall(data)


class Issuer:
    """An authorization server with device authorization (RFC 8628), for one user."""

    def __init__(self) -> None:
        self.approved: set[str] = set()
        """User codes."""
        self.lost_responses = 0
        """Responses to refreshes that are lost from now on."""
        self.before_rejection: Callable[[], None] | None = None
        """Called during the next refresh, which is then rejected."""
        self.refreshes = 0
        self.valid: set[str] = set()
        self._devices: dict[str, str] = {}
        """Device code → user code."""
        self._refresh_tokens: dict[str, Message] = {}
        """Refresh token → its response, once it was used; before that an empty one."""

    def respond(self, path: str, form: dict[str, str], url: str) -> tuple[int, Message]:
        """Return the status and body of the response to a form; status 0: it is lost."""
        if path == "/device_authorization":
            return 200, self._authorize(url)
        if form["grant_type"] == "refresh_token":
            return self._refresh(form["refresh_token"])
        if self._devices[form["device_code"]] in self.approved:
            return 200, self._issue()
        return 400, {"error": "authorization_pending"}

    def _authorize(self, url: str) -> Message:
        device_code = secrets.token_hex(16)
        user_code = self._devices[device_code] = f"WDJB-{len(self._devices):04}"
        page = f"{url}/device"
        code = {"device_code": device_code, "user_code": user_code, "verification_uri": page}
        return {**code, "expires_in": 600, "interval": 0.2}

    def _issue(self) -> Message:
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        self.valid.add(access)
        self._refresh_tokens[refresh] = {}
        return {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600}

    def _refresh(self, token: str) -> tuple[int, Message]:
        self.refreshes += 1
        if self.before_rejection:
            self.before_rejection()
            self.before_rejection = None
            return 400, {"error": "invalid_grant"}
        response = self._refresh_tokens[token] = self._refresh_tokens[token] or self._issue()
        if self.lost_responses:
            self.lost_responses -= 1
            return 0, {}
        return 200, response


class ProxyStandIn:
    """A running stand-in; made by `standing_in`."""

    def __init__(self) -> None:
        stand_in = self

        class Handler(_Requests):
            owner = stand_in

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.issuer = Issuer()
        self.issuer_url = self.url
        """Where browsers sign in."""
        self.extension: Socket | None = None
        """The one that has authenticated last."""
        self.is_greeted = False
        """It has sent its hello."""
        self.reject = ""
        """Reason for which tokens are rejected from now on."""
        self.wire = 1
        self.responses: list[Message] = []
        """Its responses to requests, and messages about them."""

    def until_connected(self) -> Socket:
        """Wait until an extension has sent its hello."""
        self.until(lambda: self.extension is not None and self.is_greeted)
        assert self.extension is not None
        return self.extension

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so, which changes with messages."""
        end = monotonic() + WAIT_S
        while not condition():
            assert monotonic() < end, "not within its time"
            sleep(POLL_S)

    def serve(self, connection: socket.socket) -> None:
        """Serve the socket of an extension until its end."""
        ours = Socket(connection)
        ours.send(id="proxy:1", method="authenticate", params={})
        try:
            for message in ours.messages():
                self._handle(ours, message)
        finally:
            if self.extension is ours:
                self.extension, self.is_greeted = None, False

    def _handle(self, ours: Socket, message: Message) -> None:
        if message.get("id") == "proxy:1":
            return self._authenticate(ours, message["result"]["accessToken"])
        if message.get("method") == "browser/hello":
            self.is_greeted = True
        elif "id" in message or "for" in message:
            self.responses.append(message)
        return None

    def _authenticate(self, ours: Socket, token: str) -> None:
        if self.reject or token not in self.issuer.valid:
            return ours.close(1008, f"Invalid token: {self.reject or 'expired'}")
        self.extension = ours
        params = {"user_id": USER, "extension_id": "ext-1", "wire": self.wire, "version": "0.2.0"}
        return ours.send(method="authenticated", params=params)


class _Requests(BaseHTTPRequestHandler):
    owner: ProxyStandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        owner = self.owner
        if key := self.headers.get("Sec-WebSocket-Key"):
            self.close_connection = True
            lines = ("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade")
            head = "\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept_key(key)}", "", ""])
            self.connection.sendall(head.encode())
            return owner.serve(self.connection)
        if self.path == RESOURCE:
            return self._respond(200, {"resource": owner.url, "authorization_servers": [owner.issuer_url]})
        if self.path == METADATA and owner.issuer_url == owner.url:
            device_url, token_url = f"{owner.url}/device_authorization", f"{owner.url}/token"
            endpoints = {"device_authorization_endpoint": device_url, "token_endpoint": token_url}
            return self._respond(200, {"issuer": owner.url, **endpoints})
        return self._respond(404, {})

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(text).items()}
        status, body = self.owner.issuer.respond(self.path, form, self.owner.url)
        if status == 0:
            self.close_connection = True
            return None
        return self._respond(status, body)

    def _respond(self, status: int, body: Message) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@contextmanager
def standing_in() -> Iterator[ProxyStandIn]:
    """A stand-in on a free port, until the block ends."""
    stand_in = ProxyStandIn()
    threading.Thread(target=stand_in.server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield stand_in
    finally:
        if stand_in.extension:
            stand_in.extension.close(1001)
        stand_in.server.shutdown()
        stand_in.server.server_close()
