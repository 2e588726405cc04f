"""Sign-in at `mcpb proxy serve` from the popup: codes, tokens, and a sentence for each failure."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from websockets.trio.client import connect

from proxied_browser import Popup, ProxiedBrowser
from proxy_node import OPTIONS
from served_proxy import seconds_between
from websocket_proxy.protocol import Role

SOON_S = 1.0
"""For the end of the connections of a sign-in that is revoked."""
CODE_S = 600
"""Seconds that the user has to approve a code."""
SOCKETS = 4
"""Sockets of one address that are not authenticated yet, in the settings of the proxy."""
TOKENS = "chrome.storage.local.get('proxySignIn').then(({ proxySignIn: { tokens } }) => tokens)"
CONTENT_SCRIPT = """chrome.tabs.query({ url: "http://localhost/*" }).then(async ([{ id }]) => {
    const func = () => chrome.storage.local.get().then(Object.keys, () => "no access");
    return (await chrome.scripting.executeScript({ target: { tabId: id }, func }))[0].result;
})"""


@pytest.fixture(scope="module")
def popup(machine: ProxiedBrowser) -> Iterator[Popup]:
    """One popup for all tests: to open it takes a third of a second."""
    with machine.popup() as popup:
        yield popup


@pytest.fixture
def signed_out(machine: ProxiedBrowser, popup: Popup) -> ProxiedBrowser:
    """The browser, at no proxy."""
    popup.leave()
    machine.proxy.until(lambda: not machine.proxy.is_connected)
    return machine


def test_a_code_that_the_user_denies_connects_nothing_and_one_that_the_user_approves_does(
    signed_out: ProxiedBrowser, popup: Popup
) -> None:
    proxy = signed_out.proxy
    popup.choose(proxy.url)
    proxy.command("approve", popup.until_code(), "--deny")
    popup.until_step("The code was denied. Connect again for a new one.")
    assert not proxy.is_connected
    popup.choose(f"{proxy.node.base}/extension")
    asked = proxy.approve(popup.until_code())
    opened = proxy.until_connected()
    popup.until_state(f"Connected as {opened['user']}.")
    popup.wait_until("document.getElementById('state').textContent === 'Connected, no agent'")
    shown = popup.tab.evaluate("document.documentElement.outerHTML")
    tokens = popup.tab.evaluate(TOKENS)
    assert f"the browser extension {opened['name']} at {opened['address']} wants to sign in" in asked
    assert opened["name"].startswith("Chrom")
    assert tokens["access"] not in shown
    assert tokens["refresh"] not in shown
    written = proxy.node.log.read_text()
    assert tokens["access"] not in written
    assert tokens["refresh"] not in written


def test_a_content_script_cannot_read_the_storage_with_the_tokens(
    proxied: ProxiedBrowser, popup: Popup
) -> None:
    with proxied.page("plain.html"):
        assert popup.tab.evaluate("chrome.storage.local.get().then(Object.keys)")
        assert popup.tab.evaluate(CONTENT_SCRIPT) == "no access"


def test_a_proxy_that_takes_no_more_sockets_says_so_before_the_upgrade(
    proxied: ProxiedBrowser, popup: Popup
) -> None:
    proxy = proxied.proxy
    address = proxy.openings[-1]["address"]  # `localhost` has two
    options = {**OPTIONS, "ssl": proxy.authority.client, "host": address}
    with ExitStack() as others:
        for _ in range(SOCKETS):
            silent = connect(f"{proxy.node.base}/extension", **options)
            others.enter_context(proxied.thread.holding(silent))
        proxied.stop_worker()
        popup.until_step("The proxy has as many connections as it takes.")
        assert proxy.events("rejected")[-1]["status"] == 429
        assert not proxy.is_connected
    proxied.browser.stop_workers()  # it would wait for a minute
    proxy.until_connected()


def test_disconnect_ends_the_connection_and_forgets_the_tokens(proxied: ProxiedBrowser, popup: Popup) -> None:
    popup.press("Disconnect")
    proxied.proxy.until(lambda: not proxied.proxy.is_connected)
    popup.wait_until("document.getElementById('proxy-button').textContent === 'Connect'")
    stored = popup.tab.evaluate("chrome.storage.local.get(['proxy', 'proxySignIn'])")
    assert stored == {}


def test_an_address_that_cannot_be_used_has_a_sentence_and_a_next_step(
    signed_out: ProxiedBrowser, popup: Popup
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = f"http://127.0.0.1:{free.getsockname()[1]}"
    for address in ("http://proxy.example", "ws://192.168.1.4:8765", "https://user@proxy.example", "::"):
        popup.choose(address)
        popup.until_step("This is no address of a proxy.")
    popup.choose(closed)
    assert closed in popup.until_step("does not answer, or its certificate is not trusted")
    popup.choose(signed_out.pages)
    popup.until_step("names no server at which a device can sign in")
    popup.choose(signed_out.proxy.url.replace("localhost", "proxy.localhost"))
    popup.until_step("allowed_hosts")


POLLS = """import(chrome.runtime.getURL("worker/sign_in.js")).then(async ({ SignIn }) => {
    const PROXY = "https://proxy.example";
    const { fetch, setTimeout } = globalThis;
    const [waits, errors] = [[], ["authorization_pending", "slow_down", "offline", "expired_token"]];
    globalThis.setTimeout = (poll, ms) => (waits.push(ms), setTimeout(poll));
    globalThis.fetch = async (url) => {
        const isPoll = url.endsWith("/token");
        const error = isPoll ? errors.shift() : "";
        if (error === "offline") throw new TypeError("Failed to fetch");
        const issued = { device_code: "d", user_code: "WDJB-MJHT", interval: 7 };
        const [device_authorization_endpoint, token_endpoint] = [`${PROXY}/device`, `${PROXY}/token`];
        const endpoints = { device_authorization_endpoint, token_endpoint };
        const body = { issuer: PROXY, resource: PROXY, ...endpoints, ...issued, error };
        return { ok: !isPoll, status: isPoll ? 400 : 200, json: async () => body };
    };
    try {
        const failed = await new Promise((resolve, reject) =>
            new SignIn({ changed: () => {}, failed: resolve }).begin(PROXY, "").catch(reject));
        return [waits.map((ms) => ms / 1000), failed.reason];
    } finally {
        Object.assign(globalThis, { fetch, setTimeout });
    }
})"""


def test_a_code_is_polled_as_slowly_as_the_server_says_until_it_expires(
    signed_out: ProxiedBrowser, popup: Popup
) -> None:
    assert popup.tab.evaluate(POLLS) == [[7, 7, 12, 24], "code-expired"]


BEGIN = """((more) => import(chrome.runtime.getURL("worker/sign_in.js")).then(async ({ SignIn }) => {
    const PROXY = "https://proxy.example";
    const { fetch, setTimeout } = globalThis;
    const waits = [];
    const endpoints = { device_authorization_endpoint: `${PROXY}/device`, token_endpoint: `${PROXY}/token` };
    const issued = { device_code: "d", user_code: "WDJB-MJHT" };
    const body = { issuer: PROXY, resource: PROXY, ...endpoints, ...issued, ...more };
    globalThis.setTimeout = (poll, ms) => void waits.push(ms);
    globalThis.fetch = async () => ({ ok: true, status: 200, json: async () => body });
    const signIn = new SignIn({ changed: () => {} });
    try {
        const failed = await signIn.begin(PROXY, "").catch(({ reason }) => reason);
        return [failed ?? "", waits[0] / 1000, signIn.code?.page];
    } finally {
        Object.assign(globalThis, { fetch, setTimeout });
        await signIn.forget();
    }
}))"""


def test_a_server_cannot_lead_users_nor_the_worker_astray(signed_out: ProxiedBrowser, popup: Popup) -> None:
    def begin(**response: object) -> Any:
        return popup.tab.evaluate(f"{BEGIN}({json.dumps(response)})")

    intervals: tuple[object, ...] = (-5, 1e-9, 1e12, "x", {})
    for interval in intervals:
        failed, wait_s, _ = begin(interval=interval)
        assert (failed, 0.2 <= wait_s <= 60) == ("", True), interval
    assert begin(verification_uri="https://idp.example/a b")[2] == "https://idp.example/a%20b"
    pages: tuple[object, ...] = (
        *("javascript:alert(1)", "https://idp.example@other.example/", "http://localhost:8765/"),
        *("data:text/html,x", "http://idp.example/", f"https://idp.example/{'a' * 500}", {}),
    )
    for page in pages:
        assert begin(verification_uri=page)[2] == "", page
    others: tuple[object, ...] = ("http://localhost:1/token", "http://idp.example/token", "javascript:0", 5)
    for other in others:
        assert begin(token_endpoint=other)[0] == "no-device-authorization", other


CHANGES = """import(chrome.runtime.getURL("worker/websocket_proxy.js")).then(async ({ WebSocketProxy }) => {
    const [fetched, { fetch }] = [[], globalThis];
    const proxy = new WebSocketProxy({ changed: () => {}, ended: () => {}, hello: async () => ({}) });
    globalThis.fetch = async (url) => (fetched.push(url), Response.error());
    try {
        const chosen = proxy.choose("https://proxy.example");
        await Promise.all([chosen, proxy.disconnect()]);
        return [proxy.report.address, proxy.report.failure, fetched];
    } finally {
        globalThis.fetch = fetch;
    }
})"""


def test_a_user_who_disconnects_at_once_starts_no_sign_in(signed_out: ProxiedBrowser, popup: Popup) -> None:
    assert popup.tab.evaluate(CHANGES) == ["", None, []]


NUDGES = """import(chrome.runtime.getURL("worker/websocket_proxy.js")).then(async ({ WebSocketProxy }) => {
    const [timers, begun, attempt] = [[], Promise.withResolvers(), Promise.withResolvers()];
    const proxy = new WebSocketProxy({ changed: () => {}, ended: () => {}, hello: async () => ({}) });
    proxy.signIn.has = () => true;
    proxy.signIn.token = () => (begun.resolve(), attempt.promise);
    const { setTimeout } = globalThis;
    const { now } = Date;
    globalThis.setTimeout = (run) => timers.push(run);
    try {
        const chosen = proxy.choose("https://proxy.example");
        await begun.promise;
        proxy.nudge();
        Date.now = () => now() + 60_000;
        for (const run of timers.splice(0)) run(); // while the attempt still runs
        attempt.reject(new Error("no storage"));
        await chosen;
        return timers.length;
    } finally {
        Object.assign(globalThis, { setTimeout });
        Object.assign(Date, { now });
        await proxy.disconnect();
    }
})"""


def test_a_page_that_is_shown_during_an_attempt_does_not_end_the_attempts(
    signed_out: ProxiedBrowser, popup: Popup
) -> None:
    assert popup.tab.evaluate(NUDGES) == 1


POLICY = """((managed) => import(chrome.runtime.getURL("worker/websocket_proxy.js")).then(async (module) => {
    chrome.storage.managed.get = async () => managed;
    const proxy = new module.WebSocketProxy({ changed: () => {}, ended: () => {} });
    await proxy.load();
    const { address, isManaged, isForbidden } = proxy.report;
    if (isForbidden) await proxy.choose("https://another.example");
    return [address, isManaged, isForbidden, proxy.report.failure?.what ?? ""];
}))"""


def test_an_administrator_presets_the_address_or_forbids_proxies(
    signed_out: ProxiedBrowser, popup: Popup
) -> None:
    def read(**managed: object) -> object:
        return popup.tab.evaluate(f"{POLICY}({json.dumps(managed)})")

    popup.tab.evaluate("chrome.storage.local.remove('proxy')")
    assert read() == ["", False, False, ""]
    assert read(proxyAddress="proxy.example") == ["https://proxy.example", True, False, ""]
    forbidden = "Your administrator does not allow WebSocket proxies."
    assert read(proxyForbidden=True, proxyAddress="proxy.example") == ["", True, True, forbidden]


def test_a_code_that_is_approved_too_late_has_expired_and_the_next_one_connects(
    signed_out: ProxiedBrowser, popup: Popup
) -> None:
    proxy = signed_out.proxy
    popup.choose(proxy.url)
    popup.until_code()
    proxy.advance_clock(CODE_S + 1)
    popup.until_step("The code was not approved in time. Connect again for a new one.")
    popup.press("Connect")
    proxy.command("approve", popup.until_code(), "--yes")
    proxy.until_connected()


def test_a_sign_in_that_is_revoked_ends_within_a_second_and_the_popup_asks_for_another(
    proxied: ProxiedBrowser, popup: Popup
) -> None:
    proxy = proxied.proxy
    proxy.until_connected()
    (session,) = [each for each in proxy.sessions() if each["sockets"]]
    proxy.command("revoke", session["id"])
    popup.until_step("The sign-in has ended. Connect again to sign in.")
    (revoked,) = proxy.events("revoked")
    closed = proxy.events("closed", Role.EXTENSION)[-1]
    assert (closed["code"], closed["reason"]) == (1008, "Invalid token: revoked")
    assert seconds_between(revoked, closed) < SOON_S
    popup.press("Connect")
    proxy.command("approve", popup.until_code(), "--yes")
    proxy.until_connected()


REASONS = (
    *("malformed", "signature", "algorithm", "unknown-key", "issuer", "audience", "expired", "not-yet-valid"),
    *("user", "scope", "connection-url", "revoked", "missing", "another-user"),
)
"""Those for which a proxy rejects a token (docs/PROXY_PROTOCOL.md)."""
CLOSES = [(1008, f"Invalid token: {each}") for each in REASONS] + [
    *((1001, ""), (1006, ""), (1009, ""), (1013, ""), (4001, "")),
    *((1008, "Token expired"), (1011, "internal error")),
]
READ_CLOSES = """((closes) => import(chrome.runtime.getURL("worker/proxy_failures.js"))
    .then(({ readClose, describeFailure }) => closes.map(([code, reason]) => {
        const read = readClose(code, reason);
        return describeFailure(read.reason, "https://proxy.example", read.detail).what;
    })))"""


def test_each_close_of_a_proxy_has_a_sentence_of_its_own(popup: Popup) -> None:
    said = popup.tab.evaluate(f"{READ_CLOSES}({json.dumps(CLOSES)})")
    assert all(each.endswith(".") and "has rejected the token:" not in each for each in said)
    assert len(set(said)) == len(CLOSES) - 1  # a token that expires on a live socket is an expired one


READ_ADDRESSES = """((given) => import(chrome.runtime.getURL("worker/proxy_address.js"))
    .then(({ readAddress, socketUrl }) => given.map((each) => socketUrl(readAddress(each)))))"""
ADDRESSES = {
    "proxy.example": "wss://proxy.example/extension",
    " https://Proxy.example:8765/ ": "wss://proxy.example:8765/extension",
    "wss://proxy.example/extension": "wss://proxy.example/extension",
    "localhost:8765": "ws://localhost:8765/extension",
    "ws://127.0.0.1:80/mcp": "ws://127.0.0.1/extension",
    "[::1]:8765": "ws://[::1]:8765/extension",
    "https://localhost:8765": "wss://localhost:8765/extension",
    "http://localhost.example": "",
    "ftp://proxy.example": "",
    "https://proxy.example/?token=1": "",
}


def test_an_address_is_read_as_users_write_it_and_plain_text_stays_on_this_machine(popup: Popup) -> None:
    read = popup.tab.evaluate(f"{READ_ADDRESSES}({json.dumps(list(ADDRESSES))})")
    assert dict(zip(ADDRESSES, read, strict=True)) == ADDRESSES
