"""TlsWriter on a real socket: what waits is plain text, and what is sent is read by OpenSSL's other end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from certificates import make_certificate
from http_serving.tls import TlsChannel, certificate_problem, load_client_context
from http_serving.tls_writer import TlsWriter

SOON_S = 30


class Ends:
    """A server's writer, and the client's end of its connection, after their handshake."""

    def __init__(
        self, near: socket.socket, far: socket.socket, server: TlsChannel, client: TlsChannel
    ) -> None:
        self.near, self.far = near, far
        self.server, self.client = server, client
        self.writer = TlsWriter(near.fileno(), server)

    def read(self) -> bytes:
        """The content of what has been sent."""
        found = b""
        try:
            while data := self.far.recv(1024 * 1024):
                found += self.client.decrypt(data)
        except BlockingIOError:
            pass
        return found


def shake_hands(server: TlsChannel, client: TlsChannel) -> None:
    """Pass on what both have to say."""
    while not (server.is_open and client.is_open):
        server.decrypt(client.take_outgoing())
        client.decrypt(server.take_outgoing())


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    made = make_certificate(tmp_path)
    server = TlsChannel(made.server_context())
    client = TlsChannel(load_client_context(made.certificate), "localhost")
    shake_hands(server, client)
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    with near, far:
        yield Ends(near, far, server, client)


async def test_short_messages_are_sent_together(ends: Ends) -> None:
    for text in (b"one,", b"two,", b"three"):
        ends.writer.put(text)
    ends.writer.flush()
    assert (ends.writer.waiting_bytes, ends.read()) == (0, b"one,two,three")


async def test_a_queued_message_can_be_withdrawn_until_its_encryption(ends: Ends) -> None:
    large = ends.writer.write(b"x" * 8_000_000)
    first, second = ends.writer.write(b"first"), ends.writer.write(b"second")
    assert (large.has_begun, first.has_begun) == (True, False)
    assert not ends.writer.withdraw(large)
    assert ends.writer.withdraw(first)
    received = b""
    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends.writer.run)
            while ends.writer.waiting_bytes:
                received += ends.read()
                await trio.lowlevel.checkpoint()
            ends.writer.finish()
    assert second.has_begun
    assert received + ends.read() == b"x" * 8_000_000 + b"second"


async def test_little_is_encrypted_before_it_is_written(ends: Ends) -> None:
    ends.writer.write(b"x" * 8_000_000)
    in_kernel = 8_000_000 - ends.writer.queue.size
    ends.writer.flush()
    assert ends.writer.waiting_bytes - ends.writer.queue.size <= 70_000
    assert len(ends.read()) <= in_kernel


async def test_the_end_of_tls_follows_all_messages(ends: Ends) -> None:
    ends.writer.write(b"last")
    ends.server.close()
    ends.writer.flush()
    assert ends.read() == b"last"
    assert ends.client.has_ended


async def test_a_message_before_the_end_of_the_handshake_breaks_the_connection(ends: Ends) -> None:
    writer = TlsWriter(ends.near.fileno(), TlsChannel(load_client_context(), "localhost"))
    writer.write(b"early")
    with pytest.raises(trio.BrokenResourceError):
        await writer.wait_room()


def test_a_client_rejects_a_certificate_of_an_unknown_authority(tmp_path: Path) -> None:
    server = TlsChannel(make_certificate(tmp_path).server_context())
    client = TlsChannel(load_client_context(), "localhost")
    server.decrypt(client.take_outgoing())
    client.decrypt(server.take_outgoing())
    assert (client.has_ended, client.is_open) == (True, False)
    assert certificate_problem(client.failure) == "untrusted"
    server.decrypt(client.take_outgoing())
    assert server.has_ended
    assert certificate_problem(server.failure) is None
