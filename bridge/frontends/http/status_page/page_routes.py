"""Routes of the status page, and their authorization by cookie.

Browsers send a cookie to every port of a host, and treat pages of its other ports as the same site. So the
cookie is valid for these routes alone. A change also needs the page's own Origin and a header that its script
sends and a form cannot send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bridge import origins
from bridge.frontends.http.status_page.html import SIGN_IN, Html, format_content, sign_in_page, status_page
from bridge.frontends.http.status_page.sign_in import COOKIE_S, SignIn
from bridge.frontends.http.status_page.updates import StatusUpdates
from bridge.hub.router import Router
from bridge.hub.rules.site_patterns import read_pattern
from bridge.state.pause_control import Target, change_pause, live_browsers
from bridge.state.pause_sync import PauseSync
from bridge.state.site_approvals import ApprovalsError
from http_serving.error_responses import RequestRejected
from http_serving.request_body import read_json_body
from http_serving.server_sent_events import stream_events
from native_host.protocol.validation_errors import describe_problem

_MAX_BODY_BYTES = 4096
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_OPENING = b"retry: 1000\n\n"
_CHANGED = b"event: changed\ndata: now\n\n"
_PING = b": still here\n\n"
_HERE = Path(__file__).parent


class _PauseRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Pause or resume either a site or a session."""

    paused: bool
    site: str = ""
    session: str = ""


class _RevokeRequest(msgspec.Struct, forbid_unknown_fields=True, rename={"words": "for"}):
    """Revoke one approval, as the page lists it."""

    origin: str
    words: list[str]
    client: str = ""


class StatusPage:
    """Status page of one server. `url` is the server's URL, ending with a slash."""

    def __init__(self, router: Router, pauses: PauseSync, updates: StatusUpdates, url: str) -> None:
        self._router = router
        self._pauses = pauses
        self._updates = updates
        self._url = url
        self._sign_in = SignIn()
        self._cookie = f"mcpb-page-{urlsplit(url).port or 80}"  # all ports of a host share their cookies

    def routes(self) -> list[Route]:
        """Return all routes."""
        return [
            Route("/", self._show_page, methods=["GET"]),
            Route("/open", self._open_link, methods=["GET"]),
            Route("/page/now", self._show_now, methods=["GET"]),
            Route("/page/events", self._send_events, methods=["GET"]),
            Route("/page/links", self._make_link, methods=["POST"]),
            Route("/page/pause", self._handle_pause, methods=["POST"]),
            Route("/page/revoke", self._handle_revoke, methods=["POST"]),
            _file_route("page.css", "text/css"),
            _file_route("page.js", "text/javascript"),
        ]

    # ── Viewing ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _show_page(self, request: Request) -> Response:
        if not self._is_signed_in(request):
            return _html_response(sign_in_page("You are not signed in."), HTTPStatus.UNAUTHORIZED)
        return _html_response(status_page(self._updates.read_content(_read_query(request))))

    async def _show_now(self, request: Request) -> Response:
        self._check_signed_in(request)
        return _html_response(format_content(self._updates.read_content(_read_query(request))))

    async def _send_events(self, request: Request) -> Response:
        self._check_signed_in(request)
        return _EventResponse(
            lambda notify: self._updates.watch_changes(notify, lambda: self._is_signed_in(request))
        )

    # ── Signing in ──────────────────────────────────────────────────────────────────────────────────────────

    async def _make_link(self, request: Request) -> Response:
        """Create a sign-in link for a program of the user, which `authorization.py` has admitted."""
        if "origin" in request.headers or "cookie" in request.headers:
            raise RequestRejected(HTTPStatus.FORBIDDEN, f"no page may request a link; run: {SIGN_IN}")
        await read_json_body(request, _MAX_BODY_BYTES)
        code = self._sign_in.create_code(trio.current_time())
        return _json_response({"url": f"{self._url}open?code={code}"})

    async def _open_link(self, request: Request) -> Response:
        if request.method != "GET":
            raise RequestRejected(HTTPStatus.FORBIDDEN, "this link works once: open it in a browser")
        cookie = self._sign_in.exchange_code(request.query_params.get("code", ""), trio.current_time())
        if cookie is None and not self._is_signed_in(request):
            why = "This link was used before, or is older than two minutes."
            return _html_response(sign_in_page(why), HTTPStatus.UNAUTHORIZED)
        response = RedirectResponse("/", HTTPStatus.SEE_OTHER, _HEADERS)
        if cookie is not None:
            response.set_cookie(
                self._cookie,
                cookie,
                max_age=int(COOKIE_S),
                path="/",
                secure=request.scope["scheme"] == "https",
                httponly=True,
                samesite="strict",
            )
        return response

    def _is_signed_in(self, request: Request) -> bool:
        cookie = request.cookies.get(self._cookie, "")
        return self._sign_in.is_valid(cookie, trio.current_time())

    def _check_signed_in(self, request: Request) -> None:
        if not self._is_signed_in(request):
            raise RequestRejected(HTTPStatus.UNAUTHORIZED, f"sign in to the status page; run: {SIGN_IN}")

    # ── Changes ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _handle_pause(self, request: Request) -> Response:
        self._check_signed_in(request)
        _check_own_script(request)
        change = _decode_pause(await read_json_body(request, _MAX_BODY_BYTES))
        browsers = live_browsers(self._router.registry)
        target = Target(site=change.site, session=change.session)
        answers, problem = await change_pause(self._pauses, browsers, target, paused=change.paused)
        errors = [f"{each.browser}: {each.error}" for each in answers if each.error]
        return _json_response({"errors": [*errors, problem] if problem else errors})

    async def _handle_revoke(self, request: Request) -> Response:
        self._check_signed_in(request)
        _check_own_script(request)
        try:
            change = msgspec.json.decode(await read_json_body(request, _MAX_BODY_BYTES), type=_RevokeRequest)
        except msgspec.DecodeError as error:
            text = f"the approval cannot be revoked: {describe_problem(error)}"
            raise RequestRejected(HTTPStatus.BAD_REQUEST, text) from None
        revoke = self._updates.approvals.revoke_approval
        try:
            await trio.to_thread.run_sync(revoke, change.origin, change.words, change.client)
        except ApprovalsError as error:
            return _json_response({"errors": [str(error)]})
        return _json_response({"errors": []})


