"""Certificates for tests, self-signed or with a chain, made with OpenSSL's program."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

from http_serving.tls import load_context

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Certified(NamedTuple):
    """A certificate for this machine and its key, each in a file."""

    certificate: Path
    key: Path

    @property
    def options(self) -> tuple[str, ...]:
        """Those of `mcpb serve`."""
        return "--certificate", str(self.certificate), "--key", str(self.key)

    def server_context(self) -> ssl.SSLContext:
        return load_context(self.certificate, self.key)

    def client_context(self) -> ssl.SSLContext:
        """The context of a client that trusts it."""
        return ssl.create_default_context(cafile=str(self.certificate))


def make_certificate(directory: Path, name: str = "server", issuer: Certified | None = None) -> Certified:
    """Make a key and its certificate, self-signed or followed by the certificates of its issuer."""
    made = Certified(directory / f"{name}.pem", directory / f"{name}.key")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    what = ["-days", "2", "-subj", f"/CN={name}", "-addext", NAMES]
    signing = ["-CA", str(issuer.certificate), "-CAkey", str(issuer.key)] if issuer else []
    command = ["openssl", "req", "-x509", *curve, *files, *what, *signing]
    subprocess.run(command, check=True, capture_output=True)
    if issuer:
        made.certificate.write_bytes(made.certificate.read_bytes() + issuer.certificate.read_bytes())
    made.key.chmod(0o600)
    return made
