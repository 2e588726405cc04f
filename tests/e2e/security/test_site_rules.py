"""A denied site gets no request from a client's tab, whatever a page tries. The server's log judges."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from full_chain import Chain
from logged_hosts import LoggedHosts, Response
from native_host.protocol.wire import EXTENSION_ID
from site_boundary import close_tabs, config_file, rule_count, wait_true
from socket_observer import onlooking
from tool_browser import Browsing, Tab, Tools

EVIL, BANK, SHOP, CDN = "evil.localhost", "bank.localhost", "shop.localhost", "cdn.localhost"
ATTEMPTS = Path(__file__).parent / "attempts.js"
CLICKS_OF_PDF = 20
"""After so many clicks a PDF file is opened again: now and then the viewer does not react at all."""
WORKER = Response(
    b"self.onmessage = ({data}) => fetch(data.fetch, {mode: 'no-cors'}).catch(() => {})"
    b".then(() => data.port.postMessage(0))",
    "text/javascript",
)


@pytest.fixture(scope="module")
def bank(hosts: LoggedHosts) -> str:
    return hosts.origin(BANK)


@pytest.fixture(autouse=True)
def tidy(browsing: Browsing) -> Iterator[None]:
    """Close what a test has opened: pages in the background slow the next ones."""
    yield
    close_tabs(browsing)


@pytest.fixture
def careful(browsing: Browsing, bank: str) -> Iterator[Tools]:
    """A client for which the bank is denied."""
    with config_file(browsing, f'[policy]\ndeny = ["{bank}"]'), browsing.client("careful") as tools:
        yield tools


def open_page(tools: Tools, url: str) -> int:
    """Open a page in a new tab of the client; return the tab."""
    tab_id: int = tools.done("tabs_create").structured["tabId"]
    tools.done("navigate", tabId=tab_id, url=url)
    return tab_id


def act(tab: Tab, script: str) -> Any:
    """Run a script as if the user had just clicked; wait for its promise."""
    wanted = {"userGesture": True, "awaitPromise": True, "returnByValue": True}
    return tab.send("Runtime.evaluate", expression=script, **wanted)


def wait_requested(browsing: Browsing, hosts: LoggedHosts, host: str, path: str) -> None:
    """Wait until a request has arrived."""
    browsing.browser.until(lambda: any(it.path.startswith(path) for it in hosts.requests(host)))


def after_all(browsing: Browsing, hosts: LoggedHosts, tab: Tab) -> None:
    """Wait until all that the page has begun had its chance: a later request of the page has arrived."""
    act(tab, "new Promise(done => setTimeout(done, 700))")
    act(tab, f"fetch('{hosts.url(EVIL, '/after')}?' + Math.random(), {{mode: 'no-cors'}})")
    wait_requested(browsing, hosts, EVIL, "/after")


@pytest.fixture
def evil(hosts: LoggedHosts, bank: str) -> str:
    """A page with everything that the attempts need; its address."""
    frame_script = f"<script>document.onclick = () => window.open('{bank}/framed')</script><p>click me</p>"
    frame = hosts.set_page("frame.localhost", "/", frame_script)
    other = hosts.set_page("other.localhost", "/", f"<img src={bank}/other>")
    hosts.set_response(EVIL, "/worker.js", WORKER)
    hosts.set_redirect(EVIL, "/redirect", f"{bank}/redirected")
    hosts.set_redirect(EVIL, "/chain", hosts.set_redirect("other.localhost", "/chain", f"{bank}/chained"))
    hosts.set_response(EVIL, "/attempts.js", Response(ATTEMPTS.read_bytes(), "text/javascript"))
    sites = f"const BANK = {bank!r}, OTHER = {other!r}, FRAME = {frame!r};"
    return hosts.set_page(EVIL, "/", f"<body><script>{sites}</script><script src=/attempts.js></script>")


def make_pdf(link: str) -> bytes:
    """Return a PDF file with one page, which is one link."""
    action = f"<</S/URI/URI({link})>>"
    parts = (
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 600]/Annots[4 0 R]>>",
        f"<</Type/Annot/Subtype/Link/Rect[0 0 600 600]/Border[0 0 0]/A{action}>>",
    )
    objects = "".join(f"{number} 0 obj{part}endobj\n" for number, part in enumerate(parts, 1))
    return f"%PDF-1.4\n{objects}trailer<</Size 5/Root 1 0 R>>\n%%EOF".encode()


NEVER_CROSS_SITE = {"/speculation", "/prerender"}
"""Chromium 150 does not try these for another site in this situation."""


def requested_paths(hosts: LoggedHosts) -> set[str]:
    return {it.path for it in (*hosts.requests(BANK), *hosts.requests(f"{BANK}."))}


def try_all(browsing: Browsing, hosts: LoggedHosts, tools: Tools, url: str) -> None:
    """Let a page of a client try everything to request the bank."""
    tab_id = open_page(tools, url)
    tab = tools.look(tab_id)
    hosts.clear()
    for name in tab.evaluate("Object.keys(staying)"):
        act(tab, f"staying.{name}()")
    frame = "document.querySelector('#framed')"
    tab.evaluate(f"{frame}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = tab.evaluate(f"(({{x, y}}) => [x + 40, y + 40])({frame}.getBoundingClientRect())")
    tools.done("computer", tabId=tab_id, action="left_click", coordinate=box)
    wait_requested(browsing, hosts, "other.localhost", "/")
    after_all(browsing, hosts, tab)


def test_no_page_of_a_client_requests_a_denied_site(
    browsing: Browsing, hosts: LoggedHosts, careful: Tools, evil: str
) -> None:
    try_all(browsing, hosts, careful, evil)
    assert requested_paths(hosts) == set()


@pytest.mark.parametrize("pattern", [BANK, f"*.{BANK}"])
def test_no_page_of_a_client_requests_a_site_that_is_denied_by_its_host(
    browsing: Browsing, hosts: LoggedHosts, evil: str, pattern: str
) -> None:
    with config_file(browsing, f'[policy]\ndeny = ["{pattern}"]'), browsing.client("careful") as tools:
        try_all(browsing, hosts, tools, evil)
    assert requested_paths(hosts) == set()


def test_without_the_rule_each_of_these_attempts_reaches_the_site(
    browsing: Browsing, hosts: LoggedHosts, evil: str
) -> None:
    """The control: an attempt that never works would prove nothing."""
    script = ATTEMPTS.read_text().partition("const staying")[2].partition("const leaving")[0]
    written = set(re.findall(r'"(/[a-z]+)"', script)) - {"/redirect"}
    with browsing.client("careless") as tools:
        reached: set[str] = set()

        def has_reached_all() -> bool:
            reached.update(requested_paths(hosts))
            return reached >= written - NEVER_CROSS_SITE

        try_all(browsing, hosts, tools, evil)
        # A busy machine may start a shared worker, which has its own process, late or after its page ended.
        with suppress(trio.TooSlowError):
            browsing.browser.until(has_reached_all)
        if not has_reached_all():
            try_all(browsing, hosts, tools, evil)
            browsing.browser.until(has_reached_all)


def test_no_page_of_a_client_goes_to_a_denied_site(
    browsing: Browsing, hosts: LoggedHosts, careful: Tools, evil: str
) -> None:
    tab_id = open_page(careful, evil)
    hosts.clear()
    for name in careful.look(tab_id).evaluate("Object.keys(leaving)"):
        act(careful.look(tab_id), f"leaving.{name}()")
        # The page's own navigation may be reported as the end of the client's. The next one comes after it.
        if careful.call("navigate", tabId=tab_id, url=evil).is_error:
            careful.done("navigate", tabId=tab_id, url=evil)
    assert [it.path for it in hosts.requests(BANK)] == []


def leave_sandboxed_page(browsing: Browsing, hosts: LoggedHosts, tools: Tools, bank: str) -> list[str]:
    """Close a tab whose frame without an origin says goodbye to the bank; return what the bank has got."""
    sites = (f"{bank}/left", hosts.url(EVIL, "/left"))
    goodbye = "".join(f"navigator.sendBeacon('{site}');" for site in sites)
    frame = f"<script>onpagehide = () => {{{goodbye}}}</script>"
    page = hosts.set_page(EVIL, "/sandbox", f'<iframe sandbox="allow-scripts" srcdoc="{frame}"></iframe>')
    tab_id = open_page(tools, page)
    hosts.clear()
    tools.done("tabs_close_mcp", tabId=tab_id)
    wait_requested(browsing, hosts, EVIL, "/left")
    after_all(browsing, hosts, tools.look(open_page(tools, hosts.set_page(EVIL, "/next", "next"))))
    return [it.path for it in hosts.requests(BANK)]


def test_a_page_without_an_origin_requests_nothing_when_its_tab_is_closed(
    browsing: Browsing, hosts: LoggedHosts, careful: Tools, bank: str
) -> None:
    assert leave_sandboxed_page(browsing, hosts, careful, bank) == []


def test_without_the_rule_the_page_without_an_origin_says_goodbye(
    browsing: Browsing, hosts: LoggedHosts, bank: str
) -> None:
    with browsing.client("careless") as tools:
        assert leave_sandboxed_page(browsing, hosts, tools, bank) == ["/left"]


LASTING_WORKER = b"""
onmessage = (event) => event.waitUntil(goOn(event.data));
async function goOn(url) {
    const isClosed = async () => (await (await fetch("/is-closed")).text()) === "yes";
    while (!(await isClosed())) await new Promise((go) => setTimeout(go, 50));
    await fetch(url, { mode: "no-cors" }).catch(() => {});
    await fetch("/goodbye");
}"""


def leave_worker(browsing: Browsing, hosts: LoggedHosts, tools: Tools, url: str) -> None:
    """Close the only tab of a client; afterwards a service worker of its page requests an address."""
    hosts.set_response(EVIL, "/lasting.js", Response(LASTING_WORKER, "text/javascript"))
    hosts.set_response(EVIL, "/is-closed", Response(b"no"))
    tab_id = open_page(tools, hosts.set_page(EVIL, "/lasting", "evil"))
    hosts.clear()
    registered = "navigator.serviceWorker.register('/lasting.js', { scope: '/lasting' })"
    ready = f"{registered}.then(() => navigator.serviceWorker.ready)"
    act(tools.look(tab_id), f"{ready}.then(({{ active }}) => active.postMessage('{url}'))")
    wait_requested(browsing, hosts, EVIL, "/is-closed")
    tools.done("tabs_close_mcp", tabId=tab_id)
    wait_true(lambda: rule_count(browsing) == 0)
    hosts.set_response(EVIL, "/is-closed", Response(b"yes"))
    wait_requested(browsing, hosts, EVIL, "/goodbye")


def test_a_worker_that_outlasts_the_tab_requests_no_denied_site(
    browsing: Browsing, hosts: LoggedHosts, careful: Tools, bank: str
) -> None:
    leave_worker(browsing, hosts, careful, f"{bank}/late")
    assert hosts.requests(BANK) == []


def test_without_the_rule_the_worker_that_outlasts_the_tab_requests_the_site(
    browsing: Browsing, hosts: LoggedHosts, bank: str
) -> None:
    with browsing.client("careless") as tools:
        leave_worker(browsing, hosts, tools, f"{bank}/late")
    assert [it.path for it in hosts.requests(BANK)] == ["/late"]


def follow_link_of_pdf(browsing: Browsing, hosts: LoggedHosts, tools: Tools, bank: str) -> list[str]:
    """Open a PDF file's link to the bank in a new tab; return what the bank has got."""
    file = hosts.set_response(EVIL, "/file.pdf", Response(make_pdf(f"{bank}/pdf"), "application/pdf"))
    tab_id = open_page(tools, file)
    hosts.clear()
    at_bank = "chrome.tabs.query({}).then((tabs) => tabs.filter(({ url }) => url.endsWith('/pdf')).length)"
    before = browsing.ask_extension(at_bank)
    clicks = itertools.count(1)

    def has_opened() -> bool:
        if next(clicks) % CLICKS_OF_PDF == 0:
            tools.done("navigate", tabId=tab_id, url=file)
        tools.done("computer", tabId=tab_id, action="left_click", coordinate=[500, 250], modifiers="ctrl")
        return bool(browsing.ask_extension(at_bank) > before)

    wait_true(has_opened)  # the viewer is not there at once
    after_all(browsing, hosts, tools.look(open_page(tools, hosts.set_page(EVIL, "/next", "next"))))
    return [it.path for it in hosts.requests(BANK)]


