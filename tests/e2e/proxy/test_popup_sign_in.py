"""Sign-in at a WebSocket proxy from the popup: codes, tokens, and a sentence for each failure."""

from __future__ import annotations

import json
import socket

import pytest

from proxied_browser import ProxiedBrowser
from proxy_stand_in import USER, serving_proxy

CONTENT_SCRIPT = """chrome.tabs.query({ url: "http://localhost/*" }).then(async ([{ id }]) => {
    const func = () => chrome.storage.local.get().then(Object.keys, () => "no access");
    return (await chrome.scripting.executeScript({ target: { tabId: id }, func }))[0].result;
})"""


@pytest.fixture
def signed_out(machine: ProxiedBrowser) -> ProxiedBrowser:
    """The browser, at no proxy."""
    if machine.proxy.extension is not None:
        with machine.popup() as popup:
            popup.press("Disconnect")
            machine.proxy.until(lambda: machine.proxy.extension is None)
    return machine


def test_a_code_that_the_user_approves_at_the_proxy_connects_the_browser(signed_out: ProxiedBrowser) -> None:
    proxy = signed_out.proxy
    with signed_out.popup() as popup:
        popup.choose(proxy.url)
        proxy.decide(popup.until_code(), "denied")
        popup.until_step("The code was denied. Connect again for a new one.")
        popup.choose(proxy.socket_url + "/extension")
        proxy.decide(popup.until_code())
        popup.until_state(f"Connected as {USER}.")
        state = "document.getElementById('state').textContent"
        popup.tab.wait_until(f"{state} === 'Connected, no agent'")
        shown = popup.tab.evaluate("document.documentElement.outerHTML")
        report = json.dumps(proxy.authentications[-1])
    token = proxy.authentications[-1]["accessToken"]
    assert token in report
    assert token not in shown
    assert proxy.authentications[-1]["client_id"] == proxy.hello["profile"]["id"]
    assert proxy.authentications[-1]["name"].split(" ")[0] == proxy.hello["browser"]["brand"]
    assert proxy.issuer.names[-1] == proxy.authentications[-1]["name"]


def test_a_content_script_cannot_read_the_storage_with_the_tokens(proxied: ProxiedBrowser) -> None:
    with proxied.page("plain.html"), proxied.popup() as popup:
        assert popup.tab.evaluate("chrome.storage.local.get().then(Object.keys)")
        assert popup.tab.evaluate(CONTENT_SCRIPT) == "no access"


def test_disconnect_ends_the_connection_and_forgets_the_tokens(proxied: ProxiedBrowser) -> None:
    with proxied.popup() as popup:
        popup.press("Disconnect")
        proxied.proxy.until(lambda: proxied.proxy.extension is None)
        popup.tab.wait_until("document.getElementById('proxy-button').textContent === 'Connect'")
        stored = popup.tab.evaluate("chrome.storage.local.get(['proxy', 'proxySignIn'])")
    assert stored == {}


def test_a_provider_elsewhere_is_found_by_the_proxy_s_metadata_and_its_page_is_linked(
    signed_out: ProxiedBrowser,
) -> None:
    proxy = signed_out.proxy
    with serving_proxy() as provider, signed_out.popup() as popup:
        provider.issuer, proxy.issuer_url = proxy.issuer, provider.url
        popup.choose(proxy.url)
        step = popup.until_step("Approve this browser with the code")
        proxy.issuer_url = ""
        assert f"{provider.url}/device" in step
        proxy.decide(step.split("with the code ")[1][:9])
        popup.until_state(f"Connected as {USER}.")


def test_an_address_that_cannot_be_used_has_a_sentence_and_a_next_step(signed_out: ProxiedBrowser) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = f"http://127.0.0.1:{free.getsockname()[1]}"
    with signed_out.popup() as popup:
        for address in ("http://proxy.example", "ws://192.168.1.4:8765", "https://user@proxy.example", "::"):
            popup.choose(address)
            popup.until_step("This is no address of a proxy.")
        popup.choose(closed)
        assert closed in popup.until_step("does not answer, or its certificate is not trusted")
        popup.choose(signed_out.pages)
        popup.until_step("names no server at which a device can sign in")
        signed_out.proxy.knows_name = False
        popup.choose(signed_out.proxy.url)
        popup.until_step("allowed_hosts")
        signed_out.proxy.knows_name = True


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("audience", "The token is for another service than this proxy."),
        ("scope", "The token does not allow to connect a browser."),
        ("connection-url", "The token is for another address"),
        ("not-invented-yet", "The proxy has rejected the token: not-invented-yet."),
    ],
)
def test_the_reason_for_which_a_proxy_rejects_a_token_is_shown_in_words(
    proxied: ProxiedBrowser, reason: str, words: str
) -> None:
    proxy = proxied.proxy
    proxy.reject = reason
    proxy.until_connected().close(1008, f"Invalid token: {reason}")
    with proxied.popup() as popup:
        popup.until_step(words)
        proxy.reject = ""
        popup.press("Disconnect")
        popup.tab.wait_until("document.getElementById('proxy-step').hidden")


