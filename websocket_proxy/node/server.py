"""Process of a node: opens its ports, serves them, and ends in order on a signal.

SIGTERM and SIGINT drain the node; a second one ends it at once. SIGHUP reads the certificate again.
"""

from __future__ import annotations

import logging
import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from socket import socket
from typing import NamedTuple

import trio

from http_serving.error_responses import RequestRejected
from http_serving.host_header import ServerNames
from http_serving.http_server import ConnectionLimits, ServerOptions, serve
from http_serving.listeners import local_url, open_listeners
from http_serving.plain_routes import OriginRule, PlainRequest, PlainResponse, PlainRoute, PlainRoutes
from http_serving.tls import CertificateError, ServerCertificate
from native_host.ipc.endpoint import Endpoint
from native_host.system import malloc
from websocket_proxy import __version__, protocol
from websocket_proxy.handshakes import VerifiedToken
from websocket_proxy.issuer_service import IssuerService
from websocket_proxy.limits import MIB
from websocket_proxy.node.addresses import PATHS, check_settings, find_address, to_absolute
from websocket_proxy.node.admin import open_admin_socket, serve_admin
from websocket_proxy.node.admin_commands import AdminCommands, RunningProxy
from websocket_proxy.node.admission import Admission
from websocket_proxy.node.audit import Audit
from websocket_proxy.node.metrics import Metrics
from websocket_proxy.node.node import Node
from websocket_proxy.node.settings import ProxySettings
from websocket_proxy.oauth_endpoints import oauth_error_body, oauth_routes
from websocket_proxy.protocol import Role
from websocket_proxy.token_store import TokenStore, open_store
from websocket_proxy.token_verifier import TokenVerifier, TrustedIssuer, open_issuer

_OTHER_CONNECTIONS = 256
"""Connections for requests that are no WebSockets, besides the limit of sockets."""
_OPENED_PER_MINUTE = 6000
_OPENED_PER_MINUTE_BEHIND_PROXY = 60_000
_TRIM_S = 3.0
_KEPT_BYTES = 32 * MIB
"""Freed memory that is kept meanwhile. With 16 MiB, a message of 16 MB took a fifth longer (measured)."""
_RESPONSES_S = 0.5
"""Seconds that responses to plain requests have at the end."""

_log = logging.getLogger(__name__)


def run_server(settings: ProxySettings, state: Path, on_ready: Callable[[RunningProxy], None]) -> None:
    """Run a node until a signal ends it. `on_ready` is called once peers can connect.

    Raises:
        StartError: the settings contradict each other, or are not safe.
        ListenError: an address is not available.
        CertificateError: the certificate or its key cannot be used.
        IssuerError: an issuer cannot be used.
        PrivateFileError: the state directory or a file in it cannot be used.
    """
    check_settings(settings)
    malloc.disable_malloc_trim(_KEPT_BYTES)
    with _open_resources(settings, state) as resources:
        trio.run(_Process(settings, resources).run, on_ready)


class _Resources(NamedTuple):
    """Open files and sockets of the process."""

    public: list[socket]
    admin: list[socket]
    direct: list[socket]
    """Sockets of the port without tokens; empty: off."""
    admin_socket: Endpoint
    certificate: ServerCertificate | None
    issuers: list[TrustedIssuer]
    store: TokenStore | None
    """Files of the home issuer; None: the proxy issues no tokens."""


@contextmanager
def _open_resources(settings: ProxySettings, state: Path) -> Iterator[_Resources]:
    with ExitStack() as stack:
        certificate = None
        if settings.is_encrypted:
            certificate = ServerCertificate(to_absolute(settings.tls_cert), to_absolute(settings.tls_key))
        admin_port = settings.admin_port_for(settings.port)
        direct_port = settings.direct_port
        yield _Resources(
            public=stack.enter_context(open_listeners(settings.host, settings.port)),
            admin=stack.enter_context(open_listeners(settings.admin_host, admin_port)),
            direct=stack.enter_context(open_listeners("127.0.0.1", direct_port)) if direct_port else [],
            issuers=[open_issuer(each) for each in settings.issuers],
            store=stack.enter_context(open_store(state)) if settings.has_home_issuer else None,
            admin_socket=stack.enter_context(open_admin_socket(state)),
            certificate=certificate,
        )


