"""Tools that a client offers to a page: registered with the browser's own WebMCP, called, and withdrawn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from demo.chromium import Chromium, Page
from full_chain import EXTENSION, WEBMCP, Chain
from native_host.protocol.wire import EXTENSION_ID, MIB, Code
from popup_states import worker_of
from shared_browser import SharedBrowser, open_shared_browser
from socket_observer import Onlooker, hosts, restart_worker
from wire_peers import until

pytestmark = pytest.mark.one_browser

INSECURE = "shop.test"
"""A host name of this machine without WebMCP: pages over plain HTTP have it on localhost only."""
SEARCH = {
    "name": "orders.search",
    "title": "Search",
    "description": "Search the orders",
    "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
    "annotations": {"readOnlyHint": True, "untrustedContentHint": True},
}
COUNT = {"name": "orders.count", "description": "Count the orders"}
LISTED = "document.modelContext.getTools().then((tools) => tools.map(({ name }) => name).sort())"


@pytest.fixture(scope="module")
def browser_of_file() -> Iterator[SharedBrowser]:
    """A browser that has WebMCP switched on."""
    with open_shared_browser([WEBMCP, f"--host-resolver-rules=MAP {INSECURE} 127.0.0.1"]) as shared:
        yield shared


class Offering(Onlooker):
    """A client that offers tools, whose request ids are given by the test."""

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self.announced: set[str] = set()
        """Names of all tools that any page has announced."""
        self.responses: dict[int, dict[str, Any]] = {}

    async def next_message(self) -> dict[str, Any]:
        message = await super().next_message()
        if message.get("method") in ("browser/registerTools", "browser/updateTools"):
            self.announced |= {tool["name"] for tool in message["params"]["tools"]}
        if "method" not in message:
            self.responses[message["id"]] = message
        return message

    async def until_ended(self, number: int) -> dict[str, Any]:
        """The response to an offer. Bound it."""
        await self.until(lambda: number in self.responses)
        return self.responses[number]

    async def until_page(self, path: str) -> dict[str, Any]:
        """The address of the document at an address with this in it. Bound it."""

        def found() -> list[dict[str, Any]]:
            return [frame for frame in self.frames.values() if path in frame["url"]]

        await self.until(found)
        return {name: found()[0][name] for name in ("tabId", "frameId", "documentId")}

    async def offer(
        self, number: int, page: dict[str, Any], *tools: dict[str, Any], server: str = "orders"
    ) -> dict[str, Any]:
        """Offer tools; the state that the extension reports."""
        await self.say(
            id=number, method="browser/offerTools", params={**page, "server": server, "tools": tools}
        )
        return await self.state(number)

    async def state(self, number: int) -> dict[str, Any]:
        """The next state of an offer, or its error."""
        while True:
            message = await self.next_message()
            if message.get("method") == "browser/offered" and message["for"] == number:
                params: dict[str, Any] = message["params"]
                return params
            if message.get("id") == number and "method" not in message:
                error: dict[str, Any] = message["error"]
                return error

    async def called(self) -> dict[str, Any]:
        """The next call of the page."""
        while (message := await self.next_message()).get("method") != "browser/offeredCall":
            pass
        return message


@asynccontextmanager
async def offering(chain: Chain) -> AsyncIterator[Offering]:
    await until(lambda: len(hosts(chain)) == 1)
    async with Offering.connected(chain.home / "run", hosts(chain)[0].instance) as client:
        yield client


@pytest.fixture
async def client(chain: Chain, browser: Chromium) -> AsyncIterator[Offering]:
    with trio.fail_after(60):
        async with offering(chain) as client:
            yield client


@pytest.fixture
async def page(chain: Chain, browser: Chromium) -> Page:
    return await chain.open(browser, "plain.html")


async def begin_call(page: Page, name: str = "orders.search", **args: Any) -> None:
    """Let the page call a tool; `window.outcome` has the result, or the error's name."""
    values = f"[{json.dumps(name)}, {json.dumps(json.dumps(args))}]"
    await page.evaluate(f"""{{
        window.outcome = undefined;
        const [wanted, args] = {values};
        void document.modelContext.getTools()
            .then((tools) => tools.find(({{ name }}) => name === wanted))
            .then((tool) => document.modelContext.executeTool(tool, args))
            .then((text) => (window.outcome = text), (error) => (window.outcome = error.name));
    }}""")


