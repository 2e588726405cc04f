"""A Chromium with our extension and no native host at a WebSocket proxy over TLS, and its popup."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import trio
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate

from demo.temporary_directory import throw_away_directory
from full_chain import MCPB, Chain, serving_pages
from native_host.protocol.wire import EXTENSION_ID
from proxy_client import ProxyClient, connected_client
from served_proxy import ServedProxy, serving_proxy
from tool_browser import Browser, Tab, TrioThread, trio_thread
from websocket_proxy.protocol import Role

STOPPED_S = 8.0
"""Ample for a worker to be stopped."""


def trust_flag(certificate: Path) -> str:
    """Makes a Chromium trust this certificate, without a store of certificates."""
    key = load_pem_x509_certificate(certificate.read_bytes()).public_key()
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    return f"--ignore-certificate-errors-spki-list={b64encode(digest).decode()}"


class Popup:
    """The popup in a tab of its own, its details shown."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        tab.evaluate("document.getElementById('show-details').click()")

    def wait_until(self, expression: str) -> Any:
        """Wait until an expression is true; its value. Nothing polls: codes are approved after seconds."""
        return self.tab.evaluate(f"""new Promise((resolve) => {{
            const look = () => {{
                const value = {expression};
                if (!value) return;
                observer.disconnect();
                resolve(value);
            }};
            const observer = new MutationObserver(look);
            const all = {{ subtree: true, childList: true, characterData: true, attributes: true }};
            observer.observe(document, all);
            look();
        }})""")

    def choose(self, address: str) -> None:
        """Enter an address and connect."""
        field = "document.getElementById('proxy-address')"
        self.wait_until(f"!{field}.readOnly")
        self.tab.evaluate(f"({field}.focus(), {field}.value = {json.dumps(address)}, 0)")
        self.press("Connect")

    def press(self, text: str) -> None:
        button = "document.getElementById('proxy-button')"
        self.wait_until(f"{button}.textContent === {text!r}")
        self.tab.evaluate(f"{button}.click()")

    def leave(self) -> None:
        """Disconnect, unless the browser is at no proxy."""
        is_leaving = "document.getElementById('proxy-button').dataset.leaves"
        if self.wait_until(is_leaving) == "true":
            self.press("Disconnect")
            self.wait_until(f"{is_leaving} === 'false'")

    def until_step(self, words: str) -> str:
        """Wait until the next step has these words in it; all of it, with its command and link."""
        step = "document.getElementById('proxy-step')"
        return str(self.wait_until(f"{step}.innerText.includes({json.dumps(words)}) && {step}.innerText"))

    def until_state(self, text: str) -> None:
        """Wait until the line beside the button says this."""
        self.wait_until(f"document.getElementById('proxy-state').textContent === {json.dumps(text)}")

    def until_code(self) -> str:
        """Wait for a code; the code."""
        return self.until_step("mcpb proxy approve").split("mcpb proxy approve ")[1][:9]


class ProxiedBrowser:
    """A browser, its proxy, and pages; made by `open_proxied_browser`."""

    def __init__(self, thread: TrioThread, browser: Browser, proxy: ServedProxy, chain: Chain) -> None:
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
        if not self.proxy.is_connected:
            self.begin_sign_in()
            self.proxy.until_connected()

    def begin_sign_in(self) -> None:
        """Have a code of the popup approved. The browser asks for tokens within 5 s."""
        with self.popup() as popup:
            popup.leave()
            popup.choose(self.proxy.url)
            self.proxy.command("approve", popup.until_code(), "--yes")

    def stop_worker(self) -> None:
        """Stop the service worker while it is connected. One that the browser is just starting may go on."""
        count = len(self.proxy.events("closed", Role.EXTENSION))
        is_stopped = False
        while not is_stopped:
            self.browser.stop_workers()
            is_stopped = self.proxy.becomes(
                lambda: len(self.proxy.events("closed", Role.EXTENSION)) > count, STOPPED_S
            )

    def client(self, **handshake: Any) -> AbstractContextManager[ProxyClient]:
        """A client of another author that is connected to this browser: `ProxyClient.sign_in`."""
        proxy = self.proxy
        return connected_client(
            self.thread, proxy.node.base, proxy.token(), tls=proxy.authority.client, **handshake
        )

    @contextmanager
    def page(self, name: str) -> Iterator[Tab]:
        """One of the test pages in a tab of the user."""
        tab = self.browser.open(f"{self.pages}/{name}")
        try:
            yield tab
        finally:
            tab.close()

    def agent(self, home: Path) -> Chain:
        """A machine without a browser, whose commands and bridges trust the proxy's certificate."""
        return Chain(home, self.pages, {"SSL_CERT_FILE": str(self.proxy.authority.file)})


async def log_in(agent: Chain, url: str, approve: Callable[[str], str]) -> None:
    """`mcpb proxy login` on a machine; `approve` gets its code."""
    process = await trio.lowlevel.open_process(
        [*MCPB, "proxy", "login", url], env=agent.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert process.stdout
    printed, is_approved = "", False
    async with process.stdout as stdout:
        async for chunk in stdout:
            printed += chunk.decode()
            if not is_approved and (code := re.search(r"approve ([A-Z]{4}-[A-Z]{4})\n", printed)):
                is_approved = True
                await trio.to_thread.run_sync(approve, code[1])
    assert await process.wait() == 0, printed


@contextmanager
def open_proxied_browser(settings: str = "") -> Iterator[ProxiedBrowser]:
    """A browser that is not signed in yet, and its proxy with these settings."""
    with ExitStack() as stack:
        thread = stack.enter_context(trio_thread())
        chain = Chain(stack.enter_context(throw_away_directory()), stack.enter_context(serving_pages()))
        proxy = stack.enter_context(serving_proxy(thread, settings))
        chromium = chain.browser(flags=[trust_flag(proxy.authority.certificate)], is_registered=False)
        browser = Browser(thread, stack.enter_context(thread.holding(chromium)))
        yield ProxiedBrowser(thread, browser, proxy, chain)
