"""Access tokens: added, listed, revoked, and found again by a server that runs."""

from __future__ import annotations

import json
import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from bridge.config.settings import HttpSettings
from bridge.frontends.http.access_tokens import (
    AccessTokens,
    TokenClient,
    add_token,
    digest_of,
    list_tokens,
    revoke_token,
)
from bridge.frontends.http.bearer_token import TokenError

DEFAULTS = HttpSettings()
CONFIGURED = HttpSettings(auth_token="of-the-configuration")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def default_token(state: Path) -> str:
    return (state / "http-token").read_text().strip()


def complaint(state: Path, name: str) -> str:
    with pytest.raises(TokenError) as refused:
        add_token(state, name)
    return str(refused.value)


def test_at_the_first_start_the_token_of_default_is_created(state: Path) -> None:
    tokens = AccessTokens(DEFAULTS, state)
    token = default_token(state)
    assert tokens.find(token) == TokenClient("default", digest_of(token))
    assert [tokens.find(other) for other in ("", token[:-1], token.upper(), digest_of(token))] == [None] * 4


def test_a_configured_token_is_the_one_of_default_and_no_file_is_created(state: Path) -> None:
    tokens = AccessTokens(CONFIGURED, state)
    assert tokens.find("of-the-configuration") == TokenClient("default", digest_of("of-the-configuration"))
    assert not (state / "http-token").exists()


def test_a_token_is_accepted_once_added_and_rejected_once_revoked(state: Path) -> None:
    tokens = AccessTokens(DEFAULTS, state)
    token = add_token(state, "laptop")
    assert tokens.find(token) == TokenClient("laptop", digest_of(token))
    revoke_token(DEFAULTS, state, "laptop")
    assert tokens.find(token) is None
    assert not tokens.is_valid(digest_of(token))
    assert add_token(state, "laptop") != token
    assert tokens.find(token) is None
    assert tokens.is_valid(digest_of(default_token(state)))


def test_the_token_of_default_is_replaced_by_its_revocation(state: Path) -> None:
    tokens = AccessTokens(DEFAULTS, state)
    old = default_token(state)
    revoke_token(DEFAULTS, state, "default")
    assert tokens.find(old) is None
    assert tokens.find(default_token(state))
    assert stat.S_IMODE((state / "http-token").stat().st_mode) == 0o600
    with pytest.raises(TokenError, match=r"auth_token in config\.toml"):
        revoke_token(CONFIGURED, state, "default")


def test_a_command_that_was_killed_leaves_nothing_in_the_way(state: Path) -> None:
    state.mkdir(mode=0o700)
    for name in ("http-token.new", "http-tokens.json.new"):
        (state / name).write_text("half")
    token = add_token(state, "laptop")
    revoke_token(DEFAULTS, state, "default")
    assert {each.name for each in state.iterdir()} == {"http-token", "http-tokens.json"}
    assert AccessTokens(DEFAULTS, state).find(token)


def test_only_names_and_digests_are_stored_for_this_user_alone(state: Path) -> None:
    token = add_token(state, "laptop")
    path = state / "http-tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token not in path.read_text()
    assert json.loads(path.read_text())["laptop"]["sha256"] == digest_of(token)
    assert [each.name for each in state.iterdir()] == ["http-tokens.json"]


@pytest.mark.parametrize("name", ["", "-a", "a b", "a\n", "ä", "../a", "x" * 65])
def test_a_name_that_cannot_be_typed_everywhere_is_rejected(state: Path, name: str) -> None:
    assert "cannot be the name of a token" in complaint(state, name)


def test_a_client_has_one_token(state: Path) -> None:
    add_token(state, "laptop")
    assert "mcpb serve token revoke laptop" in complaint(state, "laptop")
    assert "has a token already" in complaint(state, "default")
    with pytest.raises(TokenError, match="mcpb serve token list"):
        revoke_token(DEFAULTS, state, "other")


def test_two_commands_at_once_lose_no_token(state: Path) -> None:
    names = [f"client{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(partial(add_token, state), names))
    assert {name for name, _ in list_tokens(DEFAULTS, state)} == {"default", *names}


@pytest.mark.parametrize("content", ["{", "[]", '{"laptop": "x"}', '{"laptop": {"sha256": "x"}}'])
def test_of_a_file_that_cannot_be_used_no_token_is_accepted(
    state: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = AccessTokens(DEFAULTS, state)
    token = add_token(state, "laptop")
    assert tokens.find(token)
    (state / "http-tokens.json").write_text(content)
    with caplog.at_level(logging.ERROR):
        assert tokens.find(token) is None
    assert f"rm {state / 'http-tokens.json'}" in caplog.text
    assert "Remove it and add the tokens again" in complaint(state, "other")
    with pytest.raises(TokenError):
        AccessTokens(DEFAULTS, state)


def test_the_error_of_an_invalid_file_names_the_rule_and_the_command(state: Path) -> None:
    add_token(state, "laptop")
    (state / "http-tokens.json").write_text("[]")
    reason = "expected object, got array"
    assert complaint(state, "desk").startswith(f"{state / 'http-tokens.json'} cannot be read: {reason}. ")
    assert complaint(state, "desk").endswith(f"rm {state / 'http-tokens.json'}")


def test_a_file_that_others_could_have_written_is_not_used(state: Path) -> None:
    tokens = AccessTokens(DEFAULTS, state)
    token = add_token(state, "laptop")
    (state / "http-tokens.json").chmod(0o620)
    (state / "http-tokens.json").write_text((state / "http-tokens.json").read_text() + "\n")
    assert tokens.find(token) is None


def test_the_list_names_clients_and_no_token(state: Path) -> None:
    token = add_token(state, "laptop")
    (default, path), (added, since) = list_tokens(DEFAULTS, state)
    assert (default, path, added) == ("default", str(state / "http-token"), "laptop")
    assert since.startswith("since 20")
    assert token not in since
    assert list_tokens(CONFIGURED, state)[0] == ("default", "auth_token in config.toml")
