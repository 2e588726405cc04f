"""Addresses of a node: its URL, the names by which peers may call it, and what it may listen on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from http_serving.host_header import format_host, is_loopback
from http_serving.listeners import LOOPBACK_NAMES, local_url
from http_serving.server_address import parse_server_address
from websocket_proxy import protocol
from websocket_proxy.node.settings import ProxySettings
from websocket_proxy.protocol import Role

PATHS = {Role.EXTENSION: protocol.EXTENSION_PATH, Role.CLIENT: protocol.CLIENT_PATH}
_WILDCARDS = {"0.0.0.0", "::"}  # noqa: S104  (compared, not bound)


class StartError(Exception):
    """The proxy cannot start with these settings; the text is for the user, with the remedy."""


class NodeAddress(NamedTuple):
    """Names and URL of a node."""

    url: str
    names: list[str]
    """Names for the Host header, besides loopback and the address that is listened on."""

    def endpoints(self, settings: ProxySettings, port: int) -> dict[Role, list[str]]:
        """Return the WebSocket URLs by which clients may reach each endpoint."""
        scheme = "wss" if settings.is_encrypted else "ws"
        own = [] if settings.host in _WILDCARDS else [settings.host]
        local = LOOPBACK_NAMES if settings.host in LOOPBACK_NAMES | _WILDCARDS else set()
        hosts = sorted({*own, *local, *self.names})
        bases = [
            self.url.replace("http", "ws", 1),
            *(f"{scheme}://{format_host(each)}:{port}" for each in hosts),
        ]
        return {role: [base + path for base in bases] for role, path in PATHS.items()}


def check_settings(settings: ProxySettings) -> None:
    """Check that the connections of a node will be encrypted, or stay on this machine. Raises StartError."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise StartError("A certificate and its key belong together: set both --tls-cert and --tls-key.")
    is_protected = settings.is_encrypted or settings.behind_tls_proxy
    if not (is_protected or is_loopback(settings.host)):
        raise StartError(
            f"--host {settings.host} without a certificate would send tokens and pages over the network in "
            "clear text. Add --tls-cert FILE and --tls-key FILE, or --behind-tls-proxy if another server "
            "encrypts. Without either, leave out --host and forward the port over SSH (docs/PROXY.md)."
        )
    if settings.behind_tls_proxy and not settings.public_url:
        raise StartError(
            "--behind-tls-proxy needs the URL by which clients reach the other server: add "
            "--public-url https://proxy.example, or public_url below [proxy] in config.toml."
        )
    if settings.direct_port and not settings.has_home_issuer:
        raise StartError(
            "direct_port needs the home issuer, because its extensions belong to the home user: add "
            "home_issuer = true below [proxy], or remove direct_port."
        )


def find_address(settings: ProxySettings, port: int) -> NodeAddress:
    """Return the URL and the names of a node. Raises StartError."""
    names = [*settings.allowed_hosts, *_certificate_names(settings)]
    if settings.public_url:
        url = settings.public_url.rstrip("/")
        return NodeAddress(url, [*names, parse_server_address(url).host])
    if settings.host not in _WILDCARDS:
        return NodeAddress(local_url(settings.host, port, settings.scheme).rstrip("/"), names)
    if not names:
        raise StartError(
            f"--host {settings.host} needs the URL by which clients reach this machine: add "
            "--public-url https://proxy.example:8765, or public_url below [proxy] in config.toml."
        )
    return NodeAddress(f"{settings.scheme}://{format_host(names[0])}:{port}", names)


def _certificate_names(settings: ProxySettings) -> list[str]:
    """Return the names and addresses of the certificate, without patterns."""
    if not settings.is_encrypted:
        return []
    try:
        certificate = x509.load_pem_x509_certificate(to_absolute(settings.tls_cert).read_bytes())
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, OSError, x509.ExtensionNotFound):
        return []
    names = [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]
    return [name for name in names if not name.startswith("*")]


def to_absolute(path: str) -> Path:
    """Return the path that a setting names."""
    return Path(path).expanduser().absolute()
