"""The certificates that a server accepts, and its end of a TLS connection without a network."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from certificates import Certified, make_certificate
from http_serving.tls import CertificateError, TlsChannel, TlsEndedError, load_context
from source_trees import ROOT

NOBODY = 65534
"""Another user, as which root looks at what it may not."""


@pytest.fixture
def made(tmp_path: Path) -> Certified:
    return make_certificate(tmp_path)


class Client:
    """The other end of a channel, in memory."""

    def __init__(self, made: Certified) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = made.client_context()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def say(self, data: bytes) -> bytes:
        """The bytes that go to the server: these, or a part of the handshake."""
        with suppress(ssl.SSLWantReadError):
            self.tls.write(data)
        return self._outgoing.read()

    def close(self) -> bytes:
        with suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self._outgoing.read()

    def hear(self, data: bytes) -> bytes:
        """The server's words in what it has sent."""
        self._incoming.write(data)
        found = b""
        with suppress(ssl.SSLWantReadError):
            while part := self.tls.read(65536):
                found += part
        return found


@pytest.fixture
def pair(made: Certified) -> tuple[TlsChannel, Client]:
    """Both ends, after their handshake."""
    channel, client = TlsChannel(made.server_context()), Client(made)
    assert channel.decrypt(client.say(b"one")) == b""
    client.hear(channel.take_outgoing())
    assert channel.decrypt(client.say(b"one")) == b"one"
    client.hear(channel.take_outgoing())
    return channel, client


# ── Certificates ────────────────────────────────────────────────────────────────────────────────────────────


def rejection(made: Certified) -> str:
    with pytest.raises(CertificateError) as error:
        load_context(*made)
    return str(error.value)


def test_a_missing_file_is_named(made: Certified, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    assert rejection(made._replace(certificate=missing)) == f"{missing} is not a file that you can read"
    assert rejection(made._replace(key=missing)) == f"{missing} cannot be read: No such file or directory"
    assert rejection(made._replace(certificate=tmp_path)) == f"{tmp_path} is not a file that you can read"


def test_a_fifo_is_not_waited_for(made: Certified, tmp_path: Path) -> None:
    os.mkfifo(fifo := tmp_path / "fifo", 0o600)
    assert str(fifo) in rejection(made._replace(certificate=fifo))
    assert str(fifo) in rejection(made._replace(key=fifo))


def test_a_path_that_leads_nowhere_is_named(made: Certified, tmp_path: Path) -> None:
    (loop := tmp_path / "loop").symlink_to(loop)
    for path in (loop, tmp_path / "a\0b"):
        assert rejection(made._replace(certificate=path)) == f"{path} is not a file that you can read"
        assert rejection(made._replace(key=path)).startswith(f"{path} cannot be read: ")


def test_a_file_in_a_directory_that_cannot_be_entered_is_named(short_tmp: Path) -> None:
    (directory := short_tmp / "closed").mkdir(mode=0o000)
    script = f"""
import os, sys
from pathlib import Path
from http_serving.tls import CertificateError, load_context
if os.getuid() == 0:
    os.setuid({NOBODY})  # modes do not stop root
try:
    load_context(Path(sys.argv[1]), Path(sys.argv[1]))
except CertificateError as error:
    print(error)
"""
    command = [sys.executable, "-c", script, str(directory / "server.pem")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    directory.chmod(0o700)  # so that it can be removed
    assert done.stdout == f"{directory}/server.pem is not a file that you can read\n"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_other_users_can_read_is_rejected(made: Certified, mode: int) -> None:
    made.key.chmod(mode)
    assert rejection(made) == f"{made.key} is not a file that only you can read. Run: chmod 600 {made.key}"


def test_a_link_is_followed_to_its_key(made: Certified, tmp_path: Path) -> None:
    (link := tmp_path / "live.key").symlink_to(made.key)
    load_context(made.certificate, link)
    made.key.chmod(0o644)
    assert "only you can read" in rejection(made._replace(key=link))


def test_the_key_of_another_certificate_is_rejected(made: Certified, tmp_path: Path) -> None:
    other = make_certificate(tmp_path, "other")
    assert rejection(made._replace(key=other.key)).startswith(
        f"{other.key} is not the private key of {made[0]}"
    )


def test_files_that_are_not_pem_are_rejected(made: Certified) -> None:
    made.certificate.write_bytes(b"\0" * 1000)
    assert "PEM format" in rejection(made)


def test_a_key_with_a_passphrase_is_rejected_without_a_question(made: Certified, tmp_path: Path) -> None:
    locked = tmp_path / "locked.key"
    lock = ["openssl", "ec", "-in", str(made.key), "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(lock, check=True, capture_output=True)
    locked.chmod(0o600)
    assert rejection(made._replace(key=locked)).startswith(f"{locked} has a passphrase")


# ── The channel ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_megabyte_arrives_in_both_directions_whatever_the_parts(pair: tuple[TlsChannel, Client]) -> None:
    channel, client = pair
    text = os.urandom(1024 * 1024)
    sent = client.say(text)
    assert b"".join(channel.decrypt(sent[at : at + 1000]) for at in range(0, len(sent), 1000)) == text
    assert client.hear(channel.encrypt(text)) == text
    assert channel.encrypt(b"") == b""


def test_both_ends_close_in_order(pair: tuple[TlsChannel, Client]) -> None:
    channel, client = pair
    assert channel.decrypt(client.say(b"two") + client.close()) == b"two"
    assert channel.has_ended
    assert client.hear(channel.encrypt(b"the rest")) == b"the rest"
    channel.close()
    with pytest.raises(ssl.SSLZeroReturnError):
        client.hear(channel.take_outgoing())


@pytest.mark.parametrize("garbage", [b"\x17\x03\x03\x00\x05hello", b"\x16\x03\x01\x00\x01\x00", b"GET / "])
def test_bytes_that_are_no_records_end_a_connection(pair: tuple[TlsChannel, Client], garbage: bytes) -> None:
    channel, _ = pair
    assert channel.decrypt(garbage) == b""
    assert channel.has_ended
    assert not channel.is_cleartext
    with pytest.raises(TlsEndedError):
        channel.encrypt(b"hello")
    channel.close()


def test_a_client_without_tls_is_recognized(made: Certified) -> None:
    channel = TlsChannel(made.server_context())
    assert channel.decrypt(b"GET / HTTP/1.1\r\n") == b""
    assert (channel.is_cleartext, channel.has_ended, channel.take_outgoing()) == (True, True, b"")


def test_nothing_is_sent_before_the_handshake(made: Certified) -> None:
    channel = TlsChannel(made.server_context())
    with pytest.raises(TlsEndedError):
        channel.encrypt(b"hello")


def test_a_client_of_tls_1_1_is_rejected_with_an_alert(made: Certified) -> None:
    client = Client(made)
    hello = client.say(b"").replace(b"\x03\x04", b"\x03\x02").replace(b"\x03\x03", b"\x03\x02")
    channel = TlsChannel(made.server_context())
    channel.decrypt(hello)
    assert channel.has_ended
    assert channel.take_outgoing()[:1] == b"\x15"
