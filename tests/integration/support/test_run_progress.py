"""Progress of `make test`: the groups that run, with the output of all passed on."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from run_progress import format_groups
from source_trees import ROOT

COMMAND = [sys.executable, str(ROOT / "tests/support/run_progress.py")]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "running-test-unit").write_text("1000\n")
    (tmp_path / "running-check").write_text("1062\n")
    (tmp_path / "running-test-e2e-chain").write_text("")  # it begins at this moment
    return tmp_path


def test_each_group_has_its_time(results: Path) -> None:
    assert format_groups(results, 1065.5) == "check 0:03, test-unit 1:05"


def test_without_a_terminal_each_group_is_named_once(results: Path) -> None:
    output = "3 passed\nlast"
    shown = subprocess.run(
        [*COMMAND, str(results)], input=output, capture_output=True, text=True, timeout=60, check=True
    )
    assert shown.stdout == "Running check ...\nRunning test-unit ...\n3 passed\nlast"


def test_on_a_terminal_the_output_replaces_the_line_of_the_groups(results: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([*COMMAND, str(results)], stdin=subprocess.PIPE, stdout=theirs) as process:
        os.close(theirs)
        assert process.stdin is not None
        shown = b""
        while b"test-unit" not in shown:
            shown += os.read(ours, 65536)
        process.stdin.write(b"3 passed\n")
        process.stdin.close()
        while b"\r\x1b[K3 passed\r\n" not in shown:
            shown += os.read(ours, 65536)
        process.wait(60)
    os.close(ours)
