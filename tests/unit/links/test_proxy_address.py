"""Addresses of WebSocket proxies, and the proxies that a bridge uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.links.browsers.proxy_address import ProxyAddressError, read_address
from bridge.links.browsers.proxy_credentials import ProxyCredentials, list_signed_in, login_file
from bridge.links.browsers.proxy_problem import ProxyCause, ProxyProblem
from install.findings import FindingCode
from native_host.system.home_layout import HomeLayout
from proxy_node import token_of
from websocket_proxy.protocol import RejectionReason


@pytest.mark.parametrize(
    ("written", "url", "client_url"),
    [
        ("https://proxy.example", "https://proxy.example", "wss://proxy.example/mcp"),
        ("wss://Proxy.Example:443/mcp", "https://proxy.example", "wss://proxy.example/mcp"),
        ("https://proxy.example:8765/", "https://proxy.example:8765", "wss://proxy.example:8765/mcp"),
        ("proxy.example:8765", "https://proxy.example:8765", "wss://proxy.example:8765/mcp"),
        ("localhost:8765", "http://localhost:8765", "ws://localhost:8765/mcp"),
        ("ws://127.0.0.1:8765/extension", "http://127.0.0.1:8765", "ws://127.0.0.1:8765/mcp"),
        ("http://[::1]:8765", "http://[::1]:8765", "ws://[::1]:8765/mcp"),
    ],
)
def test_an_address_is_read_as_users_and_tokens_write_it(written: str, url: str, client_url: str) -> None:
    address = read_address(written)
    assert (address.url, address.client_url) == (url, client_url)


@pytest.mark.parametrize(
    "written",
    [
        "http://proxy.example",
        "ws://proxy.example/mcp",
        "https://user@proxy.example",
        "https://proxy.example/other",
        "https://proxy.example/mcp?token=1",
        "ftp://proxy.example",
        "https://",
        f"https://{'a' * 80}.example",
    ],
)
def test_an_address_without_encryption_or_with_more_than_a_proxy_is_rejected(written: str) -> None:
    with pytest.raises(ProxyAddressError):
        read_address(written)


def sign_in(home: Path, url: str) -> None:
    file = login_file(home, read_address(url))
    file.prepare()
    file.path.write_text("{}")


def test_the_stored_sign_ins_are_the_proxies_of_a_bridge(tmp_path: Path) -> None:
    sign_in(tmp_path, "https://b.example")
    sign_in(tmp_path, "https://a.example:8765")
    strange = HomeLayout(tmp_path).state.proxy_logins / "notes" / "login.json"
    strange.parent.mkdir()
    strange.write_text("{}")
    assert [each.url for each in list_signed_in(tmp_path)] == ["https://a.example:8765", "https://b.example"]
    credentials = ProxyCredentials(tmp_path, {})
    first = credentials.find_proxies()
    assert credentials.find_proxies()["https://b.example"] is first["https://b.example"]
    login_file(tmp_path, read_address("https://b.example")).remove()
    assert list(credentials.find_proxies()) == ["https://a.example:8765"]


def test_an_address_in_the_environment_is_the_only_proxy(tmp_path: Path) -> None:
    sign_in(tmp_path, "https://a.example")
    environ = {"MCPB_PROXY_URL": "https://other.example"}
    assert list(ProxyCredentials(tmp_path, environ).find_proxies()) == ["https://other.example"]


async def test_a_token_in_the_environment_names_its_proxy(tmp_path: Path) -> None:
    sign_in(tmp_path, "https://a.example")
    token = token_of("alice", "client", connection_url="wss://proxy.example/mcp")
    found = ProxyCredentials(tmp_path, {"MCPB_PROXY_TOKEN": token}).find_proxies()
    assert list(found) == ["https://proxy.example", "https://a.example"]
    assert await found["https://proxy.example"].tokens.read() == token


@pytest.mark.parametrize("token", ["secret", "a.b.c", token_of("alice", "client")])
def test_a_token_without_an_address_is_rejected_and_not_quoted(tmp_path: Path, token: str) -> None:
    with pytest.raises(ProxyAddressError) as caught:
        ProxyCredentials(tmp_path, {"MCPB_PROXY_TOKEN": token})
    assert token not in str(caught.value)


def test_each_cause_has_a_sentence_with_a_remedy_and_a_finding() -> None:
    for cause in ProxyCause:
        problem = ProxyProblem(cause).describe("https://proxy.example")
        assert problem.startswith("WebSocket proxy https://proxy.example: ")
        assert "{" not in problem
        assert FindingCode(f"proxy-{cause}")


def test_each_reason_of_the_protocol_is_a_cause() -> None:
    for reason in RejectionReason:
        assert ProxyProblem.of_token(reason, "detail").cause == f"token-{reason}"
    assert ProxyProblem.of_token("of another proxy", "").cause is ProxyCause.TOKEN_MALFORMED
