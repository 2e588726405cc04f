"""Questions of a page to the person in mid-call: clients of both eras, a real bridge, a host by hand."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp
import mcp_types
import pytest
import trio

from bridge.links.browsers import pending_requests
from bridge.mcp_session import input_required
from fake_host import PlayedHost
from fake_transport import one_page, tools
from mcp_client import BRIDGE_COMMAND, BridgeProcess, McpLines, bridge_in_process, text_of
from native_host.protocol.wire import Code

GET_CART = "website_tool_shop_example_tab1_getCart"
PAY = "website_tool_shop_example_tab1_pay"
FORM = {"type": "object", "properties": {"apples": {"type": "integer", "title": "How many?"}}}
TWO = {"action": "accept", "content": {"apples": 2}}
ASKED = "https://shop.example asks: Buy?"
SOON_S = 30

pytestmark = pytest.mark.usefixtures("mcpb_home")


@pytest.fixture
async def host(mcpb_home: Path) -> AsyncIterator[PlayedHost]:
    async with PlayedHost.in_directory(mcpb_home / "run") as host:
        yield host


@pytest.fixture
async def client(host: PlayedHost) -> AsyncIterator[McpLines]:
    """A client that can show forms; `begin` says in which era."""
    async with bridge_in_process() as client:
        client.capabilities = {"elicitation": {}}
        with trio.fail_after(SOON_S):
            await host.welcome(*one_page("getCart", "pay"))
        yield client


async def begin(client: McpLines, era: str) -> None:
    if era == "handshake":
        await client.shake_hands("2025-06-18")
    else:
        await client.need_no_handshake()


async def start(client: McpLines, host: PlayedHost, **params: Any) -> tuple[int, dict[str, Any]]:
    """A client's request, and the call that it became in the page."""
    request_id = await client.send("tools/call", {"name": GET_CART, **params})
    return request_id, await host.heard("browser/executeTool")


async def finish(host: PlayedHost, call: dict[str, Any], text: str) -> None:
    """Let a page's call return."""
    payload = {"content": [{"type": "text", "text": text}]}
    await host.answer(call, {"success": True, "payload": payload})


async def park(
    client: McpLines, host: PlayedHost, question_id: str = "ext:1", **params: Any
) -> tuple[str, dict[str, Any]]:
    """A call of 2026 that waits for a person: its state, and the call in the page."""
    request_id, call = await start(client, host, **params)
    await host.ask(call, question_id, message="Buy?", requestedSchema=FORM)
    state: str = (await client.answer_to(request_id))["requestState"]
    return state, call


def retry(state: str, answer: dict[str, Any] | None = TWO, **params: Any) -> dict[str, Any]:
    """The params with which a client of 2026 sends its call again."""
    responses = {"inputResponses": {"question": answer}} if answer else {}
    return {"name": GET_CART, "requestState": state, **responses, **params}


