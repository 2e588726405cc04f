"""Approval prompts in a window of the extension, in a real Chromium: the hosts' log is the judge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Literal

import mcp_types
import pytest

from approval_window import approval_targets, wait_approval_window, wait_no_approval_window
from demo.chromium import ChromiumError
from full_chain import MCPB, serving_pages
from http_frontend import CLOSES_EARLY
from logged_hosts import LoggedHosts
from native_host.protocol.wire import EXTENSION_ID
from socket_observer import hosts as native_hosts
from tool_browser import Browsing, Result, Tab, Tools
from tool_pages import calls_of, public_name, set_tool_page, until_listed, until_named

SECONDS = 60
APPROVALS = "state/approvals.json"
SHOP = "shop.localhost"
BANK = "bank.localhost"


@pytest.fixture(scope="module")
def calls() -> Iterator[ThreadPoolExecutor]:
    """Threads for calls that wait for the user."""
    with ThreadPoolExecutor(8) as executor:
        yield executor


@pytest.fixture(autouse=True)
def _forget(browsing: Browsing, hosts: LoggedHosts) -> Iterator[None]:
    write_config(browsing, 'sites = "ask"')
    hosts.clear()
    yield
    (browsing.chain.home / APPROVALS).unlink(missing_ok=True)
    wait_no_approval_window(browsing.browser)


@pytest.fixture
def tools(browsing: Browsing) -> Iterator[Tools]:
    with browsing.client("Claude Code") as opened:
        yield opened


def write_config(browsing: Browsing, browser: str) -> None:
    """The `[browser]` table for bridges that start from now on."""
    path = browsing.chain.home / "config.toml"
    path.write_text(f"[browser]\n{browser}\n")
    path.chmod(0o600)


def stored(browsing: Browsing) -> Any:
    return json.loads((browsing.chain.home / APPROVALS).read_text())


def worker(browsing: Browsing) -> Tab:
    (target,) = browsing.browser.targets("service_worker")
    return browsing.browser.attach(target["targetId"])


# ── Choices ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_site_is_not_requested_before_the_user_allows_it_and_once_is_one_call(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    for number in (1, 2):
        call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
        window = wait_approval_window(browsing.browser)
        assert window.text("origin") == hosts.origin(SHOP)
        assert window.text("client").startswith("Claude Code")
        assert window.text("kind") == "read this site and act on it"
        assert window.choices() == ["once", "hour", "client", "always", "no"]
        assert len(hosts.requests(SHOP)) == number - 1
        window.press("once")
        assert not call.result(SECONDS).is_error
        assert len(hosts.requests(SHOP)) == number
        wait_no_approval_window(browsing.browser)
    call = calls.submit(tools.call, "read_page")
    window = wait_approval_window(browsing.browser)
    assert window.text("kind") == "read this site"
    window.press("no")
    assert "said no" in call.result(SECONDS).text
    wait_no_approval_window(browsing.browser)
    assert "said no to this just now" in tools.refused("read_page")  # at once
    assert not (browsing.chain.home / APPROVALS).exists()


def test_one_batch_is_one_call_and_asks_once(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    steps = [
        {"name": "navigate", "input": {"url": hosts.url(SHOP)}},
        {"name": "read_page", "input": {}},
        {"name": "computer", "input": {"action": "screenshot"}},
    ]
    call = calls.submit(tools.call, "browser_batch", actions=steps)
    wait_approval_window(browsing.browser).press("once")
    assert not call.result(SECONDS).is_error


def test_an_approval_to_read_does_not_allow_to_act(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
    window = wait_approval_window(browsing.browser)
    window.press("once")
    assert not call.result(SECONDS).is_error
    call = calls.submit(tools.call, "read_page")
    window = wait_approval_window(browsing.browser, but=window.target_id)
    window.press("client")
    assert not call.result(SECONDS).is_error
    tools.done("get_page_text")
    assert stored(browsing)[hosts.origin(SHOP)].items() >= {"for": ["read"], "client": "Claude Code"}.items()
    call = calls.submit(tools.call, "computer", action="left_click", coordinate=[1, 1])
    wait_approval_window(browsing.browser, but=window.target_id).press("no")
    assert "said no" in call.result(SECONDS).text


@pytest.mark.parametrize(
    ("choice", "is_for_others", "has_end"),
    [("hour", False, True), ("client", False, False), ("always", True, False)],
)
def test_lasting_choices_are_stored_for_whom_they_say(
    browsing: Browsing,
    tools: Tools,
    hosts: LoggedHosts,
    calls: ThreadPoolExecutor,
    choice: str,
    is_for_others: bool,
    has_end: bool,
) -> None:
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
    wait_approval_window(browsing.browser).press(choice)
    assert not call.result(SECONDS).is_error
    tools.done("navigate", url=hosts.url(SHOP, "/again"))
    entry = stored(browsing)[hosts.origin(SHOP)]
    assert entry["for"] == ["act"]
    assert entry.get("client", "") == ("" if is_for_others else "Claude Code")
    assert ("until" in entry) is has_end
    with browsing.client("Other") as other:
        call = calls.submit(other.call, "navigate", url=hosts.url(SHOP, "/other"))
        if not is_for_others:
            wait_approval_window(browsing.browser).press("no")
        assert call.result(SECONDS).is_error is not is_for_others
    paths = [request.path for request in hosts.requests(SHOP)]
    assert ("/other" in paths) is is_for_others


@CLOSES_EARLY
def test_an_approval_for_one_token_s_client_is_not_valid_for_another_token_with_the_same_client_name(
    browsing: Browsing, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    """A57."""
    thread, chain = browsing.thread, browsing.chain

    def token_of(client: str) -> str:
        return str(thread.run(chain.mcpb, "serve", "token", "add", client).stdout.decode().strip())

    with thread.holding(chain.serving()) as url, ExitStack() as clients:

        def connect(token: str, mode: Literal["auto", "legacy"]) -> Tools:
            info = mcp_types.Implementation(name="editor", version="1")
            opened = chain.http_client(url, mode, token=token, client_info=info)
            return Tools(browsing, clients.enter_context(thread.holding(opened)))

        laptop = token_of("laptop")
        owner = connect(laptop, "auto")
        call = calls.submit(owner.call, "navigate", url=hosts.url(SHOP))
        window = wait_approval_window(browsing.browser)
        assert "token laptop" in window.text("client")
        window.press("client")
        assert not call.result(SECONDS).is_error
        assert stored(browsing)[hosts.origin(SHOP)]["client"] == "token laptop"
        connect(laptop, "legacy").done("navigate", url=hosts.url(SHOP))
        assert len(hosts.requests(SHOP)) == 2
        others: dict[str, Literal["auto", "legacy"]] = {"ci": "auto", "lab": "legacy"}
        for name, mode in others.items():
            other = connect(token_of(name), mode)
            call = calls.submit(other.call, "navigate", url=hosts.url(SHOP))
            window = wait_approval_window(browsing.browser, but=window.target_id)
            assert f"token {name}" in window.text("client")
            window.press("no")
            assert "said no" in call.result(SECONDS).text
            assert len(hosts.requests(SHOP)) == 2
        owner.done("navigate", url=hosts.url(SHOP))
    assert len(hosts.requests(SHOP)) == 3


# ── Between question and answer ─────────────────────────────────────────────────────────────────────────────


def test_an_approval_is_for_the_site_that_the_window_named_wherever_the_tab_has_gone(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    hosts.set_page(BANK, "/", "<p>Your balance is 4711</p>")
    tab_id = _opened(browsing, tools, hosts, calls)
    call = calls.submit(tools.call, "get_page_text", tabId=tab_id)
    window = wait_approval_window(browsing.browser)
    assert window.text("origin") == hosts.origin(SHOP)
    page = tools.look(tab_id)
    with pytest.raises(ChromiumError):  # the network rules keep the tab from a site without approval
        page.load(hosts.url(BANK))
    window.press("once")
    second = wait_approval_window(browsing.browser, but=window.target_id)
    assert second.text("origin") == hosts.origin(BANK)
    second.press("no")
    result = call.result(SECONDS)
    assert result.is_error
    assert "4711" not in result.text
    assert hosts.requests(BANK) == []


def _opened(browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor) -> int:
    """A tab of the client at the shop, allowed for one call."""
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
    wait_approval_window(browsing.browser).press("once")
    tab_id: int = call.result(SECONDS).structured["tabId"]
    wait_no_approval_window(browsing.browser)
    return tab_id


def test_a_prompt_goes_with_its_client(
    browsing: Browsing, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    with browsing.client("Short") as short:
        calls.submit(short.call, "navigate", url=hosts.url(SHOP))
        wait_approval_window(browsing.browser)
    wait_no_approval_window(browsing.browser)
    assert hosts.requests(SHOP) == []


def test_a_closed_window_is_no_approval(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
    browsing.browser.send("Target.closeTarget", targetId=wait_approval_window(browsing.browser).target_id)
    result = call.result(SECONDS)
    assert result.is_error
    assert "closed the window" in result.text
    assert hosts.requests(SHOP) == []


def test_prompts_of_several_clients_are_shown_one_after_the_other(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    with browsing.client("Other") as other:
        first = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
        window = wait_approval_window(browsing.browser)
        second = calls.submit(other.call, "navigate", url=hosts.url(BANK))
        assert worker(browsing).wait_until("chrome.action.getBadgeText({}).then((it) => it === '2')")
        assert [each["targetId"] for each in approval_targets(browsing.browser)] == [window.target_id]
        window.press("no")
        assert first.result(SECONDS).is_error
        window = wait_approval_window(browsing.browser, but=window.target_id)
        assert window.text("client").startswith("Other")
        window.press("once")
        assert not second.result(SECONDS).is_error
    assert hosts.requests(SHOP) == []


# ── The window ──────────────────────────────────────────────────────────────────────────────────────────────


def test_buttons_work_only_after_a_moment_with_the_focus_and_only_for_real_input(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
    window = wait_approval_window(browsing.browser)
    window.choices()
    assert window.tab.evaluate("document.activeElement === document.body")
    armed = window.tab.evaluate("""new Promise((resolve) => {
        const buttons = () => [...document.querySelectorAll("button")];
        dispatchEvent(new Event("focus"));
        const at = performance.now();
        const before = buttons().every((it) => it.disabled);
        const look = () => buttons().some((it) => !it.disabled)
            ? resolve({ before, after: performance.now() - at }) : setTimeout(look, 10);
        look();
    })""")
    assert armed["before"]
    assert armed["after"] >= 450
    window.tab.evaluate("document.querySelector('button').click(); 1")  # a script, not the user
    window.tab.evaluate("dispatchEvent(new Event('blur')); 1")
    window.click("once")  # not armed again yet
    assert not call.done()
    assert hosts.requests(SHOP) == []
    window.press("no")
    assert call.result(SECONDS).is_error


def test_clients_neither_see_nor_control_the_window(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
    window = wait_approval_window(browsing.browser)
    window.choices()
    write_config(browsing, 'sites = "any"\ntabs = "any"')  # which the bridge of `tools` reads too
    with browsing.client("Attacker") as attacker:
        tab_id = window.tab.evaluate("chrome.tabs.getCurrent().then(({ id }) => id)")
        listed = attacker.done("tabs_context").structured["availableTabs"]
        assert tab_id not in [tab["tabId"] for tab in listed]
        for name, arguments in (
            ("computer", {"action": "key", "text": "Return"}),
            ("computer", {"action": "left_click", "coordinate": [100, 200]}),
            ("javascript_tool", {"action": "javascript_exec", "text": "1"}),
            ("navigate", {"url": hosts.url(BANK)}),
            ("read_page", {}),
        ):
            assert "No such tab" in attacker.refused(name, tabId=tab_id, **arguments)
        assert not call.done()
        window.press("no")
        assert call.result(SECONDS).is_error
    assert hosts.requests(SHOP) == []


def test_a_page_cannot_frame_or_open_the_window_and_another_tab_with_it_gets_no_prompt(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    address = f"chrome-extension://{EXTENSION_ID}/approval/approval.html"
    page = browsing.browser.open(hosts.set_page("evil.localhost", "/", f"<iframe src={address}></iframe>"))
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
    window = wait_approval_window(browsing.browser)
    window.choices()
    frames = page.send("Page.getFrameTree")["frameTree"]["childFrames"]
    assert all("chrome-extension:" not in frame["frame"]["url"] for frame in frames)
    page.evaluate(f"open({json.dumps(address)}, 'x', 'width=100'); 1")
    browsing.browser.send("Target.createTarget", url=address)  # as a restored session does
    until = time.monotonic() + SECONDS
    while [each["targetId"] for each in approval_targets(browsing.browser)] != [window.target_id]:
        assert time.monotonic() < until
    window.press("no")
    assert call.result(SECONDS).is_error


def test_a_prompt_outlives_its_worker_and_is_answered_once(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
    window = wait_approval_window(browsing.browser)
    window.choices()
    (target,) = browsing.browser.targets("service_worker")
    browsing.browser.send("Target.closeTarget", targetId=target["targetId"])
    window.press("once")
    assert not call.result(SECONDS).is_error
    assert len(hosts.requests(SHOP)) == 1
    wait_no_approval_window(browsing.browser)


def test_a_lost_connection_withdraws_the_window_and_the_prompt_comes_back_with_the_next_one(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
    window = wait_approval_window(browsing.browser)
    window.choices()
    for host in native_hosts(browsing.chain):
        os.kill(host.pid, signal.SIGKILL)
    wait_approval_window(browsing.browser, but=window.target_id).press("once")
    assert not call.result(SECONDS).is_error
    assert len(hosts.requests(SHOP)) == 1


def test_with_a_badge_only_the_popup_opens_the_window(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    popup = browsing.browser.open(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
    _set_badge_only(popup, is_on=True)
    try:
        call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
        popup.wait_until("!document.getElementById('waiting').hidden")
        assert approval_targets(browsing.browser) == []
        popup.evaluate("document.getElementById('show-prompt').click(); 1")
        wait_approval_window(browsing.browser).press("once")
        assert not call.result(SECONDS).is_error
    finally:
        _set_badge_only(popup, is_on=False)
        popup.close()


def _set_badge_only(popup: Tab, *, is_on: bool) -> None:
    """Set the popup's setting, as a click does once the popup has loaded."""
    popup.wait_until(f"""(() => {{
        const box = document.getElementById("badge-only");
        box.checked = {json.dumps(is_on)};
        box.dispatchEvent(new Event("change"));
        return chrome.storage.local.get().then((it) => it.approvalBadgeOnly === {json.dumps(is_on)});
    }})()""")


