"""TLS of both ends of a connection, on `ssl.MemoryBIO`. Sans-IO.

`TlsChannel` stands between the bytes of the network and those of the protocol above. Its owner reads, writes,
closes and has the deadlines, which are the same with and without TLS (`tls_writer.py` writes). Rules:
RFC 8446, RFC 9325.
"""

from __future__ import annotations

import enum
import ssl
from contextlib import suppress
from pathlib import Path

from native_host.protocol.framing import Part
from native_host.system.private_files import PrivateFileError, UnusableFileError, read_secret

_RECORD_TYPES = range(20, 24)
"""First bytes of records (RFC 8446, 5.1). Requests and responses in plain HTTP begin with a letter."""
_RECORD_BYTES = 16 * 1024
"""Longest content of a record."""
_PIECE_BYTES = 8 * 1024
"""Bytes that pass through a BIO at once: its memory never shrinks, and idle connections keep it."""
_MAX_KEY_BYTES = 64 * 1024


class CertificateError(UnusableFileError):
    """The certificate or its key cannot be used."""

    separator = " "


class CertificateProblem(enum.StrEnum):
    """Reason for which a client rejects a server's certificate."""

    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    WRONG_NAME = "wrong-name"
    UNTRUSTED = "untrusted"
    """No authority that the client trusts has signed it."""


_PROBLEMS = {
    9: CertificateProblem.NOT_YET_VALID,
    10: CertificateProblem.EXPIRED,
    62: CertificateProblem.WRONG_NAME,
    64: CertificateProblem.WRONG_NAME,
}
"""Problems by OpenSSL's code (`X509_V_ERR_…`); all others mean that the certificate is not trusted."""


class TlsEndedError(Exception):
    """Nothing can be sent any more: the other end has closed, or its bytes were not valid TLS."""


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


class ServerCertificate:
    """Certificate and key of a server, which can be replaced while it runs."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Load both files. Raises as `load_context` does."""
        self._files = certificate, key
        self.context = load_context(certificate, key)
        """Context of new connections. Those that are open keep theirs."""

    def reload(self) -> None:
        """Load the files again, for new connections.

        Raises:
            CertificateError: they cannot be used; the earlier certificate stays in use.
        """
        self.context = load_context(*self._files)


def load_client_context(authorities: Path | None = None) -> ssl.SSLContext:
    """Return the TLS context of a client, which trusts the system's authorities, or only those of a PEM file.

    Raises:
        CertificateError: the file cannot be used; tell the user.
    """
    if authorities is not None and not _is_file(authorities):
        raise CertificateError(authorities, "is not a file that you can read")
    try:
        context = ssl.create_default_context(cafile=authorities)
    except ssl.SSLError as error:
        raise CertificateError(authorities, "holds no certificate in PEM format") from error
    except OSError as error:
        raise CertificateError(authorities, f"cannot be read: {error.strerror}") from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def certificate_problem(error: ssl.SSLError | None) -> CertificateProblem | None:
    """Return why a client rejected the certificate; None if something else has failed."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return None
    return _PROBLEMS.get(error.verify_code, CertificateProblem.UNTRUSTED)


class TlsChannel:
    """One end of one TLS connection. Its owner sends everything that `take_outgoing` and `encrypt` return.

    A client's end has its first bytes to send at once.
    """

    def __init__(self, context: ssl.SSLContext, server_name: str | None = None) -> None:
        """Begin as a server, or as the client of the server with this name or address."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        is_server = server_name is None
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=is_server, server_hostname=server_name
        )
        self._has_begun = False
        self.has_ended = False
        """True once no further bytes will come: the other end has closed, or has sent no valid TLS."""
        self.is_cleartext = False
        """True if the other end does not speak TLS."""
        self.failure: ssl.SSLError | None = None
        """Error that ended the connection; see `certificate_problem`."""
        if not is_server:
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()

    @property
    def is_open(self) -> bool:
        """True once the handshake is complete."""
        return self._tls.version() is not None

    @property
    def outgoing_bytes(self) -> int:
        """Bytes that `take_outgoing` returns."""
        return self._outgoing.pending

    def decrypt(self, data: bytes) -> bytes:
        """Return the content of these bytes; none if they end within the handshake or a record.

        The owner then sends `take_outgoing`.
        """
        if not self._has_begun:
            self._has_begun = True
            self.is_cleartext = self.has_ended = data[0] not in _RECORD_TYPES
        parts: list[bytes] = []
        try:
            if len(data) <= _PIECE_BYTES:
                self._decrypt_piece(data, parts)
            else:
                with memoryview(data) as view:
                    for at in range(0, len(view), _PIECE_BYTES):
                        self._decrypt_piece(view[at : at + _PIECE_BYTES], parts)
        except ssl.SSLError as error:
            self.has_ended = True
            self.failure = error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _decrypt_piece(self, data: bytes | memoryview, parts: list[bytes]) -> None:
        if self.has_ended:
            return
        self._incoming.write(data)
        try:
            while self._incoming.pending or self._tls.pending():
                if not (part := self._tls.read(_RECORD_BYTES)):
                    self.has_ended = True  # the other end has closed in order
                    return
                parts.append(part)
        except ssl.SSLWantReadError:
            pass

    def encrypt(self, data: Part) -> bytes:
        """Return these bytes as they are sent, after what TLS itself has to send.

        Raises:
            TlsEndedError: the connection has failed, or its handshake is not complete; close it.
        """
        try:
            if len(data) <= _PIECE_BYTES:
                self._tls.write(data)
                return self._outgoing.read()
            records = []
            with memoryview(data) as rest:
                for at in range(0, len(rest), _PIECE_BYTES):
                    self._tls.write(rest[at : at + _PIECE_BYTES])
                    records.append(self._outgoing.read())
        except ssl.SSLError as error:
            raise TlsEndedError from error
        return b"".join(records)

    def take_outgoing(self) -> bytes:
        """Return what TLS itself has to send: parts of the handshake, responses to key updates, alerts."""
        return self._outgoing.read()

    def close(self) -> None:
        """Add the last bytes to `take_outgoing`; without them the other end would see a truncation."""
        with suppress(ssl.SSLError):  # the other end need not say the same, or there was no connection yet
            self._tls.unwrap()
