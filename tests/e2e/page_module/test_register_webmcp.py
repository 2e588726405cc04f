"""The page module in a real Chromium: tools of an MCP server as WebMCP tools of a page.

The judges are the browser's own registry of tools and the log of the server. Three environments: Chromium's
own WebMCP, a polyfill (promises), and neither. The pages have another origin than the servers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostile_servers import FLOOD, HostileServer, hostile_server
from instructable_server import Instructions
from instructable_tools import BLOCKS, PNG, TOOLS
from remote_servers import (
    Instructable,
    RecordedRequest,
    ServerLog,
    everything_server,
    free_port,
    instructable_server,
)
from tool_browser import Tab, TrioThread, open_browser, trio_thread
from webmcp_pages import FLAG, ModulePage, serve_module_pages
from wire_peers import until

DISPOSED = "WebMCP adapter has been disposed"
CANARY = "canary-of-a-secret"
EXAMPLES = Path(__file__).parents[2] / "data/content_to_text.json"
NAMES = [tool["name"] for tool in TOOLS]
DEFAULTS = msgspec.to_builtins(Instructions())


@pytest.fixture(scope="module")
def thread() -> Iterator[TrioThread]:
    with trio_thread() as opened:
        yield opened


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serve_module_pages() as origin:
        yield origin


class Machine:
    """A browser for each set of flags, started when a test needs it, with one tab."""

    def __init__(self, thread: TrioThread, site: str, browsers: ExitStack) -> None:
        self.thread = thread
        self.site = site
        self._browsers = browsers
        self._tabs: dict[tuple[str, ...], Tab] = {}
        self._latest: tuple[str, ...] = ()

    def page(self, *flags: str, path: str = "/") -> ModulePage:
        """Load a page. The one before it ends, or it would open its lost session again."""
        if self._latest != flags and self._latest in self._tabs:
            self._tabs[self._latest].load("about:blank")
        self._latest = flags
        if flags not in self._tabs:
            browser = self._browsers.enter_context(open_browser(self.thread, flags))
            self._tabs[flags] = browser.open(self.site + path)
        else:
            self._tabs[flags].load(self.site + path)
        return ModulePage(self._tabs[flags])


@pytest.fixture(scope="module")
def machine(thread: TrioThread, site: str) -> Iterator[Machine]:
    with ExitStack() as browsers:
        yield Machine(thread, site, browsers)


@pytest.fixture(scope="module")
def running_server() -> Iterator[Instructable]:
    with instructable_server() as running:
        yield running


@pytest.fixture
def server(running_server: Instructable) -> Instructable:
    running_server.control(**DEFAULTS, drop_sessions=True)
    running_server.control(forget_log=True)
    return running_server


class Everything:
    """The package's server, which can be started again on its port."""

    def __init__(self, running: ExitStack) -> None:
        self._running = running
        self._port = free_port()
        self.url = ""

    def restart(self) -> None:
        self._running.close()
        self.url = self._running.enter_context(everything_server(port=self._port))


@pytest.fixture(scope="module")
def everything() -> Iterator[Everything]:
    with ExitStack() as running:
        started = Everything(running)
        started.restart()
        yield started


@pytest.fixture(scope="module", params=["chromium", "polyfill"])
def environment(request: pytest.FixtureRequest) -> str:
    """Tests with the same one run together: a page of the other browser needs not end in between."""
    return str(request.param)


@pytest.fixture
def either_page(machine: Machine, environment: str) -> ModulePage:
    return machine.page(FLAG) if environment == "chromium" else machine.page(path="/polyfill")


@pytest.fixture
def page(machine: Machine) -> ModulePage:
    return machine.page(FLAG)


@pytest.fixture
def wait(thread: TrioThread, server: Instructable) -> Callable[[Callable[[ServerLog], bool]], ServerLog]:
    return lambda is_reached: thread.run(server.wait, is_reached)


Wait = Callable[[Callable[[ServerLog], bool]], ServerLog]


def tool(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **members}


# ── No-op path ──────────────────────────────────────────────────────────────────────────────────────────────


def test_no_op_path_without_a_model_context_sends_no_request(machine: Machine, server: Instructable) -> None:
    page = machine.page()
    assert page.evaluate("typeof document.modelContext + typeof navigator.modelContext") == "undefined" * 2
    assert page.start(server.url) == []
    page.evaluate("handle.refresh()")
    assert page.evaluate("handle.disposed") is False
    page.evaluate("handle.dispose()")
    assert page.evaluate("handle.disposed") is True
    page.evaluate("handle.refresh()")
    assert page.evaluate("synced") == [[]]
    (message,) = page.logged("info")
    assert "has no WebMCP (document.modelContext)" in message
    assert server.log().requests == []


