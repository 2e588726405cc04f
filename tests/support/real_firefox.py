"""A Firefox with a throw-away home and profile, driven over Marionette. No driver program.

Marionette listens on a port of this machine that Firefox chooses. It has one conversation, and in it one
current tab: each command to a page first makes that page's tab the current one.

    async with open_firefox(home) as firefox:
        await firefox.load_extension(directory)
        page = await firefox.open_page("http://127.0.0.1:8123/shop.html")
        print(await page.evaluate("document.title"))
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio

from demo.chromium import ScriptError
from native_host.protocol.wire import FIREFOX_ID

EXECUTABLES = ("firefox-esr", "firefox", "firefox-developer-edition", "librewolf", "waterfox")
START_SECONDS = 120.0
"""A first start on a busy machine; on an idle one it takes 1 to 2 s."""
LOAD_SECONDS = 60.0
END_SECONDS = 30.0
"""After it was asked to quit; then it is killed."""
POLL_SECONDS = 0.02
READ_BYTES = 65536
ACTIVE_PORT = "MarionetteActivePort"

COMPILED = ("compatibility.ini", "startupCache")
"""For which Firefox a profile is, and what its own scripts were compiled to at the first start with it."""
_compiled: dict[str, bytes] = {}
"""Those of the first browser that ended in peace, for the new profiles of later ones: a third less to do."""

EXTENSION_HOST = "6bd0f4d4-7e3a-4c5e-9d1e-8a54a9d3c001"
"""In the addresses of our extension's pages. Without it Firefox makes one up for each profile."""
Preference = bool | int | str
PREFERENCES: Mapping[str, Preference] = {
    "marionette.port": 0,  # any that is free; it writes which into its profile
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "extensions.webextensions.uuids": json.dumps({FIREFOX_ID: EXTENSION_HOST}),
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}


class FirefoxError(Exception):
    """The browser did not start, or refused a command; the text says what."""


class FirefoxGoneError(Exception):
    """The connection has ended, and the browser with it."""


def find_firefox() -> Path | None:
    """The browser to use: what `MCPB_FIREFOX` names (empty: none), else the first of EXECUTABLES on PATH.

    Raises:
        FirefoxError: `MCPB_FIREFOX` names no program.
    """
    chosen = os.environ.get("MCPB_FIREFOX")
    if chosen == "":
        return None
    if chosen is not None:
        if found := shutil.which(chosen):
            return Path(found)
        raise FirefoxError(f"MCPB_FIREFOX is {chosen}, which is no program: correct it or unset it")
    return next((Path(found) for name in EXECUTABLES if (found := shutil.which(name))), None)


