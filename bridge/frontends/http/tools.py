"""`GET /tools`: what `tools/list` would say to a client that begins now, for whoever wants only that."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.tool_schema import Era


def route(router: Router) -> Route:
    """Where it is asked."""

    async def answer(_: Request) -> Response:
        # Nobody's session: no host is told of it, and what the names mean is forgotten with the answer.
        tools = await router.listing(Session("tools"), Era.STATELESS)
        return Response(b'{"tools":%b}\n' % tools, media_type="application/json")

    return Route("/tools", answer, methods=["GET"])
