"""When the token of a sign-in is refreshed."""

from __future__ import annotations

import pytest

from bridge.links.oauth.login_file import RemoteLogin


def login(lifetime_s: float | None) -> RemoteLogin:
    return RemoteLogin(
        url="https://orders.example/mcp",
        issuer="https://login.example",
        token_endpoint="https://login.example/token",
        client_id="mcpb",
        access_token="abc",
        issued_at=1000.0,
        expires_at=None if lifetime_s is None else 1000.0 + lifetime_s,
    )


@pytest.mark.parametrize(
    ("lifetime_s", "age_s", "is_new", "is_due", "is_expired"),
    [
        (3600, 0, True, False, False),
        (3600, 10, False, False, False),
        (3600, 3539, False, False, False),
        (3600, 3540, False, True, False),
        (3600, 3600, False, True, True),
        (4, 1.9, True, False, False),
        (4, 2, False, True, False),
        (None, 9, True, False, False),
        (None, 10**9, False, False, False),
        (3600, -5, False, False, False),  # the clock was set back
    ],
)
def test_a_token_is_due_before_it_expires_and_not_while_it_is_new(
    lifetime_s: float | None, age_s: float, *, is_new: bool, is_due: bool, is_expired: bool
) -> None:
    found, now = login(lifetime_s), 1000.0 + age_s
    assert (found.is_new(now), found.is_due(now), found.is_expired(now)) == (is_new, is_due, is_expired)
