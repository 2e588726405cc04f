"""Access tokens at a client's endpoint, verified with the key set of a real HTTP server: one row each.

Rotation and servers that fail are in test_key_sources.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from starlette.responses import Response

from http_frontend import serving_app
from proxy_tokens import (
    CLIENT_URL,
    EXTENSION_URL,
    NOW,
    RULES,
    RejectedToken,
    issuer_key,
    key_set,
    rejected_tokens,
    token,
)
from websocket_proxy.claims import TokenRejected
from websocket_proxy.keys import UrlKeys
from websocket_proxy.protocol import Role
from websocket_proxy.token_verifier import TokenVerifier, TrustedIssuer


@pytest.fixture
async def verifier() -> AsyncIterator[TokenVerifier]:
    async with serving_app(Response(key_set())) as port:
        keys = UrlKeys(f"http://127.0.0.1:{port}/")
        addresses = {Role.CLIENT: [CLIENT_URL], Role.EXTENSION: [EXTENSION_URL]}
        found = TokenVerifier([TrustedIssuer(RULES, keys)], addresses, lambda: NOW)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.run)
            yield found
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("rejected", rejected_tokens(), ids=lambda each: each.what)
async def test_a_token_is_rejected_for_its_reason(verifier: TokenVerifier, rejected: RejectedToken) -> None:
    with pytest.raises(TokenRejected) as caught:
        await verifier.verify(rejected.value, Role.CLIENT)
    assert caught.value.reason is rejected.reason
    assert caught.value.detail.endswith(".")


@pytest.mark.parametrize(
    "key", [issuer_key(), issuer_key(kid="key-2"), issuer_key("RS256", kid="rsa")], ids=lambda key: key.kid
)
async def test_the_token_of_each_key_is_accepted(verifier: TokenVerifier, key: object) -> None:
    assert (await verifier.verify(token(key), Role.CLIENT)).user_id == "user-1"  # type: ignore[arg-type]


async def test_a_clients_token_is_rejected_at_the_browsers_endpoint(verifier: TokenVerifier) -> None:
    browser = token(scope="mcpb:extension", connection_url=EXTENSION_URL)
    assert (await verifier.verify(browser, Role.EXTENSION)).user_id == "user-1"
    with pytest.raises(TokenRejected, match="scope"):
        await verifier.verify(token(), Role.EXTENSION)
