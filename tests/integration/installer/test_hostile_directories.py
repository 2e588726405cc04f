"""Whatever is in the places that an examination looks at, it comes to an end and says something."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from install.browsers import TableError, find_browser, known_browsers, named_targets
from install.checks.check_report import Report, examine
from install.findings import FindingCode
from install.installation import InstallationPaths, RegisteredHost
from install.machine import Machine
from install.plan import apply
from install.plan import install_plan as planning
from install.plan.apply import read_place
from native_host.protocol.wire import HOST_NAME

LONGEST_S = 60
NOBODY = 65534
"""Root may read everything: the examination runs as somebody who may not."""
ROWS = known_browsers()

MANIFEST = f"home/.config/chromium/NativeMessagingHosts/{HOST_NAME}.json"
PLACES = (
    MANIFEST,
    f"home/.mozilla/native-messaging-hosts/{HOST_NAME}.json",
    "home/.config/chromium/NativeMessagingHosts/org.example.other.json",
    "home/.config/chromium/NativeMessagingHosts",
    "home/.config/chromium/Default/Preferences",
    "home/.config/chromium/Default/Secure Preferences",
    "home/.config/chromium/Default",
    "home/.config/chromium",
    "home/.config",
    "home/.mozilla/firefox/profiles.ini",
    "home/.mozilla/firefox/work/extensions.json",
    "home/.mozilla/firefox/work",
    "m/bin/mcpb-native-host",
    "m/bin",
    "m/state/ledger.json",
    "m/state",
    "m",
    f"etc/chromium/native-messaging-hosts/{HOST_NAME}.json",
    "etc/chromium/policies/managed/it.json",
    "etc/chromium/policies/managed",
    "proc/100/cmdline",
    "proc/100/environ",
    "proc/100",
    "extension/manifest.json",
)


def manifest(path: str) -> Callable[[Path], object]:
    known = {"name": HOST_NAME, "description": "x", "type": "stdio", "path": path}
    content = json.dumps({**known, "allowed_origins": ["\ud800\x1b[2J"], "allowed_extensions": ["\0"]})
    return lambda place: place.write_text(content)


def closed(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def shut(place: Path) -> None:
        make(place)
        place.chmod(0)

    return shut


THINGS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _place: None,
    "a directory": lambda place: place.mkdir(),
    "a pipe": os.mkfifo,
    "a link to itself": lambda place: place.symlink_to(place.name),
    "a link to nowhere": lambda place: place.symlink_to("nowhere"),
    "an endless device": lambda place: place.symlink_to("/dev/zero"),
    "an empty file": lambda place: place.touch(),
    "what is no text": lambda place: place.write_bytes(b"\xff\0" * 100),
    "a list": lambda place: place.write_text("[1]"),
    "a deep list": lambda place: place.write_text("[" * 100_000),
    "numbers": lambda place: place.write_text(json.dumps({"extensions": 1, "path": 1, "name": 1})),
    "a path with a NUL": manifest("/bin/\0cat"),
    "a path that is too long": manifest("/x" * 3000),
    "half a character": manifest("/\ud800"),
    "a closed file": closed(lambda place: place.touch()),
    "a closed directory": closed(lambda place: place.mkdir()),
}


@pytest.fixture
def tree(short_tmp: Path) -> Path:
    """An installation that is all right, with what else is looked at, and all of it the nobody's."""
    machine, home = the_machine(short_tmp), short_tmp / "m"
    for name in PLACES:
        (short_tmp / name).parent.mkdir(parents=True, exist_ok=True)
    (short_tmp / "extension/manifest.json").write_text('{"name": "mcpb", "version": "1.²"}')
    setting = {"path": str(short_tmp / "extension"), "location": 4}
    preferences = json.dumps({"extensions": {"settings": {"a" * 32: setting}}})
    for name in ("Preferences", "Secure Preferences"):
        (short_tmp / "home/.config/chromium/Default" / name).write_text(preferences)
    (short_tmp / "home/.mozilla/firefox/profiles.ini").write_text("[Profile0]\nPath=work\n")
    (short_tmp / "proc/100/exe").symlink_to("/usr/lib/chromium/chromium")
    (short_tmp / "proc/100/cmdline").write_bytes(b"chromium\0")
    rows = [row for name in ("chromium", "firefox") if (row := find_browser(name, ROWS))]
    targets = [named_targets(row, machine, ROWS, Path.exists)[0] for row in rows]
    host = RegisteredHost(InstallationPaths(home, machine.user_home), Path(sys.executable), bakes_home=True)
    apply.apply_plan(planning.plan_install(host, targets, [], read_place))
    for path in [short_tmp, *short_tmp.rglob("*")]:
        os.chown(path, *([NOBODY] * 2 if os.geteuid() == 0 else [-1, -1]), follow_symlinks=False)
    return short_tmp


def the_machine(root: Path) -> Machine:
    return Machine("linux", root / "home", {}, root)


def as_nobody(action: Callable[[], object]) -> str:
    """Run it in a child of ours; returns what went wrong."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            signal.alarm(LONGEST_S)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            action()
        finally:
            if sys.exc_info()[0]:
                os.write(writing, traceback.format_exc().encode(errors="replace")[-4000:])
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return said or ("it waits for ever" if status else "")


def examined(root: Path) -> Report:
    machine, home = the_machine(root), root / "m"
    report = examine(machine, home)
    shown = [report.findings, report.targets, report.neighbours]
    assert msgspec.json.decode(msgspec.json.encode(shown))
    assert all(text.isprintable() for each in report.neighbours for text in (each.name, each.program))
    return report


@pytest.mark.parametrize("name", PLACES)
def test_no_tree_ends_an_examination(name: str, tree: Path) -> None:
    place, aside = tree / name, tree / "aside"
    if os.path.lexists(place):
        place.rename(aside)

    def try_all() -> None:
        for thing, make in THINGS.items():
            make(place)
            try:
                with suppress(TableError):  # it says itself what is wrong with mcpb's home
                    examined(tree)
            except Exception as error:
                error.add_note(thing)
                raise
            remove(place)

    assert as_nobody(try_all) == ""


def remove(place: Path) -> None:
    if place.is_symlink() or not place.is_dir():
        place.unlink(missing_ok=True)
    else:
        place.chmod(0o700)
        place.rmdir()


@pytest.mark.parametrize("folder", ["home/.config/chromium", "home/.config/chromium/NativeMessagingHosts"])
def test_a_folder_that_may_not_be_entered_is_named_with_what_opens_it(folder: str, tree: Path) -> None:
    def look_there() -> None:
        (tree / folder).chmod(0)
        found = [item for item in examined(tree).findings if item.code == "manifest-unreadable"]
        command = f"chmod u+rwx {tree / folder}"
        assert [(item.command_line, item.is_safe) for item in found] == [(command, False)]
        (tree / folder).chmod(0o700)

    assert as_nobody(look_there) == ""


def test_a_program_behind_a_closed_folder_is_not_called_missing(tree: Path) -> None:
    def look_there() -> None:
        (tree / "m/bin").chmod(0)
        faults = {item.code: item.text for item in examined(tree).of_level("fault")}
        (tree / "m/bin").chmod(0o700)
        assert f"you may not enter {tree}/m/bin" in faults[FindingCode.PROGRAM_NOT_EXECUTABLE]
        assert FindingCode.PROGRAM_MISSING not in faults

    assert as_nobody(look_there) == ""