async def text_for(client: McpLines, params: dict[str, Any]) -> str:
    return text_of(await client.ask("tools/call", params))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_package_s_own_client_asks_the_person_and_the_page_runs_once(
    host: PlayedHost, mode: str, nursery: trio.Nursery
) -> None:
    asked: list[mcp_types.ElicitRequestParams] = []
    answers: list[Any] = []

    async def person(context: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        asked.append(params)
        return mcp_types.ElicitResult(action="accept", content={"apples": len(asked)})

    async def page() -> None:
        await host.welcome(*one_page("getCart"))
        call = await host.heard("browser/executeTool")
        for question_id in ("ext:1", "ext:2"):
            await host.ask(call, question_id, message="Buy?", requestedSchema=FORM)
            answers.append((await host.answer_to(question_id))["result"])
        await finish(host, call, "bought")

    command, *arguments = BRIDGE_COMMAND
    parameters = mcp.StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    with trio.fail_after(SOON_S):
        nursery.start_soon(page)
        async with mcp.Client(parameters, mode=mode, elicitation_callback=person) as client:
            result = await client.call_tool(GET_CART, {})
    assert [block.text for block in result.content if isinstance(block, mcp_types.TextContent)] == ["bought"]
    assert [(params.message, params.mode) for params in asked] == [(ASKED, "form"), (ASKED, "form")]
    assert isinstance(asked[0], mcp_types.ElicitRequestFormParams)
    assert asked[0].requested_schema == FORM
    assert answers == [{"action": "accept", "content": {"apples": n}} for n in (1, 2)]
    assert len(host.calls) == 1


async def answered_by(client: McpLines, era: str, request_id: int, answer: dict[str, Any]) -> int:
    """The person answers; the id of the request that gets the call's result."""
    if era == "handshake":
        await client.reply(await client.asked("elicitation/create"), result=answer)
        return request_id
    state = (await client.answer_to(request_id))["requestState"]
    return await client.send("tools/call", retry(state, answer))


@pytest.mark.parametrize("era", ["handshake", "2026"])
@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        (TWO, TWO),
        ({"action": "decline"}, {"action": "decline"}),
        ({"action": "cancel", "content": {"apples": 2}}, {"action": "cancel"}),
    ],
    ids=["accept", "decline", "cancel"],
)
async def test_the_page_hears_what_the_person_decided(
    client: McpLines, host: PlayedHost, era: str, answer: dict[str, Any], heard: dict[str, Any]
) -> None:
    with trio.fail_after(SOON_S):
        await begin(client, era)
        request_id, call = await start(client, host)
        await host.ask(call, "ext:1", message="Buy?", requestedSchema=FORM)
        last_id = await answered_by(client, era, request_id, answer)
        assert (await host.answer_to("ext:1"))["result"] == heard
        await finish(host, call, "done")
        assert text_of(await client.answer_to(last_id)) == "done"
    assert len(host.calls) == 1


@pytest.mark.parametrize("era", ["handshake", "2026"])
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}], ids=["none", "no forms"])
async def test_the_page_is_told_when_the_client_cannot_ask(
    client: McpLines, host: PlayedHost, era: str, capabilities: dict[str, Any]
) -> None:
    client.capabilities = capabilities
    with trio.fail_after(SOON_S):
        await begin(client, era)
        request_id, call = await start(client, host)
        await host.ask(call, "ext:1", message="Buy?")
        error = (await host.answer_to("ext:1"))["error"]
        await finish(host, call, "not bought")
        assert text_of(await client.answer_to(request_id)) == "not bought"
    assert "this MCP client does not support elicitation" in error["message"]
    assert error["data"] == {"handed": False, "capability": "elicitation"}


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_a_form_that_mcp_does_not_know_is_never_shown(
    client: McpLines, host: PlayedHost, era: str
) -> None:
    nested = {"type": "object", "properties": {"card": {"type": "object"}}}
    with trio.fail_after(SOON_S):
        await begin(client, era)
        request_id, call = await start(client, host)
        await host.ask(call, "ext:1", message="Buy?", requestedSchema=nested)
        error = (await host.answer_to("ext:1"))["error"]
        await finish(host, call, "not bought")
        assert text_of(await client.answer_to(request_id)) == "not bought"
    assert (error["code"], error["data"]) == (Code.INVALID_PARAMS, {"handed": False})
    assert "properties[...]" in error["message"]


async def test_what_a_client_says_as_it_fails_is_not_told_to_the_page(
    client: McpLines, host: PlayedHost
) -> None:
    with trio.fail_after(SOON_S):
        await begin(client, "handshake")
        _, call = await start(client, host)
        await host.ask(call, "ext:1", message="Buy?")
        question = await client.asked("elicitation/create")
        await client.reply(question, error={"code": -32603, "message": "no screen in /home/ann"})
        error = (await host.answer_to("ext:1"))["error"]
    assert (error["code"], error["data"]) == (Code.INTERNAL_ERROR, {"handed": True})
    assert error["message"] == "the MCP client failed to ask the user"


async def test_a_client_that_cancels_during_a_question_has_it_taken_back(
    client: McpLines, host: PlayedHost
) -> None:
    with trio.fail_after(SOON_S):
        await begin(client, "handshake")
        request_id, call = await start(client, host)
        await host.ask(call, "ext:1", message="Buy?")
        question = await client.asked("elicitation/create")
        await client.notify("notifications/cancelled", {"requestId": request_id})
        assert (await client.heard("notifications/cancelled"))["requestId"] == question["id"]
        assert (await host.heard("browser/cancel"))["params"] == {"id": call["id"]}