async def until_listed(page: Page, *names: str) -> None:
    """Wait until the page has these tools."""
    await page.wait_until(f"{LISTED}.then((names) => names.join() === {json.dumps(','.join(names))})")


# ── Offered and called ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_page_has_the_offered_tools_and_gets_the_client_s_text(
    chain: Chain, client: Offering, page: Page
) -> None:
    assert "browser/offerTools" in client.hello["capabilities"]["commands"]
    document = await client.until_page("plain.html")
    state = await client.offer(40, document, SEARCH, {**COUNT, "url": "https://secret.example"})
    assert state == {"active": True, "names": ["orders.search", "orders.count"], "leftOut": []}
    tools = await page.evaluate(
        "document.modelContext.getTools().then((tools) => tools.map(({ window, ...tool }) => tool))"
    )
    assert {tool.pop("origin") for tool in tools} == {chain.pages}
    count, search = sorted(tools, key=lambda tool: str(tool["name"]))
    search["inputSchema"] = json.loads(search["inputSchema"])
    assert search == SEARCH
    assert "secret" not in json.dumps(count)
    await begin_call(page, q="tea")
    call = await client.called()
    assert call["for"] == 40
    assert call["params"] == {"name": "orders.search", "args": {"q": "tea"}}
    await client.say(id=call["id"], result={"text": "2 orders"})
    assert await page.wait_until("window.outcome") == "2 orders"


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": Code.RATE_LIMITED, "message": "Too many.", "data": {"handed": False}}},
        {"result": {"text": 7}},
    ],
)
async def test_a_call_that_fails_is_rejected_in_the_page(
    client: Offering, page: Page, answer: dict[str, Any]
) -> None:
    await client.offer(40, await client.until_page("plain.html"), SEARCH)
    await begin_call(page)
    await client.say(id=(await client.called())["id"], **answer)
    assert await page.wait_until("window.outcome") == "UnknownError"


async def test_a_page_has_a_limited_number_of_calls(client: Offering, page: Page) -> None:
    await client.offer(40, await client.until_page("plain.html"), SEARCH)
    long = "x" * MIB
    await page.evaluate(f"""document.modelContext.getTools().then(([tool]) => {{
        const call = (args) => document.modelContext.executeTool(tool, JSON.stringify(args))
            .then((text) => answers.push(text), () => (rejected += 1));
        window.answers = [];
        window.rejected = 0;
        void call({{ q: {json.dumps(long)} }});
        for (let index = 0; index < 40; index += 1) void call({{ index }});
    }})""")
    calls = [await client.called() for _ in range(32)]
    assert [call["params"]["args"]["index"] for call in calls] == list(range(32))
    await page.wait_until("window.rejected === 9")
    for call in calls:
        await client.say(id=call["id"], result={"text": "done"})
    await page.wait_until("window.answers.length === 32")


@pytest.mark.parametrize("path", ["native.html", "global.html"])
async def test_offered_tools_are_never_announced_and_never_run_for_clients(
    chain: Chain, browser: Chromium, client: Offering, path: str
) -> None:
    page = await chain.open(browser, path)
    frame = await client.until_offered("echo", path)
    own = {tool["name"] for tool in frame["tools"]}
    document = await client.until_page(path)
    assert (await client.offer(40, document, SEARCH, COUNT))["names"] == ["orders.search", "orders.count"]
    await page.evaluate("void addTool('extra')")
    await client.until_offered("extra", path)
    await client.offer(41, document, COUNT)
    await page.evaluate("removeTool('extra')")
    await client.until(lambda: not client.offering("extra"))
    await client.notify("browser/cancel", id=41)
    await page.evaluate("void addTool('extra')")
    frame = await client.until_offered("extra", path)
    assert {tool["name"] for tool in frame["tools"]} == own | {"extra"}
    assert client.announced <= own | {"extra"}
    await client.offer(42, document, SEARCH)
    error = await client.call(frame, "orders.search")
    assert (error["code"], error["data"]) == (Code.NO_LONGER_OFFERED, {"handed": False})


