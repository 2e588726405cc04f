"""Chromium with a temporary profile, driven over a DevTools pipe, without a driver program or a port.

The browser ends when the pipe closes, by `close` or because this process died.

    async with open_chromium(profile) as chromium:
        await chromium.load_extension(extension)
        page = await chromium.open_page("http://127.0.0.1:8123/shop.html")
        print(await page.evaluate("document.title"))
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from demo.devtools import BrowserGoneError, DevTools, DevToolsError, Params
from native_host.protocol.untrusted_text import single_line
from native_host.system.untrusted_files import whole

EXECUTABLES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "microsoft-edge-stable",
    "brave-browser",
    "brave",
    "vivaldi",
    "vivaldi-stable",
    # macOS puts no browser on PATH.
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "/Applications/Brave Browser.app/Contents/MacOS/Brave Browser",
)
START_SECONDS = 60.0
LOAD_SECONDS = 45.0
END_SECONDS = 10.0
"""After the pipe is closed; Chromium needs about 0.1 s. Then it is killed."""
POLL_SECONDS = 0.02
SERVER_ERROR = -32000
"""Code of a script whose page is left before it ends."""

HEADLESS = "--headless=new"
FLAGS = (
    "--remote-debugging-pipe",
    "--enable-unsafe-extension-debugging",  # Extensions.loadUnpacked, where it is not allowed anyway
    "--no-first-run",
    "--no-default-browser-check",
    "--password-store=basic",  # asks no keyring
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers have a small one
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
)
# The pipe is given as stdin and stdout and moved to where the browser expects it; the pid stays.
MOVE_PIPE = 'exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null'


class ChromiumError(Exception):
    """The browser did not start, or a page could not be loaded; the text says what to look at."""


class ScriptError(Exception):
    """A script in a page threw; the text is the page's."""


def find_chromium() -> Path | None:
    """Return the browser: that of `MCPB_CHROMIUM` (empty: none), else the first of EXECUTABLES on PATH.

    Raises:
        ChromiumError: `MCPB_CHROMIUM` names no program.
    """
    chosen = os.environ.get("MCPB_CHROMIUM")
    if chosen == "":
        return None
    if chosen is not None:
        if found := shutil.which(chosen):
            return Path(found)
        raise ChromiumError(f"MCPB_CHROMIUM is {chosen}, which is no program: correct it or unset it")
    return next((Path(found) for name in EXECUTABLES if (found := shutil.which(name))), None)


class Page:
    """An attached page (or worker: `Chromium.attach`)."""

    def __init__(self, devtools: DevTools, target_id: str, session: str) -> None:
        self.target_id = target_id
        self.session = session
        self._devtools = devtools

    async def send(
        self, method: str, params: Params | None = None, timeout_s: float = LOAD_SECONDS
    ) -> Params:
        """Send a DevTools command to this page: `DevTools.send`."""
        return await self._devtools.send(method, params, self.session, timeout_s)

    async def load(self, url: str, timeout_s: float = LOAD_SECONDS) -> None:
        """Go to a URL; returns after the page's load event.

        Raises:
            ChromiumError: it cannot be loaded.
            trio.TooSlowError: not loaded within `timeout_s`.
        """
        await self.send("Page.enable")
        await self.send("Page.setLifecycleEventsEnabled", {"enabled": True})
        with trio.fail_after(timeout_s), self._devtools.listen("Page.lifecycleEvent", self.session) as events:
            answer = await self.send("Page.navigate", {"url": url}, timeout_s)
            if error := answer.get("errorText"):
                raise ChromiumError(f"{url} cannot be loaded: {error}")
            if "loaderId" not in answer:  # only the fragment of the URL changed
                return
            # The document that was there before may still report its own load event.
            loaded = {"frameId": answer["frameId"], "loaderId": answer["loaderId"], "name": "load"}
            while not loaded.items() <= (await events.next()).items():
                pass

    async def evaluate(self, expression: str, timeout_s: float = LOAD_SECONDS) -> Any:
        """Return the JSON value of an expression; promises are awaited.

        Raises:
            ScriptError: it threw.
        """
        params = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = await self.send("Runtime.evaluate", params, timeout_s)
        if details := answer.get("exceptionDetails"):
            raise ScriptError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    async def wait_until(self, expression: str, timeout_s: float = LOAD_SECONDS) -> Any:
        """Wait until an expression is true in the page, also while the page changes; return its value.

        Raises:
            trio.TooSlowError: not within `timeout_s`.
        """
        with trio.fail_after(timeout_s):
            while True:
                try:
                    if value := await self.evaluate(expression, timeout_s):
                        return value
                except DevToolsError as error:
                    if error.code != SERVER_ERROR:
                        raise
                await trio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """Close the tab; it is gone when this returns."""
        with trio.fail_after(LOAD_SECONDS), self._devtools.listen("Target.detachedFromTarget") as detached:
            await self._devtools.send("Target.closeTarget", {"targetId": self.target_id})
            while (await detached.next())["sessionId"] != self.session:
                pass