# ── 2026-07-28: the call is parked ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def modern(client: McpLines) -> McpLines:
    with trio.fail_after(SOON_S):
        await begin(client, "2026")
    return client


async def test_a_parked_call_is_answered_with_its_question_and_a_state(
    modern: McpLines, host: PlayedHost
) -> None:
    with trio.fail_after(SOON_S):
        request_id, call = await start(modern, host)
        await host.ask(call, "ext:1", message="Buy?")
        answer = await modern.answer_to(request_id)
    form = {"mode": "form", "message": ASKED, "requestedSchema": {"type": "object", "properties": {}}}
    assert answer["resultType"] == "input_required"
    assert answer["inputRequests"] == {"question": {"method": "elicitation/create", "params": form}}
    assert len(answer["requestState"]) >= 22  # 128 bits


async def test_each_question_of_a_call_has_a_state_of_its_own(modern: McpLines, host: PlayedHost) -> None:
    with trio.fail_after(SOON_S):
        first, call = await park(modern, host)
        request_id = await modern.send("tools/call", retry(first))
        await host.answer_to("ext:1")
        await host.ask(call, "ext:2", message="Really?")
        second = await modern.answer_to(request_id)
        assert second["inputRequests"]["question-2"]["params"]["message"].endswith("asks: Really?")
        assert second["requestState"] != first
        assert "These requests are closed" in await text_for(modern, retry(first))
        again = {**retry(second["requestState"]), "inputResponses": {"question-2": TWO}}
        request_id = await modern.send("tools/call", again)
        await host.answer_to("ext:2")
        await finish(host, call, "bought")
        assert text_of(await modern.answer_to(request_id)) == "bought"
    assert len(host.calls) == 1


async def test_of_two_retries_one_resumes_the_call_and_the_other_is_told(
    modern: McpLines, host: PlayedHost
) -> None:
    with trio.fail_after(SOON_S):
        state, call = await park(modern, host)
        request_id = await modern.send("tools/call", retry(state))
        answer = await modern.ask("tools/call", retry(state))
        await finish(host, call, "bought")
        assert text_of(await modern.answer_to(request_id)) == "bought"
    assert answer["isError"] is True
    assert "may have run, and was not started again" in text_of(answer)
    assert len(host.calls) == 1


@pytest.mark.parametrize("other", [{"name": PAY}, {"arguments": {"n": True}}], ids=["tool", "arguments"])
async def test_a_state_is_good_for_its_own_call_alone(
    modern: McpLines, host: PlayedHost, other: dict[str, Any]
) -> None:
    with trio.fail_after(SOON_S):
        state, call = await park(modern, host, arguments={"n": 1})
        assert "belongs to another call" in await text_for(modern, retry(state, **other))
        request_id = await modern.send("tools/call", retry(state, arguments={"n": 1}))
        assert (await host.answer_to("ext:1"))["result"] == TWO
        await finish(host, call, "bought")
        assert text_of(await modern.answer_to(request_id)) == "bought"
    assert len(host.calls) == 1


async def test_a_state_of_another_session_is_unknown(
    modern: McpLines, host: PlayedHost, mcpb_home: Path
) -> None:
    with trio.fail_after(SOON_S):
        state, _ = await park(modern, host)
        async with bridge_in_process() as other:
            await begin(other, "2026")
            assert "These requests are closed" in await text_for(other, retry(state))


@pytest.mark.parametrize("responses", [{}, {"inputResponses": {"question": {"roots": []}}}])
async def test_a_retry_without_an_answer_is_asked_again(
    modern: McpLines, host: PlayedHost, responses: dict[str, Any]
) -> None:
    with trio.fail_after(SOON_S):
        state, _ = await park(modern, host)
        again = await modern.ask("tools/call", {"name": GET_CART, "requestState": state, **responses})
    assert again["requestState"] == state
    assert again["inputRequests"]["question"]["params"]["requestedSchema"] == FORM


async def test_a_parked_call_outlives_its_first_request_and_what_its_name_meant(
    modern: McpLines, host: PlayedHost
) -> None:
    with trio.fail_after(SOON_S):
        request_id, call = await start(modern, host)
        await host.ask(call, "ext:1", message="Buy?")
        state = (await modern.answer_to(request_id))["requestState"]
        await modern.notify("notifications/cancelled", {"requestId": request_id})
        await host.announce(tools(1, "pay"))
        while GET_CART in await modern.tool_names():
            await modern.heard("notifications/tools/list_changed")
        request_id = await modern.send("tools/call", retry(state))
        assert (await host.answer_to("ext:1"))["result"] == TWO
        await finish(host, call, "bought")
        assert text_of(await modern.answer_to(request_id)) == "bought"


