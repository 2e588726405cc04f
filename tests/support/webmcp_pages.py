"""Pages that load the page module, and what a test reads from them: the browser's own registry of tools.

A page has WebMCP by the browser's flag or by the polyfill (`/polyfill`), or lacks it. `window.context` counts
the registrations and keeps `execute` of each tool; everything else is the browser's or the polyfill's.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tool_browser import Tab

ROOT = Path(__file__).parents[2]
POLYFILL = ROOT / "node_modules/@mcp-b/webmcp-polyfill/dist/index.iife.js"
FLAG = "--enable-features=WebMCPTesting"
_PAGE = ROOT / "tests/data/page_module.html"


class _Requests(http.server.BaseHTTPRequestHandler):
    """The pages, the module, and an endpoint that answers 401."""

    def do_GET(self) -> None:
        """Send a page or a file."""
        if self.path.startswith("/webmcp/"):
            self._send("text/javascript", (ROOT / self.path.removeprefix("/")).read_bytes())
        elif self.path == "/polyfill.js":
            self._send("text/javascript", POLYFILL.read_bytes())
        else:
            page = _PAGE.read_text()
            if self.path == "/polyfill":
                page = page.replace("<!-- polyfill -->", '<script src="/polyfill.js"></script>')
            self._send("text/html", page.encode())

    def do_POST(self) -> None:
        """Reject a request to an MCP endpoint."""
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if kind == "text/javascript":
            self.send_header("Cache-Control", "max-age=600")  # all tests of a file load the same
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Log nothing."""


@contextmanager
def serve_module_pages() -> Iterator[str]:
    """Serve the pages; yield their origin."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Requests) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()


class ModulePage:
    """A tab with such a page. Options are JavaScript, because some are functions."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        tab.wait_until("window.isReady")

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of an expression; promises are awaited."""
        return self.tab.evaluate(expression)

    def wait_until(self, expression: str) -> Any:
        """Wait until an expression is true; return its value."""
        return self.tab.wait_until(expression)

    def start(self, url: str, options: str = "") -> list[str]:
        """Register the tools of a server; return the handle's names."""
        names: list[str] = self.evaluate(
            f"start({{ url: {json.dumps(url)}, {options} }}).then(({{ tools }}) => tools)"
        )
        return names

    def fail(self, url: str, options: str = "") -> str:
        """Return the error with which a registration rejects."""
        outcome = self.evaluate(f"settle(start({{ url: {json.dumps(url)}, {options} }}))")
        assert "error" in outcome, outcome
        error: str = outcome["error"]
        return error

    def tools(self) -> dict[str, dict[str, Any]]:
        """Return the tools that the browser lists, by name."""
        return {tool["name"]: tool for tool in self.evaluate("tools()")}

    def call(self, name: str, arguments: Any = None) -> str:
        """Call a tool through the browser; return its text."""
        text: str = self.evaluate(f"call({json.dumps(name)}, {json.dumps(arguments or {})})")
        return text

    def execute(self, name: str, arguments: Any = None) -> dict[str, str]:
        """Call `execute` of a tool, whose errors the browser hides; return `value` or `error`."""
        script = f"settle(executes[{json.dumps(name)}]({json.dumps(arguments or {})}))"
        outcome: dict[str, str] = self.evaluate(script)
        return outcome

    def logged(self, level: str) -> list[str]:
        """Return the messages of a level."""
        return [text for each, text in self.evaluate("logged") if each == level]
