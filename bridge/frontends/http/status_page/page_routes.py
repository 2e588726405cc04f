"""The routes of the status page: who may see it, and what a person may do there.

A cookie is sent to every port of a host, and pages of its other ports count as the same site. So the cookie
opens these routes alone, and what changes anything also needs the page's own Origin and a header that only
its script sends, which no form can.
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
from bridge.frontends.http.status_page.html import SIGN_IN, Html, now, sign_in_page, status_page
from bridge.frontends.http.status_page.sign_in import COOKIE_S, SignIn
from bridge.frontends.http.status_page.updates import Watching
from bridge.hub.router import Router
from bridge.hub.rules.site_patterns import read_pattern
from bridge.state.pause_control import Target, live_browsers, pause
from bridge.state.pause_sync import PauseSync
from bridge.state.site_approvals import ApprovalsError
from http_serving.error_responses import RequestRejected
from http_serving.request_body import read_json_body
from http_serving.server_sent_events import stream_events

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
    """Either a site or a session."""

    paused: bool
    site: str = ""
    session: str = ""


class _RevokeRequest(msgspec.Struct, forbid_unknown_fields=True, rename={"words": "for"}):
    """One approval, as it is listed."""

    origin: str
    words: list[str]
    client: str = ""


class StatusPage:
    """What answers there. `url` is where browsers reach us, with a slash at its end."""

    def __init__(self, router: Router, pauses: PauseSync, watching: Watching, url: str) -> None:
        self._router = router
        self._pauses = pauses
        self._watching = watching
        self._url = url
        self._sign_in = SignIn()
        self._cookie = f"mcpb-page-{urlsplit(url).port or 80}"  # ports do not keep cookies apart

    def routes(self) -> list[Route]:
        """Everything that it is reached by."""
        return [
            Route("/", self._show, methods=["GET"]),
            Route("/open", self._open_link, methods=["GET"]),
            Route("/page/now", self._show_now, methods=["GET"]),
            Route("/page/events", self._tell, methods=["GET"]),
            Route("/page/links", self._make_link, methods=["POST"]),
            Route("/page/pause", self._pause, methods=["POST"]),
            Route("/page/revoke", self._revoke, methods=["POST"]),
            _file("page.css", "text/css"),
            _file("page.js", "text/javascript"),
        ]

    # ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _show(self, request: Request) -> Response:
        if not self._is_signed_in(request):
            return _html(sign_in_page("You are not signed in."), HTTPStatus.UNAUTHORIZED)
        return _html(status_page(self._watching.seen(_query(request))))

    async def _show_now(self, request: Request) -> Response:
        self._check_signed_in(request)
        return _html(now(self._watching.seen(_query(request))))

    async def _tell(self, request: Request) -> Response:
        self._check_signed_in(request)
        return _News(lambda tell: self._watching.tell_changes(tell, lambda: self._is_signed_in(request)))

    # ── Signing in ──────────────────────────────────────────────────────────────────────────────────────────

    async def _make_link(self, request: Request) -> Response:
        """For a program of the person's; the gate has asked it who it is."""
        if "origin" in request.headers or "cookie" in request.headers:
            raise RequestRejected(HTTPStatus.FORBIDDEN, f"no page may ask for a link; run: {SIGN_IN}")
        await read_json_body(request, _MAX_BODY_BYTES)
        code = self._sign_in.new_code(trio.current_time())
        return _json({"url": f"{self._url}open?code={code}"})

    async def _open_link(self, request: Request) -> Response:
        if request.method != "GET":
            raise RequestRejected(HTTPStatus.FORBIDDEN, "this link is good once: only the person may open it")
        cookie = self._sign_in.cookie_for(request.query_params.get("code", ""), trio.current_time())
        if cookie is None and not self._is_signed_in(request):
            why = "This link was used before, or is older than two minutes."
            return _html(sign_in_page(why), HTTPStatus.UNAUTHORIZED)
        answer = RedirectResponse("/", HTTPStatus.SEE_OTHER, _HEADERS)
        if cookie is not None:
            age = int(COOKIE_S)
            answer.set_cookie(self._cookie, cookie, max_age=age, path="/", httponly=True, samesite="strict")
        return answer

    def _is_signed_in(self, request: Request) -> bool:
        cookie = request.cookies.get(self._cookie, "")
        return self._sign_in.knows(cookie, trio.current_time())

    def _check_signed_in(self, request: Request) -> None:
        if not self._is_signed_in(request):
            raise RequestRejected(HTTPStatus.UNAUTHORIZED, f"sign in to the status page; run: {SIGN_IN}")

    # ── Doing ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _pause(self, request: Request) -> Response:
        self._check_signed_in(request)
        _check_own_script(request)
        asked = _read_pause(await read_json_body(request, _MAX_BODY_BYTES))
        browsers = live_browsers(self._router.registry)
        target = Target(site=asked.site, session=asked.session)
        answers, problem = await pause(self._pauses, browsers, target, paused=asked.paused)
        errors = [f"{each.browser}: {each.error}" for each in answers if each.error]
        return _json({"errors": [*errors, problem] if problem else errors})

    async def _revoke(self, request: Request) -> Response:
        self._check_signed_in(request)
        _check_own_script(request)
        try:
            asked = msgspec.json.decode(await read_json_body(request, _MAX_BODY_BYTES), type=_RevokeRequest)
        except msgspec.DecodeError as error:
            raise RequestRejected(HTTPStatus.BAD_REQUEST, f"this cannot be revoked: {error}") from None
        revoke = self._watching.approvals.revoke_approval
        try:
            await trio.to_thread.run_sync(revoke, asked.origin, asked.words, asked.client)
        except ApprovalsError as error:
            return _json({"errors": [str(error)]})
        return _json({"errors": []})


