"""Home issuer: tokens of a sign-in, their succession, reuse and revocation."""

from __future__ import annotations

import json
import random

import jwt
import msgspec
import pytest

from proxy_tokens import NOW
from websocket_proxy.claims import Identity, read_token, verify_token
from websocket_proxy.device_grant import Decision, SignIn
from websocket_proxy.issuer import HomeIssuer, HomeKey, TokenFamily, TokenReusedError
from websocket_proxy.oauth_messages import OAuthCode, OAuthError, TokenResponse
from websocket_proxy.protocol import Role
from websocket_proxy.signing_keys import generate_key

URL = "http://localhost:8765"
KEY = HomeKey("8389-user", generate_key(), b"s" * 32)
DAY_S = 24 * 3600


@pytest.fixture
def issuer() -> HomeIssuer:
    return HomeIssuer(KEY, URL, [], random.Random(7).randbytes)


def approve(issuer: HomeIssuer, role: Role = Role.CLIENT) -> SignIn:
    _, sign_in = issuer.sign_ins.begin("cli", "laptop", role, "127.0.0.1", NOW)
    return issuer.sign_ins.decide(sign_in.user_code, Decision.APPROVED, NOW)


def verify(issuer: HomeIssuer, response: TokenResponse, role: Role, now: float = NOW) -> Identity:
    token = read_token(response.access_token)
    key = KEY.signing.public_keys().find(token.key_id)
    return verify_token(token, key, issuer.rules, role, [issuer.connection_url(role)], now)


def code_of(issuer: HomeIssuer, token: str, now: float, client_id: str = "cli") -> OAuthCode:
    with pytest.raises(OAuthError) as caught:
        issuer.refresh(token, client_id, now)
    assert not token or token not in str(caught.value)
    return caught.value.code


@pytest.mark.parametrize(("role", "path"), [(Role.EXTENSION, "/extension"), (Role.CLIENT, "/mcp")])
def test_an_approved_sign_in_gets_tokens_for_its_role_and_endpoint(
    issuer: HomeIssuer, role: Role, path: str
) -> None:
    response = issuer.issue(approve(issuer, role), NOW)
    found = verify(issuer, response, role)
    assert found.user_id == issuer.user_id
    assert found.expires_at == NOW + 3600
    assert found.connection_url == f"ws://localhost:8765{path}"
    assert found.token_id
    assert found.family in issuer.families
    assert (response.token_type, response.expires_in, response.scope) == ("Bearer", 3600, role.value)
    assert not issuer.is_revoked(found)


def test_the_first_tokens_are_sent_again_for_30_seconds(issuer: HomeIssuer) -> None:
    sign_in = approve(issuer)
    first = issuer.issue(sign_in, NOW)
    assert issuer.issue(sign_in, NOW + 30) == first
    with pytest.raises(OAuthError):
        issuer.issue(sign_in, NOW + 31)
    issuer.refresh(first.refresh_token, "cli", NOW + 31)
    with pytest.raises(OAuthError):
        issuer.issue(sign_in, NOW + 31)


def test_a_refresh_token_changes_with_each_use(issuer: HomeIssuer) -> None:
    first = issuer.issue(approve(issuer), NOW)
    second = issuer.refresh(first.refresh_token, "cli", NOW + 3000)
    third = issuer.refresh(second.refresh_token, "", NOW + 6000)
    assert len({each.refresh_token for each in (first, second, third)}) == 3
    assert len({each.access_token for each in (first, second, third)}) == 3
    assert verify(issuer, third, Role.CLIENT, NOW + 6000).expires_at == NOW + 9600
    assert len(issuer.families) == 1


def test_the_same_refresh_token_gets_the_same_response_for_30_seconds(issuer: HomeIssuer) -> None:
    first = issuer.issue(approve(issuer), NOW)
    second = issuer.refresh(first.refresh_token, "cli", NOW + 100)
    assert issuer.refresh(first.refresh_token, "cli", NOW + 130) == second
    third = issuer.refresh(second.refresh_token, "cli", NOW + 110)
    assert issuer.refresh(first.refresh_token, "cli", NOW + 130) == second
    assert issuer.refresh(second.refresh_token, "cli", NOW + 140) == third


def test_the_same_response_is_sent_after_a_restart(issuer: HomeIssuer) -> None:
    first = issuer.issue(approve(issuer), NOW)
    second = issuer.refresh(first.refresh_token, "cli", NOW + 100)
    stored = msgspec.json.encode(list(issuer.families.values()))
    families = msgspec.json.decode(stored, type=list[TokenFamily])
    restarted = HomeIssuer(KEY, URL, families, random.Random(8).randbytes)
    assert restarted.refresh(first.refresh_token, "cli", NOW + 120) == second
    assert restarted.refresh(second.refresh_token, "cli", NOW + 3600).refresh_token