async def test_a_frame_that_relays_the_tools_of_another_frame_does_not_announce_offered_ones(
    chain: Chain, browser: Chromium, client: Offering, page: Page
) -> None:
    document = await client.until_page("plain.html")
    await client.offer(40, document, SEARCH)
    await page.evaluate(
        "void document.body.append(Object.assign(document.createElement('iframe'), { src: 'global.html' }))"
    )
    await client.until_offered("echo", "global.html")
    state = await client.offer(41, document, SEARCH, COUNT, {"name": "echo", "description": "Another one"})
    assert state["names"] == ["orders.search", "orders.count"]
    assert [each["name"] for each in state["leftOut"]] == ["echo"]
    await page.evaluate("void document.querySelector('iframe').contentWindow.addTool('extra')")
    frame = await client.until_offered("extra", "global.html")
    assert not client.announced & {"orders.search", "orders.count"}
    error = await client.call(frame, "orders.search")
    assert (error["code"], error["data"]) == (Code.NO_LONGER_OFFERED, {"handed": False})


@pytest.mark.parametrize("path", ["native.html", "tabserver.html"])
async def test_names_that_cannot_be_registered_are_left_out_and_the_page_s_tool_stays(
    chain: Chain, browser: Chromium, client: Offering, path: str
) -> None:
    page = await chain.open(browser, path)
    frame = await client.until_offered("echo", path)
    tools: list[dict[str, Any]] = [
        {"name": "echo", "description": "Another one"},
        {"name": "orders.find all", "description": "Find"},
        SEARCH,
        SEARCH,
        {**COUNT, "description": "x" * MIB},
    ]
    document = await client.until_page(path)
    state = await client.offer(40, document, *tools)
    assert state["names"] == ["orders.search"]
    assert {each["name"]: bool(each["why"]) for each in state["leftOut"]} == {
        "echo": True,
        "orders.find all": True,
        "orders.search": True,
        "orders.count": True,
    }
    other = await client.offer(41, document, SEARCH, server="other")
    assert (other["names"], [each["name"] for each in other["leftOut"]]) == ([], ["orders.search"])
    await page.evaluate("void addTool('extra')")
    frame = await client.until_offered("extra", path)
    assert await client.call(frame, "echo", text="hi") == "echo: hi"


async def test_an_offer_is_replaced_and_the_first_ends_with_its_last_call(
    client: Offering, page: Page
) -> None:
    document = await client.until_page("plain.html")
    await client.offer(40, document, SEARCH, COUNT)
    await begin_call(page)
    call = await client.called()
    extra = {"name": "orders.extra", "description": "Extra"}
    state = await client.offer(41, document, SEARCH, extra)
    assert state["names"] == ["orders.search", "orders.extra"]
    await until_listed(page, "orders.extra", "orders.search")
    await client.say(id=call["id"], result={"text": "of the first"})
    assert (await client.until_ended(40))["result"] == {}
    assert await page.wait_until("window.outcome") == "of the first"
    await begin_call(page)
    assert (await client.called())["for"] == 41
    await client.offer(42, document, SEARCH)
    await client.offer(43, document)
    assert (await client.until_ended(42))["result"] == {}
    await until_listed(page)


# ── Several clients ─────────────────────────────────────────────────────────────────────────────────────────


async def test_offers_of_other_clients_wait_and_take_over_in_order(
    chain: Chain, client: Offering, page: Page
) -> None:
    async with offering(chain) as second, offering(chain) as third:
        document = await client.until_page("plain.html")
        async with offering(chain) as first:
            await first.offer(1, document, SEARCH)
            waiting = {"active": False, "names": [], "leftOut": []}
            assert await second.offer(2, document, COUNT, SEARCH) == waiting
            assert await third.offer(3, document, SEARCH) == waiting
            assert (await client.offer(4, document, {**COUNT, "name": "x"}, server="other"))["active"]
            await begin_call(page)
            await first.called()
        state = await second.state(2)
        assert state == {"active": True, "names": ["orders.count", "orders.search"], "leftOut": []}
        assert await page.wait_until("window.outcome") == "UnknownError"
        await until_listed(page, "orders.count", "orders.search", "x")
        await second.notify("browser/cancel", id=2)
        assert (await third.state(3))["active"]
        await until_listed(page, "orders.search", "x")
        await begin_call(page)
        assert (await third.called())["for"] == 3


