"""Layout of mcpb's home: the paths of every file, each declared once."""

from __future__ import annotations

from pathlib import Path

import pytest

from native_host.system.home_layout import HomeLayout, Layout, Numbered, Place, StateLayout

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
