"""The extension agrees with the host: constants read from its source, modules run in a real Chromium."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bridge.state import pauses_file
from demo.chromium import ScriptError
from full_chain import EXTENSION
from native_host import __version__
from native_host.protocol import wire
from native_host.protocol.chunking import Outbox
from tool_browser import Browser, Tab, open_browser, trio_thread

MANIFEST = json.loads((EXTENSION / "manifest.json").read_text())
SOURCES = {str(path.relative_to(EXTENSION)): path.read_text() for path in EXTENSION.rglob("*.js")}


def test_the_key_in_the_manifest_makes_the_id_that_the_host_accepts() -> None:
    digest = hashlib.sha256(base64.b64decode(MANIFEST["key"])).hexdigest()[:32]
    assert "".join(chr(ord("a") + int(digit, 16)) for digit in digest) == wire.EXTENSION_ID


def test_extension_and_package_have_one_version() -> None:
    assert MANIFEST["version"] == __version__


def test_the_extension_s_error_codes_are_the_wire_s() -> None:
    codes = dict(re.findall(r"^  ([A-Z_]+): (-\d+),$", SOURCES["worker/wire.js"], re.MULTILINE))
    assert codes
    assert {name: int(number) for name, number in codes.items()} == {
        name: wire.Code[name].value for name in codes
    }


@pytest.mark.parametrize(
    ("source", "name", "value"),
    [
        ("worker/wire.js", "WIRE_VERSION", wire.WIRE_VERSION),
        ("worker/wire.js", "HOST_NAME", wire.HOST_NAME),
        ("worker/wire.js", "FROM_BROWSER_BYTES", wire.FROM_BROWSER_BYTES),
        ("worker/wire.js", "MAX_DEPTH", wire.MAX_DEPTH),
        ("worker/wire.js", "TROUBLE_BYTES", wire.TROUBLE_BYTES),
        ("worker/chunking.js", "CHUNKED_BYTES", wire.CHUNKED_BYTES),
        ("worker/chunking.js", "CHUNK_BYTES", wire.CHUNK_BYTES),
        ("worker/chunking.js", "TRANSFERS", wire.CHUNK_TRANSFERS),
        ("worker/chunking.js", "CHUNK_SECONDS", wire.CHUNK_SECONDS),
        ("worker/pauses.js", "KEPT", pauses_file.KEPT_CHANGES),
        ("worker/pauses.js", "KEPT_MS", pauses_file.KEPT_MS),
        ("content/content_script.js", "MESSAGE_BYTES", wire.FROM_BROWSER_BYTES),
        ("content/tab_transport.js", "INVALID_REQUEST", wire.Code.INVALID_REQUEST),
        ("content/content_script.js", "INTERNAL_ERROR", wire.Code.INTERNAL_ERROR),
        ("content/content_script.js", "GONE", wire.Code.GONE),
        ("content/content_script.js", "TOO_LARGE", wire.Code.TOO_LARGE),
        ("content/content_script.js", "NAVIGATED", wire.Code.NAVIGATED),
        ("content/content_script.js", "NO_LONGER_OFFERED", wire.Code.NO_LONGER_OFFERED),
        ("content/tab_transport.js", "METHOD_NOT_FOUND", wire.Code.METHOD_NOT_FOUND),
        ("content/tab_transport.js", "INVALID_PARAMS", wire.Code.INVALID_PARAMS),
    ],
)
def test_a_constant_is_the_same_on_both_sides(source: str, name: str, value: object) -> None:
    (found,) = re.findall(rf"^(?:export )?const {name} = (.+);$", SOURCES[source], re.MULTILINE)
    assert eval(found, {"MIB": wire.MIB}) == value  # an expression such as 64 * MIB reads the same in Python


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        (("worker/document.js", "FRAME_PORT"), ("content/content_script.js", "PORT_NAME"), "mcpb-frame"),
        (
            ("content/tab_transport.js", "POLYFILL_CHANNEL"),
            ("content/polyfill_server.js", "CHANNEL"),
            "dev.mcpb.polyfill",
        ),
    ],
)
def test_what_two_scripts_must_call_alike_is_called_alike(
    one: tuple[str, str], other: tuple[str, str], word: str
) -> None:
    """Neither can import it from the other: content scripts are no modules, one is in the page's world."""
    for source, name in (one, other):
        assert re.search(rf'const {name} = "{re.escape(word)}";', SOURCES[source])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with trio_thread() as thread, open_browser(thread) as opened:
        yield opened


@pytest.fixture(scope="module")
def popup(browser: Browser) -> str:
    return f"chrome-extension://{browser.load_extension(EXTENSION)}/popup/popup.html"


@pytest.fixture
def modules(browser: Browser, popup: str) -> Iterator[Tab]:
    """A page of the extension, which remembers nothing: `load(name)` imports one of its modules."""
    tab = browser.open(popup)
    tab.evaluate("Promise.all([chrome.storage.local.clear(), chrome.storage.session.clear()]).then(() => 0)")
    tab.evaluate("globalThis.load = (name) => import(chrome.runtime.getURL('worker/' + name)); 0")
    yield tab
    tab.close()