def test_a_refresh_token_used_later_revokes_the_family(issuer: HomeIssuer) -> None:
    stolen = issuer.issue(approve(issuer), NOW)
    owner = issuer.refresh(stolen.refresh_token, "cli", NOW + 100)
    found = verify(issuer, owner, Role.CLIENT, NOW + 100)
    with pytest.raises(TokenReusedError) as caught:
        issuer.refresh(stolen.refresh_token, "cli", NOW + 131)
    assert caught.value.family == found.family
    assert issuer.is_revoked(found)
    assert code_of(issuer, owner.refresh_token, NOW + 132) is OAuthCode.INVALID_GRANT


def test_every_earlier_token_of_a_family_is_recognized(issuer: HomeIssuer) -> None:
    first = issuer.issue(approve(issuer), NOW)
    latest = first
    for hour in range(1, 20):
        latest = issuer.refresh(latest.refresh_token, "cli", NOW + hour * 3600)
    with pytest.raises(TokenReusedError):
        issuer.refresh(first.refresh_token, "cli", NOW + 20 * 3600)


def test_a_guessed_token_revokes_nothing(issuer: HomeIssuer) -> None:
    response = issuer.issue(approve(issuer), NOW)
    latest = issuer.refresh(response.refresh_token, "cli", NOW + 100)
    (family,) = issuer.families
    wrong = ["", "x", "mcpbr-", f"mcpbr-{family}.0.{'A' * 43}", f"mcpbr-{family}.²."]
    wrong += [f"mcpbr-{family}.{'9' * 5000}.x", "\ud800", latest.refresh_token[:-1], "é.1.é"]
    for token in wrong:
        assert code_of(issuer, token, NOW + 200) is OAuthCode.INVALID_GRANT
    assert code_of(issuer, latest.refresh_token, NOW + 200, "another client") is OAuthCode.INVALID_GRANT
    assert issuer.refresh(latest.refresh_token, "cli", NOW + 200).refresh_token


def test_a_refresh_token_expires_after_90_days_without_use(issuer: HomeIssuer) -> None:
    first = issuer.issue(approve(issuer), NOW)
    second = issuer.refresh(first.refresh_token, "cli", NOW + 89 * DAY_S)
    assert code_of(issuer, second.refresh_token, NOW + (89 + 90) * DAY_S) is OAuthCode.INVALID_GRANT
    assert issuer.families == {}


def test_a_revoked_family_ends_at_once(issuer: HomeIssuer) -> None:
    sign_in = approve(issuer)
    response = issuer.issue(sign_in, NOW)
    found = verify(issuer, response, Role.CLIENT)
    assert issuer.revoke(found.family)
    assert not issuer.revoke(found.family)
    assert issuer.is_revoked(found)
    assert code_of(issuer, response.refresh_token, NOW) is OAuthCode.INVALID_GRANT
    with pytest.raises(OAuthError):
        issuer.issue(sign_in, NOW)


def test_a_token_without_family_is_not_revoked(issuer: HomeIssuer) -> None:
    found = verify(issuer, issuer.issue(approve(issuer), NOW), Role.CLIENT)
    assert not issuer.is_revoked(found._replace(family=""))
    assert issuer.is_revoked(found._replace(family="of an earlier key"))


def test_stored_families_and_representations_contain_no_token(issuer: HomeIssuer) -> None:
    first = issuer.issue(approve(issuer), NOW)
    second = issuer.refresh(first.refresh_token, "cli", NOW + 100)
    shown = f"{list(issuer.families.values())!r} {KEY!r} {KEY.signing!r} {second!r}"
    shown += msgspec.json.encode(list(issuer.families.values())).decode()
    for response in (first, second):
        assert response.refresh_token.rpartition(".")[2] not in shown
        assert response.access_token.rpartition(".")[2] not in shown
    assert "s" * 32 not in shown
    assert KEY.signing.to_pem().splitlines()[1] not in shown


def test_any_jwt_library_verifies_its_tokens_with_the_key_set(issuer: HomeIssuer) -> None:
    response = issuer.issue(approve(issuer), NOW)
    keys = jwt.PyJWKSet.from_json(json.dumps(issuer.jwks()))
    key = keys[jwt.get_unverified_header(response.access_token)["kid"]]
    found = jwt.decode(
        response.access_token,
        key,
        audience=URL,
        issuer=URL,
        options={"verify_exp": False, "verify_iat": False},
    )
    assert found["sub"] == found["user_id"] == issuer.user_id
    assert KEY.signing.jwk is not None
    assert set(KEY.signing.jwk) == {"kty", "crv", "x", "kid", "alg", "use"}
