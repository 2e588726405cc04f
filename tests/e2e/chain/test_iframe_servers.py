"""MCP-B servers inside iframes answer their parent window alone; they are reached all the same."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
import trio

from demo.chromium import Chromium, Page
from full_chain import EXTENSION, WEBMCP, Chain, serving_pages
from native_host.protocol.wire import MIB, Code
from page_scripts import IsolatedWorld
from socket_observer import Frame, Onlooker, hosts, onlooking, restart_worker
from wire_peers import until

pytestmark = pytest.mark.one_browser


@pytest.fixture
async def client(chain: Chain, browser: Chromium) -> AsyncIterator[Onlooker]:
    with trio.fail_after(60):
        async with onlooking(chain) as client:
            yield client


def nest(chain: Chain, *frames: str) -> str:
    """The URL of a page with these pages in iframes."""
    return f"{chain.pages}/nest.html?{urlencode([('frame', frame) for frame in frames])}"


def other_origin(chain: Chain) -> str:
    """The same pages at another origin, which a browser runs in another process."""
    return chain.pages.replace("localhost", "127.0.0.1")


async def call_of(client: Onlooker, frame: Frame) -> Any:
    return json.loads(await client.call(frame, "whoami"))


@pytest.mark.parametrize("page", ["iframeserver.html", "global.html"])
async def test_a_server_in_an_iframe_of_the_same_site_offers_its_tools_as_the_iframe_s(
    chain: Chain, browser: Chromium, client: Onlooker, page: str
) -> None:
    await browser.open_page(nest(chain, page))
    await client.until(lambda: (client.offering("echo", page) or {}).get("via", {}).get("echo") == "mcp-b")
    frame = await client.until_offered("echo", page)
    assert frame["frameId"] != 0
    assert frame["origin"] == chain.pages
    assert await client.call(frame, "echo", text="hi") == "echo: hi"
    assert await call_of(client, frame) == {"path": f"/{page}", "top": False}


async def test_a_server_in_an_iframe_of_another_site_is_reached_too(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    await browser.open_page(nest(chain, f"{other_origin(chain)}/iframeserver.html"))
    frame = await client.until_offered("echo")
    assert frame["origin"] == other_origin(chain)
    assert await client.call(frame, "echo", text="hi") == "echo: hi"
    assert await client.call(frame, "size", text="x" * (2 * MIB)) == str(2 * MIB)
    assert await client.call(frame, "big", n=2 * MIB) == "x" * (2 * MIB)


async def test_a_server_in_an_iframe_at_another_port_is_reached_too(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    with serving_pages() as other:
        await browser.open_page(nest(chain, f"{other}/iframeserver.html"))
        frame = await client.until_offered("echo")
        assert frame["origin"] == other
        assert await client.call(frame, "echo", text="hi") == "echo: hi"


async def test_the_npm_package_in_an_iframe_is_run_natively_where_the_browser_lists_its_tools(
    chain: Chain,
) -> None:
    with trio.fail_after(60):
        async with chain.browser(flags=[WEBMCP]) as chromium, onlooking(chain) as client:
            await chromium.open_page(nest(chain, "global.html"))
            await client.until(lambda: "serverInfo" in (client.offering("echo") or {}))
            frame = await client.until_offered("echo")
            assert frame["via"]["echo"] == "webmcp"
            assert await client.call(frame, "echo", text="hi") == "echo: hi"


async def test_servers_in_iframes_of_iframes_are_each_their_own_parent_s(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    inner = f"{other_origin(chain)}/nest.html?{urlencode({'frame': f'{chain.pages}/iframeserver.html'})}"
    await browser.open_page(nest(chain, inner))
    frame = await client.until_offered("echo", "iframeserver.html")
    assert frame["origin"] == chain.pages
    assert await client.call(frame, "echo", text="deep") == "echo: deep"


async def test_neighbours_with_equal_tools_do_not_hear_each_other(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    await browser.open_page(nest(chain, "iframeserver.html?one", "iframeserver.html?two"))
    one = await client.until_offered("whoami", "?one")
    two = await client.until_offered("whoami", "?two")
    assert one["frameId"] != two["frameId"]
    for _ in range(3):
        assert (await call_of(client, one))["path"] == "/iframeserver.html?one"
        assert (await call_of(client, two))["path"] == "/iframeserver.html?two"


async def test_a_frame_s_tools_come_and_go_with_it_and_change_like_any(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, "iframeserver.html"))
    await client.until_offered("echo")
    await page.evaluate("frames[0].addTool('extra')")
    frame = await client.until_offered("extra")
    assert await client.call(frame, "extra") == "extra: extra"
    await page.evaluate("document.querySelector('iframe').remove()")
    await client.until(lambda: not client.offering("echo"))


async def test_a_cancelled_call_is_cancelled_in_the_iframe(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, "iframeserver.html"))
    call = await client.begin_call(await client.until_offered("slow"), "slow")
    await page.wait_until("frames[0].runs === 1")
    await client.notify("browser/cancel", id=call)
    await page.wait_until("frames[0].cancelled === 1")


async def test_a_server_in_an_iframe_may_ask_the_person(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, "iframeserver.html"))
    await client.begin_call(await client.until_offered("slow"), "slow")
    await page.wait_until("frames[0].runs === 1")
    await page.evaluate("void frames[0].server.request('elicitation/create', { message: 'Sure?' })")
    while (asked := await client.next_message()).get("method") != "browser/elicitConfirmation":
        pass
    await client.say(id=asked["id"], result={"action": "accept", "content": {}})
    await page.wait_until("frames[0].answer?.result?.action === 'accept'")


# ── Reloads and restarts ────────────────────────────────────────────────────────────────────────────────────


async def test_an_iframe_that_is_reloaded_offers_its_tools_again(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, "iframeserver.html?tools=before"))
    before = await client.until_offered("before")
    await page.evaluate("void (frames[0].location = 'iframeserver.html?tools=after')")
    after = await client.until_offered("after")
    assert after["documentId"] != before["documentId"]
    assert await client.call(after, "after") == "extra: after"
    assert (await client.call(before, "before"))["code"] == Code.NAVIGATED


async def test_an_iframe_that_moves_to_another_site_offers_that_site_s_tools(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, "iframeserver.html?tools=before"))
    await client.until_offered("before")
    target = f"{other_origin(chain)}/iframeserver.html?tools=after"
    await page.evaluate(f"void (document.querySelector('iframe').src = '{target}')")
    after = await client.until_offered("after")
    assert after["origin"] == other_origin(chain)
    assert await client.call(after, "after") == "extra: after"


async def test_a_page_that_is_reloaded_offers_its_iframes_tools_again(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, "iframeserver.html"))
    before = await client.until_offered("echo")
    await page.load(f"{nest(chain, 'iframeserver.html')}&again")
    await client.until(lambda: (client.offering("echo") or before)["documentId"] != before["documentId"])
    assert await client.call(await client.until_offered("echo"), "echo", text="on") == "echo: on"


async def test_the_tools_of_an_iframe_work_again_after_the_worker_was_stopped(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(
        nest(chain, "iframeserver.html", f"{other_origin(chain)}/iframeserver.html")
    )
    await client.until_offered("echo", chain.pages)
    await client.until_offered("echo", other_origin(chain))
    for _ in range(2):
        await restart_worker(chain, browser)
        async with onlooking(chain) as after:
            for site in (chain.pages, other_origin(chain)):
                frame = await after.until_offered("echo", f"{site}/iframeserver")
                while (said := await after.call(frame, "echo", text="on")) != "echo: on":
                    assert said["data"] == {"handed": False}  # the parent has not dialled yet
    assert await page.evaluate("frames[0].runs") == 2


async def test_the_tools_of_an_iframe_are_back_with_a_page_from_the_back_forward_cache(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, "iframeserver.html"))
    await client.until_offered("echo")
    await page.load(f"{chain.pages}/plain.html")
    await client.until(lambda: not client.offering("echo"))
    await page.evaluate("history.back()")
    frame = await client.until_offered("echo")
    while (said := await client.call(frame, "echo", text="on")) != "echo: on":
        assert said["data"] == {"handed": False}


async def test_an_iframe_that_was_there_before_the_extension_is_reached(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, f"{other_origin(chain)}/iframeserver.html"))
    await client.until_offered("echo")
    before = {host.pid for host in hosts(chain)}
    await browser.load_extension(EXTENSION)  # as an update: the scripts that were there are orphans now
    await until(lambda: bool(now := {host.pid for host in hosts(chain)}) and not now & before)
    async with onlooking(chain) as after:
        frame = await after.until_offered("echo")
        assert await after.call(frame, "echo", text="on") == "echo: on"
    assert await page.evaluate("frames.length") == 1


async def test_an_iframe_that_writes_itself_anew_is_reached(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, f"{other_origin(chain)}/iframeserver.html?tools=before"))
    before = await client.until_offered("before")
    scripts = [f'<script src="{source}"></script>' for source in ("tools.js", "tabserver.js")]
    server = "startServer(new Map([['after', extraTool('after')]]), { parent: true })"
    written = json.dumps("".join([*scripts, f"<script>{server}</script>"]))
    await in_iframe(page, f"document.open(); document.write({written}); document.close()")
    after = await client.until_offered("after")
    assert after["documentId"] == before["documentId"]
    assert await client.call(after, "after") == "extra: after"


# ── Pages that mean harm ────────────────────────────────────────────────────────────────────────────────────


STEALING = """addEventListener("message", (event) => {
        if (!event.isTrusted || event.source !== frames[0] || !event.data?.nonce) return;
        const { data } = event;
        window.stolen = data.nonce;
        frames[1].eval(`parent.postMessage(${JSON.stringify(data)}, "*")`);
        dispatchEvent(new MessageEvent("message", { data, source: frames[1] }));
    }, { capture: true });
    const said = heard.filter(({ nonce }) => nonce);
    for (const data of said) frames[1].eval(`parent.postMessage(${JSON.stringify(data)}, "*")`);
    frames[0].postMessage({ channel: "dev.mcpb.frame", ask: true }, "*"); 0"""
"""Say what another site's frame says again, as one of our own."""


