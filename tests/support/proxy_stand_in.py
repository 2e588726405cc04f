"""A stand-in for `mcpb proxy serve`: one user, one port, one extension and any number of clients.

It knows its own tokens and checks no others, and has no limits. Tests use its public members only, which the
real proxy can have too.
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.utils import accept_key

MESSAGE_BYTES = 64 * 1024 * 1024
READ_BYTES = 256 * 1024
STATUS_S = 20.0
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
        self._protocol = ServerProtocol(max_size=MESSAGE_BYTES, state=State.OPEN)
        self._turn = threading.Lock()

    def messages(self) -> Iterator[Message]:
        """Yield what is received, until the end."""
        parts: list[bytes] = []
        while True:
            data = self._read()
            with self._turn:
                self._protocol.receive_data(data) if data else self._protocol.receive_eof()
                frames = [event for event in self._protocol.events_received() if isinstance(event, Frame)]
                self._write()
            for frame in frames:
                if frame.opcode in {Opcode.TEXT, Opcode.CONT}:
                    parts.append(bytes(frame.data))
                    if frame.fin:
                        yield json.loads(b"".join(parts))
                        parts = []
            if not data or self._protocol.close_expected():
                return

    def send(self, **message: Any) -> None:
        """Send a message, unless the socket has ended."""
        with self._turn, suppress(OSError):
            if self._protocol.state is State.OPEN:
                self._protocol.send_text(json.dumps({"jsonrpc": "2.0", **message}).encode())
                self._write()

    def notify(self, method: str, **params: Any) -> None:
        self.send(method=method, params=params)

    def close(self, code: int, reason: str = "") -> None:
        """Send a close frame; the other side ends the connection."""
        with self._turn, suppress(OSError):
            if self._protocol.state is State.OPEN:
                self._protocol.send_close(code, reason)
                self._write()

    def kill(self) -> None:
        """End the connection without a close frame."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _read(self) -> bytes:
        connection = self._connection
        try:
            if not (isinstance(connection, ssl.SSLSocket) and connection.pending()):
                select.select([connection], [], [])
            with self._turn:  # OpenSSL may not read and write one connection at once
                return connection.recv(READ_BYTES)
        except (OSError, ValueError):  # it has been closed
            return b""

    def _write(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._connection.sendall(data)


class Client:
    """A client's socket, and the extension that it is connected to."""

    def __init__(self, socket: Socket, handshake: Message) -> None:
        self.socket = socket
        self.wire = handshake.get("wire")
        self.name = (handshake.get("client") or {}).get("name") or handshake.get("client_id") or ""
        self.connection = ""
        self.sessions: list[Message] | None = None

    def entry(self) -> Message:
        """Its member of `host/clients`."""
        alone = [{"id": self.connection, "client": {"name": self.name}}]
        return {
            "connection": self.connection,
            "pid": 0,
            "version": "0",
            "sessions": alone if self.sessions is None else self.sessions,
        }


class Issuer:
    """An authorization server with device authorization (RFC 8628), for one user."""

    def __init__(self) -> None:
        self.codes: dict[str, str] = {}
        """User code → `pending`, `slow_down`, `denied`, `expired` or `approved`."""
        self.names: list[str] = []
        """Of the browsers that have asked for a code."""
        self.lifetime_s = 3600
        self.interval_s = 0.2
        self.loses_responses = 0
        """Responses to refreshes that are lost from now on."""
        self.refreshes = 0
        self.valid: set[str] = set()
        self._devices: dict[str, str] = {}
        self._refresh_tokens: dict[str, Message] = {}
        """Refresh token → its response, once it was used; before that an empty one."""

    def metadata(self, url: str) -> Message:
        return {
            "issuer": url,
            "device_authorization_endpoint": f"{url}/device_authorization",
            "token_endpoint": f"{url}/token",
        }

    def respond(self, path: str, form: dict[str, str], url: str) -> tuple[int, Message]:
        """Return the status and body of the response to a form; status 0: it is lost."""
        if path == "/device_authorization":
            self.names.append(form["client_name"])
            return 200, self._authorize(url)
        if form["grant_type"] == "refresh_token":
            return self._refresh(form["refresh_token"])
        return self._poll(form["device_code"])

    def _authorize(self, url: str) -> Message:
        user_code, device_code = f"WDJB-{secrets.choice('BCDFGH')}{len(self.codes):03}", secrets.token_hex(16)
        self.codes[user_code] = "pending"
        self._devices[device_code] = user_code
        return {
            "device_code": device_code,
            "user_code": user_code,
            "verification_uri": f"{url}/device",
            "expires_in": 600,
            "interval": self.interval_s,
        }

    def _poll(self, device_code: str) -> tuple[int, Message]:
        user_code = self._devices[device_code]
        match self.codes[user_code]:
            case "approved":
                return 200, self._issue()
            case "slow_down":
                self.codes[user_code] = "pending"
                return 400, {"error": "slow_down"}
            case "denied":
                return 400, {"error": "access_denied"}
            case "expired":
                return 400, {"error": "expired_token"}
        return 400, {"error": "authorization_pending"}

    def _issue(self) -> Message:
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        self.valid.add(access)
        self._refresh_tokens[refresh] = {}
        return {
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": self.lifetime_s,
        }

    def _refresh(self, token: str) -> tuple[int, Message]:
        self.refreshes += 1
        if token not in self._refresh_tokens:
            return 400, {"error": "invalid_grant"}
        response = self._refresh_tokens[token] = self._refresh_tokens[token] or self._issue()
        if self.loses_responses:
            self.loses_responses -= 1
            return 0, {}
        return 200, response

    def revoke(self) -> None:
        """End all sign-ins."""
        self._refresh_tokens.clear()
        self.valid.clear()


class ProxyStandIn:
    """A running proxy; made by `serving_proxy`. It can be stopped, and started again at the same address."""

    def __init__(self, tls: ssl.SSLContext | None = None, issuer_url: str = "") -> None:
        self._tls = tls
        self._servers: list[ThreadingHTTPServer] = []
        self._sockets: set[Socket] = set()
        self.issuer = Issuer()
        self.issuer_url = issuer_url
        """Of another authorization server than the proxy itself."""
        self.port = 0
        self.client_port = 0
        """Without TLS, for clients on `websockets`: OpenSSL may not read and write in two threads at once."""
        self.extension: Socket | None = None
        """The one that has authenticated last."""
        self.hello: Message = {}
        self.authentications: list[Message] = []
        """All results of `authenticate`."""
        self.reject = ""
        """Reason for which tokens are rejected from now on."""
        self.unrouted: list[Message] = []
        """Messages of extensions for connections that do not exist."""
        self.knows_name = True
        """Whether it accepts the `Host` header of requests."""
        self.is_full = False
        """Whether it rejects sockets, before the upgrade."""
        self.statuses = 0
        """Number of `status` notifications to extensions."""
        self.wire = 1
        self._clients: list[Client] = []
        self._replay: dict[tuple[Any, ...], Message] = {}
        self._number = 0

    @property
    def url(self) -> str:
        host = "localhost" if self._tls else "127.0.0.1"
        return f"http{'s' if self._tls else ''}://{host}:{self.port}"

    @property
    def socket_url(self) -> str:
        return self.url.replace("http", "ws", 1)

    @property
    def client_url(self) -> str:
        """Where clients connect."""
        return f"ws://127.0.0.1:{self.client_port}"

    def start(self) -> None:
        proxy = self

        class Handler(_Requests):
            owner = proxy

        self._servers = [
            ThreadingHTTPServer(("127.0.0.1", port), Handler) for port in (self.port, self.client_port)
        ]
        first, second = self._servers
        self.port, self.client_port = first.server_address[1], second.server_address[1]
        if self._tls:
            first.socket = self._tls.wrap_socket(
                first.socket, server_side=True, do_handshake_on_connect=False
            )
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def kill(self) -> None:
        """End without a close frame, as a process that is killed."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
        for each in list(self._sockets):
            each.kill()
        self.until(lambda: not self._sockets)

    # ── For the user at the proxy's machine ─────────────────────────────────────────────────────────────────

    def decide(self, code: str, decision: str = "approved") -> None:
        """Approve or deny a code."""
        assert self.issuer.codes[code] == "pending"
        self.issuer.codes[code] = decision

    def until_connected(self) -> Socket:
        """Wait until an extension has sent its hello."""
        self.until(lambda: self.extension is not None and self.hello)
        assert self.extension is not None
        return self.extension

    def until(self, condition: Callable[[], object], seconds: float = WAIT_S) -> None:
        """Wait until something is so, which changes with messages."""
        end = monotonic() + seconds
        while not condition():
            assert monotonic() < end, "not within its time"
            sleep(POLL_S)

    # ── Sockets ─────────────────────────────────────────────────────────────────────────────────────────────

    def serve(self, path: str, connection: socket.socket) -> None:
        """Serve a socket until its end."""
        ours = Socket(connection)
        self._sockets.add(ours)
        try:
            if path == "/extension":
                self._serve_extension(ours)
            else:
                self._serve_client(ours)
        finally:
            self._sockets.discard(ours)

    def ask_token(self) -> None:
        """Ask the connected extension for another token."""
        self._number += 1
        self.until_connected().send(id=f"proxy:{self._number}", method="authenticate", params={})

    def _serve_extension(self, ours: Socket) -> None:
        ours.send(id="proxy:1", method="authenticate", params={})
        self._number = 1
        try:
            for message in ours.messages():
                self._from_extension(ours, message)
        finally:
            if self.extension is ours:
                self.extension, self.hello, self._replay = None, {}, {}
                for client in self._clients:
                    if client.connection:
                        client.socket.notify(
                            "disconnected", connection_id=client.connection, reason="Extension closed"
                        )
                        client.connection = ""

    def _from_extension(self, ours: Socket, message: Message) -> None:
        method, key = message.get("method"), str(message.get("for") or message.get("id") or "")
        if method is None and key.startswith("proxy:"):
            return self._authenticate(ours, message["result"])
        if method == "browser/hello":
            self.hello = message["params"]
            self._tell_clients()
        if key:
            return self._to_client(key, message)
        self._keep(message)
        for client in self._clients:
            if client.connection and client.wire:
                client.socket.send(**message)
        return None

    def _keep(self, message: Message) -> None:
        """Keep an announcement for clients that connect later, in place of an older one."""
        method, params = message["method"], message["params"]
        match method:
            case "browser/registerTools" | "browser/updateTools":
                key = ("frame", params["tabId"], params["frameId"])
                self._replay[key] = {**message, "method": "browser/registerTools"}
            case "browser/unregister":
                self._replay.pop(("frame", params["tabId"], params["frameId"]), None)
            case "browser/tabRemoved":
                gone = [key for key in self._replay if key[:2] == ("frame", params["tabId"])]
                for key in gone:
                    del self._replay[key]
                self._replay["tab", params["tabId"]] = message
            case "browser/tabChanged":
                self._replay["tab", params["tab"]["tabId"]] = message
            case _:
                self._replay[(method,)] = message

    def _authenticate(self, ours: Socket, result: Message) -> None:
        self.authentications.append(result)
        if self.reject or result["accessToken"] not in self.issuer.valid:
            return ours.close(1008, f"Invalid token: {self.reject or 'expired'}")
        if self.extension is ours:
            return None
        self.extension, self._replay = ours, {}
        ours.notify("authenticated", user_id=USER, extension_id="ext-1", wire=self.wire, version="0.2.0")
        threading.Thread(target=self._keep_alive, args=(ours,), daemon=True).start()
        return None

    def _keep_alive(self, ours: Socket) -> None:
        ended = threading.Event()
        while self.extension is ours:
            ours.notify("status", connected=True, peer_count=0, timestamp="2026-11-22T00:00:00Z")
            self.statuses += 1
            ended.wait(STATUS_S)

    def _to_client(self, key: str, message: Message) -> None:
        connection, _, own = key.partition(":")
        client = next((each for each in self._clients if each.connection == connection), None)
        if client is None:
            return self.unrouted.append(message)
        member = "for" if "for" in message else "id"
        return client.socket.send(**{**message, member: json.loads(own)})

    def _tell_clients(self) -> None:
        if self.extension and self.hello:
            connected = [client.entry() for client in self._clients if client.connection]
            self.extension.notify("host/clients", clients=connected)

    def _serve_client(self, ours: Socket) -> None:
        messages = ours.messages()
        first = next(messages)
        client = Client(ours, first["params"])
        ours.send(
            id=first["id"], result={"authenticated": True, "user_id": USER, "mcp_client_id": f"mcp-{uuid4()}"}
        )
        self._clients.append(client)
        try:
            for message in messages:
                self._from_client(client, message)
        finally:
            self._clients.remove(client)
            self._leave(client, "MCP client closed")

    def _leave(self, client: Client, reason: str) -> None:
        connection, client.connection = client.connection, ""
        if connection and self.extension:
            self.extension.notify("disconnected", connection_id=connection, reason=reason)
            self._tell_clients()

    def _from_client(self, client: Client, message: Message) -> None:
        method = message.get("method")
        if method == "list_extensions":
            extensions = [{"id": "ext-1", "name": "Chromium", "connected": True}] if self.extension else []
            return client.socket.send(id=message["id"], result={"extensions": extensions})
        if method == "connect":
            client.connection = f"conn-{uuid4()}"
            connected = {
                "connection_id": client.connection,
                "extension_id": "ext-1",
                "extension_name": "Chromium",
            }
            self._tell_clients()
            client.socket.send(id=message["id"], result=connected)
            if client.wire:
                for each in list(self._replay.values()):
                    client.socket.send(**each)
                client.socket.notify("host/replayed")
            return None
        if method == "disconnect":
            client.socket.send(id=message["id"], result={"disconnected": True})
            return self._leave(client, "MCP client disconnected")
        if method == "bridge/sessions":
            client.sessions = message["params"]["sessions"]
            return self._tell_clients()
        if self.extension is None or not client.connection:
            error = {"code": -32000, "message": "Not connected to an extension"}
            return client.socket.send(id=message["id"], error=error)
        return self.extension.send(**self._mapped(client, message))

    def _mapped(self, client: Client, message: Message) -> Message:
        if message.get("method") == "browser/cancel":
            params = {"id": f"{client.connection}:{json.dumps(message['params']['id'])}"}
            return {**message, "params": params}
        if "method" in message:
            return {**message, "id": f"{client.connection}:{json.dumps(message['id'])}"}
        return message


class _Requests(BaseHTTPRequestHandler):
    owner: ProxyStandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if not self.owner.knows_name:
            return self._respond(421, {})
        if self.owner.is_full:
            return self._respond(503, {})
        if key := self.headers.get("Sec-WebSocket-Key"):
            self.close_connection = True
            lines = ("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade")
            head = "\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept_key(key)}", "", ""])
            self.connection.sendall(head.encode())
            return self.owner.serve(self.path, self.connection)
        url = self.owner.url
        if self.path == METADATA and not self.owner.issuer_url:
            return self._respond(200, self.owner.issuer.metadata(url))
        if self.path == RESOURCE:
            servers = [self.owner.issuer_url or url]
            return self._respond(200, {"resource": url, "authorization_servers": servers})
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
def serving_proxy(tls: ssl.SSLContext | None = None, issuer_url: str = "") -> Iterator[ProxyStandIn]:
    """A proxy on a free port, until the block ends."""
    proxy = ProxyStandIn(tls, issuer_url)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.kill()