# ── Headers ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_static_and_dynamic_headers_go_with_every_request(
    page: ModulePage, server: Instructable, wait: Wait
) -> None:
    page.evaluate("void (window.n = 0)")
    page.start(
        server.url, "headers: { 'X-Static': 'one' }, getHeaders: async () => ({ 'X-Count': `${++n}` })"
    )
    wait(lambda log: any(request.method == "GET" for request in log.requests))
    page.call("echo", {"text": "hi"})
    page.evaluate("handle.dispose()")
    requests = [each for each in server.log().requests if each.method != "OPTIONS"]
    assert {request.method for request in requests} == {"POST", "GET", "DELETE"}
    assert {request.headers["x-static"] for request in requests} == {"one"}
    counts = [int(request.headers["x-count"]) for request in requests]
    assert sorted(counts) == [*range(1, len(requests) + 1)]


def test_headers_merging_precedence_is_protocol_then_dynamic_then_static(
    page: ModulePage, server: Instructable
) -> None:
    page.start(
        server.url,
        "headers: { 'X-A': 'static', 'X-B': 'static', accept: 'text/html', 'mcp-session-id': 'mine' },"
        "getHeaders: () => ({ 'x-a': 'dynamic', 'CONTENT-TYPE': 'text/plain' })",
    )
    (listed,) = server.log().find("tools/list")
    assert (listed.headers["x-a"], listed.headers["x-b"]) == ("dynamic", "static")
    assert listed.headers["accept"] == "application/json, text/event-stream"
    assert listed.headers["content-type"] == "application/json"
    assert listed.headers["mcp-session-id"] != "mine"
    assert listed.headers["mcp-protocol-version"] == "2025-11-25"


@pytest.mark.parametrize(
    "options",
    [
        f"headers: {{ Authorization: '{CANARY}\\n' }}",
        f"headers: {{ '{CANARY} ': 'x' }}",
        f"getHeaders: () => ({{ Authorization: '{CANARY}\\u0000' }})",
        f"getHeaders: () => {{ throw new Error('{CANARY}') }}",
        f"getHeaders: () => Promise.reject('{CANARY}')",
        f"headers: {{ Authorization: '{CANARY}' }}",
    ],
)
def test_nothing_of_headers_is_logged_or_put_into_an_error(
    page: ModulePage, server: Instructable, options: str
) -> None:
    server.control(required_headers={"authorization": "another"})
    options += ", logger: console"
    page.evaluate(
        "for (const level of ['info', 'warn', 'error']) console[level] = (...args) => logged.push(args)"
    )
    read = "(error) => [`${error}`, error.stack, `${error.cause}`]"
    error = page.evaluate(f"start({{ url: '{server.url}', {options} }}).catch({read})")
    assert isinstance(error, list)
    assert CANARY not in json.dumps([error, page.evaluate("logged")])


def test_header_values_that_a_server_quotes_in_its_errors_are_masked(
    page: ModulePage, server: Instructable
) -> None:
    server.control(errors={"tools/list": {"code": -1, "message": f"bad Bearer {CANARY}"}})
    error = page.fail(server.url, f"headers: {{ Authorization: 'Bearer {CANARY}' }}")
    assert "bad •••" in error
    assert CANARY not in error


def test_header_values_do_not_appear_when_the_connection_fails(page: ModulePage) -> None:
    secret = f"headers: {{ Authorization: '{CANARY}' }}"
    error = page.fail(f"http://127.0.0.1:1/{CANARY}?key={CANARY}", secret)
    assert CANARY not in error
    assert "http://127.0.0.1:1" in error
    assert CANARY not in page.fail(f"http://user:{CANARY}@127.0.0.1:1/mcp", secret)


# ── Discovery ───────────────────────────────────────────────────────────────────────────────────────────────

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string", "minLength": 1}, "of": {"$ref": "#/$defs/of"}},
    "required": ["id"],
    "additionalProperties": False,
    "$defs": {"of": {"enum": [1, "two", None]}},
}


def test_tool_discovery_schema_fidelity_description_fallback_annotations(
    either_page: ModulePage, server: Instructable
) -> None:
    server.control(
        tools=[
            tool("full", inputSchema=SCHEMA, title="Full", annotations={"readOnlyHint": True}),
            {"name": "bare"},
            {"name": "titled", "title": "A title", "annotations": {"title": "Not this"}},
            {"name": "annotated", "annotations": {"title": "An annotation", "readOnlyHint": False}},
            {"name": "not allowed/é", "description": "x"},
            tool("x" * 129),
            tool("bad_schema", inputSchema="text"),
        ]
    )
    assert either_page.start(server.url) == ["full", "bare", "titled", "annotated"]
    tools = either_page.tools()
    assert set(tools) == {"full", "bare", "titled", "annotated"}
    assert tools["full"]["inputSchema"] == SCHEMA
    assert tools["bare"]["inputSchema"] == {"type": "object"}
    assert [tools[name]["description"] for name in ("full", "bare", "titled", "annotated")] == [
        "Does full.",
        "bare",
        "A title",
        "An annotation",
    ]
    assert tools["full"]["title"] == "Full"
    assert tools["full"]["annotations"] == {"readOnlyHint": True, "untrustedContentHint": True}
    assert not tools["annotated"]["annotations"].get("readOnlyHint")
    assert all(each["annotations"]["untrustedContentHint"] for each in tools.values())
    left_out = either_page.logged("warn")
    assert [
        name in text for name, text in zip(("not allowed/é", "xxxx", "bad_schema"), left_out, strict=True)
    ] == [True] * 3
    assert [len(tools) for tools in either_page.evaluate("synced")] == [7]


