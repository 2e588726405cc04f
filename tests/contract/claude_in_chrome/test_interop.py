"""mcpb beside the real native host of Claude in Chrome, with a fake extension on its stdio.

The first tests compare this host with `native_host/existing_channel/channel_messages.py`. The others run
bridges, clients of that product, and the published socket beside it.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult, ImageContent

import transcripts
from channel_client import RawChannelClient, bytes_of
from claude_host import OtherHost, other_host
from concurrent_callers import FILLER, ManyCallers, find
from counting_proxy import CountingProxy
from fake_claude_extension import Call, Content, Dialect, StubExtension, ToolFailedError
from full_chain import MCPB, Chain, call
from native_host.existing_channel.channel_messages import FRAME_BYTES
from native_host.ipc import endpoint
from native_host.protocol.wire import HOST_NAME
from serve_process import SOON_S, serving
from transcripts import EXTENSION, TRANSCRIPTS
from wire_peers import until

PATIENCE_S = 90
"""For anything at all: two processors are shared with other tests."""


@dataclass
class Ours:
    """What is ours on the machine of somebody who has both products."""

    home: Path
    directory: Path
    """In which bridges look for the other product's sockets."""

    @property
    def env(self) -> dict[str, str]:
        own = {"MCPB_HOME": str(self.home), "HOME": str(self.home), "PATH": os.environ["PATH"]}
        return {**own, "MCPB_EXISTING_CHANNEL_DIRECTORY": str(self.directory)}

    def client(self, **asked: Any) -> Client:
        """An MCP client with a bridge of its own."""
        command = [*MCPB, "bridge", "--existing-channel"]
        return Client(StdioServerParameters(command=command[0], args=command[1:], env=self.env), **asked)


@pytest.fixture
def theirs(short_tmp: Path) -> Iterator[OtherHost]:
    with other_host(short_tmp) as host:
        yield host


@pytest.fixture
def ours(short_tmp: Path, theirs: OtherHost) -> Ours:
    return Ours(short_tmp, theirs.directory)


# ── What we rely on ─────────────────────────────────────────────────────────────────────────────────────────


async def test_its_directory_and_socket_are_private_and_go_with_its_last_host(theirs: OtherHost) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension().running() as extension:
            path = await theirs.socket(extension)
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.parent.stat().st_mode & 0o777 == 0o700
            other = path.parent / "1.sock"
            other.touch()
            dead = path.parent / f"{2**22 + 1}.sock"
            dead.touch()
            async with theirs.extension().running():
                assert other.exists()
                assert not dead.exists()
            assert path.is_socket()
            other.unlink()
        assert not path.parent.exists()


async def test_it_tells_every_client_what_one_was_answered(theirs: OtherHost) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension(tools={"find": find}).running() as extension:
            path = await theirs.socket(extension)
            async with RawChannelClient.connected(path) as one, RawChannelClient.connected(path) as other:
                await extension.until(lambda: extension.heard_types["mcp_connected"] == 2)
                answer = await one.call("find", query="mine")
                assert await other.hear() == answer
                assert one.bytes_read == bytes_of(answer) == extension.answered_bytes


async def test_a_frame_over_its_cap_ends_its_service_and_not_its_process(theirs: OtherHost) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension().running() as extension:
            path = await theirs.socket(extension)
            async with RawChannelClient.connected(path) as client:
                extension.say_too_much()
                await client.until_closed()
            await until(lambda: not path.exists())
            os.kill(extension.pid, 0)


async def test_a_clients_frame_over_the_cap_cuts_off_that_client_alone(theirs: OtherHost) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension(tools={"find": find}).running() as extension:
            path = await theirs.socket(extension)
            async with RawChannelClient.connected(path) as one, RawChannelClient.connected(path) as other:
                await one.say_raw((FRAME_BYTES + 1).to_bytes(4, "little"))
                await one.until_closed()
                assert "result" in await other.call("find", query="still here")


