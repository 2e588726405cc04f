"""Sign-in at the home issuer over HTTP: device authorization, refresh, revocation, and hostile requests.

The server, its files and the HTTP client are real; the clock is the test's.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from http_frontend import serving_app
from http_serving.host_header import ServerNames
from http_serving.plain_routes import OriginRule, PlainRoutes
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import draft_of
from proxy_tokens import NOW
from raw_http import asked, head
from websocket_proxy.claims import TokenRejected
from websocket_proxy.device_grant import TooManyCodesError, UnknownCodeError
from websocket_proxy.issuer_service import IssuerService
from websocket_proxy.oauth_endpoints import DEVICE_GRANT, oauth_error_body, oauth_routes
from websocket_proxy.protocol import RejectionReason, Role
from websocket_proxy.token_store import open_store
from websocket_proxy.token_verifier import TokenVerifier

EXTENSION = "chrome-extension://abcdefghijklmnopabcdefghijklmnop"
SIGN_IN = {"client_id": "popup", "client_name": "Chrome on a laptop", "scope": "mcpb:extension"}
PUBLIC = "https://proxy.example"


class Proxy:
    """A home issuer that serves."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.now = NOW
        self.revoked: list[str] = []
        self.port = 0

    def start(self, service: IssuerService) -> None:
        self.service = service
        addresses = {role: [service.connection_url(role)] for role in Role}
        self.verifier = TokenVerifier([service.trusted_issuer()], addresses, lambda: self.now)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def client(self, **headers: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=30)

    async def verify(self, response: dict[str, Any], role: Role = Role.EXTENSION) -> str:
        return (await self.verifier.verify(response["access_token"], role)).family


@asynccontextmanager
async def running(proxy: Proxy, origins: tuple[str, ...] = ()) -> AsyncIterator[Proxy]:
    """Serve with the files of `proxy.state`, as after a restart."""
    with open_store(proxy.state) as store:
        service = IssuerService(store, "http://localhost:8765", proxy.revoked.append, lambda: proxy.now)
        proxy.start(service)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            names = ServerNames("127.0.0.1", proxy.port, ["proxy.example"])
            routes = oauth_routes(["https://login.example"], service)
            served = PlainRoutes(
                routes, names, OriginRule(origins), public_url=PUBLIC, error_body=oauth_error_body
            )
            await served(scope, receive, send)

        async with serving_app(app) as proxy.port:
            yield proxy


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Proxy]:
    async with running(Proxy(tmp_path)) as found:
        yield found


async def begin(client: httpx2.AsyncClient, **changed: str) -> dict[str, Any]:
    response = await client.post("/device_authorization", data={**SIGN_IN, **changed})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def poll(client: httpx2.AsyncClient, device_code: str) -> httpx2.Response:
    form = {"grant_type": DEVICE_GRANT, "device_code": device_code, "client_id": "popup"}
    return await client.post("/token", data=form)


async def refresh(client: httpx2.AsyncClient, token: str) -> httpx2.Response:
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "popup"}
    return await client.post("/token", data=form)


async def sign_in(proxy: Proxy, client: httpx2.AsyncClient, **changed: str) -> dict[str, Any]:
    """Sign in completely; return the response with the tokens."""
    started = await begin(client, **changed)
    proxy.service.approve(started["user_code"])
    response = await poll(client, started["device_code"])
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def error_of(response: httpx2.Response, status: int = 400) -> str:
    assert response.status_code == status, response.text
    assert response.headers["cache-control"] == "no-store"
    found = response.json()
    assert found.keys() == {"error", "error_description"}
    assert found["error_description"]
    return str(found["error"])


@contextmanager
def rejects(reason: RejectionReason) -> Iterator[None]:
    with pytest.raises(TokenRejected) as caught:
        yield
    assert caught.value.reason is reason


# ── Device authorization ────────────────────────────────────────────────────────────────────────────────────


