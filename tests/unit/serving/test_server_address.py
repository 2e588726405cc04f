"""Addresses of servers."""

from __future__ import annotations

import pytest

from http_serving.server_address import AddressError, parse_server_address


@pytest.mark.parametrize(
    ("text", "shown", "target"),
    [
        ("https://Proxy.Example", "https://proxy.example", "/"),
        ("https://proxy.example:443/a?b=c", "https://proxy.example/a", "/a?b=c"),
        ("HTTP://127.0.0.1:8765/", "http://127.0.0.1:8765/", "/"),
        ("ws://[::1]:80/mcp", "ws://[::1]/mcp", "/mcp"),
        ("wss://localhost:80/mcp", "wss://localhost:80/mcp", "/mcp"),
    ],
)
def test_an_address_is_shown_without_its_usual_port_and_its_query(text: str, shown: str, target: str) -> None:
    address = parse_server_address(text)
    assert (str(address), address.target) == (shown, target)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:8765",
        "//proxy.example",
        "ftp://proxy.example",
        "https://",
        "https://:443/",
        "https://user@proxy.example",
        "https://user:secret@proxy.example",
        "https://@proxy.example",
        "https://proxy.example#part",
        "https://proxy.example:0",
        "https://proxy.example:99999",
        "https://proxy.example:x",
        "https://[::1",
        "https://proxy.example/a b",
        "https://proxy.example/\n",
        "https://pröxy.example",
    ],
)
def test_other_texts_are_rejected_without_quoting_them(text: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_server_address(text)
    assert "secret" not in str(caught.value)
