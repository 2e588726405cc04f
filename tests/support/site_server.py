"""The town library: a small web site with one page for everything that a browser's tools must cope with.

Pages are files of tests/data/site. Where one has `{{name}}`, the server writes what the route says, else what
the query says, else what follows `=`. A cookie names the visitor of kept entries. Each page has two origins:

    with serving_site() as site:
        site.url        # http://localhost:PORT
        site.elsewhere  # http://127.0.0.1:PORT, the same pages: as a frame it is a process of its own
"""

from __future__ import annotations

import hashlib
import html
import http.server
import itertools
import json
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

SITE = Path(__file__).parents[1] / "data/site"

READER, PASSWORD = "ada", "lovelace"
"""Who can log in."""

BOOKS = (
    ("Sea Charts for Beginners", "M. Okafor", 1987),
    ("The Lighthouse Keeper's Year", "A. Brandt", 1954),
    ("A Field Guide to Clouds", "J. Moreau", 2011),
    ("Bread, Slowly", "T. Lindqvist", 2019),
    ("The Night Ferry", "A. Brandt", 1961),
    ("Knots and What They Hold", "P. Iyer", 1999),
    ("Letters from a Small Harbour", "S. Vance", 1973),
    ("Clouds over Water", "J. Moreau", 2014),
)
"""Title, author, year; a book's number is its place, from 1."""

APPLICATION = (("name", "email", "birthday"), ("branch", "subjects", "frequency"), ("card", "comment"))
"""What the three pages of the application for membership ask."""

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".pdf": "application/pdf",
}
HTML, JSON = KINDS[".html"], "application/json"
PICTURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="80" height="40"><rect width="80" height="40"/></svg>'
)
PLACEHOLDER = re.compile(r"\{\{(\w+)(?:=([^}]*))?\}\}")


@dataclass(frozen=True)
class Site:
    """A running site."""

    url: str
    """Its origin."""
    elsewhere: str
    """Its other origin."""


@dataclass
class Visitor:
    """What the site remembers for one cookie."""

    reader: str = ""
    """Who has logged in."""
    application: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What a browser asks."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    visitor: Visitor
    elsewhere: str

    @property
    def form(self) -> dict[str, str]:
        """The fields of a plain form; of a name that comes several times all values, with commas."""
        fields: dict[str, list[str]] = {}
        for name, value in parse_qsl(self.body.decode(), keep_blank_values=True):
            fields.setdefault(name, []).append(value)
        return {name: ", ".join(values) for name, values in fields.items()}

    def number(self, name: str, default: int) -> int:
        """A whole number of the query."""
        return int(self.query.get(name, default))


@dataclass(frozen=True)
class Answer:
    """What it is told."""

    body: str | bytes = ""
    kind: str = HTML
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


Route = Callable[[Request], Answer]
ROUTES: dict[str, Route] = {}
"""By method and path; what is not here is a file of tests/data/site."""


def route(*methods_and_paths: str) -> Callable[[Route], Route]:
    """Serve these by the function."""

    def serve(function: Route) -> Route:
        ROUTES.update(dict.fromkeys(methods_and_paths, function))
        return function

    return serve


def page(name: str, request: Request, **said: str) -> Answer:
    """A file of tests/data/site with its placeholders filled; `said` is HTML."""

    def fill(placeholder: re.Match[str]) -> str:
        name, default = placeholder.groups()
        asked = {**request.query, "elsewhere": request.elsewhere}
        return said.get(name) or html.escape(asked.get(name, default or ""))

    text = (SITE / name).read_text("utf-8")
    return Answer(PLACEHOLDER.sub(fill, text), KINDS[Path(name).suffix])


def seen_next(path: str) -> Answer:
    """Look there instead."""
    return Answer(status=HTTPStatus.SEE_OTHER, headers={"Location": path})


