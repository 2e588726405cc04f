"""Elicitation by a page, through the extension and the real native host, in both protocol eras."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import mcp
import mcp_types
import pytest
import trio

from demo.chromium import Chromium, Page
from full_chain import Chain, until_listed
from native_host.protocol.wire import EXTENSION_ID, Code
from socket_observer import Onlooker, onlooking, restart_worker, text_of
from wire_peers import until

pytestmark = pytest.mark.one_browser

SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}}


@pytest.fixture
async def client(chain: Chain, browser: Chromium) -> AsyncIterator[Onlooker]:
    with trio.fail_after(60):
        async with onlooking(chain) as client:
            yield client


@pytest.fixture
async def shop(chain: Chain, browser: Chromium, client: Onlooker) -> Page:
    """A page whose `slow` runs until it is told to end."""
    page = await chain.open(browser, "tabserver.html")
    await client.until_offered("slow")
    return page


async def begin_slow(client: Onlooker, shop: Page) -> int:
    runs = await shop.evaluate("window.runs")
    call = await client.begin_call(await client.until_offered("slow"), "slow")
    await shop.wait_until(f"window.runs === {runs + 1}")
    return call


async def ask(shop: Page, **params: Any) -> None:
    """Let the page ask, without waiting for its answer."""
    await shop.evaluate(
        f"window.answer = null; void server.request('elicitation/create', {json.dumps(params)})"
    )


async def question(client: Onlooker) -> dict[str, Any]:
    while (message := await client.next_message()).get("method") != "browser/elicitConfirmation":
        pass
    return message


async def answer(shop: Page) -> Any:
    """The response that the page got."""
    response = await shop.wait_until("window.answer")
    return response.get("result", response.get("error"))


# ── Asked and answered ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_question_goes_to_the_asker_of_the_call_and_its_answer_back_to_the_page(
    shop: Page, client: Onlooker
) -> None:
    call = await begin_slow(client, shop)
    await ask(shop, message="How many?", requestedSchema=SCHEMA)
    asked = await question(client)
    assert asked["for"] == call
    assert asked["params"] == {"message": "How many?", "requestedSchema": SCHEMA}
    await client.say(id=asked["id"], result={"action": "accept", "content": {"count": 2}, "_meta": {"a": 1}})
    assert await answer(shop) == {"action": "accept", "content": {"count": 2}}

    await ask(shop, message="And now?")
    second = await question(client)
    assert second["params"] == {"message": "And now?"}
    await client.say(id=second["id"], result={"action": "decline"})
    assert await answer(shop) == {"action": "decline"}
    await shop.evaluate("window.finishSlow()")
    assert text_of((await client.answer_to(call))["result"]) == "slow: done"


async def test_another_client_neither_hears_a_question_nor_can_answer_it(
    chain: Chain, shop: Page, client: Onlooker
) -> None:
    async with onlooking(chain) as other:
        await begin_slow(client, shop)
        await ask(shop, message="How many?")
        asked = await question(client)
        await other.say(id=asked["id"], result={"action": "accept", "content": {"count": 99}})
        await other.request("getTabs")  # so that the forged answer has come to the host
        await client.say(id=asked["id"], result={"action": "cancel"})
        assert await answer(shop) == {"action": "cancel"}
        heard = [message async for message in heard_so_far(other)]
    assert not [message for message in heard if message.get("method") == "browser/elicitConfirmation"]


async def heard_so_far(client: Onlooker) -> AsyncIterator[dict[str, Any]]:
    """What came before the answer to a last request."""
    await client.say(id="last", method="getTabs", params={})
    while (message := await client.next_message()).get("id") != "last":
        yield message


async def test_a_client_that_answers_with_an_error_is_quoted_to_the_page(
    shop: Page, client: Onlooker
) -> None:
    await begin_slow(client, shop)
    await ask(shop, message="How many?")
    asked = await question(client)
    await client.say(id=asked["id"], error={"code": -32601, "message": "this client cannot ask anybody"})
    assert await answer(shop) == {"code": -32601, "message": "this client cannot ask anybody"}


async def test_an_answer_that_makes_no_sense_is_an_error_to_the_page(shop: Page, client: Onlooker) -> None:
    await begin_slow(client, shop)
    senseless: list[Any] = [{"action": "maybe"}, [], "accept", None]
    for result in senseless:
        await ask(shop, message="How many?")
        await client.say(id=(await question(client))["id"], result=result)
        assert (await answer(shop))["code"] == Code.INTERNAL_ERROR, result


async def test_a_page_server_is_told_that_it_may_ask(shop: Page) -> None:
    assert (await shop.evaluate("window.client"))["capabilities"] == {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}},
        "roots": {},
    }


# ── Not asked ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_page_may_ask_only_while_exactly_one_call_runs_in_its_frame(
    shop: Page, client: Onlooker
) -> None:
    await ask(shop, message="Anybody there?")
    assert await answer(shop) == {
        "code": Code.INVALID_REQUEST,
        "message": "A page may ask only while exactly one call runs in its frame: no call runs.",
    }
    first = await begin_slow(client, shop)
    second = await begin_slow(client, shop)
    await ask(shop, message="Which of you?")
    refused = await answer(shop)
    assert refused["code"] == Code.INVALID_REQUEST
    assert "several calls run" in refused["message"]
    await client.notify("browser/cancel", id=first)
    await shop.wait_until("window.cancelled === 1")
    await ask(shop, message="You?")
    assert (await question(client))["for"] == second


async def test_a_call_may_ask_eight_questions(shop: Page, client: Onlooker) -> None:
    call = await begin_slow(client, shop)
    for _ in range(8):
        await ask(shop, message="Sure?")
        await client.say(id=(await question(client))["id"], result={"action": "decline"})
        assert await answer(shop) == {"action": "decline"}
    await ask(shop, message="Really?")
    refused = await answer(shop)
    assert refused["code"] == Code.INVALID_REQUEST
    assert "8 elicitations" in refused["message"]
    await shop.evaluate("window.finishSlow()")
    await client.answer_to(call)
    await begin_slow(client, shop)
    await ask(shop, message="And in another call?")
    await question(client)


async def test_a_call_whose_question_the_person_cancels_may_ask_nothing_more(
    shop: Page, client: Onlooker
) -> None:
    await begin_slow(client, shop)
    await ask(shop, message="Sure?")
    await client.say(id=(await question(client))["id"], result={"action": "cancel"})
    assert await answer(shop) == {"action": "cancel"}
    await ask(shop, message="Really?")
    assert "once the user has cancelled" in (await answer(shop))["message"]


async def test_a_long_question_is_cut_and_a_long_form_is_refused(shop: Page, client: Onlooker) -> None:
    await begin_slow(client, shop)
    await ask(shop, message="é" * 5000)
    asked = await question(client)
    assert asked["params"]["message"] == "é" * 1024
    await client.say(id=asked["id"], result={"action": "decline"})
    await answer(shop)
    refusable: list[dict[str, Any]] = [
        {"message": "x", "requestedSchema": {"title": "x" * 64 * 1024}},
        {"message": "x", "requestedSchema": [1]},
        {"message": 7},
        {},
        {"mode": "spoken", "message": "x"},
        {"mode": "url", "message": "x", "url": "https://a.example"},
        {"mode": "url", "message": "x", "url": "", "elicitationId": "1"},
        {"mode": "url", "message": "x", "url": f"https://a.example/{'x' * 8192}", "elicitationId": "1"},
        {"mode": "url", "message": "x", "url": "https://a.example", "elicitationId": "x" * 257},
    ]
    for params in refusable:
        await ask(shop, **params)
        assert (await answer(shop))["code"] == Code.INVALID_PARAMS, params


async def test_an_elicitation_with_a_url_reaches_the_client_with_all_its_members(
    shop: Page, client: Onlooker
) -> None:
    await begin_slow(client, shop)
    params = {"mode": "url", "message": "Pay?", "url": "https://pay.example/é", "elicitationId": "81f2"}
    await ask(shop, **params, requestedSchema={}, more=1)
    asked = await question(client)
    assert asked["params"] == params
    await client.say(id=asked["id"], result={"action": "accept"})
    assert await answer(shop) == {"action": "accept"}


async def test_an_unknown_request_of_a_page_is_rejected(shop: Page, client: Onlooker) -> None:
    await begin_slow(client, shop)
    response = await shop.evaluate("server.request('tasks/list', {})")
    assert response["error"]["code"] == Code.METHOD_NOT_FOUND


# ── Over before it is answered ──────────────────────────────────────────────────────────────────────────────


async def test_when_the_call_is_cancelled_the_page_s_question_fails_and_a_late_answer_is_dropped(
    shop: Page, client: Onlooker
) -> None:
    call = await begin_slow(client, shop)
    await ask(shop, message="How many?")
    asked = await question(client)
    await client.notify("browser/cancel", id=call)
    failed = await answer(shop)
    assert failed["code"] == Code.GONE
    await client.say(id=asked["id"], result={"action": "accept", "content": {}})
    await begin_slow(client, shop)
    await ask(shop, message="Once more?")
    await question(client)  # so that the late answer has come to the extension
    assert await shop.evaluate("window.answer") is None


async def test_when_the_call_ends_its_question_ends(shop: Page, client: Onlooker) -> None:
    call = await begin_slow(client, shop)
    await ask(shop, message="How many?")
    await question(client)
    await shop.evaluate("window.finishSlow()")
    await client.answer_to(call)
    assert (await answer(shop))["code"] == Code.GONE


async def test_when_the_asker_goes_the_page_s_question_fails(
    chain: Chain, shop: Page, client: Onlooker
) -> None:
    async with onlooking(chain) as asker:
        await begin_slow(asker, shop)
        await ask(shop, message="How many?")
        await question(asker)
    assert (await answer(shop))["code"] == Code.GONE


async def test_when_the_worker_is_stopped_the_page_s_question_fails(
    chain: Chain, browser: Chromium, shop: Page, client: Onlooker
) -> None:
    await begin_slow(client, shop)
    await ask(shop, message="How many?")
    await question(client)
    await restart_worker(chain, browser)
    assert (await answer(shop))["code"] == Code.GONE


async def test_a_page_that_navigates_takes_its_question_with_it(
    chain: Chain, shop: Page, client: Onlooker
) -> None:
    call = await begin_slow(client, shop)
    await ask(shop, message="How many?")
    asked = await question(client)
    await shop.load(f"{chain.pages}/tabserver.html?next")
    assert (await client.answer_to(call))["error"]["code"] == Code.NAVIGATED
    await client.say(id=asked["id"], result={"action": "accept", "content": {}})
    frame = await client.until_offered("echo", "next")
    assert await client.call(frame, "echo", text="on") == "echo: on"


async def test_after_two_minutes_the_request_fails_and_the_client_is_notified(browser: Chromium) -> None:
    with trio.fail_after(60):
        page = await browser.open_page(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
        evaluated = await page.evaluate("""import("/worker/client_requests.js").then(async (m) => {
            const { setTimeout } = globalThis;
            let waited;
            globalThis.setTimeout = (act, ms) => { waited = ms / 1000; return setTimeout(act, 1); };
            const questions = new m.Questions();
            const said = [];
            const link = { post: (message) => said.push(message) };
            const signals = { over: new AbortController().signal, cancelled: new AbortController().signal };
            const asked = questions.ask(link, "7f-1:1", { method: "m", params: {} }, signals);
            const error = await asked.catch(({ code }) => code);
            return [[error, questions.answered(link, { id: said[0].id, result: {} })], waited, said];
        })""")
    error, seconds, said = evaluated
    assert error == [Code.TIMED_OUT, False]
    assert seconds == 120
    assert said[1:] == [
        {"jsonrpc": "2.0", "method": "browser/cancelled", "for": "7f-1:1", "params": {"id": said[0]["id"]}}
    ]


# ── Elicitation by a page in a real Chromium, in both protocol eras ─────────────────────────────────────────


FORM = {"type": "object", "properties": {"apples": {"type": "integer", "title": "How many?"}}}
TWO = {"action": "accept", "content": {"apples": 2}}
SOON_S = 30


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_page_in_a_real_browser_hears_the_person(
    chain: Chain, browser: Chromium, mode: str, nursery: trio.Nursery
) -> None:
    asked: list[str] = []
    results: list[mcp_types.CallToolResult] = []

    async def person(context: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"apples": 2})

    async def call(client: mcp.Client) -> None:
        results.append(await client.call_tool(chain.name("slow"), {}))

    with trio.fail_after(3 * SOON_S):
        async with mcp.Client(chain.command, mode=mode, elicitation_callback=person) as client:
            page = await chain.open(browser, "tabserver.html")
            await until_listed(client, lambda names: chain.name("slow") in names)
            nursery.start_soon(call, client)
            await page.wait_until("window.runs === 1")
            question = json.dumps({"message": "Buy?", "requestedSchema": FORM})
            await page.evaluate(
                f"window.answer = null; void server.request('elicitation/create', {question})"
            )
            assert (await page.wait_until("window.answer"))["result"] == TWO
            await page.evaluate("window.finishSlow()")
            await until(lambda: bool(results))
            assert await page.evaluate("window.runs") == 1
    assert asked == [f"{chain.pages} asks: Buy?"]
    assert not results[0].is_error
