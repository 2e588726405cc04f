"""Our extension and another product's in one browser: each works for itself, and nothing of theirs changes.

Theirs is played by an extension of its own. Its native host is the real one where that can be had, else it is
played as well. On the disk it is as its users have it: two host names, of which one is not installed, a
wrapper in the home directory, a socket in a folder of the temporary directory.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from browsing import Browser, Browsing, TrioThread, trio_thread
from chain import EXTENSION, Chain, until_listed
from demo.chromium import open_chromium
from demo.throw_away import throw_away_directory
from native_host import endpoint, processes
from native_host.wire import EXTENSION_ID, HOST_NAME
from other_host import OtherHost, why_missing
from peers import until
from raw_channel_client import RawChannelClient
from site_server import Site, serving_site

pytestmark = pytest.mark.chromium

PRODUCT = Path(__file__).parent / "other_product"
THEIR_EXTENSION = "fkhnhnaadoppcpeoobkanonjbpcakgfb"
THEIR_HOST = "com.anthropic.claude_code_browser_extension"
THEIR_OTHER_HOST = "com.anthropic.claude_browser_extension"


@dataclass
class OtherProduct:
    """What it has on the disk."""

    host: OtherHost
    profile: Path

    @property
    def manifests(self) -> Path:
        return self.profile / "NativeMessagingHosts"

    @property
    def socket(self) -> Path | None:
        """Of its host, while that serves."""
        return next(self.host.directory.glob("*.sock"), None)

    def install(self) -> None:
        wrapper = self.host.home / ".claude/chrome/chrome-native-host"
        wrapper.parent.mkdir(parents=True)
        command = self.host.command
        if why_missing():
            command = [sys.executable, str(PRODUCT / "host.py"), str(self.host.directory)]
        env = [f"{name}={value}" for name, value in self.host.env.items()]
        wrapper.write_text(f"#!/bin/sh\nexec env {' '.join([*env, *command])}\n")
        wrapper.chmod(0o755)
        self.manifests.mkdir(parents=True)
        self._register(THEIR_HOST, wrapper)
        self._register(THEIR_OTHER_HOST, self.host.home / "Applications/gone/chrome-native-host")

    def _register(self, name: str, program: Path) -> None:
        manifest = {
            "name": name,
            "description": "another product",
            "path": str(program),
            "type": "stdio",
            "allowed_origins": [f"chrome-extension://{THEIR_EXTENSION}/"],
        }
        (self.manifests / f"{name}.json").write_text(json.dumps(manifest))

    def everything(self) -> dict[str, tuple[object, ...]]:
        """Each of its files: content, mode, inode, time of the last change."""
        sockets = self.host.directory
        files = [*self.host.home.rglob("*"), *self.manifests.glob("com.*"), sockets, *sockets.iterdir()]
        return {str(path): _state(path) for path in sorted(files)}


def _state(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(found.st_mode) else ""
    return content, found.st_mode, found.st_ino, found.st_mtime_ns


@dataclass
class Reader:
    """A program made for their socket, which reads its tab again and again."""

    client: RawChannelClient
    tab_id: int
    text: str
    answers: int = 0
    wrong: list[Any] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def reading(cls, socket: Path, url: str) -> AsyncIterator[Reader]:
        """It reads until the block ends, and then until it has seen that it still can."""
        async with RawChannelClient.connected(socket) as client, trio.open_nursery() as nursery:
            await client.call("tabs_context_mcp", createIfEmpty=True)
            tab_id = int(_text(await client.call("tabs_create_mcp")).rpartition(": ")[2])
            await client.call("navigate", tabId=tab_id, url=url)
            reader = cls(client, tab_id, _text(await client.call("get_page_text", tabId=tab_id)))
            nursery.start_soon(reader._read)
            yield reader
            await reader.until_answered()
            nursery.cancel_scope.cancel()

    async def until_answered(self, more: int = 10) -> None:
        """So many answers from now on."""
        enough = self.answers + more
        with trio.fail_after(10):
            await until(lambda: self.answers >= enough)

    async def _read(self) -> None:
        while True:
            answer = await self.client.call("get_page_text", tabId=self.tab_id)
            if "result" in answer and _text(answer) == self.text:
                self.answers += 1
            else:
                self.wrong.append(answer)
            await trio.sleep(0.005)  # a browser has other things to do as well


def _text(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


class Beside(Browsing):
    """A browser with both extensions, each connected to its own host."""

    def __init__(
        self, thread: TrioThread, chain: Chain, browser: Browser, site: Site, other: OtherProduct
    ) -> None:
        super().__init__(thread, chain, browser, site)
        self.other = other

    def mcpb(self, *args: str, check: bool = True) -> str:
        """What a command prints."""
        return self.thread.run(lambda: self.chain.mcpb(*args, check=check)).stdout.decode()

    def theirs(self, expression: str) -> Any:
        """What their extension's worker makes of it."""
        workers = self.browser.targets("service_worker")
        theirs = (each["targetId"] for each in workers if THEIR_EXTENSION in each["url"])
        worker = self.browser.attach(next(theirs))
        try:
            return worker.evaluate(expression)
        finally:
            self.browser.send("Target.detachFromTarget", sessionId=worker.page.session)

    def records(self) -> list[endpoint.Record]:
        """Of our processes that bridges link to."""
        return endpoint.live_hosts(self.chain.home / "run")

    def add_ours(self) -> None:
        """Register our host and load our extension, which finds it."""
        self.chain.register(self.other.profile)
        self.load_ours()

    def load_ours(self) -> None:
        """Our extension, until it is connected to its host."""
        self.browser.send("Extensions.loadUnpacked", path=str(EXTENSION))
        self.browser.until(lambda: any(not record.channel for record in self.records()))

    def unload_ours(self) -> None:
        """Our extension, until its host has ended."""
        pids = [record.pid for record in self.records() if not record.channel]
        self.browser.send("Extensions.uninstall", id=EXTENSION_ID)
        self.browser.until(lambda: not any(map(processes.is_running, pids)))

    @contextmanager
    def without_ours(self) -> Iterator[None]:
        """Our extension is not there meanwhile."""
        self.unload_ours()
        try:
            yield
        finally:
            self.add_ours()

    def book(self, number: int) -> str:
        return f"{self.site.url}/book.html?number={number}"