def as_json(value: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """A value for scripts."""
    return Answer(json.dumps(value), JSON, status)


# The reader's card: log in, look, log out.


@route("POST /login")
def log_in(request: Request) -> Answer:
    """A right password opens the account, a wrong one the form again."""
    if (request.form.get("reader"), request.form.get("password")) != (READER, PASSWORD):
        return page("login.html", request, said="This password is wrong.")
    request.visitor.reader = READER
    return seen_next("/account.html")


@route("GET /account.html")
def account(request: Request) -> Answer:
    """For who has logged in."""
    if not request.visitor.reader:
        return seen_next("/login.html?said=Please+log+in+first.")
    return page("account.html", request, reader=html.escape(request.visitor.reader))


@route("POST /logout")
def log_out(request: Request) -> Answer:
    """The card is put away."""
    request.visitor.reader = ""
    return seen_next("/login.html?said=You+have+logged+out.")


# The catalogue.


@route("GET /search.html")
def search(request: Request) -> Answer:
    """Books with the words in title or author."""
    words = request.query.get("words", "")
    found = [
        f'<li><a href="/book.html?number={number}">{html.escape(title)}</a> by {html.escape(author)}</li>'
        for number, (title, author, _) in enumerate(BOOKS, 1)
        if words and words.lower() in f"{title} {author}".lower()
    ]
    told = (
        f"{len(found)} found for “{html.escape(words)}”" if words else "Type a word of a title or an author."
    )
    return page("search.html", request, told=told, found="\n".join(found))


@route("GET /book.html")
def book(request: Request) -> Answer:
    """One book."""
    title, author, year = BOOKS[request.number("number", 1) - 1]
    return page("book.html", request, title=html.escape(title), author=html.escape(author), year=str(year))


# The application for membership: three pages, then what was said on all of them.


@route("POST /membership-1.html", "POST /membership-2.html", "POST /membership-3.html")
def apply(request: Request) -> Answer:
    """Keep the answers of one page and show the next."""
    step = int(request.path.removeprefix("/membership-").removesuffix(".html"))
    kept = {name: request.form.get(name, "") for name in APPLICATION[step - 1]}
    request.visitor.application.update(kept)
    return seen_next(f"/membership-{step + 1}.html" if step < len(APPLICATION) else "/membership-done.html")


@route("GET /membership-done.html")
def applied(request: Request) -> Answer:
    """Everything that was said, or the first page that says nothing yet."""
    said = request.visitor.application
    for step, names in enumerate(APPLICATION, 1):
        if not all(name in said for name in names):
            return seen_next(f"/membership-{step}.html")
    rows = (f"<dt>{name}</dt><dd>{html.escape(said[name])}</dd>" for name in itertools.chain(*APPLICATION))
    return page("membership-done.html", request, rows="\n".join(rows))


# Files, there and back.


@dataclass(frozen=True)
class Uploaded:
    """A file as it arrived."""

    field: str
    name: str
    size: int
    sha256: str


def uploaded_in(request: Request) -> list[Uploaded]:
    """The files of a multipart/form-data body (RFC 7578)."""
    boundary = b"\r\n--" + request.headers["Content-Type"].partition("boundary=")[2].encode()
    files = []
    for part in (b"\r\n" + request.body).split(boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        names = dict(re.findall(r'\b(name|filename)="([^"]*)"', head.decode()))
        if names.get("filename"):
            digest = hashlib.sha256(content).hexdigest()
            files.append(Uploaded(names["name"], names["filename"], len(content), digest))
    return files


@route("POST /upload")
def upload(request: Request) -> Answer:
    """Name, size and SHA-256 of each file."""
    rows = (
        f"<tr><td>{file.field}</td><td>{html.escape(file.name)}</td><td>{file.size}</td>"
        f"<td><code>{file.sha256}</code></td></tr>"
        for file in uploaded_in(request)
    )
    return page("uploaded.html", request, rows="\n".join(rows))


@route("GET /loans.csv")
def loans(request: Request) -> Answer:
    """A file that is saved, not shown."""
    lines = ["title,author,year", *(f'"{title}","{author}",{year}' for title, author, year in BOOKS)]
    saved = {"Content-Disposition": 'attachment; filename="loans.csv"'}
    return Answer("\n".join(lines) + "\n", "text/csv; charset=utf-8", headers=saved)


# Much of something.


@route("GET /many.html")
def many(request: Request) -> Answer:
    """`elements` elements in one list, five for each book."""
    books = range(1, request.number("elements", 50_000) // 5 + 1)
    items = (
        f'<li><span>Book {n}</span> <a href="#{n}">Details of {n}</a> <button>Reserve {n}</button> '
        f'<input aria-label="Copies of {n}"></li>'
        for n in books
    )
    return page("many.html", request, items="\n".join(items))


@route("GET /long.html")
def long(request: Request) -> Answer:
    """`bytes` bytes of text, or a little more, in numbered paragraphs."""
    sentence = (
        "The harbour was quiet, and nobody who came down the stairs that morning said a word about it. "
    )
    wanted = request.number("bytes", 5_000_000)
    count = -(-wanted // (len(sentence) * 8))
    paragraphs = (f"<p>{n}. {sentence * 8}</p>" for n in range(1, count + 1))
    return page("long.html", request, paragraphs="\n".join(paragraphs))


@route("GET /more")
def more(request: Request) -> Answer:
    """Twenty entries of a list that never ends."""
    start = request.number("from", 0)
    return as_json([f"Entry {n}" for n in range(start + 1, start + 21)])


# What can be fetched, and how that fails.


@route("GET /opening-hours.json")
def opening_hours(request: Request) -> Answer:
    """Some JSON."""
    return as_json({"monday": "9-18", "sunday": None})


@route("GET /echo", "POST /echo")
def echo(request: Request) -> Answer:
    """What the server was sent."""
    sent = {name.lower(): value for name, value in request.headers.items()}
    return as_json({"query": dict(request.query), "headers": sent, "body": request.body.decode()})


@route("GET /status")
def status(request: Request) -> Answer:
    """An answer with the `code` that is asked for."""
    code = HTTPStatus(request.number("code", 404))
    return as_json({"status": code, "phrase": code.phrase}, code)


@route("GET /redirect")
def redirect(request: Request) -> Answer:
    """`hops` times from here to here, then to the page `to`."""
    hops, to = request.number("hops", 3), request.query.get("to", "/arrived.html")
    where = to if hops == 0 else f"/redirect?{urlencode({'hops': hops - 1, 'to': to})}"
    return Answer(status=HTTPStatus.FOUND, headers={"Location": where})


@route("GET /slow", "GET /slow.svg", "GET /slow.js", "GET /never.svg")
def slow(request: Request) -> Answer:
    """What the server has held (`HELD`)."""
    late = {
        "/slow": Answer("<!doctype html><title>Slow</title><h1>Here at last</h1>"),
        "/slow.js": Answer('document.querySelector("#script").textContent = "ran";', KINDS[".js"]),
    }
    return late.get(request.path, Answer(PICTURE, "image/svg+xml"))


HELD = {"/slow", "/slow.svg", "/slow.js"}
"""What is answered `ms` milliseconds late; /never.svg when the site ends."""


@route("GET /favicon.ico")
def icon(request: Request) -> Answer:
    """None."""
    return Answer(status=HTTPStatus.NO_CONTENT)


@route("GET /")
def first(request: Request) -> Answer:
    """What there is."""
    return page("index.html", request)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.visitors: dict[str, Visitor] = {}
        self.ended = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(http.server.BaseHTTPRequestHandler):
    @property
    def site(self) -> _Server:
        assert isinstance(self.server, _Server)
        return self.server

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        token = self._token()
        request = self._request(self.site.visitors.setdefault(token, Visitor()))
        self._hold(request)
        try:
            answer = self._answer(request)
        except (LookupError, ValueError) as error:
            answer = Answer(html.escape(f"{request.path}: {error}"), status=HTTPStatus.BAD_REQUEST)
        try:
            self._send(answer, token)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # who asked has left, which some pages are for

    def _token(self) -> str:
        cookie = SimpleCookie(self.headers.get("Cookie", "")).get("visitor")
        return cookie.value if cookie else secrets.token_hex(8)

    def _request(self, visitor: Visitor) -> Request:
        target = urlsplit(self.path)
        host = "127.0.0.1" if self.headers.get("Host", "").startswith("localhost") else "localhost"
        return Request(
            target.path,
            dict(parse_qsl(target.query, keep_blank_values=True)),
            dict(self.headers.items()),
            self.rfile.read(int(self.headers.get("Content-Length", 0))),
            visitor,
            f"http://{host}:{self.site.port}",
        )

    def _hold(self, request: Request) -> None:
        if request.path in HELD:
            self.site.ended.wait(request.number("ms", 1000) / 1000)
        if request.path == "/never.svg":
            self.site.ended.wait()

    def _answer(self, request: Request) -> Answer:
        if found := ROUTES.get(f"{self.command} {request.path}"):
            return found(request)
        name = request.path.removeprefix("/")
        if self.command != "GET" or name not in {file.name for file in SITE.iterdir()}:
            return Answer(
                f"<h1>There is no {html.escape(request.path)} here</h1>", status=HTTPStatus.NOT_FOUND
            )
        if Path(name).suffix == ".html":
            return page(name, request)
        return Answer((SITE / name).read_bytes(), KINDS[Path(name).suffix])

    def _send(self, answer: Answer, token: str) -> None:
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body)))
        if token not in self.headers.get("Cookie", ""):
            self.send_header("Set-Cookie", f"visitor={token}; HttpOnly; SameSite=Lax; Path=/")
        self.send_header("Cache-Control", "no-cache")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@contextmanager
def serving_site() -> Iterator[Site]:
    """The site, until the block ends; what is held then is let go."""
    with _Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield Site(f"http://localhost:{server.port}", f"http://127.0.0.1:{server.port}")
        finally:
            server.ended.set()
            server.shutdown()