class Marionette:
    """The conversation: `<length>:<JSON>` each way, one command at a time."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._turn = trio.Lock()
        self._buffer = b""
        self._number = 0

    async def greeted(self) -> None:
        """Read what it says first."""
        await self._next()

    async def send(self, *commands: tuple[str, dict[str, Any]], timeout_s: float = LOAD_SECONDS) -> Any:
        """The answer to the last of some commands that follow one another undisturbed.

        Raises:
            FirefoxError: the browser refused one; the text is its own.
            ScriptError: a script threw.
            FirefoxGoneError: the browser ended before it answered.
            trio.TooSlowError: no answer within `timeout_s`.
        """
        answer: Any = None
        with trio.fail_after(timeout_s):
            async with self._turn:
                for name, params in commands:
                    answer = await self._ask(name, params)
        return answer

    async def _ask(self, name: str, params: dict[str, Any]) -> Any:
        self._number += 1
        body = json.dumps([0, self._number, name, params]).encode()
        try:
            await self._stream.send_all(b"%d:%s" % (len(body), body))
        except trio.BrokenResourceError:
            raise FirefoxGoneError(f"{name}: the browser has ended") from None
        while (answer := await self._next())[1] != self._number:
            pass  # to a command that nobody waited for any longer
        _, _, error, result = answer
        if error:
            kind = ScriptError if error["error"] == "javascript error" else FirefoxError
            raise kind(f"{error['error']}: {error['message']}")
        return result

    async def _next(self) -> Any:
        while b":" not in self._buffer:
            await self._read()
        length, _, _ = self._buffer.partition(b":")
        end = len(length) + 1 + int(length)
        while len(self._buffer) < end:
            await self._read()
        body, self._buffer = self._buffer[len(length) + 1 : end], self._buffer[end:]
        return json.loads(body)

    async def _read(self) -> None:
        try:
            data = await self._stream.receive_some(READ_BYTES)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise FirefoxGoneError("the browser ended before it answered")
        self._buffer += data


class FirefoxPage:
    """A tab."""

    def __init__(self, marionette: Marionette, handle: str) -> None:
        self.handle = handle
        self._marionette = marionette

    async def send(self, name: str, params: dict[str, Any], timeout_s: float = LOAD_SECONDS) -> Any:
        """A Marionette command with this tab as the current one: `Marionette.send`."""
        switch = ("WebDriver:SwitchToWindow", {"handle": self.handle, "focus": False})
        return await self._marionette.send(switch, (name, params), timeout_s=timeout_s)

    async def load(self, url: str, timeout_s: float = LOAD_SECONDS) -> None:
        """Go to a URL; returns after the page's load event.

        Raises:
            FirefoxError: it cannot be loaded.
            trio.TooSlowError: not loaded within `timeout_s`.
        """
        await self.send("WebDriver:Navigate", {"url": url}, timeout_s)

    async def evaluate(self, expression: str, timeout_s: float = LOAD_SECONDS) -> Any:
        """The JSON value of an expression; a promise is waited for.

        Raises:
            ScriptError: it threw.
        """
        params = {"script": f"return ({expression});", "args": []}
        return (await self.send("WebDriver:ExecuteScript", params, timeout_s))["value"]

    async def wait_until(self, expression: str, timeout_s: float = LOAD_SECONDS) -> Any:
        """Until an expression is true in the page; returns its value.

        Raises:
            trio.TooSlowError: not within `timeout_s`.
        """
        with trio.fail_after(timeout_s):
            while not (value := await self.evaluate(expression, timeout_s)):  # noqa: ASYNC110 - no event tells
                await trio.sleep(POLL_SECONDS)
        return value

    async def click(self, selector: str) -> None:
        """Click on the first element that a CSS selector finds, as a person does."""
        found = await self.send("WebDriver:FindElement", {"using": "css selector", "value": selector})
        (element,) = found["value"].values()
        await self.send("WebDriver:ElementClick", {"id": element})

    async def show(self) -> None:
        """Bring the tab to the front, as a person does."""
        await self._marionette.send(("WebDriver:SwitchToWindow", {"handle": self.handle, "focus": True}))

    async def close(self) -> None:
        """Close the tab."""
        await self.send("WebDriver:CloseWindow", {})


class Firefox:
    """A running browser; made by `open_firefox`."""

    def __init__(self, process: trio.Process, marionette: Marionette, version: str) -> None:
        self.process = process
        self.version = version
        """Such as `140.12.0`."""
        self._marionette = marionette

    async def load_extension(self, path: Path) -> str:
        """Load an extension's directory or zip as a temporary add-on; returns its id. Again restarts it.

        Raises:
            FirefoxError: the browser refuses it, and says why.
        """
        add_on = {"path": str(await trio.Path(path).resolve()), "temporary": True}
        answer = await self._marionette.send(("Addon:Install", add_on))
        extension_id: str = answer["value"]
        return extension_id

    async def remove_extension(self, extension_id: str) -> None:
        """Take it away again; its native host ends."""
        await self._marionette.send(("Addon:Uninstall", {"id": extension_id}))

    async def open_page(self, url: str, timeout_s: float = LOAD_SECONDS) -> FirefoxPage:
        """A new tab with a loaded page: `FirefoxPage.load`."""
        # The current tab may have been closed: the first one is always there.
        first = ("WebDriver:SwitchToWindow", {"handle": (await self.pages())[0], "focus": False})
        opened = await self._marionette.send(first, ("WebDriver:NewWindow", {"type": "tab", "focus": True}))
        page = FirefoxPage(self._marionette, opened["handle"])
        try:
            await page.load(url, timeout_s)
        except (FirefoxError, trio.TooSlowError):
            await page.close()
            raise
        return page

    def attach(self, handle: str) -> FirefoxPage:
        """A tab or window that is there already."""
        return FirefoxPage(self._marionette, handle)

    async def open_extension_page(self, path: str) -> FirefoxPage:
        """A page of our extension in a new tab, such as `popup/popup.html`."""
        return await self.open_page(f"moz-extension://{EXTENSION_HOST}/{path}")

    async def pages(self) -> list[str]:
        """The handles of all tabs."""
        handles: list[str] = await self._marionette.send(("WebDriver:GetWindowHandles", {}))
        return handles

    async def close(self) -> None:
        """End the browser and see it end."""
        with trio.move_on_after(END_SECONDS):
            with suppress(FirefoxError, FirefoxGoneError, trio.TooSlowError):
                await self._marionette.send(("Marionette:Quit", {"flags": ["eForceQuit"]}))
            await self.process.wait()
            return
        await self.kill()

    async def kill(self) -> None:
        """SIGKILL the browser's main process; the others see that and follow."""
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def open_firefox(
    home: Path,
    *,
    profile: str = "firefox-profile",
    preferences: Mapping[str, Preference] | None = None,
    executable: Path | None = None,
    env: Mapping[str, str] | None = None,
    stderr: int = subprocess.DEVNULL,
) -> AsyncIterator[Firefox]:
    """Start a browser, and end it. Below `home`, its HOME, it looks for native hosts and has its profile.

    Raises:
        FirefoxError: none was found, or it did not start.
    """
    executable = executable or find_firefox()
    if executable is None:
        raise FirefoxError("no Firefox was found: install one (apt install firefox-esr) or set MCPB_FIREFOX")
    directory = home / profile
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "user.js").write_text(_preferences_file({**PREFERENCES, **(preferences or {})}))
    (directory / ACTIVE_PORT).unlink(missing_ok=True)
    is_new = not (directory / COMPILED[0]).exists()
    if is_new:
        _write_compiled(directory)
    process = await trio.lowlevel.open_process(
        [
            str(executable),
            "--headless",
            "--no-remote",
            "--marionette",
            "--profile",
            str(directory),
            "about:blank",
        ],
        stdin=subprocess.DEVNULL,
        stdout=stderr,
        stderr=stderr,
        env={**_environment(home), **(env or {})},
    )
    try:
        async with await _connected(process, directory / ACTIVE_PORT) as stream:
            marionette = Marionette(stream)
            firefox = Firefox(process, marionette, await _first_answer(marionette))
            try:
                yield firefox
            finally:
                with trio.CancelScope(shield=True):  # bounded by END_SECONDS
                    await firefox.close()
                if is_new and not _compiled and process.returncode == 0:
                    _keep_compiled(directory)
    finally:
        if process.returncode is None:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def _connected(process: trio.Process, active_port: Path) -> trio.SocketStream:
    """Marionette's port is in a file of the profile as soon as it listens."""
    with trio.move_on_after(START_SECONDS):
        while process.poll() is None:
            with suppress(FileNotFoundError, ValueError):
                return await trio.open_tcp_stream("127.0.0.1", int(active_port.read_text()))
            await trio.sleep(POLL_SECONDS)
    raise FirefoxError("it did not start: run it by hand without --marionette")


async def _first_answer(marionette: Marionette) -> str:
    await marionette.greeted()
    answer = await marionette.send(("WebDriver:NewSession", {}), timeout_s=START_SECONDS)
    version: str = answer["capabilities"]["browserVersion"]
    return version


def _keep_compiled(profile: Path) -> None:
    for path in [profile / COMPILED[0], *profile.glob(f"{COMPILED[1]}/*")]:
        _compiled[str(path.relative_to(profile))] = path.read_bytes()


def _write_compiled(profile: Path) -> None:
    for name, content in _compiled.items():
        (profile / name).parent.mkdir(exist_ok=True)
        (profile / name).write_bytes(content)


def _preferences_file(preferences: Mapping[str, Preference]) -> str:
    return "".join(
        f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items()
    )


def _environment(home: Path) -> dict[str, str]:
    """Ours, without what leads to the person's own settings or to a display."""
    mine = ("XDG_", "MOZ_", "DISPLAY", "WAYLAND_DISPLAY")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    return {**kept, "HOME": str(home)}