async def test_a_client_has_a_limited_number_of_offers(client: Offering, page: Page) -> None:
    document = await client.until_page("plain.html")
    for number in range(64):
        await client.offer(number, document, server=f"server{number}")
    error = await client.offer(100, document, server="one more")
    assert (error["code"], error["data"]) == (Code.RATE_LIMITED, {"handed": False})
    assert (await client.offer(101, document, SEARCH, server="server7"))["names"] == ["orders.search"]
    await client.notify("browser/cancel", id=8)
    assert (await client.offer(102, document, server="one more"))["active"]


# ── Where there are none ────────────────────────────────────────────────────────────────────────────────────


async def test_an_offer_to_a_page_without_webmcp_is_rejected(
    chain: Chain, browser: Chromium, client: Offering
) -> None:
    await browser.open_page(f"{chain.pages.replace('localhost', INSECURE)}/plain.html")
    error = await client.offer(40, await client.until_page(INSECURE), SEARCH)
    assert (error["code"], error["data"]) == (Code.NO_LONGER_OFFERED, {"handed": False})


async def test_an_offer_to_a_frame_that_may_not_use_webmcp_is_rejected(
    chain: Chain, browser: Chromium, client: Offering
) -> None:
    inner = f"{chain.pages.replace('localhost', '127.0.0.1')}/tabserver.html"
    page = await chain.open(browser, "plain.html")
    await page.evaluate(
        f"void document.body.append(Object.assign(document.createElement('iframe'), {{ src: {inner!r} }}))"
    )
    error = await client.offer(40, await client.until_page("tabserver.html"), SEARCH)
    assert (error["code"], error["data"]) == (Code.NO_LONGER_OFFERED, {"handed": False})


async def test_an_offer_to_a_sandboxed_document_is_rejected(
    chain: Chain, browser: Chromium, client: Offering
) -> None:
    page = await chain.open(browser, "plain.html?sandboxed")
    error = await client.offer(40, await client.until_page("sandboxed"), SEARCH)
    assert (error["code"], error["data"]) == (Code.NO_LONGER_OFFERED, {"handed": False})
    await until_listed(page)


async def test_offers_that_make_no_sense_are_rejected(client: Offering, page: Page) -> None:
    document = await client.until_page("plain.html")
    for tools in ("x", [7], [{"name": "x"}], [{**COUNT, "inputSchema": 7}], [{**COUNT, "name": ["x"]}]):
        answer = await client.ask(40, "browser/offerTools", **document, server="orders", tools=tools)
        assert (answer["error"]["code"], answer["error"]["data"]) == (Code.INVALID_PARAMS, {"handed": False})
    gone = {**document, "documentId": "gone"}
    assert (await client.offer(41, gone, SEARCH))["code"] == Code.NAVIGATED
    await until_listed(page)


# ── Withdrawn ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_cancelling_an_offer_withdraws_the_tools_and_rejects_their_calls(
    client: Offering, page: Page
) -> None:
    await client.offer(40, await client.until_page("plain.html"), SEARCH)
    await begin_call(page)
    await client.called()
    await client.notify("browser/cancel", id=40)
    assert await page.wait_until("window.outcome") == "UnknownError"
    await until_listed(page)


async def test_a_client_that_goes_away_leaves_no_tools(chain: Chain, client: Offering, page: Page) -> None:
    document = await client.until_page("plain.html")
    async with offering(chain) as gone:
        await gone.offer(40, document, SEARCH)
        await begin_call(page)
        await gone.called()
    assert await page.wait_until("window.outcome") == "UnknownError"
    await until_listed(page)


async def test_pausing_the_site_ends_offers_until_it_is_resumed(
    chain: Chain, client: Offering, page: Page
) -> None:
    document = await client.until_page("plain.html")
    await client.offer(40, document, SEARCH)
    await client.say(id=41, method="browser/pause", params={"site": chain.pages, "paused": True})
    error = (await client.until_ended(40))["error"]
    assert (error["code"], error["data"]) == (Code.PAUSED, {"handed": False, "site": chain.pages})
    await until_listed(page)
    assert (await client.offer(42, document, SEARCH))["code"] == Code.PAUSED
    await client.request("browser/pause", site=chain.pages, paused=False)
    assert (await client.offer(43, document, SEARCH))["names"] == ["orders.search"]