PLAYED_UPGRADE = """load("upgrade.js").then(async (module) => {
    globalThis.upgrades = module;
    const { fetch, chrome: { runtime, storage } } = globalThis;
    let reloads = 0;
    runtime.reload = () => (reloads += 1);
    const own = runtime.getManifest();
    let manifest = own;
    let isBusy = false;
    globalThis.fetch = async (url) => {
        if (manifest.key === null || url !== runtime.getURL("manifest.json")) throw new TypeError("gone");
        return { json: async () => manifest };
    };
    await storage.session.set({ played: "kept" }); // no key of the worker, which runs meanwhile
    const upgrade = new module.Upgrade(() => isBusy);
    await upgrade.start();
    globalThis.look = async ({ isBusy: busy = false, ...change } = {}) => {
        isBusy = busy;
        if (Object.keys(change).length > 0) manifest = { ...own, ...change };
        await upgrade.check();
        return reloads;
    };
    globalThis.restart = async () => {
        await storage.session.clear();
        await module.restoreSession();
        return (await storage.session.get()).played;
    };
})"""
PLAYED_NATIVE_PORT = """Promise.all(["native_host.js", "last_error.js"].map(load)).then(
        ([{ NativePort }, { LastError }]) => {
    const { setTimeout } = globalThis;
    globalThis.isPatient = true; // with a host that has not said hello: the test may be slow to play it
    globalThis.setTimeout = (act, ms) => setTimeout(act, isPatient && ms === 10_000 ? ms : ms / 200);
    globalThis.ports = [];
    globalThis.reasonForNoHello = null;
    chrome.runtime.connectNative = () => {
        const listeners = [];
        const event = { addListener: (listener) => listeners.push(listener) };
        const port = { disconnected: false, disconnect: () => (port.disconnected = true), postMessage() {},
            onMessage: event, onDisconnect: { addListener: (end) => (port.end = end) },
            say: (message) => listeners[0](message) };
        ports.push(port);
        return port;
    };
    const hello = async () => { if (reasonForNoHello) throw new Error(reasonForNoHello); return {}; };
    const ignore = () => {};
    const [opened, greeted, received, ended, changed] = Array(5).fill(ignore);
    globalThis.last = new LastError();
    globalThis.native = new NativePort({ hello, opened, greeted, received, ended, changed }, last);
    globalThis.greet = () => ports.at(-1).say({ method: "host/hello", params: { wire: 1, version: "x" } });
    void native.connect();
})"""
"""A host that the test plays, connected to once. Its pauses, minutes in all, are 200 times as short."""

TIMERS_BY_HAND = "globalThis.planned = [], globalThis.setTimeout = (act, ms) => (planned.push(ms), 0)"
"""From now on no time passes: what would happen later is only written down, in milliseconds."""

HOSTS_THAT_DIE_AT_ONCE = f"""
    chrome.runtime.connectNative = ((dial) => () => {{
        const port = dial();
        queueMicrotask(() => {{
            if (ports.length === 10) {TIMERS_BY_HAND};
            if (ports.length <= 10) greet(), port.end();
        }});
        return port;
    }})(chrome.runtime.connectNative);
    if (ports[0] && !ports[0].disconnected) greet(), ports[0].end();
"""
"""Ten in a row, each after its hello; time stands still when the last of them ends."""


PLAYED_FIREFOX_TAB = """(() => {
    const listeners = {};
    const event = (name) => ({
        addListener: (listener) => (listeners[name] ??= new Set()).add(listener),
        removeListener: (listener) => listeners[name].delete(listener),
    });
    const names = ["onBeforeNavigate", "onCommitted", "onDOMContentLoaded", "onCompleted", "onErrorOccurred",
        "onReferenceFragmentUpdated", "onHistoryStateUpdated"];
    const played = Object.fromEntries(names.map((name) => [name, event(name)]));
    Object.defineProperty(chrome, "webNavigation", { value: { ...played, getFrame: async () => null } });
    chrome.tabs.get = async (id) => ({ id, status: "complete", url: "" });
    globalThis.tell = async (...events) => {
        for (const [name, url, error] of events) {
            listeners[name].forEach((listener) => listener({ tabId: 7, frameId: 0, url, error }));
            await new Promise((next) => setTimeout(next));
        }
    };
})()"""
"""Tab 7 of a Firefox that the test plays: `tell([event, url, error?], …)` are events of its main frame."""

CLOSED, OPEN = "http://closed.example/a+b", "http://open.example/"
FAILURE_PAGE = "about:neterror?e=connectionFailure&u=http%3A//closed.example/a+b"

VISIT = """load("navigation.js").then(async ({ navigation }) => {
    const patience = { waitUntil: "load", timeoutMs: 10_000, signal: new AbortController().signal };
    let ended = "";
    const [visit] = await new Promise((begun) => {
        const visit = navigation(7, url, async () => begun([visit]), patience)
            .then(() => "loaded", ({ message }) => message)
            .then((how) => (ended = how));
    });
    await tell(["onBeforeNavigate", url], ...events);
    const early = ended;
    await tell(...last);
    return [early, await visit];
})"""
"""How a navigation to `url` has ended after `events`, and after `last`."""


def visit(modules: Tab, url: str, events: list[list[str]], last: list[list[str]]) -> list[str]:
    """Return how a navigation in the tab has ended after `events` (empty: it has not), and after `last`."""
    given = ", ".join(map(json.dumps, (url, events, last)))
    ended: list[str] = modules.evaluate(f"((url, events, last) => {VISIT})({given})")
    return ended


