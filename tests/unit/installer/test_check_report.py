"""The examination as a whole: a machine in a folder, our own installer, and one thing that is not right."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import trio

from install.browsers import (
    Browser,
    Target,
    find_browser,
    known_browsers,
    named_targets,
    system_target,
    user_data_dir_target,
)
from install.checks.check_report import Report, examine, examine_and_try
from install.findings import Finding
from install.host_manifest import OUR_CALLERS, manifest_text
from install.installation import InstallationPaths, RegisteredHost, system_home
from install.ledger import Ledger
from install.machine import Machine
from install.plan import apply
from install.plan import install_plan as planning
from install.plan.apply import read_place
from native_host.existing_channel.channel_messages import CLAUDE_CODE
from native_host.protocol.wire import HOST_NAME
from native_host.system.home_layout import HomeLayout

ROWS = known_browsers()


class Place:
    """A machine: its root, a person with a Chromium and a Firefox, and mcpb's home."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user = root / "home"
        self.mcpb = root / "m"
        self.machine = Machine("linux", self.user, {}, root)
        self.chromium = self.user / ".config/chromium"
        self.chromium.mkdir(parents=True)
        (self.user / ".mozilla").mkdir()

    @property
    def wrapper(self) -> Path:
        return self.mcpb / "bin/mcpb-native-host"

    def manifest(self, browser: str = "chromium") -> Path:
        return self.target(browser).manifest

    def target(self, browser: str) -> Target:
        return named_targets(row(browser), self.machine, ROWS, Path.exists)[0]

    def system_manifest(self, browser: str = "chromium") -> Path:
        target = system_target(row(browser), self.machine)
        assert target is not None
        return target.manifest

    def install(self, *browsers: str) -> None:
        host = RegisteredHost(InstallationPaths(self.mcpb, self.user), Path(sys.executable), bakes_home=True)
        targets = [self.target(name) for name in browsers or ("chromium", "firefox")]
        apply.apply_plan(planning.plan_install(host, targets, [], read_place))

    def write_system_manifest(self, browser: str = "chromium") -> None:
        path = self.system_manifest(browser)
        path.parent.mkdir(parents=True)
        path.write_text(manifest_text(row(browser).kind, self.wrapper, OUR_CALLERS))

    def load_extension(self, data: Path) -> None:
        """As Chromium notes an unpacked extension of ours."""
        folder = self.root / "extension"
        folder.mkdir(exist_ok=True)
        (folder / "manifest.json").write_text('{"name": "mcpb", "version": "0.2.0"}')
        setting = {"path": str(folder), "location": 4, "disable_reasons": []}
        (data / "Default").mkdir(parents=True)
        preferences = {"extensions": {"settings": {"jhipampgcbajgajeedfncbijjojmbnbc": setting}}}
        (data / "Default/Preferences").write_text(json.dumps(preferences))

    def start_chromium(self, *options: str, pid: int = 100) -> None:
        folder = self.root / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "exe").symlink_to("/usr/lib/chromium/chromium")
        (folder / "cmdline").write_bytes("\0".join(["chromium", *options, ""]).encode())

    def change(self, browser: str = "chromium", **changes: object) -> None:
        path = self.manifest(browser)
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    def examine(self, *names: str) -> Report:
        return examine(self.machine, self.mcpb, names)

    async def examine_and_try(self, *names: str) -> Report:
        with trio.fail_after(60):
            return await examine_and_try(self.machine, self.mcpb, names)


def row(name: str) -> Browser:
    found = find_browser(name, ROWS)
    assert found is not None
    return found


@pytest.fixture
def place(short_tmp: Path) -> Place:
    return Place(short_tmp)


@pytest.fixture
def installed(place: Place) -> Place:
    place.install()
    return place


def faults(report: Report, where: str | None = None) -> list[str]:
    """Codes, of one browser or of all."""
    return [item.code for item in report.of_level("fault") if where is None or item.where.text == where]


def the(report: Report, code: str) -> Finding:
    (found,) = [finding for finding in report.findings if finding.code == code]
    return found


# ── What is all right ───────────────────────────────────────────────────────────────────────────────────────


async def test_an_installation_as_it_should_be_has_no_fault(installed: Place) -> None:
    report = await installed.examine_and_try()
    assert faults(report) == []
    assert [(target.title, target.is_ours, target.is_startable) for target in report.targets] == [
        ("Chromium", True, True),
        ("Firefox", True, True),
    ]
    assert [target.program for target in report.targets] == [str(installed.wrapper)] * 2