async def test_a_navigation_ends_the_offer(chain: Chain, client: Offering, page: Page) -> None:
    await client.offer(40, await client.until_page("plain.html"), SEARCH)
    await page.load(f"{chain.pages}/plain.html?next")
    assert (await client.until_ended(40))["result"] == {}
    await until_listed(page)
    document = await client.until_page("?next")
    assert (await client.offer(41, document, SEARCH))["names"] == ["orders.search"]


async def test_a_page_from_the_back_forward_cache_has_no_tools_until_they_are_offered_again(
    chain: Chain, client: Offering, page: Page
) -> None:
    await client.offer(40, await client.until_page("plain.html"), SEARCH)
    await page.evaluate("window.isKept = true")
    await page.load(f"{chain.pages}/silent.html")
    assert (await client.until_ended(40))["result"] == {}
    await client.until(lambda: not any("plain.html" in frame["url"] for frame in client.frames.values()))
    await page.evaluate("history.back()")
    await page.wait_until("window.isKept")
    document = await client.until_page("plain.html")
    await until_listed(page)
    assert (await client.offer(41, document, SEARCH))["names"] == ["orders.search"]


async def test_a_worker_that_stops_withdraws_the_tools(
    chain: Chain, browser: Chromium, client: Offering, page: Page
) -> None:
    await client.offer(40, await client.until_page("plain.html"), SEARCH)
    await begin_call(page)
    await client.called()
    await restart_worker(chain, browser)
    assert await page.wait_until("window.outcome") == "UnknownError"
    await until_listed(page)


async def test_a_reload_of_the_extension_withdraws_the_tools(
    chain: Chain, browser: Chromium, client: Offering, page: Page
) -> None:
    await client.offer(40, await client.until_page("plain.html"), SEARCH)
    await begin_call(page)
    await client.called()
    before = {host.pid for host in hosts(chain)}
    await browser.load_extension(EXTENSION)
    await until(lambda: bool(now := {host.pid for host in hosts(chain)}) and not now & before)
    assert await page.wait_until("window.outcome") == "UnknownError"
    await until_listed(page)
    async with offering(chain) as after:
        state = await after.offer(1, await after.until_page("plain.html"), SEARCH)
        assert state["names"] == ["orders.search"]


