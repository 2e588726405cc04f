"""What the end of a session does to its tabs, in a real browser: which of them are closed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from native_host.protocol.wire import EXTENSION_ID
from native_host.system import proc
from site_boundary import wait_true
from socket_observer import hosts, onlooking
from tool_browser import Browsing, Tab, open_browsing

ANN = "ann"
"""A client."""
MINUTE_MS = 61_000


@pytest.fixture(scope="module")
def browsing() -> Iterator[Browsing]:
    with open_browsing() as opened:
        opened.open_as_user(f"{opened.site.url}/index.html")
        yield opened


@pytest.fixture(autouse=True)
def no_left_tabs(browsing: Browsing) -> Iterator[None]:
    """Each test begins with the tabs of the user alone."""
    yield
    browsing.ask_extension(
        "chrome.tabs.query({url: 'http://localhost/*'}).then((tabs) => chrome.tabs.remove("
        "tabs.filter(({url}) => !url.endsWith('/index.html')).map(({id}) => id)))"
    )


def paths(browsing: Browsing) -> list[str]:
    """The paths of the site's pages that are open, without the user's."""
    found = browsing.ask_extension(
        "chrome.tabs.query({url: 'http://localhost/*'})"
        ".then((tabs) => tabs.map(({url}) => new URL(url).pathname))"
    )
    return sorted(path for path in found if path != "/index.html")


def until_open(browsing: Browsing, *expected: str) -> None:
    with suppress(AssertionError):  # then the next line shows the difference
        wait_true(lambda: paths(browsing) == sorted(expected))
    assert paths(browsing) == sorted(expected)


def is_released(browsing: Browsing) -> bool:
    """Return whether no session owns a tab."""
    return not owners(browsing).get("owners")


def owners(browsing: Browsing) -> dict[str, Any]:
    """Return what the extension keeps of sessions and their tabs."""
    stored: dict[str, dict[str, Any]] = browsing.ask_extension("chrome.storage.session.get('owners')")
    return stored.get("owners", {})


def activate_as_user(browsing: Browsing, tab: int) -> None:
    """Show a tab as a click on it does, from beside the extension; then the user's own tab again."""
    for shown in (browsing.browser_id_of(tab), user_tab(browsing)):
        browsing.browser.send("Target.activateTarget", targetId=target_of(browsing, shown))
        wait_true(lambda shown=shown: active_tab(browsing) == shown)  # type: ignore[misc]


def show(browsing: Browsing, tab: int) -> None:
    """Show a tab as a client does."""

    tab = browsing.browser_id_of(tab)

    async def activate() -> None:
        async with onlooking(browsing.chain) as client:
            await client.request("activateTab", tabId=tab)

    browsing.thread.run(activate)
    wait_true(lambda: active_tab(browsing) == tab)


def user_tab(browsing: Browsing) -> int:
    found: int = browsing.ask_extension(
        "chrome.tabs.query({url: 'http://localhost/index.html'}).then((tabs) => tabs[0].id)"
    )
    return found


def target_of(browsing: Browsing, tab: int) -> str:
    targets = browsing.ask_extension("chrome.debugger.getTargets()")
    return next(str(each["id"]) for each in targets if each.get("tabId") == tab)


def active_tab(browsing: Browsing) -> int:
    found: int = browsing.ask_extension("chrome.tabs.query({active: true}).then((tabs) => tabs[0].id)")
    return found


def group_ids(browsing: Browsing) -> list[int]:
    found: list[int] = browsing.ask_extension(
        "chrome.tabGroups.query({}).then((groups) => groups.map(({id}) => id))"
    )
    return found


def left(browsing: Browsing) -> list[Any]:
    """What the popup shows of ended sessions."""
    stored = browsing.ask_extension("chrome.storage.session.get('left')")
    return [about for _, about in stored.get("left", [])]


def closing(word: str) -> dict[str, str]:
    return {"MCPB_BROWSER_CLOSE_TABS": word}


