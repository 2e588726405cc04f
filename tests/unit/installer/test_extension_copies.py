"""Copies of the extension: visible, kept up to date, reloaded by the browser, and removed if unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

import extension as installed_extension
from bridge.cli.group import main
from bridge.config.settings import PORT
from install import extension_copies
from install.checks.client_entries import find_client_entries
from install.extension_copies import (
    find_copies,
    find_current_kinds,
    removable_copies,
    remove_copy,
    update_copy,
)
from install.extension_files import UnpackedError, name_version, read_files
from install.machine import this_machine
from installer_home import live_in, uninstall, use
from native_host.protocol.wire import EXTENSION_ID
from native_host.system import private_files
from native_host.system.home_layout import HomeLayout
from native_host.system.private_files import PrivateFileError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return live_in(tmp_path / "home", monkeypatch)


@pytest.fixture
def layout(home: Path) -> HomeLayout:
    return HomeLayout(home / ".mcpb")


def extension(*arguments: object) -> Result:
    done = CliRunner().invoke(main, ["extension", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done


def change_files(monkeypatch: pytest.MonkeyPatch, **changes: bytes | None) -> None:
    """Let the next mcpb have other files; None: it has no longer that one."""
    files: Mapping[str, bytes | None] = {**read_files("chromium"), **changes}
    left = {name: content for name, content in files.items() if content is not None}
    monkeypatch.setattr(extension_copies, "read_files", lambda _kind: left)


def version_name(directory: Path) -> str:
    manifest: dict[str, Any] = json.loads((directory / "manifest.json").read_bytes())
    return str(manifest.get("version_name", ""))


def load(chromium: Path, directory: Path) -> None:
    """The user has loaded the extension, as Chromium records it."""
    (chromium / "Default").mkdir(exist_ok=True)
    settings = {EXTENSION_ID: {"path": str(directory), "location": 4, "disable_reasons": []}}
    preferences = {"extensions": {"settings": settings}}
    (chromium / "Default/Preferences").write_text(json.dumps(preferences))


# ── Where it is ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_copy_is_a_visible_directory_in_the_home(home: Path) -> None:
    shown = extension().output
    assert shown.startswith(f"The extension is in {home}/mcpb-extension\n")
    assert "press Ctrl+L, paste the path, and click Open" in shown
    assert (home / "mcpb-extension/worker/service_worker.js").is_file()


def test_the_user_chooses_another_directory_which_is_updated_from_then_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = home / "Programs/browser bridge"
    extension("--directory", chosen)
    first = version_name(chosen)
    change_files(monkeypatch, **{"worker/new.js": b"export {};"})
    assert extension().output.startswith(f"The extension is in {chosen}\n")
    assert version_name(chosen) != first
    assert not (home / "mcpb-extension").exists()


def test_the_source_of_the_extension_is_no_place_for_a_copy(home: Path, tmp_path: Path) -> None:
    """Both have the key of a copy, and an uninstallation would remove them."""
    checkout = tmp_path / "clone/extension"
    checkout.mkdir(parents=True)
    (checkout.parent / "pyproject.toml").touch()
    (checkout / "manifest.json").write_bytes(read_files("chromium")["manifest.json"])
    for directory in (checkout, Path(installed_extension.__path__[0])):
        with pytest.raises(UnpackedError, match="is the source of the extension"):
            update_copy(home / ".mcpb", directory, "chromium")
    assert [path.name for path in checkout.iterdir()] == ["manifest.json"]


def test_with_mcpb_home_the_copy_stays_in_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPB_HOME", str(home / "trial"))
    extension()
    assert (home / "trial/extension/manifest.json").is_file()
    assert not (home / "mcpb-extension").exists()


def test_a_copy_of_an_earlier_mcpb_is_updated_and_named(home: Path, layout: HomeLayout) -> None:
    chromium = use(home / ".config/chromium")
    update_copy(layout.path, layout.extension, "chromium")
    layout.state.extensions.unlink()  # an earlier mcpb wrote none
    manifest = layout.extension / "manifest.json"
    manifest.write_bytes(read_files("chromium")["manifest.json"])
    shown = extension().output
    assert shown.startswith(f"The extension is in {home}/mcpb-extension\n")
    assert f"An earlier copy is up to date as well: {layout.extension}\n" in shown
    assert version_name(layout.extension)
    load(chromium, layout.extension)
    (home / "mcpb-extension").rename(home / "gone")
    assert f"has loaded the extension from {layout.extension}. It is up to date" in extension().output
    assert not (home / "mcpb-extension").exists(), "the browser has the other one"


# ── After an upgrade ────────────────────────────────────────────────────────────────────────────────────────


def test_a_loaded_copy_needs_nothing_or_the_one_reload_that_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chromium, copy = use(home / ".config/chromium"), home / "mcpb-extension"
    extension()
    load(chromium, copy)
    place = f"Chromium has loaded the extension from {copy}"
    assert extension().output.startswith(f"{place}. It is up to date: nothing to do.\n")
    change_files(monkeypatch, **{"worker/new.js": b"export {};"})
    assert extension().output.startswith(f"{place}, and reloads it: nothing to do.\n")
    (copy / "manifest.json").write_bytes(read_files("chromium")["manifest.json"])  # of an earlier mcpb
    shown = extension().output
    assert "Reload it, this once" in shown
    assert "Load unpacked" not in shown


def test_a_copy_that_cannot_be_updated_keeps_no_other_from_its_update(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = home / "bad", home / "good"
    for directory in (bad, good):
        extension("--directory", directory)
    (bad / "worker").rename(home / "worker")
    (bad / "worker").touch()
    change_files(monkeypatch, **{"new.js": b"export {};"})
    done = CliRunner().invoke(main, ["extension"])
    assert done.exit_code == 1
    assert done.output.startswith(f"The extension is in {good}\n")
    assert f"Error: {bad} is not a copy" in done.output
    assert (good / "new.js").is_file()
    assert not (bad / "new.js").exists()


def test_copies_are_current_if_all_of_their_kind_have_this_version(home: Path, layout: HomeLayout) -> None:
    assert find_current_kinds(layout.path) == set()
    for name in ("one", "other"):
        update_copy(layout.path, home / name, "chromium")
    update_copy(layout.path, home / "firefox", "firefox")
    assert find_current_kinds(layout.path) == {"chromium", "firefox"}
    manifest = json.loads((home / "one/manifest.json").read_bytes())
    (home / "one/manifest.json").write_text(json.dumps({**manifest, "version": "0.0.9"}))
    assert find_current_kinds(layout.path) == {"firefox"}


def test_an_extension_from_elsewhere_is_named(home: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone/extension"
    load(use(home / ".config/chromium"), clone)
    assert f"Chromium has loaded it from {clone}, which this command does not update" in extension().output


def test_as_json(home: Path) -> None:
    chromium, copy = use(home / ".config/chromium"), home / "mcpb-extension"
    assert json.loads(extension("--json").output) == {
        "copies": [{"directory": str(copy), "kind": "chromium", "outcome": "new", "editedFiles": []}],
        "loaded": [],
        "registered": False,
    }
    load(chromium, copy)
    shown = json.loads(extension("--json").output)
    assert shown["copies"][0]["outcome"] == "unchanged"
    assert shown["loaded"] == [{"browser": "Chromium", "directory": str(copy)}]


# ── What is written ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_version_name_changes_with_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    files = read_files("chromium")
    names = {
        name_version(each)["manifest.json"]
        for each in (files, {**files, "a.js": b""}, {**files, "b.js": b""}, {**files, "a.js": b"1"})
    }
    assert len(names) == 4
    assert name_version(files) == name_version(dict(reversed(files.items())))


@pytest.mark.parametrize("is_completed", [True, False])
def test_the_manifest_is_written_last_and_an_interrupted_copy_is_completed_or_removed(
    home: Path, layout: HomeLayout, monkeypatch: pytest.MonkeyPatch, is_completed: bool
) -> None:
    """With one file of each directory, since each file is written in the same way."""
    every = read_files("chromium")
    parts = {Path(name).parent: name for name in every} | {Path(): "manifest.json"}
    files = {name: every[name] for name in parts.values()}
    change_files(monkeypatch, **dict.fromkeys(every.keys() - files.keys()))
    copy = home / "mcpb-extension"
    assert len(files) > 3
    for number in range(len(files)):
        with monkeypatch.context() as patch:
            fail_at(number, copy, patch)
            with pytest.raises(UnpackedError, match="No space left"):
                update_copy(layout.path, copy, "chromium")
        assert not (copy / "manifest.json").exists()
        assert sum(path.is_file() for path in copy.rglob("*")) == number
        if is_completed:
            assert update_copy(layout.path, copy, "chromium").outcome == "new"
            assert version_name(copy)
        unchanged, changed = removable_copies(layout.path)
        assert changed == []
        assert all(remove_copy(each, files) for each, files in unchanged.items())
        assert not copy.exists()


def fail_at(number: int, copy: Path, patch: pytest.MonkeyPatch) -> None:
    """Let the disk fail when so many files of the copy are replaced."""
    publish = private_files.publish_draft
    replaced: list[Path] = []

    def publish_or_fail(path: Path) -> None:
        if copy in path.parents:
            if len(replaced) == number:
                raise PrivateFileError(path, "cannot be written: No space left on device")
            replaced.append(path)
        publish(path)

    patch.setattr(private_files, "publish_draft", publish_or_fail)


def test_a_full_disk_leaves_every_file_of_the_earlier_version(
    home: Path, layout: HomeLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, write = home / "mcpb-extension", private_files.write_draft
    update_copy(layout.path, copy, "chromium")
    earlier = content_of(copy)

    def fill_disk(path: Path, content: bytes, *, is_durable: bool = True) -> None:
        if path.name == "zz.js":
            raise PrivateFileError(path, "cannot be written: No space left on device")
        write(path, content, is_durable=is_durable)

    with monkeypatch.context() as patch:
        change_files(patch, **{"popup/popup.css": b"", "zz.js": b""})
        patch.setattr(private_files, "write_draft", fill_disk)
        with pytest.raises(UnpackedError, match="No space left"):
            update_copy(layout.path, copy, "chromium")
    assert content_of(copy) == earlier


def content_of(directory: Path) -> dict[str, bytes]:
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def test_files_that_the_user_has_edited_get_another_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = home / "mcpb-extension"
    extension()
    for content, kept in ((b"green", "popup/popup.css.orig"), (b"blue", "popup/popup.css.orig2")):
        (copy / "popup/popup.css").write_bytes(content)
        shown = extension().output
        assert shown.startswith(f"A file that you had edited was replaced. Your version: {copy / kept}\n")
        assert (copy / kept).read_bytes() == content
    (copy / "popup/popup.css").unlink()
    (copy / "popup/popup.css").symlink_to(home)
    change_files(monkeypatch, **{"popup/popup.css": b"red"})
    shown = json.loads(extension("--json").output)
    assert shown["copies"][0]["editedFiles"] == [str(copy / "popup/popup.css.orig3")]
    assert (copy / "popup/popup.css.orig3").is_symlink()
    assert (copy / "popup/popup.css").read_bytes() == b"red"


def test_files_of_an_earlier_version_go_and_files_of_the_user_stay(
    home: Path, layout: HomeLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = home / "mcpb-extension"
    with monkeypatch.context() as patch:
        change_files(patch, **{"old/deep/part.js": b"1", "kept.js": b"2"})
        update_copy(layout.path, copy, "chromium")
    (copy / "notes.txt").write_text("mine")
    (copy / "kept.js").write_text("mine, too")
    update_copy(layout.path, copy, "chromium")
    assert not (copy / "old").exists()
    assert (copy / "notes.txt").read_text() == "mine"
    assert (copy / "kept.js").read_text() == "mine, too"


def test_a_path_that_is_not_utf_8_is_rejected(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = CliRunner().invoke(main, ["extension", "--directory", str(home / "\udcff")])
    live_in(home / "\udcff", monkeypatch)
    usual = CliRunner().invoke(main, ["extension"])
    for done in (named, usual):
        assert isinstance(done.exception, SystemExit)
        assert done.exit_code == 1
        assert "\\xff" in done.output
    assert not list(home.rglob("manifest.json"))


@pytest.mark.parametrize("kind", ["link", "file", "diary", "linked part"])
def test_what_is_no_copy_is_not_written_to(home: Path, kind: str) -> None:
    copy, elsewhere = home / "mcpb-extension", home / "elsewhere"
    elsewhere.mkdir()
    match kind:
        case "link":
            copy.symlink_to(elsewhere)
        case "file":
            copy.touch()
        case "diary":
            copy.mkdir()
            (copy / "diary.txt").touch()
        case _:
            extension()
            (copy / "worker").rename(home / "worker")
            (copy / "worker").symlink_to(elsewhere)
    done = CliRunner().invoke(main, ["extension"])
    assert done.exit_code == 1
    assert "Move it away, then run again: mcpb extension" in done.output
    assert list(elsewhere.iterdir()) == []


# ── Uninstallation ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_uninstallation_removes_an_unchanged_copy(home: Path) -> None:
    extension()
    shown = uninstall().output
    assert f"{home}/mcpb-extension/  (the extension)" in shown
    assert list(home.iterdir()) == []


def test_an_uninstallation_leaves_directories_of_the_user(home: Path) -> None:
    extension()
    (home / "mcpb-extension/popup/mine").mkdir()
    uninstall()
    paths = sorted(str(path.relative_to(home)) for path in home.rglob("*"))
    assert paths == ["mcpb-extension", "mcpb-extension/popup", "mcpb-extension/popup/mine"]


@pytest.mark.parametrize("change", ["a file", "another content", "a link"])
def test_an_uninstallation_leaves_a_changed_copy_and_says_so(home: Path, change: str) -> None:
    extension()
    copy = home / "mcpb-extension"
    match change:
        case "a file":
            (copy / "notes.txt").touch()
        case "another content":
            (copy / "popup/popup.css").write_text("body { color: green }")
        case _:
            (copy / "shared").symlink_to(home)
    assert f"{copy} has been changed, and stays" in uninstall().output
    assert (copy / "manifest.json").is_file()


@pytest.mark.parametrize("is_edited", [True, False])
def test_purging_removes_a_copy_in_mcpb_s_home_as_a_whole_and_says_it_once(
    home: Path, layout: HomeLayout, is_edited: bool
) -> None:
    update_copy(layout.path, layout.extension, "chromium")
    if is_edited:
        (layout.extension / "notes.txt").touch()
    shown = uninstall("--purge").output
    assert [line.strip() for line in shown.splitlines() if str(layout.extension) in line] == [
        f"remove  {layout.extension}/  (whatever is in it)"
    ]
    assert not layout.path.exists()


def test_a_copy_that_changes_behind_the_plan_stays(home: Path, layout: HomeLayout) -> None:
    extension()
    copy = home / "mcpb-extension"
    ((_, files),) = removable_copies(layout.path)[0].items()
    (copy / "notes.txt").touch()
    assert not remove_copy(copy, files)
    assert (copy / "manifest.json").is_file()


def test_what_other_programs_have_of_mcpb_is_named_at_the_end(home: Path) -> None:
    extension()
    load(use(home / ".config/chromium"), home / "mcpb-extension")
    server = {"command": "/home/ana/.local/bin/mcpb", "args": ["bridge", "--name", "browser"]}
    other = {"command": "npx", "args": ["bridge"]}
    claude = {
        "mcpServers": {"browser": server, "other": other},
        "projects": {"/home/ana/my shop": {"mcpServers": {"b": server}}},
    }
    (home / ".claude.json").write_text(json.dumps(claude))
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"browser": server}}))
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text('[mcp_servers.browser]\ncommand = "mcpb"\nargs = ["bridge"]\n')
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text(json.dumps({"mcpServers": {"browser": server}}))
    (home / ".qwen").mkdir()
    (home / ".qwen/settings.json").write_text(json.dumps({"mcpServers": {"browser": server}}))
    (home / ".config/opencode").mkdir()
    local = {"type": "local", "command": [server["command"], *server["args"]]}
    (home / ".config/opencode/opencode.json").write_text(json.dumps({"mcp": {"browser": local}}))
    shown = uninstall().output
    assert shown.endswith(
        "Still there:\n"
        "  the extension in Chromium: remove it at chrome://extensions\n"
        "  the MCP server browser of Claude Code: claude mcp remove --scope user browser\n"
        "  the MCP server b of Claude Code: cd '/home/ana/my shop' && claude mcp remove --scope local b\n"
        "  the MCP server browser of Codex: codex mcp remove browser\n"
        "  the MCP server browser of Gemini CLI: gemini mcp remove --scope user browser\n"
        "  the MCP server browser of Qwen Code: qwen mcp remove --scope user browser\n"
        f"  the MCP server browser of Cursor: remove it in {home}/.cursor/mcp.json\n"
        f"  the MCP server browser of opencode: remove it in {home}/.config/opencode/opencode.json\n"
    )


@pytest.mark.parametrize(
    ("name", "server", "is_ours"),
    [
        ("browser", {"type": "http", "url": "http://localhost:39872/mcp"}, True),
        ("browser", {"type": "sse", "url": "http://127.0.0.1:39872/sse"}, True),
        ("browser", {"type": "http", "url": "https://localhost:39872/mcp"}, True),
        ("web", {"type": "http", "url": f"http://localhost:{PORT}/mcp"}, True),
        ("web", {"httpUrl": f"http://[::1]:{PORT}/mcp"}, True),
        ("web", {"type": "http", "url": "http://localhost:8931/mcp"}, False),
        ("browser", {"type": "http", "url": "https://mcp.example/mcp"}, False),
        ("browser", {"type": "http", "url": f"http://localhost:{PORT}/other"}, False),
        ("browser", {"type": "http", "url": "http://localhost:none/mcp"}, False),
        ("browser", {"command": []}, False),
        ("browser", {"url": None}, False),
    ],
)
def test_a_client_that_connects_to_mcpb_serve_is_named(
    home: Path, name: str, server: Mapping[str, Any], is_ours: bool
) -> None:
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {name: server}}))
    assert [entry.name for entry in find_client_entries(this_machine())] == [name] * is_ours


@pytest.mark.parametrize("content", [b"", b"[]", b'{"/x": 1}', b'{"x": {"kind": "chromium", "files": {}}}'])
def test_a_record_that_mcpb_has_not_written_names_no_copy(layout: HomeLayout, content: bytes) -> None:
    layout.state.path.mkdir(parents=True)
    layout.state.extensions.write_bytes(content)
    assert find_copies(layout.path) == []
    assert removable_copies(layout.path) == ({}, [])


def test_the_record_is_private(home: Path, layout: HomeLayout) -> None:
    extension()
    assert layout.state.extensions.stat().st_mode & 0o777 == 0o600
    record = msgspec.json.decode(layout.state.extensions.read_bytes())
    assert list(record) == [str(home / "mcpb-extension")]
    assert (home / "mcpb-extension").stat().st_mode & 0o777 == 0o700
