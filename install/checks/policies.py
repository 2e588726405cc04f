"""What an administrator's policies forbid: native hosts of users, our host, our extension. Only read.

Chromium on Linux reads all JSON files of a folder, in the order of their names; on macOS a property list.
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
from install.findings import Finding, installing
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
    """That says it."""


def managed_policies(browser: Browser, machine: Machine) -> dict[str, Policy]:
    """By name; of several files the last one counts. Empty where the browser's place for them is unknown."""
    return {
        name: Policy(value, file)
        for file in _files(browser.name.partition("-")[0], machine)
        for name, value in _read(file).items()
    }


def _files(family: str, machine: Machine) -> list[Path]:
    if machine.system == "macos":
        folder = machine.root / "Library/Managed Preferences"
        return [folder / f"{_MACOS[family]}.plist"] if family in _MACOS else []
    if family not in _LINUX:
        return []
    return [path for path in entries(machine.root / _LINUX[family]) if path.suffix == ".json"]


def _read(file: Path) -> dict[str, Any]:
    return _decoded(head(file, LARGEST_BYTES) or b"", is_plist=file.suffix == ".plist")


def _decoded(content: bytes, *, is_plist: bool) -> dict[str, Any]:
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
    """What of it stops us: policy-user-hosts, policy-host-blocked, policy-extension-blocked.

    `has_system_manifest`: ours is registered for all users, and so need not be in this user's folder.
    """
    return list(_findings(browser, policies, has_system_manifest=has_system_manifest))


def _findings(
    browser: Browser, policies: dict[str, Policy], *, has_system_manifest: bool
) -> Iterator[Finding]:
    user_hosts = policies.get("NativeMessagingUserLevelHosts")
    if user_hosts and user_hosts.value is False and not has_system_manifest:
        said = f"{user_hosts.file} (NativeMessagingUserLevelHosts)"
        text = f"{said} lets {browser.title} start only what is for all users"
        command = installing("--system", "--browser", browser.name, as_root=True)
        yield _finding("policy-user-hosts", browser, text, command)
    if blocked := _blocking(policies, "NativeMessagingBlocklist", "NativeMessagingAllowlist", HOST_NAME):
        text = f"{blocked.file} (NativeMessagingBlocklist) forbids {browser.title} to start {HOST_NAME}"
        yield _finding("policy-host-blocked", browser, f"{text}. Ask your administrator to allow it")
    if blocked := _blocking(policies, "ExtensionInstallBlocklist", "ExtensionInstallAllowlist", EXTENSION_ID):
        text = f"{blocked.file} (ExtensionInstallBlocklist) forbids the extension in {browser.title}"
        yield _finding(
            "policy-extension-blocked", browser, f"{text}. Ask your administrator to allow {EXTENSION_ID}"
        )


def _blocking(policies: dict[str, Policy], blocklist: str, allowlist: str, name: str) -> Policy | None:
    """The list that forbids a name; an allow-list stands above it."""
    if name in _listed(policies.get(allowlist)):
        return None
    policy = policies.get(blocklist)
    return policy if {name, _ALL} & set(_listed(policy)) else None


def _listed(policy: Policy | None) -> list[str]:
    value = policy.value if policy else None
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _finding(code: str, browser: Browser, text: str, command: str = "") -> Finding:
    return Finding(code=code, hop="browser", text=text, command=command, where=browser.title)