async def test_a_page_cannot_put_its_own_frame_in_the_place_of_another_site_s(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    bank = other_origin(chain)
    theirs, ours = f"{bank}/iframeserver.html?tools=pay", "iframeserver.html?tools=pay,decoy"
    page = await browser.open_page(nest(chain, theirs, ours))
    frame = await client.until_offered("pay", bank)
    await client.until_offered("decoy")
    await page.evaluate(STEALING)
    assert await client.call(frame, "pay") == "extra: pay"
    await restart_worker(chain, browser)  # so that they introduce themselves once more
    async with onlooking(chain) as after:
        await page.wait_until("window.stolen")
        await after.until_offered("decoy")
        frame = await after.until_offered("pay", bank)
        for _ in range(5):
            while (said := await after.call(frame, "pay")) != "extra: pay":
                assert said["data"] == {"handed": False}
        assert [tool["name"] for tool in frame["tools"]] == ["pay"]
    assert await page.evaluate("frames[1].runs") == 0


async def test_a_made_up_answer_of_the_parent_page_is_not_the_server_s(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, "iframeserver.html"))
    frame = await client.until_offered("slow")
    call = await client.begin_call(frame, "slow")
    await page.wait_until("frames[0].runs === 1")
    await page.evaluate("""const result = { content: [{ type: "text", text: "made up" }] };
        const payload = { jsonrpc: "2.0", id: frames[0].lastCall.id, result };
        const data = { channel: "mcp-iframe", type: "mcp", direction: "server-to-client", payload };
        dispatchEvent(new MessageEvent("message", { data, source: frames[0] }));
        postMessage(data, "*"); 0""")
    await page.evaluate("frames[0].finishSlow()")
    answered = await client.answer_to(call)
    assert "slow: done" in json.dumps(answered)


