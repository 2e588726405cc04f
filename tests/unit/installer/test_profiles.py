"""Where the extension is, as the browsers' own files say, and what is wrong with it there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from install.checks import profiles
from install.checks.profiles import (
    InstalledExtension,
    chromium_extensions,
    extension_findings,
    firefox_extensions,
    firefox_profiles,
    is_used_in,
)
from install.findings import public_value
from install.host_manifest import OUR_CALLERS, extension_origin
from native_host import __version__
from native_host.protocol.wire import EXTENSION_ID, FIREFOX_ID

OTHER_ID = "a" * 32
UNPACKED, FROM_STORE = 4, 1


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A copy of the extension, as `mcpb extension` makes it."""
    folder = tmp_path / "extension"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"name": "mcpb", "version": __version__}))
    return folder


def chromium_profile(
    data: Path,
    settings: dict[str, Any],
    name: str = "Default",
    file: str = "Preferences",
    label: str = "Work",
) -> Path:
    profile = data / name
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "Preferences").touch()
    (profile / file).write_text(
        json.dumps({"profile": {"name": label}, "extensions": {"settings": settings}})
    )
    return profile


def loaded_from(folder: Path, **more: Any) -> dict[str, Any]:
    return {"path": str(folder), "location": UNPACKED, "disable_reasons": [], **more}


def only(found: list[InstalledExtension] | None) -> InstalledExtension:
    assert found is not None
    (item,) = found
    return item


@pytest.mark.parametrize("file", ["Preferences", "Secure Preferences"])
def test_an_unpacked_extension_is_found_in_whichever_file_has_it(
    file: str, tmp_path: Path, unpacked: Path
) -> None:
    profile = chromium_profile(tmp_path / "data", {EXTENSION_ID: loaded_from(unpacked)}, "Profile 1", file)
    found = only(chromium_extensions(tmp_path / "data"))
    assert (found.profile, found.extension_id) == (profile, EXTENSION_ID)
    assert (found.is_enabled, found.version, found.lost_folder) == (True, __version__, "")
    assert found.label == ("Work" if file == "Preferences" else "Profile 1")


@pytest.mark.parametrize("more", [{"state": 0}, {"disable_reasons": [1]}, {"disable_reasons": 1}])
def test_an_extension_that_is_switched_off_is_known(
    more: dict[str, Any], tmp_path: Path, unpacked: Path
) -> None:
    chromium_profile(tmp_path / "data", {EXTENSION_ID: loaded_from(unpacked, **more)})
    assert not only(chromium_extensions(tmp_path / "data")).is_enabled


def test_of_one_from_a_store_the_browser_keeps_the_manifest(tmp_path: Path) -> None:
    manifest = {"name": "mcpb", "version": "0.0.1"}
    setting = {"path": f"{EXTENSION_ID}/0.0.1_0", "location": FROM_STORE, "manifest": manifest, "state": 1}
    chromium_profile(tmp_path / "data", {EXTENSION_ID: setting})
    assert only(chromium_extensions(tmp_path / "data")).version == "0.0.1"


def test_a_copy_with_another_id_is_known_by_its_name_and_other_extensions_are_not(
    tmp_path: Path, unpacked: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest.json").write_text('{"name": "another", "version": "1"}')
    settings = {OTHER_ID: loaded_from(unpacked), "b" * 32: loaded_from(other), "c" * 32: None}
    chromium_profile(tmp_path / "data", settings)
    assert only(chromium_extensions(tmp_path / "data")).extension_id == OTHER_ID


@pytest.mark.parametrize("name", ["x; rm -rf ~", "", "a" * 31, "A" * 32, "\ud800" * 32])
def test_what_is_no_id_is_no_extension_since_ids_go_into_commands(
    name: str, tmp_path: Path, unpacked: Path
) -> None:
    chromium_profile(tmp_path / "data", {name: loaded_from(unpacked), OTHER_ID: loaded_from(unpacked)})
    known = [] if "\ud800" in name else [OTHER_ID]  # such a file is not JSON for us
    assert [found.extension_id for found in chromium_extensions(tmp_path / "data") or []] == known


def test_whether_it_is_in_a_file_that_is_too_long_is_not_known(
    tmp_path: Path, unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chromium_profile(tmp_path / "data", {}, label="x" * 1000)
    monkeypatch.setattr(profiles, "LARGEST_BYTES", 1000)
    assert chromium_extensions(tmp_path / "data") is None
    chromium_profile(tmp_path / "data", {EXTENSION_ID: loaded_from(unpacked)}, "Profile 1")
    assert only(chromium_extensions(tmp_path / "data")).profile.name == "Profile 1"


def test_of_many_profiles_only_so_much_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        chromium_profile(tmp_path / "data", {}, f"Profile {number}", label="x" * 1000)
    assert chromium_extensions(tmp_path / "data") == []
    monkeypatch.setattr(profiles, "MOST_BYTES", 3000)
    assert chromium_extensions(tmp_path / "data") is None


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    chromium_profile(tmp_path / "data", {EXTENSION_ID: loaded_from(tmp_path / "gone")})
    assert only(chromium_extensions(tmp_path / "data")).lost_folder == str(tmp_path / "gone")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"extensions": 1}', '{"extensions": {"settings": []}}', "[" * 100_000]
)
def test_files_that_make_no_sense_show_nothing(content: str, tmp_path: Path) -> None:
    chromium_profile(tmp_path, {})
    (tmp_path / "Default/Preferences").write_text(content)
    assert chromium_extensions(tmp_path) == []
    (tmp_path / "extensions.json").write_text(content)
    assert firefox_extensions([tmp_path]) == []


