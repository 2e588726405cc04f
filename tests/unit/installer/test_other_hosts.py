"""Other products' hosts beside ours, and what an administrator forbids: read, and never touched."""

from __future__ import annotations

import json
import os
import plistlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from install.browsers import Target, find_browser, known_browsers
from install.checks.other_hosts import find_other_hosts, neighbour_findings
from install.checks.policies import managed_policies, policy_findings
from install.findings import Finding
from install.machine import Machine
from native_host.existing_channel.channel_messages import CLAUDE_CODE, CLAUDE_DESKTOP
from native_host.protocol.wire import EXTENSION_ID, HOST_NAME

ORIGIN = "chrome-extension://fcoeoabgfenejglbffodgkkbkcdhcgfn/"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    directory = tmp_path / "NativeMessagingHosts"
    directory.mkdir()
    return Target("Chromium", "chromium", directory, "chromium")


def register(target: Target, name: str, program: Path) -> Path:
    path = target.directory / f"{name}.json"
    path.write_text(
        json.dumps(
            {
                "name": name,
                "description": "another",
                "type": "stdio",
                "path": str(program),
                "allowed_origins": [ORIGIN],
            }
        )
    )
    return path


def a_program(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_each_host_is_listed_with_its_program_and_callers_and_ours_is_not(
    target: Target, tmp_path: Path
) -> None:
    alive = a_program(tmp_path, "alive")
    register(target, HOST_NAME, alive)
    register(target, "org.example.alive", alive)
    register(target, "org.example.gone", tmp_path / "gone")
    found = find_other_hosts([target])
    assert [(each.name, each.is_there) for each in found] == [
        ("org.example.alive", True),
        ("org.example.gone", False),
    ]
    assert (found[0].program, found[0].callers, found[0].title) == (str(alive), (ORIGIN,), "Chromium")


def test_what_cannot_be_read_is_listed_by_its_name(target: Target) -> None:
    (target.directory / "org.example.broken.json").write_text("{")
    os.mkfifo(target.directory / "org.example.pipe.json")
    assert [(each.name, each.program) for each in find_other_hosts([target])] == [
        ("org.example.broken", ""),
        ("org.example.pipe", ""),
    ]


def test_names_that_would_steer_a_terminal_are_shown_as_they_are_written(target: Target) -> None:
    register(target, "org.\x1b[2J\n", Path("/gone\x1b[2J"))
    (found,) = find_other_hosts([target])
    assert (found.name, found.program) == (r"org.\x1b[2J\n", r"/gone\x1b[2J")


def test_a_folder_that_is_not_there_has_no_neighbours(tmp_path: Path) -> None:
    assert find_other_hosts([Target("Chromium", "chromium", tmp_path / "none")]) == []


@pytest.mark.parametrize(("desktop", "taken"), [("alive", "Claude Desktop's"), ("gone", "Claude Code's")])
def test_of_anthropics_two_hosts_the_one_that_their_extension_would_take_is_named(
    desktop: str, taken: str, target: Target, tmp_path: Path
) -> None:
    alive = a_program(tmp_path, "alive")
    register(target, CLAUDE_CODE, alive)
    register(target, CLAUDE_DESKTOP, alive if desktop == "alive" else tmp_path / "gone")
    *gone, finding = neighbour_findings(find_other_hosts([target]), {})
    assert (finding.code, finding.level, finding.command_line) == ("neighbour-order", "note", "")
    assert f"it would start {taken}" in finding.text
    assert [each.code for each in gone] == ["channel-wrapper-gone"] * (desktop == "gone")


@pytest.mark.parametrize(("name", "whose"), [(CLAUDE_CODE, "Claude Code's"), (CLAUDE_DESKTOP, "Desktop's")])
def test_one_of_them_alone_is_named_as_well(name: str, whose: str, target: Target, tmp_path: Path) -> None:
    register(target, name, a_program(tmp_path, "alive"))
    (finding,) = neighbour_findings(find_other_hosts([target]), {})
    assert (finding.code, finding.level, finding.where.text) == ("neighbour-order", "note", "Chromium")
    assert f"{whose} host, the only one that is registered" in finding.text


def test_a_user_s_manifest_stands_before_that_of_all_users(target: Target, tmp_path: Path) -> None:
    for_all = replace(target, directory=tmp_path / "all")
    for_all.directory.mkdir()
    register(target, CLAUDE_CODE, a_program(tmp_path, "alive"))
    register(for_all, CLAUDE_CODE, tmp_path / "gone")
    found = neighbour_findings(find_other_hosts([target, for_all]), {})
    assert [finding.code for finding in found] == ["neighbour-order"]


# ── Wrappers that outlive what they run ─────────────────────────────────────────────────────────────────────


def a_wrapper(folder: Path, *words: object) -> Path:
    """As Claude Code writes it: each word in quotes."""
    path = a_program(folder, "chrome-native-host")
    line = " ".join(f'"{word}"' for word in words)
    path.write_text(f"#!/bin/sh\n# Chrome native host wrapper script\n# It's generated\nexec {line}\n")
    return path


def test_a_wrapper_is_there_as_long_as_what_it_runs(target: Target, tmp_path: Path) -> None:
    version = a_program(tmp_path, "2.1.329")
    register(target, CLAUDE_CODE, a_wrapper(tmp_path, version, "--chrome-native-host"))
    (before,) = find_other_hosts([target])
    version.unlink()
    (after,) = find_other_hosts([target])
    assert (before.is_there, before.lacks) == (True, "")
    assert (after.is_there, after.lacks) == (False, str(version))


@pytest.mark.parametrize(("script", "is_there"), [("cli.js", False), ("profile", True)])
def test_of_what_an_interpreter_is_given_only_scripts_must_be_there(
    script: str, is_there: bool, target: Target, tmp_path: Path
) -> None:
    node = a_program(tmp_path, "node")
    register(target, CLAUDE_CODE, a_wrapper(tmp_path, node, tmp_path / script, "--chrome-native-host"))
    (found,) = find_other_hosts([target])
    assert found.is_there == is_there


def test_what_is_gone_is_named_with_the_way_to_it_and_is_nobody_s_host(
    target: Target, tmp_path: Path
) -> None:
    wrapper = a_wrapper(tmp_path, "/opt/claude/2.1.300", "--chrome-native-host")
    manifest = register(target, CLAUDE_CODE, wrapper)
    (finding,) = neighbour_findings(find_other_hosts([target]), {})
    assert (finding.code, finding.level, finding.where.text) == ("channel-wrapper-gone", "note", "Chromium")
    assert f"{manifest} names {wrapper}, which starts /opt/claude/2.1.300, which is not" in finding.text


@pytest.mark.parametrize("text", ["", "#!/bin/sh\n", "#!/bin/sh\nexec\n", '#!/bin/sh\nexec "$1', "\x7fELF"])
def test_a_program_that_names_no_other_is_taken_for_what_it_is(
    text: str, target: Target, tmp_path: Path
) -> None:
    program = a_program(tmp_path, "alive")
    program.write_text(text)
    register(target, CLAUDE_CODE, program)
    (found,) = find_other_hosts([target])
    assert found.is_there


# ── Policies ────────────────────────────────────────────────────────────────────────────────────────────────


def forbidden(
    machine: Machine, folder: str, policy: dict[str, Any], name: str = "chromium", *, for_all: bool = False
) -> list[Finding]:
    path = machine.root / folder / "policy.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(policy))
    browser = find_browser(name, known_browsers())
    assert browser is not None
    return policy_findings(browser, managed_policies(browser, machine), has_system_manifest=for_all)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine("linux", tmp_path / "home", {}, tmp_path)


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ({}, ""),
        ({"NativeMessagingUserLevelHosts": True}, ""),
        ({"NativeMessagingUserLevelHosts": False}, "policy-user-hosts"),
        ({"NativeMessagingBlocklist": ["*"]}, "policy-host-blocked"),
        ({"NativeMessagingBlocklist": [HOST_NAME]}, "policy-host-blocked"),
        ({"NativeMessagingBlocklist": ["org.example.other"]}, ""),
        ({"NativeMessagingBlocklist": ["*"], "NativeMessagingAllowlist": [HOST_NAME]}, ""),
        ({"ExtensionInstallBlocklist": ["*"]}, "policy-extension-blocked"),
        ({"ExtensionInstallBlocklist": ["*"], "ExtensionInstallAllowlist": [EXTENSION_ID]}, ""),
        ({"ExtensionInstallBlocklist": "*"}, ""),
    ],
)
def test_a_policy_that_stops_us_is_named_with_its_file(
    policy: dict[str, Any], code: str, machine: Machine
) -> None:
    found = forbidden(machine, "etc/chromium/policies/managed", policy)
    assert [finding.code for finding in found] == ([code] if code else [])
    assert all("policies/managed/policy.json" in finding.text for finding in found)