async def test_a_request_for_the_document_before_never_reaches_its_successor(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, "iframeserver.html"))
    await client.until_offered("echo")
    await page.evaluate("""const params = { name: "echo", arguments: { text: "x" } };
        const payload = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
        const about = { channel: "mcp-iframe", type: "mcp", direction: "client-to-server" };
        frames[0].postMessage({ ...about, nonce: "of the one before", payload }, "*")""")
    assert await client.call(await client.until_offered("echo"), "echo", text="on") == "echo: on"
    assert await page.evaluate("frames[0].runs") == 1


def forging(chain: Chain, frame: str, *flags: str) -> str:
    """The URL of a page that forges what the server in its iframe says."""
    return f"{chain.pages}/forging.html?{urlencode([('frame', frame), *((flag, '') for flag in flags)])}"


async def begin_slow(client: Onlooker, page: Page) -> None:
    """Call `slow` with the id "slow", and wait until the page has heard of it and forged an answer."""
    frame = await client.until_offered("slow")
    address = {name: frame[name] for name in ("tabId", "frameId", "documentId")}
    params = {**address, "toolName": "slow", "args": {}, "wantsProgress": True}
    forged = await page.evaluate("window.forged")
    await client.say(id="slow", method="browser/executeTool", params=params)
    await page.wait_until(f"window.forged > {forged}")


