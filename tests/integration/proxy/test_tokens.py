"""Access tokens at a client's endpoint, verified with the key set of a real HTTP server: one row each.

Rotation and servers that fail are in test_key_sources.py.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from starlette.responses import Response

from http_frontend import serving_app
from proxy_node import SOON_S, ProxyNode, running_node
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
from raw_websocket import open_stream, raw_connected
from websocket_proxy.claims import SKEW_S, TokenRejected
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


# ── On the sockets of a node ────────────────────────────────────────────────────────────────────────────────

ENDS_IN_S = 2.0
MOST_BY_CHANCE = 16
"""Length of a part of a token that no other text has by chance."""
CONFIG = """
[proxy]
admin_port = 0

[[proxy.issuers]]
issuer = "https://login.example"
audience = "https://proxy.example"
jwks_file = "{keys}"
"""


class SentTokens:
    """Tokens of issuers, each of which must be in no output."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def make(self, user: str = "user-1", *, ends_in_s: float = 3600.0, **changed: Any) -> str:
        """A token that ends in so many seconds, the tolerance for clocks included."""
        now = time.time()
        times = {"iat": now - SKEW_S, "exp": now + ends_in_s - SKEW_S}
        return self.add(token(user_id=user, **{**times, **changed}))

    def make_for_extension(self, user: str = "user-1", **changed: Any) -> str:
        return self.make(user, scope="mcpb:extension", connection_url=EXTENSION_URL, **changed)

    def add(self, text: str) -> str:
        self.texts.append(text)
        return text

    def find(self, output: str) -> list[str]:
        """Parts of tokens that are in an output."""
        parts = [part[:40] for text in self.texts for part in text.split(".")[1:]]
        return [part for part in parts if len(part) >= MOST_BY_CHANCE and part in output]


async def test_tokens_of_sockets_are_rejected_expire_and_are_renewed(mcpb_home: Path) -> None:
    keys = mcpb_home / "keys.json"
    keys.write_bytes(key_set())
    (mcpb_home / "config.toml").write_text(CONFIG.format(keys=keys))
    sent = SentTokens()
    options = ["--behind-tls-proxy", "--public-url", "https://proxy.example"]
    async with running_node(mcpb_home, *options) as node:
        await send_rejected_tokens(node, sent)
        await send_token_in_address(node, sent)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expire_during_a_call, node, sent)
            nursery.start_soon(renew_a_client, node, sent)
            nursery.start_soon(renew_an_extension, node, sent)
        async with httpx2.AsyncClient(timeout=SOON_S, trust_env=False) as http:
            output = "\n".join(await node.read_metrics(http))
        assert 'mcpb_proxy_rejected_tokens_total{reason="scope"} 2' in output
        assert await node.end() == 0
        output += node.printed + node.log.read_text()
        assert "mcpb:client" in output
        assert sent.find(output) == []


async def send_rejected_tokens(node: ProxyNode, sent: SentTokens) -> None:
    for rejected in rejected_tokens(time.time()):
        if not isinstance(rejected.value, str | None) or len(rejected.value or "") > 60_000:
            continue  # other limits reject it before: test_handshakes.py
        sent.add(rejected.value or "")
        params = {} if rejected.value is None else {"accessToken": rejected.value}
        async with raw_connected(f"{node.base}/mcp") as peer:
            await peer.send(id=1, method="mcp_handshake", params=params)
            error = (await peer.receive())["error"]
            assert (error["code"], error["data"]["reason"]) == (-32000, rejected.reason), rejected.what
            assert error["data"]["handed"] is False
            assert error["data"]["detail"].endswith(".")
            assert await peer.wait_code() == 1008
    async with raw_connected(f"{node.base}/extension") as peer:
        await peer.receive()
        await peer.send(id="proxy:1", result={"name": "Chrome", "accessToken": sent.make()})
        assert await peer.wait_code() == 1008


async def send_token_in_address(node: ProxyNode, sent: SentTokens) -> None:
    """A request that breaks the rules with its path, its method and its token: the log has the reason."""
    for method, path, status in [("POST", "/mcp", b"405"), ("GET", "/other", b"404")]:
        stream = await open_stream(node.port)
        head = f"{method} {path}?accessToken={sent.make()} HTTP/1.1\r\nHost: localhost:{node.port}\r\n"
        await stream.send_all(f"{head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode())
        assert (await stream.receive_some()).split()[1] == status
        await trio.aclose_forcefully(stream)


async def expire_during_a_call(node: ProxyNode, sent: SentTokens) -> None:
    """A call whose client's token expires has one error, and its extension stays connected."""
    async with (
        node.extension(sent.make_for_extension("user-2"), lambda _: None) as extension,
        node.client(sent.make("user-2", ends_in_s=ENDS_IN_S)) as client,
    ):
        await client.connect(extension)
        await client.send(id=7, method="getTabs")
        response = await client.receive_response()
        assert (response["id"], response["error"]["code"]) == (7, -32010)
        assert response["error"]["data"]["handed"] is True
        assert await client.wait_end() == (1008, "Token expired")
        assert extension.closed is None


async def renew_a_client(node: ProxyNode, sent: SentTokens) -> None:
    async with node.client(sent.make(ends_in_s=ENDS_IN_S)) as client:
        renewed = await client.ask("mcp_handshake", accessToken=sent.make())
        assert renewed["result"] == client.opened["result"]
        await trio.sleep(ENDS_IN_S + 1)  # beyond the end of the first token
        assert (await client.ask("disconnect"))["result"] == {"disconnected": True}
        other = await client.ask("mcp_handshake", accessToken=sent.make("user-3"))
        assert other["error"]["data"]["reason"] == "another-user"
        assert await client.wait_end() == (1008, "Invalid token: another-user")


async def renew_an_extension(node: ProxyNode, sent: SentTokens) -> None:
    """An extension is asked again before the end of its token, which it survives only with a new one."""
    first = sent.make_for_extension(ends_in_s=ENDS_IN_S)
    async with (
        node.extension(first, renewals=sent.make_for_extension) as renewing,
        # This one answers with its old token, and would be asked again 30 s later.
        node.extension(first, renewals=lambda: first) as silent,
    ):
        assert await silent.until_closed() == (1008, "Token expired")
        await trio.sleep(1)
        assert renewing.closed is None
        async with node.client(sent.make()) as client:
            await client.connect(renewing)
            assert (await client.ask("getTabs"))["result"] == {"method": "getTabs"}