@pytest.mark.parametrize(
    ("word", "stay"),
    [
        ("never", ["/article.html", "/history.html"]),
        ("unused", ["/article.html"]),
        ("ask", ["/article.html", "/history.html"]),
        ("always", []),
        ("true", []),
        ("false", ["/article.html", "/history.html"]),
    ],
)
def test_the_setting_says_which_tabs_stay_of_one_that_the_user_has_seen_and_one_that_not(
    browsing: Browsing, word: str, stay: list[str]
) -> None:
    with browsing.client(ANN, settings=closing(word)) as tools:
        seen = tools.open_site("article.html")
        tools.open_site("history.html")
        activate_as_user(browsing, seen)
    until_open(browsing, *stay)
    wait_true(lambda: is_released(browsing))
    assert len(left(browsing)) == len(stay)


def test_by_default_unused_tabs_are_closed(browsing: Browsing) -> None:
    with browsing.client(ANN) as tools:
        tools.open_site("article.html")
    until_open(browsing)


def test_a_tab_that_a_tool_has_shown_is_unused(browsing: Browsing) -> None:
    with browsing.client(ANN) as tools:
        tab = tools.open_site("article.html")
        tools.done("resize_window", tabId=tab, width=900, height=700)
        show(browsing, tab)
    until_open(browsing)


def test_a_tab_that_a_page_of_a_shown_tab_opens_in_front_is_unused(browsing: Browsing) -> None:
    with browsing.client(ANN) as tools:
        tab = tools.open_site("windows.html")
        show(browsing, tab)
        tools.done("computer", action="left_click", ref=tools.ref_of("Arrive in a new tab"))
        wait_true(lambda: active_tab(browsing) != browsing.browser_id_of(tab))
        assert paths(browsing) == ["/arrived.html", "/windows.html"]
    until_open(browsing)


def test_a_tab_that_its_page_in_the_background_opens_is_unused(browsing: Browsing) -> None:
    with browsing.client(ANN) as tools:
        tools.open_site("windows.html")
        tools.done("computer", action="left_click", ref=tools.ref_of("Arrive in a new tab"))
        assert paths(browsing) == ["/arrived.html", "/windows.html"]
    until_open(browsing)


def test_a_link_that_the_user_opens_in_the_background_of_a_tab_they_have_seen_stays(
    browsing: Browsing,
) -> None:
    with browsing.client(ANN) as tools:
        tab = tools.open_site("windows.html")
        activate_as_user(browsing, tab)
        tools.done("computer", action="left_click", text="ctrl", ref=tools.ref_of("Arrive in a new tab"))
        wait_true(lambda: paths(browsing) == ["/arrived.html", "/windows.html"])
        assert active_tab(browsing) == user_tab(browsing)
    until_open(browsing, "/arrived.html", "/windows.html")


def test_the_tab_that_follows_a_closed_tab_of_the_client_is_unused(browsing: Browsing) -> None:
    with browsing.client(ANN) as tools:
        first, second = tools.open_site("article.html"), tools.open_site("history.html")
        show(browsing, first)
        show(browsing, second)
        before = browsing.browser_id_of(second)
        tools.done("tabs_close_mcp", tabId=second)
        wait_true(lambda: active_tab(browsing) != before)
    until_open(browsing)


def test_a_tab_with_unsaved_changes_stays_whatever_is_set(browsing: Browsing) -> None:
    with browsing.client(ANN, settings=closing("always")) as tools:
        tools.open_site("article.html")
        tools.open_site("leaving.html")
        tools.done("computer", action="left_click", ref=tools.ref_of('"Draft"'))
        tools.done("computer", action="type", text="a letter")
        page = tools.look(tools.done("tabs_context").structured["selectedTabId"])
    until_open(browsing, "/leaving.html")
    page.evaluate("document.querySelector('input').value = ''")  # so that nothing asks when it is closed


def test_a_tab_that_the_user_has_moved_to_another_group_stays(browsing: Browsing) -> None:
    with browsing.client(ANN, settings=closing("always")) as tools:
        taken = browsing.browser_id_of(tools.open_site("article.html"))
        apart = browsing.browser_id_of(tools.open_site("history.html"))
        tools.open_site("search.html")
        browsing.ask_extension(f"chrome.tabs.group({{tabIds: {taken}}})")
        browsing.ask_extension(f"chrome.tabs.ungroup({apart})")
    until_open(browsing, "/article.html", "/history.html")