class _EventResponse(Response):
    """Server-sent events that announce changes. The page then requests the new content."""

    def __init__(self, watch_changes: Callable[[Callable[[bool], Awaitable[None]]], Awaitable[None]]) -> None:
        self._watch_changes = watch_changes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def pump(send_part: Callable[[bytes], Awaitable[None]]) -> None:
            await send_part(_OPENING)
            await self._watch_changes(lambda is_change: send_part(_CHANGED if is_change else _PING))

        await stream_events(Request(scope, receive), send, pump, _HEADERS)


def _check_own_script(request: Request) -> None:
    """Reject a change that the page's own script did not send. `authorization.py` has checked the Host."""
    is_own = request.headers.get("origin") == f"{request.scope['scheme']}://{request.headers.get('host')}"
    if not is_own or request.headers.get("x-mcpb-page") != "1":
        text = "only the status page may send this: its Origin and X-Mcpb-Page: 1 are missing"
        raise RequestRejected(HTTPStatus.FORBIDDEN, text)


def _decode_pause(body: bytes) -> _PauseRequest:
    try:
        change = msgspec.json.decode(body, type=_PauseRequest)
        if change.site:
            change.site = read_pattern(change.site)
    except msgspec.DecodeError as error:
        text = f"the pause request is not valid: {describe_problem(error)}"
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text) from None
    except origins.OriginError as error:
        raise RequestRejected(HTTPStatus.BAD_REQUEST, f"the pause request is not valid: {error}") from None
    if bool(change.site) == bool(change.session):
        raise RequestRejected(HTTPStatus.BAD_REQUEST, "name either a site or a session")
    return change


def _read_query(request: Request) -> str:
    return request.query_params.get("q", "")


def _html_response(content: Html, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(content.encode(errors="replace"), status, _HEADERS, "text/html")


def _json_response(content: object) -> Response:
    return Response(msgspec.json.encode(content), headers=_HEADERS, media_type="application/json")


def _file_route(name: str, media_type: str) -> Route:
    """Return the route of a file. It has no private content, so it needs no cookie."""
    content = (_HERE / name).read_bytes()

    async def respond(_request: Request) -> Response:
        return Response(content, headers=_HEADERS, media_type=media_type)

    return Route(f"/page/{name}", respond, methods=["GET"])
