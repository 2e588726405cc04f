"""Copier between the first two connections to a port, with and without TLS: the floor of a WebSocket relay.

It prints its port. Arguments: the certificate and the key of a server with TLS.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import sys

READ_BYTES = 256 * 1024
"""As much as a node reads at once of a long message."""


def main(*files: str) -> None:
    """Copy both ways until either side ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    ends = [_accept(listener, files) for _ in range(2)]
    other = dict(zip(ends, reversed(ends), strict=True))
    selector = selectors.DefaultSelector()
    for end in ends:
        selector.register(end, selectors.EVENT_READ, end)
    while True:
        for key, _ in selector.select():
            end = key.data
            while True:
                data = end.recv(READ_BYTES)
                if not data:
                    return
                other[end].sendall(data)
                if not (isinstance(end, ssl.SSLSocket) and end.pending()):
                    break


def _accept(listener: socket.socket, files: tuple[str, ...]) -> socket.socket:
    end, _ = listener.accept()
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not files:
        return end
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    return context.wrap_socket(end, server_side=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