def test_two_tools_of_one_name_leave_the_first(either_page: ModulePage, server: Instructable) -> None:
    server.control(tools=[tool("twice", description="One."), tool("twice", description="Two."), tool("once")])
    assert either_page.start(server.url) == ["twice", "once"]
    assert either_page.tools()["twice"]["description"] == "One."
    assert ["twice" in text for text in either_page.logged("warn")] == [True]


def test_pagination_follows_next_cursor(page: ModulePage, server: Instructable) -> None:
    server.control(page_size=5)
    assert page.start(server.url) == NAMES
    cursors = [request.body["params"].get("cursor") for request in server.log().find("tools/list")]
    assert cursors == [None, "5", "10"]


def test_filter_and_map_tool_choose_and_change_what_is_registered(
    page: ModulePage, server: Instructable
) -> None:
    names = page.start(
        server.url,
        "prefix: 'p.', filter: ({ name }) => ['echo', 'add', 'fail'].includes(name), mapTool: (tool) => {"
        " if (tool.name === 'fail') throw new Error('no');"
        " tool.description = 'Mapped.'; if (tool.name === 'echo') tool.name = 'say'; return tool; }",
    )
    assert names == ["p.say", "p.add"]
    assert page.tools()["p.say"]["description"] == "Mapped."
    assert page.call("p.say", {"text": "hi"}) == "hi"
    assert server.log().find("tools/call")[0].body["params"]["name"] == "echo"
    assert page.evaluate("synced[0].map(({ name }) => name)") == NAMES
    assert "Mapped." not in json.dumps(page.evaluate("synced"))
    assert len(page.logged("warn")) == 1


def test_prefix_names_are_registered_and_original_names_are_sent(
    either_page: ModulePage, server: Instructable
) -> None:
    assert either_page.start(server.url, "prefix: 'remote.'") == [f"remote.{name}" for name in NAMES]
    assert set(either_page.tools()) == {f"remote.{name}" for name in NAMES}
    assert either_page.call("remote.echo", {"text": "hi"}) == "hi"
    (call,) = server.log().find("tools/call")
    assert (call.body["params"]["name"], call.body["params"]["arguments"]) == ("echo", {"text": "hi"})


def test_prefixed_and_page_local_tools_stand_side_by_side(
    either_page: ModulePage, server: Instructable
) -> None:
    either_page.evaluate(
        "void context.registerTool({ name: 'echo', description: 'Local.', execute: async () => 'local' })"
    )
    names = either_page.start(server.url)
    assert "echo" not in names
    assert [text for text in either_page.logged("warn") if '"echo"' in text]
    assert either_page.call("echo") == "local"
    either_page.start(server.url, "prefix: 'remote.'")
    assert (either_page.call("echo"), either_page.call("remote.echo", {"text": "far"})) == ("local", "far")


def test_two_servers_in_one_page_answer_their_own_tools(
    page: ModulePage, server: Instructable, everything: Everything
) -> None:
    page.start(server.url, "prefix: 'a.'")
    page.evaluate("void (window.first = handle)")
    page.start(everything.url, "prefix: 'b.'")
    assert page.call("a.echo", {"text": "one"}) == "one"
    assert page.call("b.echo", {"message": "two"}) == "Echo: two"
    page.evaluate("first.dispose()")
    assert all(name.startswith("b.") for name in page.tools())
    assert page.call("b.get-sum", {"a": 2, "b": 3}).endswith("5.")


# ── Execution ───────────────────────────────────────────────────────────────────────────────────────────────


def test_tool_execution_returns_the_text(either_page: ModulePage, server: Instructable) -> None:
    either_page.start(server.url)
    assert either_page.call("add", {"a": 2, "b": 3}) == "5"
    assert either_page.execute("echo", {"text": "grüß\n🙂"}) == {"value": "grüß\n🙂"}


def test_multi_content_joining_and_image_data_urls(page: ModulePage, server: Instructable) -> None:
    page.start(server.url)
    assert (
        page.call("blocks", {"kinds": ["text", "image", "text"]})
        == f"A text.\ndata:image/png;base64,{PNG}\nA text."
    )
    assert page.call("blocks", {"kinds": [], "structured": True}) == '{"answer":42}'
    assert len(page.call("blocks", {"structured": True}).splitlines()) == len(BLOCKS)


def test_texts_of_results_are_those_of_the_examples(page: ModulePage) -> None:
    examples = json.loads(EXAMPLES.read_text())
    for example in examples:
        assert page.evaluate(f"toText({json.dumps(example['result'])})") == example["text"], example["name"]


def test_json_rpc_errors_and_is_error_true_reject_with_their_text(
    either_page: ModulePage, server: Instructable
) -> None:
    either_page.start(server.url)
    assert either_page.execute("boom") == {"error": "Boom."}
    assert either_page.execute("fail") == {"error": "It failed."}
    assert "error" in either_page.evaluate("settle(call('boom'))")


