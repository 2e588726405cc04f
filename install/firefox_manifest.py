"""The extension's manifest for Firefox, made from the one for Chromium: the files beside it are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from native_host.protocol.wire import FIREFOX_ID

OLDEST = "140.0"
"""The oldest version that Mozilla still supports; tab groups came with 139."""
_UNKNOWN = ("key", "minimum_chrome_version", "storage")
"""Firefox takes the id from its own member, and a schema of an administrator's settings from nowhere."""
_NOT_FOR_ADD_ONS = "debugger"
"""Firefox has no such permission: there the extension does not name its commands among its capabilities."""


def firefox_manifest(chromium: Mapping[str, Any]) -> dict[str, Any]:
    """What Firefox reads without a warning (tried in Firefox 140)."""
    manifest = {name: member for name, member in chromium.items() if name not in _UNKNOWN}
    manifest["permissions"] = [name for name in chromium["permissions"] if name != _NOT_FOR_ADD_ONS]
    worker = chromium["background"]["service_worker"]
    manifest["background"] = {"scripts": [worker], "type": "module"}
    manifest["browser_specific_settings"] = {"gecko": _gecko()}
    return manifest


def _gecko() -> dict[str, Any]:
    # Mozilla counts what goes to a program of the same machine as transmitted.
    told = ["browsingActivity", "websiteContent"]
    return {
        "id": FIREFOX_ID,
        "strict_min_version": OLDEST,
        "data_collection_permissions": {"required": told},
    }
