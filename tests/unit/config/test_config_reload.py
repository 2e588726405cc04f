"""config.toml is applied when it changes, never half written, and an error keeps the old rules."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from bridge.config.loader import read_config
from bridge.config.reload import ConfigReload
from bridge.config.settings import Config

DENY = '[policy]\ndeny = ["https://bank.example"]\n'


class Applied:
    """A reload, and what it has applied."""

    def __init__(self, home: Path) -> None:
        self.file = home / "config.toml"
        self.configs: list[Config] = []
        self.reload = ConfigReload(home, read_config(home, {}), self.configs.append, {})

    def poll(self, times: int = 2) -> list[tuple[str, ...]]:
        """The lists of denied sites that were applied meanwhile."""
        before = len(self.configs)
        for _ in range(times):
            self.reload.poll()
        return [config.policy.deny for config in self.configs[before:]]


@pytest.fixture
def applied(tmp_path: Path) -> Applied:
    (tmp_path / "config.toml").write_text(DENY)
    found = Applied(tmp_path)
    assert found.poll() == []
    return found


def test_a_change_is_applied_when_two_looks_have_seen_it(applied: Applied) -> None:
    applied.file.write_text('[policy]\ndeny = ["https://shop.example"]\n')
    assert applied.poll(1) == []
    assert applied.poll(1) == [("https://shop.example",)]
    assert applied.poll(3) == []


def test_a_change_between_the_start_and_the_first_look_is_applied(tmp_path: Path) -> None:
    found = Applied(tmp_path)
    found.file.write_text(DENY)
    assert found.poll() == [("https://bank.example",)]


@pytest.mark.parametrize("step", ["emptied", "removed"])
def test_an_editor_that_empties_or_removes_the_file_first_lifts_nothing(applied: Applied, step: str) -> None:
    if step == "emptied":
        applied.file.write_text("")
    else:
        applied.file.unlink()
    assert applied.poll(1) == []
    applied.file.write_text(f"# mine\n{DENY}")
    assert applied.poll(3) == []


def test_a_file_that_is_removed_for_good_lifts_its_rules(applied: Applied) -> None:
    applied.file.unlink()
    assert applied.poll() == [()]


def test_an_error_keeps_the_rules_and_is_reported_with_file_and_line(
    applied: Applied, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    applied.file.write_text("[policy]\ndeny = [\n")
    assert applied.poll(5) == []
    assert str(applied.file) in applied.reload.problem
    assert "(at end of document), of 2 lines" in applied.reload.problem
    assert len(caplog.messages) == 1
    applied.file.write_text(DENY)
    assert applied.poll() == []
    assert applied.reload.problem == ""


def test_a_file_that_others_can_write_keeps_the_rules(applied: Applied) -> None:
    applied.file.write_text("")
    applied.file.chmod(0o666)
    assert applied.poll() == []
    assert "can be written by others" in applied.reload.problem
    applied.file.chmod(0o644)
    assert applied.poll() == [()]


def test_what_only_a_start_decides_is_not_applied(applied: Applied) -> None:
    applied.file.write_text(f"max_name = 30\n{DENY}[http]\nport = 4000\n")
    assert applied.poll() == []