class _News(Response):
    """Server-sent events: that something has changed. What it is now is asked for."""

    def __init__(self, tell_changes: Callable[[Callable[[bool], Awaitable[None]]], Awaitable[None]]) -> None:
        self._tell_changes = tell_changes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def pump(send_part: Callable[[bytes], Awaitable[None]]) -> None:
            await send_part(_OPENING)
            await self._tell_changes(lambda is_change: send_part(_CHANGED if is_change else _PING))

        await stream_events(Request(scope, receive), send, pump, _HEADERS)


def _check_own_script(request: Request) -> None:
    """Only the page's own script asks for a change; the gate has seen to it that the Host is ours."""
    is_own = request.headers.get("origin") == f"http://{request.headers.get('host')}"
    if not is_own or request.headers.get("x-mcpb-page") != "1":
        text = "only the status page itself may ask for this: its Origin and X-Mcpb-Page: 1 are needed"
        raise RequestRejected(HTTPStatus.FORBIDDEN, text)


def _read_pause(body: bytes) -> _PauseRequest:
    try:
        asked = msgspec.json.decode(body, type=_PauseRequest)
        if asked.site:
            asked.site = read_pattern(asked.site)
    except (msgspec.DecodeError, origins.OriginError) as error:
        raise RequestRejected(HTTPStatus.BAD_REQUEST, f"this cannot be paused: {error}") from None
    if bool(asked.site) == bool(asked.session):
        raise RequestRejected(HTTPStatus.BAD_REQUEST, "say either a site or a session")
    return asked


def _query(request: Request) -> str:
    return request.query_params.get("q", "")


def _html(content: Html, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(content.encode(errors="replace"), status, _HEADERS, "text/html")


def _json(content: object) -> Response:
    return Response(msgspec.json.encode(content), headers=_HEADERS, media_type="application/json")


def _file(name: str, media_type: str) -> Route:
    """It says nothing of anybody: also who is not signed in gets it."""
    content = (_HERE / name).read_bytes()

    async def send(_request: Request) -> Response:
        return Response(content, headers=_HEADERS, media_type=media_type)

    return Route(f"/page/{name}", send, methods=["GET"])
