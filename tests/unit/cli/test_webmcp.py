"""`mcpb webmcp`: which files it copies, and what it does not overwrite."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bridge.cli.group import main

MODULE = Path(__file__).parents[3] / "webmcp"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPB_HOME", str(tmp_path / "mcpb"))
    monkeypatch.setenv("HOME", str(tmp_path))


def copy(directory: Path) -> Result:
    return CliRunner().invoke(main, ["webmcp", str(directory)])


def test_the_module_is_copied_into_a_new_directory(tmp_path: Path) -> None:
    result = copy(tmp_path / "site/webmcp")
    assert result.exit_code == 0, result.output
    copied = {path.name: path.read_bytes() for path in (tmp_path / "site/webmcp").iterdir()}
    assert copied == {path.name: path.read_bytes() for path in MODULE.iterdir()}


def test_an_earlier_copy_is_updated_and_other_files_stay(tmp_path: Path) -> None:
    copy(tmp_path)
    (tmp_path / "register.js").write_text("old")
    (tmp_path / "mine.js").write_text("mine")
    manifest = json.loads((tmp_path / "package.json").read_text()) | {"version": "0.0.1"}
    (tmp_path / "package.json").write_text(json.dumps(manifest))
    assert copy(tmp_path).exit_code == 0
    assert (tmp_path / "register.js").read_bytes() == (MODULE / "register.js").read_bytes()
    assert (tmp_path / "mine.js").read_text() == "mine"


@pytest.mark.parametrize("manifest", [None, "{", "[]", '{"name": "other"}'])
def test_files_of_another_project_are_not_overwritten(tmp_path: Path, manifest: str | None) -> None:
    (tmp_path / "README.md").write_text("mine")
    if manifest is not None:
        (tmp_path / "package.json").write_text(manifest)
    result = copy(tmp_path)
    assert result.exit_code == 1
    assert "README.md" in result.output
    assert (tmp_path / "README.md").read_text() == "mine"
    assert not (tmp_path / "register.js").exists()


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/register.js").symlink_to(tmp_path / "elsewhere.js")
    assert copy(tmp_path / "site").exit_code == 1
    assert not (tmp_path / "elsewhere.js").exists()


def test_a_file_in_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert copy(tmp_path / "file").exit_code == 2
    result = copy(tmp_path / "file/below")
    assert result.exit_code == 1
    assert "Not a directory" in result.output


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir(mode=0o500)
    is_root = os.geteuid() == 0  # which may write everywhere but here
    result = copy(Path("/proc/mcpb") if is_root else tmp_path / "site")
    assert result.exit_code == 1
    assert "cannot be written" in result.output


def test_the_copy_can_be_installed_and_imported(tmp_path: Path) -> None:
    copy(tmp_path / "node_modules/mcpb-webmcp")
    script = (
        "import { registerWebMcp } from 'mcpb-webmcp';"
        "console.log((await registerWebMcp({ url: '/mcp', quiet: true })).tools)"
    )
    run = subprocess.run(
        ["node", "--input-type=module", "--eval", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "[]\n"
