"""The extension as `mcpb extension` gives it to browsers: as a folder or a zip, for Chromium or Firefox."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from click.testing import CliRunner, Result

from bridge.cli.group import main
from full_chain import EXTENSION
from install.extension_files import firefox_manifest
from native_host.protocol.wire import FIREFOX_ID

MANIFEST = json.loads((EXTENSION / "manifest.json").read_text())
FILES = {str(path.relative_to(EXTENSION)) for path in EXTENSION.rglob("*") if path.is_file()}


def extension(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["extension", *map(str, arguments)])


def manifest_in(directory: Path) -> Any:
    return json.loads((directory / "manifest.json").read_text())


def test_firefox_gets_a_manifest_in_its_own_words() -> None:
    manifest = firefox_manifest(MANIFEST)
    assert manifest["background"] == {"scripts": ["worker/service_worker.js"], "type": "module"}
    assert manifest["browser_specific_settings"]["gecko"]["id"] == FIREFOX_ID
    assert not {"key", "minimum_chrome_version", "storage"} & manifest.keys()
    assert set(MANIFEST["permissions"]) - set(manifest["permissions"]) == {"debugger", "downloads"}
    assert manifest["content_security_policy"] == {"extension_pages": "script-src 'self'"}
    same = ("version", "host_permissions", "content_scripts", "incognito")
    assert {name: manifest[name] for name in same} == {name: MANIFEST[name] for name in same}


def test_both_kinds_lie_beside_each_other_and_are_replaced_each_by_its_own(mcpb_home: Path) -> None:
    for _ in range(2):
        assert extension().exit_code == 0
        done = extension("--firefox")
        assert done.exit_code == 0, done.output
    assert "about:debugging#/runtime/this-firefox" in done.output
    assert "load it again after each start" in done.output
    names = ["extension", "extension-firefox", "state"]
    assert sorted(path.name for path in mcpb_home.iterdir()) == names
    copied = manifest_in(mcpb_home / "extension")
    assert re.fullmatch(rf"{re.escape(MANIFEST['version'])} \([0-9a-f]{{12}}\)", copied.pop("version_name"))
    assert copied == MANIFEST
    assert manifest_in(mcpb_home / "extension-firefox") == firefox_manifest(MANIFEST)


def test_a_copy_of_the_other_kind_is_not_an_earlier_one(mcpb_home: Path) -> None:
    extension()
    (mcpb_home / "extension").rename(mcpb_home / "extension-firefox")
    done = extension("--firefox")
    assert done.exit_code == 1
    assert "Move it away, then run again: mcpb extension --firefox" in done.output
    assert manifest_in(mcpb_home / "extension-firefox")["key"] == MANIFEST["key"]


@pytest.mark.parametrize(
    ("options", "manifest"), [([], MANIFEST), (["--firefox"], firefox_manifest(MANIFEST))]
)
def test_a_zip_has_the_same_files_and_is_the_same_each_time(
    mcpb_home: Path, options: list[str], manifest: Any
) -> None:
    file = mcpb_home / "mcpb.zip"
    assert str(file) in extension(*options, "--zip", file).output
    first = file.read_bytes()
    assert extension(*options, "--zip", file).exit_code == 0
    assert file.read_bytes() == first
    with ZipFile(file) as archive:
        names = {name for name in archive.namelist() if "__pycache__" not in name}
        assert names == {name for name in FILES if "__pycache__" not in name}
        assert json.loads(archive.read("manifest.json")) == manifest
        script = (EXTENSION / "content/content_script.js").read_bytes()
        assert archive.read("content/content_script.js") == script
    assert list(mcpb_home.iterdir()) == [file]


@pytest.mark.parametrize("there", [b"", b"my thesis", "another zip", "the other kind"])
def test_a_zip_replaces_nothing_but_an_earlier_one(mcpb_home: Path, there: bytes | str) -> None:
    file = mcpb_home / "mcpb.zip"
    match there:
        case bytes():
            file.write_bytes(there)
        case "another zip":
            with ZipFile(file, "w") as archive:
                archive.writestr("thesis.txt", "")
        case _:
            extension("--zip", file)
    before = file.read_bytes()
    done = extension("--firefox", "--zip", file)
    assert done.exit_code == 1
    assert "Name another file" in done.output
    assert file.read_bytes() == before
    assert list(mcpb_home.iterdir()) == [file]


def test_a_zip_is_not_written_through_a_link(mcpb_home: Path) -> None:
    link = mcpb_home / "mcpb.zip"
    link.symlink_to(mcpb_home / "elsewhere")
    assert "Name another file" in extension("--zip", link).output
    assert list(mcpb_home.iterdir()) == [link]


def test_a_zip_in_a_folder_that_is_not_there_says_so(mcpb_home: Path) -> None:
    done = extension("--zip", mcpb_home / "none" / "mcpb.zip")
    assert done.exit_code == 1
    assert "No such file or directory" in done.output
