"""A Chromium with our extension and no native host, signed in at a WebSocket proxy over TLS."""

from __future__ import annotations

import hashlib
import json
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate

from demo.temporary_directory import throw_away_directory
from full_chain import Chain, serving_pages
from native_host.protocol.wire import EXTENSION_ID
from proxy_client import ProxyClient, connected_client
from proxy_stand_in import ProxyStandIn, serving_proxy
from tool_browser import Browser, Tab, TrioThread, trio_thread


class Certified(NamedTuple):
    """A certificate for `localhost` of a new authority."""

    server: ssl.SSLContext
    flag: str
    """Makes a Chromium trust this certificate, without a store of certificates."""


def certify() -> Certified:
    """Make an authority and a certificate."""
    issued = trustme.CA().issue_cert("localhost")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(server)
    key = load_pem_x509_certificate(issued.cert_chain_pems[0].bytes()).public_key()
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    return Certified(server, f"--ignore-certificate-errors-spki-list={b64encode(digest).decode()}")


class Popup:
    """The popup in a tab of its own, its details shown."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        tab.evaluate("document.getElementById('show-details').click()")

    def choose(self, address: str) -> None:
        """Enter an address and connect."""
        field = "document.getElementById('proxy-address')"
        self.tab.wait_until(f"!{field}.readOnly")
        self.tab.evaluate(f"({field}.focus(), {field}.value = {json.dumps(address)}, 0)")
        self.press("Connect")

    def press(self, text: str) -> None:
        button = "document.getElementById('proxy-button')"
        self.tab.wait_until(f"{button}.textContent === {text!r}")
        self.tab.evaluate(f"{button}.click()")

    def until_step(self, words: str) -> str:
        """Wait until the next step has these words in it; all of it, with its command and link."""
        step = "document.getElementById('proxy-step')"
        return str(self.tab.wait_until(f"{step}.innerText.includes({json.dumps(words)}) && {step}.innerText"))

    def until_state(self, text: str) -> None:
        """Wait until the line beside the button says this."""
        self.tab.wait_until(f"document.getElementById('proxy-state').textContent === {json.dumps(text)}")

    def until_code(self) -> str:
        """Wait for a code; the code."""
        return self.until_step("mcpb proxy approve").split("mcpb proxy approve ")[1][:9]


class ProxiedBrowser:
    """A browser, its proxy, and pages; made by `open_proxied_browser`."""

    def __init__(self, thread: TrioThread, browser: Browser, proxy: ProxyStandIn, chain: Chain) -> None:
        self.thread = thread
        self.browser = browser
        self.proxy = proxy
        self.chain = chain
        """The machine of the browser, on which no native host is registered at first."""
        self.pages = chain.pages

    @contextmanager
    def popup(self) -> Iterator[Popup]:
        """The popup, which is closed after the block."""
        tab = self.browser.open(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
        try:
            yield Popup(tab)
        finally:
            tab.close()

    def sign_in(self) -> None:
        """Connect the browser to the proxy, if it is not."""
        if self.proxy.extension is not None:
            return
        with self.popup() as popup:
            popup.choose(self.proxy.url)
            self.proxy.decide(popup.until_code())
            self.proxy.until_connected()

    def client(self, **options: Any) -> AbstractContextManager[ProxyClient]:
        """A client that is connected to this browser: `connected_client`."""
        self.proxy.until_connected()
        return connected_client(self.proxy.client_url, **options)

    @contextmanager
    def page(self, name: str) -> Iterator[Tab]:
        """One of the test pages in a tab of the user."""
        tab = self.browser.open(f"{self.pages}/{name}")
        try:
            yield tab
        finally:
            tab.close()


@contextmanager
def open_proxied_browser() -> Iterator[ProxiedBrowser]:
    """A browser that is not signed in yet, and its proxy."""
    certified = certify()
    with ExitStack() as stack:
        thread = stack.enter_context(trio_thread())
        chain = Chain(stack.enter_context(throw_away_directory()), stack.enter_context(serving_pages()))
        chromium = chain.browser(flags=[certified.flag], is_registered=False)
        browser = Browser(thread, stack.enter_context(thread.holding(chromium)))
        proxy = stack.enter_context(serving_proxy(certified.server))
        yield ProxiedBrowser(thread, browser, proxy, chain)