async def test_a_browser_signs_in_from_metadata_to_a_verified_token(proxy: Proxy) -> None:
    async with proxy.client(origin=EXTENSION) as client:
        resource = (await client.get("/.well-known/oauth-protected-resource")).json()
        assert resource["resource"] == proxy.url
        assert resource["authorization_servers"] == [proxy.url, "https://login.example"]
        server = (await client.get("/.well-known/oauth-authorization-server")).json()
        assert server["issuer"] == proxy.url
        assert server["grant_types_supported"] == [DEVICE_GRANT, "refresh_token"]
        started = (await client.post(server["device_authorization_endpoint"], data=SIGN_IN)).json()
        assert (started["expires_in"], started["interval"]) == (600, 5)
        assert started["approve_command"] == f"mcpb proxy approve {started['user_code']}"
        assert "mcpb proxy approve" in (await client.get(started["verification_uri"])).text

        assert error_of(await poll(client, started["device_code"])) == "authorization_pending"
        assert error_of(await poll(client, started["device_code"])) == "slow_down"
        (asking,) = proxy.service.pending()
        assert asking is proxy.service.find_sign_in(started["user_code"])
        assert (asking.client_name, asking.role) == ("Chrome on a laptop", Role.EXTENSION)
        assert asking.address in {"127.0.0.1", "::1"}
        proxy.service.approve(started["user_code"])
        proxy.now += 10

        response = await poll(client, started["device_code"])
        assert response.headers["cache-control"] == "no-store"
        tokens = response.json()
        assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == (
            "Bearer",
            3600,
            "mcpb:extension",
        )
        identity = await proxy.verifier.verify(tokens["access_token"], Role.EXTENSION)
        assert identity.user_id == proxy.service.user_id
        assert identity.expires_at == proxy.now + 3600
        with rejects(RejectionReason.SCOPE):
            await proxy.verify(tokens, Role.CLIENT)
        keys = (await client.get(server["jwks_uri"])).json()["keys"]
        assert [key["kty"] for key in keys] == ["OKP"]
        assert "d" not in keys[0]


async def test_a_denied_and_an_expired_code_end_the_sign_in(proxy: Proxy) -> None:
    async with proxy.client() as client:
        denied, expired = await begin(client), await begin(client)
        proxy.service.deny(denied["user_code"])
        assert error_of(await poll(client, denied["device_code"])) == "access_denied"
        proxy.now += 600
        assert error_of(await poll(client, expired["device_code"])) == "expired_token"
        with pytest.raises(UnknownCodeError):
            proxy.service.approve(expired["user_code"])


async def test_other_scopes_beside_the_role_are_ignored(proxy: Proxy) -> None:
    async with proxy.client() as client:
        tokens = await sign_in(proxy, client, scope="openid mcpb:client offline_access")
        assert tokens["scope"] == "mcpb:client"


async def test_a_proxy_without_home_issuer_names_its_providers_alone(tmp_path: Path) -> None:
    routes = oauth_routes(["https://login.example"], client_id="mcpb-7")
    assert list(routes) == ["/.well-known/oauth-protected-resource"]
    async with serving_app(PlainRoutes(routes, ServerNames("127.0.0.1", 80), OriginRule())) as port:
        client = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers={"host": "localhost"})
        async with client:
            found = (await client.get("/.well-known/oauth-protected-resource")).json()
    assert found["authorization_servers"] == ["https://login.example"]
    assert found["mcpb_client_id"] == "mcpb-7"


async def test_a_sixth_sign_in_of_one_address_is_rejected(proxy: Proxy) -> None:
    async with proxy.client() as client:
        for _ in range(5):
            await begin(client)
        response = await client.post("/device_authorization", data=SIGN_IN)
        assert error_of(response, 429) == "temporarily_unavailable"
        assert response.headers["retry-after"] == "60"


async def test_guessed_codes_are_limited(proxy: Proxy) -> None:
    async with proxy.client() as client:
        started = await begin(client)
        for _ in range(5):
            with pytest.raises(UnknownCodeError):
                proxy.service.approve("BBBB-BBBB")
        with pytest.raises(TooManyCodesError):
            proxy.service.approve(started["user_code"])
        proxy.now += 60
        proxy.service.approve(started["user_code"])
        assert error_of(await poll(client, "x" * 43)) == "invalid_grant"
        assert (await poll(client, started["device_code"])).status_code == 200


async def test_the_name_that_a_client_claims_is_one_printable_line(proxy: Proxy) -> None:
    async with proxy.client() as client:
        await begin(client, client_name="a\x1b[2J\nb\u202e" + "x" * 200)
    (asking,) = proxy.service.pending()
    assert asking.client_name.isprintable()
    assert len(asking.client_name) <= 100


# ── Refresh tokens ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_lost_response_is_sent_again_also_after_a_crash(tmp_path: Path) -> None:
    proxy = Proxy(tmp_path)
    async with running(proxy), proxy.client() as client:
        first = await sign_in(proxy, client)
        proxy.now += 3000
        second = (await refresh(client, first["refresh_token"])).json()
        proxy.now += 20
        assert (await refresh(client, first["refresh_token"])).json() == second
    async with running(proxy), proxy.client() as client:
        proxy.now += 10
        assert (await refresh(client, first["refresh_token"])).json() == second
        third = (await refresh(client, second["refresh_token"])).json()
        assert await proxy.verify(third)
        assert third["refresh_token"] not in {first["refresh_token"], second["refresh_token"]}
    assert proxy.revoked == []