@pytest.mark.parametrize("era", ["both", "stateless"])
def test_the_abort_of_the_browser_reaches_the_server(
    page: ModulePage, server: Instructable, wait: Wait, era: str
) -> None:
    """Chromium 156 passes a signal to `execute`; Chromium 150 and the polyfill do not."""
    server.control(era=era)
    page.start(server.url)
    page.evaluate("void (window.stop = new AbortController())")
    calling = "executes.slow({ endless: true }, { signal: stop.signal })"
    page.evaluate(f"void (window.running = settle({calling}))")
    wait(lambda log: bool(log.find("tools/call")))
    page.evaluate("stop.abort(new Error('enough'))")
    assert page.evaluate("running") == {"error": "enough"}
    log = wait(lambda log: log.cancelled == ["slow"])
    (call,) = log.find("tools/call")
    notices = [notice.body["params"]["requestId"] for notice in log.find("notifications/cancelled")]
    assert notices == ([call.body["id"]] if era == "both" else [])
    if era == "stateless":
        wait(lambda log: log.find("tools/call")[0].end == "disconnected")
    assert page.execute("slow") == {"value": "done"}


def test_progress_extends_the_timeout(page: ModulePage, server: Instructable, wait: Wait) -> None:
    page.start(server.url, "timeoutMs: 800")
    assert page.execute("slow", {"steps": 5, "interval_s": 0.2}) == {"value": "done"}
    assert "timed out after 800 ms" in page.execute("slow", {"steps": 1, "interval_s": 30})["error"]
    wait(lambda log: bool(log.find("notifications/cancelled")))


def test_a_request_of_the_server_is_rejected(page: ModulePage, server: Instructable) -> None:
    page.start(server.url)
    for name in ("sample", "elicit", "roots"):
        assert "cannot answer" in page.execute(name)["error"]
    rejections = [
        each.body["error"]["code"] for each in server.log().requests if each.body and "error" in each.body
    ]
    assert rejections == [-32601] * 3


def test_an_input_required_result_is_rejected(page: ModulePage, server: Instructable) -> None:
    server.control(era="stateless")
    page.start(server.url)
    assert page.execute("elicit")["error"] == "The tool asks for input, which a page cannot give."


# ── Revisions, sessions, responses ──────────────────────────────────────────────────────────────────────────