class TestModules:
    def test_a_body_that_the_host_cuts_is_put_together_by_the_extension_in_old_browsers_too(
        self, modules: Tab
    ) -> None:
        body = json.dumps({"text": 'é"\\😀' * 200_000}, ensure_ascii=False).encode()
        expected = len(json.loads(body)["text"].encode("utf-16-le")) // 2  # JavaScript counts UTF-16 units
        modules.evaluate("load('chunking.js').then(({Joiner}) => { globalThis.joiner = new Joiner(); })")
        for _ in ("as it is", "before Chrome 140"):
            outbox = Outbox()
            outbox.put("key", body)
            lengths = []
            while outbox:
                chunk = json.loads(outbox.pop_next(0)[0])["params"]
                lengths.append(modules.evaluate(f"joiner.feed({json.dumps(chunk)})?.text.length"))
            assert lengths == [None] * (len(lengths) - 1) + [expected]
            modules.evaluate("delete Uint8Array.fromBase64")

    @pytest.mark.parametrize(
        ("chunks", "complaint"),
        [
            ([{"seq": 1}], "piece 1 came where piece 0 was due"),
            ([{}, {"seq": 2}], "piece 2 came where piece 1 was due"),
            ([{"bytes": 1}, {"seq": 1}], "more than the 1 bytes"),
            ([{"bytes": 65 * wire.MIB}], "bytes announced"),
            ([{"data": "%%%"}], "base64"),
            ([{"bytes": 1, "last": True}], "JSON"),
            ([{"transfer": number} for number in range(5)], "more than 4 transfers"),
        ],
    )
    def test_a_broken_transfer_is_refused_with_the_reason(
        self, modules: Tab, chunks: list[dict[str, Any]], complaint: str
    ) -> None:
        whole = [{"transfer": 1, "seq": 0, "last": False, "bytes": 9, "data": "YQ==", **c} for c in chunks]
        feed = f"const j = new Joiner(); for (const c of {json.dumps(whole)}) j.feed(c);"
        with pytest.raises(ScriptError, match=complaint):
            modules.evaluate(f"load('chunking.js').then(({{ Joiner }}) => {{ {feed} }})")

    def test_hellos_of_a_new_profile_that_are_made_at_once_have_one_id(self, modules: Tab) -> None:
        made = "Promise.all([1, 2].map(() => hello([], true, { newest: null, exits: null })))"
        ids = modules.evaluate(
            f"load('profile.js').then(({{ hello }}) => {made})"
            ".then((hellos) => hellos.map(({ profile }) => profile.id))"
        )
        stored = modules.evaluate("chrome.storage.local.get('profileId').then(({ profileId }) => profileId)")
        assert ids == [stored, stored]

    @pytest.mark.parametrize("after_commit", [0, 1, 2])
    def test_in_firefox_a_late_page_about_a_failed_load_does_not_end_the_next_navigation(
        self, modules: Tab, after_commit: int
    ) -> None:
        """Firefox reports a failed load by an event, and shows its own page about it afterwards.

        That page is committed under the address that failed, before the next page. Its other events come from
        another process, and name Firefox's own address of it.
        """
        modules.evaluate(PLAYED_FIREFOX_TAB)
        failed = ["onErrorOccurred", CLOSED, "Error code 2152398861"]
        assert visit(modules, CLOSED, [failed], [])[1] == f"{CLOSED} did not load: Error code 2152398861."
        late = [["onCommitted", CLOSED], ["onDOMContentLoaded", FAILURE_PAGE], ["onCompleted", FAILURE_PAGE]]
        before = len(late) - after_commit
        events = [*late[:before], ["onCommitted", OPEN], *late[before:]]
        assert visit(modules, OPEN, events, [["onCompleted", OPEN]]) == ["", "loaded"]

    def test_in_firefox_a_page_under_an_address_that_failed_before_ends_the_navigation_that_leads_there(
        self, modules: Tab
    ) -> None:
        """Its commit is like that of Firefox's page about the failed load; its other events are not."""
        modules.evaluate(PLAYED_FIREFOX_TAB)
        visit(modules, CLOSED, [["onErrorOccurred", CLOSED, "Error code 2152398861"]], [])
        arrival = [["onCommitted", CLOSED], ["onDOMContentLoaded", CLOSED]]
        assert visit(modules, OPEN, arrival, [["onCompleted", CLOSED]]) == ["", "loaded"]

    def test_a_host_of_another_wire_version_stays_connected_until_the_user_looks(self, modules: Tab) -> None:
        """Bridges learn both versions from it. The next host may be of the right one."""
        modules.evaluate(PLAYED_NATIVE_PORT)
        modules.wait_until("ports.length === 1")
        rejected, replaced = modules.evaluate("""(async () => {
            const state = () => [ports.map(({ disconnected }) => disconnected), native.host?.wire ?? null,
                native.trouble?.command ?? null, native.resting];
            ports[0].say({ method: "host/hello", params: { wire: 0, version: "0.1.0" } });
            native.nudge();
            const rejected = state();
            await native.connect();
            greet();
            return [rejected, state()];
        })()""")
        assert rejected == [[False], None, "mcpb install-native-host", True]
        assert replaced == [[True, False], 1, None, False]

    @pytest.mark.parametrize(
        ("command", "shown"),
        [
            ("'/home/me/my mcpb'", "'/home/me/my mcpb'"),
            ("mcpb\nrm x", None),
            ("mcpb\u2028rm x", None),
            ("x" * 501, None),
            (["mcpb"], None),
            (None, None),
        ],
    )
    def test_a_command_of_the_host_that_is_no_short_line_is_not_shown(
        self, modules: Tab, command: object, shown: str | None
    ) -> None:
        modules.evaluate(PLAYED_NATIVE_PORT)
        modules.wait_until("ports.length === 1")
        greeted, complained = modules.evaluate(f"""(() => {{
            const command = {json.dumps(command)};
            ports[0].say({{ method: "host/hello", params: {{ wire: 1, version: "x", command }} }});
            ports[0].say({{ method: "host/error", params: {{ message: "no", command }} }});
            return [native.host.command, native.trouble.command];
        }})()""")
        assert (greeted, complained) == (shown or "mcpb", shown or "")

    def test_what_no_decoder_reads_is_mended_or_refused_before_it_is_posted(self, modules: Tab) -> None:
        mended, same, deep = modules.evaluate("""load("json_safety.js").then(({ decodable }) => {
            const fine = { a: [1, "é😀"], b: null, ["__proto__"]: true };
            const nested = (depth) => JSON.parse("[".repeat(depth) + "]".repeat(depth));
            const fails = (value) => { try { decodable(value); return false; } catch { return true; } };
            const half = "\\ud800";
            const mended = decodable({ ...fine, [`k${half}`]: ["a\\udc00b", { c: 2 }], ["__proto__"]: half });
            const deep = [nested(200), nested(201), { half, deep: nested(200) }];
            return [JSON.stringify(mended), decodable(fine) === fine, deep.map(fails)];
        })""")
        assert json.loads(mended) == {
            "a": [1, "é😀"],
            "b": None,
            "__proto__": "\ufffd",
            "k\ufffd": ["a\ufffdb", {"c": 2}],
        }
        assert same is True
        assert deep == [False, True, True]

    def test_a_frame_s_list_is_bounded_and_says_what_was_left_out(self, modules: Tab) -> None:
        fit = modules.evaluate("""load("tool_list.js").then(({ fitOffer }) => {
            const { lists: { tools }, via, notice } = fitOffer(
                { tools: [{ name: "a", description: "x".repeat(700000) },
                 { name: "b", description: "x".repeat(700000) }, { name: "c", extra: 1 },
                 { name: "c" }, { name: "" }, 7, null] },
                { a: "mcp-b", c: "made up" });
            return { tools, via: Object.fromEntries(via), notice };
        })""")
        assert [tool["name"] for tool in fit["tools"]] == ["a", "c"]
        assert fit["tools"][1] == {"name": "c", "extra": 1}
        assert fit["via"] == {"a": "mcp-b"}
        assert fit["notice"].startswith("5 of this page's 7 tools are left out")

    def test_a_frame_s_list_is_bounded_by_number_too(self, modules: Tab) -> None:
        kept, notice, taken = modules.evaluate("""load("document.js").then(({ Frame }) => {
            const frame = new Frame({}, 1, {});
            const tools = Array.from({ length: 3000 }, (_, n) => ({ name: `t${n}` }));
            frame.list({ tools, via: {}, leftOut: {} }, () => false);
            return [frame.tools.length, frame.offer.notice, frame.bytes];
        })""")
        assert kept == 1024
        assert notice.startswith("1976 of this page's 3000 tools are left out")
        assert "each entry takes at least 1 KiB" in notice
        assert taken == wire.MIB  # so that a tab's room of four is full with 4096 of them

    def test_what_a_content_script_left_out_is_counted_too(self, modules: Tab) -> None:
        notice = modules.evaluate("""load("tool_list.js").then(({ fitOffer }) =>
            fitOffer({ tools: [{ name: "a" }, { name: "" }] }, {}, { tools: 7, resources: "many" })
                .notice)""")
        assert notice.startswith("8 of this page's 9 tools are left out")

    def test_the_four_lists_share_one_mib_in_which_tools_come_first(self, modules: Tab) -> None:
        counts, notice = modules.evaluate("""load("tool_list.js").then(({ fitOffer }) => {
            const many = (key, count) => Array.from({ length: count }, (_, n) => ({ [key]: `x://${n}` }));
            const { lists, notice } = fitOffer({
                resources: many("uri", 600), resourceTemplates: many("uriTemplate", 200),
                prompts: many("name", 200), tools: many("name", 200), other: many("name", 9) }, {}, {});
            const counts = Object.fromEntries(
                Object.entries(lists).map(([kind, list]) => [kind, list.length]));
            return [counts, notice];
        })""")
        assert counts == {"tools": 200, "prompts": 200, "resourceTemplates": 200, "resources": 424}
        assert notice.startswith("176 of this page's 600 resources are left out")

    @pytest.mark.parametrize(
        ("uri", "whole", "is_part"),
        [
            ("cart://1", "cart://1", True),
            ("cart://1/items", "cart://1", True),
            ("cart://1?page=2", "cart://1", True),
            ("cart://10", "cart://1", False),
            ("dir://a/b", "dir://a/", True),
            ("cart://", "cart://1", False),
        ],
    )
    def test_a_part_of_a_resource_begins_behind_it(
        self, modules: Tab, uri: str, whole: str, is_part: bool
    ) -> None:
        asked = f"load('wire.js').then(() => PageBounds.isPartOf({json.dumps(uri)}, {json.dumps(whole)}))"
        assert modules.evaluate(asked) is is_part

    def test_watchers_of_a_resource_share_one_subscription_which_ends_with_the_last(
        self, modules: Tab
    ) -> None:
        told, heard, ends = (
            modules.evaluate("""load("resource_watches.js").then(async ({ ResourceWatches }) => {
            const told = [], heard = [];
            const watches = new ResourceWatches((type, uri) => told.push(`${type} ${uri}`));
            const stops = ["a", "b", "c"].map(() => new AbortController());
            const watch = (uri, at) => watches.watch(uri, { connection: "1", signal: stops[at].signal,
                onActive: () => heard.push(`${at} active`),
                onUpdated: (part) => heard.push(`${at} ${part}`) });
            const ended = [watch("x://1", 0), watch("x://1", 1), watch("x://1/a", 2)];
            watches.activated("x://1");
            watches.updated("x://1/a", "x://1");
            watches.updated("x://10", "x://1"); // is no part of it
            stops[0].abort();
            stops[1].abort();
            watches.endAll();
            return [told, heard, await Promise.race(ended)];
        })""")
        )
        assert told == [
            "watch-resource x://1",
            "watch-resource x://1/a",
            "unwatch-resource x://1",
            "unwatch-resource x://1/a",
        ]
        assert heard == ["0 active", "1 active", "0 x://1/a", "1 x://1/a"]
        assert ends == {}

    def test_a_tab_that_comes_changes_or_goes_while_all_are_listed_is_told_as_it_is_afterwards(
        self, modules: Tab
    ) -> None:
        told = modules.evaluate("""load("tabs.js").then(async ({ Tabs }) => {
            const nothing = new Proxy({}, { get: () => () => null }); // nothing is kept of any tab
            const tab = (id, title) => ({ id, title, url: "https://shop.example/", windowId: 1 });
            const now = new Map([[1, tab(1, "gone")], [2, tab(2, "before")], [3, tab(3, "stays")]]);
            chrome.tabs.get = async (id) => now.get(id) ?? Promise.reject(new Error("no tab"));
            const focus = Promise.withResolvers();
            chrome.windows.getLastFocused = () => focus.promise;
            const told = [];
            const ended = new AbortController().signal;
            const link = { ended, post: ({ method, params }) => told.push([method, params]) };
            const { Audience } = await load("audience.js");
            const tabs = new Tabs(nothing, nothing, nothing, new Audience(() => {}), Promise.resolve());
            chrome.tabs.query = () => Promise.reject(new Error("the worker is about to be stopped"));
            await tabs.announceAll(link).catch(() => {}); // it has no part in what follows
            chrome.tabs.query = async () => [...now.values()];
            const announced = tabs.announceAll(link);
            await new Promise((resolve) => setTimeout(resolve)); // the list has been read
            now.delete(1), now.set(2, tab(2, "after")), now.set(4, tab(4, "new"));
            await Promise.all([tabs.removed(1), tabs.refresh(2), tabs.refresh(4)]);
            focus.resolve({ id: 1 });
            await announced;
            return told;
        })""")
        (first, _), *changes = told
        assert first == "browser/tabs"
        seen = [(method, params.get("tabId") or params["tab"]["title"]) for method, params in changes]
        assert sorted(seen) == [
            ("browser/tabChanged", "after"),
            ("browser/tabChanged", "new"),
            ("browser/tabRemoved", 1),
        ]

    def test_a_connection_receives_the_whole_state_and_then_each_change_until_it_ends(
        self, modules: Tab
    ) -> None:
        first, second = modules.evaluate("""load("audience.js").then(({ Audience }) => {
            const audience = new Audience((link) => link.post("the rest"));
            const connect = () => {
                const [told, end] = [[], new AbortController()];
                return { told, end, ended: end.signal, post: (message) => told.push(message) };
            };
            const [first, second, gone] = [connect(), connect(), connect()];
            gone.end.abort();
            audience.post("before all");
            audience.admit(gone, "tabs");
            audience.admit(first, "tabs");
            audience.post("a change");
            audience.admit(second, "tabs");
            audience.post("another change");
            first.end.abort();
            audience.post("after one end");
            second.end.abort();
            return audience.isEmpty && gone.told.length === 0 ? [first.told, second.told] : [];
        })""")
        assert first == ["tabs", "the rest", "a change", "another change"]
        assert second == ["tabs", "the rest", "another change", "after one end"]

    def test_a_tab_that_is_removed_while_it_is_read_is_forgotten(self, modules: Tab) -> None:
        told, known = modules.evaluate("""load("tabs.js").then(async ({ Tabs }) => {
            const nothing = new Proxy({}, { get: () => () => null });
            const now = new Map([[1, { id: 1, title: "shop", url: "https://shop.example/", windowId: 1 }]]);
            chrome.tabs.get = async (id) => now.get(id) ?? Promise.reject(new Error("no tab"));
            chrome.tabs.query = async () => [...now.values()];
            chrome.windows.getLastFocused = async () => ({ id: 1 });
            const told = [];
            const link = { ended: new AbortController().signal, post: ({ method }) => told.push(method) };
            const { Audience } = await load("audience.js");
            const tabs = new Tabs(nothing, nothing, nothing, new Audience(() => {}), Promise.resolve());
            await tabs.announceAll(link);
            const frame = Promise.withResolvers();
            chrome.webNavigation.getFrame = () => frame.promise;
            const refreshed = tabs.refresh(1);
            await new Promise((resolve) => setTimeout(resolve)); // it reads the tab
            now.delete(1);
            await tabs.removed(1);
            frame.reject(new Error("no tab"));
            await refreshed;
            return [told, tabs.get(1) ?? null];
        })""")
        assert told == ["browser/tabs", "browser/tabRemoved"]
        assert known is None

    def test_a_tab_whose_description_arrives_after_its_removal_is_forgotten(self, modules: Tab) -> None:
        sent, stored = modules.evaluate("""load("tabs.js").then(async ({ Tabs }) => {
            const nothing = new Proxy({}, { get: () => () => null });
            const tab = { id: 1, title: "shop", url: "https://shop.example/", windowId: 1 };
            const read = Promise.withResolvers();
            chrome.tabs.get = () => read.promise;
            chrome.tabs.query = async () => [tab];
            chrome.windows.getLastFocused = async () => ({ id: 1 });
            chrome.webNavigation.getFrame = async () => ({ url: tab.url, documentId: "d1" });
            const sent = [];
            const audience = { post: ({ method }) => sent.push(method) };
            const tabs = new Tabs(nothing, nothing, nothing, audience, Promise.resolve());
            await tabs.announceAll();
            const refreshed = tabs.refresh(1);
            await tabs.removed(1);
            read.resolve({ ...tab, active: true });
            await refreshed;
            return [sent, tabs.get(1) ?? null];
        })""")
        assert sent == ["browser/tabs", "browser/tabRemoved"]
        assert stored is None

    def test_a_tab_that_goes_elsewhere_while_it_is_read_has_the_document_of_its_address(
        self, modules: Tab
    ) -> None:
        told = modules.evaluate("""load("tabs.js").then(async ({ Tabs }) => {
            const nothing = new Proxy({}, { get: () => () => null });
            const [shop, bank] = ["https://shop.example/", "https://bank.example/"];
            const frames = [
                { url: shop, documentId: "d1" }, // the tab leaves for the bank
                { url: bank, documentId: "d2" },
                { url: bank, documentId: "d2" },
                { url: bank, documentId: "d2" },
                { url: bank, documentId: "d2" },
            ];
            const addresses = [bank, bank, `view-source:${bank}`, `view-source:${bank}`];
            chrome.webNavigation.getFrame = async () => frames.shift();
            chrome.tabs.get = async (id) => ({ id, title: "", url: addresses.shift(), windowId: 1 });
            const tabs = new Tabs(nothing, nothing, nothing, { post: () => {} }, Promise.resolve());
            const read = [await tabs.refresh(1), await tabs.refresh(1)];
            return [read.map(({ url, documentId }) => [url, documentId]), frames.length];
        })""")
        bank = "https://bank.example/"
        assert told == [[[bank, "d2"], [f"view-source:{bank}", "d2"]], 1]

    def test_the_room_for_lists_is_bounded_for_a_tab_and_for_all_and_comes_back(self, modules: Tab) -> None:
        taken, again = modules.evaluate("""load("announcement_quota.js").then(({ AnnouncementQuota }) => {
            const room = new AnnouncementQuota();
            const MIB = 1024 * 1024;
            const taken = [];
            for (let tab = 0; tab < 9; tab += 1) {
                const got = [0, 1, 2, 3, 4].filter((frame) => room.take(`${tab}:${frame}`, tab, MIB));
                taken.push(got.length);
            }
            const freed = room.release("0:0");
            const later = [room.fits(8, MIB), room.take("8:0", 8, MIB), room.fits(0, 1), room.release("no")];
            return [taken, [freed, ...later]];
        })""")
        assert taken == [4, 4, 4, 4, 4, 4, 4, 4, 0]
        assert again == [wire.MIB, True, True, False, 0]

    def test_what_a_content_script_makes_up_as_a_request_is_not_sent(self, modules: Tab) -> None:
        asked, said = modules.evaluate("""load("document.js").then(async ({ Frame }) => {
            const [asked, said] = [[], []];
            const frame = new Frame({ postMessage: (message) => said.push(message) }, 1, {});
            const onQuestion = async (question) => { asked.push(question); return { action: "cancel" }; };
            const { signal } = new AbortController();
            void frame.execute({ toolName: "t", args: {} }, { id: "7f-1:1", signal, onQuestion });
            const [method, model] = ["elicitation/create", "sampling/createMessage"];
            const requestedSchema = { title: "x".repeat(65536) };
            for (const made of [
                { questionId: 7, method, params: { message: "x" } },
                { questionId: "x".repeat(65), method, params: { message: "x" } },
                { questionId: "a", method, params: { message: { toString: null } } },
                { questionId: "b", method, params: { message: "x", requestedSchema } },
                { questionId: "c", method, params: { message: "x", mode: "url", url: "x".repeat(8193) } },
                { questionId: "d", method: model, params: { messages: "x".repeat(4 * 1024 * 1024) } },
                { questionId: "e", method: model, params: [] },
                { questionId: "f", method: "tools/call", params: {} },
                { questionId: "g", method: { includes: 1 }, params: {} },
                { questionId: "h", method, params: { message: "x", requestedSchema: {}, more: 1 } },
            ]) await frame.question(made);
            frame.cancelQuestion({ questionId: {} });
            return [asked, said.slice(1).map(({ questionId, error }) => [questionId, error?.code ?? 0])];
        })""")
        elicitation = {"message": "x", "requestedSchema": {}}
        assert asked == [{"method": "browser/elicitConfirmation", "params": elicitation}]
        invalid, unknown = wire.Code.INVALID_PARAMS, wire.Code.METHOD_NOT_FOUND
        assert said == [*([made, invalid] for made in "abcde"), ["f", unknown], ["g", unknown], ["h", 0]]

    def test_the_popup_is_told_of_tools_by_name_and_never_more_than_it_can_be_told(
        self, modules: Tab
    ) -> None:
        told = modules.evaluate("""load("popup_state.js").then(async ({ Popups }) => {
            const native = { host: null, connect() {}, last: { inARow: 0 } };
            const status = { of: () => "off", activeSessions: [] };
            const parts = { left: { byClient: [] },
                prompts: { count: 0 }, approvals: { all: [] }, siteRules: { blockedIn() {} },
                native, status, clients: { all: [] }, proxy: { connect() {} }, loaded: Promise.resolve(),
                tabs: { get() {}, async refresh() {} }, handovers: { has() {} },
                pauses: { all: { sites: [], sessions: [] }, patternOf: () => "" },
                siteRules: { blockedIn: () => null },
                frames: { ofTab: () => [{ origin: "o", tools: [] }] } };
            const popups = new Popups(parts);
            const told = { small: [], closed: [], whole: [] };
            const refusals = { small: ({ offers }) => offers.length > 0 && "exceeded maximum allowed size",
                closed: () => "disconnected", whole: () => false };
            const closing = [];
            const played = (name) => {
                const port = { sender: { url: chrome.runtime.getURL("popup/popup.html") }, said: [],
                    onMessage: { addListener: (hear) => (port.hear = hear) },
                    onDisconnect: { addListener: (close) => closing.push(close) },
                    postMessage(report) {
                        const refusal = refusals[name](report);
                        if (refusal) throw new Error(refusal);
                        told[name].push(report.offers.length);
                    } };
                popups.accept(port);
                return port;
            };
            const ports = Object.keys(told).map(played);
            popups.tell();
            ports[2].hear({ type: "watch", tabId: 1 });
            for (const close of closing) close(); // while what is kept is being read
            await new Promise((resolve) => setTimeout(resolve));
            popups.tell();
            return told;
        })""")
        assert told == {"small": [0], "closed": [], "whole": [1]}

    def test_the_toolbar_icon_follows_the_state_and_is_drawn_only_when_it_changes(self, modules: Tab) -> None:
        drawn = modules.evaluate("""load("toolbar_icon.js").then(async ({ ToolbarIcon }) => {
            const drawn = [];
            const note = (what) => async ({ tabId = 0, ...shown }) => void drawn.push([tabId, what(shown)]);
            Object.assign(chrome.action, { setIcon: note(({ path }) => path[16]),
                setTitle: note(({ title }) => title), setBadgeText: note(({ text }) => text),
                setBadgeBackgroundColor: async () => {} });
            const status = { everywhere: "off", ofTabs: new Map(), native: { trouble: null } };
            const prompts = { count: 0 };
            const left = { asking: 0 };
            const icon = new ToolbarIcon(status, prompts, left);
            await icon.load();
            const draw = (change) => {
                Object.assign(status, change);
                drawn.length = 0;
                icon.draw();
                icon.draw();
                return [...drawn];
            };
            const steps = [
                draw({}),
                draw({ native: { trouble: {} } }),
                draw({ everywhere: "connected", ofTabs: new Map([[7, "active"]]) }),
                draw({ ofTabs: new Map() }),
                (left.asking = 3, draw({})),
                (prompts.count = 2, draw({})),
                (prompts.count = left.asking = 0, draw({ everywhere: "paused" })),
            ];
            const later = new ToolbarIcon(status, prompts, left);
            await later.load();
            drawn.length = 0;
            later.draw();
            later.forget(7);
            return [...steps, [...drawn]];
        })""")
        assert drawn == [
            [[0, "/icons/off-16.png"], [0, "mcpb: not connected"], [0, ""]],
            [[0, "mcpb: not connected"], [0, "!"]],
            [[0, "/icons/connected-16.png"], [7, "/icons/active-16.png"], [0, "mcpb: connected"], [0, ""]],
            [[7, "/icons/connected-16.png"]],
            [[0, "mcpb: agents left tabs open"], [0, "3"]],
            [[0, "mcpb: an agent waits for your approval"], [0, "2"]],
            [[0, "/icons/paused-16.png"], [7, "/icons/paused-16.png"], [0, "mcpb: paused"], [0, ""]],
            [[0, "/icons/paused-16.png"], [7, "/icons/paused-16.png"], [0, "mcpb: paused"], [0, ""]],
        ]

    def test_a_visit_that_starts_the_worker_keeps_the_visits_of_the_last_one(self, modules: Tab) -> None:
        visited = modules.evaluate("""load("tab_visits.js").then(async ({ TabVisits }) => {
            await chrome.storage.session.set({ visited: [10, 11] });
            const visits = new TabVisits();
            visits.activated(12, 1);
            visits.removed(11, { windowId: 2, isOfClient: true });
            await visits.load();
            const { visited } = await chrome.storage.session.get("visited");
            return [visited, [10, 11, 12].map((tabId) => visits.has(tabId))];
        })""")
        assert visited == [[10, 12], [True, False, True]]

    def test_an_upgrade_reloads_once_for_each_version_and_never_while_busy(self, modules: Tab) -> None:
        modules.evaluate(PLAYED_UPGRADE)
        here = modules.evaluate("chrome.runtime.getManifest().version")
        assert modules.evaluate("look()") == 0
        assert modules.evaluate("look({ version: '9', isBusy: true })") == 0
        assert modules.evaluate("look({ version: '9', isBusy: false })") == 1
        assert modules.evaluate("look()") == 1
        assert modules.evaluate("look({ version_name: '9 (0123456789ab)' })") == 2
        assert modules.evaluate("restart()") == "kept"
        assert modules.evaluate("look()") == 2
        assert modules.evaluate("look({ key: 'of another extension', version: '8' })") == 2
        assert modules.evaluate("look({ key: null, version: '8' })") == 2
        assert (
            modules.evaluate(f"look({{ key: undefined, version: '{here}', version_name: undefined }})") == 2
        )

    def test_a_version_is_tried_again_after_a_worker_that_was_stopped_before_it_could_reload(
        self, modules: Tab
    ) -> None:
        modules.evaluate(PLAYED_UPGRADE)
        assert modules.evaluate("look({ version: '9' })") == 1
        assert (
            modules.evaluate("upgrades.restoreSession().then(() => chrome.storage.local.get('upgrade'))")
            == {}
        )
        assert modules.evaluate("look()") == 2

    def test_only_the_parent_itself_can_speak_for_a_frame_and_only_while_it_is_there(
        self, modules: Tab
    ) -> None:
        heard = modules.evaluate("""load("iframe_servers.js").then(async ({ Iframes }) => {
            const frame = (documentId) =>
                ({ tabId: 1, frameId: 1, documentId, origin: "o", said: [], post(m) { this.said.push(m); } });
            const [child, parent, stranger] = ["child", "parent", "stranger"].map(frame);
            const details = { documentId: "child", parentDocumentId: "parent" };
            Object.defineProperty(chrome.webNavigation, "getFrame", { value: async () => details });
            const all = [child, parent, stranger];
            const iframes = new Iframes((_, documentId) => all.find((f) => f.documentId === documentId));
            await iframes.introduce(child);
            const { nonce } = child.said[0];
            const tries = () => {
                iframes.match(stranger, nonce);
                iframes.toServer(child, "request");
                iframes.fromServer(stranger, nonce, "forged");
                iframes.fromServer(parent, "another", "forged");
                iframes.fromServer(parent, nonce, "answer");
            };
            tries();
            iframes.match(parent, nonce);
            tries();
            iframes.left(parent);
            tries();
            return all.map(({ said }) => said.map((m) => m.hosted ?? m.payload ?? m.type));
        })""")
        assert heard == [["frame-nonce", True, "answer", False], ["request"], []]

    def test_a_host_that_says_nothing_is_hung_up_on_and_tried_again_until_it_counts_as_missing(
        self, modules: Tab
    ) -> None:
        modules.evaluate(PLAYED_NATIVE_PORT.replace("isPatient = true", "isPatient = false"))
        modules.wait_until("native.resting")
        assert modules.evaluate("ports.length") == 8
        assert modules.evaluate("ports.every(({ disconnected }) => disconnected)")
        assert "it said nothing for 10 s" in modules.evaluate("native.trouble.detail")
        modules.evaluate("globalThis.isPatient = true, void native.connect()")
        modules.wait_until("ports.length === 9")
        modules.evaluate("greet()")
        assert modules.evaluate("[native.resting, native.trouble, native.host.version]") == [False, None, "x"]

    def test_a_host_that_only_says_what_is_wrong_is_hung_up_on_and_its_words_are_kept(
        self, modules: Tab
    ) -> None:
        modules.evaluate(PLAYED_NATIVE_PORT)
        modules.wait_until("ports.length === 1")
        error = {"method": "host/error", "params": {"message": "the interpreter is gone", "command": "mend"}}
        modules.evaluate(f"ports[0].say({json.dumps(error)})")
        assert modules.evaluate("[native.resting, ports[0].disconnected]") == [True, True]
        assert modules.evaluate("native.trouble") == {"what": "the interpreter is gone", "command": "mend"}

    def test_what_kept_us_from_a_host_is_remembered_after_a_connection_and_by_a_restarted_worker(
        self, modules: Tab
    ) -> None:
        newest = "[last.inARow, last.newest?.attempts, last.newest?.reason]"
        exits = "[last.exits?.count, last.exits?.reason]"
        modules.evaluate(PLAYED_NATIVE_PORT)
        modules.wait_until("ports.length === 1")
        assert modules.evaluate(newest) == [0, None, None]
        before = modules.evaluate("Date.now()")
        error = {"method": "host/error", "params": {"message": "the interpreter is gone"}}
        modules.evaluate(f"ports[0].say({json.dumps(error)})")
        modules.evaluate("void native.connect()")
        modules.wait_until("ports.length === 2")
        modules.evaluate("ports[1].error = { message: 'x'.repeat(2000) }, ports[1].end()")
        modules.wait_until("ports.length === 3")
        assert modules.evaluate(newest) == [2, 2, "x" * 1024]
        modules.evaluate("greet()")
        assert modules.evaluate(newest) == [0, 2, "x" * 1024]
        assert modules.evaluate(exits) == [None, None]
        modules.evaluate("ports[2].end()")
        assert modules.evaluate(newest) == [1, 1, "The native host has ended."]
        assert modules.evaluate(exits) == [1, "The native host has ended."]
        restarted = modules.evaluate("""load("last_error.js").then(async ({ LastError }) => {
            const last = new LastError();
            await last.load();
            return [last.inARow, last.newest, last.exits];
        })""")
        assert restarted[0] == 1
        assert msgspec.convert(restarted[2], wire.HostExits).count == 1
        assert msgspec.convert(restarted[1], wire.Trouble).at >= before

    def test_a_hello_that_cannot_be_made_is_tried_again(self, modules: Tab) -> None:
        modules.evaluate(PLAYED_NATIVE_PORT.replace("reasonForNoHello = null", "reasonForNoHello = 'x'"))
        modules.wait_until("native.trouble")
        assert modules.evaluate("ports.length") == 0
        modules.evaluate("globalThis.reasonForNoHello = null")
        modules.wait_until("ports.length === 1")

    def test_a_long_pause_after_hosts_that_died_is_cut_short_by_a_frame_and_ended_by_the_popup(
        self, modules: Tab
    ) -> None:
        modules.evaluate(PLAYED_NATIVE_PORT)
        modules.evaluate(HOSTS_THAT_DIE_AT_ONCE)
        modules.wait_until("globalThis.planned")
        assert modules.evaluate("planned") == [25_000]
        modules.evaluate("native.nudge(), native.nudge()")
        soon = (modules.evaluate("planned"))[1:]
        assert len(soon) == 1
        assert 0 <= soon[0] <= 1_000
        modules.evaluate("void native.connect()")
        modules.wait_until("ports.length === 11")

    def test_a_missing_host_is_looked_for_every_three_seconds_in_the_minutes_after_the_extension_came(
        self, modules: Tab
    ) -> None:
        missing = "ports.at(-1).error = { message: 'Specified native messaging host not found.' }"
        modules.evaluate(PLAYED_NATIVE_PORT)
        modules.wait_until("ports.length === 1")
        modules.evaluate(f"{TIMERS_BY_HAND}, {missing}, ports[0].end()")
        assert modules.evaluate("planned") == []
        modules.evaluate("native.expect()")
        assert modules.evaluate("planned") == [3_000]
        modules.evaluate("native.connect()")
        modules.evaluate(f"{missing}, planned.length = 0, ports.at(-1).end()")
        assert modules.evaluate("planned") == [3_000]
        modules.evaluate("native.connect()")
        later = "Date.now = ((now) => () => now() + 5 * 60_000)(Date.now)"
        modules.evaluate(f"{missing}, planned.length = 0, {later}, ports.at(-1).end()")
        assert modules.evaluate("[planned, native.resting]") == [[], True]