class Chromium:
    """A running browser; made by `open_chromium`."""

    def __init__(self, process: trio.Process, devtools: DevTools, version: str) -> None:
        self.process = process
        self.devtools = devtools
        self.version = version
        """Brand and version, such as `Chrome/156.0.8078.79`."""

    async def send(
        self, method: str, params: Params | None = None, session: str = "", timeout_s: float = LOAD_SECONDS
    ) -> Params:
        """Send a DevTools command: `DevTools.send`."""
        return await self.devtools.send(method, params, session, timeout_s)

    async def load_extension(self, directory: Path) -> str:
        """Load an unpacked extension; returns its id. Loading it again restarts it.

        Raises:
            DevToolsError: the browser refuses it, and says why.
        """
        answer = await self.send(
            "Extensions.loadUnpacked", {"path": str(await trio.Path(directory).resolve())}
        )
        extension_id: str = answer["id"]
        return extension_id

    async def open_page(self, url: str, timeout_s: float = LOAD_SECONDS) -> Page:
        """Open a tab with a loaded page: `Page.load`."""
        created = await self.send("Target.createTarget", {"url": "about:blank"})
        page = await self.attach(created["targetId"])
        try:
            await page.load(url, timeout_s)
        except (ChromiumError, trio.TooSlowError):
            await page.close()
            raise
        return page

    async def targets(self, kind: str = "page") -> list[Params]:
        """Return the TargetInfo objects of a type: `page`, `service_worker`, ..."""
        answer = await self.send("Target.getTargets")
        return [target for target in answer["targetInfos"] if target["type"] == kind]

    async def attach(self, target_id: str) -> Page:
        """Attach to a tab or worker. A worker that is attached to is never stopped by the browser."""
        answer = await self.send("Target.attachToTarget", {"targetId": target_id, "flatten": True})
        return Page(self.devtools, target_id, answer["sessionId"])

    async def stop_workers(self) -> None:
        """Stop all service workers, as the browser does after 30 idle seconds."""
        page = await self.attach((await self.targets())[0]["targetId"])
        await page.send("ServiceWorker.enable")
        await page.send("ServiceWorker.stopAllWorkers")
        await self.send("Target.detachFromTarget", {"sessionId": page.session})

    async def close(self) -> None:
        """End the browser and see it end."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with trio.move_on_after(END_SECONDS):
            await self.process.wait()
            return
        await self.kill()

    async def kill(self) -> None:
        """SIGKILL the browser's main process; the others see that and follow."""
        self.process.kill()
        await self.process.wait()


def _set_first_tab_id(profile: Path) -> None:
    """Let a new browser count its tabs from a large number.

    Chromium takes a random number: one browser in a thousand counts from less than `FIRST_TAB_ID`. Ids below
    that are not accepted from clients, because they could be numbers of tabs.
    """
    state = profile / "Local State"
    if not state.exists():
        profile.mkdir(parents=True, exist_ok=True)
        first = 1_000_000 + secrets.randbelow(1_000_000_000)
        state.write_text(f'{{"session_id_generator_last_value": "{first}"}}')


@asynccontextmanager
async def open_chromium(
    profile: Path,
    flags: Sequence[str] = (),
    *,
    is_headless: bool = True,
    executable: Path | None = None,
    env: Mapping[str, str] | None = None,
    stderr: int = subprocess.DEVNULL,
) -> AsyncIterator[Chromium]:
    """Start a browser on a profile directory, and end it. The profile is its HOME too: it writes only there.

    Raises:
        ChromiumError: none was found, or it ended at once.
    """
    executable = executable or find_chromium()
    if executable is None:
        raise ChromiumError("no Chromium was found: install one (apt install chromium) or set MCPB_CHROMIUM")
    _set_first_tab_id(profile)
    process = await trio.lowlevel.open_process(
        [
            "/bin/sh",
            "-c",
            MOVE_PIPE,
            str(executable),
            *([HEADLESS] if is_headless else []),
            *FLAGS,
            *_sandbox(),
            f"--user-data-dir={profile}",
            *flags,
            "about:blank",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,  # a Ctrl-C in our terminal is ours: the closing pipe tells the browser
        env={**_environment(profile), **(env or {})},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    devtools = DevTools(process.stdin, process.stdout)
    chromium = Chromium(process, devtools, "")
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(devtools.read_forever)
            nursery.start_soon(devtools.write_forever)
            chromium.version = await _first_answer(devtools, executable)
            yield chromium
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):  # bounded by END_SECONDS
            await chromium.close()
            await process.stdout.aclose()


async def _first_answer(devtools: DevTools, executable: Path) -> str:
    try:
        answer = await devtools.send("Browser.getVersion", timeout_s=START_SECONDS)
    except (BrowserGoneError, trio.TooSlowError):
        raise ChromiumError(
            f"{executable} did not start: run it by hand with --headless=new --dump-dom about:blank"
        ) from None
    version: str = answer["product"]
    return version


_FATAL = re.compile(r"^\[[^\]]*:FATAL:[^\]]*\] *(.+)$", re.MULTILINE)
"""Line of Chromium's log that ends it."""
_MOST_LOG_BYTES = 1024 * 1024
_MOST_REASON_CHARS = 300


def startup_failure(log: Path) -> str:
    """Return Chromium's own reason from its stderr, such as `No usable sandbox!…`; empty without one."""
    text = (whole(log, _MOST_LOG_BYTES) or b"").decode(errors="replace")
    return single_line(found[1], _MOST_REASON_CHARS) if (found := _FATAL.search(text)) else ""


def _sandbox() -> Sequence[str]:
    """Chromium refuses to run as root with its sandbox."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []


def _environment(profile: Path) -> dict[str, str]:
    """Return the environment without variables that lead to the user's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return {**kept, "HOME": str(profile)}
