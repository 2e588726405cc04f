"""Command of the program that runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from native_host.system.program_name import installed_command


@pytest.mark.parametrize("program", ["bin/python3", ""])
def test_the_mcpb_beside_the_system_s_python_is_not_taken_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mcpb").touch()
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(sys, "executable", str(tmp_path / program) if program else "")
    assert installed_command() == ""


def test_the_mcpb_of_a_virtual_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert installed_command() == ""
    (tmp_path / "mcpb").touch()
    assert installed_command() == str(tmp_path / "mcpb")