async def test_the_popup_shows_what_is_offered_where(browser: Chromium, client: Offering, page: Page) -> None:
    await client.offer(40, await client.until_page("plain.html"), SEARCH, COUNT)
    behind = await browser.send("Target.createTarget", {"url": "about:blank", "background": True})
    popup = await browser.attach(behind["targetId"])
    await popup.load(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
    offered = (
        "document.getElementById('offers').innerText.includes('Tools of remote servers here: orders (2)')"
    )
    await popup.wait_until(offered)
    await client.notify("browser/cancel", id=40)
    await popup.wait_until(f"!{offered}")
    worker = await worker_of(browser)
    stored = await worker.evaluate("chrome.storage.local.get().then((all) => JSON.stringify(all))")
    assert "orders" not in stored


# ── Browsers with promises and signals ──────────────────────────────────────────────────────────────────────

PLAYED_CONTEXT = """Promise.all(["bounds", "offered_tools"].map((name) => new Promise((loaded) =>
    document.head.append(Object.assign(document.createElement("script"),
        { src: `/content/${name}.js`, onload: loaded }))))).then(() => {
    globalThis.sent = [];
    globalThis.registrations = [];
    globalThis.registering = Promise.resolve();
    const context = {
        getTools: async () => [],
        registerTool: async (tool, { signal }) => {
            registrations.push(tool.name);
            await registering;
            signal.throwIfAborted();
            tools.set(tool.name, tool);
            signal.addEventListener("abort", () => tools.delete(tool.name));
        },
    };
    globalThis.tools = new Map();
    globalThis.offered = new OfferedTools(context, {
        send: (message) => sent.push(message) > 0, isOfServer: () => false, onRejected: () => {} });
    globalThis.offer = (offerId, ...names) => offered.offer({ server: "orders", offerId,
        tools: names.map((name) => ({ name, description: "x" })) });
    globalThis.call = (name, signal) => tools.get(name).execute({ q: 1 }, { signal })
        .catch((error) => error.message);
    globalThis.next = () => new Promise((resolve) => setTimeout(resolve));
})"""
"""A WebMCP as in Chromium 156: `registerTool` returns a promise, and `execute` gets a signal."""


@pytest.fixture
async def played(browser: Chromium) -> Page:
    """A page of the extension with the content script's part and a context that the test plays."""
    page = await browser.open_page(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
    await page.evaluate(PLAYED_CONTEXT)
    return page


async def test_unchanged_tools_are_not_registered_again(played: Page) -> None:
    assert await played.evaluate("""(async () => {
        offer(1, "a", "b");
        offer(2, "b", "c");
        await next();
        offered.withdraw("orders");
        await next();
        return [registrations, sent.map(({ offerId, names }) => [offerId, names]), tools.size];
    })()""") == [["a", "b", "c"], [[1, ["a", "b"]], [2, ["b", "c"]]], 0]


async def test_a_registration_that_outlasts_its_worker_is_undone(played: Page) -> None:
    assert await played.evaluate("""(async () => {
        const { promise, resolve } = Promise.withResolvers();
        registering = promise;
        offer(1, "a", "b");
        await next();
        offered.withdrawAll();
        offer(1, "b");
        resolve();
        await next();
        return [registrations, sent.map(({ names }) => names), [...tools.keys()]];
    })()""") == [["a", "b"], [["b"]], ["b"]]


async def test_the_page_s_signal_cancels_its_call(played: Page) -> None:
    kinds, message = await played.evaluate("""(async () => {
        offer(1, "a");
        await next();
        const cancelled = new AbortController();
        const called = call("a", cancelled.signal);
        cancelled.abort();
        offered.settle({ callId: sent[1].callId, text: "late" });
        return [sent.slice(1).map(({ type, callId }) => [type, callId === sent[1].callId]), await called];
    })()""")
    assert kinds == [["offered-call", True], ["offered-call-cancelled", True]]
    assert message == "The call was cancelled."


async def test_a_worker_that_goes_away_rejects_running_calls_with_a_sentence(played: Page) -> None:
    message, other = await played.evaluate("""(async () => {
        offer(1, "a");
        await next();
        const [called, failed] = [call("a"), call("a")];
        offered.settle({ callId: sent[2].callId, message: "No such order." });
        offered.withdrawAll();
        return [await called, await failed];
    })()""")
    assert message == "The tool is not offered any more: its client is gone. The call may have run."
    assert other == "No such order."


PLAYED_OFFER = """import("/worker/offers/tool_offers.js").then(({ ToolOffers }) => {
    globalThis.posted = [];
    globalThis.states = [];
    globalThis.cancelled = [];
    globalThis.offers = new ToolOffers((message) => posted.push(message) > 0, () => {});
    const call = (name, args, signal) => new Promise((resolve) =>
        signal.addEventListener("abort", () => resolve(cancelled.push(name))));
    void offers.offer({ server: "orders", tools: [{ name: "a", description: "x" }], leftOut: [] },
        { connection: "1", signal: new AbortController().signal, call,
            onState: (state) => states.push(state) });
    globalThis.message = { server: "orders", offerId: posted[0].offerId };
})"""


async def test_a_call_that_the_page_cancels_is_cancelled_at_the_client(played: Page) -> None:
    await played.evaluate(PLAYED_OFFER)
    cancelled, message = await played.evaluate("""(async () => {
        const called = offers.call({ callId: "7", server: "orders", name: "a", args: {} });
        offers.cancel({ callId: "7" });
        await called;
        return [cancelled, posted.at(-1).type];
    })()""")
    assert (cancelled, message) == (["a"], "offered-result")


async def test_a_content_script_reports_once_and_only_what_was_offered(played: Page) -> None:
    await played.evaluate(PLAYED_OFFER)
    states = await played.evaluate("""(() => {
        offers.registered({ ...message, offerId: 9, names: ["a"], leftOut: [] });
        offers.registered({ ...message, names: ["a", "other"], leftOut: [{ name: "x", why: 7 }, null] });
        offers.registered({ ...message, names: [], leftOut: 7 });
        return states;
    })()""")
    assert states == [{"active": True, "names": ["a"], "leftOut": []}]
