"""Where mcpb itself is installed: one that stays, is its own, and whose `mcpb` a terminal finds."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from install import interpreter
from install.checks.environment import (
    OUR_PACKAGES,
    Environment,
    command_name,
    examine_environment,
    this_environment,
)
from install.findings import Finding, show_all
from install.interpreter import (
    InterpreterError,
    current_interpreter,
    find_clone,
    find_temporary,
    is_temporary,
)
from install.machine import Machine

ROOT = Path(__file__).parents[3]


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def healthy(tmp_path: Path) -> Environment:
    """As `uv tool install` makes it: an environment of its own, and links in a folder on PATH."""
    commands, links = tmp_path / "tools/mcpb/bin", tmp_path / ".local/bin"
    links.mkdir(parents=True)
    for name in ("mcpb", "mcpb-bridge"):
        (links / name).symlink_to(executable(commands / name))
    return Environment(
        interpreter=executable(commands / "python"),
        commands=commands,
        found=links / "mcpb",
        found_second=links / "mcpb-bridge",
    )


def codes(environment: Environment, wrapper_interpreter: Path | None = None) -> list[str]:
    return [finding.code for finding in examine_environment(environment, wrapper_interpreter)]


# ── Which mcpb ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_environment_of_its_own_with_links_on_path_is_healthy(healthy: Environment) -> None:
    assert codes(healthy, healthy.interpreter) == []


def as_called(finding: Finding, environment: Environment) -> str:
    """Render the command as `mcpb doctor` does."""
    assert finding.command is not None
    return finding.command.render(show_all, command_name(environment))


def test_another_mcpb_first_on_path_is_named_with_ours_and_the_second_name(
    healthy: Environment, tmp_path: Path
) -> None:
    npm = executable(tmp_path / "npm/bin/mcpb")
    (finding,) = examine_environment(replace(healthy, found=npm))
    assert finding.code == "mcpb-is-another"
    assert str(npm) in finding.text
    assert str(healthy.commands / "mcpb") in finding.text
    assert (
        as_called(finding, replace(healthy, found=npm))
        == "claude mcp add --scope user browser -- mcpb-bridge bridge --name browser"
    )


def test_where_the_second_name_is_taken_too_the_whole_path_is_named(
    healthy: Environment, tmp_path: Path
) -> None:
    other = executable(tmp_path / "other/bin/mcpb")
    taken = replace(healthy, found=other, found_second=None)
    (finding,) = examine_environment(taken)
    own = healthy.commands / "mcpb-bridge"
    assert as_called(finding, taken) == f"claude mcp add --scope user browser -- {own} bridge --name browser"


def test_an_mcpb_that_no_terminal_finds_is_told_with_the_line_that_mends_it(healthy: Environment) -> None:
    (finding,) = examine_environment(replace(healthy, found=None, found_second=None))
    assert finding.code == "mcpb-not-on-path"
    run = subprocess.run(
        ["/bin/sh", "-c", f"{finding.command_line}; command -v mcpb"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == str(healthy.commands / "mcpb")


# ── Whom it lives with ──────────────────────────────────────────────────────────────────────────────────────


def test_a_package_that_another_distribution_owns_too_is_a_fault(healthy: Environment) -> None:
    (finding,) = examine_environment(replace(healthy, rivals={"bridge": "bridge-tools"}, is_shared=True))
    assert (finding.code, finding.level) == ("package-taken", "fault")
    assert "`bridge`" in finding.text
    assert "bridge-tools" in finding.text


def test_a_shared_environment_lists_who_else_is_in_it(healthy: Environment) -> None:
    names = [f"package-{number}" for number in range(8)]
    (finding,) = examine_environment(replace(healthy, is_shared=True, neighbours=names))
    assert (finding.code, finding.level) == ("environment-shared", "warning")
    assert "package-0, package-1, package-2, package-3, package-4 and 3 more" in finding.text


def test_a_virtual_environment_with_others_in_it_is_only_noted(healthy: Environment) -> None:
    (finding,) = examine_environment(replace(healthy, neighbours=["django"]))
    assert (finding.code, finding.level) == ("environment-shared", "note")


def test_a_wrapper_of_another_living_installation_names_both(healthy: Environment, tmp_path: Path) -> None:
    other = executable(tmp_path / "other/bin/python")
    (finding,) = examine_environment(healthy, other)
    assert finding.code == "wrapper-of-another-installation"
    assert str(other) in finding.text
    assert str(healthy.interpreter) in finding.text


def test_a_wrapper_whose_interpreter_is_gone_is_no_other_installation(healthy: Environment) -> None:
    assert codes(healthy, Path("/nonexistent/python")) == []


def test_in_wsl_it_is_noted_that_a_browser_of_windows_needs_something_else(healthy: Environment) -> None:
    (finding,) = examine_environment(replace(healthy, is_in_wsl=True))
    assert (finding.code, finding.level) == ("browsers-of-windows", "note")


# ── Whether it stays ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("environment", "environ"),
    [
        ("/home/ana/.cache/uv/archive-v0/q8TMFewKei4S1VE9", {}),
        ("/home/ana/.cache/uv/environments-v2/app-1f2e", {}),
        ("/home/ana/.cache/pipx/b1d28b1e8aa1c5c", {}),
        ("/home/ana/.local/pipx/.cache/b1d28b1e8aa1c5c", {}),
        ("/home/ana/Library/Caches/pipx/b1d28b1e8aa1c5c", {}),
        ("/fast/cache/uv/archive-v0/q8TMFewKei4S1VE9", {"XDG_CACHE_HOME": "/fast/cache"}),
        ("/fast/uv-files/archive-v0/q8TMFewKei4S1VE9", {"UV_CACHE_DIR": "/fast/uv-files"}),
        ("/tmp/pip-build-env-x7l2/overlay", {}),
        ("/tmp/.mount_mcpbXy2/usr", {}),
    ],
)
def test_an_environment_in_a_cache_or_of_one_command_will_vanish(
    environment: str, environ: dict[str, str]
) -> None:
    assert find_temporary(Path(environment), Path("/home/ana"), environ)


@pytest.mark.parametrize(
    "environment",
    [
        "/home/ana/.local/share/uv/tools/mcpb",
        "/home/ana/.local/share/pipx/venvs/mcpb",
        "/home/ana/.local/share/mcpb/venv",
        "/home/ana/src/mcpb/.venv",
        "/home/ana/.cache/pypoetry/virtualenvs/app-py3.11",
        "/tmp/clone/.venv",
        "/nix/store/0c1-mcpb",
    ],
)
def test_an_environment_that_somebody_made_stays(environment: str) -> None:
    assert find_temporary(Path(environment), Path("/home/ana"), {}) == ""


def test_a_cache_is_known_by_its_tag_wherever_it_is_but_an_environment_s_own_tag_means_nothing(
    tmp_path: Path,
) -> None:
    environment = tmp_path / "kept/archive/environment"
    environment.mkdir(parents=True)
    (environment / "CACHEDIR.TAG").touch()  # uv and pipx write one into every environment
    assert find_temporary(environment, tmp_path / "home", {}) == ""
    (tmp_path / "kept/CACHEDIR.TAG").touch()
    assert find_temporary(environment, tmp_path / "home", {})


def test_a_vanishing_interpreter_is_not_registered_and_the_message_says_what_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interpreter, "find_temporary", lambda *_: "in the cache /home/ana/.cache/uv")
    with pytest.raises(InterpreterError, match=r"will not stay.*install/install\.sh.*pipx.*uv tool"):
        current_interpreter()


def test_a_vanishing_environment_is_a_fault_and_a_temporary_one_a_warning(healthy: Environment) -> None:
    (finding,) = examine_environment(replace(healthy, vanishing="in the cache /x", is_temporary=True))
    assert (finding.code, finding.level) == ("interpreter-vanishes", "fault")
    (finding,) = examine_environment(replace(healthy, is_temporary=True))
    assert (finding.code, finding.level) == ("interpreter-temporary", "warning")
    (finding,) = examine_environment(replace(healthy, is_temporary=True, is_home_temporary=True))
    assert (finding.code, finding.command_line) == ("interpreter-temporary", "")
    assert "--prefix DIR" in finding.text
    assert is_temporary(Path("/var/tmp/clone/.venv"))
    assert not is_temporary(Path("/home/ana/tmp/.venv"))


# ── Where it came from ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def a_clone(tmp_path: Path) -> Path:
    folder = tmp_path / "Ana's clone"
    executable(folder / "install/install.sh")
    return folder


def recorded(monkeypatch: pytest.MonkeyPatch, site: Path, direct_url: str | None) -> Path | None:
    """The clone that is found where pip left this record."""
    record = site / "mcpb-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Name: mcpb\nVersion: 1.0\n")
    if direct_url is not None:
        (record / "direct_url.json").write_text(direct_url)
    monkeypatch.setattr(sys, "path", [str(site)])
    return find_clone()


def test_the_clone_is_known_from_pip_s_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, a_clone: Path
) -> None:
    record = json.dumps({"url": a_clone.as_uri(), "dir_info": {}})
    assert recorded(monkeypatch, tmp_path / "site", record) == a_clone


@pytest.mark.parametrize(
    "direct_url",
    [
        None,
        '{"url": "file:///nonexistent/clone", "dir_info": {}}',
        '{"url": "https://example.org/mcpb.zip", "archive_info": {}}',
        '{"url": 1}',
        "[]",
        "{",
    ],
)
def test_a_clone_that_is_gone_or_was_none_is_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, direct_url: str | None
) -> None:
    assert recorded(monkeypatch, tmp_path / "site", direct_url) is None


UNWELL: list[dict[str, Any]] = [
    {"vanishing": "in the cache /x"},
    {"is_temporary": True},
    {"is_shared": True},
    {"rivals": {"bridge": "bridge-tools"}},
]


@pytest.mark.parametrize("wrong", UNWELL)
def test_where_the_clone_is_known_the_command_installs_from_it_and_can_be_pasted(
    healthy: Environment, a_clone: Path, wrong: dict[str, Any]
) -> None:
    (finding,) = examine_environment(replace(healthy, clone=a_clone, **wrong))
    assert shlex.split(finding.command_line) == ["sh", str(a_clone / "install/install.sh")]
    assert finding.command_line in finding.text


@pytest.mark.parametrize("wrong", UNWELL)
def test_where_it_is_not_known_no_command_is_made_up(healthy: Environment, wrong: dict[str, Any]) -> None:
    (finding,) = examine_environment(replace(healthy, **wrong))
    assert finding.command_line == ""
    assert "from its clone" in finding.text


def test_nobody_is_sent_to_a_package_index_for_a_name_that_is_not_ours_there() -> None:
    folders = [ROOT / name for name in (*OUR_PACKAGES, "docs")]
    sources = [ROOT / "README.md", *(path for folder in folders for path in folder.rglob("*"))]
    texts = {path: path.read_text() for path in sources if path.suffix in {".py", ".md", ".js", ".sh"}}
    offers = re.compile(r"(uv tool|pipx|pip) (install|upgrade|run)( -\S+)* mcpb\b|uvx mcpb")
    assert [str(path) for path, text in texts.items() if offers.search(text)] == []


# ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_this_clone_s_environment_is_seen_as_it_is(tmp_path: Path) -> None:
    commands = Path(sys.executable).parent
    machine = Machine("linux", tmp_path, {"PATH": f"{commands}:{os.environ['PATH']}"})
    found = this_environment(machine)
    assert (found.interpreter, found.commands) == (Path(sys.executable), commands)
    assert found.found == commands / "mcpb"
    assert (found.is_shared, found.rivals, found.neighbours) == (False, {}, [])


def test_names_that_others_own_and_what_shares_a_site_are_read_from_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site directory as pip leaves it when two products meet there."""
    for name in OUR_PACKAGES:
        (tmp_path / name).symlink_to(ROOT / name)
    for name, files in {"mcpb": OUR_PACKAGES, "Bridge_Tools": ("bridge",), "trio": ("trio",)}.items():
        record = tmp_path / f"{name}-1.0.dist-info"
        record.mkdir()
        (record / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        (record / "RECORD").write_text("".join(f"{file}/__init__.py,,\n" for file in files))
    (tmp_path / "mcpb-1.0.dist-info/METADATA").write_text("Name: mcpb\nRequires-Dist: trio>=0.35\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    found = this_environment(Machine("linux", tmp_path, {"PATH": ""}))
    assert found.neighbours == ["bridge-tools"]
    assert found.rivals == {"bridge": "Bridge_Tools"}
