"""Tools of ours that ask which folders the client works in, in both eras, and the files that are in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import trio
import trio.testing
from mcp_types import ListRootsRequest

from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.client_prompts import ClientPrompts
from bridge.browser_tools.session.session_state import SessionState
from bridge.browser_tools.tool_output import ToolError
from bridge.browser_tools.tools.file_upload import files_at
from bridge.config.settings import BrowserSettings
from bridge.errors import CallError
from bridge.hub.client_session import Session
from bridge.hub.rules.root_sites import ROOTS_S
from bridge.hub.server_request import ClientSupport, ServerRequest
from bridge.hub.transport import CallObserver
from custom_tools import OwnTools, client_of
from mcp_client import McpLines, text_of
from native_host.protocol import wire
from native_host.protocol.wire import Code

ROOTS = {"roots": [{"uri": "file:///home/ann/shop", "name": "shop"}, {"uri": "file:///srv/a%20b"}]}
TOLD = "file:///home/ann/shop file:///srv/a%20b"
NO_ROOTS: list[dict[str, Any]] = [{"action": "accept", "content": {}}, {"roots": [{"name": "shop"}]}]
SOON_S = 30


async def where(caller: CallObserver) -> str:
    """The client's roots."""
    if not caller.support.roots:
        return "this client has no roots"
    listed = msgspec.json.decode(await caller.on_request(wire.PageRequest(method="roots/list")))
    return " ".join(root["uri"] for root in listed["roots"])


@pytest.fixture
async def client() -> AsyncIterator[McpLines]:
    """A client that has roots; its era is the test's to choose."""
    async with client_of(OwnTools(where=where)) as client:
        client.capabilities = {"roots": {"listChanged": True}}
        yield client


def check(asked: dict[str, Any]) -> None:
    """It is MCP's request."""
    ListRootsRequest.model_validate({"method": asked["method"], "params": asked["params"]})


def retry(state: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"name": "where", "requestState": state, "inputResponses": {"question": answer}}


