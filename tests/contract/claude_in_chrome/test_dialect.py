"""Our native host in the place of another product's: its extension gets the answers that the real host gave.

`tests/data/transcripts` holds its recorded answers; `test_interop.py` checks that it still gives them. Its
clients are bridges here, so the test translates what was said on its socket. `better` marks the answers in
which ours differs on purpose.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import transcripts
from concurrent_callers import ManyCallers, find
from fake_claude_extension import ORIGIN, Call, Dialect, StubExtension, Tool
from full_chain import Chain
from native_host.existing_channel.channel_messages import content_of, tool_result
from native_host.ipc import endpoint
from transcripts import EXTENSION, TRANSCRIPTS, Cue
from wire_peers import HOST_COMMAND, SocketClient, until

PATIENCE_S = 60


def extension(dialect: Dialect = "tagged", **tools: Tool) -> StubExtension:
    """The other product's, registered as with `mcpb install-native-host --extension-id`."""
    return StubExtension(HOST_COMMAND, env={"MCPB_CALLERS": ORIGIN}, dialect=dialect, tools=tools)


@pytest.fixture
async def stage(mcpb_home: Path) -> AsyncIterator[OurStage]:
    with trio.fail_after(PATIENCE_S):
        async with extension().running() as started, AsyncExitStack() as bridges:
            yield OurStage(started, mcpb_home / "run", bridges)


class OurStage:
    """Our host, and bridges."""

    def __init__(self, extension: StubExtension, directory: Path, lifetime: AsyncExitStack) -> None:
        self._extension = extension
        self._directory = directory
        self._lifetime = lifetime
        self._bridges: dict[str, SocketClient] = {}
        self._ids: dict[str, str] = {}
        """Of calls: as our host named them, by their name in the transcript, which is their query as well."""
        self._questions: dict[str, str] = {}
        """Ids of questions on our wire, by theirs."""

    async def connect(self, who: str) -> None:
        await until(lambda: bool(endpoint.live_hosts(self._directory)))
        [host] = endpoint.live_hosts(self._directory)
        stream = await self._lifetime.enter_async_context(
            await endpoint.connect(self._directory, host.instance)
        )
        self._bridges[who] = SocketClient(stream)
        await self._bridges[who].introduce()

    async def leave(self, who: str) -> None:
        await self._bridges[who].stream.aclose()

    async def say(self, who: str, what: Any) -> None:
        if who == EXTENSION:
            self._extension.say_bodies(*map(self._renamed, transcripts.bodies(what)))
        elif what["method"] == "execute_tool":
            asked = what["params"]
            params = {"name": asked["tool"], "args": asked["args"], "asks": True}
            await self._bridges[who].say(id=asked["tool_use_id"], method="browser/callTool", params=params)
        else:
            allowed = what["params"]["allowed"]
            answer = {"action": "accept", "content": {"allow": True}} if allowed else {"action": "decline"}
            question = self._questions[what["params"]["request_id"]]
            await self._bridges[who].say(id=question, result=answer)

    async def hear(self, who: str) -> Any:
        return await (self._hear_extension() if who == EXTENSION else self._hear_bridge(who))

    async def until_cut_off(self, who: str) -> None:
        raise AssertionError(f"{who} is not cut off by ours")

    async def _hear_extension(self) -> Any:
        message = await self._extension.hear()
        match message:
            case {"method": "execute_tool", "params": params}:
                self._ids[params["args"]["query"]] = params["tool_use_id"]
                assert params.pop("handle_permission_prompts")
                params |= {"client_id": "claude-code", "tool_use_id": params["args"]["query"]}
            case {"method": "permission_response", "params": params}:
                [params["tool_use_id"]] = [
                    name for name, own in self._ids.items() if own == params["tool_use_id"]
                ]
            case {"type": "pong", "timestamp": int()}:
                message["timestamp"] = "when it was said"
            case {"type": "status_response", "computer_name": str()}:
                message["computer_name"] = "where it was said"
        return message

    async def _hear_bridge(self, who: str) -> Any:
        while "id" not in (message := await self._bridges[who].next_message()):
            pass
        if "method" not in message:
            return message["result"]
        self._questions["question-1"] = message["id"]
        return message["params"]["message"]

    def _renamed(self, body: bytes) -> bytes:
        for name, own in self._ids.items():
            body = body.replace(b'"tool_use_id":"%b"' % name.encode(), b'"tool_use_id":"%b"' % own.encode())
        return body


