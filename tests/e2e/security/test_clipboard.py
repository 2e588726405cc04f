"""Paste keys of a client never insert the user's clipboard (F9, A44)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clipboard import copy_as_user
from logged_hosts import LoggedHosts
from site_boundary import wait_true
from tool_browser import Browsing, Tab, Tools

SECRET = "CLIP-SECRET-42"
FIELD = "<textarea id=field></textarea><script>field.focus()</script>"


@pytest.fixture(scope="module")
def tools(browsing: Browsing) -> Iterator[Tools]:
    with browsing.client() as opened:
        yield opened


def open_page(tools: Tools, url: str) -> Tab:
    """Open a page in a new tab of the client, which is its current one from now on."""
    tab_id = tools.done("tabs_create").structured["tabId"]
    tools.done("navigate", tabId=tab_id, url=url)
    return tools.look(tab_id)


def press(tools: Tools, keys: str, **more: object) -> str:
    return tools.done("computer", action="key", text=keys, **more).text


@pytest.mark.parametrize(
    "keys",
    [
        "ctrl+v",
        "cmd+v",
        "ctrl+V",
        "ctrl+shift+v",
        "cmd+alt+shift+v",
        "shift+Insert",
        "shift+ins",
        "ctrl+a ctrl+v",
        "Home shift+End ctrl+v Tab",
    ],
)
def test_a_paste_key_of_a_client_that_copied_nothing_is_rejected(
    browsing: Browsing, hosts: LoggedHosts, keys: str
) -> None:
    url = hosts.set_page("evil.localhost", "/", FIELD)
    with browsing.client("newcomer") as newcomer:
        tab = open_page(newcomer, url)
        copy_as_user(browsing, SECRET)
        assert "Use type" in newcomer.refused("computer", action="key", text=keys)
        assert "Use type" in newcomer.refused("computer", action="key", text=keys, repeat=3)
        batch = {"actions": [{"name": "computer", "input": {"action": "key", "text": keys}}]}
        assert SECRET not in newcomer.call("browser_batch", **batch).text
        assert tab.evaluate("field.value") == ""


def test_no_script_of_a_client_reads_the_user_s_clipboard(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts
) -> None:
    tab = open_page(tools, hosts.set_page("evil.localhost", "/", FIELD))
    copy_as_user(browsing, SECRET)
    script = """
        field.focus();
        const pasted = document.execCommand("paste");
        const read = navigator.clipboard.readText().catch((error) => error.name);
        const late = new Promise((resolve) => setTimeout(() => resolve("late"), 1000));
        return [pasted, field.value, await Promise.race([read, late])].join();
    """
    assert SECRET not in tools.call("javascript_tool", action="javascript_exec", text=script).text
    assert tab.evaluate("field.value") == ""


@pytest.mark.parametrize(("copy", "paste"), [("ctrl+c", "ctrl+v"), ("ctrl+x", "cmd+shift+v")])
def test_a_client_pastes_its_own_text_though_the_user_copied_later(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, copy: str, paste: str
) -> None:
    tab = open_page(tools, hosts.set_page("shop.localhost", "/", FIELD))
    tools.done("computer", action="type", text="two\nlines")
    assert "Copied 9 characters" in press(tools, f"ctrl+a {copy}")
    copy_as_user(browsing, SECRET)
    assert "Pasted the 9 characters" in press(tools, f"ctrl+a Delete {paste} {paste}")
    assert tab.evaluate("field.value") == "two\nlinestwo\nlines"
    there = open_page(tools, hosts.set_page("other.localhost", "/", FIELD))
    press(tools, paste)
    assert there.evaluate("field.value") == "two\nlines"


def test_one_client_does_not_paste_what_another_copied(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts
) -> None:
    url = hosts.set_page("shop.localhost", "/", f"{FIELD}<script>field.value = 'mine'</script>")
    open_page(tools, url)
    press(tools, "ctrl+a ctrl+c")
    with browsing.client("another") as another:
        open_page(another, url)
        assert "Use type" in another.refused("computer", action="key", text="ctrl+v")


@pytest.mark.parametrize(
    "field",
    [
        "<input id=field type=password value=hunter2>",
        "<input id=field value=''>",
        "<textarea id=field></textarea><script>field.value = 'x'.repeat(100_001)</script>",
    ],
)
def test_after_a_copy_key_that_took_no_known_text_nothing_is_pasted(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts, field: str
) -> None:
    open_page(tools, hosts.set_page("shop.localhost", "/", f"{FIELD}<script>field.value = 'old'</script>"))
    press(tools, "ctrl+a ctrl+c")
    tab = open_page(tools, hosts.set_page("shop.localhost", "/", f"{field}<script>field.focus()</script>"))
    copy_as_user(browsing, SECRET)
    before = tab.evaluate("field.value")
    refused = tools.refused("computer", action="key", text="ctrl+a ctrl+c ctrl+v")
    assert "Use type" in refused
    assert "The 2 keys before it were pressed" in refused
    assert tab.evaluate("field.value") == before


def test_text_of_a_field_in_a_frame_and_of_a_document_is_copied(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts
) -> None:
    inner = hosts.set_page("inner.localhost", "/", "<input id=field value='of the frame'>")
    page = f"<p>words</p><input id=field><iframe src='{inner}'></iframe>"
    tab = open_page(tools, hosts.set_page("shop.localhost", "/", page))

    def is_copied_from_frame() -> bool:
        tools.done("computer", action="left_click", ref=tools.ref_of("of the frame"))
        return "Copied 12 characters" in press(tools, "ctrl+a ctrl+c")

    wait_true(is_copied_from_frame)  # on a busy machine Chromium may lose a click's focus in a frame
    tab.evaluate("field.focus()")
    press(tools, "ctrl+v")
    assert tab.evaluate("field.value") == "of the frame"
    tab.evaluate(
        "field.value = '', field.blur(), getSelection().selectAllChildren(document.querySelector('p'))"
    )
    assert "Copied 5 characters" in press(tools, "ctrl+c")
    assert "No field for text" in tools.refused("computer", action="key", text="ctrl+v")


def test_text_of_a_site_that_is_paused_later_is_not_pasted_elsewhere(
    browsing: Browsing, tools: Tools, hosts: LoggedHosts
) -> None:
    source = hosts.set_page("bank.localhost", "/", f"{FIELD}<script>field.value = 'balance'</script>")
    open_page(tools, source)
    press(tools, "ctrl+a ctrl+c")
    tab = open_page(tools, hosts.set_page("evil.localhost", "/", FIELD))
    browsing.thread.run(browsing.chain.mcpb, "pause", hosts.origin("bank.localhost"))
    assert "may not be used now" in tools.refused("computer", action="key", text="ctrl+v")
    assert tab.evaluate("field.value") == ""
