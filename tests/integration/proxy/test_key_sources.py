"""Key sources with a real HTTP server and real files: rotation, and servers that fail in every way.

The clock stands still unless a test moves it.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send
from trio.testing import MockClock

from certificates import make_certificate
from http_frontend import serving_app, until
from proxy_tokens import AUDIENCE, CLIENT_URL, ISSUER, NOW, RULES, SECRET, hmac_token, issuer_key, jwks, token
from websocket_proxy.claims import TokenRejected
from websocket_proxy.key_set import KeyLookupError, KeySetError, LookupFault, parse_jwks, parse_pem
from websocket_proxy.keys import FileKeys, UrlKeys
from websocket_proxy.protocol import RejectionReason, Role
from websocket_proxy.token_verifier import (
    IssuerError,
    IssuerSettings,
    TokenVerifier,
    TrustedIssuer,
    open_issuer,
)

ADDRESSES = {Role.CLIENT: [CLIENT_URL], Role.EXTENSION: []}
FIRST, SECOND = issuer_key(), issuer_key(kid="key-2")
MB = 1024 * 1024


class KeyServer:
    """HTTP server of a key set. `hold` makes it wait; `respond` replaces its response."""

    def __init__(self) -> None:
        self.body = jwks(FIRST.jwk())
        self.fetches = 0
        self.respond: Callable[[str], Response] = lambda _: Response(self.body)
        self.hold: trio.Event | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys.json?client=7"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.fetches += 1
        if self.hold is not None:
            await self.hold.wait()
        await self.respond(scope["path"])(scope, receive, send)


@pytest.fixture
async def server() -> AsyncIterator[KeyServer]:
    found = KeyServer()
    async with serving_app(found) as found.port:
        yield found


@pytest.fixture
def clock(mock_clock: MockClock) -> MockClock:
    return mock_clock


@asynccontextmanager
async def verifying(keys: UrlKeys) -> AsyncIterator[TokenVerifier]:
    verifier = TokenVerifier([TrustedIssuer(RULES, keys)], ADDRESSES, lambda: NOW)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(verifier.run)
        yield verifier
        nursery.cancel_scope.cancel()


@contextmanager
def rejects(reason: RejectionReason) -> Iterator[None]:
    with pytest.raises(TokenRejected) as caught:
        yield
    assert caught.value.reason is reason


async def verify(verifier: TokenVerifier, text: str) -> str:
    return (await verifier.verify(text, Role.CLIENT)).user_id


def problem_of(keys: UrlKeys) -> str:
    return keys.state().problem


# ── Rotation ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_first_token_waits_for_the_key_set(server: KeyServer, clock: MockClock) -> None:
    async with verifying(UrlKeys(server.url)) as verifier:
        assert await verify(verifier, token()) == "user-1"
        assert await verify(verifier, token(header={"kid": None})) == "user-1"
        assert server.fetches == 1
        ((name, state),) = verifier.key_states()
        assert (name, state.key_count, state.problem) == (ISSUER, 1, "")
        assert state.source == f"http://127.0.0.1:{server.port}/keys.json"


async def test_a_new_key_is_fetched_with_its_first_token(server: KeyServer, clock: MockClock) -> None:
    async with verifying(UrlKeys(server.url)) as verifier:
        await verify(verifier, token())
        server.body = jwks(FIRST.jwk(), SECOND.jwk())
        assert await verify(verifier, token(SECOND)) == "user-1"
        assert await verify(verifier, token(FIRST)) == "user-1"
        assert server.fetches == 2


async def test_unknown_keys_cause_one_fetch_in_30_seconds(server: KeyServer, clock: MockClock) -> None:
    async with verifying(UrlKeys(server.url)) as verifier:
        await verify(verifier, token())
        rejected = []

        async def send_unknown(number: int) -> None:
            with rejects(RejectionReason.UNKNOWN_KEY):
                await verify(verifier, token(header={"kid": f"unknown-{number}"}))
            rejected.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(send_unknown, number)
        assert (len(rejected), server.fetches) == (1000, 2)
        clock.jump(29)
        await send_unknown(1)
        assert server.fetches == 2
        clock.jump(1)
        await send_unknown(2)
        assert server.fetches == 3


async def test_a_removed_key_is_rejected_after_the_next_fetch(server: KeyServer, clock: MockClock) -> None:
    keys = UrlKeys(server.url)
    async with verifying(keys) as verifier:
        await verify(verifier, token())
        server.body = jwks(SECOND.jwk(), issuer_key(kid="key-3").jwk())
        clock.jump(600)
        await until(lambda: keys.state().key_count == 2)
        with rejects(RejectionReason.UNKNOWN_KEY):
            await verify(verifier, token())
        with rejects(RejectionReason.UNKNOWN_KEY):
            await verify(verifier, token(SECOND, header={"kid": None}))


async def test_a_token_with_a_known_key_does_not_wait_for_a_fetch(
    server: KeyServer, clock: MockClock
) -> None:
    async with verifying(UrlKeys(server.url)) as verifier, trio.open_nursery() as nursery:
        await verify(verifier, token())
        server.hold = trio.Event()
        server.body = jwks(FIRST.jwk(), SECOND.jwk())
        found = []

        async def send_new() -> None:
            found.append(await verify(verifier, token(SECOND)))

        nursery.start_soon(send_new)
        await until(lambda: server.fetches == 2)
        assert await verify(verifier, token()) == "user-1"
        with rejects(RejectionReason.MALFORMED):
            await verify(verifier, "x")
        assert found == []
        server.hold.set()
        await until(lambda: found == ["user-1"])


# ── Servers that fail ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_set_stays_in_use_for_24_hours_while_its_server_is_down(
    server: KeyServer, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    keys = UrlKeys(server.url)
    async with verifying(keys) as verifier:
        await verify(verifier, token())
        server.respond = lambda _: Response("down", 503)
        for _ in range(144):
            clock.jump(600)
            fetches = server.fetches
            await until(lambda fetches=fetches: server.fetches > fetches)  # type: ignore[misc]
        assert await verify(verifier, token()) == "user-1"
        await until(lambda: "status 503" in problem_of(keys))
        assert not keys.state().is_stale
        clock.jump(1)
        with rejects(RejectionReason.UNKNOWN_KEY):
            await verify(verifier, token())
        assert keys.state().is_stale
        server.respond = lambda _: Response(server.body)
        clock.jump(30)
        assert await verify(verifier, token()) == "user-1"
    assert "client=7" not in caplog.text


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (Response(b" " * 2 * MB + jwks(FIRST.jwk())), "longer than 1048576 bytes"),
        (Response(jwks(FIRST.jwk()), 404), "status 404"),
        (Response("<html>"), "is not a JWK set"),
        (Response("[" * 200_000), "is not a JWK set"),
        (RedirectResponse("https://other.example/keys"), "another origin"),
        (RedirectResponse("http://localhost:1/keys"), "another origin"),
        (RedirectResponse("http://other.example/keys"), "not https"),
        (RedirectResponse("/again"), "more than 3 times"),
        (RedirectResponse("http://[::1"), "not a valid URL"),
    ],
)
async def test_a_response_that_is_no_small_key_set_is_rejected(
    server: KeyServer, clock: MockClock, response: Response, problem: str
) -> None:
    server.respond = lambda _: response
    keys = UrlKeys(server.url)
    async with verifying(keys) as verifier:
        with rejects(RejectionReason.UNKNOWN_KEY):
            await verify(verifier, token())
        assert problem in problem_of(keys)
        server.respond = lambda _: Response(server.body)
        clock.jump(30)
        assert await verify(verifier, token()) == "user-1"
        assert problem_of(keys) == ""


async def test_a_redirect_within_the_origin_is_followed(server: KeyServer, clock: MockClock) -> None:
    def respond(path: str) -> Response:
        return Response(server.body) if path == "/moved" else RedirectResponse("/moved", 302)

    server.respond = respond
    async with verifying(UrlKeys(server.url)) as verifier:
        assert await verify(verifier, token()) == "user-1"


async def test_a_slow_server_is_given_up_after_10_seconds(server: KeyServer, clock: MockClock) -> None:
    server.hold = trio.Event()
    keys = UrlKeys(server.url)
    async with verifying(keys) as verifier, trio.open_nursery() as nursery:
        rejected = trio.Event()

        async def send() -> None:
            with rejects(RejectionReason.UNKNOWN_KEY):
                await verify(verifier, token())
            rejected.set()

        nursery.start_soon(send)
        await until(lambda: server.fetches == 1)
        clock.jump(10)
        await rejected.wait()
        assert "10 s" in problem_of(keys)
        server.hold.set()


async def test_nothing_listens_at_the_address(clock: MockClock) -> None:
    keys = UrlKeys("http://127.0.0.1:1/keys")
    async with verifying(keys) as verifier:
        with rejects(RejectionReason.UNKNOWN_KEY):
            await verify(verifier, token())
    assert "cannot be reached at port 1" in problem_of(keys)


async def test_a_server_that_sends_no_http_is_rejected(clock: MockClock) -> None:
    async def send_rubbish(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"SSH-2.0-OpenSSH_9\r\n" * 10)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, send_rubbish, 0)
        keys = UrlKeys(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/")
        async with verifying(keys) as verifier:
            with rejects(RejectionReason.UNKNOWN_KEY):
                await verify(verifier, token())
        assert "no valid HTTP/1.1" in problem_of(keys)
        nursery.cancel_scope.cancel()


async def test_a_server_with_tls_needs_a_trusted_certificate(tmp_path: Path, clock: MockClock) -> None:
    server, made = KeyServer(), make_certificate(tmp_path)
    async with serving_app(server, tls=made.server_context()) as port:
        url = f"https://localhost:{port}/keys"
        async with verifying(UrlKeys(url, made.client_context())) as verifier:
            assert await verify(verifier, token()) == "user-1"
        keys = UrlKeys(url)
        async with verifying(keys) as verifier:
            with rejects(RejectionReason.UNKNOWN_KEY):
                await verify(verifier, token())
        assert "certificate of the server is not trusted" in problem_of(keys)
        keys = UrlKeys(url, ssl.create_default_context())
        async with verifying(keys) as verifier:
            with rejects(RejectionReason.UNKNOWN_KEY):
                await verify(verifier, token())


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example/keys",
        "http://192.0.2.1/keys",
        "https://user:secret@login.example/keys",
        "ftp://login.example/keys",
        "file:///etc/passwd",
        "https:///keys",
        "https://[::1/keys",
        "https://login.example/ke ys",
        "",
    ],
)
async def test_an_address_that_is_no_https_url_is_rejected(url: str) -> None:
    with pytest.raises(KeySetError) as caught:
        UrlKeys(url)
    assert "secret" not in str(caught.value)


# ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_key_file_is_read_again_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(jwks(FIRST.jwk()))
    keys = FileKeys(path, parse_jwks)
    assert (await keys.find("key-1")).key_id == "key-1"
    path.write_bytes(jwks(SECOND.jwk(), issuer_key(kid="key-3").jwk()))
    assert (await keys.find("key-2")).key_id == "key-2"
    with pytest.raises(KeyLookupError):
        await keys.find("key-1")
    path.write_bytes(b"{")
    with pytest.raises(KeyLookupError):
        await keys.find("key-2")
    assert "is not a JWK set" in keys.state().problem
    assert str(path) in caplog.text
    path.unlink()
    with pytest.raises(KeyLookupError):
        await keys.find("key-2")
    path.symlink_to(path)
    with pytest.raises(KeyLookupError):
        await keys.find("key-2")


async def test_a_key_file_is_usable_once_its_mode_is_corrected(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(FIRST.pem)
    path.chmod(0o666)
    keys = FileKeys(path, parse_pem)
    with pytest.raises(KeyLookupError) as caught:
        await keys.find("key-1")
    assert caught.value.fault is LookupFault.UNAVAILABLE
    path.chmod(0o644)
    assert (await keys.find("key-1")).algorithm == "EdDSA"
    assert FileKeys(tmp_path / "a\0b", parse_pem).state().problem


async def test_each_kind_of_key_file_verifies_tokens(tmp_path: Path) -> None:
    key = issuer_key("RS256")
    (tmp_path / "key.pem").write_bytes(key.pem)
    (tmp_path / "keys.json").write_bytes(jwks(key.jwk()))
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET + b"\n")
    secret.chmod(0o600)
    settings: list[tuple[str, dict[str, Any]]] = [
        (token(key), {"key_file": str(tmp_path / "key.pem")}),
        (token(key._replace(alg="PS256")), {"key_file": str(tmp_path / "key.pem"), "algorithm": "PS256"}),
        (token(key), {"jwks_file": str(tmp_path / "keys.json")}),
        (hmac_token(SECRET), {"secret_file": str(secret)}),
    ]
    for text, members in settings:
        issuer = open_issuer(IssuerSettings(issuer=ISSUER, audience=AUDIENCE, **members))
        verifier = TokenVerifier([issuer], ADDRESSES, lambda: NOW)
        assert await verify(verifier, text) == "user-1"


def test_key_files_that_other_users_can_change_or_read_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for content, mode, member in [
        (FIRST.pem, 0o666, "key_file"),
        (jwks(FIRST.jwk()), 0o622, "jwks_file"),
        (SECRET, 0o644, "secret_file"),
        (b"x" * 31, 0o600, "secret_file"),
        (b" " * (MB + 1), 0o600, "jwks_file"),
    ]:
        path.write_bytes(content)
        path.chmod(mode)
        members: dict[str, Any] = {member: str(path)}
        with pytest.raises(IssuerError) as caught:
            open_issuer(IssuerSettings(issuer=ISSUER, audience=AUDIENCE, **members))
        assert str(path) in str(caught.value)
        assert SECRET.decode() not in str(caught.value)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(IssuerError):
        open_issuer(IssuerSettings(issuer=ISSUER, audience=AUDIENCE, key_file=str(path)))


@pytest.mark.parametrize(
    "settings",
    [
        IssuerSettings(issuer="", audience=AUDIENCE, key_file="k"),
        IssuerSettings(issuer=ISSUER, audience="", key_file="k"),
        IssuerSettings(issuer=ISSUER, audience=AUDIENCE),
        IssuerSettings(issuer=ISSUER, audience=AUDIENCE, key_file="k", secret_file="s"),
        IssuerSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url="http://login.example/"),
        IssuerSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url="https://x.example/", algorithm="RS256"),
        IssuerSettings(issuer=ISSUER, audience=AUDIENCE, key_file="k", algorithm="HS256"),
        IssuerSettings(issuer=ISSUER, audience=AUDIENCE, key_file="k", algorithm="none"),
    ],
)
def test_incomplete_or_contradictory_settings_are_rejected(settings: IssuerSettings) -> None:
    with pytest.raises(IssuerError):
        open_issuer(settings)


async def test_an_issuer_has_its_own_keys_and_audience(tmp_path: Path) -> None:
    other = "https://other.example"
    for name, key in (("a", FIRST), ("b", SECOND)):
        (tmp_path / name).write_bytes(key.pem)
    issuers = [
        open_issuer(IssuerSettings(issuer=ISSUER, audience=AUDIENCE, key_file=str(tmp_path / "a"))),
        open_issuer(IssuerSettings(issuer=other, audience="other", key_file=str(tmp_path / "b"))),
    ]
    verifier = TokenVerifier(issuers, ADDRESSES, lambda: NOW)
    found = await verifier.verify(token(SECOND, iss=other, aud="other"), Role.CLIENT)
    assert found.owner == (other, "user-1")
    with rejects(RejectionReason.SIGNATURE):
        await verify(verifier, token(FIRST, iss=other, aud="other"))
    with rejects(RejectionReason.AUDIENCE):
        await verify(verifier, token(SECOND, iss=other))
    with rejects(RejectionReason.ISSUER):
        await verify(verifier, token(iss="https://third.example"))
    with pytest.raises(IssuerError):
        TokenVerifier([issuers[0], issuers[0]], ADDRESSES)


async def test_no_log_line_contains_a_token(server: KeyServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts = [token(), token(header={"kid": "key-9"}), hmac_token(SECRET), token(exp=NOW - 60), token(aud="x")]
    async with verifying(UrlKeys(server.url)) as verifier:
        for text in texts:
            try:
                await verify(verifier, text)
            except TokenRejected as rejection:
                logging.getLogger("test").warning("%s %r", rejection, rejection, exc_info=rejection)
    assert "Traceback" in caplog.text
    parts = [part for text in texts for part in text.split(".") if len(part) > 60]
    assert [part for part in parts if part[:20] in caplog.text] == []
