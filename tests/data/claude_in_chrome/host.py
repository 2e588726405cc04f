"""The other product's native host, played for machines that have not the real one: what it does, and no more.

Started by its wrapper with the folder for its socket, which is named after the pid. Both sides: four bytes of
length, then JSON. What the extension answers goes to every client, for whom it may be.
"""

import json
import os
import selectors
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

LONGEST = 1 << 20


class OversizeError(Exception):
    """A frame that this host does not take."""


def frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack("<I", len(body)) + body


def frames(buffer: bytearray) -> list[bytes]:
    found = []
    while len(buffer) >= 4:
        length = struct.unpack("<I", buffer[:4])[0]
        if not 0 < length <= LONGEST:
            raise OversizeError
        if len(buffer) < 4 + length:
            break
        found.append(bytes(buffer[4 : 4 + length]))
        del buffer[: 4 + length]
    return found


class Host:
    """One browser on stdin and stdout, any number of clients on the socket."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o700)
        self.path = folder / f"{os.getpid()}.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.path.chmod(0o600)
        self.listener.listen()
        self.from_browser = bytearray()
        self.clients: dict[socket.socket, bytearray] = {}
        self.selector = selectors.DefaultSelector()
        self.is_dead = False

    def serve(self) -> None:
        self.selector.register(0, selectors.EVENT_READ)
        self.selector.register(self.listener, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fd == 0:
                    if not self.hear_browser():
                        self.stop()
                        return
                elif key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj in self.clients:
                    assert isinstance(key.fileobj, socket.socket)
                    self.hear_client(key.fileobj)

    def stop(self) -> None:
        """Nobody is served from now on."""
        if self.is_dead:
            return
        self.is_dead = True
        self.selector.unregister(self.listener)
        self.listener.close()
        self.path.unlink()
        for client in list(self.clients):
            self.selector.unregister(client)
            client.close()
        self.clients.clear()
        if not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()

    def hear_browser(self) -> bool:
        data = os.read(0, 65536)
        if self.is_dead:
            return bool(data)
        self.from_browser += data
        try:
            for body in frames(self.from_browser):
                self.hear_from_browser(body)
        except OversizeError:
            self.stop()  # and lives on, as the real one does
        return bool(data)

    def hear_from_browser(self, body: bytes) -> None:
        try:
            message = json.loads(body)
            kind = message.pop("type")
        except (ValueError, LookupError):
            self.tell_browser({"type": "error", "error": "Invalid message format"})
            return
        match kind:
            case "ping":
                self.tell_browser({"type": "pong", "timestamp": int(time.time() * 1000)})
            case "get_status":
                self.tell_browser({"type": "status_response", "native_host_version": "1.0.0"})
            case "tool_response" | "notification":
                for client in self.clients:
                    client.sendall(frame(message))
            case _:
                self.tell_browser({"type": "error", "error": f"Unknown message type: {kind}"})

    def accept(self) -> None:
        client, _ = self.listener.accept()
        self.clients[client] = bytearray()
        self.selector.register(client, selectors.EVENT_READ)
        self.tell_browser({"type": "mcp_connected"})

    def hear_client(self, client: socket.socket) -> None:
        data = client.recv(65536)
        self.clients[client] += data
        try:
            for body in frames(self.clients[client]):
                said = json.loads(body)
                asked = {"method": said.get("method"), "params": said.get("params")}
                self.tell_browser({"type": "tool_request", **asked})
        except OversizeError:
            data = b""
        if data:
            return
        self.selector.unregister(client)
        del self.clients[client]
        client.close()
        self.tell_browser({"type": "mcp_disconnected"})

    def tell_browser(self, message: dict[str, Any]) -> None:
        os.write(1, frame(message))


if __name__ == "__main__":
    Host(Path(sys.argv[1])).serve()