def test_a_server_of_2026_07_28_is_found_after_initialize_fails(
    either_page: ModulePage, server: Instructable
) -> None:
    server.control(
        era="stateless",
        tools=[
            tool(
                "run",
                inputSchema={
                    "type": "object",
                    "properties": {
                        "region": {"type": "string", "x-mcp-header": "Region"},
                        "at": {
                            "type": "object",
                            "properties": {"n": {"type": "integer", "x-mcp-header": "N"}},
                        },
                    },
                },
            ),
            tool(
                "bad",
                inputSchema={"type": "object", "properties": {"a": {"type": "object", "x-mcp-header": "A"}}},
            ),
        ],
    )
    assert either_page.start(server.url, "watch: false") == ["run"]
    assert len(either_page.logged("warn")) == 1
    assert either_page.call("run", {"region": "åland ", "at": {"n": 7}}) == "run"
    log = server.log()
    assert [request.rpc_method for request in log.requests if request.method == "POST"] == [
        "initialize",
        "server/discover",
        "tools/list",
        "tools/call",
    ]
    call = log.find("tools/call")[0]
    assert call.status == 200
    assert call.headers["mcp-method"] == "tools/call"
    assert call.headers["mcp-name"] == "run"
    assert call.headers["mcp-protocol-version"] == "2026-07-28"
    assert call.headers["mcp-param-region"] == "=?base64?w6VsYW5kIA==?="
    assert call.headers["mcp-param-n"] == "7"
    meta = call.body["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert {"io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/clientCapabilities"} <= meta.keys()


def test_responses_may_be_json(page: ModulePage, server: Instructable) -> None:
    server.control(json_response=True)
    page.start(server.url)
    assert page.call("echo", {"text": "hi"}) == "hi"
    assert page.execute("boom") == {"error": "Boom."}


def test_repeated_calls_need_no_preflight(page: ModulePage, server: Instructable) -> None:
    page.start(server.url, "watch: false")
    page.call("echo")
    before = [each.method for each in server.log().requests].count("OPTIONS")
    page.evaluate("(async () => { for (let n = 0; n < 5; n += 1) await call('echo'); })()")
    requests = server.log().requests
    assert [each.method for each in requests].count("OPTIONS") == before
    assert len(server.log().find("tools/call")) == 6


def test_a_server_that_has_become_one_of_2026_07_28_is_found_again(
    page: ModulePage, server: Instructable
) -> None:
    page.start(server.url, "watch: false")
    server.control(drop_sessions=True, era="stateless", forget_log=True)
    assert page.call("echo", {"text": "still here"}) == "still here"
    assert server.log().find("tools/call")[-1].headers["mcp-protocol-version"] == "2026-07-28"


def test_a_lost_session_is_opened_again_and_the_call_repeated(page: ModulePage, server: Instructable) -> None:
    page.start(server.url, "watch: false")
    server.control(drop_sessions=True, forget_log=True)
    outcomes = page.evaluate("Promise.all(['a', 'b', 'c'].map((text) => call('echo', { text })))")
    assert outcomes == ["a", "b", "c"]
    log = server.log()
    assert len(log.find("initialize")) == 1
    assert [call.status for call in log.find("tools/call")].count(200) == 3


def test_a_late_request_of_a_lost_session_uses_the_new_one(page: ModulePage, server: Instructable) -> None:
    page.start(server.url, "watch: false, getHeaders: () => window.gate")
    server.control(drop_sessions=True, forget_log=True)
    page.evaluate("void (window.gate = new Promise((resolve) => (window.release = resolve)))")
    page.evaluate("void (window.late = settle(executes.echo({ text: 'late' })))")
    page.evaluate("void (window.gate = undefined)")
    assert page.execute("echo", {"text": "first"}) == {"value": "first"}
    page.evaluate("release()")
    assert page.evaluate("late") == {"value": "late"}
    assert len(server.log().find("initialize")) == 1


def test_a_restarted_server_is_used_again_without_a_reload(page: ModulePage, everything: Everything) -> None:
    """It answers an unknown session with the status 400."""
    page.evaluate("hurry()")
    page.evaluate(
        "void (window.send = fetch, window.fetch = (url, options) =>"
        " send(url, options).finally(() => (window.isWatched ||= options.method === 'GET')))"
    )
    page.start(everything.url, "filter: ({ name }) => name !== window.hidden")
    page.wait_until("window.isWatched")
    assert page.call("get-sum", {"a": 2, "b": 3}).endswith("5.")
    page.evaluate("void (window.hidden = 'echo')")
    everything.restart()
    assert page.call("get-sum", {"a": 2, "b": 4}).endswith("6.")
    page.wait_until("!handle.tools.includes('echo')")
    assert "echo" not in page.tools()
    assert page.evaluate("errors") == []


def test_a_stream_that_was_lost_with_its_session_is_opened_in_the_new_one(
    page: ModulePage, server: Instructable, wait: Wait
) -> None:
    server.control(resumable=True)
    page.evaluate("hurry()")
    page.start(server.url)
    wait(is_watched)
    server.control(changed=["tools"])  # its event has an id
    page.wait_until("synced.length === 2")
    broken = {"initialize": 500}
    server.control(drop_sessions=True, statuses=broken, tools=[tool("new")], forget_log=True)
    page.wait_until("errors.length")
    assert set(page.tools()) == set(NAMES)
    server.control(statuses={})
    page.wait_until("handle.tools.includes('new')")
    log = wait(is_watched)
    assert "last-event-id" not in open_streams(log)[0].headers
    server.control(changed=["tools"], forget_log=True)
    wait(lambda log: bool(log.find("tools/list")))
    server.control(drop_sessions=True)
    assert page.call("new") == "new"  # it opens the session before the stream is opened again
    log = wait(is_watched)
    assert "last-event-id" not in open_streams(log)[0].headers


@pytest.mark.parametrize(("script", "count"), [("session_lost_by_each_call", 2), ("rejects_each_call", 1)])
def test_a_call_is_repeated_once_if_its_session_was_rejected(
    machine: Machine, page: ModulePage, script: str, count: int
) -> None:
    with hostile(machine, script) as server:
        page.start(server.url)
        assert page.execute("good")["error"]
        assert (server.counts["tools/call"], server.counts["initialize"]) == (count, count)


@pytest.mark.parametrize("resumable", [False, True])
def test_a_call_that_may_have_run_is_not_repeated(
    page: ModulePage, server: Instructable, wait: Wait, *, resumable: bool
) -> None:
    server.control(hang=["echo"], resumable=resumable)
    page.start(server.url, "watch: false")
    page.evaluate("void (window.running = settle(executes.echo({ text: 'once' })))")
    wait(lambda log: bool(log.find("tools/call")))
    server.control(drop_sessions=True)
    assert "may have run" in page.evaluate("running")["error"]
    assert len(server.log().find("tools/call")) == 1


def test_a_response_that_ends_early_is_resumed(page: ModulePage, server: Instructable) -> None:
    server.control(resumable=True)
    page.evaluate("hurry()")
    page.start(server.url, "watch: false")
    assert page.execute("detach") == {"value": "resumed"}
    resumed = [each for each in server.log().requests if each.method == "GET"]
    assert resumed[0].headers["last-event-id"]
    assert len(server.log().find("tools/call")) == 1


# ── Synchronization ─────────────────────────────────────────────────────────────────────────────────────────


def test_concurrent_refresh_calls_coalesce_into_one_sync(page: ModulePage, server: Instructable) -> None:
    page.start(server.url, "watch: false")
    server.control(forget_log=True)
    page.evaluate("void (window.syncs = [handle.refresh(), handle.refresh(), handle.refresh()])")
    assert page.evaluate("Promise.all(syncs).then(() => new Set(syncs).size)") == 1
    assert server.counts()["tools/list"] == 1


@pytest.mark.parametrize("era", ["both", "stateless"])
def test_watch_mode_re_syncs_via_tools_list_changed(
    either_page: ModulePage, server: Instructable, wait: Wait, era: str
) -> None:
    server.control(era=era)
    either_page.start(server.url)
    wait(is_watched)
    changed = [*TOOLS[1:], tool("new"), tool("add", description="Adds.")]
    del changed[0]
    server.control(tools=changed, changed=["tools"])
    names = [each["name"] for each in changed]
    either_page.wait_until("synced.length > 1")
    assert sorted(either_page.evaluate("handle.tools")) == sorted(names)
    tools = either_page.tools()
    assert (set(tools), tools["add"]["description"]) == (set(names), "Adds.")
    registered = either_page.evaluate("registered")[len(NAMES) :]
    assert sorted(registered) == ["add", "new"], "an unchanged tool was registered again"
    assert either_page.call("new") == "new"


def is_watched(log: ServerLog) -> bool:
    return bool(open_streams(log))


def open_streams(log: ServerLog) -> list[RecordedRequest]:
    streams = [each for each in log.requests if each.method == "GET"] + log.find("subscriptions/listen")
    return [each for each in streams if each.status == 200]


def test_a_change_reported_during_a_sync_is_not_lost(
    page: ModulePage, server: Instructable, wait: Wait
) -> None:
    page.evaluate("hurry()")
    page.start(server.url)
    wait(is_watched)
    server.control(hang=["tools/list"], forget_log=True)
    page.evaluate("void (window.refreshed = handle.refresh())")
    wait(lambda log: bool(log.find("tools/list")))
    server.control(changed=["tools"])
    page.wait_until("delays.includes(0)")  # the pause before the sync that the change causes
    server.control(hang=[], tools=[tool("late")])
    page.evaluate("refreshed")
    page.wait_until("synced.length === 3")
    assert server.counts()["tools/list"] == 2
    assert set(page.tools()) == {"late"}


def test_syncs_that_changes_cause_have_growing_pauses(
    page: ModulePage, server: Instructable, wait: Wait
) -> None:
    page.evaluate("hurry()")
    page.start(server.url)
    wait(is_watched)
    for count in range(2, 6):
        server.control(changed=["tools"])
        page.wait_until(f"synced.length === {count}")
    assert [ms for ms in page.evaluate("delays") if ms < 1000 and ms != 100] == [0, 50, 150, 350]


def test_a_failing_background_sync_leaves_the_previous_tools(
    page: ModulePage, server: Instructable, wait: Wait
) -> None:
    page.start(server.url)
    wait(is_watched)
    server.control(errors={"tools/list": {"code": -32603, "message": "Broken."}}, changed=["tools"])
    page.wait_until("errors.length")
    assert page.evaluate("errors") == ["Broken."]
    assert len(page.logged("error")) == 1
    assert set(page.tools()) == set(NAMES)
    assert page.call("echo", {"text": "hi"}) == "hi"
    assert page.evaluate("settle(handle.refresh())") == {"error": "Broken."}
    assert page.evaluate("errors") == ["Broken."]


def test_a_disposal_by_a_callback_of_a_sync_leaves_nothing_registered(
    page: ModulePage, server: Instructable
) -> None:
    page.start(server.url, "filter: () => { if (window.isOver) handle.dispose(); return true; }")
    server.control(tools=[tool("new")])
    page.evaluate("void (window.isOver = true)")
    page.evaluate("handle.refresh()")
    assert page.tools() == {}


def test_callbacks_that_throw_are_logged(page: ModulePage, server: Instructable) -> None:
    names = page.start(server.url, "onSync() { throw new Error('mine') }")
    assert names == NAMES
    assert ["mine" in text for text in page.logged("error")] == [True]


def test_server_returns_405_on_get_graceful_watch_degradation(
    page: ModulePage, server: Instructable, wait: Wait
) -> None:
    server.control(allows_get=False)
    page.evaluate("hurry()")
    page.start(server.url)
    page.wait_until("logged.length")
    assert len(page.logged("warn")) == 1
    server.control(tools=[tool("new")])
    page.evaluate("handle.refresh()")
    assert page.call("new") == "new"
    assert [each.status for each in server.log().requests if each.method == "GET"] == [405]
    assert set(page.evaluate("delays")) == {100, 60_000}, "another attempt is planned"


def test_watch_false_opens_no_stream(page: ModulePage, server: Instructable) -> None:
    page.start(server.url, "watch: false")
    page.call("echo")
    assert [each for each in server.log().requests if each.method == "GET"] == []


def test_a_broken_stream_is_opened_again_with_growing_delays(
    page: ModulePage, server: Instructable, wait: Wait
) -> None:
    page.evaluate("hurry()")
    page.start(server.url)
    wait(is_watched)
    for count in (2, 3):
        server.control(end_streams=True, tools=[tool(f"new{count}")])
        page.wait_until(f"synced.length === {count}")
        assert set(page.tools()) == {f"new{count}"}
    assert [ms for ms in page.evaluate("delays") if 1000 <= ms < 60_000] == [1000, 2000]


# ── Start and disposal ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "instructions",
    [
        {"statuses": {"initialize": 500}},
        {"statuses": {"initialize": 404, "server/discover": 404}},
        {"errors": {"tools/list": {"code": -32603, "message": "Broken."}}},
        {"repeat_cursor": True, "page_size": 5},
        {"statuses": {"notifications/initialized": 403}},
        {"required_headers": {"authorization": "x"}},
    ],
)
def test_init_failure_rejects_without_on_error(
    either_page: ModulePage, server: Instructable, instructions: dict[str, Any]
) -> None:
    server.control(**instructions)
    assert either_page.fail(server.url)
    assert either_page.tools() == {}
    assert either_page.evaluate("errors") == []
    opened = [each for each in server.log().find("initialize") if each.status == 200]
    assert len([each for each in server.log().requests if each.method == "DELETE"]) == len(opened)