def test_the_popup_lists_approvals_and_revokes_them(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP))
    wait_approval_window(browsing.browser).press("client")
    assert not call.result(SECONDS).is_error
    popup = browsing.browser.open(f"chrome-extension://{EXTENSION_ID}/popup/popup.html")
    row = f"{hosts.origin(SHOP)}\n\nact, for Claude Code"
    popup.evaluate("document.getElementById('show-details').click()")
    popup.wait_until(f"document.getElementById('approvals').innerText.includes({json.dumps(row)})")
    popup.evaluate("document.querySelector('#approvals button').click(); 1")
    popup.wait_until("document.getElementById('approvals').innerText.includes('revoked')")
    popup.close()
    call = calls.submit(tools.call, "navigate", url=hosts.url(SHOP, "/revoked"))
    wait_approval_window(browsing.browser).press("no")
    assert call.result(SECONDS).is_error
    assert [request.path for request in hosts.requests(SHOP)] == ["/"]


# ── Page tools ──────────────────────────────────────────────────────────────────────────────────────────────

PAY = "pay.localhost"


@pytest.mark.parametrize(
    ("config", "host", "is_framed"),
    [
        ('sites = "any"\n[pages]\ntools = "ask"', "pages.localhost", False),
        ('sites = "ask"', "sites.localhost", False),
        ('sites = "any"', "ads.localhost", True),
    ],
    ids=["pages.tools", "browser.sites", "frame of another site"],
)
def test_page_tools_that_need_consent_run_only_after_the_user_allows_them(
    browsing: Browsing, hosts: LoggedHosts, calls: ThreadPoolExecutor, config: str, host: str, is_framed: bool
) -> None:
    write_config(browsing, config)
    page = set_tool_page(hosts, host, "/", {"name": "buy"})
    if is_framed:
        page = hosts.set_page("news.localhost", "/", f"<iframe src={page}></iframe>")
    tab = browsing.browser.open(page)
    name = public_name(hosts, host, "buy", browsing.number_of(tab))
    with browsing.client("Declined") as declined, browsing.client("Claude Code") as tools:
        until_named(browsing, declined, name)
        until_named(browsing, tools, name)
        window = _prompted(browsing, hosts, host, calls.submit(declined.call, name), "no")
        assert "said no to this just now" in declined.refused(name)
        assert calls_of(hosts, host) == []
        window = _prompted(browsing, hosts, host, calls.submit(tools.call, name), "once", window)
        assert calls_of(hosts, host) == ["buy"]
        assert not (browsing.chain.home / APPROVALS).exists()
        _prompted(browsing, hosts, host, calls.submit(tools.call, name), "always", window)
        assert stored(browsing)[hosts.origin(host)].items() >= {"for": ["page-tools"]}.items()
        assert not stored(browsing)[hosts.origin(host)].keys() & {"client", "until"}
        until_listed(browsing, declined, name)
        wait_no_approval_window(browsing.browser)
        tools.done(name)
        declined.done(name)  # a prompt would wait for the user until the test fails
        assert calls_of(hosts, host) == ["buy"] * 4
    tab.close()


