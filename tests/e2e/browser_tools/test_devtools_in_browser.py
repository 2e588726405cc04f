"""DevTools commands and events of tabs, over the wire to the extension; one browser for all tests here."""

from __future__ import annotations

import http.server
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from demo.chromium import Chromium, Page
from demo.temporary_directory import throw_away_directory
from full_chain import Chain
from native_host.protocol.wire import EXTENSION_ID, Code
from socket_observer import Onlooker, hosts, restart_worker
from tool_browser import Tab, TrioThread, trio_thread
from wire_peers import until

ME = "session_a"

PAGES = {
    "/plain": "<title>plain</title><button id=b style='position:fixed;inset:0'>b</button>",
    "/other": "<title>other</title>",
    "/asking": "<title>asking</title><script>onbeforeunload = (event) => event.preventDefault()</script>",
    "/nested": "<title>nested</title><iframe src='http://127.0.0.1:PORT/inner'></iframe>",
    "/inner": "<title>inner</title><iframe src='http://localhost:PORT/innermost'></iframe>",
    "/innermost": "<title>innermost</title>",
}


class _Requests(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path.partition("?")[0])
        self.send_response(404 if page is None else 200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write((page or "").replace("PORT", self.headers["Host"].rpartition(":")[2]).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The base URL of PAGES, without a slash at its end; `127.0.0.1` is another site with the same pages."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Requests) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


@dataclass
class Machine:
    """With a browser for all tests; each has its own client of its host."""

    chain: Chain
    thread: TrioThread
    chromium: Chromium

    async def run(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """What it returns, in the browser's own thread."""
        return await trio.to_thread.run_sync(self.thread.run, function, *args)

    async def in_worker(self, expression: str) -> Any:
        """What the extension's worker makes of it; it may go to sleep afterwards."""

        async def evaluate() -> Any:
            (worker,) = await self.chromium.targets("service_worker")
            attached = await self.chromium.attach(worker["targetId"])
            try:
                return await attached.evaluate(expression)
            finally:
                await self.chromium.send("Target.detachFromTarget", {"sessionId": attached.session})

        return await self.run(evaluate)

    async def crash(self, url: str) -> None:
        """End the process of the page that was opened last at this address, as if it had no memory left."""

        target = next(each for each in await self.run(self.chromium.targets) if each["url"] == url)
        page = await self.run(self.chromium.attach, target["targetId"])
        await trio.to_thread.run_sync(Tab(self.thread, self.chromium.devtools, page).crash)

    @asynccontextmanager
    async def popup(self) -> AsyncIterator[Page]:
        page = await self.run(self.chromium.open_page, f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
        yield page
        await self.run(page.close)

    async def in_extension(self, expression: str) -> Any:
        """What a page of the extension makes of it."""
        async with self.popup() as page:
            return await self.run(page.evaluate, expression)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with throw_away_directory() as home, trio_thread() as thread:
        chain = Chain(home, "")
        with thread.holding(chain.browser()) as chromium:
            yield Machine(chain, thread, chromium)


class Controller(Onlooker):
    """A client that controls tabs of a session and keeps the DevTools events that it hears."""

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self.events: dict[int, list[dict[str, Any]]] = {}
        """By the number of the subscription."""
        self.answers: dict[int, dict[str, Any]] = {}
        self.site = ""

    async def answer_to(self, request_id: Any) -> dict[str, Any]:
        """The answer, be it heard already or not."""
        await self.until(lambda: request_id in self.answers)
        return self.answers.pop(request_id)

    async def next_message(self) -> dict[str, Any]:
        message = await super().next_message()
        if message.get("method") == "browser/cdpEvent":
            self.events.setdefault(message["for"], []).append(message["params"])
        elif "method" not in message:
            self.answers[message["id"]] = message
        return message

    async def open(self, path: str, **more: Any) -> int:
        """A tab in the background, loaded."""
        made = await self.request("createTab", **{"session": ME, **more})
        url = path if ":" in path else self.site + path
        there = await self.request("browser_navigate", session=ME, tabId=made["tabId"], url=url)
        assert there.get("url") == url, there
        return int(made["tabId"])

    async def command(self, tab: int, method: str, session_id: str = "", **params: Any) -> Any:
        answer = await self.answer_to(await self.begin_command(tab, method, session_id, **params))
        return answer.get("result", answer.get("error"))

    async def evaluate(self, tab: int, expression: str, session_id: str = "") -> Any:
        answer = await self.command(
            tab, "Runtime.evaluate", session_id, expression=expression, returnByValue=True, awaitPromise=True
        )
        return answer["result"].get("value") if "result" in answer else answer

    async def begin_command(
        self, tab: int, method: str, session_id: str = "", session: str = ME, **params: Any
    ) -> int:
        """A command whose answer is heard later, under the id that this returns."""
        number = next(self._ids)
        command = {"method": method, "sessionId": session_id, "params": params}
        await self.say(
            id=number, method="forwardCDPCommand", params={"tabId": tab, "session": session, **command}
        )
        return number

    async def begin(self, request: str, **params: Any) -> int:
        """A request whose answer is heard later, under the id that this returns."""
        number = next(self._ids)
        await self.say(id=number, method=request, params={"session": ME, **params})
        return number

    async def subscribe(self, tab: int, *events: str) -> int:
        """A subscription that is in force."""
        number = await self.begin_subscription(tab, *events)
        await self.heard_event(number, "mcpb.subscribed")
        return number

    async def begin_subscription(self, tab: int, *events: str, session: str = ME) -> int:
        number = next(self._ids)
        params = {"tabId": tab, "session": session, "events": list(events)}
        await self.say(id=number, method="subscribeCDP", params=params)
        return number

    async def heard_event(self, number: int, method: str) -> dict[str, Any]:
        """The first event of that name, taken out of those that were heard."""

        def found() -> list[dict[str, Any]]:
            return [event for event in self.events.get(number, []) if event["method"] == method]

        await self.until(found)
        event = found()[0]
        self.events[number].remove(event)
        return event


@asynccontextmanager
async def controlling(machine: Machine, site: str) -> AsyncIterator[Controller]:
    await until(lambda: bool(hosts(machine.chain)))
    (host,) = hosts(machine.chain)
    async with Controller.connected(machine.chain.home / "run", host.instance) as client:
        client.site = site
        sessions = [{"id": ME, "title": "a", "client": {"name": "a"}}]
        await client.notify("bridge/sessions", sessions=sessions)
        yield client


@pytest.fixture
async def client(machine: Machine, site: str) -> AsyncIterator[Controller]:
    with trio.fail_after(60):
        async with controlling(machine, site) as client:
            yield client
            await client.request("closeSession", session=ME, closing="always")


async def test_a_tab_in_the_background_is_seen_clicked_and_typed_into(client: Controller) -> None:
    tabs = [await client.open("/plain"), await client.open("/plain")]
    for tab in tabs:
        await client.evaluate(tab, "b.onclick = (e) => (document.title = `clicked ${e.isTrusted}`)")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button: dict[str, Any] = {"x": 30, "y": 30, "button": "left", "clickCount": 1}
            assert await client.command(tab, "Input.dispatchMouseEvent", type=kind, **button) == {}
        assert await client.evaluate(tab, "document.title") == "clicked true"
        await client.evaluate(
            tab, "document.body.appendChild(field = document.createElement('input')).focus()"
        )
        await client.command(tab, "Input.insertText", text="typed")
        assert await client.evaluate(tab, "field.value") == "typed"
    for tab in tabs * 2:
        # A tab that is new is painted for a moment anyway.
        await client.evaluate(tab, "new Promise((resolve) => setTimeout(resolve, 400))")
        assert len((await client.command(tab, "Page.captureScreenshot", format="jpeg"))["data"]) > 100
        assert not client.tabs[tab]["active"]


async def test_frames_of_other_sites_are_told_of_with_what_is_in_them_also_to_who_comes_late(
    client: Controller,
) -> None:
    tab = await client.open("/nested")
    for _ in range(2):
        heard = await client.subscribe(tab, "Target.attachedToTarget")
        first = await client.heard_event(heard, "Target.attachedToTarget")
        second = await client.heard_event(heard, "Target.attachedToTarget")
        inner, innermost = (event["params"]["sessionId"] for event in (first, second))
        assert (first["sessionId"], second["sessionId"]) == ("", inner)
        assert await client.evaluate(tab, "document.title", inner) == "inner"
        assert await client.evaluate(tab, "document.title", innermost) == "innermost"
    gone = await client.subscribe(tab, "Target.detachedFromTarget")
    for_ever = "globalThis.never = new Promise(() => {})"
    waiting = await client.begin_command(
        tab, "Runtime.evaluate", innermost, expression=for_ever, awaitPromise=True
    )
    await client.evaluate(tab, "document.querySelector('iframe').remove()")
    await client.until(lambda: inner in [event["params"]["sessionId"] for event in client.events[gone]])
    answer = await client.answer_to(waiting)
    assert (answer["error"]["code"], answer["error"]["data"]) == (Code.NAVIGATED, {"handed": True}), answer
    assert (await client.command(tab, "Page.getFrameTree", inner))["code"] == Code.INVALID_PARAMS


async def test_a_dialog_is_told_of_answered_and_without_anybody_who_hears_dismissed(
    client: Controller,
) -> None:
    tab = await client.open("/plain")
    ask = "setTimeout(() => document.title = confirm('sure?'))"
    await client.evaluate(tab, ask)
    assert await client.evaluate(tab, "document.title") == "false"
    await client.evaluate(tab, ask)
    heard = await client.subscribe(tab, "Page.javascriptDialogOpening")
    event = await client.heard_event(heard, "Page.javascriptDialogOpening")
    assert event["params"]["message"] == "sure?"
    assert await client.command(tab, "Page.handleJavaScriptDialog", accept=True) == {}
    assert await client.evaluate(tab, "document.title") == "true"


async def test_a_subscription_hears_its_own_events_until_it_is_given_up(client: Controller) -> None:
    tab = await client.open("/plain")
    await client.command(tab, "Runtime.enable")
    logs = await client.subscribe(tab, "Runtime.consoleAPICalled")
    errors = await client.subscribe(tab, "Runtime.exceptionThrown")
    await client.evaluate(tab, "console.log(1); setTimeout(() => { throw 'x' })")
    details = (await client.heard_event(errors, "Runtime.exceptionThrown"))["params"]["exceptionDetails"]
    assert details["exception"]["value"] == "x"
    assert (await client.heard_event(logs, "Runtime.consoleAPICalled"))["params"]["args"][0]["value"] == 1
    await client.notify("browser/cancel", id=logs)
    await client.evaluate(tab, "console.log(2); setTimeout(() => { throw 'y' })")
    await client.heard_event(errors, "Runtime.exceptionThrown")
    await client.request("closeTab", session=ME, tabId=tab)
    assert (await client.answer_to(errors))["result"] == {}
    assert client.events[logs] == []


async def test_an_event_that_is_too_long_is_replaced_by_one_that_says_so(client: Controller) -> None:
    tab = await client.open("/plain")
    await client.command(tab, "Runtime.enable")
    heard = await client.subscribe(tab, "Runtime.consoleAPICalled")
    await client.evaluate(tab, "console.log('x'.repeat(2 ** 20)); console.log('short')")
    about = (await client.heard_event(heard, "mcpb.eventDropped"))["params"]
    assert (about["method"], about["dropped"]) == ("Runtime.consoleAPICalled", 1)
    assert about["bytes"] > 2**20
    short = await client.heard_event(heard, "Runtime.consoleAPICalled")
    assert short["params"]["args"][0]["value"] == "short"


async def test_what_is_left_out_of_a_flood_is_counted_and_told_once_a_second(machine: Machine) -> None:
    told = await machine.in_extension("""import("/worker/event_quota.js").then(({ EventRoom }) => {
        const [room, told] = [new EventRoom(), []];
        const hear = (method, now, params = {}) => told.push(...room.admit({ method, params }, now));
        for (let n = 0; n < 4_010; n += 1) hear("Runtime.consoleAPICalled", 0);
        hear("Page.loadEventFired", 999);
        hear("Network.dataReceived", 1_000);
        const long = { data: "x".repeat(2 ** 20 - 100) };
        for (let n = 0; n < 20; n += 1) hear("Network.dataReceived", 2_000, long);
        hear("Network.dataReceived", 3_000);
        return told.slice(4_000).map(({ method, params }) => [method, params.dropped]);
    })""")
    dropped, data = "mcpb.eventDropped", ["Network.dataReceived", None]
    assert told == [
        [dropped, 1],
        ["Page.loadEventFired", None],
        *([dropped, 10], data),
        *[data] * 16,
        *([dropped, 11], [dropped, 14], data),
    ]


@pytest.mark.parametrize(
    ("method", "params", "code", "handed", "says"),
    [
        ("No.such", {}, Code.INVALID_PARAMS, False, "not on the extension's list"),
        ("DOM.describeNode", {"nodeId": "x"}, Code.INVALID_PARAMS, False, "nodeId"),
        ("Page.handleJavaScriptDialog", {"accept": True}, Code.INVALID_PARAMS, False, "No dialog is showing"),
        ("Runtime.evaluate", {"expression": "1", "contextId": 77}, Code.INTERNAL_ERROR, True, "context"),
    ],
)
async def test_what_the_browser_or_we_refuse_says_why_and_whether_it_may_have_run(
    client: Controller, method: str, params: dict[str, Any], code: Code, handed: bool, says: str
) -> None:
    tab = await client.open("/plain")
    refused = await client.command(tab, method, **params)
    assert (refused["code"], refused["data"]["handed"]) == (code, handed), refused
    assert says in refused["message"]


async def test_what_cannot_be_controlled_or_is_not_ones_own_is_refused(
    client: Controller, machine: Machine
) -> None:
    made = await client.request("createTab", session=ME)
    tab = made["tabId"]
    await machine.in_worker(f"chrome.tabs.update({tab}, {{ url: 'chrome://version/' }})")
    await client.until(lambda: client.tabs.get(tab, {}).get("url") == "chrome://version/")
    refused = await client.command(tab, "Runtime.evaluate", expression="1")
    assert (refused["code"], refused["data"]) == (Code.TAB_NOT_CONTROLLABLE, {"handed": False})
    assert "Cannot access a chrome:// URL" in refused["message"]
    assert (await client.command(tab + 1000, "Page.stopLoading"))["code"] == Code.NO_SUCH_TAB
    for asked in (
        await client.begin_command(tab, "Page.stopLoading", session="session_b"),
        await client.begin_subscription(tab, "Page.loadEventFired", session="session_b"),
    ):
        assert (await client.answer_to(asked))["error"]["code"] == Code.NOT_YOURS


async def test_on_a_paused_site_no_command_runs_and_what_was_subscribed_to_ends(client: Controller) -> None:
    tab = await client.open("/nested")
    heard = await client.subscribe(tab, "Target.attachedToTarget", "Runtime.consoleAPICalled")
    inner = (await client.heard_event(heard, "Target.attachedToTarget"))["params"]["sessionId"]
    await client.command(tab, "Runtime.enable")
    other = client.site.replace("localhost", "127.0.0.1")
    async with paused(client, other):
        assert (await client.command(tab, "Runtime.evaluate", inner, expression="1"))["code"] == Code.PAUSED
        assert await client.evaluate(tab, "setInterval(() => console.log(1), 20) > 0")
    async with paused(client, client.site):
        assert (await client.answer_to(heard))["error"]["code"] == Code.PAUSED
        assert (await client.command(tab, "Runtime.evaluate", expression="1"))["code"] == Code.PAUSED


@asynccontextmanager
async def paused(client: Controller, site: str) -> AsyncIterator[None]:
    await client.request("browser/pause", site=site, paused=True)
    try:
        yield
    finally:
        await client.request("browser/pause", site=site, paused=False)


async def test_a_page_that_crashes_ends_what_runs_and_can_be_loaded_again(
    client: Controller, machine: Machine
) -> None:
    tab = await client.open("/plain")
    heard = await client.subscribe(tab, "Inspector.targetCrashed")
    waiting = await client.begin_command(
        tab, "Runtime.evaluate", expression="new Promise(() => {})", awaitPromise=True
    )
    await machine.crash(client.site + "/plain")
    await client.heard_event(heard, "Inspector.targetCrashed")
    assert (await client.answer_to(waiting))["error"]["message"] == "The page has crashed."
    refused = await client.command(tab, "Runtime.evaluate", expression="1")
    assert "Load it again" in refused["message"]
    assert not refused["data"]["handed"]
    await client.request("browser_navigate", session=ME, tabId=tab, url=client.site + "/other")
    assert await client.evaluate(tab, "document.title") == "other"


async def test_a_tab_is_let_go_when_nobody_has_used_it_for_a_while(client: Controller) -> None:
    tab = await client.open("/plain")
    awake = "document.visibilityState"
    heard = await client.subscribe(tab, "Runtime.consoleAPICalled")
    assert await client.evaluate(tab, awake) == "visible"
    await client.command(tab, "Runtime.enable")
    await client.evaluate(tab, "document.onvisibilitychange = () => (document.title = 'let go')")
    await client.notify("browser/cancel", id=heard)
    await client.until(lambda: client.tabs[tab]["title"] == "let go")


async def test_the_popup_says_who_is_active_now(client: Controller, machine: Machine) -> None:
    tab = await client.open("/plain")
    async with machine.popup() as popup:
        steered = "document.getElementById('clients').innerText.includes('active now')"
        await machine.run(popup.wait_until, "document.getElementById('clients').innerText.startsWith('a')")
        assert not await machine.run(popup.evaluate, steered)
        await client.evaluate(tab, "1")
        await machine.run(popup.wait_until, steered)
        await client.request("closeTab", session=ME, tabId=tab)
        await machine.run(popup.wait_until, f"!{steered}")


# ── Tabs of sessions ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_tab_that_a_session_s_page_opens_is_that_session_s_and_in_its_group(
    client: Controller,
) -> None:
    tab = await client.open("/plain")
    group = client.tabs[tab]["groupId"]
    for features in ("", "noopener", "popup,width=300,height=200"):
        opening = f"open('/other?{features}', '', '{features}')"
        await client.command(tab, "Runtime.evaluate", expression=opening, userGesture=True)
        opened = await client.until_tab(f"/other?{features}")
        await client.until(
            lambda: (client.tabs[opened]["owner"], client.tabs[opened]["groupId"]) == (ME, group)  # noqa: B023
        )
        await client.until(lambda: client.tabs[opened]["title"] == "other")  # noqa: B023
        assert await client.evaluate(opened, "document.visibilityState") == "visible"


async def test_what_a_page_in_the_background_opens_is_in_the_background_too(client: Controller) -> None:
    async def show(tab: int) -> None:
        await client.request("activateTab", session=ME, tabId=tab)
        await client.until(lambda: client.tabs[tab]["active"])

    async def opened_by(opener: int, name: str) -> bool:
        opening = f"open('/other?{name}')"
        await client.command(opener, "Runtime.evaluate", expression=opening, userGesture=True)
        opened = await client.until_tab(f"/other?{name}")
        await client.until(lambda: client.tabs[opened]["owner"] == ME)
        is_shown: bool = client.tabs[opened]["active"]
        return is_shown

    shown = await client.open("/plain?shown")
    await show(shown)
    behind = await client.open("/plain?behind")
    assert not await opened_by(behind, "unseen")
    await client.until(lambda: client.tabs[shown]["active"])
    await show(behind)
    assert await opened_by(behind, "seen")


async def test_a_tab_is_in_its_session_s_group_when_it_has_been_made(client: Controller) -> None:
    made = [
        await client.answer_to(number)
        for number in [await client.begin("createTab", url=f"{client.site}/plain?{n}") for n in range(4)]
    ]
    (group,) = {answer["result"]["groupId"] for answer in made}
    assert group is not None
    assert {client.tabs[answer["result"]["tabId"]]["groupId"] for answer in made} == {group}


async def test_a_tab_is_closed_although_its_page_asks_whether_to_leave_it(client: Controller) -> None:
    tab = await client.open("/asking")
    await client.command(tab, "Runtime.evaluate", expression="1", userGesture=True)
    heard = await client.subscribe(tab, "Page.javascriptDialogOpening")
    assert await client.request("closeTab", session=ME, tabId=tab) == {}
    assert (await client.heard_event(heard, "Page.javascriptDialogOpening"))["params"][
        "type"
    ] == "beforeunload"
    await client.until(lambda: tab not in client.tabs)


async def test_a_discarded_tab_is_loaded_again_by_the_first_command(
    client: Controller, machine: Machine
) -> None:
    tab = await client.open("/plain?discarded")
    heard = await client.subscribe(tab, "Runtime.consoleAPICalled")
    await machine.in_worker(f"chrome.tabs.discard({tab})")
    assert (await client.answer_to(heard))["result"] == {}
    await client.until(lambda: any(other["discarded"] for other in client.tabs.values()))
    tab = await client.until_tab("/plain?discarded")
    assert client.tabs[tab]["owner"] == ME
    assert await client.evaluate(tab, "document.title") == "plain"


async def test_a_window_gets_a_size_or_a_state(client: Controller) -> None:
    tab = await client.open("/plain")
    window = client.tabs[tab]["windowId"]

    async def set_bounds(**bounds: Any) -> Any:
        return await client.request("setWindowBounds", session=ME, tabId=tab, **bounds)

    assert await set_bounds(state="maximized") == {
        **await set_bounds(state="maximized"),
        "state": "maximized",
    }
    normal = {"windowId": window, "width": 700, "height": 500, "state": "normal"}
    assert await set_bounds(width=700, height=500) == normal
    for bad in ({}, {"width": 0}, {"width": 700, "state": "maximized"}, {"state": "tiny"}, {"width": 10**6}):
        assert (await set_bounds(**bad))["code"] == Code.INVALID_PARAMS


# ── The person, and the worker ──────────────────────────────────────────────────────────────────────────────


async def test_whoever_controls_a_tab_is_paused_when_the_person_ends_that_in_the_browser_s_bar(
    client: Controller, machine: Machine
) -> None:
    tab = await client.open("/plain")
    heard = await client.subscribe(tab, "Runtime.consoleAPICalled")
    await machine.in_worker(f"chrome.debugger.onDetach.dispatch({{ tabId: {tab} }}, 'canceled_by_user')")
    assert (await client.answer_to(heard))["result"] == {}
    assert (await client.command(tab, "Page.stopLoading"))["code"] == Code.PAUSED
    assert await client.request("browser/pause", session=ME, paused=False) == {}


async def test_a_tab_that_an_earlier_worker_controlled_is_controlled_by_its_successor(
    machine: Machine, site: str
) -> None:
    with trio.fail_after(60):
        async with controlling(machine, site) as earlier:
            tab = await earlier.open("/plain?again")
            await earlier.evaluate(tab, "document.onvisibilitychange = () => (document.title = 'let go')")
            await machine.run(restart_worker, machine.chain, machine.chromium)
        async with controlling(machine, site) as later:
            await later.until(lambda: later.tabs[tab]["title"] == "let go")
            assert await later.evaluate(tab, "document.visibilityState") == "visible"
            await later.request("closeSession", session=ME, closing="always")