def test_a_relative_url_belongs_to_the_page(page: ModulePage, site: str) -> None:
    assert page.fail(f"/mcp?key={CANARY}") == f"HTTP 401 at {site}/mcp"
    assert "http" in page.fail("file:///etc/passwd")


def test_the_error_of_a_wrong_path_names_it(page: ModulePage, server: Instructable) -> None:
    assert server.url + "s" in page.fail(server.url + "s")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("uri: '/mcp'", "url"),
        ("url: new URL('/mcp', location)", "url"),
        ("url: '/mcp', prefix: 'a b.'", "prefix"),
    ],
)
def test_an_option_that_cannot_be_used_is_rejected_by_its_name(
    page: ModulePage, options: str, named: str
) -> None:
    error = page.evaluate(f"start({{ {options} }}).catch(({{ name, message }}) => [name, message])")
    assert error[0] == "TypeError"
    assert error[1].startswith(named)


def test_unknown_options_are_warned_of_once(page: ModulePage, server: Instructable) -> None:
    page.start(server.url, "prefx: 'a.', Watch: false")
    assert ["prefx, Watch" in text for text in page.logged("warn")] == [True]


@pytest.mark.parametrize("timeout", ["0", "-1", "NaN", "'soon'"])
def test_a_timeout_that_is_not_a_positive_number_is_rejected(
    page: ModulePage, server: Instructable, timeout: str
) -> None:
    assert "timeoutMs" in page.fail(server.url, f"timeoutMs: {timeout}")
    assert page.start(server.url, "timeoutMs: Infinity") == NAMES


