"""The browsers we know, and where a host manifest goes. The table is manifests/browsers.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from native_host.wire import EXTENSION_ID, HOST_NAME

MANIFESTS_DIRECTORY = "NativeMessagingHosts"
"""In a user data directory. Never inside one profile: a manifest serves all profiles of the directory."""


class Browser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the table."""

    name: str
    title: str
    linux: str
    evidence: str


@dataclass(frozen=True)
class Target:
    """A user data directory in which the host is to be registered, or is."""

    title: str
    user_data_dir: Path

    @property
    def manifest(self) -> Path:
        """The browser reads exactly this file."""
        return self.user_data_dir / MANIFESTS_DIRECTORY / f"{HOST_NAME}.json"


@cache
def known_browsers() -> tuple[Browser, ...]:
    """All rows."""
    rows = tomllib.loads((resources.files("manifests") / "browsers.toml").read_text())["browser"]
    return msgspec.convert(rows, tuple[Browser, ...])


def default_target(browser: Browser, environ: Mapping[str, str], user_home: Path) -> Target:
    """Where a browser keeps its data unless it is started with `--user-data-dir`."""
    chosen = environ.get("CHROME_CONFIG_HOME") or environ.get("XDG_CONFIG_HOME")
    config = Path(chosen) if chosen else user_home / ".config"
    return Target(browser.title, config / browser.linux)


def origin(extension_id: str) -> str:
    """As browsers write it: with the slash, without which the whole manifest is invalid."""
    return f"chrome-extension://{extension_id}/"


def is_origin(item: object) -> bool:
    """Whether a browser accepts it; one malformed entry makes the whole manifest invalid."""
    return isinstance(item, str) and _ORIGIN.fullmatch(item) is not None


_ORIGIN = re.compile(r"chrome-extension://[a-p]{32}/")
OUR_ORIGIN = origin(EXTENSION_ID)


def manifest_text(wrapper: Path, origins: tuple[str, ...]) -> str:
    """The host manifest: `origins` may start `wrapper`."""
    template = (resources.files("manifests") / "chromium.json").read_text()
    manifest = {**msgspec.json.decode(template), "path": str(wrapper), "allowed_origins": list(origins)}
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2).decode() + "\n"
