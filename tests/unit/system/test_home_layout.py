"""Home of mcpb: where it lies by the home rule, and the path of every file, each declared once."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from native_host.system.home_layout import (
    HomeLayout,
    Layout,
    Numbered,
    Place,
    StateLayout,
    foreign_home,
    is_home_chosen,
    mcpb_home,
    password_home,
    user_home,
)

HOME = Path("/home/ann/.mcpb")


def test_a_layout_has_the_path_of_each_place_and_its_class_the_place() -> None:
    assert HomeLayout(HOME).config == HOME / "config.toml"
    assert HomeLayout(HOME).state.approvals == HOME / "state/approvals.json"
    assert HomeLayout.wrapper.name == "bin/mcpb-native-host"


def test_the_file_of_a_process_has_its_id_and_is_found_again(tmp_path: Path) -> None:
    records = StateLayout(tmp_path).server_records
    records.path_of(4711).touch()
    (tmp_path / "serve.json").touch()
    assert records.existing() == [tmp_path / "serve-4711.json"]


@pytest.mark.parametrize("layout", [HomeLayout, StateLayout])
def test_no_name_is_declared_twice(layout: type[Layout]) -> None:
    names = [each.name if isinstance(each, Place) else each.pattern for each in layout.places()]
    assert len(names) == len(set(names)) > 5
    assert all(
        name.count("*") == 1
        for each in layout.places()
        if isinstance(each, Numbered)
        for name in [each.pattern]
    )


# ── The home rule ───────────────────────────────────────────────────────────────────────────────────────────

PASSWORDS = Path(pwd.getpwuid(os.getuid()).pw_dir)


def test_mcpb_home_of_the_environment_decides_before_any_home(tmp_path: Path) -> None:
    environ = {"MCPB_HOME": "/x/y", "HOME": str(tmp_path)}
    assert (mcpb_home(environ), is_home_chosen(environ)) == (Path("/x/y"), True)
    assert mcpb_home({"MCPB_HOME": "x"}) == Path.cwd() / "x"


def test_the_home_of_the_environment_counts_if_it_is_a_directory_of_this_user(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MCPB_HOME": ""}
    assert (user_home(environ), mcpb_home(environ)) == (tmp_path, tmp_path / ".mcpb")
    assert (foreign_home(environ), is_home_chosen(environ)) == (None, False)


@pytest.mark.parametrize("home", [None, "", "missing", "file", "a\0b"])
def test_a_home_that_is_no_directory_gives_way_to_the_password_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    environ = {} if home is None else {"HOME": home}
    assert (user_home(environ), mcpb_home(environ)) == (PASSWORDS, PASSWORDS / ".mcpb")
    assert foreign_home(environ) is None


def test_the_home_of_another_user_is_named_and_ignored(tmp_path: Path) -> None:
    environ = {"HOME": str(give_away(tmp_path))}
    assert (user_home(environ), mcpb_home(environ)) == (PASSWORDS, PASSWORDS / ".mcpb")
    assert foreign_home(environ) == Path(environ["HOME"])


def test_a_user_that_the_password_database_does_not_know_has_a_home_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_uid: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", fail)
    assert password_home() == Path("/")
    assert user_home({"HOME": str(tmp_path)}) == tmp_path


def give_away(directory: Path) -> Path:
    """Return a directory of another user."""
    if os.getuid() != 0:
        return Path("/")  # root's
    os.chown(directory, 65534, 65534)
    return directory