def test_async_dispose_aborts_all_controllers_is_idempotent_and_rejects_execute(
    either_page: ModulePage, server: Instructable, wait: Wait
) -> None:
    either_page.start(server.url)
    wait(is_watched)
    either_page.evaluate("void (window.running = settle(executes.slow({ endless: true })))")
    wait(lambda log: bool(log.find("tools/call")))
    server.control(hang=["tools/list"])
    either_page.evaluate("void (window.refreshed = settle(handle.refresh()))")
    wait(lambda log: len(log.find("tools/list")) == 2)
    assert either_page.evaluate("[handle.dispose(), handle.disposed, handle.tools][1]") is True
    assert either_page.tools() == {}
    either_page.evaluate("Promise.all([handle.dispose(), handle.dispose()])")
    assert either_page.evaluate("running") == {"error": DISPOSED}
    assert either_page.evaluate("refreshed") == {}
    assert either_page.execute("echo") == {"error": DISPOSED}
    assert either_page.evaluate("handle.tools") == []
    either_page.evaluate("handle.refresh()")
    assert either_page.evaluate("errors") == []
    log = wait(lambda log: all(each.end for each in log.requests))
    assert [each.status for each in log.requests if each.method == "DELETE"] == [200]
    assert set(log.cancelled) <= {"slow", "tools/list"}
    assert len(log.find("tools/list")) == 2
    assert len(log.find("notifications/cancelled")) <= 2, "execute sent something after disposal"


def test_dispose_ends_within_a_time_limit_if_the_server_is_dead(machine: Machine, page: ModulePage) -> None:
    with hostile(machine, "never_ending_session") as server:
        page.evaluate("hurry()")
        page.start(server.url)
        page.evaluate("void (window.begun = performance.now())")
        page.evaluate("handle.dispose()")
        assert page.evaluate("performance.now() - begun") < 6_000
        assert server.counts["DELETE"] == 1


def test_document_model_context_is_preferred(machine: Machine, server: Instructable) -> None:
    page = machine.page(path="/polyfill")
    page.evaluate("void Object.defineProperty(navigator, 'modelContext', { value: { registerTool: null } })")
    assert page.start(server.url) == NAMES
    assert set(page.tools()) == set(NAMES)


