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
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types
import pytest
import trio
from mcp import Client

from channel_client import RawChannelClient
from claude_host import OtherHost, why_missing
from demo.chromium import open_chromium
from demo.temporary_directory import throw_away_directory
from full_chain import EXTENSION, Chain, until_listed, until_said
from native_host.existing_channel.channel_messages import BRAND
from native_host.ipc import endpoint
from native_host.protocol.wire import EXTENSION_ID, HOST_NAME
from native_host.system import proc
from site_server import BOOKS, Site, serving_site
from tool_browser import Browser, Browsing, Tools, TrioThread, trio_thread
from wire_peers import until

PRODUCT = Path(__file__).parents[2] / "data/claude_in_chrome"
THEIR_EXTENSION = "fkhnhnaadoppcpeoobkanonjbpcakgfb"
THEIR_HOST = "com.anthropic.claude_code_browser_extension"
THEIR_OTHER_HOST = "com.anthropic.claude_browser_extension"
THEIRS = f"{BRAND} (through Claude in Chrome)"
"""As our clients are told of it."""
PNG = b"\x89PNG"
ATTACHED = {"MCPB_EXISTING_CHANNEL_ATTACH": "true"}


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
        with suppress(FileNotFoundError):  # its last host takes the folder along
            return next(self.host.directory.glob("*.sock"), None)
        return None

    def install(self) -> None:
        wrapper = self.host.home / ".claude/chrome/chrome-native-host"
        wrapper.parent.mkdir(parents=True)
        command = self.host.command
        if why_missing():
            command = [
                sys.executable,
                str(PRODUCT / "host.py"),
                str(self.host.directory),
                "--chrome-native-host",
            ]
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

    async def until_answered(self, more: int = 5) -> None:
        """So many answers from now on."""
        enough = self.answers + more
        with trio.fail_after(60):
            await until(lambda: self.answers >= enough)

    async def _read(self) -> None:
        while True:
            answer = await self.client.call("get_page_text", tabId=self.tab_id)
            if "result" in answer and _text(answer) == self.text:
                self.answers += 1
            else:
                self.wrong.append(answer)
            await trio.sleep(0.02)  # a browser has other things to do as well


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

    def heard(self, kind: str) -> int:
        """How many messages of this type the present host has sent to their extension."""
        count: int = self.theirs(f"heard.filter((type) => type === {json.dumps(kind)}).length")
        return count

    @property
    def profile(self) -> list[str]:
        """As options of a command."""
        return ["--user-data-dir", str(self.other.profile)]

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
        self.browser.until(lambda: not any(map(proc.is_running, pids)))

    @contextmanager
    def without_ours(self) -> Iterator[None]:
        """Our extension is not there meanwhile."""
        self.unload_ours()
        try:
            yield
        finally:
            self.add_ours()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Their extension asks before it goes to an address."""
        self.theirs("void (asks = true)")
        try:
            yield
        finally:
            self.theirs("void (asks = false)")

    @contextmanager
    def without_theirs(self) -> Iterator[None]:
        """Their host is not there meanwhile."""
        self.theirs("hangUp()")
        self.browser.until(lambda: self.other.socket is None)
        try:
            yield
        finally:
            self.theirs("namesCalls = true; dial()")
            self.browser.until(lambda: self.other.socket is not None)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """A program reads meanwhile; each answer is right, and no file of theirs is another afterwards."""
        socket = self.other.socket
        assert socket
        before = self.other.everything()
        with self.thread.holding(Reader.reading(socket, self.book(1))) as reader:
            yield reader
        assert reader.wrong == []
        assert self.other.everything() == before

    def browsers(self, tools: Tools, wanted: Callable[[set[str]], bool] = bool) -> dict[str, Any]:
        """Once the names of the connected browsers are as wanted: what a client is told of each, by name."""
        return self.thread.run(until_connected, tools.client, wanted)

    def choose_theirs(self, tools: Tools) -> None:
        """Once it is there."""
        device_id = self.browsers(tools, theirs_too)[THEIRS]["deviceId"]
        tools.done("select_browser", deviceId=device_id)

    def book(self, number: int) -> str:
        return f"{self.site.url}/book.html?number={number}"


async def until_connected(client: Client, wanted: Callable[[set[str]], bool]) -> dict[str, Any]:
    """See `Beside.browsers`."""
    while True:
        result = await client.call_tool("list_connected_browsers")
        assert result.structured_content
        browsers = {each["name"]: each for each in result.structured_content["browsers"]}
        if wanted({*browsers}):
            return browsers
        await trio.sleep(0.02)


def theirs_too(names: set[str]) -> bool:
    """A wish for `Beside.browsers`."""
    return THEIRS in names


@pytest.fixture(scope="module")
def beside(pages: str) -> Iterator[Beside]:
    with serving_site() as site, trio_thread() as thread, throw_away_directory() as home:
        for name in ("home", "person", "theirs", "tmp"):
            (home / name).mkdir()
        other = OtherProduct(OtherHost(home / "theirs"), home / "profile")
        other.install()
        person = {"HOME": str(home / "person")}
        settings = {**person, "MCPB_EXISTING_CHANNEL_DIRECTORY": str(other.host.directory)}
        chain = Chain(home / "home", pages, settings)
        environment = {**person, "TMPDIR": str(home / "tmp")}
        with thread.holding(open_chromium(other.profile, env=environment)) as chromium:
            both = Beside(thread, chain, Browser(thread, chromium), site, other)
            both.browser.send("Extensions.loadUnpacked", path=str(PRODUCT))
            both.add_ours()
            both.browser.until(lambda: other.socket is not None)
            yield both
        shutil.rmtree(other.host.directory, ignore_errors=True)


@pytest.fixture
def reader(beside: Beside) -> Iterator[Reader]:
    """See `Beside.reading`."""
    with beside.reading() as reader:
        yield reader


def is_echo(name: str) -> bool:
    return name.endswith("_echo")


# ── Each for itself ─────────────────────────────────────────────────────────────────────────────────────────


def test_both_are_used_and_ours_neither_sees_nor_touches_theirs(beside: Beside, reader: Reader) -> None:
    connected = beside.heard("mcp_connected")
    with beside.client() as tools:
        (only,) = beside.browsers(tools)
        assert only != THEIRS
        tools.open_site("index.html")
        assert "Town library" in tools.done("get_page_text").text
        beside.browser.open(f"{beside.chain.pages}/tabserver.html")
        listed = beside.thread.run(until_listed, tools.client, lambda names: any(map(is_echo, names)))
        (echo,) = filter(is_echo, listed)
        assert tools.done(echo, text="hello").text == "echo: hello"
        assert "That tab is not yours" in tools.refused("get_page_text", tabId=reader.tab_id)
    assert beside.heard("mcp_connected") == connected


def test_when_their_host_ends_ours_goes_on_and_theirs_is_there_again_when_it_is_back(beside: Beside) -> None:
    with beside.client(settings=ATTACHED) as tools:
        tools.open_site("index.html")
        with beside.without_theirs():
            assert "Town library" in tools.done("get_page_text").text
            beside.browsers(tools, lambda names: THEIRS not in names)
        beside.choose_theirs(tools)
        tools.done("navigate", url=beside.book(5))
        assert BOOKS[4][0] in tools.done("get_page_text").text


def test_installing_using_examining_and_removing_ours_leaves_theirs_as_it_was_and_nothing_of_ours(
    beside: Beside,
) -> None:
    with beside.without_ours():
        with beside.reading():
            beside.mcpb("uninstall-native-host", "--yes")
            beside.mcpb("install-native-host", *beside.profile, "--yes")
            beside.load_ours()
            with beside.client(settings=ATTACHED) as tools:
                beside.browsers(tools, theirs_too)
                tools.open_site("index.html")
                host, holder = sorted(beside.records(), key=lambda record: record.channel)
                assert holder.channel == str(beside.other.socket)
            report = beside.mcpb("doctor")
            assert THEIR_HOST in report
            assert THEIR_OTHER_HOST in report
            assert f"used by mcpb (pid {holder.pid})" in beside.mcpb("status")
            beside.unload_ours()
            beside.mcpb("uninstall-native-host", "--purge", "--yes")
            assert not (beside.other.manifests / f"{HOST_NAME}.json").exists()
        with beside.without_theirs():
            beside.browser.until(lambda: not any(map(proc.is_running, (host.pid, holder.pid))))
            assert [path for path in beside.chain.home.rglob("*") if not path.is_dir()] == []


# ── Ours as a client of theirs ──────────────────────────────────────────────────────────────────────────────


def test_both_are_listed_ours_goes_first_and_what_is_done_in_the_chosen_one_is_done_in_its_page(
    beside: Beside, reader: Reader
) -> None:
    url = beside.book(2) + "&margin"
    with beside.client(settings=ATTACHED) as tools:
        assert not beside.browsers(tools, lambda names: len(names) == 2)[THEIRS]["inUse"]
        in_ours = tools.open_site("index.html")
        beside.choose_theirs(tools)
        assert "no longer exists" in tools.refused("get_page_text", tabId=in_ours)  # there it is an id
        tools.done("navigate", url=url)
        beside.browser.until_open(url).evaluate("document.body.append('A note in the margin')")
        assert "A note in the margin" in tools.done("get_page_text").text
        assert url in tools.done("tabs_context_mcp").text
        (image,) = tools.done("computer", action="screenshot").images
        assert b64decode(image.data).startswith(PNG)
        assert "Unsupported action" in tools.refused("computer", action="wait", duration=1)


def test_a_tab_that_the_person_closes_is_replaced_by_a_new_one(beside: Beside, reader: Reader) -> None:
    with beside.client(settings=ATTACHED) as tools:
        beside.choose_theirs(tools)
        for part in ("first", "second"):
            tools.done("navigate", url=beside.book(6) + f"&{part}")
            beside.browser.until_open(beside.book(6) + f"&{part}").close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which processes have no socket")
def test_a_host_of_theirs_that_has_stopped_serving_is_named_and_its_successor_is_used(beside: Beside) -> None:
    async def doctor() -> str:
        return (await beside.chain.mcpb("doctor", check=False)).stdout.decode()

    with beside.client(settings=ATTACHED) as tools:
        beside.choose_theirs(tools)
        tools.done("navigate", url=beside.book(7))
        stopped = beside.other.socket
        beside.theirs("port.postMessage({ type: 'notification', params: 'x'.repeat(2 << 20) })")
        assert stopped
        assert tools.call("get_page_text").is_error
        assert f"(pid {stopped.stem}), has stopped" in beside.thread.run(until_said, doctor, "[channel-dead]")
        with beside.without_ours():
            told = beside.mcpb("call", "--existing-channel", "list_connected_browsers", check=False)
        assert f"(pid {stopped.stem}) still runs, but has closed its socket" in told
        beside.theirs("dial()")
        beside.choose_theirs(tools)
        tools.done("navigate", url=beside.book(7))
        assert BOOKS[6][0] in tools.done("get_page_text").text


def test_several_clients_share_one_connection_and_each_has_a_tab_of_its_own(
    beside: Beside, reader: Reader
) -> None:
    with reading_books(beside, ATTACHED):
        connections = beside.heard("mcp_connected") - beside.heard("mcp_disconnected")
        assert connections == 2, "the reader's and ours"


def test_their_question_reaches_the_person_through_the_client(beside: Beside, reader: Reader) -> None:
    questions = []

    async def person(_: Any, asked: Any) -> mcp_types.ElicitResult:
        questions.append(asked.message)
        return mcp_types.ElicitResult(action="accept", content={"allow": len(questions) > 1})

    url = beside.book(3)
    with beside.client(settings=ATTACHED, elicitation_callback=person) as tools, beside.asking():
        beside.choose_theirs(tools)
        assert "Permission denied" in tools.refused("navigate", url=url)
        tools.done("navigate", url=url)
    assert questions == [f"{BRAND} asks: may navigate be used on {url}?"] * 2


def test_while_ours_is_not_there_clients_work_in_theirs(beside: Beside, reader: Reader) -> None:
    with beside.client(settings=ATTACHED) as tools:
        with beside.without_ours():
            beside.browsers(tools, lambda names: names == {THEIRS})
            tools.done("navigate", url=beside.book(4))
            assert BOOKS[3][0] in tools.done("get_page_text").text
            assert "createIfEmpty" in beside.mcpb("call", "--existing-channel", "tabs_context_mcp")
            beside.thread.run(reader.until_answered)
        assert not beside.browsers(tools, lambda names: len(names) == 2)[THEIRS]["inUse"]


# ── Ours as the host of theirs ──────────────────────────────────────────────────────────────────────────────


def test_their_extension_that_dials_our_host_serves_several_clients_at_once_with_ids_and_without(
    beside: Beside,
) -> None:
    beside.mcpb("install-native-host", *beside.profile, "--extension-id", THEIR_EXTENSION, "--yes")
    for names_calls in (True, False):
        with beside.without_theirs():
            beside.theirs(f"namesCalls = {json.dumps(names_calls)}; dial([{json.dumps(HOST_NAME)}])")
            with reading_books(beside):
                assert beside.heard("mcp_connected") == 1, "one for all: it takes an end for that of the last"


@contextmanager
def reading_books(beside: Beside, settings: dict[str, str] | None = None) -> Iterator[None]:
    """Three clients have each read a book of their own in their browser, all at once."""
    with ExitStack() as stack:
        numbers = range(1, 4)
        clients = [stack.enter_context(beside.client(f"of book {n}", settings=settings)) for n in numbers]
        with ThreadPoolExecutor(len(clients)) as threads:
            list(threads.map(partial(read_book, beside), clients, numbers))
        yield


def read_book(beside: Beside, tools: Tools, number: int) -> None:
    title, *_ = BOOKS[number - 1]
    beside.choose_theirs(tools)
    tools.done("navigate", url=beside.book(number))
    for _ in range(10):
        assert title in tools.done("get_page_text").text
