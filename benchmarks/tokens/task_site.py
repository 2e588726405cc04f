"""The site of the bench: the six pages, and five tasks whose outcome its log shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from benchmarks.tokens.pages import SIZES, make_page
from benchmarks.tokens.prose import Prose

ORDER = {
    "name": "Ada Albrecht",
    "email": "ada@example.com",
    "street": "Harbour Street 5",
    "code": "20457",
    "city": "Hamburg",
    "country": "Germany",
    "delivery": "express",
    "terms": "on",
    "note": "Ring twice",
}
"""Values of the form that has to be sent, by name."""
CUSTOMER = "Mara Novak"
PAGES = 4
"""Pages of the table."""
_ROWS = 20
USER, PASSWORD = "reader", "open sesame"
REPORT = b"quarter;sum\r\n1;812\r\n"
"""Content of the file to upload."""
HANG_S = 8.0
"""Seconds within which `/slow.js` does not answer."""


class Request(NamedTuple):
    """A request as the server has seen it."""

    path: str
    form: dict[str, str]
    """Fields of its body; of a file its content."""
    cookie: str


class Log(list[Request]):
    """The requests in their order."""

    def sent_to(self, path: str) -> list[dict[str, str]]:
        """Return the forms that were sent to a path."""
        return [request.form for request in self if request.path == path and request.form]

    def asked_for(self, path: str) -> bool:
        """Return whether a path was requested."""
        return any(request.path == path for request in self)


class Site(NamedTuple):
    """A running site."""

    url: str
    """Without a slash at its end."""
    elsewhere: str
    """The same server under another host name: another origin and another site."""
    log: Log


@contextmanager
def serving_site() -> Iterator[Site]:
    """Serve the site on a free port, for the time of the block."""
    log = Log()
    ended = threading.Event()
    handler = type("Handler", (_Handler,), {"log": log, "ended": ended})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield Site(f"http://localhost:{server.server_port}", f"http://127.0.0.1:{server.server_port}", log)
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def amounts(page: int) -> list[tuple[str, int]]:
    """Return the rows of a page of the table: customer and amount. One of each page is of CUSTOMER."""
    prose = Prose(f"table {page}")
    rows = [(prose.name(), prose.number(100, 999)) for _ in range(_ROWS)]
    rows = [(name if name != CUSTOMER else "Nils Okafor", amount) for name, amount in rows]
    rows[prose.number(0, _ROWS - 1)] = (CUSTOMER, prose.number(100, 999))
    return rows


def parsed_at(log: Log) -> float:
    """Return when the page `/hanging` reported that it was parsed, in `time.monotonic` seconds."""
    (request,) = [request for request in log if request.path == "/parsed"]
    return float(request.form["at"])


# ── Pages ───────────────────────────────────────────────────────────────────────────────────────────────────


def _page(title: str, body: str) -> str:
    head = f"<meta charset=utf-8><title>{title}</title>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>"


def _field(label: str, name: str, kind: str = "text") -> str:
    return f"<p><label>{label} <input name={name} type={kind}></label></p>"


def _checkout() -> str:
    countries = "".join(f"<option>{name}</option>" for name in ("Austria", "Denmark", "Germany", "Sweden"))
    radios = "".join(
        f"<label><input type=radio name=delivery value={name.lower()}> {name}</label>"
        for name in ("Standard", "Express")
    )
    return _page(
        "Checkout",
        "<h1>Checkout</h1><form method=post action=/ordered>"
        + _field("Full name", "name")
        + _field("Email", "email", "email")
        + _field("Street", "street")
        + _field("Postal code", "code")
        + _field("City", "city")
        + f"<p><label>Country <select name=country>{countries}</select></label></p><p>{radios}</p>"
        "<p><label>Note <textarea name=note></textarea></label></p>"
        "<p><label><input type=checkbox name=terms> I accept the terms</label></p>"
        "<button>Place the order</button></form>",
    )


def _table(page: int) -> str:
    rows = "".join(
        f"<tr><td>{1000 + page * _ROWS + index}</td><td>{name}</td><td>{amount}</td><td>Paid</td></tr>"
        for index, (name, amount) in enumerate(amounts(page))
    )
    links = "".join(f'<a href="/table?page={number}">{number}</a> ' for number in range(1, PAGES + 1))
    following = f'<a href="/table?page={page + 1}">Next page</a>' if page < PAGES else ""
    return _page(
        "Invoices",
        f"<h1>Invoices</h1><table><thead><tr><th>Number</th><th>Customer</th><th>Amount</th><th>State</th></tr>"
        f"</thead><tbody>{rows}</tbody></table><nav aria-label=Pages>{links}{following}</nav>",
    )


_FILES = _page(
    "Reports",
    "<h1>Reports</h1><form method=post action=/uploaded enctype=multipart/form-data><label>Your report "
    "<input type=file name=report></label> <button>Send</button></form>"
    '<p><a href="/summary.csv" download>Download the summary</a></p>',
)
_BOOKING = """<h1>Booking</h1><p>Choose a seat and pay.</p><seat-choice></seat-choice>
<iframe title=Payment src="{elsewhere}/payment"></iframe><script>
customElements.define("seat-choice", class extends HTMLElement {{
  connectedCallback() {{
    const root = this.attachShadow({{ mode: "open" }});
    root.innerHTML = "<label>Seat <select><option>Aisle<option>Window</select></label>" +
      "<button>Reserve</button>";
    root.querySelector("button").onclick = () => fetch("/reserved", {{ method: "POST",
      body: new URLSearchParams({{ seat: root.querySelector("select").value }}) }});
  }}
}});
</script>"""
_PAYMENT = _page(
    "Payment",
    "<form method=post action=/paid>"
    + _field("Card number", "card")
    + _field("Holder", "holder")
    + "<button>Pay</button></form>",
)
_LOGIN = _page(
    "Sign in",
    "<h1>Sign in</h1><form method=post action=/account>"
    + _field("User", "user")
    + _field("Password", "password", "password")
    + "<button>Sign in</button></form>",
)
_HANGING = _page(
    "Hanging",
    "<h1>A page</h1><p>Its script never comes.</p><script async src=/slow.js></script><script>"
    'addEventListener("DOMContentLoaded", () => navigator.sendBeacon("/parsed", "at=now"));</script>',
)


_KINDS = {"/summary.csv": "text/csv", "/slow.js": "text/javascript"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log: Log
    ended: threading.Event

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._serve(_read_form(self.headers["Content-Type"] or "", body))

    def _serve(self, form: dict[str, str]) -> None:
        url = urlsplit(self.path)
        if url.path == "/parsed":
            form = {"at": str(time.monotonic())}
        self.log.append(Request(url.path, form, self.headers["Cookie"] or ""))
        if url.path == "/slow.js":
            self.ended.wait(HANG_S)
        page = int(parse_qs(url.query).get("page", ["1"])[0])
        self._send(self._content(url.path, form, page), url.path)

    def _content(self, path: str, form: dict[str, str], page: int) -> str:
        port = self.connection.getsockname()[1]
        if path.strip("/") in SIZES:
            return make_page(path.strip("/"))
        known = {
            "/checkout": _checkout(),
            "/ordered": _page("Ordered", "<h1>Thank you</h1><p>Your order has the number 4711.</p>"),
            "/table": _table(page),
            "/files": _FILES,
            "/uploaded": _page("Uploaded", f"{_FILES}<p>The report has arrived.</p>"),
            "/summary.csv": "quarter;sum\r\n1;812\r\n2;640\r\n",
            "/booking": _page("Booking", _BOOKING.format(elsewhere=f"http://127.0.0.1:{port}")),
            "/payment": _PAYMENT,
            "/paid": _page("Paid", "<p>Paid. The receipt has the number 93.</p>"),
            "/login": _LOGIN,
            "/hanging": _HANGING,
        }
        if path == "/account":
            return self._account(form)
        return known.get(path, "")

    def _account(self, form: dict[str, str]) -> str:
        if (form.get("user"), form.get("password")) != (USER, PASSWORD):
            return _page("Sign in", "<p>Wrong user or password.</p>")
        return _page("Account", "<h1>Your account</h1><p>Your balance is 128 EUR.</p>")

    def _send(self, text: str, path: str) -> None:
        body = text.encode()
        self.send_response(200 if text or path in {"/parsed", "/slow.js"} else 404)
        kind = _KINDS.get(path, "text/html; charset=utf-8")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Say nothing: people read what is printed around it."""


def _read_form(kind: str, body: bytes) -> dict[str, str]:
    if not kind.startswith("multipart/"):
        return {name: values[0] for name, values in parse_qs(body.decode()).items()}
    message = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body, policy=policy.HTTP)
    parts = message.iter_parts() if message.is_multipart() else ()
    return {
        str(part["Content-Disposition"].params["name"]): bytes(part.get_payload(decode=True) or b"").decode()
        for part in parts
    }