def test_an_examination_changes_nothing(installed: Place) -> None:
    def listing() -> list[tuple[str, int, int]]:
        paths = sorted(installed.root.rglob("*"))
        return [(str(path), path.lstat().st_mtime_ns, path.lstat().st_mode) for path in paths]

    before = listing()
    installed.examine()
    assert listing() == before


def test_where_nothing_is_registered_each_browser_is_told_how(place: Place) -> None:
    report = place.examine()
    assert faults(report) == ["manifest-missing", "manifest-missing"]
    assert [item.command_line for item in report.of_level("fault")] == [
        "mcpb install-native-host --browser chromium",
        "mcpb install-native-host --browser firefox",
    ]


def test_a_machine_without_a_browser_is_said_so(short_tmp: Path) -> None:
    machine = Machine("linux", short_tmp / "home", {}, short_tmp)
    report = examine(machine, short_tmp / "m")
    assert faults(report) == ["no-browser"]
    assert [item.command_line for item in report.of_level("fault")] == ["mcpb install-native-host"]


def test_only_named_browsers_are_examined(place: Place) -> None:
    assert [target.browser for target in place.examine("firefox").targets] == ["firefox"]
    assert [target.browser for target in place.examine("brave").targets] == ["brave"]


# ── Manifests ───────────────────────────────────────────────────────────────────────────────────────────────


def truncate(path: Path) -> None:
    path.write_text("{")


BREAKS: dict[str, Callable[[Place], None]] = {
    "manifest-missing": lambda place: place.manifest().unlink(),
    "manifest-not-json": lambda place: truncate(place.manifest()),
    "manifest-name": lambda place: place.change(name="dev.mcpb.other"),
    "manifest-relative-path": lambda place: place.change(path="bin/host"),
    "origin-missing": lambda place: place.change(allowed_origins=[]),
    "origin-malformed": lambda place: place.change(allowed_origins=[OUR_CALLERS[0], "chrome-extension://*/"]),
    "program-missing": lambda place: place.change(path="/gone/host"),
    "program-not-a-file": lambda place: place.change(path="/etc"),
    "program-not-executable": lambda place: place.change(path="/etc/passwd"),
    "manifest-foreign-program": lambda place: place.change(path="/bin/cat"),
}


@pytest.mark.parametrize("code", BREAKS)
def test_what_is_wrong_with_a_manifest_is_said_of_its_browser_alone(code: str, installed: Place) -> None:
    BREAKS[code](installed)
    report = installed.examine()
    assert faults(report) == faults(report, "Chromium") == [code]
    assert the(report, code).command_line.startswith("mcpb install-native-host --browser chromium")
    assert [target.is_startable for target in report.targets] == [False, True]
    is_read = code.startswith("program-") or code == "manifest-foreign-program"
    assert bool(report.targets[0].program) == is_read  # what a browser does not take names no program


@pytest.mark.parametrize(
    ("code", "replace"),
    [
        ("manifest-missing", False),
        ("manifest-not-json", False),  # it starts nothing
        ("manifest-name", False),
        ("program-missing", False),
        ("origin-missing", False),
        ("manifest-foreign-program", True),
    ],
)
def test_what_others_put_into_our_place_is_replaced_only_by_command(
    code: str, replace: bool, installed: Place
) -> None:
    BREAKS[code](installed)
    finding = the(installed.examine(), code)
    assert finding.command_line.endswith(" --replace") == replace
    assert finding.is_safe == (code not in {"manifest-missing", "manifest-foreign-program"})


def test_a_broken_manifest_where_we_never_were_is_not_mended_unasked(place: Place) -> None:
    place.install("firefox")
    place.manifest().parent.mkdir()
    place.manifest().write_text(manifest_text("chromium", place.wrapper, ["chrome-extension://none/"]))
    finding = the(place.examine("chromium"), "origin-missing")
    assert (finding.is_safe, finding.command_line.endswith("--replace")) == (False, False)


def test_a_manifest_that_cannot_be_read_is_no_missing_one(installed: Place) -> None:
    installed.manifest().unlink()
    installed.manifest().mkdir()
    assert faults(installed.examine()) == ["manifest-unreadable"]