def test_a_link_of_a_pdf_file_opens_no_tab_at_a_denied_site(
    browsing: Browsing, hosts: LoggedHosts, careful: Tools, bank: str
) -> None:
    assert follow_link_of_pdf(browsing, hosts, careful, bank) == []


def test_without_the_rule_a_link_of_a_pdf_file_opens_a_tab(
    browsing: Browsing, hosts: LoggedHosts, bank: str
) -> None:
    with browsing.client("careless") as tools:
        assert "/pdf" in follow_link_of_pdf(browsing, hosts, tools, bank)


def test_a_navigation_that_a_redirect_leads_to_a_denied_site_names_the_rule(
    hosts: LoggedHosts, careful: Tools, evil: str, bank: str
) -> None:
    tab_id = open_page(careful, evil)
    said = careful.refused("navigate", tabId=tab_id, url=hosts.url(EVIL, "/chain"))
    assert f'policy.deny has "{bank}"' in said


def test_the_popup_names_the_rule_and_releases_the_tab(
    browsing: Browsing, hosts: LoggedHosts, careful: Tools, evil: str, bank: str
) -> None:
    tab_id = open_page(careful, evil)
    careful.refused("navigate", tabId=tab_id, url=hosts.url(EVIL, "/chain"))
    popup = browsing.browser.open(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
    popup.evaluate(
        "globalThis.port = chrome.runtime.connect({name: 'mcpb-popup'});"
        "port.onMessage.addListener((report) => (globalThis.report = report));"
        f"port.postMessage({{type: 'watch', tabId: {browsing.browser_id_of(tab_id)}}}); 0"
    )
    blocked = popup.wait_until("globalThis.report?.blocked")
    assert (blocked["origin"], blocked["rule"]) == (bank, f'policy.deny has "{bank}"')
    assert blocked["clients"][0].startswith("careful")
    popup.evaluate("port.postMessage({type: 'release'}), 0")
    popup.wait_until("report.owner === null && !report.blocked")
    wait_true(lambda: rule_count(browsing) == 0)
    hosts.clear()
    browsing.look(tab_id).load(hosts.url(EVIL, "/chain"))
    assert [it.path for it in hosts.requests(BANK)] == ["/chained"]


def test_history_does_not_lead_back_to_a_site_that_is_denied_by_now(
    browsing: Browsing, hosts: LoggedHosts, evil: str, bank: str
) -> None:
    """The user was at the bank before, in the tab that a client uses now."""
    user_tab = browsing.open_as_user(f"{bank}/before")
    browsing.look(user_tab).load(evil)
    hosts.clear()
    config = f'[policy]\ndeny = ["{bank}"]\n[browser]\ntabs = "any"'
    with config_file(browsing, config), browsing.client("returning") as tools:
        tools.done("read_page", tabId=user_tab)
        said = tools.refused("navigate", tabId=user_tab, url="back")
    assert f'policy.deny has "{bank}"' in said
    assert hosts.requests(BANK) == []


@pytest.mark.parametrize(
    "how",
    [
        "document.querySelector('a').click()",
        "document.querySelector('a').target = '_blank', document.querySelector('a').click()",
        "window.open(document.querySelector('a').href), 0",
    ],
    ids=["in its tab", "in a new tab", "in a popup"],
)
def test_the_users_own_tab_of_the_same_site_opens_the_denied_site(
    browsing: Browsing, hosts: LoggedHosts, careful: Tools, bank: str, how: str
) -> None:
    page = hosts.set_page(EVIL, "/links", f"<a href={bank}/mine>My bank</a>")
    open_page(careful, page)  # the client is on the same site meanwhile
    user = browsing.look(browsing.open_as_user(page))
    hosts.clear()
    act(user, how)
    wait_requested(browsing, hosts, BANK, "/mine")


def test_a_new_tab_of_the_user_goes_to_the_denied_site(
    browsing: Browsing, hosts: LoggedHosts, careful: Tools, evil: str, bank: str
) -> None:
    open_page(careful, evil)
    hosts.clear()
    browsing.browser.send("Target.createTarget", url=f"{bank}/typed")
    wait_requested(browsing, hosts, BANK, "/typed")


def test_an_allowed_page_loads_its_scripts_from_elsewhere(
    browsing: Browsing, hosts: LoggedHosts, bank: str
) -> None:
    script = hosts.set_response(CDN, "/app.js", Response(b"document.title = 'ready'", "text/javascript"))
    hosts.set_page(CDN, "/framed", "framed")
    parts = f"<script src={script}></script><iframe src={hosts.url(CDN, '/framed')}></iframe>"
    page = hosts.set_page(SHOP, "/", parts)
    hosts.clear()
    with (
        config_file(browsing, f'[policy]\nallow = ["{hosts.origin(SHOP)}"]'),
        browsing.client("shop") as tools,
    ):
        tab = tools.look(open_page(tools, page))
        assert tab.wait_until("document.title") == "ready"
        act(tab, f"window.open('{bank}/popup'); 0")
        act(tab, f"fetch('{hosts.url(EVIL, '/after')}', {{mode: 'no-cors'}})")
        wait_requested(browsing, hosts, EVIL, "/after")
    assert [it.path for it in hosts.requests(CDN)] == ["/app.js"]
    assert hosts.requests(BANK) == []


@pytest.mark.parametrize("element", ["object data", "embed src"])
def test_an_element_of_an_allowed_page_shows_no_other_site(
    browsing: Browsing, hosts: LoggedHosts, bank: str, element: str
) -> None:
    page = hosts.set_page(EVIL, "/element", f"<{element}={bank}/shown>")
    hosts.clear()
    config = f'[policy]\nallow = ["{hosts.origin(EVIL)}"]'
    with config_file(browsing, config), browsing.client("allowed") as tools:
        after_all(browsing, hosts, tools.look(open_page(tools, page)))
        assert hosts.requests(BANK) == []
    with browsing.client("careless") as tools:
        open_page(tools, page)
        wait_requested(browsing, hosts, BANK, "/shown")


def second_home(browsing: Browsing, content: str) -> Path:
    """Another home with rules of its own, whose bridges find the same native hosts.

    Bridges of one home have the same rules: they read the file again when it changes.
    """
    home = browsing.chain.home / "second"
    (home / "run").mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    for file in (browsing.chain.home / "run").iterdir():
        os.link(file, home / "run" / file.name)
    (home / "config.toml").write_text(content)
    return home


def test_a_site_that_the_user_has_not_approved_is_not_requested(
    browsing: Browsing, hosts: LoggedHosts, bank: str, evil: str
) -> None:
    approvals = browsing.chain.home / "state" / "approvals.json"
    approvals.write_text(json.dumps({hosts.origin(EVIL): {}}))
    approvals.chmod(0o600)
    with config_file(browsing, '[browser]\nsites = "ask"'), browsing.client("asked") as tools:
        tab_id = open_page(tools, evil)
        hosts.clear()
        tab = tools.look(tab_id)
        act(tab, "staying.popup(), staying.iframe()")
        after_all(browsing, hosts, tab)
        act(tab, "leaving.location()")
        tools.call("navigate", tabId=tab_id, url=evil)
        assert hosts.requests(BANK) == []
        approvals.write_text(json.dumps({hosts.origin(EVIL): {}, bank: {}}))
        tools.done("navigate", tabId=tab_id, url=f"{bank}/approved")
        assert [it.path for it in hosts.requests(BANK)] == ["/approved"]
    approvals.unlink()


def test_two_clients_with_different_lists_each_reach_their_own_site(
    browsing: Browsing, hosts: LoggedHosts
) -> None:
    first, second = hosts.origin("one.localhost"), hosts.origin("two.localhost")
    hosts.clear()
    with config_file(browsing, f'[policy]\nallow = ["{first}"]'), browsing.client("first") as one:
        one_tab = open_page(one, first)
        home = second_home(browsing, f'[policy]\nallow = ["{second}"]')
        with browsing.client("second", settings={"MCPB_HOME": str(home)}) as two:
            two_tab = open_page(two, second)
            for tools, tab, other in ((one, one_tab, second), (two, two_tab, first)):
                tools.refused("navigate", tabId=tab, url=f"{other}/other")
                page = tools.look(tab)
                act(page, f"window.open('{other}/popup'); location.href = '{other}/away'")
                page.wait_until("location.protocol === 'chrome-error:'")
            one.done("navigate", tabId=one_tab, url=f"{first}/again")
            two.done("navigate", tabId=two_tab, url=f"{second}/again")
    assert {it.path for it in hosts.requests("one.localhost")} == {"/", "/again"}
    assert {it.path for it in hosts.requests("two.localhost")} == {"/", "/again"}


async def set_paused(chain: Chain, site: str, *, is_paused: bool) -> None:
    """Pause or resume a site as the popup does, over the wire."""
    async with onlooking(chain) as client:
        await client.request("browser/pause", site=site, paused=is_paused)


def test_a_paused_site_is_not_requested_from_another_site(
    browsing: Browsing, hosts: LoggedHosts, bank: str, evil: str
) -> None:
    with browsing.client("pausing") as tools:
        tab = tools.look(open_page(tools, evil))
        on_bank = tools.look(open_page(tools, f"{bank}/"))
        browsing.thread.run(partial(set_paused, browsing.chain, bank, is_paused=True))
        hosts.clear()
        try:
            act(tab, "staying.fetch()")
            act(tab, "staying.popup()")
            after_all(browsing, hosts, tab)
            assert hosts.requests(BANK) == []
            # For its user the page that was there before goes on working.
            assert act(on_bank, "fetch('/mine').then(({ok}) => ok)")["result"]["value"]
            on_bank.send("Page.reload")
            wait_requested(browsing, hosts, BANK, "/")
        finally:
            browsing.thread.run(partial(set_paused, browsing.chain, bank, is_paused=False))


@pytest.fixture
def pausing(browsing: Browsing, bank: str) -> Iterator[Callable[[], None]]:
    """Pause the bank when called, until the test ends."""
    yield lambda: browsing.thread.run(partial(set_paused, browsing.chain, bank, is_paused=True))
    browsing.thread.run(partial(set_paused, browsing.chain, bank, is_paused=False))


@pytest.mark.parametrize("path", ["/kept-from", ""], ids=["kept from it", "shows it"])
def test_a_client_leads_no_tab_back_to_a_paused_site(
    browsing: Browsing, hosts: LoggedHosts, pausing: Callable[[], None], bank: str, evil: str, path: str
) -> None:
    """The tab shows an address of the paused site, but the redirect is not its user's doing."""
    with browsing.client("redirecting") as tools:
        tab_id = open_page(tools, evil if path else bank)
        pausing()
        hosts.clear()
        for _ in range(2):
            tools.refused("navigate", tabId=tab_id, url=hosts.url(EVIL, "/redirect"))
            # A page that comes has the rules made anew.
            after_all(browsing, hosts, tools.look(open_page(tools, evil)))
    assert hosts.requests(BANK) == []


def test_a_navigation_that_another_one_ends_leads_no_tab_back_to_a_paused_site(
    browsing: Browsing, hosts: LoggedHosts, pausing: Callable[[], None], bank: str, evil: str
) -> None:
    """Two calls at once: the second one ends the first, and that end must not lift the rule."""
    with browsing.client("redirecting twice") as tools:
        tab_id = open_page(tools, bank)
        pausing()
        hosts.clear()
        url = hosts.url(EVIL, "/redirect")

        async def navigate_at_once() -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(6):
                    nursery.start_soon(
                        partial(tools.client.call_tool, "navigate", {"tabId": tab_id, "url": url})
                    )

        browsing.thread.run(navigate_at_once)
        after_all(browsing, hosts, tools.look(open_page(tools, evil)))
    assert hosts.requests(BANK) == []


def test_a_page_leads_no_window_on_that_shows_a_paused_site(
    browsing: Browsing, hosts: LoggedHosts, pausing: Callable[[], None], bank: str, evil: str
) -> None:
    with browsing.client("holding") as tools:
        tab = tools.look(open_page(tools, evil))
        act(tab, f"globalThis.opened = window.open('{bank}/opened'); 0")
        wait_requested(browsing, hosts, BANK, "/opened")
        pausing()
        hosts.clear()
        act(tab, "opened.location = BANK + '/act'; 0")
        after_all(browsing, hosts, tab)
        assert hosts.requests(BANK) == []


def test_rules_outlast_a_restart_of_the_worker_and_end_with_the_tab(
    browsing: Browsing, hosts: LoggedHosts, bank: str, evil: str
) -> None:
    with config_file(browsing, f'[policy]\ndeny = ["{bank}"]'), browsing.client("restarting") as tools:
        tab_id = open_page(tools, evil)
        tab = tools.look(tab_id)
        browsing.stop_extension()
        hosts.clear()
        act(tab, "staying.fetch()")
        act(tab, "staying.popup()")
        after_all(browsing, hosts, tab)
        assert hosts.requests(BANK) == []
        wait_true(lambda: not tools.call("read_page", tabId=tab_id).is_error)
        act(tab, "staying.popupWithoutOpener()")
        after_all(browsing, hosts, tab)
        assert hosts.requests(BANK) == []


def test_rules_end_with_the_last_tab_of_their_sessions(
    browsing: Browsing, hosts: LoggedHosts, careful: Tools, evil: str
) -> None:
    tab = careful.look(open_page(careful, evil))
    assert rule_count(browsing) > 0
    tab.close()
    wait_true(lambda: rule_count(browsing) == 0)


# ── The judge itself ────────────────────────────────────────────────────────────────────────────────────────


def test_requests_of_a_page_are_logged_by_host(browsing: Browsing, hosts: LoggedHosts) -> None:
    image = hosts.url("bank.localhost", "/balance.png")
    shop = hosts.set_page("shop.localhost", "/", f"<img src={image}>")
    browsing.browser.open(shop)
    assert [request.path for request in hosts.requests("shop.localhost")] == ["/"]
    assert [request.path for request in hosts.requests("bank.localhost")] == ["/balance.png"]
