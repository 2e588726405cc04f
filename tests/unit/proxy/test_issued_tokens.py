"""`mcpb proxy token`: tokens of the home issuer and of a key file, which their node accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy_tokens import SECRET
from websocket_proxy.issuer_service import IssuerService
from websocket_proxy.node.issued_tokens import TokenRequest, issue_token
from websocket_proxy.node.settings import ProxySettings
from websocket_proxy.protocol import Role
from websocket_proxy.signing_keys import SigningKeyError
from websocket_proxy.token_store import open_store
from websocket_proxy.token_verifier import IssuerSettings, TokenVerifier, open_issuer

URL = "http://localhost:8765"
REQUEST = TokenRequest(Role.CLIENT, "", "", 600, "", "")


def settings_of(home: Path) -> ProxySettings:
    secret = home / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    issuer = IssuerSettings(issuer="https://login.example", audience="proxy", secret_file=str(secret))
    return ProxySettings(issuers=(issuer,))


async def test_a_token_of_the_home_issuer_is_accepted_in_its_role(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        service = IssuerService(store, URL)
        issued = issue_token(REQUEST, ProxySettings(), tmp_path, lambda: URL)
        verifier = TokenVerifier([service.trusted_issuer()], {Role.CLIENT: [], Role.EXTENSION: []})
        identity = await verifier.verify(issued, Role.CLIENT)
        assert (identity.user_id, identity.family) == (service.user_id, "")


async def test_a_token_of_a_key_file_has_the_issuer_of_the_settings(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    request = REQUEST._replace(key_file=str(tmp_path / "secret"), user="ann", role=Role.EXTENSION)
    issued = issue_token(request, settings, tmp_path, lambda: URL)
    verifier = TokenVerifier([open_issuer(settings.issuers[0])], {Role.CLIENT: [], Role.EXTENSION: []})
    assert (await verifier.verify(issued, Role.EXTENSION)).user_id == "ann"


@pytest.mark.parametrize(
    ("changed", "option"),
    [
        ({}, "--key"),
        ({"key_file": "secret"}, "--user"),
        ({"key_file": "secret", "user": "ann", "issuer": "x"}, "--audience"),
    ],
)
def test_a_missing_option_is_named(tmp_path: Path, changed: dict[str, str], option: str) -> None:
    settings = ProxySettings() if "issuer" in changed else settings_of(tmp_path)
    with pytest.raises(SigningKeyError, match=option):
        issue_token(REQUEST._replace(**changed), settings, tmp_path, lambda: URL)  # type: ignore[arg-type]
