"""The HTTP front end as a whole: what is built, and in which order it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from socket import socket

import trio
from starlette.routing import BaseRoute, Route

from bridge.frontends.http import health, serving, tools
from bridge.frontends.http.conversations import Conversations
from bridge.frontends.http.routes import Admit, App
from bridge.frontends.http.settings import HttpSettings
from bridge.frontends.http.streamable import Streamable
from bridge.hub.routing import Router
from native_host import wire

MINUTE_S = 60.0


class Front:
    """What answers HTTP requests, for one hub."""

    def __init__(
        self,
        router: Router,
        tell_hosts: Callable[[list[wire.Session]], None],
        settings: HttpSettings,
        admit: Admit,
        further: Iterable[BaseRoute] = (),
    ) -> None:
        self.conversations = Conversations(
            router,
            tell_hosts,
            idle_s=settings.idle_minutes * MINUTE_S,
            closes_tabs=settings.close_tabs,
        )
        routes: list[BaseRoute] = [
            Route("/mcp", Streamable(self.conversations), methods=None),
            health.route(lambda: len(self.conversations)),
            tools.route(router),
            *further,
        ]
        self.app = App(routes, admit)

    async def serve(
        self,
        sockets: Iterable[socket],
        until: trio.Event,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve whoever connects. Then every session has its last words, and every response its end."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.conversations.run)
            nursery.start_soon(serving.serve, self.app, sockets)
            task_status.started()
            await until.wait()
            await self.conversations.end_all()
            nursery.cancel_scope.cancel()
