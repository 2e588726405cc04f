"""The `mcpb` command: what it checks before a command runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from bridge.cli.group import main

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")


@pytest.fixture
def foreign(mcpb_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME, a directory of another user."""
    home = tmp_path / "foreign"
    home.mkdir()
    os.chown(home, 65534, 65534)
    monkeypatch.setenv("HOME", str(home))
    return home


@needs_root
def test_a_command_that_reads_ignores_the_home_of_another_user_and_warns_once(
    foreign: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = CliRunner().invoke(main, ["audit"])
    assert ended.exit_code == 0
    (warning,) = caplog.records
    assert (warning.levelname, warning.args and str(foreign) in map(str, warning.args)) == ("WARNING", True)


@needs_root
@pytest.mark.parametrize(
    "arguments", [["install-native-host", "--yes"], ["uninstall-native-host", "--yes"], ["doctor", "--fix"]]
)
def test_a_command_that_writes_rejects_the_home_of_another_user(foreign: Path, arguments: list[str]) -> None:
    ended = CliRunner().invoke(main, arguments)
    assert ended.exit_code == 1
    assert str(foreign) in ended.output
    assert list(foreign.iterdir()) == []
