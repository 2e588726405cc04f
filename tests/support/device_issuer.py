"""An authorization server of another author: device authorization, keys and endpoints at paths of its own.

It signs its tokens itself, with the keys of `proxy_tokens.py`, and issues a refresh token only to clients
that ask for offline access, as many providers do.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from proxy_tokens import issuer_key, jwks, token

CLIENT_ID = "mcpb-7"
AUDIENCE = "mcpb-browsers"
USER = "ann"
INTERVAL_S = 1
REALM = "/realms/home"
METADATA = f"/.well-known/oauth-authorization-server{REALM}"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class DeviceIssuer:
    """The server; made by `serving_issuer`."""

    def __init__(self, origin: str) -> None:
        self.url = f"{origin}{REALM}"
        self.decisions: dict[str, str] = {}
        """By user code: an error of RFC 8628, or empty if the user has approved."""
        self.slow: set[str] = set()
        """User codes whose next poll is answered `slow_down`."""
        self.polls: dict[str, list[float]] = {}
        """By user code: seconds at which its client has polled."""
        self.resources: list[str] = []
        """What clients have named as the resource of their tokens."""
        self.refreshes = 0
        self._codes: dict[str, tuple[str, str]] = {}
        """By device code: user code and scope."""
        self._refresh_tokens: dict[str, str] = {}
        """Scope of each valid refresh token."""

    @property
    def config(self) -> str:
        """Settings of a proxy that trusts it."""
        return (
            f'[proxy]\nadmin_port = 0\nclient_id = "{CLIENT_ID}"\n[[proxy.issuers]]\nissuer = "{self.url}"\n'
            f'audience = "{AUDIENCE}"\njwks_url = "{self.url}/certs"\n'
        )

    def make_token(self, scope: str) -> str:
        now = time.time()
        return token(
            issuer_key("RS256", "rsa"),
            iss=self.url,
            aud=["account", AUDIENCE],
            sub=USER,
            user_id=None,
            connection_url=None,
            scope=scope,
            iat=now,
            exp=now + 300,
            jti=secrets.token_hex(8),
        )

    def document(self, path: str) -> Any:
        """What is at a path."""
        if path == f"{REALM}/certs":
            return json.loads(jwks(issuer_key("RS256", "rsa").jwk(), issuer_key().jwk(use="enc")))
        if path != METADATA:
            return None
        return {
            "issuer": self.url,
            "device_authorization_endpoint": f"{self.url}/auth/device",
            "token_endpoint": f"{self.url}/exchange",
            "jwks_uri": f"{self.url}/certs",
            "scopes_supported": ["openid", "offline_access", "mcpb:client", "mcpb:extension"],
        }

    def respond(self, path: str, form: dict[str, str]) -> tuple[int, Any]:
        """Status and body of the response to a form."""
        if form.get("client_id") != CLIENT_ID:
            return 401, {"error": "invalid_client"}
        match path.removeprefix(REALM), form.get("grant_type"):
            case "/auth/device", None:
                return 200, self._begin(form)
            case "/exchange", "refresh_token":
                return self._refresh(form["refresh_token"])
            case "/exchange", grant if grant == DEVICE_GRANT:
                return self._poll(form["device_code"])
        return 404, {"error": "invalid_request"}

    def _begin(self, form: dict[str, str]) -> Any:
        user_code = "-".join("".join(secrets.choice("BCDFGHJK") for _ in range(4)) for _ in range(2))
        device_code = secrets.token_hex(16)
        self._codes[device_code] = user_code, form["scope"]
        self.decisions[user_code] = "authorization_pending"
        self.polls[user_code] = []
        self.resources.append(form["resource"])
        return {
            "device_code": device_code,
            "user_code": user_code,
            "verification_uri": f"{self.url}/activate",
            "expires_in": 600,
            "interval": INTERVAL_S,
        }

    def _poll(self, device_code: str) -> tuple[int, Any]:
        user_code, scope = self._codes[device_code]
        self.polls[user_code].append(time.monotonic())
        if user_code in self.slow:
            self.slow.discard(user_code)
            return 400, {"error": "slow_down"}
        if error := self.decisions[user_code]:
            return 400, {"error": error}
        return 200, self._issue(scope)

    def _issue(self, scope: str) -> Any:
        found = {"access_token": self.make_token(scope), "token_type": "Bearer", "expires_in": 300}
        if "offline_access" not in scope.split():
            return found
        refresh_token = secrets.token_hex(16)
        self._refresh_tokens[refresh_token] = scope
        return {**found, "refresh_token": refresh_token}

    def _refresh(self, refresh_token: str) -> tuple[int, Any]:
        self.refreshes += 1
        scope = self._refresh_tokens.pop(refresh_token, "")
        return (200, self._issue(scope)) if scope else (400, {"error": "invalid_grant"})


@contextmanager
def serving_issuer() -> Iterator[DeviceIssuer]:
    """Serve one on a free port of this machine, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = issuer.document(self.path)
            self._respond(200 if found else 404, found)

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(text).items()}
            self._respond(*issuer.respond(self.path, form))

        def _respond(self, status: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = DeviceIssuer(f"http://127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield issuer
        server.shutdown()
