"""Settings of the WebSocket proxy: the tables `[proxy]` and `[[proxy.issuers]]` of `config.toml`.

docs/PROXY.md explains each key. Other tables are the bridge's, which checks them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from http_serving.host_header import Scheme, is_host, is_loopback
from http_serving.server_address import AddressError, parse_server_address
from native_host.protocol.validation_errors import ProblemKind, describe_rule, explain
from native_host.system import private_files, toml_text
from native_host.system.home_layout import HomeLayout
from native_host.system.private_files import PrivateFileError, UnusableFileError
from websocket_proxy.limits import Limits, Seconds
from websocket_proxy.token_verifier import IssuerSettings

PORT = 8765
_MAX_PORT = 65535
_SHUTDOWN_S = 9.5
_CLOSING_S = 1.5
"""Seconds in which sockets are closed after the running requests have had theirs."""

Port = Annotated[int, msgspec.Meta(ge=0, le=_MAX_PORT)]


class ProxySettingsError(UnusableFileError):
    """The settings cannot be used; tell the user."""


class ProxySettings(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Table `[proxy]`: the limits and these keys.

    Raises:
        ValueError: a value is not allowed; the text begins with its key.
    """

    host: str = "127.0.0.1"
    """Address to listen on; `127.0.0.1` and `localhost` mean both loopback addresses."""
    port: Port = PORT
    """0 takes a free one."""
    tls_cert: str = ""
    """Path of the certificate chain, in PEM format; empty: connections are not encrypted."""
    tls_key: str = ""
    behind_tls_proxy: bool = False
    """Another server encrypts the connections, and names clients in X-Forwarded-For."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of such servers, besides loopback."""
    public_url: str = ""
    """URL by which clients reach the proxy; empty: derived from the address and the certificate."""
    allowed_hosts: tuple[str, ...] = ()
    """Further names in the Host header, without the port."""
    extension_origins: tuple[str, ...] = ()
    """Origins of extensions that may connect; empty: all extensions."""
    client_origins: tuple[str, ...] = ()
    """Origins of web pages and extensions that may connect as clients."""
    home_issuer: bool | None = None
    """True if the proxy issues tokens for one user; None: if there are no issuers."""
    issuers: tuple[IssuerSettings, ...] = ()
    client_id: str = ""
    """Id by which the issuers know our extension and our bridge; empty: any."""
    admin_host: str = "127.0.0.1"
    """Address of /health, /ready and /metrics."""
    admin_port: Port | None = None
    """None: the port after `port`."""
    audit_methods: bool = False
    """True if the audit log names the methods of forwarded requests."""
    direct_port: Port = 0
    """Port of blueprint's free mode; 0: off."""
    slow_reader_s: Seconds = 10.0
    """Seconds after which a peer that hardly reads is closed."""
    drain_s: Seconds = 8.0
    """Seconds that running requests have to finish when the proxy shuts down."""

    def __post_init__(self) -> None:
        _check_hosts("host", (self.host,))
        _check_hosts("admin_host", (self.admin_host,))
        _check_hosts("allowed_hosts", self.allowed_hosts)
        if self.public_url:
            _check_public_url(self.public_url)

    @property
    def has_home_issuer(self) -> bool:
        """Return whether the proxy issues tokens."""
        return not self.issuers if self.home_issuer is None else self.home_issuer

    @property
    def shutdown_s(self) -> float:
        """Return the seconds from the beginning of the shutdown to its end, whatever the peers do."""
        return max(self.drain_s + _CLOSING_S, _SHUTDOWN_S)

    @property
    def is_encrypted(self) -> bool:
        """Return whether the proxy itself encrypts connections."""
        return bool(self.tls_cert)

    @property
    def scheme(self) -> Scheme:
        """Return the scheme of its own port."""
        return "https" if self.is_encrypted else "http"

    def admin_port_for(self, port: int) -> int:
        """Return the port of the admin address beside this configured port."""
        if self.admin_port is not None:
            return self.admin_port
        return port + 1 if 0 < port < _MAX_PORT else 0


def read_settings(home: Path) -> ProxySettings:
    """Read the settings in mcpb's home.

    Raises:
        ProxySettingsError: they cannot be used, or other users could have written them.
    """
    path = HomeLayout(home).config
    try:
        file = private_files.read(path)
        found = toml_text.parse_toml(path, file.content) if file else {}
    except PrivateFileError as error:
        raise ProxySettingsError.wrap(error) from error
    try:
        return msgspec.convert(found.get("proxy", {}), ProxySettings)
    except msgspec.ValidationError as error:
        key, text = _explain(error, found)
        line = toml_text.line_of(file.content if file else b"", key)
        raise ProxySettingsError(path, f"{text} (at line {line})" if line else text) from None


def _explain(error: msgspec.ValidationError, found: Any) -> tuple[str, str]:
    """Return the key and the text of an error."""
    problem = explain(error)
    place = f"proxy.{problem.path}" if problem.path else "proxy"
    if problem.kind is ProblemKind.UNKNOWN:
        key = f"{place}.{problem.actual}"
        return key, f"there is no key {key}; docs/PROXY.md lists the keys"
    if isinstance(cause := error.__cause__, ValueError):
        key = f"{place}.{str(cause).partition(':')[0]}"
        return key, f"{place}.{cause}"
    value = _value_at(found, place)
    shown = f" = {repr(value)[:60]}" if isinstance(value, str | int | float) else ""
    return place, f"{place}{shown}: {describe_rule(problem, is_toml=True)}"


def _value_at(found: Any, place: str) -> Any:
    for step in place.replace("[", ".").replace("]", "").split("."):
        try:
            found = found[int(step)] if isinstance(found, list) else found[step]
        except (KeyError, ValueError, IndexError, TypeError):
            return None
    return found


def _check_hosts(key: str, hosts: tuple[str, ...]) -> None:
    for host in hosts:
        if not is_host(host):
            text = f'{key}: "{host}" is neither an address nor a name: write it without scheme and port'
            raise ValueError(text)


def _check_public_url(url: str) -> None:
    try:
        address = parse_server_address(url)
    except AddressError as error:
        raise ValueError(f"public_url: {error}") from None
    if address.path.strip("/") or address.query or address.scheme not in {"http", "https"}:
        raise ValueError("public_url: write it as https://proxy.example, without a path")
    if address.scheme == "http" and not is_loopback(address.host):
        raise ValueError("public_url: an address of another machine begins with https://")
