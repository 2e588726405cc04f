"""Tools of ours that ask which folders the client works in, in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from mcp_types import ListRootsRequest

from bridge.hub.transport import Caller
from bridge.questions import MAX_ROOTS
from mcp_lines import McpLines, text_of
from own_tools import OwnTools, client_of

ROOTS = {"roots": [{"uri": "file:///home/ann/shop", "name": "shop"}, {"uri": "file:///srv/a%20b"}]}
TOLD = "file:///home/ann/shop file:///srv/a%20b"
NO_ROOTS: list[dict[str, Any]] = [
    {"action": "accept", "content": {}},
    {"roots": [{"name": "shop"}]},
]
SOON_S = 10


async def where(caller: Caller) -> str:
    """The client's roots."""
    if caller.on_roots is None:
        return "this client has no roots"
    return " ".join(await caller.on_roots())


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
        assert text_of(await client.answer_to(call)) == "the MCP client did not tell its roots"


async def test_more_than_a_client_can_need_are_not_looked_at(client: McpLines) -> None:
    many = {"roots": [{"uri": f"file:///srv/{n}"} for n in range(MAX_ROOTS + 1)]}
    with trio.fail_after(SOON_S):
        await client.shake_hands()
        call = await client.send("tools/call", {"name": "where"})
        await client.reply(await client.asked("roots/list"), result=many)
        told = text_of(await client.answer_to(call)).split()
    assert told == [root["uri"] for root in many["roots"][:MAX_ROOTS]]


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