async def test_what_a_client_says_is_longer_when_the_extension_hears_it(theirs: OtherHost) -> None:
    """So a client's frame just below the cap becomes one that a browser closes the port over."""
    with trio.fail_after(PATIENCE_S):
        said = {"method": "execute_tool", "params": {"tool": "find", "args": {}}}
        async with (
            theirs.extension().running() as extension,
            RawChannelClient.connected(await theirs.socket(extension)) as client,
        ):
            await client.say(**said)
            assert await extension.hear("tool_request") == {"type": "tool_request", **said}


class TheirStage:
    """The real host, and clients of its socket."""

    def __init__(self, extension: StubExtension, path: Path, nursery: trio.Nursery) -> None:
        self._extension = extension
        self._path = path
        self._nursery = nursery
        self._clients: dict[str, RawChannelClient] = {}
        self._gone: dict[str, trio.Event] = {}

    async def connect(self, who: str) -> None:
        self._clients[who] = await self._nursery.start(partial(self._keep, who))

    async def leave(self, who: str) -> None:
        self._gone[who].set()

    async def say(self, who: str, what: Any) -> None:
        if who == EXTENSION:
            self._extension.say_bodies(*transcripts.bodies(what))
        else:
            await self._clients[who].say(**what)

    async def hear(self, who: str) -> Any:
        message = await (self._extension if who == EXTENSION else self._clients[who]).hear()
        changing = {"timestamp": "when it was said", "computer_name": "where it was said"}
        return message | {name: text for name, text in changing.items() if name in message}

    async def until_cut_off(self, who: str) -> None:
        await self._clients[who].until_closed()

    async def _keep(self, who: str, *, task_status: trio.TaskStatus[RawChannelClient]) -> None:
        self._gone[who] = gone = trio.Event()
        async with RawChannelClient.connected(self._path) as client:
            task_status.started(client)
            await gone.wait()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_the_transcripts_are_what_it_says(theirs: OtherHost, path: Path) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension().running() as extension, trio.open_nursery() as nursery:
            stage = TheirStage(extension, await theirs.socket(extension), nursery)
            cues = transcripts.read(path)
            played = await transcripts.play(cues, stage)
            nursery.cancel_scope.cancel()
    if os.environ.get("MCPB_RECORD"):
        transcripts.write(path, played)
    assert played == transcripts.read(path)


async def test_without_ids_a_second_clients_answer_is_taken_for_ones_own(theirs: OtherHost) -> None:
    """Why bridges do not call while another client is there, unless answers bear ids."""
    taken = []

    async def read(client: RawChannelClient) -> None:
        taken.append(await client.call("read_page"))

    with trio.fail_after(PATIENCE_S):
        async with theirs.extension("untagged", {"find": find}).running() as extension:
            path = await theirs.socket(extension)
            async with RawChannelClient.connected(path) as one, RawChannelClient.connected(path) as other:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read, one)
                    await extension.until(lambda: len(extension.calls) == 1)
                    answer = await other.call("find", query="for the second")
                assert taken == [answer]


# ── Bridges beside it ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dialect", ["tagged", "untagged"])
async def test_eight_clients_get_their_own_answers_through_one_connection(
    theirs: OtherHost, short_tmp: Path, dialect: Dialect
) -> None:
    callers = ManyCallers()
    with trio.fail_after(PATIENCE_S):
        async with (
            theirs.extension(dialect, {"find": find}).running() as extension,
            CountingProxy.before(await theirs.socket(extension), short_tmp / "proxy") as proxy,
        ):
            await callers.run(Ours(short_tmp, proxy.path.parent).client)
            assert callers.answered == Counter(callers.words)
            assert callers.failed == {}
            assert Counter(call.args["query"] for call in extension.calls) == Counter(callers.words)
            assert extension.heard_types["mcp_connected"] == proxy.connections == 1
            assert proxy.bytes == extension.answered_bytes
            assert proxy.frames == len(callers.words)


