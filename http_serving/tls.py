"""TLS of a server's connections, on `ssl.MemoryBIO`. Sans-IO.

`TlsChannel` stands between the bytes of the network and those of the protocol above. Its owner reads, writes,
closes and has the deadlines, which are the same with and without TLS. Rules: RFC 8446, RFC 9325.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

from native_host.system.private_files import PrivateFileError, UnusableFileError, read_secret

_HANDSHAKE_RECORD = 22
"""First byte of every TLS connection (RFC 8446, 5.1). A request in plain HTTP begins with a letter."""
_READ_BYTES = 64 * 1024
_MAX_KEY_BYTES = 64 * 1024


class CertificateError(UnusableFileError):
    """The certificate or its key cannot be used."""

    separator = " "


class TlsEndedError(Exception):
    """Nothing can be sent any more: the client has closed, or its bytes were not valid TLS."""


def load_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the TLS context of a server with this certificate chain and private key, both in PEM format.

    Raises:
        CertificateError: a file cannot be read, other users can read the key, it has a passphrase, or the
            two do not belong together; tell the user.
    """
    if not _is_file(certificate):  # OpenSSL would wait for the other end of a FIFO
        raise CertificateError(certificate, "is not a file that you can read")
    try:
        read_secret(key.resolve(), _MAX_KEY_BYTES)
    except PrivateFileError as error:
        raise CertificateError.wrap(error) from error
    except (RuntimeError, ValueError) as error:  # a circle of links before Python 3.13, a NUL byte
        raise CertificateError(key, f"cannot be read: {error}") from error

    def reject_passphrase() -> str:  # OpenSSL would ask on the terminal
        raise CertificateError(key, "has a passphrase: store it without one, readable by you alone")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, reject_passphrase)
    except ssl.SSLError as error:
        reason = f"is not the private key of {certificate}, or one of the two is not in PEM format"
        raise CertificateError(key, reason) from error
    except OSError as error:
        raise CertificateError(certificate, f"cannot be read: {error.strerror}") from error
    return context


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError:  # a directory above it cannot be entered
        return False


class TlsChannel:
    """Server's end of one TLS connection. Its owner sends everything that the methods return for it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._has_begun = False
        self.has_ended = False
        """True once no further bytes of the client will follow: it has closed, or has sent no valid TLS."""
        self.is_cleartext = False
        """True if the client does not speak TLS."""

    def decrypt(self, data: bytes) -> bytes:
        """Return what the client has sent in these bytes; none if they end within the handshake or a record.

        The owner then sends `take_outgoing`.
        """
        if not self._has_begun:
            self._has_begun = True
            self.is_cleartext = self.has_ended = data[0] != _HANDSHAKE_RECORD
        if self.has_ended:
            return b""
        self._incoming.write(data)
        parts: list[bytes] = []
        try:
            while part := self._tls.read(_READ_BYTES):
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self.has_ended = True
        else:  # the client has closed in order
            self.has_ended = True
        return b"".join(parts)

    def encrypt(self, data: bytes) -> bytes:
        """Return these bytes as they are sent.

        Raises:
            TlsEndedError: the connection has failed, or its handshake is not complete; close it.
        """
        try:
            with memoryview(data) as rest:
                sent = 0
                while sent < len(rest):
                    sent += self._tls.write(rest[sent:])
        except ssl.SSLError as error:
            raise TlsEndedError from error
        return self._outgoing.read()

    def take_outgoing(self) -> bytes:
        """Return what TLS itself has to send: parts of the handshake, responses to key updates, alerts."""
        return self._outgoing.read()

    def close(self) -> bytes:
        """Return the last bytes to send: without them the client would take the end for a truncation."""
        with suppress(ssl.SSLError):  # the client need not say the same, or there was no connection yet
            self._tls.unwrap()
        return self._outgoing.read()