def better(cues: list[Cue]) -> Iterator[Cue]:
    """The transcript as it is with our host."""
    there: set[str] = set()
    for last, cue in itertools.pairwise([Cue(EXTENSION, "connects"), *cues]):
        match cue:
            case Cue(does="connects", who=who):
                there.add(who)
            case Cue(does="leaves", who=who):
                there.remove(who)
            case Cue(who="extension", does="hears", what={"type": "mcp_connected"}) if len(there) > 1:
                continue  # it does not count them, so it is told of the first
            case Cue(who="extension", does="hears", what={"type": "mcp_disconnected"}) if there:
                continue  # and of the last
            case Cue(who=who, does="hears") if who != EXTENSION and not is_of(who, cue.what):
                continue  # an answer to another one
            case Cue(who=who, does="hears") if who != EXTENSION:
                yield Cue(who, "hears", in_our_terms(cue.what))
                continue
            case Cue(who=who, does="is cut off"):
                yield from goes_on(who, last.what)
                continue
        yield cue


def is_of(who: str, what: Any) -> bool:
    """Whether a client's message is about a call of its own: all that is said has the call's name in it."""
    return f"{who}-" in msgspec.json.encode(what).decode()


def in_our_terms(what: Any) -> Any:
    """What a client hears on the real host's socket, as a bridge hears it."""
    match what:
        case {"method": "permission_request", "params": {"tool_type": tool, "url": url}}:
            return f"Claude in Chrome asks: may {tool} be used on {url}?"
        case {"error": error}:
            return msgspec.json.decode(tool_result(content_of(error), is_error=True))
        case {"result": result}:
            return msgspec.json.decode(tool_result(content_of(result), is_error=False))
    raise AssertionError(what)


def goes_on(who: str, last: Any) -> Iterator[Cue]:
    """Where the real host ends its service over what was said last, ours passes it on, and answers still."""
    if isinstance(last, dict):
        yield Cue(who, "hears", in_our_terms(last))
    yield Cue(EXTENSION, "says", {"type": "ping"})
    yield Cue(EXTENSION, "hears", {"type": "pong", "timestamp": "when it was said"})


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_an_extension_hears_what_the_real_host_said(stage: OurStage, path: Path) -> None:
    expected = list(better(transcripts.read(path)))
    assert await transcripts.play(expected, stage) == expected


@pytest.mark.parametrize("dialect", ["tagged", "untagged"])
async def test_eight_clients_at_once_get_their_own_answers(mcpb_home: Path, dialect: Dialect) -> None:
    callers = ManyCallers(calls=25)
    with trio.fail_after(PATIENCE_S):
        async with extension(dialect, find=find).running() as started:
            await callers.run(Chain(mcpb_home, "").client)
    assert callers.answered == Counter(callers.words)
    assert Counter(called.args["query"] for called in started.calls) == Counter(callers.words)
    assert started.heard_types["mcp_connected"] == 1


async def test_without_ids_the_late_answer_to_one_who_has_gone_is_not_the_next_ones(mcpb_home: Path) -> None:
    run, answers = mcpb_home / "run", trio.Event()

    async def slow(called: Call) -> str:
        await answers.wait()
        return "too late"

    with trio.fail_after(PATIENCE_S):
        async with extension("untagged", find=find, slow=slow).running() as started:
            [host] = endpoint.live_hosts(run)
            async with SocketClient.connected(run, host.instance) as one:
                await one.say(id=1, method="browser/callTool", params={"name": "slow", "args": {}})
                await started.until(lambda: len(started.calls) == 1)
            async with SocketClient.connected(run, host.instance) as other:
                early = await find_through(other, "early")
                assert early["error"]["data"]["handed"] is False
                answers.set()
                while "error" in (answer := await find_through(other, "next")):
                    assert answer["error"]["data"]["handed"] is False
                assert answer["result"]["content"][0]["text"].startswith("next ")
    assert [called.tool for called in started.calls] == ["slow", "find"]


async def find_through(bridge: SocketClient, words: str) -> dict[str, Any]:
    return await bridge.ask(words, "browser/callTool", name="find", args={"query": words})