@pytest.mark.parametrize("dialect", ["tagged", "untagged"])
async def test_no_call_runs_twice_or_gets_anothers_answer_while_their_hosts_come_and_go(
    theirs: OtherHost, ours: Ours, dialect: Dialect
) -> None:
    callers = ManyCallers()
    with trio.fail_after(3 * PATIENCE_S):
        async with (
            theirs.extension(dialect, {"find": find}).running() as extension,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(callers.run, ours.client)
            await callers.until_answered(1 / 3)
            await extension.kill_host()
            told = await callers.until_all_failed()
            assert any("native host" in text and "has ended" in text for text in told), told
            async with ours.client() as witness:
                await comes_back(extension, witness)
                callers.go_on()

                await callers.until_answered(2 / 3)
                await drive_dead(extension, await theirs.socket(extension))
                told = await callers.until_all_failed()
                assert any("still runs, but has closed its socket" in text for text in told), told
                await until(lambda: not endpoint.live_hosts(ours.home / "run"))
                _, text = await call(witness, "find", query="ours", tabId=1)
                assert "still runs, but has closed its socket" in text
                await extension.close()
                await comes_back(extension, witness)
                callers.go_on()
    runs = Counter(call.args["query"] for call in extension.calls)
    assert callers.wrong == []
    assert callers.answered == Counter(callers.words - callers.failed.keys())
    assert all(runs[words] <= 1 for words in callers.words)
    assert all("It may have run" in text for words, text in callers.failed.items() if runs[words])


async def drive_dead(extension: StubExtension, path: Path) -> None:
    """Its host lives on without its socket."""
    extension.say_too_much()
    await until(lambda: not path.exists())
    os.kill(extension.pid, 0)


async def comes_back(extension: StubExtension, client: Client) -> None:
    """Its extension starts the next host; until calls work again."""
    await extension.connect()
    await until_works(client)


async def test_a_client_of_theirs_beside_bridges_is_answered_as_if_it_were_alone(
    theirs: OtherHost, ours: Ours
) -> None:
    """Where answers bear ids; it hears those of bridges as well, because its host tells everybody."""
    callers = ManyCallers(calls=20)
    with trio.fail_after(2 * PATIENCE_S):
        async with theirs.extension("tagged", {"find": find}).running() as extension, ours.client() as client:
            assert await works(client)
            heard_before = extension.answered_bytes
            async with RawChannelClient.connected(await theirs.socket(extension)) as raw:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(callers.run, ours.client)
                    for n in itertools.count():
                        answer = await raw.call("find", query=f"raw {n}")
                        assert answer == {"tool_use_id": f"{raw.name}-{n + 1}", **found(f"raw {n}")}
                        if callers.are_done:
                            break
                assert raw.unexpected == raw.notifications == []
                assert len(raw.foreign) == len(callers.words)
                assert raw.bytes_read == extension.answered_bytes - heard_before
            await extension.hear("mcp_disconnected")
            assert await works(client)
            assert callers.answered == Counter(callers.words)
            assert extension.heard_types["mcp_connected"] == 2


async def test_bridges_call_beside_a_client_of_theirs_once_any_answer_was_heard_that_bears_an_id(
    theirs: OtherHost, ours: Ours
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with theirs.extension("tagged", {"find": find}).running() as extension:
            path = await theirs.socket(extension)
            async with RawChannelClient.connected(path) as raw, ours.client() as client:
                is_error, text = await call(client, "find", query="ours", tabId=1)
                assert is_error
                assert "it is not known yet whether its extension says which call it answers" in text
                await raw.call("find", query="theirs")
                await until_works(client)
            assert [called.args["query"] for called in extension.calls] == ["theirs", "Does it work?"]


async def test_while_answers_bear_no_id_bridges_keep_quiet_beside_a_client_of_theirs(
    theirs: OtherHost, ours: Ours
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with (
            theirs.extension("untagged", {"find": find}).running() as extension,
            ours.client() as client,
        ):
            path = await theirs.socket(extension)
            async with RawChannelClient.connected(path) as raw:
                told = []
                for n in range(3):
                    told.append(await call(client, "find", query="ours", tabId=1))
                    assert await raw.call("find", query=f"raw {n}") == found(f"raw {n}")
                assert all(is_error and "another program is connected" in text for is_error, text in told)
            assert [called.args["query"] for called in extension.calls] == ["raw 0", "raw 1", "raw 2"]
            assert raw.unexpected == raw.foreign == []
            assert raw.bytes_read == extension.answered_bytes
            await extension.hear("mcp_disconnected")
            is_error, text = await call(client, "find", query="ours", tabId=1)
            assert is_error
            assert "was connected to this channel a moment ago" in text


async def test_the_late_answer_to_a_client_of_theirs_that_has_gone_is_not_ours(
    theirs: OtherHost, ours: Ours
) -> None:
    answers = trio.Event()

    async def slow(called: Call) -> Content:
        await answers.wait()
        return "for the one who has gone"

    with trio.fail_after(PATIENCE_S):
        async with (
            theirs.extension("untagged", {"get_page_text": slow, "find": find}).running() as extension,
            ours.client() as client,
            trio.open_nursery() as nursery,
        ):
            path = await theirs.socket(extension)
            await extension.hear("mcp_connected")
            async with RawChannelClient.connected(path) as raw:
                await raw.say(method="execute_tool", params={"tool": "get_page_text", "args": {"tabId": 1}})
                await extension.until(lambda: len(extension.calls) == 1)
                is_error, _ = await call(client, "find", query="beside it", tabId=1)
                assert is_error
            await extension.hear("mcp_disconnected")
            told: list[str] = []

            async def ask() -> None:
                told.append((await call(client, "find", query="ours", tabId=1))[1])

            nursery.start_soon(ask)
            await extension.until(lambda: len(extension.calls) == 2)
            answers.set()
        assert "was connected to this channel a moment ago" in told[0]
        assert [called.tool for called in extension.calls] == ["get_page_text", "tabs_context_mcp"]


async def test_pictures_errors_and_questions_come_through(theirs: OtherHost, ours: Ours) -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}

    async def shown(called: Call) -> Content:
        return [{"type": "text", "text": "a picture"}, {"type": "image", "source": picture}]

    async def failing(called: Call) -> Content:
        raise ToolFailedError("There is no tab 1")

    async def asking(called: Call) -> Content:
        return "went there" if await called.permitted("https://shop.example/") else "was not allowed"

    asked = []

    async def person(_: Any, question: Any) -> ElicitResult:
        asked.append(question.message)
        return ElicitResult(action="accept", content={"allow": len(asked) == 1})

    tools = {"computer": shown, "get_page_text": failing, "navigate": asking}
    with trio.fail_after(PATIENCE_S):
        async with (
            theirs.extension("tagged", tools).running(),
            ours.client(elicitation_callback=person) as client,
        ):
            result = await client.call_tool("computer", {"action": "screenshot", "tabId": 1})
            [block] = [block for block in result.content if isinstance(block, ImageContent)]
            assert (block.mime_type, block.data) == (picture["media_type"], picture["data"])

            is_error, text = await call(client, "get_page_text", tabId=1)
            assert (is_error, "There is no tab 1" in text) == (True, True)

            for answer in ("went there", "was not allowed"):
                _, text = await call(client, "navigate", url="https://shop.example/", tabId=1)
                assert answer in text
            assert [question for question in asked if "https://shop.example/" in question] == asked
            assert len(asked) == 2


async def test_what_their_extension_could_not_be_told_is_refused_and_what_it_could_arrives(
    theirs: OtherHost, ours: Ours
) -> None:
    """Their host says it with more around it, and a browser closes the port of a host that says too much."""

    async def run(called: Call) -> Content:
        return "done"

    with trio.fail_after(PATIENCE_S):
        async with (
            theirs.extension("tagged", {"javascript_tool": run, "find": find}).running() as extension,
            ours.client() as client,
        ):
            refused = []
            for spared in range(0, 6000, 500):
                arguments = {"action": "javascript_exec", "text": "x" * (FRAME_BYTES - spared), "tabId": 1}
                is_error, text = await call(client, "javascript_tool", **arguments)
                if is_error:
                    refused.append(text)
            assert 1 < len(refused) < 12
            assert all("limit is" in text for text in refused)
            assert len(extension.calls) == 12 - len(refused)
            assert await works(client)
            assert extension.heard_types["mcp_connected"] == 1


async def test_the_late_answer_to_a_call_that_was_cancelled_is_nobodys(theirs: OtherHost, ours: Ours) -> None:
    """Without an id it looks like the answer to the next."""
    answers = trio.Event()

    async def slow(called: Call) -> Content:
        await answers.wait()
        return "too late"

    with trio.fail_after(PATIENCE_S):
        tools = {"get_page_text": slow, "find": find}
        async with theirs.extension("untagged", tools).running() as extension, ours.client() as client:
            with trio.CancelScope() as cancelling:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(partial(call, client, "get_page_text", tabId=1))
                    await extension.until(lambda: len(extension.calls) == 1)
                    cancelling.cancel()
            is_error, text = await call(client, "find", query="next", tabId=1)
            assert is_error
            assert "was given up and has not been answered yet" in text
            answers.set()
            await until_works(client)
            assert [called.tool for called in extension.calls] == ["get_page_text", "find"]


def found(words: str) -> dict[str, Any]:
    """What one of their clients is answered."""
    return {"result": {"content": f"{words} {FILLER}"}}


async def works(client: Client) -> bool:
    """Whether a call gets its answer."""
    is_error, text = await call(client, "find", query="Does it work?", tabId=1)
    return not is_error and f"Does it work? {FILLER}" in text


async def until_works(client: Client) -> None:
    while not await works(client):  # noqa: ASYNC110 - nobody tells when
        await trio.sleep(0.02)


# ── What is theirs stays as it is ───────────────────────────────────────────────────────────────────────────


async def test_every_file_of_theirs_is_the_same_after_all_that_mcpb_does(theirs: OtherHost) -> None:
    wrapper = theirs.installed()
    chain = Chain(theirs.home, "", {"MCPB_EXISTING_CHANNEL_DIRECTORY": str(theirs.directory)})
    with trio.fail_after(PATIENCE_S):
        extension = StubExtension([str(wrapper)], env=theirs.env, tools={"find": find})
        async with extension.running():
            socket = await theirs.socket(extension)
            before = theirs.files()
            assert {wrapper, socket} < before.keys()
            await chain.mcpb("install-native-host", "--browser", "chromium", "--yes")
            [manifest] = theirs.home.rglob(f"{HOST_NAME}.json")
            async with Ours(theirs.home, theirs.directory).client() as client:
                assert await works(client)
                for examination in ("status", "doctor"):
                    await chain.mcpb(examination, check=False)
            await chain.mcpb("doctor", "--fix", check=False)
            await chain.mcpb("uninstall-native-host", "--purge", "--yes")
            assert not manifest.exists()
            assert theirs.files() == before


# ── The socket of `mcpb serve --publish-channel` beside the one of the rea ──────────────────────────────────


async def test_beside_a_host_of_that_product_both_are_found_and_ours_reaches_its_extension_as_well(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with other_host(mcpb_home) as theirs, trio.fail_after(2 * SOON_S):
        async with theirs.extension(tools={"find": find}).running() as extension:
            path = await theirs.socket(extension)
            monkeypatch.setenv("MCPB_EXISTING_CHANNEL_DIRECTORY", str(path.parent))
            async with serving("--publish-channel", "--existing-channel") as server:
                ours = path.parent / f"{server.process.pid}.sock"
                assert sorted(path.parent.iterdir()) == sorted([path, ours])
                async with RawChannelClient.connected(ours) as client:
                    answer = await client.call("find", query="through ours", tabId=7)
                    assert "through ours" in str(answer)
                async with RawChannelClient.connected(path) as neighbour:
                    assert "undisturbed" in str(await neighbour.call("find", query="undisturbed", tabId=7))
                assert await server.end() == 0
            assert list(path.parent.iterdir()) == [path]