async def test_requests_at_the_same_time_get_the_same_response(proxy: Proxy) -> None:
    async with proxy.client() as client:
        first = await sign_in(proxy, client)
        found = []

        async def send() -> None:
            found.append((await refresh(client, first["refresh_token"])).json())

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(send)
        assert len(found) == 5
        assert all(each == found[0] for each in found)


async def test_a_stolen_token_used_later_revokes_the_family_and_reports_it(proxy: Proxy) -> None:
    async with proxy.client() as client:
        stolen = await sign_in(proxy, client)
        other = await sign_in(proxy, client, scope="mcpb:client")
        proxy.now += 1000
        owner = (await refresh(client, stolen["refresh_token"])).json()
        family = await proxy.verify(owner)
        proxy.now += 31
        assert error_of(await refresh(client, stolen["refresh_token"])) == "invalid_grant"
        assert proxy.revoked == [family]
        with rejects(RejectionReason.REVOKED):
            await proxy.verify(owner)
        assert error_of(await refresh(client, owner["refresh_token"])) == "invalid_grant"
        assert await proxy.verify(other, Role.CLIENT)


async def test_revocation_takes_effect_at_once_and_survives_a_restart(tmp_path: Path) -> None:
    proxy = Proxy(tmp_path)
    async with running(proxy), proxy.client() as client:
        tokens = await sign_in(proxy, client)
        (family,) = proxy.service.families()
        assert (family.client_name, family.role) == ("Chrome on a laptop", Role.EXTENSION)
        assert await proxy.service.revoke(family.id)
        assert proxy.revoked == [family.id]
        assert not await proxy.service.revoke(family.id)
    async with running(proxy), proxy.client() as client:
        assert proxy.service.families() == []
        with rejects(RejectionReason.REVOKED):
            await proxy.verify(tokens)
        assert error_of(await refresh(client, tokens["refresh_token"])) == "invalid_grant"


async def test_tokens_that_cannot_be_stored_are_not_sent(proxy: Proxy) -> None:
    draft = draft_of(StateLayout(proxy.state).proxy / "families.json")
    async with proxy.client() as client:
        started = await begin(client)
        proxy.service.approve(started["user_code"])
        draft.mkdir()
        assert error_of(await poll(client, started["device_code"]), 503) == "server_error"
        draft.rmdir()
        first = (await poll(client, started["device_code"])).json()
        draft.mkdir()
        assert error_of(await refresh(client, first["refresh_token"]), 503) == "server_error"
        draft.rmdir()
        proxy.now += 1000
        assert await proxy.verify((await refresh(client, first["refresh_token"])).json())
        draft.mkdir()
        (family,) = proxy.service.families()
        with pytest.raises(Exception, match="cannot be stored"):
            await proxy.service.revoke(family.id)
        draft.rmdir()
        assert proxy.revoked == [family.id]
        assert proxy.service.families() == []


# ── Requests that are rejected ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "form", "error"),
    [
        ("/token", {"client_id": "x"}, "invalid_request"),
        ("/token", {"grant_type": "password", "username": "a", "password": "b"}, "unsupported_grant_type"),
        ("/token", {"grant_type": "refresh_token"}, "invalid_request"),
        ("/token", {"grant_type": "refresh_token", "refresh_token": ""}, "invalid_request"),
        ("/token", {"grant_type": "refresh_token", "refresh_token": "x" * 9000}, "invalid_request"),
        ("/token", {"grant_type": "refresh_token", "refresh_token": "x"}, "invalid_grant"),
        ("/token", {"grant_type": DEVICE_GRANT, "device_code": "x"}, "invalid_request"),
        ("/device_authorization", {"scope": "mcpb:client"}, "invalid_request"),
        ("/device_authorization", {"client_id": "x"}, "invalid_scope"),
        ("/device_authorization", {"client_id": "x", "scope": "mcpb:admin"}, "invalid_scope"),
        ("/device_authorization", {"client_id": "x", "scope": "mcpb:client mcpb:extension"}, "invalid_scope"),
        ("/device_authorization", {"client_id": "x", "scope": "openid"}, "invalid_scope"),
        ("/device_authorization", {"client_id": "é", "scope": "mcpb:client"}, "invalid_client"),
        ("/device_authorization", {"client_id": "x" * 101, "scope": "mcpb:client"}, "invalid_client"),
    ],
)
async def test_an_invalid_form_gets_the_error_of_its_rfc(
    proxy: Proxy, path: str, form: dict[str, str], error: str
) -> None:
    async with proxy.client() as client:
        assert error_of(await client.post(path, data=form)) == error


