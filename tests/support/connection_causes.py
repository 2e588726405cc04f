"""Causes for which a browser cannot connect to the native host, each made, diagnosed and fixed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from demo.chromium import Page, open_chromium
from full_chain import EXTENSION, ROOT
from install.browsers import Kind
from install.host_manifest import CALLERS_KEY
from native_host.protocol.wire import EXTENSION_ID, HOST_NAME
from real_firefox import FirefoxPage, open_firefox

COMMANDS = Path(sys.executable).parent
"""Where `mcpb` is: the commands of the report are run as a person would."""
SHOWN_S = 60.0
NUDGE_S = 1.2
"""The extension passes over a nudge that comes within a second of its last attempt."""
CONNECTED_S = 60.0
WALK_S = 240.0
"""On a busy machine; on an idle one a browser needs less than a minute for all causes."""


class Row(NamedTuple):
    """What the browsers say; empty where a browser does not know the cause."""

    chromium: list[str]
    firefox: list[str]


def read_table() -> dict[str, Row]:
    """The causes of the table, by code."""
    lines = (ROOT / "docs/TROUBLESHOOTING.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| cause | Chromium says"))
    rows: dict[str, Row] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        _, _, chromium, firefox, code, _, _ = (cell.strip() for cell in line.split("|"))
        (name,) = _quoted(code)
        rows[name] = Row(_quoted(chromium), _quoted(firefox))
    return rows


def _quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


TABLE = read_table()


def is_said(reason: str, texts: Sequence[str]) -> bool:
    """Whether it is one of these texts; an ellipsis stands for anything."""
    return any(re.fullmatch(re.escape(text).replace("…", ".+"), reason) for text in texts)


class Report(NamedTuple):
    """What the doctor says of the browser on the stage."""

    browser: Any
    findings: list[Any]

    @property
    def faults(self) -> list[str]:
        return [finding["code"] for finding in self.findings if finding["level"] == "fault"]

    @property
    def reason(self) -> str:
        """The words with which the browser last refused the extension, which is connected now."""
        (seen,) = self.browser["seen"]
        return str(seen["trouble"]["reason"])


@dataclass
class Stage:
    """A person's home with one browser in it, and mcpb."""

    home: Path
    browser: Kind
    """The row of the table of browsers, and the column of ours."""
    titled: str
    """How its title in the report ends."""
    folder: str
    """Of the manifests."""
    open_popup: Callable[[], Awaitable[Page | FirefoxPage]] = field(init=False)
    restart_extension: Callable[[], Awaitable[Any]] = field(init=False)

    @property
    def manifest(self) -> Path:
        return self.home / self.folder / f"{HOST_NAME}.json"

    @property
    def wrapper(self) -> Path:
        return self.home / "mcpb/bin/mcpb-native-host"

    @property
    def env(self) -> dict[str, str]:
        path = f"{COMMANDS}{os.pathsep}{os.environ['PATH']}"
        return {"HOME": str(self.home), "MCPB_HOME": str(self.home / "mcpb"), "PATH": path}

    async def doctor(self) -> Report:
        """`mcpb doctor --json`, without what it says of other browsers that happen to run on this machine."""
        done = await trio.run_process(
            ["mcpb", "doctor", "--json"], env=self.env, capture_stdout=True, check=False
        )
        report = json.loads(done.stdout)
        assert done.returncode == (0 if report["healthy"] else 1)
        (browser,) = [one for one in report["browsers"] if one["title"].endswith(self.titled)]
        its = [finding for finding in report["findings"] if finding["where"] in ("", browser["title"])]
        return Report(browser, its)

    async def run(self, command: str) -> None:
        """A command of a report, as it stands there, and yes to its question."""
        await trio.run_process(["sh", "-c", f"{command} --yes"], env=self.env, capture_stdout=True)

    async def fail_to_connect(self) -> None:
        """The extension starts again, and the browser refuses it."""
        await self.restart_extension()
        with trio.fail_after(SHOWN_S):
            popup = await self.open_popup()
            await popup.wait_until(
                "document.getElementById('state').textContent === 'Not connected'", SHOWN_S
            )
            await popup.close()

    async def connect(self) -> None:
        """The person opens the popup, until it is there."""
        with trio.fail_after(CONNECTED_S):
            while not await self._is_connected():
                pass

    async def _is_connected(self) -> bool:
        popup = await self.open_popup()
        try:
            await popup.wait_until(
                "document.getElementById('state').textContent.startsWith('Connected')", NUDGE_S
            )
        except trio.TooSlowError:
            return False
        finally:
            await popup.close()
        return True

    def edit_manifest(self, **changes: Any) -> None:
        """As somebody would by hand."""
        manifest = json.loads(self.manifest.read_text())
        self.manifest.write_text(json.dumps({**manifest, **changes}))

    def edit_wrapper(self, first: str = "#!/bin/sh", fourth: str = "") -> None:
        """Another first line, or one more after the third: the second and third say whose it is."""
        _, second, third, *rest = self.wrapper.read_text().split("\n")
        self.wrapper.write_text("\n".join([first, second, third, fourth, *rest]))


