"""The summary of `make test`, from the reports of real pytest runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from run_summary import failed_groups, summarize

FAILING = """
import pytest

@pytest.fixture
def broken():
    raise OSError("no such port")

def test_passes(): pass

@pytest.mark.parametrize("text", ["a.b/c [d]"])
def test_fails(text): assert text == "b"

class TestGroup:
    def test_errors(self, broken): pass

def test_skips(): pytest.skip("not here")
"""
PASSING = "def test_passes(): pass"
UNIMPORTABLE = "import missing_module"
SUMMARY = """
Failed in this run:
FAILED tests/deep/test_bad.py::test_fails[a.b/c [d]] - AssertionError: assert 'a.b/c [d]' == 'b'
ERROR tests/deep/test_bad.py::TestGroup::test_errors - failed on setup with "OSError: no such port"

Repeat it with:
  .venv/bin/pytest -q \\
    'tests/deep/test_bad.py::test_fails[a.b/c [d]]' \\
    tests/deep/test_bad.py::TestGroup::test_errors
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a run in a checkout that has one directory of tests."""
    monkeypatch.chdir(tmp_path)
    Path("tests/deep").mkdir(parents=True)
    Path("results").mkdir()
    Path("results/started").write_text("0")
    return Path("results")


def run_group(name: str, source: str) -> None:
    """Run a file as the Makefile runs a group."""
    Path(f"tests/deep/test_{name}.py").write_text(source)
    report = f"--junitxml=results/test-{name}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "--rootdir=.", report]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        [*command, f"tests/deep/test_{name}.py"], env=env, capture_output=True, check=False, timeout=60
    )
    if ended.returncode:
        with Path("results/failed").open("a") as failed:
            failed.write(f"test-{name}\n")


def test_failed_tests_of_all_groups_are_listed_with_the_command_that_repeats_them(results: Path) -> None:
    run_group("bad", FAILING)
    run_group("good", PASSING)
    *lines, last = summarize(results)
    assert "\n".join(lines) == SUMMARY
    assert last.startswith("1 failed, 2 passed, 1 skipped, 1 error in ")


def test_a_file_that_cannot_be_imported_is_repeated_as_a_whole(results: Path) -> None:
    run_group("bad", UNIMPORTABLE)
    *lines, last = summarize(results)
    assert "  .venv/bin/pytest -q \\\n    tests/deep/test_bad.py" in lines
    assert last.startswith("1 error in ")


def test_a_group_that_failed_without_a_failed_test_is_repeated_by_its_make_target(results: Path) -> None:
    run_group("good", PASSING)
    (results / "failed").write_text("check\ntest-killed\n")
    *lines, last = summarize(results)
    assert "ERROR make check - no test failed: see its output above" in lines
    assert "  make check test-killed" in lines
    assert last.startswith("1 passed, 2 errors in ")


def test_a_run_without_failures_ends_with_its_counts_alone(results: Path) -> None:
    run_group("good", PASSING)
    [line] = summarize(results)
    assert line.startswith("1 passed in ")
    assert failed_groups(results) == []