def test_custom_logger_and_quiet(page: ModulePage, server: Instructable) -> None:
    server.control(tools=[tool("not allowed/é")])
    page.start(server.url)
    assert [text.startswith("[webmcp-adapter] ") for text in page.logged("warn")] == [True]
    page.evaluate("void (logged.length = 0)")
    page.evaluate("void (console.warn = (text) => logged.push(['console', text]))")
    page.start(server.url, "logger: undefined")
    assert [text.startswith("[webmcp-adapter] ") for text in page.logged("console")] == [True]
    page.start(server.url, "logger: undefined, quiet: true")
    page.start(server.url, "quiet: true")
    assert len(page.evaluate("logged")) == 1


# ── Servers that break the rules ────────────────────────────────────────────────────────────────────────────


@contextmanager
def hostile(machine: Machine, script: str) -> Iterator[HostileServer]:
    with machine.thread.holding(hostile_server(script)) as running:
        yield running


@pytest.mark.parametrize(
    "script",
    ["repeated_cursor", "empty_pages", "many_tools", "many_pages", "huge_list", "tools_as_object",
     "result_as_number", "dies_in_list", "garbage", "web_page", "redirect_elsewhere", "redirect_to_file",
     "redirect_in_circles"],
)  # fmt: skip
def test_a_server_that_breaks_the_rules_at_the_start_is_rejected(
    machine: Machine, page: ModulePage, script: str
) -> None:
    with hostile(machine, script) as server:
        assert page.fail(server.url, "timeoutMs: 20000")
        assert page.tools() == {}
        assert server.counts["tools/list"] <= (2 if script == "repeated_cursor" else 200)
        assert server.other
        assert server.other.counts == {}


@pytest.mark.parametrize(
    "script",
    ["huge_json", "huge_event", "endless_event", "gzip_bomb", "gzip_bomb_event", "never_calling",
     "half_event", "endless_comments", "dies_in_call", "dies_in_response", "dies_in_event", "redirect_call",
     "answers_other_only"],
)  # fmt: skip
def test_a_server_that_breaks_the_rules_in_a_call_fails_that_call_once(
    machine: Machine, page: ModulePage, script: str
) -> None:
    with hostile(machine, script) as server:
        waits = script in {"never_calling", "half_event", "endless_comments"}
        page.start(server.url, f"timeoutMs: {500 if waits else 20000}")
        assert page.execute("good")["error"]
        # Chromium itself repeats a request if a reused connection closes without a byte of the response.
        assert server.counts["tools/call"] == 1 or script == "dies_in_call"
        assert set(page.tools()) == {"good"}
        assert server.other
        assert server.other.counts == {}


def test_a_response_to_another_request_is_ignored(machine: Machine, page: ModulePage) -> None:
    with hostile(machine, "answers_others") as server:
        page.start(server.url)
        assert page.execute("good") == {"value": "good"}


def test_a_stream_that_stays_open_behind_its_response_is_closed(machine: Machine, page: ModulePage) -> None:
    """Chromium has six connections for a server."""
    with hostile(machine, "answers_and_stays") as server:
        page.start(server.url, "timeoutMs: 10000")
        for _ in range(8):
            assert page.execute("good") == {"value": "good"}


def test_a_response_is_resumed_after_the_delay_that_the_server_asks_for(
    machine: Machine, page: ModulePage
) -> None:
    with hostile(machine, "detaches") as server:
        page.evaluate("hurry()")
        page.start(server.url, "watch: false")
        assert page.execute("good") == {"value": "good"}
        assert [ms for ms in page.evaluate("delays") if 100 < ms < 60_000] == [2000]
        assert (server.counts["tools/call"], server.counts["GET"]) == (1, 1)


def test_tools_without_a_name_are_left_out(machine: Machine, page: ModulePage) -> None:
    with hostile(machine, "nameless_tool") as server:
        assert page.start(server.url, "watch: false") == ["good"]
        assert len(page.logged("warn")) == 2


COUNT_ANSWERS = """(() => {
  const send = window.fetch;
  let underWay = 0;
  window.mostAnswers = 0;
  window.fetch = async (url, options) => {
    if (!options?.body || "method" in JSON.parse(options.body)) return send(url, options);
    window.mostAnswers = Math.max(window.mostAnswers, ++underWay);
    return send(url, options).finally(() => { underWay -= 1; });
  };
})()"""
"""Counts the answers to requests of the server that are under way at the same time."""


def test_a_flood_of_changes_does_not_stop_calls(machine: Machine, page: ModulePage) -> None:
    with hostile(machine, "list_changed_flood") as server:
        page.start(server.url)
        machine.thread.run(until, lambda: server.is_flooded)
        assert page.execute("good") == {"value": "good"}
        assert server.counts["tools/list"] < FLOOD
        page.evaluate("handle.dispose()")


def test_a_flood_of_requests_does_not_stop_calls(machine: Machine, page: ModulePage) -> None:
    page.evaluate(COUNT_ANSWERS)
    with hostile(machine, "request_flood") as server:
        page.start(server.url)
        machine.thread.run(until, lambda: server.is_flooded)
        assert page.execute("good") == {"value": "good"}
        assert 1 <= page.evaluate("mostAnswers") <= 32
        page.evaluate("handle.dispose()")