@pytest.fixture(scope="module")
def beside(pages: str) -> Iterator[Beside]:
    with serving_site() as site, trio_thread() as thread, throw_away_directory() as home:
        for name in ("home", "theirs", "tmp"):
            (home / name).mkdir()
        other = OtherProduct(OtherHost(home / "theirs"), home / "profile")
        other.install()
        settings = {"MCPB_EXISTING_CHANNEL_DIRECTORY": str(other.host.directory)}
        chain = Chain(home / "home", pages, settings)
        with thread.holding(open_chromium(other.profile, env={"TMPDIR": str(home / "tmp")})) as chromium:
            both = Beside(thread, chain, Browser(thread, chromium), site, other)
            both.browser.send("Extensions.loadUnpacked", path=str(PRODUCT))
            both.add_ours()
            both.browser.until(lambda: other.socket is not None)
            yield both
        shutil.rmtree(other.host.directory, ignore_errors=True)


@pytest.fixture
def reader(beside: Beside) -> Iterator[Reader]:
    """It reads while the test runs; each answer is right, and no file of theirs is another afterwards."""
    socket = beside.other.socket
    assert socket
    before = beside.other.everything()
    with beside.thread.holding(Reader.reading(socket, beside.book(1))) as reader:
        yield reader
    assert reader.wrong == []
    assert beside.other.everything() == before


def test_both_are_used_and_ours_neither_sees_nor_touches_theirs(beside: Beside, reader: Reader) -> None:
    with beside.client() as tools:
        (listed,) = tools.done("list_connected_browsers").structured["browsers"]
        assert listed["name"].startswith("Chromium")
        tools.open_site("index.html")
        assert "Town library" in tools.done("get_page_text").text
        beside.browser.open(f"{beside.chain.pages}/tabserver.html")
        echo = beside.chain.name("echo")
        beside.thread.run(until_listed, tools.client, lambda names: echo in names)
        assert tools.done(echo, text="hello").text == "echo: hello"
        assert "not this session's" in tools.refused("get_page_text", tabId=reader.tab_id)
    assert beside.theirs("heard.filter((type) => type === 'mcp_connected').length") == 1


def test_when_theirs_ends_ours_goes_on_and_so_does_theirs_when_it_is_back(beside: Beside) -> None:
    with beside.client() as tools:
        tools.open_site("index.html")
        before = beside.other.socket
        beside.theirs("hangUp()")
        beside.browser.until(lambda: beside.other.socket is None)
        assert "Town library" in tools.done("get_page_text").text
        assert beside.theirs("dial()")
        beside.browser.until(lambda: beside.other.socket not in (None, before))
        assert "Town library" in tools.done("get_page_text").text


def test_when_ours_ends_theirs_goes_on(beside: Beside, reader: Reader) -> None:
    with beside.without_ours():
        beside.thread.run(reader.until_answered)


def test_installing_using_examining_and_removing_ours_leaves_theirs_as_it_was_and_nothing_of_ours(
    beside: Beside, reader: Reader
) -> None:
    with beside.without_ours():
        beside.mcpb("uninstall-native-host", "--yes")
        beside.mcpb("install-native-host", "--user-data-dir", str(beside.other.profile), "--yes")
        beside.load_ours()
        pids = [record.pid for record in beside.records()]
        with beside.client() as tools:
            tools.open_site("index.html")
        report = beside.mcpb("doctor")
        assert THEIR_HOST in report
        assert THEIR_OTHER_HOST in report
        beside.mcpb("status")
        beside.unload_ours()
        beside.mcpb("uninstall-native-host", "--purge", "--yes")
        assert not (beside.other.manifests / f"{HOST_NAME}.json").exists()
        assert not beside.chain.home.exists()
        assert not any(map(processes.is_running, pids))