def _prompted(
    browsing: Browsing, hosts: LoggedHosts, host: str, call: Future[Result], choice: str, but: str = ""
) -> str:
    """Answer the prompt about a site's page tools, see whether the call is made; the window's target."""
    window = wait_approval_window(browsing.browser, but=but)
    assert window.text("origin") == hosts.origin(host)
    assert window.text("kind") == "use the tools of its pages"
    assert window.choices() == ["once", "hour", "client", "always", "no"]
    window.press(choice)
    result = call.result(SECONDS)
    assert ("said no" in result.text) is result.is_error is (choice == "no")
    return window.target_id


def test_a_consequential_page_tool_runs_once_for_each_time_that_the_user_allows_it(
    browsing: Browsing, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    write_config(browsing, 'sites = "any"')
    tool = {"name": "pay", "annotations": {"consequentialHint": True}}
    tab = browsing.browser.open(set_tool_page(hosts, PAY, "/", tool))
    name = public_name(hosts, PAY, "pay", browsing.number_of(tab))
    target = ""
    with browsing.client("Claude Code") as tools:
        until_listed(browsing, tools, name)
        for choice, made in (("once", 1), ("once", 2), ("no", 2)):
            call = calls.submit(tools.call, name)
            window = wait_approval_window(browsing.browser, but=target)
            target = window.target_id
            assert "wants to call “pay” of" in window.text("text")
            assert window.choices() == ["once", "no"]
            assert calls_of(hosts, PAY) == ["pay"] * (made - (choice == "once"))
            window.press(choice)
            assert call.result(SECONDS).is_error is (choice == "no")
            assert calls_of(hosts, PAY) == ["pay"] * made
    tab.close()


# ── The client ──────────────────────────────────────────────────────────────────────────────────────────────


def test_progress_says_where_the_user_is_asked(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    messages: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        assert (progress, total) == (0, None)
        messages.append(message or "")

    async def navigate() -> bool:
        arguments = {"url": hosts.url(SHOP)}
        result = await tools.client.call_tool("navigate", arguments, progress_callback=note)
        return bool(result.is_error)

    call = calls.submit(browsing.thread.run, navigate)
    wait_approval_window(browsing.browser).press("no")
    assert call.result(SECONDS)
    assert [message for message in messages if message.startswith("Waiting for the user: mcpb window in ")]


@pytest.mark.parametrize("choice", ["once", "no"])
def test_the_command_call_says_on_stderr_where_it_waits_for_the_user(
    browsing: Browsing, hosts: LoggedHosts, choice: str
) -> None:
    command = [*MCPB, "call", "navigate", f"url={hosts.url(SHOP)}"]
    with subprocess.Popen(
        command, env=browsing.chain.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        window = wait_approval_window(browsing.browser)
        assert window.text("client") == "mcpb call"
        assert window.text("origin") == hosts.origin(SHOP)
        assert hosts.requests(SHOP) == []
        assert process.poll() is None
        shown = next(line for line in process.stderr if line.startswith("Waiting for the user"))
        assert shown.startswith("Waiting for the user: mcpb window in Chrom")
        window.press(choice)
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == (1 if choice == "no" else 0)
    assert "Waiting for the user" not in output
    assert len(hosts.requests(SHOP)) == (0 if choice == "no" else 1)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_in_both_the_first_answer_counts_and_the_other_is_withdrawn(
    browsing: Browsing, hosts: LoggedHosts, calls: ThreadPoolExecutor, mode: str
) -> None:
    write_config(browsing, 'sites = "ask"\nask_in = "both"')
    asked: list[str] = []

    async def user(_context: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"allow": "once"})

    with browsing.client("Both", mode=mode, elicitation_callback=user) as both:
        assert not calls.submit(both.call, "navigate", url=hosts.url(SHOP)).result(SECONDS).is_error
    assert len(asked) == 1
    wait_no_approval_window(browsing.browser)


def test_a_client_that_is_not_asked_answers_nothing(
    browsing: Browsing, hosts: LoggedHosts, calls: ThreadPoolExecutor
) -> None:
    """With the default, a client cannot approve for its user: neither a site nor a plan."""
    asked: list[str] = []

    async def user(_context: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"allow": "always"})

    with browsing.client("Eager", elicitation_callback=user) as eager:
        call = calls.submit(eager.call, "update_plan", domains=[hosts.url(BANK)], approach=["Look"])
        window = wait_approval_window(browsing.browser)
        assert "1. Look" in window.text("text")
        window.press("no")
        assert call.result(SECONDS).structured["answer"] == "declined"
        call = calls.submit(eager.call, "navigate", url=hosts.url(SHOP))
        wait_approval_window(browsing.browser, but=window.target_id).press("no")
        assert call.result(SECONDS).is_error
    assert asked == []
    assert hosts.requests(SHOP) == hosts.requests(BANK) == []


def test_a_page_s_request_for_the_model_is_asked_in_the_window(
    browsing: Browsing, calls: ThreadPoolExecutor
) -> None:
    write_config(browsing, "")
    sampled: list[mcp_types.CreateMessageRequestParams] = []

    async def sample(
        _context: Any, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult:
        sampled.append(params)
        text = mcp_types.TextContent(type="text", text="1.20")
        return mcp_types.CreateMessageResult(role="assistant", content=text, model="m")

    able = mcp_types.SamplingCapability(tools=mcp_types.SamplingToolsCapability())
    callbacks: dict[str, Any] = {"sampling_callback": sample, "sampling_capabilities": able}
    with serving_pages() as pages:
        page = browsing.browser.open(f"{pages}/requests.html")
        port = pages.rpartition(":")[2]
        name = f"website_tool_localhost_{port}_tab{browsing.number_of(page)}_summarize"
        with browsing.client("Model", **callbacks) as client:
            until_named(browsing, client, name)
            call = calls.submit(client.call, name)
            window = wait_approval_window(browsing.browser)
            assert window.text("kind") == "let its pages use this client's model"
            assert "Sum this cart up in one line." in window.text("text")
            assert sampled == []
            window.press("no")
            assert json.loads(call.result(SECONDS).text)["error"]["code"] == -32014
            assert sampled == []
        with browsing.client("Model 2", **callbacks) as client:
            until_named(browsing, client, name)
            call = calls.submit(client.call, name)
            wait_approval_window(browsing.browser, but=window.target_id).press("always")
            assert json.loads(call.result(SECONDS).text)["model"] == "m"
        assert stored(browsing)[pages]["for"] == ["sampling"]
        page.close()
