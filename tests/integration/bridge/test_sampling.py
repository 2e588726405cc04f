"""Tools of ours that ask the client's own model, in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import trio
from mcp_types import CreateMessageRequestParams

from bridge.hub.transport import CallObserver
from custom_tools import OwnTools, client_of
from mcp_client import McpLines, text_of
from native_host.protocol import wire

PARAMS: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": {"type": "text", "text": "Which of these?"}},
        {"role": "user", "content": {"type": "text", "text": "Be brief."}},
    ],
    "systemPrompt": "You choose.",
    "maxTokens": 100,
}
PROMPT = wire.PageRequest(method="sampling/createMessage", params=msgspec.Raw(msgspec.json.encode(PARAMS)))
WORDS = {"role": "assistant", "content": {"type": "text", "text": "the third"}, "model": "any"}
OTHERS: list[dict[str, Any]] = [{"action": "accept", "content": {}}, {"roots": []}]
"""Results that no model has."""
SOON_S = 30


async def ask_model(caller: CallObserver) -> str:
    """What the client's model says."""
    if not caller.support.sampling:
        return "this client has no model to ask"
    result = msgspec.json.decode(await caller.on_request(PROMPT))
    return str(result["content"]["text"])


async def ask_both(caller: CallObserver) -> str:
    """The same, once the person has agreed."""
    said = await caller.on_request(wire.ElicitConfirmation(message="May I?"))
    assert msgspec.json.decode(said)["action"] == "accept"
    return await ask_model(caller)


@pytest.fixture
async def client() -> AsyncIterator[McpLines]:
    """A client whose model may be asked; its era is the test's to choose."""
    async with client_of(OwnTools(ask_model=ask_model, ask_both=ask_both)) as client:
        client.capabilities = {"sampling": {}, "elicitation": {}}
        yield client


def check(asked: dict[str, Any]) -> None:
    """It is the prompt, in MCP's words."""
    CreateMessageRequestParams.model_validate(asked)
    assert asked == PARAMS


def retry(state: str, answer: dict[str, Any], name: str = "ask_model") -> dict[str, Any]:
    return {"name": name, "requestState": state, "inputResponses": {"question": answer}}


async def test_a_client_of_the_handshake_era_is_asked_by_a_request(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        await client.shake_hands("2025-06-18")
        call = await client.send("tools/call", {"name": "ask_model"})
        asked = await client.asked("sampling/createMessage")
        check(asked["params"])
        await client.reply(asked, result=WORDS)
        assert text_of(await client.answer_to(call)) == "the third"


@pytest.mark.parametrize(
    "answer",
    [{"error": {"code": -1, "message": "no"}}, *({"result": other} for other in OTHERS)],
    ids=["refused", "a form", "roots"],
)
async def test_its_model_may_have_nothing_to_say(client: McpLines, answer: dict[str, Any]) -> None:
    with trio.fail_after(SOON_S):
        await client.shake_hands("2025-06-18")
        call = await client.send("tools/call", {"name": "ask_model"})
        await client.reply(await client.asked("sampling/createMessage"), **answer)
        assert text_of(await client.answer_to(call)) == "the MCP client's model did not answer"


async def test_since_2026_the_prompt_is_the_answer_and_the_call_comes_again(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        await client.need_no_handshake()
        parked = await client.ask("tools/call", {"name": "ask_model"})
        question = parked["inputRequests"]["question"]
        assert (parked["resultType"], question["method"]) == ("input_required", "sampling/createMessage")
        check(question["params"])
        again = await client.ask("tools/call", retry(parked["requestState"], WORDS))
    assert text_of(again) == "the third"


@pytest.mark.parametrize("other", OTHERS, ids=["a form", "roots"])
async def test_what_is_no_answer_to_it_has_it_asked_again(client: McpLines, other: dict[str, Any]) -> None:
    with trio.fail_after(SOON_S):
        await client.need_no_handshake()
        parked = await client.ask("tools/call", {"name": "ask_model"})
        again = await client.ask("tools/call", retry(parked["requestState"], other))
        assert again["inputRequests"] == parked["inputRequests"]
        last = await client.ask("tools/call", retry(again["requestState"], WORDS))
    assert text_of(last) == "the third"


async def test_one_call_may_ask_the_person_and_then_the_model(client: McpLines) -> None:
    yes = {"action": "accept", "content": {}}
    with trio.fail_after(SOON_S):
        await client.need_no_handshake()
        first = await client.ask("tools/call", {"name": "ask_both"})
        assert first["inputRequests"]["question"]["method"] == "elicitation/create"
        wrong = await client.ask("tools/call", retry(first["requestState"], WORDS, "ask_both"))
        assert wrong["inputRequests"] == first["inputRequests"]
        second = await client.ask("tools/call", retry(wrong["requestState"], yes, "ask_both"))
        assert second["inputRequests"]["question-2"]["method"] == "sampling/createMessage"
        again = {"name": "ask_both", "requestState": second["requestState"]}
        last = await client.ask("tools/call", {**again, "inputResponses": {"question-2": WORDS}})
    assert text_of(last) == "the third"


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_a_client_without_a_model_is_not_asked(client: McpLines, era: str) -> None:
    client.capabilities = {"elicitation": {}}
    with trio.fail_after(SOON_S):
        await (client.shake_hands() if era == "handshake" else client.need_no_handshake())
        answer = await client.ask("tools/call", {"name": "ask_model"})
    assert text_of(answer) == "this client has no model to ask"
