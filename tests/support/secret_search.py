"""Search for secrets in all that a run of the whole chain wrote, printed, displayed and stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from demo.chromium import Chromium, Page
from popup_states import worker_of

SHOWN_CHARS = 8
"""Characters that are found by chance in no other text."""

_CONTENT = "[document.documentElement.outerHTML, {...localStorage}, {...sessionStorage}, document.cookie]"
_STORED = "Promise.all([chrome.storage.local.get(), chrome.storage.session.get()])"


class Evidence:
    """All that a run wrote, printed and showed, by where."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, where: str, found: Any) -> None:
        """Add a text or a JSON value."""
        self.texts[where] = found if isinstance(found, str) else json.dumps(found)

    def add_command_lines(self, when: str) -> None:
        """Add the command lines of all processes."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.add(f"{path}, {when}", path.read_bytes().decode(errors="replace"))
            except OSError:  # it has ended
                continue

    def add_files(self, directory: Path, when: str) -> None:
        """Add all files below a directory."""
        for path in directory.rglob("*"):
            if not path.is_file():
                continue
            try:
                self.add(f"{path}, {when}", path.read_bytes().decode("latin-1"))
            except FileNotFoundError:  # a browser that runs replaces its own
                continue

    async def add_pages(self, pages: Iterable[Page], when: str) -> None:
        """Add what pages contain and store."""
        for page in pages:
            self.add(f"page {page.target_id}, {when}", await page.evaluate(_CONTENT))

    async def add_extension_storage(self, chromium: Chromium) -> None:
        """Add what the extension stores."""
        worker = await worker_of(chromium)
        self.add("storage of the extension", await worker.evaluate(_STORED))

    def find(self, secrets: Iterable[str]) -> list[str]:
        """Return where the beginning of a secret is: it may have been cut."""
        beginnings = {secret[:SHOWN_CHARS] for secret in secrets}
        return [where for where, text in self.texts.items() if any(each in text for each in beginnings)]