def test_a_tab_with_a_live_stream_stays(browsing: Browsing) -> None:
    with browsing.client(ANN) as tools:
        tab = tools.open_site("article.html")
        tools.look(tab).evaluate(
            "{ const video = document.createElement('video');"
            "const canvas = document.createElement('canvas'); canvas.getContext('2d');"
            "video.srcObject = canvas.captureStream(); document.body.append(video); }"
        )
    wait_true(lambda: is_released(browsing))
    assert paths(browsing) == ["/article.html"]


def test_the_next_session_of_a_client_uses_the_group_of_the_last_one(
    browsing: Browsing, tmp_path: Path
) -> None:
    with browsing.client(ANN, settings=closing("never")) as tools:
        tools.open_site("article.html")
        (first,) = group_ids(browsing)
        with browsing.client(ANN, settings=closing("never")) as beside:
            beside.open_site("history.html")
            assert len(group_ids(browsing)) == 2, "a group that another session uses"
    with browsing.client(ANN, settings=closing("never"), cwd=tmp_path) as elsewhere:
        elsewhere.open_site("search.html")
        assert len(group_ids(browsing)) == 3, "of another folder"
    wait_true(lambda: is_released(browsing))
    with browsing.client(ANN, settings=closing("never")) as tools:
        tab = browsing.browser_id_of(tools.open_site("tall.html"))
        group = browsing.ask_extension(f"chrome.tabs.get({tab}).then(({{groupId}}) => groupId)")
        assert group in group_ids(browsing)
        assert len(group_ids(browsing)) == 3
    assert first in group_ids(browsing)


def test_sessions_that_follow_each_other_leave_no_groups(browsing: Browsing) -> None:
    for _ in range(3):
        with browsing.client(ANN) as tools:
            tools.open_site("article.html")
        until_open(browsing)
    wait_true(lambda: group_ids(browsing) == [])


@pytest.fixture
def real_bridges(browsing: Browsing) -> Iterator[None]:
    """Start bridges as clients do, for a test that kills one."""
    browsing.chain.forks_bridges = False
    yield
    browsing.chain.forks_bridges = True


def let_a_minute_pass(browsing: Browsing) -> None:
    """Let the worker believe that a minute has passed, and its alarm go off."""
    browsing.ask_extension(
        f"{{ const now = Date.now; Date.now = () => now.call(Date) + {MINUTE_MS};"
        "chrome.alarms.create('unnamed-sessions', {when: now.call(Date)}); }"
    )


def kill_bridge(browsing: Browsing) -> None:
    """Kill the only bridge that runs, and wait until the extension knows."""
    own = {"MCPB_HOME": str(browsing.chain.home)}
    (bridge,) = [
        process
        for process in proc.find_processes(os.getuid())
        if "bridge" in list(proc.read_command_line(process))[-2:]
        and proc.read_environment(process, own) == own
    ]
    os.kill(proc.pid_of(bridge), signal.SIGKILL)
    wait_true(lambda: has_unnamed(browsing))


def has_unnamed(browsing: Browsing) -> bool:
    return bool(owners(browsing).get("unnamed"))


@pytest.mark.usefixtures("real_bridges")
def test_the_unused_tabs_of_a_killed_bridge_are_closed_after_a_minute(browsing: Browsing) -> None:
    with browsing.client(ANN) as tools:
        seen = tools.open_site("article.html")
        tools.open_site("history.html")
        activate_as_user(browsing, seen)
        kill_bridge(browsing)
    assert paths(browsing) == ["/article.html", "/history.html"]
    let_a_minute_pass(browsing)
    until_open(browsing, "/article.html")


def test_a_client_whose_connection_was_lost_for_a_moment_keeps_its_tabs(browsing: Browsing) -> None:
    with browsing.client(ANN) as tools:
        tab = tools.open_site("article.html")
        stop_host(browsing)
        wait_true(lambda: not has_unnamed(browsing))
        assert tools.done("tabs_context").structured["selectedTabId"] == tab
        assert "Town library" in tools.done("get_page_text").text
    until_open(browsing)


def stop_host(browsing: Browsing) -> None:
    """Kill the native host; the extension starts another one."""
    (host,) = hosts(browsing.chain)
    os.kill(host.pid, signal.SIGKILL)
    wait_true(lambda: [each.pid for each in hosts(browsing.chain)] not in ([], [host.pid]))


