"""What a tab writes, throws and asks for, and scripts in its page: in a real Chromium, through a foreign "
"client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from mcp.types import TextContent

from tool_browser import Browsing, Result, Tools, open_browsing

CONSOLE, NETWORK = "read_console_messages", "read_network_requests"
SOON_S = 60.0


@pytest.fixture(scope="module")
def browsing() -> Iterator[Browsing]:
    with open_browsing() as opened:
        yield opened


@pytest.fixture(scope="module")
def tools(browsing: Browsing) -> Iterator[Tools]:
    with browsing.client() as opened:
        yield opened


@pytest.fixture
def noise(tools: Tools) -> int:
    """A new tab whose page makes noise of all kinds when its buttons are pressed; its console is captured."""
    tab = tools.open_site("noise.html", in_new_tab=True)
    tools.done(CONSOLE, tabId=tab)
    return tab


@pytest.fixture
def traffic(tools: Tools) -> int:
    """The same, its network captured."""
    tab = tools.open_site("noise.html", in_new_tab=True)
    tools.done(NETWORK, tabId=tab)
    return tab


def press(tools: Tools, tab: int, *buttons: str) -> None:
    for button in buttons:
        tools.look(tab).evaluate(f"void document.getElementById('{button}').click()")


def until(read: Callable[[], Result], wanted: Callable[[Result], bool]) -> Result:
    """Read until it is as wanted: what a page does takes its way to us."""
    deadline = time.monotonic() + SOON_S
    while not wanted(result := read()):
        assert time.monotonic() < deadline, result.text
    return result


def run(tools: Tools, tab: int, script: str) -> Result:
    return tools.call("javascript_tool", action="javascript_exec", text=script, tabId=tab)


def value(tools: Tools, tab: int, script: str) -> tuple[str, str]:
    found = run(tools, tab, script).structured
    return found["type"], found["result"]


# ── The console ─────────────────────────────────────────────────────────────────────────────────────────────


def test_capturing_begins_with_the_first_call_and_the_browser_still_has_what_was_before(tools: Tools) -> None:
    tab = tools.open_site("noise.html", in_new_tab=True)
    press(tools, tab, "levels")
    first = tools.done(CONSOLE, tabId=tab)
    assert "captured from now on" in first.structured["message"]
    assert "a warning" in first.text
    again = tools.done(CONSOLE, tabId=tab)
    assert "from now on" not in again.structured["message"]
    assert again.structured["messages"] == first.structured["messages"]


def test_each_level_is_told_with_values_places_and_stacks(
    tools: Tools, noise: int, browsing: Browsing
) -> None:
    press(tools, noise, "levels")
    found = tools.done(CONSOLE, tabId=noise).structured["messages"]
    assert [(each["level"], each["text"].partition("\n")[0]) for each in found] == [
        ("debug", "a debug line"),
        ("log", "a log line 42 {harbour: Array(2)}"),
        ("info", "an info line"),
        ("warning", "a warning"),
        ("error", "an error RangeError: out of paper"),
        ("log", "[Object]"),
        ("error", "Assertion failed: an assertion"),
    ]
    warning = found[3]
    assert warning["place"].startswith(f"{browsing.site.url}/noise.html:")
    assert warning["stack"][0].startswith(f"levels {browsing.site.url}/noise.html:")


def test_what_is_thrown_rejected_or_not_loaded_is_an_error(tools: Tools, noise: int) -> None:
    press(tools, noise, "levels", "throw", "reject", "missing")

    def read() -> Result:
        return tools.done(CONSOLE, tabId=noise, onlyErrors=True)

    errors = until(read, lambda result: "404" in result.text)
    texts = [each["text"].partition("\n")[0] for each in errors.structured["messages"]]
    assert texts[2:] == [
        "Uncaught TypeError: thrown on purpose",
        "Uncaught (in promise) Error: rejected on purpose",
        "Failed to load resource: the server responded with a status of 404 (Not Found)",
    ]


def test_patterns_limits_and_clearing(tools: Tools, noise: int) -> None:
    press(tools, noise, "levels")
    lines = tools.done(CONSOLE, tabId=noise, pattern="AN? .* line$").structured
    assert [each["text"] for each in lines["messages"]] == ["a debug line", "an info line"]
    newest = tools.done(CONSOLE, tabId=noise, limit=2, clear=True).structured
    assert (len(newest["messages"]), newest["found"]) == (2, 7)
    assert "newest 2 of 7" in newest["message"]
    assert tools.done(CONSOLE, tabId=noise).structured["found"] == 0
    assert "Look-around" in tools.refused(CONSOLE, tabId=noise, pattern="(?=a)")


def test_frames_of_other_sites_and_workers_are_heard_also_those_that_come_later(
    tools: Tools, noise: int, browsing: Browsing
) -> None:
    frame = f"{browsing.site.elsewhere}/noise.html"
    tools.look(noise).evaluate(
        f"void document.body.append(Object.assign(document.createElement('iframe'), "
        f"{{src: '{frame}', onload: () => {{ window.isThere = true }}}}))"
    )
    tools.look(noise).wait_until("window.isThere")
    (target,) = [each for each in browsing.browser.targets("iframe") if each["url"] == frame]
    browsing.browser.attach(target["targetId"]).evaluate("console.log('said in a frame')")
    worker = "new Worker(URL.createObjectURL(new Blob(['console.log(\"said in a worker\")'])))"
    tools.look(noise).evaluate(f"window.worker = {worker}; 1")

    def read() -> Result:
        return tools.done(CONSOLE, tabId=noise, pattern="said in a")

    found = until(read, lambda result: result.structured["found"] == 2)
    assert {each["text"] for each in found.structured["messages"]} == {"said in a frame", "said in a worker"}


def test_of_a_flood_the_newest_are_kept_and_the_others_counted(tools: Tools, noise: int) -> None:
    tools.look(noise).evaluate("for (let n = 0; n < 10_000; n += 1) console.log('drop', n)")

    def read() -> Result:
        tools.look(noise).evaluate("console.log('after')")
        return tools.done(CONSOLE, tabId=noise, limit=3)

    found = until(read, lambda result: "after" in result.text).structured
    assert found["messages"][-1]["text"] == "after"
    assert found["found"] == 1000
    assert "older ones were dropped" in found["message"]


def test_the_console_of_a_page_in_a_dialog_can_be_read(tools: Tools, noise: int) -> None:
    asked = run(tools, noise, "console.log('before it asks'); confirm('Sure?')")
    assert "waits in a dialog" in asked.structured["message"]
    assert "confirm dialog open: “Sure?”" in asked.structured["message"]
    assert "before it asks" in tools.done(CONSOLE, tabId=noise).text
    refused = tools.refused("javascript_tool", action="javascript_exec", text="1", tabId=noise)
    assert refused.startswith("The page has a confirm dialog open")


def test_leaving_for_another_site_forgets_what_was_there(
    tools: Tools, noise: int, browsing: Browsing
) -> None:
    press(tools, noise, "levels")
    tools.done("navigate", tabId=noise, url=f"{browsing.site.url}/article.html")
    assert tools.done(CONSOLE, tabId=noise).structured["found"] == 7
    tools.done("navigate", tabId=noise, url=f"{browsing.site.elsewhere}/noise.html")
    press(tools, noise, "throw")
    found = tools.done(CONSOLE, tabId=noise).structured["messages"]
    assert ["thrown on purpose" in each["text"] for each in found] == [True]


def test_a_capture_that_the_browser_ended_begins_again_and_says_so(
    tools: Tools, noise: int, browsing: Browsing
) -> None:
    tools.look(noise).send("Page.navigate", url="chrome://version/")  # no extension stays attached there
    tools.done("navigate", tabId=noise, url=f"{browsing.site.url}/noise.html")
    assert "captured again" in tools.done(CONSOLE, tabId=noise).structured["message"]
    press(tools, noise, "throw")
    assert "thrown on purpose" in tools.done(CONSOLE, tabId=noise).text


def test_a_tab_that_nobody_has_is_refused(tools: Tools) -> None:
    for name in (CONSOLE, NETWORK):
        assert "tabs_context" in tools.refused(name, tabId=999_999)


# ── The network ─────────────────────────────────────────────────────────────────────────────────────────────


def settled(tools: Tools, tab: int, count: int, **wanted: Any) -> list[dict[str, Any]]:
    """The requests, once there are so many and all have ended. The icon comes when it likes."""

    def meant(result: Result) -> list[dict[str, Any]]:
        return [each for each in result.structured["requests"] if path(each) != "/favicon.ico"]

    def has_ended(result: Result) -> bool:
        return len(meant(result)) == count and all("milliseconds" in each for each in meant(result))

    return meant(until(lambda: tools.done(NETWORK, tabId=tab, **wanted), has_ended))


def path(request: dict[str, Any]) -> str:
    return "/" + str(request["url"]).split("/", 3)[3]


def test_what_a_page_asks_for_as_it_loads_is_there_after_a_reload(tools: Tools, traffic: int) -> None:
    tools.look(traffic).evaluate("location.reload()")
    document, style = settled(tools, traffic, 2)
    assert (path(document), document["type"], document["status"]) == ("/noise.html", "document", 200)
    assert (path(style), style["type"], style["status"]) == ("/site.css", "stylesheet", 200)
    assert "noise.html:" in style["initiator"]


def test_each_request_says_how_it_ended(tools: Tools, traffic: int) -> None:
    press(tools, traffic, "fetch", "xhr", "missing", "broken", "abort", "unreachable")
    found = {path(each): each for each in settled(tools, traffic, 6)}
    ended = {name: each.get("failure") or each["status"] for name, each in found.items()}
    assert ended == {
        "/opening-hours.json": 200,
        "/opening-hours.json?by=xhr": 200,
        "/status?code=404": 404,
        "/status?code=500": 500,
        "/slow?ms=60000": "cancelled",
        "/": "net::ERR_UNSAFE_PORT",
    }
    hours = found["/opening-hours.json"]
    assert (hours["type"], hours["method"]) == ("fetch", "GET")
    assert hours["size"] > 0
    assert found["/opening-hours.json?by=xhr"]["type"] == "xhr"


def test_the_one_request_that_is_left_shows_headers_and_bodies_without_secrets(
    tools: Tools, traffic: int
) -> None:
    press(tools, traffic, "secret")
    settled(tools, traffic, 1)
    secret = tools.done(NETWORK, tabId=traffic, urlPattern="/echo")
    content = secret.structured["content"]
    assert content["requestHeaders"]["Authorization"] == "[masked]"
    assert content["responseHeaders"]["Content-Type"] == "application/json"
    assert '"token": "[masked]"' in content["responseBody"]
    assert "s3cr3t" not in secret.text + str(secret.structured)
    assert tools.done(NETWORK, tabId=traffic, urlPattern="s3cr3t").structured["found"] == 0
    press(tools, traffic, "post")
    settled(tools, traffic, 2)
    newest = tools.done(NETWORK, tabId=traffic, urlPattern="/echo", limit=1).structured["content"]
    assert newest["requestBody"] == '{"reader": "ada"}'
    assert '"reader' in newest["responseBody"]
    assert tools.done(NETWORK, tabId=traffic, urlPattern="/echo").structured["content"] is None


def test_redirects_are_told_step_by_step_and_bodies_that_are_no_text_are_only_named(
    tools: Tools, traffic: int
) -> None:
    tools.look(traffic).evaluate("void fetch('/redirect?hops=1')")
    steps = settled(tools, traffic, 3)
    assert [(path(each), each["status"]) for each in steps] == [
        ("/redirect?hops=1", 302),
        ("/redirect?hops=0&to=%2Farrived.html", 302),
        ("/arrived.html", 200),
    ]
    tools.look(traffic).evaluate("void fetch('/leaflet.pdf').then((answer) => answer.text())")
    settled(tools, traffic, 4)
    leaflet = tools.done(NETWORK, tabId=traffic, urlPattern="leaflet").structured["content"]
    assert leaflet["responseBody"].startswith("(application/pdf, ")


def test_leaving_for_another_site_forgets_all_but_the_new_document(
    tools: Tools, traffic: int, browsing: Browsing
) -> None:
    press(tools, traffic, "fetch")
    settled(tools, traffic, 1)
    tools.done("navigate", tabId=traffic, url=f"{browsing.site.elsewhere}/article.html")
    there = browsing.site.elsewhere
    assert [each["url"] for each in settled(tools, traffic, 2)] == [
        f"{there}/article.html",
        f"{there}/site.css",
    ]
    tools.done(NETWORK, tabId=traffic, clear=True)
    settled(tools, traffic, 0)


# ── Scripts ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def page(tools: Tools) -> int:
    """A tab for scripts that leave it as it is."""
    return tools.open_site("noise.html", in_new_tab=True)


VALUES = [
    ("1 + 1", "json", "2"),
    ("document.title.slice(0, 7)", "string", "Console"),
    ("({a: [1, null, {b: true}]})", "json", '{"a":[1,null,{"b":true}]}'),
    ("new Date(0)", "json", '"1970-01-01T00:00:00.000Z"'),
    ("{a: 1}", "json", '{"a":1}'),
    ("let a = 1; a", "json", "1"),
    ("let a = 2; a;", "json", "2"),
    ("const one = 1;\nif (one) 'yes'; else 'no'", "string", "yes"),
    ("(await fetch('/opening-hours.json')).status // and a comment", "json", "200"),
    ("fetch('/opening-hours.json').then((got) => got.json())", "json", '{"monday":"9-18","sunday":null}'),
    ("undefined", "undefined", ""),
    ("void 0;", "undefined", ""),
    ("NaN", "preview", "NaN"),
    ("-0; 10n", "preview", "10n"),
    ("'a\\u0000b'", "string", "a b"),
    ("'\\ud800!'", "string", "\ufffd!"),
    ("(x) => x + 1", "preview", "(x) => x + 1"),
    ("document.querySelector('#throw')", "preview", '<button id="throw">Throw an error'),
    ("[...document.querySelectorAll('#fetch, #xhr')].map((b) => b.id)", "json", '["fetch","xhr"]'),
    ("new Map([[1, new Set(['x'])]])", "preview", '{"[Map(1)]":[[1,{"[Set(1)]":["x"]}]]}'),
    ("const o = {n: 1}; o.self = o; o", "preview", '{"n":1,"self":"[circular]"}'),
    ("({f() {}, get g() { throw Error('no') }})", "preview", '{"f":"[function f]","g":"[threw Error: no]"}'),
    ("new Uint8Array([1, 2])", "preview", '{"[Uint8Array(2)]":["1","2"]}'),
    ("Symbol('s')", "preview", "Symbol(s)"),
    ("window", "preview", "Window"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "kind", "told"), VALUES, ids=[script[:30] for script, *_ in VALUES])
def test_the_last_value_comes_back(tools: Tools, page: int, script: str, kind: str, told: str) -> None:
    assert value(tools, page, script) == (kind, told)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("null.foo", "TypeError: Cannot read properties of null (reading 'foo')\n    at <anonymous>:1:"),
        ("throw {code: 7}", '{"code":7}'),
        ("throw 'words'", '"words"'),
        ("Promise.reject(new Error('no'))", "Error: no\n    at <anonymous>:1:"),
        ("await Promise.reject(undefined)", "undefined"),
    ],
)
def test_what_it_throws_comes_back_with_where(tools: Tools, page: int, script: str, told: str) -> None:
    found = run(tools, page, script)
    assert (found.is_error, found.structured["type"]) == (True, "thrown")
    assert found.structured["result"].startswith(told)
    assert found.text.startswith("The script threw this")


@pytest.mark.parametrize(
    ("script", "told", "is_run"),
    [
        ("let x = ;", "SyntaxError: Unexpected token ';'", False),
        ("return 1", "SyntaxError: Illegal return statement", False),
        ("JSON.parse('{')", "SyntaxError: Expected property name", True),
        ("1; await 0; eval('let x = ;')", "SyntaxError: Unexpected token ';'", True),
        ("let once = 1;\nnew Function('return return')()", "SyntaxError: Unexpected token 'return'", True),
    ],
)
def test_a_script_that_is_none_was_not_run_and_one_that_makes_a_bad_one_was(
    tools: Tools, page: int, script: str, told: str, is_run: bool
) -> None:
    found = run(tools, page, script)
    assert found.is_error
    assert found.structured["result"].startswith(told)
    nothing_ran = "It could not be parsed; nothing was run."
    assert found.text.startswith("The script threw this" if is_run else nothing_ran)


@pytest.mark.parametrize(
    ("script", "length"),
    [
        ("'x'.repeat(30_000_000)", "30000000"),
        ("'x'.repeat(60_000); ", "60000"),
        ("const long = 'x'.repeat(60_000); long", "60000"),
        ("Array.from({length: 1e6}, (_, n) => 'item ' + n)", ""),
    ],
)
def test_a_long_value_is_cut_with_a_word(tools: Tools, page: int, script: str, length: str) -> None:
    found = run(tools, page, script).structured
    assert len(found["result"]) == 20_000
    assert f"cut at 20000 of {length}" in found["message"]


def test_values_of_cookies_are_masked(tools: Tools, page: int) -> None:
    tools.look(page).evaluate("document.cookie = 'cart=0123456789abcdef'")
    assert "cart=[cookie]" in value(tools, page, "document.cookie")[1]
    assert value(tools, page, "({all: document.cookie})")[1].count("0123456789") == 0


@pytest.mark.parametrize("last", ["'words'", "throw {code: 7}"])
def test_a_page_that_has_changed_javascript_itself_is_told_as_such(tools: Tools, last: str) -> None:
    tools.open_site("index.html")
    script = f"String.prototype.slice = () => ({{}}); {last}"
    said = tools.refused("javascript_tool", action="javascript_exec", text=script)
    assert said.startswith("The script has run. Its value is unknown, because the page has changed")


def test_scripts_run_on_pages_that_allow_none(tools: Tools) -> None:
    tab = tools.open_site("noise.html", in_new_tab=True)
    policy = """{httpEquiv: 'Content-Security-Policy', content: "script-src 'none'"}"""
    meta = f"Object.assign(document.createElement('meta'), {policy})"
    tools.look(tab).evaluate(f"void document.head.append({meta})")
    assert value(tools, tab, "[1, 2].map((n) => n * 2)") == ("json", "[2,4]")


def test_an_alert_is_closed_and_told(tools: Tools, page: int) -> None:
    found = run(tools, page, "alert('Read this'); 5").structured
    assert found["result"] == "5"
    assert "“Read this”" in found["message"]


def test_a_script_may_lead_the_tab_elsewhere(tools: Tools) -> None:
    tab = tools.open_site("noise.html", in_new_tab=True)
    left = run(tools, tab, "location.href = '/article.html'; await new Promise(() => {})").structured
    assert left["type"] == "none"
    assert "another document" in left["message"]
    assert "article.html" in left["message"]


def test_scripts_that_do_not_end_are_stopped_or_given_up_and_the_page_goes_on(
    tools: Tools, browsing: Browsing
) -> None:
    """All at once: each takes its ten seconds."""
    scripts = {
        "while (true) {}": "was stopped, because it ",
        "await 0; await new Promise((go) => setTimeout(go)); while (true) {}": "was stopped, because it ",
        "new Promise(() => {})": "waits for something that has not come within 10 s",
    }
    busy = "'in a page that is busy'"
    tabs = {script: tools.open_site("noise.html", in_new_tab=True) for script in [*scripts, busy]}
    page = tools.look(tabs[busy])
    page.evaluate("void setTimeout(() => { while (true) {} })")
    messages: dict[str, str] = {}

    async def call(script: str) -> None:
        arguments = {"action": "javascript_exec", "text": script, "tabId": tabs[script]}
        result = await tools.client.call_tool("javascript_tool", arguments)
        [block, *_] = result.content
        assert isinstance(block, TextContent)
        messages[script] = block.text

    async def call_all() -> None:
        async with trio.open_nursery() as nursery:
            for script in tabs:
                nursery.start_soon(call, script)

    browsing.thread.run(call_all)
    page.send("Runtime.terminateExecution")
    assert "busy for 10 s with a script of its own, and the script was not run" in messages[busy]
    for script, told in scripts.items():
        assert told in messages[script]
        assert value(tools, tabs[script], "1 + 1") == ("json", "2")


def test_a_script_needs_text_and_its_one_action(tools: Tools, page: int) -> None:
    assert "text" in tools.refused("javascript_tool", action="javascript_exec", text="", tabId=page)
    assert "action" in tools.refused("javascript_tool", action="run", text="1", tabId=page)
