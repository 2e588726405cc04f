"""HTTP front end: its routes, its life cycle, `/health` and `/tools`.

`/health` reports the version and the number of sessions. `/tools` lists what `tools/list` would return to a
new client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from socket import socket
from ssl import SSLContext

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridge import __version__
from bridge.config.settings import HttpSettings
from bridge.frontends.http import legacy_sse
from bridge.frontends.http.asgi_app import Admit, App
from bridge.frontends.http.http_sessions import HttpSessions
from bridge.frontends.http.metrics import Metrics, count_now
from bridge.frontends.http.streamable_http import StreamableHttp
from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.tool_schema import Era
from http_serving import http_server
from http_serving.error_responses import RequestRejected
from http_serving.http_connection import UpgradeRequest
from http_serving.http_server import ServerOptions
from native_host.protocol import wire

MINUTE_S = 60.0
REVOKED_SCAN_INTERVAL_S = 0.25


async def _reject_websocket(_: UpgradeRequest) -> None:
    raise RequestRejected(HTTPStatus.BAD_REQUEST, "WebSocket is not supported: send POST requests to /mcp")


_OPTIONS = ServerOptions(
    stopped_message=(
        "mcpb serve stopped before it sent a response: the call may have run. Start mcpb serve again."
    ),
    handle_upgrade=_reject_websocket,
)


class HttpFrontend:
    """HTTP front end of one hub."""

    def __init__(
        self,
        router: Router,
        notify_hosts: Callable[[list[wire.Session]], None],
        settings: HttpSettings,
        admit: Admit,
        metrics: Metrics,
        further: Iterable[Route] = (),
        is_token_valid: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._is_token_valid = is_token_valid
        self.sessions = HttpSessions(
            router, notify_hosts, idle_s=settings.idle_minutes * MINUTE_S, is_structured=settings.structured
        )
        routes: list[Route] = [
            Route("/mcp", StreamableHttp(self.sessions), methods=None),
            health_route(lambda: len(self.sessions)),
            tools_route(router),
            metrics.route(),
            *legacy_sse.build_routes(self.sessions),
            *further,
        ]
        metrics.add_gauges(partial(count_now, router, self.sessions))
        self.app = App(routes, admit, metrics.count_rejection)

    async def serve(
        self,
        sockets: Iterable[socket],
        until: trio.Event,
        tls: SSLContext | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve clients until an event is set. Then end every session and complete every response.

        Connections over TCP are encrypted if `tls` is given.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self.sessions.run)
            nursery.start_soon(self._end_sessions_at, until)
            nursery.start_soon(self._end_revoked)
            task_status.started()
            await http_server.serve(self.app, sockets, until, _OPTIONS._replace(tls=tls))
            nursery.cancel_scope.cancel()

    async def _end_sessions_at(self, until: trio.Event) -> None:
        await until.wait()
        self.sessions.end_all()

    async def _end_revoked(self) -> None:
        """End the sessions of revoked tokens. New requests with such a token are rejected at once."""
        while True:
            await trio.sleep(REVOKED_SCAN_INTERVAL_S)
            self.sessions.end_revoked(self._is_token_valid)


def health_route(count_sessions: Callable[[], int]) -> Route:
    """Return the route of `/health`."""

    async def respond(_: Request) -> Response:
        body = {"status": "ok", "version": __version__, "activeSessions": count_sessions()}
        return Response(msgspec.json.encode(body), media_type="application/json")

    return Route("/health", respond, methods=["GET"])


def tools_route(router: Router) -> Route:
    """Return the route of `/tools`."""

    async def respond(_: Request) -> Response:
        # A session for this response only: no host learns of it, and its tool bindings go with it.
        tools = await router.list_tools(Session("tools"), Era.STATELESS)
        return Response(b'{"tools":%b}\n' % tools, media_type="application/json")

    return Route("/tools", respond, methods=["GET"])
