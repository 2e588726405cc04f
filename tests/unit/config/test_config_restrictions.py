"""The environment tightens restrictions of config.toml and never loosens one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.config import loader
from bridge.config.loader import read
from bridge.config.restrictions import ALWAYS_RESTRICTED, RESTRICTIONS, UNRESTRICTED
from bridge.config.settings import Config

TABLES = {"http", "browser", "existing_channel"}


@pytest.fixture(autouse=True)
def nothing_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_warned", set())


def settable_keys() -> set[str]:
    """The keys that have a variable."""
    keys = {key for key in Config.__struct_fields__ if key not in {*TABLES, "policy", "pages"}}
    for table in TABLES:
        shape = type(getattr(Config(), table))
        keys |= {f"{table}.{key}" for key in shape.__struct_fields__}
    return keys - {"http.auth"}


def test_each_key_with_a_variable_is_a_restriction_or_is_named_as_none() -> None:
    """Who adds a key decides what a tighter value of it is."""
    assert RESTRICTIONS.keys() | UNRESTRICTED == settable_keys()
    assert not RESTRICTIONS.keys() & UNRESTRICTED
    assert RESTRICTIONS.keys() >= ALWAYS_RESTRICTED


TIGHTER = [
    ("calls_per_minute", "30", "20", 20),
    ("calls_per_minute", "0", "20", 20),
    ("audit_arguments", "true", "false", False),
    ("http.enabled", "true", "false", False),
    ("http.host", '"0.0.0.0"', "127.0.0.1", "127.0.0.1"),
    (
        "http.cors_origins",
        '["http://a.example", "http://b.example"]',
        "http://a.example",
        ("http://a.example",),
    ),
    ("http.allowed_hosts", '["a.example", "b.example"]', "a.example", ("a.example",)),
    ("http.calls_per_minute", "30", "20", 20),
    ("browser.enabled", "true", "false", False),
    ("browser.tabs", '"any"', "ask", "ask"),
    ("browser.sites", '"any"', "ask", "ask"),
    ("browser.ask_in", '"client"', "extension", "extension"),
    ("browser.find_with_model", "true", "false", False),
    ("browser.resume", '"any"', "terminal", "terminal"),
    ("existing_channel.attach", "true", "false", False),
    ("existing_channel.publish", "true", "false", False),
]
LOOSER = [
    ("calls_per_minute", "30", "31", 30),
    ("calls_per_minute", "30", "0", 30),
    ("audit_arguments", "false", "true", False),
    ("http.enabled", "false", "true", False),
    ("http.host", '"127.0.0.1"', "0.0.0.0", "127.0.0.1"),
    ("http.cors_origins", '["http://a.example"]', "http://a.example,http://b.example", ("http://a.example",)),
    ("http.allowed_hosts", '["a.example"]', "b.example", ("a.example",)),
    ("http.calls_per_minute", "30", "0", 30),
    ("browser.enabled", "false", "true", False),
    ("browser.tabs", '"own"', "any", "own"),
    ("browser.sites", '"ask"', "any", "ask"),
    ("browser.ask_in", '"extension"', "client", "extension"),
    ("browser.find_with_model", "false", "true", False),
    ("browser.resume", '"terminal"', "any", "terminal"),
    ("existing_channel.attach", "false", "true", False),
    ("existing_channel.publish", "false", "true", False),
]


def read_with(home: Path, key: str, of_file: str, variable: str) -> Any:
    table, _, name = key.rpartition(".")
    (home / "config.toml").write_text(f"[{table}]\n{name} = {of_file}\n" if table else f"{key} = {of_file}\n")
    found = msgspec.to_builtins(read(home, {f"MCPB_{key.replace('.', '_').upper()}": variable}))
    return found[table][name] if table else found[key]


@pytest.mark.parametrize(("key", "of_file", "variable", "value"), TIGHTER)
def test_a_tighter_value_replaces_the_file_s(
    tmp_path: Path, key: str, of_file: str, variable: str, value: Any
) -> None:
    found = read_with(tmp_path, key, of_file, variable)
    assert (tuple(found) if isinstance(found, list) else found) == value


@pytest.mark.parametrize(("key", "of_file", "variable", "value"), LOOSER)
def test_a_looser_value_is_ignored_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: str, of_file: str, variable: str, value: Any
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        found = read_with(tmp_path, key, of_file, variable)
        assert (tuple(found) if isinstance(found, list) else found) == value
    (warning,) = caplog.messages
    assert warning.endswith(f"is ignored: it would loosen {key} of config.toml")


def test_both_lists_have_each_restriction() -> None:
    assert {row[0] for row in TIGHTER} == {row[0] for row in LOOSER} == RESTRICTIONS.keys()


def test_what_the_file_leaves_out_may_be_set_but_for_where_to_resume(tmp_path: Path) -> None:
    environ = {"MCPB_BROWSER_TABS": "any", "MCPB_BROWSER_RESUME": "any"}
    settings = read(tmp_path, environ).browser
    assert (settings.tabs, settings.resume) == ("any", "terminal")