def test_a_link_is_followed_and_one_that_leads_nowhere_is_named(installed: Place) -> None:
    moved = installed.root / "moved.json"
    installed.manifest().rename(moved)
    installed.manifest().symlink_to(moved)
    assert faults(installed.examine()) == []
    moved.unlink()
    finding = the(installed.examine(), "manifest-missing")
    assert f"is a link to {moved}" in finding.text
    assert finding.command_line.endswith("--replace")


def test_a_broken_manifest_of_the_user_hides_a_good_one_of_all_users_from_chromium(installed: Place) -> None:
    installed.write_system_manifest()
    BREAKS["manifest-not-json"](installed)
    report = installed.examine()
    assert faults(report) == ["manifest-shadows", "manifest-not-json"]
    assert str(installed.system_manifest()) in the(report, "manifest-shadows").text


def test_firefox_goes_on_to_the_manifest_of_all_users(installed: Place) -> None:
    installed.write_system_manifest("firefox")
    installed.manifest("firefox").write_text("{")
    report = installed.examine()
    assert faults(report) == []
    assert the(report, "manifest-not-json").level == "warning"
    (firefox,) = [target for target in report.targets if target.kind == "firefox"]
    assert (firefox.reads, firefox.is_startable) == (str(installed.system_manifest("firefox")), True)


def test_firefox_does_not_go_on_to_one_that_is_broken_as_well(installed: Place) -> None:
    installed.write_system_manifest("firefox")
    installed.manifest("firefox").write_text("{")
    installed.system_manifest("firefox").write_text("{")
    report = installed.examine("firefox")
    assert (faults(report), report.targets[0].reads) == (
        ["manifest-not-json"],
        str(installed.manifest("firefox")),
    )


def test_what_hides_a_broken_manifest_of_all_users_is_not_blamed_for_it(installed: Place) -> None:
    installed.write_system_manifest()
    installed.system_manifest().write_text("{")
    BREAKS["manifest-not-json"](installed)
    assert faults(installed.examine()) == ["manifest-not-json"]


def test_firefox_does_not_go_on_when_only_the_program_is_missing(installed: Place) -> None:
    installed.write_system_manifest("firefox")
    installed.change("firefox", path="/gone/host")
    assert faults(installed.examine()) == ["manifest-shadows", "program-missing"]


@pytest.mark.parametrize("browser", ["chromium", "firefox"])
def test_a_host_for_all_users_needs_no_manifest_of_the_user(browser: str, installed: Place) -> None:
    installed.write_system_manifest(browser)
    installed.manifest(browser).unlink()
    assert faults(installed.examine()) == []


def test_what_is_wrong_with_a_manifest_of_all_users_is_mended_there(place: Place) -> None:
    place.write_system_manifest()
    place.system_manifest().write_text("{")
    finding = the(place.examine(), "manifest-not-json")
    assert "install-native-host --system --browser chromium" in finding.command_line


def test_a_browser_that_was_taken_out_is_a_note(installed: Place) -> None:
    installed.manifest().unlink()
    path = HomeLayout(installed.mcpb).ledger
    ledger = msgspec.json.decode(path.read_bytes(), type=Ledger)
    path.write_bytes(msgspec.structs.replace(ledger, removed=("chromium",)).encode())
    report = installed.examine()
    assert faults(report) == []
    assert the(report, "browser-removed").level == "note"
    assert the(report, "browser-removed").command_line == "mcpb install-native-host --browser chromium"


# ── The wrapper ─────────────────────────────────────────────────────────────────────────────────────────────


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


WRAPPER_BREAKS: dict[str, Callable[[Place], None]] = {
    "program-missing": lambda place: place.wrapper.unlink(),
    "program-not-executable": lambda place: place.wrapper.chmod(0o600),
    "program-shebang": lambda place: edit(place.wrapper, "#!/bin/sh", "#!/gone/sh"),
    "interpreter-gone": lambda place: edit(place.wrapper, sys.executable, "/gone/python"),
    "wrapper-home": lambda place: edit(place.wrapper, f'"home":"{place.mcpb}"', '"home":"/elsewhere"'),
}


@pytest.mark.parametrize("code", WRAPPER_BREAKS)
def test_what_is_wrong_with_the_wrapper_is_said_once_and_mended_unasked(code: str, installed: Place) -> None:
    WRAPPER_BREAKS[code](installed)
    report = installed.examine()
    assert faults(report) == [code]
    assert (the(report, code).hop, the(report, code).where.text, the(report, code).is_safe) == (
        "wrapper",
        "",
        True,
    )
    assert the(report, code).command_line == "mcpb install-native-host --browser chromium"
    assert not any(target.is_startable for target in report.targets)