class _Process:
    """Parts of the process."""

    def __init__(self, settings: ProxySettings, resources: _Resources) -> None:
        self._settings = settings
        self._resources = resources
        port = _port_of(resources.public)
        self._address = find_address(settings, port)
        self._home = (
            IssuerService(resources.store, self._address.url, self._revoke) if resources.store else None
        )
        self._metrics = Metrics()
        self._audit = Audit(self._metrics, with_methods=settings.audit_methods)
        trusted = [*resources.issuers, *([self._home.trusted_issuer()] if self._home else [])]
        endpoints = self._address.endpoints(settings, port)
        verifier = TokenVerifier(trusted, endpoints)
        self._node = Node(settings, verifier, self._audit)
        self._running = self._describe(endpoints)
        self._commands = AdminCommands(self._node, verifier, self._home, self._running)
        self._names = ServerNames(settings.host, port, self._address.names, settings.scheme)
        self._stopped = trio.Event()
        self._served = trio.Event()

    def _describe(self, endpoints: dict[Role, list[str]]) -> RunningProxy:
        settings, resources = self._settings, self._resources
        direct = f"ws://127.0.0.1:{settings.direct_port}{protocol.EXTENSION_PATH}"
        return RunningProxy(
            url=self._address.url,
            local_url=local_url(settings.host, _port_of(resources.public), settings.scheme).rstrip("/"),
            extension_url=endpoints[Role.EXTENSION][0],
            client_url=endpoints[Role.CLIENT][0],
            admin_url=local_url(settings.admin_host, _port_of(resources.admin)).rstrip("/"),
            direct_url=direct if resources.direct else "",
            has_home_issuer=self._home is not None,
        )

    def _revoke(self, family: str) -> None:
        self._audit.on_event("revoked", session=family)
        self._node.revoke(family)

    async def run(self, on_ready: Callable[[RunningProxy], None]) -> None:
        """Serve until a signal ends it."""
        async with trio.open_nursery() as nursery:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
                await nursery.start(self._node.run)
                nursery.start_soon(_trim_memory)
                nursery.start_soon(serve_admin, self._resources.admin_socket, self._commands.handle)
                nursery.start_soon(self._serve_ports)
                self._audit.on_event("started", version=__version__, url=self._address.url, pid=os.getpid())
                on_ready(self._running)
                async for number in signals:
                    if number == signal.SIGHUP:
                        self._reload_certificate()
                    elif self._node.is_draining:
                        break
                    else:
                        self._audit.on_event("draining", requests=self._node.gauges().requests_in_flight)
                        nursery.start_soon(self._drain, nursery.cancel_scope)
            nursery.cancel_scope.cancel()
        self._audit.on_event("stopped")

    async def _drain(self, process: trio.CancelScope) -> None:
        await self._node.drain()
        self._stopped.set()
        with trio.move_on_after(_RESPONSES_S):
            await self._served.wait()
        process.cancel()

    def _reload_certificate(self) -> None:
        if self._resources.certificate is None:
            return
        try:
            self._resources.certificate.reload()
        except CertificateError as error:
            _log.error("The earlier certificate stays in use: %s", error)
        else:
            self._audit.on_event("certificate-reloaded")

    # ── Ports ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _serve_ports(self) -> None:
        settings, resources = self._settings, self._resources
        admission = Admission(self._names, settings.extension_origins, settings.client_origins)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                serve,
                self._plain_app(),
                resources.public,
                self._stopped,
                self._options(admission, self._resources.certificate),
            )
            nursery.start_soon(serve, self._admin_app(), resources.admin, self._stopped)
            if resources.direct and self._home:
                nursery.start_soon(self._serve_direct, self._home)
        self._served.set()

    async def _serve_direct(self, home: IssuerService) -> None:
        port = _port_of(self._resources.direct)
        names = ServerNames("127.0.0.1", port)
        admission = Admission(names, self._settings.extension_origins, ())
        user = VerifiedToken(home.user_id, math.inf, home.url)
        handle = partial(self._node.handle_upgrade, admission=admission, direct_user=user)
        app = PlainRoutes({}, names, OriginRule(self._settings.extension_origins))
        await serve(app, self._resources.direct, self._stopped, ServerOptions(handle_upgrade=handle))

    def _options(self, admission: Admission, certificate: ServerCertificate | None) -> ServerOptions:
        settings = self._settings
        opened = _OPENED_PER_MINUTE_BEHIND_PROXY if settings.behind_tls_proxy else _OPENED_PER_MINUTE
        limits = ConnectionLimits(settings.sockets + _OTHER_CONNECTIONS, None, opened, ends_requests=True)
        return ServerOptions(
            limits=limits,
            handle_upgrade=partial(self._node.handle_upgrade, admission=admission),
            tls=certificate,
        )

    def _plain_app(self) -> PlainRoutes:
        settings = self._settings
        servers = [each.issuer for each in settings.issuers if each.issuer.startswith("http")]
        routes = oauth_routes(servers, self._home, settings.client_id)
        routes |= {path: PlainRoute("GET", self._require_upgrade) for path in PATHS.values()}
        return PlainRoutes(
            routes,
            self._names,
            OriginRule(settings.extension_origins),
            public_url=self._address.url,
            address_of=self._node.addresses.find,
            error_body=oauth_error_body,
        )

    def _admin_app(self) -> PlainRoutes:
        port = _port_of(self._resources.admin)
        names = ServerNames(self._settings.admin_host, port, self._settings.allowed_hosts)
        routes = {
            "/health": PlainRoute("GET", _respond_healthy),
            "/ready": PlainRoute("GET", self._respond_ready),
            "/metrics": PlainRoute("GET", self._respond_metrics),
        }
        return PlainRoutes(routes, names, OriginRule())

    async def _require_upgrade(self, request: PlainRequest) -> PlainResponse:
        # A browser hides from an extension why a WebSocket was rejected: the extension asks like this.
        self._node.check_room(request.address)
        text = f"{request.path} is for WebSockets: send Upgrade: websocket"
        raise RequestRejected(HTTPStatus.UPGRADE_REQUIRED, text, headers={"Upgrade": "websocket"})

    async def _respond_ready(self, _: PlainRequest) -> PlainResponse:
        if self._node.is_draining:
            return PlainResponse("shutting down\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return PlainResponse("ready\n")

    async def _respond_metrics(self, _: PlainRequest) -> PlainResponse:
        return PlainResponse(self._metrics.format(self._node.gauges()))


async def _respond_healthy(_: PlainRequest) -> PlainResponse:
    return PlainResponse("ok\n")


async def _trim_memory() -> None:
    while True:
        await trio.sleep(_TRIM_S)
        malloc.trim_malloc()


def _port_of(sockets: list[socket]) -> int:
    return int(sockets[0].getsockname()[1])