async def in_iframe(page: Page, script: str) -> None:
    """Let the first iframe run this, whatever its origin."""
    await page.evaluate(f"frames[0].postMessage({json.dumps({'run': script})}, '*')")


@pytest.mark.parametrize("flags", [(), ("stopping",)])
async def test_a_page_cannot_announce_tools_in_the_name_of_another_site_s_iframe(
    chain: Chain, browser: Chromium, client: Onlooker, flags: tuple[str, ...]
) -> None:
    bank = other_origin(chain)
    page = await browser.open_page(forging(chain, f"{bank}/iframeserver.html?tools=pay", *flags))
    frame = await client.until_offered("pay", bank)
    await page.wait_until("window.forged")
    assert await client.call(frame, "pay") == "extra: pay"
    await in_iframe(page, "addTool('more')")  # so that everybody is listed once more, and waited for
    listed = await client.until_offered("more")
    assert [tool["name"] for tool in listed["tools"]] == ["pay", "more"]


async def test_a_page_that_hears_a_call_s_progress_cannot_answer_it(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(forging(chain, f"{other_origin(chain)}/iframeserver.html"))
    await begin_slow(client, page)
    await in_iframe(page, "finishSlow()")
    assert "slow: done" in json.dumps(await client.answer_to("slow"))


async def test_a_page_cannot_say_that_the_server_in_another_site_s_iframe_has_stopped(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(forging(chain, f"{other_origin(chain)}/iframeserver.html"))
    await begin_slow(client, page)
    await page.evaluate("say('mcp-server-stopped')")
    await in_iframe(page, "setTimeout(() => finishSlow(), 300)")  # later than a call outlives its server
    assert "slow: done" in json.dumps(await client.answer_to("slow"))


async def test_a_page_cannot_ask_the_person_in_the_name_of_another_site_s_iframe(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(forging(chain, f"{other_origin(chain)}/iframeserver.html"))
    await begin_slow(client, page)
    asking = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "Your PIN?"}}
    await page.evaluate(f"say({json.dumps(asking)})")
    await in_iframe(page, "server.request('elicitation/create', { message: 'Sure?' })")
    while (asked := await client.next_message()).get("method") != "browser/elicitConfirmation":
        pass
    assert asked["params"]["message"] == "Sure?"  # the same way, and later


async def test_what_a_sandboxed_iframe_is_called_with_does_not_reach_its_neighbour(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(forging(chain, f"{chain.pages}/iframeserver.html", "sandboxed"))
    frame = await client.until_offered("echo")
    assert frame["origin"] == "null"
    assert await client.call(frame, "echo", text="a secret") == "echo: a secret"
    assert "a secret" not in "".join(await page.evaluate("frames[1].heard"))


FLOODING = """frames[0].eval(`setInterval(() => {
        server.log("x");
        server.changed();
        parent.postMessage({ channel: "dev.mcpb.frame", nonce: String(Math.random()) }, "*");
        parent.postMessage({ channel: "mcp-iframe", type: "mcp", direction: "server-to-client",
            payload: { jsonrpc: "2.0", id: Math.random(), result: {} } }, "*");
    }, 4)`); 0"""
COUNTED = """globalThis.passed = { "from-child": 0, "child-frame": 0 };
    const connect = chrome.runtime.connect.bind(chrome.runtime);
    chrome.runtime.connect = (info) => {
        const port = connect(info);
        const post = port.postMessage.bind(port);
        port.postMessage = (message) => { passed[message.type] += 1; post(message); };
        return port;
    }; 0"""
"""How much of it goes to the worker, over the next port."""


async def test_a_frame_that_floods_its_parent_reaches_the_worker_as_a_trickle(
    chain: Chain, browser: Chromium, client: Onlooker
) -> None:
    page = await browser.open_page(nest(chain, "iframeserver.html"))
    await client.until_offered("echo")
    world = await IsolatedWorld.of(browser, page)
    await world.evaluate(COUNTED)
    await restart_worker(chain, browser)
    while await world.evaluate("passed['from-child']") == 0:  # noqa: ASYNC110 - the page tells nobody
        await trio.sleep(0.02)
    await page.evaluate(FLOODING)
    start = await world.evaluate("performance.now()")
    await trio.sleep(1)  # of flood: what is measured, not waited for
    seconds = (await world.evaluate("performance.now()") - start) / 1000
    assert await world.evaluate("passed['child-frame']") <= 10 * (seconds + 2)
    # Ten a second by itself, ten changes of its list, and the answers to those who list it then.
    assert await world.evaluate("passed['from-child']") <= 30 * (seconds + 2)
