"""The other product's native host, as its users have it: a socket named after the pid, answers to everybody.

Started by its wrapper with the folder for the socket. Both sides: four bytes of length, then JSON.
"""

import json
import os
import selectors
import socket
import struct
import sys
from pathlib import Path
from typing import Any


def frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack("<I", len(body)) + body


def frames(buffer: bytearray) -> list[dict[str, Any]]:
    found = []
    while len(buffer) >= 4 and len(buffer) >= (end := 4 + struct.unpack("<I", buffer[:4])[0]):
        found.append(json.loads(buffer[4:end]))
        del buffer[:end]
    return found


class Host:
    """One browser on stdin and stdout, any number of clients on the socket."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / f"{os.getpid()}.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.path.chmod(0o600)
        self.listener.listen()
        self.from_browser = bytearray()
        self.clients: dict[socket.socket, bytearray] = {}
        self.selector = selectors.DefaultSelector()

    def serve(self) -> None:
        self.selector.register(0, selectors.EVENT_READ)
        self.selector.register(self.listener, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fd == 0:
                    if not self.hear_browser():
                        self.path.unlink()
                        return
                elif key.fileobj is self.listener:
                    self.accept()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self.hear_client(key.fileobj)

    def hear_browser(self) -> bool:
        data = os.read(0, 65536)
        self.from_browser += data
        for message in frames(self.from_browser):
            match message["type"]:
                case "ping":
                    self.tell_browser({"type": "pong", "timestamp": 0})
                case "get_status":
                    self.tell_browser({"type": "status_response", "native_host_version": "1.0.0"})
                case "tool_response":
                    del message["type"]
                    for client in self.clients:
                        client.sendall(frame(message))
        return bool(data)

    def accept(self) -> None:
        client, _ = self.listener.accept()
        self.clients[client] = bytearray()
        self.selector.register(client, selectors.EVENT_READ)
        self.tell_browser({"type": "mcp_connected"})

    def hear_client(self, client: socket.socket) -> None:
        data = client.recv(65536)
        if not data:
            self.selector.unregister(client)
            del self.clients[client]
            self.tell_browser({"type": "mcp_disconnected"})
            return
        self.clients[client] += data
        for message in frames(self.clients[client]):
            self.tell_browser({"type": "tool_request", **message})

    def tell_browser(self, message: dict[str, Any]) -> None:
        os.write(1, frame(message))


if __name__ == "__main__":
    Host(Path(sys.argv[1])).serve()
