"""A host manifest of Claude in Chrome, restored after `--shim` of mcpb 0.1.0 (tests/data/shimmed_home)."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from install.installation import InstallationPaths
from install.plan import uninstall_plan
from install.plan.apply import apply_plan, read_place
from installer_home import install, live_in, uninstall, use

RECORDED = Path(__file__).parents[2] / "data/shimmed_home"
HOST_NAME = "com.anthropic.claude_code_browser_extension"
MODIFIED_NS = 1_600_000_000_123_456_789


class ShimmedHome:
    """A home directory as `mcpb install-native-host --shim` of version 0.1.0 left it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.manifest = use(home / ".config/chromium") / f"NativeMessagingHosts/{HOST_NAME}.json"
        self.script = home / f".mcpb/bin/shim-{HOST_NAME}"
        self.ledger = home / ".mcpb/state/ledger.json"
        name = f"{hashlib.sha256(str(self.manifest).encode()).hexdigest()[:8]}-{HOST_NAME}.json"
        self.backup = home / ".mcpb/state/backup" / name

    def write(self) -> dict[str, tuple[bytes, int, int]]:
        """Write the recorded files; return the files before the shim."""
        self._put(self.manifest, "original.json", 0o640, MODIFIED_NS)
        original = self.files()
        self._put(self.backup, "original.json", 0o640, MODIFIED_NS)
        self._put(self.manifest, "manifest.json", 0o640)
        self._put(self.script, "script.sh", 0o700)
        self._put(self.ledger, "ledger.json", 0o600)
        ledger = json.loads(self.ledger.read_bytes())
        ledger["entries"][0] |= {"backup": str(self.backup), "sha256": _digest(self.manifest)}
        ledger["entries"][1] |= {"sha256": _digest(self.script)}
        self.ledger.write_text(json.dumps(ledger))
        return original

    def _put(self, path: Path, recorded: str, mode: int, modified_ns: int = 0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text((RECORDED / recorded).read_text().replace("{home}", str(self.home)))
        path.chmod(mode)
        os.utime(path, ns=(modified_ns, modified_ns))

    def files(self) -> dict[str, tuple[bytes, int, int]]:
        """Return content, mode and time of each file."""
        files = [path for path in self.home.rglob("*") if path.is_file()]
        return {str(path): _state(path) for path in files}


def _state(path: Path) -> tuple[bytes, int, int]:
    found = path.lstat()
    return path.read_bytes(), found.st_mode, found.st_mtime_ns


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def shimmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShimmedHome:
    return ShimmedHome(live_in(tmp_path / "home", monkeypatch))


@pytest.mark.parametrize("names", [[], ["--browser", "chromium"]])
def test_uninstall_restores_the_manifest_with_its_mode_and_time(
    shimmed: ShimmedHome, names: list[str]
) -> None:
    original = shimmed.write()
    done = uninstall(*names)
    assert done.exit_code == 0, done.output
    left = shimmed.files()
    if names:
        assert "chromium" in json.loads(left.pop(str(shimmed.ledger))[0])["removed"]  # stays out until named
    assert left == original


def test_uninstall_without_names_leaves_no_directory_of_mcpb(shimmed: ShimmedHome) -> None:
    shimmed.write()
    install()
    assert uninstall().exit_code == 0
    assert not (shimmed.home / ".mcpb").exists()


def test_a_dry_run_shows_the_manifest_and_changes_nothing(shimmed: ShimmedHome) -> None:
    shimmed.write()
    before = shimmed.files()
    shown = uninstall("--dry-run", "--json")
    changed = {step["path"]: step["action"] for step in json.loads(shown.output)["steps"]}
    assert changed[str(shimmed.manifest)] == "replace"
    assert (changed[str(shimmed.backup)], changed[str(shimmed.script)]) == ("remove", "remove")
    assert shimmed.files() == before


def test_without_a_ledger_the_latest_backup_is_restored_and_the_script_stays(shimmed: ShimmedHome) -> None:
    original = shimmed.write()
    latest = shimmed.backup.with_name(f"{shimmed.backup.name}.1")
    latest.write_bytes(shimmed.backup.read_bytes() + b"\n")
    shimmed.ledger.unlink()
    assert uninstall().exit_code == 0
    assert shimmed.manifest.read_bytes() == original[str(shimmed.manifest)][0] + b"\n"
    assert (shimmed.script.exists(), shimmed.backup.exists(), latest.exists()) == (True, True, False)


def test_without_a_backup_the_manifest_and_its_script_stay(shimmed: ShimmedHome) -> None:
    shimmed.write()
    shimmed.backup.unlink()
    before = _state(shimmed.manifest)
    done = uninstall()
    assert done.exit_code == 0, done.output
    assert f"{shimmed.manifest} is not restored" in " ".join(done.output.split())
    assert (_state(shimmed.manifest), shimmed.script.exists()) == (before, True)


def test_a_manifest_that_its_product_rewrote_stays_and_the_rest_goes(shimmed: ShimmedHome) -> None:
    shimmed.write()
    shimmed.manifest.write_text(f'{{"name": "{HOST_NAME}", "path": "/opt/claude/host"}}')
    before = _state(shimmed.manifest)
    assert uninstall().exit_code == 0
    assert _state(shimmed.manifest) == before
    assert not (shimmed.home / ".mcpb").exists()


def test_a_manifest_that_became_a_link_stays_with_its_script(shimmed: ShimmedHome) -> None:
    shimmed.write()
    shimmed.manifest.symlink_to(shimmed.manifest.rename(shimmed.manifest.with_name("elsewhere")))
    assert uninstall().exit_code == 0
    assert shimmed.manifest.is_symlink()
    assert Path(json.loads(shimmed.manifest.read_bytes())["path"]).exists()


def test_the_script_stays_while_the_manifest_of_another_browser_names_it(shimmed: ShimmedHome) -> None:
    shimmed.write()
    other = use(shimmed.home / ".config/vivaldi") / f"NativeMessagingHosts/{HOST_NAME}.json"
    other.parent.mkdir()
    other.write_bytes(shimmed.manifest.read_bytes())
    assert uninstall("--browser", "chromium").exit_code == 0
    assert shimmed.script.exists()


def test_a_script_of_another_program_stays(shimmed: ShimmedHome) -> None:
    shimmed.write()
    shimmed.script.write_text("#!/bin/sh\necho mine\n")
    assert uninstall().exit_code == 0
    assert shimmed.script.read_text() == "#!/bin/sh\necho mine\n"


@pytest.mark.parametrize("done", range(5))
def test_an_interrupted_restoration_is_completed_by_the_next_run(shimmed: ShimmedHome, done: int) -> None:
    original = shimmed.write()
    home = InstallationPaths(shimmed.home / ".mcpb", shimmed.home)
    plan = uninstall_plan.plan_uninstall(home, [], read_place)
    assert len(plan.steps) > done
    apply_plan(replace(plan, steps=plan.steps[:done]))
    assert Path(json.loads(shimmed.manifest.read_bytes())["path"]).name in (
        shimmed.script.name,
        "chrome-native-host",
    )
    assert uninstall().exit_code == 0
    assert shimmed.files() == original