def test_a_folder_that_is_not_there_has_no_profiles(tmp_path: Path) -> None:
    assert chromium_extensions(tmp_path / "none") == []
    assert not is_used_in(tmp_path / "none")


# ── Firefox ─────────────────────────────────────────────────────────────────────────────────────────────────

PROFILES = """\
[Profile1]
Name=default-esr
IsRelative=1
Path=abcd.default-esr

[Profile0]
Name=work 100%
IsRelative=0
Path=/elsewhere/work

[General]
StartWithLastProfile=1
"""


@pytest.mark.parametrize("below", [".", "firefox"])
def test_profiles_are_those_that_profiles_ini_names(below: str, tmp_path: Path) -> None:
    root = tmp_path / below
    root.mkdir(exist_ok=True)
    (root / "profiles.ini").write_text(PROFILES)
    assert firefox_profiles(tmp_path) == [root / "abcd.default-esr", Path("/elsewhere/work")]


def test_a_broken_profiles_ini_names_none(tmp_path: Path) -> None:
    (tmp_path / "profiles.ini").write_text("Path=x\n[")
    assert firefox_profiles(tmp_path) == []


@pytest.mark.parametrize("active", [True, False])
def test_an_add_on_of_firefox_is_found_by_its_id(active: bool, tmp_path: Path) -> None:
    addons = [{"id": "other@example.com"}, {"id": FIREFOX_ID, "active": active, "version": "0.2.0"}]
    (tmp_path / "extensions.json").write_text(json.dumps({"addons": addons}))
    found = only(firefox_extensions([tmp_path]))
    assert (found.is_enabled, found.version) == (active, "0.2.0")


# ── What follows ────────────────────────────────────────────────────────────────────────────────────────────


def installed(extension_id: str = EXTENSION_ID, **fields: Any) -> InstalledExtension:
    known = {"is_enabled": True, "version": __version__, **fields}
    return InstalledExtension(Path("/data/Default"), "Work", extension_id, **known)


def judged(*found: InstalledExtension, admitted: tuple[str, ...] = OUR_CALLERS) -> list[tuple[str, str, str]]:
    findings = extension_findings(public_value("Chromium"), "chromium", found, admitted)
    assert all(finding.where.text == "Chromium" for finding in findings)
    return [(finding.code, finding.level, finding.command_line) for finding in findings]


def test_an_extension_as_it_should_be_needs_no_word() -> None:
    assert judged(installed()) == []


def test_what_is_wrong_with_it_comes_with_what_mends_it() -> None:
    assert judged() == [("extension-missing", "warning", "mcpb extension")]
    assert judged(installed(is_enabled=False)) == [("extension-disabled", "fault", "")]
    assert judged(installed(lost_folder="/gone")) == [("extension-folder-gone", "fault", "mcpb extension")]
    assert judged(installed(version="0.0.9")) == [("extension-old", "warning", "mcpb extension")]
    register = f"mcpb install-native-host --extension-id {OTHER_ID}"
    assert judged(installed(OTHER_ID)) == [("extension-other-id", "fault", register)]


def test_another_id_that_may_start_the_host_is_all_right() -> None:
    assert judged(installed(OTHER_ID), admitted=(extension_origin(OTHER_ID),)) == []


def test_what_is_wrong_in_one_profile_only_warns_while_another_works() -> None:
    assert judged(installed(), installed(is_enabled=False)) == [("extension-disabled", "warning", "")]


@pytest.mark.parametrize("version", ["1.²", "9" * 5000, "one", "1.x.2"])
def test_a_version_that_is_none_breaks_nothing(version: str) -> None:
    assert judged(installed(version=version)) in ([], [("extension-old", "warning", "mcpb extension")])


def test_a_newer_extension_is_not_called_old() -> None:
    assert judged(installed(version="99.0")) == []
    assert judged(installed(version="")) == []


# ── A real one ──────────────────────────────────────────────────────────────────────────────────────────────
