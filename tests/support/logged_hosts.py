"""Test server that answers for every `*.localhost` host and logs each request.

The log is the judge of "not requested": it holds what a browser really sent. WebSocket attempts are logged
as the GET requests that they begin with. Pages are set by the test:

    with serve_logged_hosts() as hosts:
        hosts.set_page("evil.localhost", "/", "<a href=...>")
        hosts.set_redirect("evil.localhost", "/go", hosts.url("bank.localhost", "/"))
        ...
        assert hosts.requests("bank.localhost") == []
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class LoggedRequest:
    """A request that arrived."""

    host: str
    """Of the Host header, without the port."""
    method: str
    path: str
    """With the query."""
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Response:
    """What a path is answered with."""

    body: bytes = b""
    content_type: str = HTML
    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


class LoggedHosts:
    """A running server; made by `serve_logged_hosts`."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._log: list[LoggedRequest] = []
        self._responses: dict[tuple[str, str], Response] = {}

    def url(self, host: str, path: str = "/") -> str:
        """Return the address of a path of a host."""
        return f"{self.origin(host)}{path}"

    def origin(self, host: str) -> str:
        """Return the origin of a host, as browsers write it."""
        return f"http://{host}:{self.port}"

    def set_response(self, host: str, path: str, response: Response) -> str:
        """Set what a path (without query) is answered with; return its address."""
        self._responses[host, path] = response
        return self.url(host, path)

    def set_page(self, host: str, path: str, body: str, **headers: str) -> str:
        """Set the HTML of a path; return its address. Header names are written with `_` for `-`."""
        written = {name.replace("_", "-"): value for name, value in headers.items()}
        page = f"<!doctype html><meta charset=utf-8>{body}"
        return self.set_response(host, path, Response(page.encode(), headers=written))

    def set_redirect(self, host: str, path: str, location: str) -> str:
        """Answer a path with a redirect; return its address."""
        return self.set_response(
            host, path, Response(status=HTTPStatus.FOUND, headers={"Location": location})
        )

    def requests(self, host: str) -> list[LoggedRequest]:
        """Return the requests to a host so far, favicons excepted."""
        return [it for it in list(self._log) if it.host == host and it.path != "/favicon.ico"]

    def clear(self) -> None:
        """Empty the log."""
        self._log.clear()

    def answer(self, request: LoggedRequest) -> Response:
        """Log a request and return its response. An unknown path is a page that names its host."""
        self._log.append(request)
        path = request.path.partition("?")[0]
        found = self._responses.get((request.host, path))
        return found or Response(f"<!doctype html><title>{request.host}</title>{request.host}{path}".encode())


@contextmanager
def serve_logged_hosts() -> Iterator[LoggedHosts]:
    """Serve all hosts on one port of the loopback address until the block ends."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = self.headers.get("Host", "").partition(":")[0]
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            response = hosts.answer(LoggedRequest(host, self.command, self.path, headers, body))
            self.send_response(response.status)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
            self.send_header("Cache-Control", "no-store")
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.body)

        do_POST = do_GET  # noqa: N815 - the base class's names
        do_OPTIONS = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore a browser that closes its connection early."""

    with Server(("127.0.0.1", 0), Handler) as server:
        hosts = LoggedHosts(int(server.server_address[1]))
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield hosts
        finally:
            server.shutdown()