@asynccontextmanager
async def chromium_stage(home: Path, user_data_dir: str = ".config/chromium") -> AsyncIterator[Stage]:
    """With our extension, not registered."""
    usual = ".config/chromium"
    titled = "Chromium" if user_data_dir == usual else str(home / user_data_dir)
    stage = Stage(home, "chromium", titled, f"{usual}/NativeMessagingHosts")
    (home / usual).mkdir(parents=True)
    env = {"HOME": str(home), "TMPDIR": str(home)}
    async with open_chromium(home / user_data_dir, env=env) as browser:
        stage.restart_extension = lambda: browser.load_extension(EXTENSION)
        stage.open_popup = lambda: browser.open_page(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
        yield stage


@asynccontextmanager
async def firefox_stage(home: Path) -> AsyncIterator[Stage]:
    """With our extension, not registered. Its profile is not where Firefox has its profiles."""
    stage = Stage(home, "firefox", "Firefox", ".mozilla/native-messaging-hosts")
    (home / ".mozilla").mkdir()
    await trio.run_process(["mcpb", "extension", "--firefox"], env=stage.env, capture_stdout=True)
    async with open_firefox(home, env={"TMPDIR": str(home)}) as browser:
        stage.restart_extension = lambda: browser.load_extension(home / "mcpb/extension-firefox")
        stage.open_popup = lambda: browser.open_extension_page("popup/popup.html")
        yield stage


@dataclass(frozen=True)
class Cause:
    """One row of the table."""

    code: str
    make: Callable[[Stage], None]


def nothing_is_registered(stage: Stage) -> None:
    assert not stage.manifest.exists()


def broken_json(stage: Stage) -> None:
    stage.manifest.write_text('{"name": "dev.mcpb.nat')


def no_program(stage: Stage) -> None:
    stage.wrapper.unlink()


def not_executable(stage: Stage) -> None:
    stage.wrapper.chmod(0o600)


def other_extension(stage: Stage) -> None:
    others = {"chromium": f"chrome-extension://{'a' * 32}/", "firefox": "somebody@else.example"}
    stage.edit_manifest(**{CALLERS_KEY[stage.browser]: [others[stage.browser]]})


def misspelt_extension(stage: Stage) -> None:
    misspelt = {"chromium": "chrome-extension://*/", "firefox": "not an id"}
    key = CALLERS_KEY[stage.browser]
    listed = json.loads(stage.manifest.read_text())[key]
    stage.edit_manifest(**{key: [*listed, misspelt[stage.browser]]})


def python_is_gone(stage: Stage) -> None:
    """Registered from an environment that an upgrade has thrown away."""
    old = stage.home / "old"
    (old / "bin").mkdir(parents=True)
    ours = Path(sys.prefix)
    shutil.copy(ours / "pyvenv.cfg", old)
    (old / "lib").symlink_to(ours / "lib")
    (old / "bin/python").symlink_to(Path(sys.executable).resolve())
    install = [
        str(old / "bin/python"),
        "-m",
        "bridge",
        "install-native-host",
        "--browser",
        stage.browser,
        "--yes",
    ]
    subprocess.run(install, env=stage.env, cwd=ROOT, check=True, capture_output=True, timeout=30)
    shutil.rmtree(old)


CAUSES = (
    Cause("manifest-missing", nothing_is_registered),
    Cause("manifest-not-json", broken_json),
    Cause("manifest-name", lambda stage: stage.edit_manifest(name="dev.mcpb.other")),
    Cause("manifest-relative-path", lambda stage: stage.edit_manifest(path="bin/mcpb-native-host")),
    Cause("origin-missing", other_extension),
    Cause("origin-malformed", misspelt_extension),
    Cause("program-missing", no_program),
    Cause("program-not-executable", not_executable),
    Cause("program-shebang", lambda stage: stage.edit_wrapper(first="#!/nonexistent/sh")),
    Cause("host-prints", lambda stage: stage.edit_wrapper(fourth="echo Welcome back")),
    Cause("host-exits", lambda stage: stage.edit_wrapper(fourth="exit 3")),
    Cause("interpreter-gone", python_is_gone),
)
WITH_A_TEST_OF_THEIR_OWN = {"manifest-shadows", "user-data-dir"}


@contextmanager
def for_all_users(stage: Stage, folder: str) -> Iterator[None]:
    """The manifest of the person stands in the folder for all users as well. Only root can do that."""
    if os.geteuid():
        pytest.skip("only root can write manifests for all users")
    place = Path(folder) / f"{HOST_NAME}.json"
    if place.exists():
        pytest.skip(f"mcpb is registered for all users of this machine: {place}")
    made = [path for path in (place.parent, place.parent.parent) if not path.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(stage.manifest, place)
    try:
        yield
    finally:
        place.unlink()
        for path in made:
            path.rmdir()


async def meet(stage: Stage, cause: Cause) -> None:
    """From the cause to the cure."""
    cause.make(stage)
    await stage.fail_to_connect()
    broken = await stage.doctor()
    assert broken.faults[:1] == [cause.code], broken
    await stage.run(broken.findings[0]["command"])
    await stage.connect()
    mended = await stage.doctor()
    assert (mended.faults, mended.browser["state"]) == ([], "works"), (cause, mended)
    texts = TABLE[cause.code]
    assert is_said(mended.reason, getattr(texts, stage.browser)), (cause, mended.reason)