def test_a_proxy_that_takes_no_more_sockets_says_so_before_the_upgrade(proxied: ProxiedBrowser) -> None:
    proxied.proxy.is_full = True
    proxied.proxy.until_connected().close(1001)
    with proxied.popup() as popup:
        popup.until_step("The proxy has as many connections as it takes.")
    proxied.proxy.is_full = False
    with proxied.popup():
        proxied.proxy.until_connected()


def test_a_proxy_of_another_wire_version_is_named(proxied: ProxiedBrowser) -> None:
    proxied.proxy.wire = 2
    proxied.proxy.until_connected().close(1001)
    with proxied.popup() as popup:
        popup.until_step("It speaks version 2 of the wire, this extension 1.")
        proxied.proxy.wire = 1
        popup.press("Disconnect")


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


def test_a_code_is_polled_as_slowly_as_the_server_says_until_it_expires(signed_out: ProxiedBrowser) -> None:
    with signed_out.popup() as popup:
        assert popup.tab.evaluate(POLLS) == [[7, 7, 12, 24], "code-expired"]


POLICY = """((managed) => import(chrome.runtime.getURL("worker/websocket_proxy.js")).then(async (module) => {
    chrome.storage.managed.get = async () => managed;
    const proxy = new module.WebSocketProxy({ changed: () => {}, ended: () => {} });
    await proxy.load();
    const { address, isManaged, isForbidden } = proxy.report;
    if (isForbidden) await proxy.choose("https://another.example");
    return [address, isManaged, isForbidden, proxy.report.failure?.what ?? ""];
}))"""


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


def test_each_close_of_a_proxy_has_a_sentence_of_its_own(machine: ProxiedBrowser) -> None:
    with machine.popup() as popup:
        said = popup.tab.evaluate(f"{READ_CLOSES}({json.dumps(CLOSES)})")
    assert all(each.endswith(".") and "has rejected the token:" not in each for each in said)
    assert len(set(said)) == len(CLOSES) - 1  # a token that expires on a live socket is an expired one


READ_ADDRESS = """((given) => import(chrome.runtime.getURL("worker/proxy_address.js"))
    .then(({ readAddress, socketUrl }) => socketUrl(readAddress(given))))"""


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("proxy.example", "wss://proxy.example/extension"),
        (" https://Proxy.example:8765/ ", "wss://proxy.example:8765/extension"),
        ("wss://proxy.example/extension", "wss://proxy.example/extension"),
        ("localhost:8765", "ws://localhost:8765/extension"),
        ("ws://127.0.0.1:80/mcp", "ws://127.0.0.1/extension"),
        ("[::1]:8765", "ws://[::1]:8765/extension"),
        ("https://localhost:8765", "wss://localhost:8765/extension"),
        ("http://localhost.example", ""),
        ("ftp://proxy.example", ""),
        ("https://proxy.example/?token=1", ""),
    ],
)
def test_an_address_is_read_as_users_write_it_and_plain_text_stays_on_this_machine(
    machine: ProxiedBrowser, given: str, url: str
) -> None:
    with machine.popup() as popup:
        assert popup.tab.evaluate(f"{READ_ADDRESS}({json.dumps(given)})") == url


def test_an_administrator_presets_the_address_or_forbids_proxies(signed_out: ProxiedBrowser) -> None:
    def read(**managed: object) -> object:
        return popup.tab.evaluate(f"{POLICY}({json.dumps(managed)})")

    with signed_out.popup() as popup:
        assert read() == ["", False, False, ""]
        assert read(proxyAddress="proxy.example") == ["https://proxy.example", True, False, ""]
        forbidden = "Your administrator does not allow WebSocket proxies."
        assert read(proxyForbidden=True, proxyAddress="proxy.example") == ["", True, True, forbidden]