# ── What is left for the user to decide ─────────────────────────────────────────────────────────────────────


def open_popup(browsing: Browsing) -> Tab:
    url = f"chrome-extension://{EXTENSION_ID}/popup/popup.html"
    created = browsing.browser.send("Target.createTarget", url=url, background=True)
    return browsing.browser.attach(created["targetId"])


def press(popup: Tab, text: str) -> None:
    """Press a button about the tabs that clients have left."""
    popup.evaluate(
        "[...document.querySelectorAll('#left button')]"
        f".find(({{textContent}}) => textContent === {text!r}).click()"
    )


def badge(browsing: Browsing) -> str:
    return str(browsing.ask_extension("chrome.action.getBadgeText({})"))


@pytest.mark.parametrize(("button", "stay"), [("Close", []), ("Keep", ["/article.html", "/history.html"])])
def test_with_ask_the_badge_and_the_popup_show_what_was_left(
    browsing: Browsing, button: str, stay: list[str]
) -> None:
    with browsing.client(ANN, settings=closing("ask")) as tools:
        tools.open_site("article.html")
        tools.open_site("history.html")
        assert badge(browsing) == ""
    wait_true(lambda: badge(browsing) == "2")
    popup = open_popup(browsing)
    popup.wait_until("document.querySelector('#left')?.textContent?.includes('2 tabs')")
    press(popup, button)
    until_open(browsing, *stay)
    popup.wait_until("document.querySelector('#left')?.textContent?.includes('done')")
    wait_true(lambda: badge(browsing) == "")
    popup.close()


def test_the_popup_closes_what_was_left_without_a_question_too(browsing: Browsing) -> None:
    with browsing.client(ANN, settings=closing("never")) as tools:
        tools.open_site("article.html")
    wait_true(lambda: is_released(browsing))
    assert badge(browsing) == ""
    popup = open_popup(browsing)
    popup.wait_until("document.querySelector('#left')?.textContent?.includes('1 tab')")
    press(popup, "Close")
    until_open(browsing)
    popup.close()


def test_the_last_tab_of_the_browser_stays(browsing: Browsing) -> None:
    url = f"{browsing.site.url}/index.html"
    with browsing.client(ANN, settings=closing("always")) as tools:
        tools.open_site("article.html")
        tools.open_site("history.html")
        browsing.ask_extension(
            "chrome.tabs.query({}).then((tabs) => chrome.tabs.remove("
            "tabs.filter(({url}) => !/article|history/.test(url)).map(({id}) => id)))"
        )
        wait_true(lambda: len(browsing.browser.targets("page")) == 2)
    wait_true(lambda: is_released(browsing))
    wait_true(lambda: len(paths(browsing)) == 1)
    browsing.open_as_user(url)


def test_the_setting_of_a_running_client_follows_the_file(browsing: Browsing) -> None:
    config, denied = browsing.chain.home / "config.toml", f"{browsing.site.elsewhere}/article.html"
    policy = f'[policy]\ndeny = ["{browsing.site.elsewhere}"]\n'
    try:
        with browsing.client(ANN) as tools:
            tools.open_site("article.html")
            other = tools.done("tabs_create").structured["tabId"]
            config.write_text(f'[browser]\nclose_tabs = "never"\n{policy}')
            wait_true(lambda: tools.call("navigate", tabId=other, url=denied).is_error)  # it is in force
    finally:
        config.unlink()
    wait_true(lambda: is_released(browsing))
    assert paths(browsing) == ["/article.html"]


def mcpb(browsing: Browsing, *arguments: str) -> str:
    ended = browsing.run_long(partial(browsing.chain.mcpb, *arguments))
    return ended.stdout.decode()


def test_a_call_of_the_command_line_leaves_no_tab_unless_it_is_kept(browsing: Browsing) -> None:
    url = f"url={browsing.site.url}/article.html"
    assert "Town library" in mcpb(browsing, "call", "navigate", url)
    assert paths(browsing) == []
    mcpb(browsing, "call", "navigate", url, "--keep")
    assert paths(browsing) == ["/article.html"]
