"""Removal of everything below the home: each place of the layout is created, then purged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import extension
from install.removable_files import kept_files
from installer_home import install, live_in, uninstall, use
from native_host.system.home_layout import HomeLayout, Layout, Numbered, Place
from native_host.system.private_files import draft_of


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomeLayout:
    """A home in which mcpb is registered with a browser."""
    home = live_in(tmp_path / "home", monkeypatch)
    use(home / ".config/chromium")
    assert install().exit_code == 0
    return HomeLayout(home / ".mcpb")


def create(layout: Layout, place: Place | Numbered) -> list[Path]:
    """Create what --purge has to remove at a place."""
    if place.removal == "managed":
        return []
    if isinstance(place, Numbered):
        paths = [place.of(layout).path_of(4711)]
    else:
        path = place.of(layout)
        paths = [path, draft_of(path), *(path.with_name(path.name + each) for each in place.beside)]
    if place.removal == "file":
        for each in paths:
            each.write_text("")
        return paths
    path = paths[0]
    if place.removal == "extension":
        shutil.copytree(next(iter(extension.__path__)), path)
    else:
        path.mkdir()
        (path / "picture.png").write_text("")
    return [path]


def test_purging_forgets_no_place_of_the_layout(layout: HomeLayout) -> None:
    created = [
        path for each in (layout, layout.state) for place in each.places() for path in create(each, place)
    ]
    assert len(created) > 20
    assert sorted(kept_files(layout.path)) == sorted(created)
    purged = uninstall("--purge")
    assert purged.exit_code == 0, purged.output
    assert not layout.path.exists()


def test_without_purge_data_of_the_user_stays(layout: HomeLayout) -> None:
    created = [path for place in layout.places() for path in create(layout, place)]
    assert uninstall().exit_code == 0
    assert all(path.exists() for path in created)
    assert not layout.wrapper.exists()
