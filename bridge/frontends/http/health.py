"""`GET /health`: that we are there, which version, and how many clients speak to us."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridge import __version__


def route(count_sessions: Callable[[], int]) -> Route:
    """Where it is asked."""

    async def answer(_: Request) -> Response:
        said = {"status": "ok", "version": __version__, "activeSessions": count_sessions()}
        return Response(msgspec.json.encode(said), media_type="application/json")

    return Route("/health", answer, methods=["GET"])