def test_a_wrapper_of_others_is_replaced_only_by_command(installed: Place) -> None:
    installed.wrapper.write_text("#!/bin/sh\nexec something else\n")
    finding = the(installed.examine(), "wrapper-foreign")
    assert (finding.level, finding.is_safe) == ("fault", False)
    assert finding.command_line.endswith("--replace")


@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (lambda place: place.wrapper.chmod(0o777), "wrapper-exposed"),
        (lambda place: place.wrapper.parent.chmod(0o770), "wrapper-exposed"),
        (lambda place: edit(place.wrapper, "while read", "while  read"), "wrapper-changed"),
    ],
)
def test_what_browsers_do_not_mind_is_a_warning(
    break_it: Callable[[Place], None], code: str, installed: Place
) -> None:
    break_it(installed)
    report = installed.examine()
    assert faults(report) == []
    assert the(report, code).level == "warning"


def test_a_wrapper_of_another_version_is_a_warning(installed: Place) -> None:
    edit(installed.wrapper, '"version":"0.2.0"', '"version":"0.0.9"')
    finding = the(installed.examine(), "wrapper-version")
    assert (finding.level, finding.is_safe) == ("warning", True)


def test_a_wrapper_behind_a_link_is_a_warning(installed: Place) -> None:
    moved = installed.root / "moved"
    installed.wrapper.rename(moved)
    installed.wrapper.symlink_to(moved)
    report = installed.examine()
    assert faults(report) == []
    assert the(report, "wrapper-link").level == "warning"


def test_a_damaged_ledger_is_said_and_the_rest_examined(installed: Place) -> None:
    HomeLayout(installed.mcpb).ledger.write_text("{")
    report = installed.examine()
    assert faults(report) == []
    assert the(report, "ledger-unreadable").level == "warning"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.mkdir(), lambda path: path.symlink_to(path)])
def test_what_is_no_file_in_the_wrappers_place_is_moved_away_only_by_command(
    make: Callable[[Path], None], installed: Place
) -> None:
    installed.wrapper.unlink()
    make(installed.wrapper)
    (finding,) = installed.examine().of_level("fault")
    assert finding.hop == "wrapper"
    assert (finding.is_safe, finding.command_line.endswith("--replace")) == (False, True)


def test_a_ledger_that_is_no_file_is_not_taken_for_none(installed: Place) -> None:
    HomeLayout(installed.mcpb).ledger.unlink()
    HomeLayout(installed.mcpb).ledger.mkdir()
    assert the(installed.examine(), "ledger-unreadable").level == "warning"