def test_a_host_for_all_users_is_what_a_policy_against_users_hosts_asks_for(machine: Machine) -> None:
    policy = {"NativeMessagingUserLevelHosts": False}
    (finding,) = forbidden(machine, "etc/chromium/policies/managed", policy)
    assert finding.command_line.endswith("install-native-host --system --browser chromium")
    assert forbidden(machine, "etc/chromium/policies/managed", policy, for_all=True) == []


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("chrome", "etc/opt/chrome/policies/managed"),
        ("chrome-beta", "etc/opt/chrome/policies/managed"),
        ("edge", "etc/opt/edge/policies/managed"),
        ("brave", "etc/brave/policies/managed"),
    ],
)
def test_each_browser_has_a_folder_of_its_own(name: str, folder: str, machine: Machine) -> None:
    assert forbidden(machine, folder, {"NativeMessagingBlocklist": ["*"]}, name)
    assert not forbidden(machine, "etc/chromium/policies/managed", {}, "firefox")


def test_of_several_files_the_last_one_counts(machine: Machine) -> None:
    folder = machine.root / "etc/chromium/policies/managed"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text('{"NativeMessagingUserLevelHosts": true}')
    (folder / "b.json").write_text("not JSON")
    (found,) = forbidden(machine, "etc/chromium/policies/managed", {"NativeMessagingUserLevelHosts": False})
    assert "policy.json" in found.text


def test_on_macos_policies_are_a_property_list(tmp_path: Path) -> None:
    path = tmp_path / "Library/Managed Preferences/com.google.Chrome.plist"
    path.parent.mkdir(parents=True)
    path.write_bytes(plistlib.dumps({"NativeMessagingBlocklist": ["*"]}))
    chrome = find_browser("chrome", known_browsers())
    assert chrome is not None
    policies = managed_policies(chrome, Machine("macos", tmp_path, {}, tmp_path))
    (finding,) = policy_findings(chrome, policies, has_system_manifest=False)
    assert str(path) in finding.text
    path.write_bytes(b"<broken")
    assert managed_policies(chrome, Machine("macos", tmp_path, {}, tmp_path)) == {}