async def test_a_call_that_ended_while_the_person_was_thinking_is_told_to_the_retry(
    modern: McpLines, host: PlayedHost
) -> None:
    with trio.fail_after(SOON_S):
        state, call = await park(modern, host)
        await finish(host, call, "sold out")
        assert (await host.answer_to("ext:1"))["error"]["code"] == Code.GONE
        assert await text_for(modern, retry(state)) == "sold out"


async def test_cancelling_the_retry_cancels_the_call(modern: McpLines, host: PlayedHost) -> None:
    with trio.fail_after(SOON_S):
        state, call = await park(modern, host)
        request_id = await modern.send("tools/call", retry(state))
        await host.answer_to("ext:1")
        await modern.notify("notifications/cancelled", {"requestId": request_id})
        assert (await host.heard("browser/cancel"))["params"] == {"id": call["id"]}


async def test_progress_goes_to_the_request_that_waits(modern: McpLines, host: PlayedHost) -> None:
    async def report(call: dict[str, Any], progress: int) -> None:
        message = {"method": "browser/progress", "for": call["id"], "params": {"progress": progress}}
        await host.say_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def heard(params: dict[str, Any]) -> tuple[str, float]:
        return params["progressToken"], params["progress"]

    with trio.fail_after(SOON_S):
        request_id, call = await start(modern, host, _meta={"progressToken": "first"})
        await report(call, 1)
        assert heard(await modern.heard("notifications/progress")) == ("first", 1)
        await host.ask(call, "ext:1", message="Buy?")
        state = (await modern.answer_to(request_id))["requestState"]
        await report(call, 2)  # nobody waits
        await modern.send("tools/call", retry(state, _meta={"progressToken": "second"}))
        await host.answer_to("ext:1")
        await report(call, 3)
        assert heard(await modern.heard("notifications/progress")) == ("second", 3)


async def test_a_question_that_nobody_answers_is_closed_and_a_late_retry_is_told(
    modern: McpLines, host: PlayedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_requests, "SERVER_REQUEST_S", 0.1)
    monkeypatch.setattr(input_required, "SERVER_REQUEST_S", 0.1)
    with trio.fail_after(SOON_S):
        state, call = await park(modern, host)
        error = (await host.answer_to("ext:1"))["error"]
        late = await modern.ask("tools/call", retry(state))
        await host.ask(call, "ext:2", message="Is anybody there?")
        nobody = (await host.answer_to("ext:2"))["error"]
    assert (error["code"], error["data"]) == (Code.TIMED_OUT, {"handed": True})
    assert late["isError"] is True
    assert "not answered within 0.1 s" in text_of(late)
    assert "It may have run" in text_of(late)
    assert (nobody["code"], nobody["data"]) == (Code.GONE, {"handed": False})
    assert len(host.calls) == 1


async def test_more_questions_than_a_person_can_look_through_are_refused(
    modern: McpLines, host: PlayedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_required, "MAX_SUSPENDED", 2)
    with trio.fail_after(SOON_S):
        await park(modern, host, "ext:1")
        await park(modern, host, "ext:2")
        request_id, call = await start(modern, host)
        await host.ask(call, "ext:3", message="Buy?")
        error = (await host.answer_to("ext:3"))["error"]
        await finish(host, call, "not bought")
        assert text_of(await modern.answer_to(request_id)) == "not bought"
    assert (error["code"], error["data"]) == (Code.RATE_LIMITED, {"handed": False})


async def test_the_end_of_stdin_ends_the_bridge_with_its_parked_calls(host: PlayedHost) -> None:
    with trio.fail_after(SOON_S):
        async with BridgeProcess.started() as client:
            client.capabilities = {"elicitation": {}}
            await host.welcome(*one_page("getCart"))
            await begin(client, "2026")
            await park(client, host)
            await client.aclose()
            with pytest.raises(EOFError):
                await host.heard("nothing more")
            assert await client.process.wait() == 0
