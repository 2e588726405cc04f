"""Codes, reasons and names of the WebSocket proxy protocol."""

from __future__ import annotations

import json

import msgspec
import pytest

from websocket_proxy import protocol
from websocket_proxy.protocol import CloseCode, Credentials, Handshake, RejectionReason, Role, is_reserved


def test_close_codes_are_those_of_the_protocol() -> None:
    assert sorted(code.value for code in CloseCode) == [1001, 1003, 1007, 1008, 1009, 1011, 1013, 4001]


def test_reasons_of_rejections_are_those_of_the_protocol() -> None:
    assert [reason.value for reason in RejectionReason] == [
        "malformed", "signature", "algorithm", "unknown-key", "issuer", "audience", "expired",
        "not-yet-valid", "user", "scope", "connection-url", "revoked", "missing", "another-user",
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [Credentials, Handshake])
@pytest.mark.parametrize("member", ["accessToken", "access_token"])
def test_a_token_has_two_names_and_is_sent_under_one(shape: type[protocol.TokenBearer], member: str) -> None:
    bearer = msgspec.json.decode(json.dumps({member: "eyJ"}), type=shape)
    assert bearer.token == "eyJ"
    assert msgspec.json.encode(shape(access_token="eyJ")) == b'{"accessToken":"eyJ"}'


def test_each_role_has_a_scope_of_its_own() -> None:
    assert [role.value for role in Role] == ["mcpb:extension", "mcpb:client"]


def test_the_proxy_answers_four_requests_and_sends_five_messages_of_its_own() -> None:
    assert set(protocol.CONTROL_METHODS) == {"mcp_handshake", "list_extensions", "connect", "disconnect"}
    assert set(protocol.PROXY_METHODS) == {
        "authenticate", "authenticated", "status", "disconnected", "extensions",
    }  # fmt: skip


@pytest.mark.parametrize("method", ["authenticate", "disconnected", "status", "host/clients", "bridge/hello"])
def test_names_of_the_proxy_and_of_native_hosts_are_reserved(method: str) -> None:
    assert is_reserved(method)


@pytest.mark.parametrize("method", ["createTab", "click", "browser/executeTool", "notifications/message"])
def test_names_of_tools_and_of_the_extension_are_not_reserved(method: str) -> None:
    assert not is_reserved(method)


def test_close_reasons_with_the_longest_rejection_fit_into_a_close_frame() -> None:
    longest = max(RejectionReason, key=len)
    assert len(f"Invalid token: {longest}".encode()) <= 123
