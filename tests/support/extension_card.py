"""The extensions page of Chromium: what it says of our extension, in developer mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from demo.chromium import Chromium, Page
from native_host.protocol.wire import EXTENSION_ID

PAGE = "chrome://extensions"


class ExtensionCard:
    """Card of the extension; made by `open_card`. The page itself is left open behind others."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def read(self) -> dict[str, Any]:
        """What the page knows of the extension: `chrome.developerPrivate.ExtensionInfo`."""
        info: dict[str, Any] = await self.page.evaluate(
            f"chrome.developerPrivate.getExtensionInfo({EXTENSION_ID!r})"
        )
        return info

    async def errors(self) -> list[str]:
        """What its red button "Errors" would list."""
        info = await self.read()
        return [error["message"] for error in (*info["manifestErrors"], *info["runtimeErrors"])]

    async def version(self) -> str:
        """The version that runs, with its name if it has one."""
        return str((await self.read())["version"])

    async def switch(self, *, is_on: bool) -> None:
        """Enable or disable the extension."""
        await self.page.evaluate(f"chrome.management.setEnabled({EXTENSION_ID!r}, {json.dumps(is_on)})")

    async def pin(self) -> None:
        """Show the icon in the toolbar."""
        change = f"{{extensionId: {EXTENSION_ID!r}, pinnedToToolbar: true}}"
        await self.page.evaluate(
            f"chrome.developerPrivate.updateExtensionConfiguration({change}).then(() => 0)"
        )


def switch_on_developer_mode(profile: Path) -> None:
    """Write the setting into a new profile: errors are kept, and a reload does not disable the extension."""
    settings = profile / "Default/Preferences"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"extensions": {"ui": {"developer_mode": True}}}))


def install_extension(profile: Path, directory: Path) -> None:
    """Write an unpacked extension into a new profile, as if its user had loaded it."""
    manifest = json.loads((directory / "manifest.json").read_bytes())
    hosts = manifest["host_permissions"]
    granted = {"api": manifest["permissions"], "explicit_host": hosts, "scriptable_host": hosts}
    unpacked, enabled = 4, 1
    entry = {
        "location": unpacked,
        "path": str(directory),
        "state": enabled,
        "active_permissions": granted,
        "granted_permissions": granted,
    }
    switch_on_developer_mode(profile)
    settings = profile / "Default/Secure Preferences"
    settings.write_text(json.dumps({"extensions": {"settings": {EXTENSION_ID: entry}}}))


async def open_card(browser: Chromium) -> ExtensionCard:
    """Open the page. It needs a profile in developer mode."""
    return ExtensionCard(await browser.open_page(PAGE))