async def test_a_client_of_the_handshake_era_is_asked_by_a_request(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        await client.shake_hands("2025-06-18")
        call = await client.send("tools/call", {"name": "where"})
        asked = await client.asked("roots/list")
        check(asked)
        await client.reply(asked, result=ROOTS)
        assert text_of(await client.answer_to(call)) == TOLD


@pytest.mark.parametrize(
    "answer",
    [{"error": {"code": -1, "message": "no"}}, *({"result": other} for other in NO_ROOTS)],
    ids=["refused", "a form", "no address"],
)
async def test_it_may_not_tell_them(client: McpLines, answer: dict[str, Any]) -> None:
    with trio.fail_after(SOON_S):
        await client.shake_hands("2025-06-18")
        call = await client.send("tools/call", {"name": "where"})
        await client.reply(await client.asked("roots/list"), **answer)
        assert text_of(await client.answer_to(call)) == "the MCP client did not list its roots"


async def test_since_2026_the_question_is_the_answer_and_the_call_comes_again(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        await client.need_no_handshake()
        parked = await client.ask("tools/call", {"name": "where"})
        question = parked["inputRequests"]["question"]
        assert (parked["resultType"], question["method"]) == ("input_required", "roots/list")
        check(question)
        again = await client.ask("tools/call", retry(parked["requestState"], ROOTS))
    assert text_of(again) == TOLD


async def test_what_is_no_answer_to_it_has_it_asked_again(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        await client.need_no_handshake()
        parked = await client.ask("tools/call", {"name": "where"})
        again = await client.ask("tools/call", retry(parked["requestState"], NO_ROOTS[0]))
        assert again["inputRequests"] == parked["inputRequests"]
        last = await client.ask("tools/call", retry(again["requestState"], ROOTS))
    assert text_of(last) == TOLD


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_a_client_without_roots_is_not_asked(client: McpLines, era: str) -> None:
    client.capabilities = {"elicitation": {}, "sampling": {}}
    with trio.fail_after(SOON_S):
        await (client.shake_hands() if era == "handshake" else client.need_no_handshake())
        answer = await client.ask("tools/call", {"name": "where"})
    assert text_of(answer) == "this client has no roots"


# ── How often they are requested ────────────────────────────────────────────────────────────────────────────


async def roots_of_call(client: McpLines, *, asked: dict[str, Any] | None = None) -> str:
    """What a call finds; `asked`: what the client answers, if it is asked."""
    call = await client.send("tools/call", {"name": "where"})
    if asked:
        await client.reply(await client.asked("roots/list"), result=asked)
    return text_of(await client.answer_to(call))


@pytest.fixture(params=["by us", "by the package"])
async def shaken(client: McpLines, request: pytest.FixtureRequest) -> McpLines:
    """The same, after its handshake; the second one has had a request that only the package answers."""
    await client.shake_hands("2025-11-25")
    if request.param == "by the package":
        await client.answer_to(await client.send("tasks/list"))
    return client


async def test_roots_are_requested_once_until_the_client_reports_a_change(shaken: McpLines) -> None:
    with trio.fail_after(SOON_S):
        assert await roots_of_call(shaken, asked=ROOTS) == TOLD
        assert await roots_of_call(shaken) == TOLD
        await shaken.notify("notifications/roots/list_changed")
        assert await roots_of_call(shaken, asked={"roots": [{"uri": "file:///srv"}]}) == "file:///srv"
        assert await roots_of_call(shaken) == "file:///srv"
    assert not [message for message in shaken.unasked if message.get("method") == "roots/list"]


async def test_roots_from_before_a_change_are_not_kept(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        await client.shake_hands("2025-11-25")
        call = await client.send("tools/call", {"name": "where"})
        asked = await client.asked("roots/list")
        await client.notify("notifications/roots/list_changed")
        await client.reply(asked, result=ROOTS)
        assert text_of(await client.answer_to(call)) == TOLD
        assert await roots_of_call(client, asked={"roots": []}) == ""


async def test_a_client_that_reports_no_changes_is_asked_each_time(client: McpLines) -> None:
    client.capabilities = {"roots": {}}
    with trio.fail_after(SOON_S):
        await client.shake_hands("2025-11-25")
        for _ in range(2):
            assert await roots_of_call(client, asked=ROOTS) == TOLD


async def test_roots_that_were_not_listed_are_requested_again(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        await client.shake_hands("2025-11-25")
        call = await client.send("tools/call", {"name": "where"})
        await client.reply(await client.asked("roots/list"), error={"code": -1, "message": "no"})
        assert text_of(await client.answer_to(call)) == "the MCP client did not list its roots"
        assert await roots_of_call(client, asked=ROOTS) == TOLD


# ── The files in them ───────────────────────────────────────────────────────────────────────────────────────


class Client:
    """It has roots, and counts how often it is asked for them."""

    def __init__(self, *roots: str, fails: bool = False, is_silent: bool = False) -> None:
        self.asked = 0
        self._roots = list(roots)
        self._fails = fails
        self._is_silent = is_silent

    async def tell(self, _: ServerRequest) -> bytes:
        self.asked += 1
        if self._fails:
            raise CallError(Code.INTERNAL_ERROR, "it did not tell", handed=True)
        if self._is_silent:
            await trio.sleep_forever()
        return msgspec.json.encode({"roots": [{"uri": uri} for uri in self._roots]})

    def context(self, working: Path | None = None, *, is_local: bool = True) -> CallContext:
        """A call of it, as far as roots go."""
        around = cast("Any", SimpleNamespace(settings=BrowserSettings()))
        session = Session("s1", folder=str(working or ""), is_local=is_local)
        nothing = cast("Any", None)
        prompts = ClientPrompts(
            around, session, CallObserver(on_request=self.tell, support=ClientSupport(roots=True))
        )
        return CallContext(around, session, SessionState(), prompts, nothing, nothing, nothing)


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    """A file in a project."""
    (tmp_path / "project").mkdir()
    poem = tmp_path / "project" / "a poem.txt"
    poem.write_text("quiet")
    return poem


async def refused(path: Path | str, context: CallContext) -> str:
    with pytest.raises(ToolError) as caught:
        await files_at([str(path)], context)
    return str(caught.value)


async def test_at_most_64_roots_are_used(poem: Path) -> None:
    many = [f"file:///srv/{n}" for n in range(65)]
    with trio.fail_after(SOON_S):
        assert await Client(*many).context().prompts.list_roots() == many[:64]


async def test_a_client_is_asked_once_in_a_call_also_in_one_of_several_steps(poem: Path) -> None:
    client = Client("https://shop.example/", poem.as_uri(), "file:///srv/shop")
    context = client.context()
    with trio.fail_after(SOON_S):
        for step in (context, replace(context), replace(context)):
            assert [file.data for file in await files_at([str(poem)], step)] == [b"quiet"]
            assert f"from below {poem}, /srv/shop." in await refused("/etc/hostname", step)
        assert client.asked == 1
        await files_at([str(poem)], client.context())
        assert client.asked == 2


async def test_it_is_not_asked_for_files_in_a_folder_that_is_known(poem: Path) -> None:
    client = Client("file:///srv/shop")
    with trio.fail_after(SOON_S):
        context = client.context(poem.parent)
        assert len(await files_at([poem.name, str(poem)], context)) == 2
        assert "There is no file" in await refused("nothing.txt", context)
        assert client.asked == 0
        assert f"from below {poem.parent}, /srv/shop." in await refused("/etc/hostname", context)


@pytest.mark.parametrize(
    "client",
    [Client(), Client("http://[", "file:poem"), Client(fails=True)],
    ids=["none", "none of this machine", "not told"],
)
async def test_a_client_may_have_no_roots_that_help(poem: Path, client: Client) -> None:
    with trio.fail_after(SOON_S):
        assert "no folder is known" in await refused(poem, client.context())


async def test_a_client_that_may_be_on_another_machine_is_not_asked(poem: Path) -> None:
    client = Client(poem.parent.as_uri())
    with trio.fail_after(SOON_S):
        assert "no folder is known" in await refused(poem, client.context(is_local=False))
    assert client.asked == 0


async def test_a_client_that_does_not_answer_is_asked_once_in_a_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    client = Client(is_silent=True)
    context = client.context()
    with context.prompts.limit_time(ROOTS_S / 2) as limit:
        assert await context.prompts.list_roots() is None
        assert trio.current_time() == pytest.approx(ROOTS_S, abs=0.1)
        assert await context.prompts.list_roots() is None
    assert (client.asked, limit.cancelled_caught) == (1, False)
