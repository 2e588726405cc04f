"""`.ci/check-commits` rejects subjects that are long, end with a period, or begin with no imperative verb."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from source_trees import ROOT


def git(repository: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", "-C", str(repository), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def no_outer_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the repository whose hook runs these tests: git names it in the environment."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the script and one commit."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "Whatever came before the rule.")
    return tmp_path


def check(repository: Path, subject: str) -> tuple[int, str]:
    git(repository, "commit", "-q", "--allow-empty", "-m", subject)
    done = subprocess.run([repository / ".ci/check-commits"], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "subject", ["Add a gate", "docs: describe the gate", "tests/e2e: wait for the worker"]
)
def test_a_good_subject_is_accepted(repository: Path, subject: str) -> None:
    assert check(repository, subject) == (0, "")


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("Add " + "x" * 69, "over 72 characters"),
        ("Add a gate.", "ends with a period"),
        ("A gate is added", "A is not in .ci/verbs.txt"),
        ("docs: gates", "gates is not in .ci/verbs.txt"),
    ],
)
def test_a_bad_subject_is_rejected_with_its_reason(repository: Path, subject: str, reason: str) -> None:
    code, message = check(repository, subject)
    assert (code, subject in message, reason in message) == (1, True, True)


def test_an_archive_without_history_is_accepted(repository: Path) -> None:
    shutil.rmtree(repository / ".git")
    assert subprocess.run([repository / ".ci/check-commits"], cwd="/", check=False).returncode == 0