def test_a_wrapper_by_another_path_is_ours(installed: Place) -> None:
    (installed.root / "link").symlink_to(installed.mcpb)
    installed.change(path=str(installed.root / "link/bin/mcpb-native-host"))
    report = installed.examine()
    assert (faults(report), report.targets[0].is_ours) == ([], True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_home_of_another_user_is_reported_and_the_user_s_own_is_examined(installed: Place) -> None:
    foreign = installed.root / "foreign"
    foreign.mkdir()
    os.chown(foreign, 65534, 65534)
    machine = replace(installed.machine, environ={"HOME": str(foreign)})
    report = examine(machine, installed.mcpb)
    found = the(report, "home-of-another-user")
    assert (found.hop, found.level, faults(report)) == ("environment", "warning", [])
    assert report.targets != ()


# ── Trials ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_wrapper_that_prints_is_caught_once_for_all_browsers_of_a_kind(installed: Place) -> None:
    edit(installed.wrapper, "if [ -x", "echo Welcome; if [ -x")
    report = await installed.examine_and_try()
    assert faults(report) == ["host-prints", "host-prints"]
    assert [item.where.text for item in report.of_level("fault")] == ["Chromium", "Firefox"]
    assert not any(target.is_startable for target in report.targets)


async def test_a_program_without_our_mark_is_named_and_never_run(installed: Place) -> None:
    program = installed.root / "host"
    program.write_text(f"#!/bin/sh\n/usr/bin/touch '{installed.root}/was run'\n")
    program.chmod(0o755)
    installed.change(path=str(program))
    report = await installed.examine_and_try()
    assert faults(report) == ["manifest-foreign-program"]
    assert the(report, "manifest-foreign-program").command_line.endswith("--browser chromium --replace")
    assert not (installed.root / "was run").exists()


async def test_another_mcpbs_host_is_tried_and_blamed_for_what_it_does(installed: Place) -> None:
    other = installed.root / "other"
    other.write_text(installed.wrapper.read_text().replace("if [ -x", "echo Hello; if [ -x"))
    other.chmod(0o755)
    installed.change(path=str(other))
    assert faults(installed.examine()) == ["manifest-of-another-mcpb"]
    assert faults(await installed.examine_and_try()) == ["host-prints"]


async def test_what_is_wrong_with_the_host_in_one_browser_alone_is_said_of_that(installed: Place) -> None:
    edit(installed.wrapper, "if [ -x", "echo Welcome; if [ -x")
    data = installed.user / ".config/google-chrome"
    data.mkdir()
    installed.install("chrome")
    edit(installed.wrapper, "if [ -x", "echo Welcome; if [ -x")
    found = [item.where.text for item in (await installed.examine_and_try()).of_level("fault")]
    assert found == ["", "Firefox"]  # Chromium and Chrome start it in the same way


async def test_what_is_known_not_to_start_is_not_tried(installed: Place) -> None:
    installed.wrapper.chmod(0o600)
    assert faults(await installed.examine_and_try()) == ["program-not-executable"]


# ── Browsers that run ───────────────────────────────────────────────────────────────────────────────────────


def test_a_browser_that_runs_on_a_folder_of_its_own_with_our_extension_is_a_fault(installed: Place) -> None:
    data = installed.root / "other data"
    installed.load_extension(data)
    installed.start_chromium(f"--user-data-dir={data}")
    report = installed.examine()
    assert faults(report) == ["user-data-dir"]
    assert the(report, "user-data-dir").command_line == f"mcpb install-native-host --user-data-dir '{data}'"
    assert report.targets[-1].title == the(report, "user-data-dir").where.text == f"Chromium in {data}"


def test_once_it_is_registered_there_it_is_all_right(installed: Place) -> None:
    data = installed.root / "data"
    installed.load_extension(data)
    installed.start_chromium(f"--user-data-dir={data}")
    path = data / "NativeMessagingHosts" / f"{HOST_NAME}.json"
    path.parent.mkdir()
    path.write_text(manifest_text("chromium", installed.wrapper, OUR_CALLERS))
    report = installed.examine()
    assert faults(report) == []
    assert report.targets[-1].is_startable


def test_a_folder_that_was_named_by_hand_is_examined_while_it_is_there(place: Place) -> None:
    data = place.root / "data"
    data.mkdir()
    host = RegisteredHost(InstallationPaths(place.mcpb, place.user), Path(sys.executable), bakes_home=True)
    target = user_data_dir_target(data)
    apply.apply_plan(planning.plan_install(host, [target], [], read_place))
    assert [
        found.is_startable for found in place.examine().targets if found.manifest == str(target.manifest)
    ] == [True]
    target.manifest.unlink()
    missing = [item for item in place.examine().findings if item.where.text == f"Chromium in {data}"]
    assert missing[0].command_line == f"mcpb install-native-host --user-data-dir {data}"
    shutil.rmtree(data)
    assert [found.title for found in place.examine().targets] == ["Chromium", "Firefox"]


def test_a_browser_that_another_program_started_for_itself_is_only_noted(installed: Place) -> None:
    installed.start_chromium(f"--user-data-dir={installed.root}/data", "--headless")
    report = installed.examine()
    assert the(report, "user-data-dir").level == "note"
    assert [target.title for target in report.targets] == ["Chromium", "Firefox"]


def test_the_usual_folder_may_be_named_to_a_browser(installed: Place) -> None:
    installed.start_chromium(f"--user-data-dir={installed.chromium}")
    assert [item.code for item in installed.examine().findings if item.hop == "browser"] == []


def settings_of(place: Place, pid: int, folder: Path) -> None:
    text = f"HOME={place.user}\0XDG_CONFIG_HOME={folder}\0"
    (place.root / "proc" / str(pid) / "environ").write_text(text)


def test_a_browser_with_settings_of_its_own_is_followed_to_them(installed: Place) -> None:
    settings = installed.root / "my settings"
    installed.load_extension(settings / "chromium")
    installed.start_chromium()
    settings_of(installed, 100, settings)
    report = installed.examine()
    assert faults(report) == ["settings-folder"]
    finding = the(report, "settings-folder")
    assert f"started with XDG_CONFIG_HOME={settings}" in finding.text
    assert finding.command_line == f"mcpb install-native-host --user-data-dir '{settings}/chromium'"
    assert finding.where.text == report.targets[-1].title == f"Chromium in {settings}/chromium"


def test_settings_that_lead_to_the_usual_folder_are_nothing_special(installed: Place) -> None:
    installed.start_chromium()
    settings_of(installed, 100, installed.user / ".config")
    assert [item.code for item in installed.examine().findings if item.hop == "browser"] == []


def test_brave_looks_in_its_usual_folder_whatever_it_was_started_with(installed: Place) -> None:
    data = installed.root / "data"
    installed.load_extension(data)
    installed.start_chromium(f"--user-data-dir={data}")
    (installed.root / "proc/100/exe").unlink()
    (installed.root / "proc/100/exe").symlink_to("/opt/brave.com/brave/brave")
    assert "user-data-dir" not in [item.code for item in installed.examine().findings]


def test_a_browser_that_another_mcpb_looks_after_is_left_to_it(installed: Place) -> None:
    data = installed.root / "data"
    installed.load_extension(data)
    installed.start_chromium(f"--user-data-dir={data}")
    other = installed.root / "other"
    shutil.copy(installed.wrapper, other)
    path = data / "NativeMessagingHosts" / f"{HOST_NAME}.json"
    path.parent.mkdir()
    path.write_text(manifest_text("chromium", other, OUR_CALLERS))
    report = installed.examine()
    assert (faults(report), len(report.targets), len(report.running)) == ([], 2, 1)


def test_a_confined_browser_is_called_as_its_target_is(installed: Place) -> None:
    installed.start_chromium()
    (installed.root / "proc/100/exe").unlink()
    (installed.root / "proc/100/exe").symlink_to("/snap/firefox/5000/usr/lib/firefox/firefox")
    (installed.user / ".zen").mkdir()
    assert the(installed.examine(), "browser-confined").where.text == "Firefox, Zen"  # they share a folder


# ── Further on ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_browser_without_the_extension_is_warned_of(installed: Place) -> None:
    installed.load_extension(installed.chromium)
    report = installed.examine()
    assert [
        (item.where.text, item.level) for item in report.findings if item.code == "extension-missing"
    ] == [("Firefox", "warning")]


def test_an_extension_that_was_loaded_just_now_is_not_called_missing(installed: Place) -> None:
    assert the(installed.examine("chromium"), "extension-missing").level == "warning"
    (installed.chromium / "Default/Local Extension Settings/jhipampgcbajgajeedfncbijjojmbnbc").mkdir(
        parents=True
    )
    assert "extension-missing" not in [item.code for item in installed.examine("chromium").findings]


def test_a_policy_is_said_under_the_browsers_title(installed: Place) -> None:
    path = installed.root / "etc/chromium/policies/managed/it.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"NativeMessagingUserLevelHosts": false}')
    assert faults(installed.examine(), "Chromium") == ["policy-user-hosts"]


def test_other_products_hosts_are_listed_and_left_as_they_are(installed: Place) -> None:
    path = installed.manifest().parent / f"{CLAUDE_CODE}.json"
    path.write_text('{"name": "x"}')
    before = path.stat()
    report = installed.examine()
    assert [neighbour.name for neighbour in report.neighbours] == [CLAUDE_CODE]
    assert faults(report) == []
    assert path.stat() == before


def test_a_host_for_all_users_has_a_wrapper_of_its_own(place: Place) -> None:
    home = system_home(place.machine)
    home.wrapper.parent.mkdir(parents=True)
    host = RegisteredHost(home, Path(sys.executable))
    target = system_target(row("chromium"), place.machine)
    assert target is not None
    apply.apply_plan(planning.plan_install(host, [target], [], read_place))
    report = place.examine("chromium")
    assert faults(report) == []
    assert report.targets[0].is_ours
    home.wrapper.unlink()
    assert "--system --browser chromium" in the(place.examine("chromium"), "program-missing").command_line


def test_a_broken_wrapper_for_all_users_is_nothing_to_browsers_that_start_ours(installed: Place) -> None:
    home = system_home(installed.machine)
    home.wrapper.parent.mkdir(parents=True)
    target = system_target(row("chrome"), installed.machine)
    assert target is not None
    apply.apply_plan(
        planning.plan_install(RegisteredHost(home, Path(sys.executable)), [target], [], read_place)
    )
    home.wrapper.unlink()
    report = installed.examine()
    assert faults(report) == ["program-missing"]
    assert all(target.is_startable for target in report.targets)
