"""Administrator policies that forbid user-level hosts, the mcpb host or the extension. It only reads.

Chromium on Linux reads all JSON files of a directory, in the order of their names; on macOS a property list.
"""

from __future__ import annotations

import plistlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

import msgspec

from install.browsers import Browser
from install.findings import Command, Finding, FindingCode, mcpb_command, path_value, public_value
from install.machine import Machine
from native_host.protocol.wire import EXTENSION_ID, HOST_NAME
from native_host.system.untrusted_files import entries, head

LARGEST_BYTES = 4 * 1024 * 1024
# By the first word of a row's name: all channels of a browser share a folder.
_LINUX = {
    "chromium": "etc/chromium/policies/managed",
    "chrome": "etc/opt/chrome/policies/managed",
    "edge": "etc/opt/edge/policies/managed",
    "brave": "etc/brave/policies/managed",
}
_MACOS = {
    "chromium": "org.chromium.Chromium",
    "chrome": "com.google.Chrome",
    "edge": "com.microsoft.Edge",
    "brave": "com.brave.Browser",
}
_ALL = "*"


@dataclass(frozen=True)
class Policy:
    """One setting."""

    value: Any
    file: Path


def managed_policies(browser: Browser, machine: Machine) -> dict[str, Policy]:
    """By name; of several files the last one counts. Empty where the browser's place for them is unknown."""
    return {
        name: Policy(value, file)
        for file in _policy_files(browser.name.partition("-")[0], machine)
        for name, value in _read_policies(file).items()
    }


def _policy_files(family: str, machine: Machine) -> list[Path]:
    if machine.system == "macos":
        folder = machine.root / "Library/Managed Preferences"
        return [folder / f"{_MACOS[family]}.plist"] if family in _MACOS else []
    if family not in _LINUX:
        return []
    return [path for path in entries(machine.root / _LINUX[family]) if path.suffix == ".json"]


def _read_policies(file: Path) -> dict[str, Any]:
    return _decode_policies(head(file, LARGEST_BYTES) or b"", is_plist=file.suffix == ".plist")


def _decode_policies(content: bytes, *, is_plist: bool) -> dict[str, Any]:
    with suppress(
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
        plistlib.InvalidFileException,
        ExpatError,
        ValueError,
    ):
        found = plistlib.loads(content) if is_plist else msgspec.json.decode(content)
        return found if isinstance(found, dict) else {}
    return {}


def policy_findings(
    browser: Browser, policies: dict[str, Policy], *, has_system_manifest: bool
) -> list[Finding]:
    """Return policy-user-hosts, policy-host-blocked, policy-extension-blocked.

    `has_system_manifest`: the host is registered for all users, so the user's directory is not needed.
    """
    return list(_find_blocked(browser, policies, has_system_manifest=has_system_manifest))


def _find_blocked(
    browser: Browser, policies: dict[str, Policy], *, has_system_manifest: bool
) -> Iterator[Finding]:
    user_hosts = policies.get("NativeMessagingUserLevelHosts")
    if user_hosts and user_hosts.value is False and not has_system_manifest:
        template = (
            "{file} (NativeMessagingUserLevelHosts) lets {browser} start only native hosts for all users"
        )
        command = mcpb_command("install-native-host", "--system", "--browser", browser.name, as_root=True)
        yield _make_finding(FindingCode.POLICY_USER_HOSTS, browser, user_hosts, template, command)
    if blocked := _find_blocking(policies, "NativeMessagingBlocklist", "NativeMessagingAllowlist", HOST_NAME):
        template = (
            f"{{file}} (NativeMessagingBlocklist) forbids {{browser}} to start {HOST_NAME}. Ask your "
            "administrator to allow it"
        )
        yield _make_finding(FindingCode.POLICY_HOST_BLOCKED, browser, blocked, template)
    if blocked := _find_blocking(
        policies, "ExtensionInstallBlocklist", "ExtensionInstallAllowlist", EXTENSION_ID
    ):
        template = (
            "{file} (ExtensionInstallBlocklist) forbids the extension in {browser}. Ask your administrator "
            f"to allow {EXTENSION_ID}"
        )
        yield _make_finding(FindingCode.POLICY_EXTENSION_BLOCKED, browser, blocked, template)


def _find_blocking(policies: dict[str, Policy], blocklist: str, allowlist: str, name: str) -> Policy | None:
    """Return the list that forbids a name; an allow-list overrides it."""
    if name in _listed_names(policies.get(allowlist)):
        return None
    policy = policies.get(blocklist)
    return policy if {name, _ALL} & set(_listed_names(policy)) else None


def _listed_names(policy: Policy | None) -> list[str]:
    value = policy.value if policy else None
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _make_finding(
    code: FindingCode, browser: Browser, policy: Policy, template: str, command: Command | None = None
) -> Finding:
    title = public_value(browser.title)
    values = {"file": path_value(policy.file), "browser": title}
    return Finding(code=code, hop="browser", template=template, values=values, command=command, where=title)
