"""Requests of a page to the client of its call: sampling, roots, cancellation, and limits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
import trio

from demo.chromium import Chromium, Page
from full_chain import Chain
from native_host.protocol.wire import MIB, Code
from socket_observer import Onlooker, onlooking, restart_worker, text_of

pytestmark = pytest.mark.one_browser

SAMPLING = "sampling/createMessage"
MESSAGES = [{"role": "user", "content": {"type": "text", "text": "Sum this cart up in one line."}}]
PARAMS: dict[str, Any] = {"messages": MESSAGES, "maxTokens": 60, "temperature": "hot", "_meta": {"a": [None]}}
RESULT = {
    "role": "assistant",
    "content": {"type": "text", "text": "€1.20"},
    "model": "m",
    "odd": [1, {"b": 2}],
}
ROOTS = {"roots": [{"uri": "file:///a", "name": "A"}], "_meta": {"b": 1}}
PAGE_REQUESTS = ("browser/pageRequest", "browser/elicitConfirmation")


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


async def send(shop: Page, request_id: int | str, method: str = SAMPLING, params: Any = None) -> None:
    """Let the page send a request, without waiting for the response."""
    values = ", ".join(map(json.dumps, (method, params or {}, request_id)))
    await shop.evaluate(f"void server.request({values})")


async def request_of_page(client: Onlooker) -> dict[str, Any]:
    while (message := await client.next_message()).get("method") not in PAGE_REQUESTS:
        pass
    return message


async def cancellation(client: Onlooker) -> dict[str, Any]:
    while (message := await client.next_message()).get("method") != "browser/cancelled":
        assert message.get("method") not in PAGE_REQUESTS
    return message


async def response(shop: Page, request_id: int | str) -> dict[str, Any]:
    """The response to a request of the page, of which there is exactly one."""
    found = f"window.responses.filter(({{ id }}) => id === {json.dumps(request_id)})"
    await shop.wait_until(f"{found}.length > 0")
    responses: list[dict[str, Any]] = await shop.evaluate(found)
    assert len(responses) == 1
    return responses[0]


async def error_of(shop: Page, request_id: int | str) -> dict[str, Any]:
    error: dict[str, Any] = (await response(shop, request_id))["error"]
    return error


# ── Sent and answered ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "params", "result"), [(SAMPLING, PARAMS, RESULT), ("roots/list", {}, ROOTS)]
)
async def test_a_request_reaches_the_client_of_the_call_and_its_result_the_page_unchanged(
    shop: Page, client: Onlooker, method: str, params: dict[str, Any], result: dict[str, Any]
) -> None:
    call = await begin_slow(client, shop)
    await send(shop, 0, method, params)
    asked = await request_of_page(client)
    assert (asked["method"], asked["for"]) == ("browser/pageRequest", call)
    assert asked["params"] == {"method": method, "params": params}
    await client.say(id=asked["id"], result=result)
    assert await response(shop, 0) == {"jsonrpc": "2.0", "id": 0, "result": result}
    await shop.evaluate("window.finishSlow()")
    assert text_of((await client.answer_to(call))["result"]) == "slow: done"


async def test_a_page_that_reads_a_resource_may_send_requests_meanwhile(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await chain.open(browser, "hostile_primitives.html")
    frame = await client.until_offered("echo", "hostile_primitives")
    address = {name: frame[name] for name in ("tabId", "frameId", "documentId")}
    read = {"method": "resources/read", "params": {"uri": "x:never"}}
    await client.say(id="read", method="browser/mcp", params=address | read)
    await page.wait_until("asked.includes('x:never')")
    await send(page, 0)
    asked = await request_of_page(client)
    assert asked["for"] == "read"
    await client.say(id=asked["id"], result=RESULT)
    assert (await response(page, 0))["result"] == RESULT


async def test_an_error_of_the_client_reaches_the_page_and_so_does_a_result_that_is_no_object(
    shop: Page, client: Onlooker
) -> None:
    await begin_slow(client, shop)
    await send(shop, 0)
    failure = {"code": -32601, "message": "no model here", "data": {"capability": "sampling"}}
    await client.say(id=(await request_of_page(client))["id"], error=failure)
    assert await error_of(shop, 0) == {"code": -32601, "message": "no model here"}
    senseless: list[Any] = [[], "accept", None, 7]
    for number, result in enumerate(senseless, start=1):
        await send(shop, number)
        await client.say(id=(await request_of_page(client))["id"], result=result)
        assert (await error_of(shop, number))["code"] == Code.INTERNAL_ERROR, result


async def test_a_page_that_is_made_for_it_sends_three_requests_at_once(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    await chain.open(browser, "requests.html")
    call = await client.begin_call(await client.until_offered("everything"), "everything")
    results: dict[str, Any] = {"elicitation": {"action": "decline"}, SAMPLING: RESULT, "roots/list": ROOTS}
    for _ in range(3):
        asked = await request_of_page(client)
        assert asked["for"] == call
        await client.say(id=asked["id"], result=results[asked["params"].get("method", "elicitation")])
    said = json.loads(text_of((await client.answer_to(call))["result"]))
    assert said == [{"action": "decline"}, RESULT, ROOTS]


# ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_four_requests_of_a_call_are_open_at_once_and_the_fifth_is_rejected(
    shop: Page, client: Onlooker
) -> None:
    await begin_slow(client, shop)
    methods = [SAMPLING, "roots/list", "elicitation/create", SAMPLING]
    asked = []
    for number, method in enumerate(methods):
        await send(shop, number, method, {"message": "x"})
        asked.append(await request_of_page(client))
    await send(shop, 4)
    assert await error_of(shop, 4) == {
        "code": Code.INVALID_REQUEST,
        "message": "A call may have 4 open requests to its client.",
    }
    await client.say(id=asked[3]["id"], result=RESULT)
    assert (await response(shop, 3))["result"] == RESULT
    await send(shop, 5)
    assert (await request_of_page(client))["params"]["method"] == SAMPLING
    assert await shop.evaluate("responses.map(({ id }) => id)") == [4, 3]


async def test_a_call_may_send_twenty_requests(shop: Page, client: Onlooker) -> None:
    await begin_slow(client, shop)
    for number in range(20):
        await send(shop, number, "roots/list")
        await client.say(id=(await request_of_page(client))["id"], result=ROOTS)
        await response(shop, number)
    await send(shop, 20, "roots/list")
    assert "20 requests" in (await error_of(shop, 20))["message"]


async def test_five_megabytes_are_rejected_with_the_limit(shop: Page, client: Onlooker) -> None:
    await begin_slow(client, shop)
    await shop.evaluate(
        f"void server.request('{SAMPLING}', {{ messages: ['x'.repeat({5 * MIB})] }}, 0),"
        f"void server.request('{SAMPLING}', {{ messages: ['x'.repeat({4 * MIB - 20})] }}, 1)"
    )
    error = await error_of(shop, 0)
    assert error["code"] == Code.INVALID_PARAMS
    assert str(4 * MIB) in error["message"]
    assert len((await request_of_page(client))["params"]["params"]["messages"][0]) == 4 * MIB - 20


async def test_of_a_hundred_requests_at_once_each_is_answered_and_four_reach_the_client(
    chain: Chain, browser: Chromium, shop: Page, client: Onlooker
) -> None:
    await begin_slow(client, shop)
    await shop.evaluate(f"for (let id = 0; id < 100; id++) void server.request('{SAMPLING}', {{}}, id)")
    asked = [await request_of_page(client) for _ in range(4)]
    await shop.wait_until("responses.length === 96")
    rejected = await shop.evaluate("responses.map(({ error }) => [error.code, error.message])")
    assert {code for code, _ in rejected} == {Code.INVALID_REQUEST}
    assert {text for _, text in rejected} == {
        "A call may have 4 open requests to its client.",
        "At most 8 requests of a page can be open.",
    }
    for each in asked:
        await client.say(id=each["id"], result=RESULT)
    await shop.wait_until("responses.filter(({ result }) => result).length === 4")
    await chain.open(browser, "tabserver.html?other")
    assert await client.call(await client.until_offered("echo", "?other"), "echo", text="on") == "echo: on"


async def test_a_request_after_the_call_has_ended_is_rejected(shop: Page, client: Onlooker) -> None:
    call = await begin_slow(client, shop)
    await shop.evaluate("window.finishSlow()")
    await client.answer_to(call)
    await send(shop, 0)
    error = await error_of(shop, 0)
    assert error["code"] == Code.INVALID_REQUEST
    assert "no call runs" in error["message"]


async def test_what_is_nested_too_deeply_to_be_read_is_rejected(shop: Page, client: Onlooker) -> None:
    await begin_slow(client, shop)
    await shop.evaluate(
        f"void server.request('{SAMPLING}', JSON.parse('{{\"in\":'.repeat(300) + '1' + '}}'.repeat(300)), 0)"
    )
    error = await error_of(shop, 0)
    assert error["code"] == Code.TOO_LARGE
    assert "200 levels" in error["message"]


async def test_what_is_no_id_of_a_request_is_ignored(shop: Page, client: Onlooker) -> None:
    await begin_slow(client, shop)
    for request_id in ("null", "{}", "'x'.repeat(2000)", "[]"):
        await shop.evaluate(f"void server.request('{SAMPLING}', {{}}, {request_id})")
    await send(shop, 0)
    await client.say(id=(await request_of_page(client))["id"], result=RESULT)
    await response(shop, 0)
    assert await shop.evaluate("responses.length") == 1


# ── Cancelled by the page ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("request_id", [0, "0"])
async def test_a_cancellation_reaches_the_client_and_its_late_answer_is_ignored(
    shop: Page, client: Onlooker, request_id: int | str
) -> None:
    call = await begin_slow(client, shop)
    await send(shop, request_id)
    asked = await request_of_page(client)
    other_type = str(request_id) if isinstance(request_id, int) else int(request_id)
    await shop.evaluate(f"server.cancel({json.dumps(other_type)}), server.cancel('unknown')")
    await send(shop, "second")
    second = await request_of_page(client)  # an id of the other type has cancelled nothing
    await shop.evaluate(f"server.cancel({json.dumps(request_id)})")
    cancelled = await cancellation(client)
    assert (cancelled["for"], cancelled["params"]) == (call, {"id": asked["id"]})
    await client.say(id=asked["id"], result=RESULT)
    await client.say(id=second["id"], result=RESULT)
    await response(shop, "second")
    assert await shop.evaluate("responses.map(({ id }) => id)") == ["second"]


async def test_a_cancelled_request_makes_room_for_another_and_counts(shop: Page, client: Onlooker) -> None:
    await begin_slow(client, shop)
    for number in range(20):
        await send(shop, number)
        await request_of_page(client)
        await shop.evaluate(f"server.cancel({number})")
        await cancellation(client)
    await send(shop, 20)
    assert "20 requests" in (await error_of(shop, 20))["message"]


async def test_a_page_that_cancels_in_a_loop_stays_within_its_limits(shop: Page, client: Onlooker) -> None:
    await begin_slow(client, shop)
    loop = f"void server.request('{SAMPLING}', {{}}, id), server.cancel(id)"
    await shop.evaluate(f"for (let id = 0; id < 5000; id++) {loop}; server.log('last')")
    heard: list[str] = []
    while heard[-1:] != ["browser/pageNotification"]:
        heard.append((await client.next_message()).get("method", ""))
    assert 0 < heard.count("browser/pageRequest") == heard.count("browser/cancelled") <= 20


async def test_a_cancellation_is_no_notification_to_other_clients(
    chain: Chain, shop: Page, client: Onlooker
) -> None:
    async with onlooking(chain) as other:
        await begin_slow(client, shop)
        await send(shop, 0)
        await request_of_page(client)
        await shop.evaluate("server.cancel(0)")
        await cancellation(client)
        for method in (
            "cancelled",
            "x",
            "progress",
            "resources/updated",
            "tasks/list_changed",
            "elicitation/complete",
        ):
            await shop.evaluate(f"server.notify('notifications/{method}', {{}})")
        await shop.evaluate("server.log('last')")
        heard: list[str] = []
        while heard[-1:] != ["notifications/message"]:
            message = await other.next_message()
            assert message.get("method") not in (*PAGE_REQUESTS, "browser/cancelled")
            if message.get("method") == "browser/pageNotification":
                heard.append(message["params"]["method"])
    assert heard == ["notifications/elicitation/complete", "notifications/message"]


async def test_a_server_that_stops_takes_its_requests_with_it(shop: Page, client: Onlooker) -> None:
    call = await begin_slow(client, shop)
    await send(shop, 0)
    asked = await request_of_page(client)
    await shop.evaluate("server.stop()")
    assert (await cancellation(client))["params"] == {"id": asked["id"]}
    assert (await client.answer_to(call))["error"]["code"] == Code.NAVIGATED


@pytest.mark.parametrize("end", ["the call is cancelled", "the client leaves", "the worker is stopped"])
async def test_however_its_call_ends_a_request_fails(
    chain: Chain, browser: Chromium, shop: Page, client: Onlooker, end: str
) -> None:
    async with onlooking(chain) as asker:
        await client.until_offered("slow")
        runs = await shop.evaluate("window.runs")
        call = await asker.begin_call(await client.until_offered("slow"), "slow")
        await shop.wait_until(f"window.runs === {runs + 1}")
        await send(shop, 0)
        asked = await request_of_page(asker)
        match end:
            case "the call is cancelled":
                await asker.notify("browser/cancel", id=call)
                await asker.say(id=asked["id"], result=RESULT)
            case "the client leaves":
                await asker.stream.aclose()
            case _:
                await restart_worker(chain, browser)
        assert (await error_of(shop, 0))["code"] == Code.GONE


# ── Servers in iframes ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def nest(chain: Chain, browser: Chromium, client: Onlooker) -> Page:
    """A page with a server in an iframe, at work."""
    page = await browser.open_page(f"{chain.pages}/nest.html?{urlencode({'frame': 'iframeserver.html'})}")
    await client.begin_call(await client.until_offered("slow"), "slow")
    await page.wait_until("frames[0].runs === 1")
    return page


async def test_requests_of_a_server_in_an_iframe_are_sent_answered_and_cancelled_alike(
    nest: Page, client: Onlooker
) -> None:
    long = f"'x'.repeat({2 * MIB})"
    await nest.evaluate(f"void frames[0].server.request('{SAMPLING}', {{ messages: [{long}] }}, 0)")
    asked = await request_of_page(client)
    assert len(asked["params"]["params"]["messages"][0]) == 2 * MIB
    await client.say(id=asked["id"], result=RESULT)
    await nest.wait_until("frames[0].responses.length === 1")
    assert await nest.evaluate("frames[0].responses[0].result") == RESULT

    await nest.evaluate("void frames[0].server.request('roots/list', {}, 1)")
    asked = await request_of_page(client)
    await nest.evaluate("frames[0].server.cancel('1'), frames[0].server.cancel(1)")
    assert (await cancellation(client))["params"] == {"id": asked["id"]}
    await nest.evaluate("void frames[0].server.request('ping', {}, 2)")
    await nest.wait_until("frames[0].responses.length === 2")
    assert await nest.evaluate("frames[0].responses[1]") == {"jsonrpc": "2.0", "id": 2, "result": {}}


async def test_each_request_of_a_flood_from_an_iframe_is_answered(nest: Page, client: Onlooker) -> None:
    await nest.evaluate(
        f"void frames[0].server.request('{SAMPLING}', {{ messages: ['x'.repeat({5 * MIB})] }}, 'a')"
    )
    await nest.wait_until("frames[0].responses.length === 1")
    error = await nest.evaluate("frames[0].responses[0].error")
    assert (error["code"], str(4 * MIB) in error["message"]) == (Code.INVALID_PARAMS, True)
    await nest.evaluate(
        "for (let id = 0; id < 100; id++) void frames[0].server.request('roots/list', {}, id)"
    )
    asked = [await request_of_page(client) for _ in range(4)]
    await nest.wait_until("frames[0].responses.length === 97")
    for each in asked:
        await client.say(id=each["id"], result=ROOTS)
    await nest.wait_until("frames[0].responses.length === 101")


# ── The npm package ─────────────────────────────────────────────────────────────────────────────────────────


async def test_the_npm_package_sends_and_cancels_requests(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await chain.open(browser, "global.html")
    await client.begin_call(await client.until_offered("slow"), "slow")
    await page.wait_until("window.runs === 1")
    params = {
        "messages": MESSAGES,
        "maxTokens": 60,
        "tools": [{"name": "a", "inputSchema": {"type": "object"}}],
    }
    await page.evaluate("window.mcp = document.modelContext.mcpServer.server; 0")
    await page.evaluate(f"void mcp.createMessage({json.dumps(params)}).then((it) => (window.said = it))")
    asked = await request_of_page(client)
    assert asked["params"] == {"method": SAMPLING, "params": params}
    result = {"role": "assistant", "content": {"type": "text", "text": "ok"}, "model": "m"}
    await client.say(id=asked["id"], result=result)
    assert await page.wait_until("window.said") == result

    link = {"mode": "url", "message": "Pay?", "url": "https://pay.example/", "elicitationId": "1"}
    await page.evaluate(
        "window.abort = new AbortController();"
        f"void mcp.elicitInput({json.dumps(link)}, {{ signal: abort.signal }}).catch(() => {{}})"
    )
    asked = await request_of_page(client)
    assert asked["params"] == link
    await page.evaluate("abort.abort('enough')")
    assert (await cancellation(client))["params"] == {"id": asked["id"]}