@pytest.mark.parametrize("path", ["/token", "/device_authorization"])
async def test_only_small_forms_without_a_query_are_accepted(proxy: Proxy, path: str) -> None:
    form = "application/x-www-form-urlencoded"
    async with proxy.client() as client:
        assert error_of(await client.post(path, json={}), 415) == "invalid_request"
        assert error_of(await client.post(path), 415) == "invalid_request"
        assert error_of(await client.post(path, data={"x": "y" * 17_000}), 413) == "invalid_request"
        for body in (b"a=1&a=2", b"\xff=1", b"a=%ff", b"&".join(b"a%d=1" % number for number in range(40))):
            response = await client.post(path, content=body, headers={"content-type": form})
            assert error_of(response) == "invalid_request"
        assert error_of(await client.post(f"{path}?client_id=x", data=SIGN_IN)) == "invalid_request"
        response = await client.get(path)
        assert error_of(response, 405) == "invalid_request"
        assert response.headers["allow"] == "POST, OPTIONS"
        assert error_of(await client.get("/nothing"), 404) == "invalid_request"
        assert (await client.post("/.well-known/jwks.json", data={})).status_code == 405


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:8765"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:8765"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": EXTENSION}, 200),
        ({"Origin": "moz-extension://0c5d"}, 200),
        ({}, 200),
        ({"Host": "proxy.example"}, 200),
    ],
)
async def test_web_pages_and_foreign_names_are_rejected(
    proxy: Proxy, headers: dict[str, str], status: int
) -> None:
    body = b"client_id=x&scope=mcpb%3Aclient"
    usual = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(body))}
    request = head("POST /device_authorization", port=proxy.port, **usual, **headers)
    found = await asked(proxy.port, request + body)
    assert found.status == status
    allowed = found.headers.get("access-control-allow-origin")
    assert allowed == (headers.get("Origin") if status == 200 else None)


async def test_an_extensions_worker_may_send_requests_and_read_responses(proxy: Proxy) -> None:
    async with proxy.client(origin=EXTENSION) as client:
        asking = {"access-control-request-method": "POST", "access-control-request-private-network": "true"}
        preflight = await client.options("/token", headers=asking)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-methods"] == "GET, POST"
        assert preflight.headers["access-control-allow-private-network"] == "true"
        response = await client.post("/token", data={"client_id": "x"})
        assert response.status_code == 400
        assert response.headers["access-control-allow-origin"] == EXTENSION
        assert response.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in response.headers


async def test_only_configured_extensions_are_accepted_if_there_are_any(tmp_path: Path) -> None:
    async with running(Proxy(tmp_path), origins=(EXTENSION,)) as proxy:
        for origin, status in ((EXTENSION, 200), (f"{EXTENSION}x", 403), ("moz-extension://0c5d", 403)):
            async with proxy.client(origin=origin) as client:
                assert (await client.get("/.well-known/jwks.json")).status_code == status


async def test_behind_a_tls_proxy_the_metadata_name_its_address(proxy: Proxy) -> None:
    async with proxy.client(host="proxy.example") as client:
        server = (await client.get("/.well-known/oauth-authorization-server")).json()
    assert server["issuer"] == PUBLIC
    assert server["token_endpoint"] == f"{PUBLIC}/token"


async def test_no_log_line_error_or_file_contains_a_token_secret_or_code(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    for library in ("httpx2", "httpcore"):  # they log what this test's client sends
        monkeypatch.setattr(logging.getLogger(library), "disabled", True)
    proxy, secrets = Proxy(tmp_path), []
    async with running(proxy), proxy.client() as client:
        started = await begin(client)
        tokens = await sign_in(proxy, client)
        proxy.now += 100
        latest = (await refresh(client, tokens["refresh_token"])).json()
        proxy.now += 100
        texts = [(await refresh(client, tokens["refresh_token"])).text]  # reuse
        texts.append((await refresh(client, latest["refresh_token"])).text)
        texts.append((await poll(client, started["device_code"])).text)
        texts += [repr(proxy.service.pending()), repr(proxy.service), repr(proxy.verifier)]

        async def fail(device_code: str, client_id: str) -> None:
            raise RuntimeError(f"{device_code} {client_id}")

        monkeypatch.setattr(proxy.service, "exchange_device_code", fail)
        failed = await poll(client, started["device_code"])
        assert error_of(failed, 500) == "server_error"
        texts.append(failed.text)
        for each in (tokens, latest):
            secrets += [each["refresh_token"].rpartition(".")[2], *each["access_token"].split(".")[1:]]
        secrets += [started["device_code"], started["user_code"]]
    assert "Revoked a sign-in" in caplog.text
    assert "RuntimeError" in caplog.text
    texts += [caplog.text, (StateLayout(tmp_path).proxy / "families.json").read_text()]
    assert [secret for secret in secrets if any(secret[:16] in text for text in texts)] == []
