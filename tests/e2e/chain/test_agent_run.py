"""A model's day at the town library, in sixty steps, each of which is seen to have done what it should.

Two clients live it at once, in two tab groups of one browser. `make agent-run` has them do it twenty times.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trio
from PIL import Image

from approval_window import AskedUser
from site_server import PASSWORD, READER
from tool_browser import Browsing, Result, Tools, open_browsing

RUNS = int(os.environ.get("MCPB_AGENT_RUNS", "1"))
STEPS = 60
FILES = {"story.txt": b"On the harbour\r\n", "boat.bin": bytes(range(256)), "net.bin": b"\0" * 70_000}


@pytest.fixture(scope="module")
def browsing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsing]:
    with open_browsing() as opened:
        downloads = str(tmp_path_factory.mktemp("downloads"))
        opened.browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=downloads)
        yield opened


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the clients work: files that they may give to pages."""
    directory = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (directory / name).write_bytes(content)
    return directory


@pytest.mark.parametrize("run", range(1, RUNS + 1))
def test_two_clients_live_a_day_at_the_library_at_once_each_in_its_own_tab_group(
    browsing: Browsing, files: Path, run: int
) -> None:
    # Cookies are kept for each host: these are two readers.
    hosts = (browsing.site.url, browsing.site.elsewhere)
    user = AskedUser("for this session")
    with (
        browsing.client(f"first-{run}", cwd=files, **user.options) as first,
        browsing.client(f"second-{run}", cwd=files, **user.options) as second,
    ):
        agents = [Agent(tools, origin, files) for tools, origin in zip((first, second), hosts, strict=True)]
        assert agents[0].group != agents[1].group
        with ThreadPoolExecutor(2) as threads:
            steps = list(threads.map(live_a_day, agents))
        assert steps == [STEPS, STEPS]
        assert "another client" in first.refused("read_page", tabId=agents[1].tab)


class Agent:
    """A client that knows what it wants. What its steps did is looked at from beside, in the page itself."""

    def __init__(self, tools: Tools, origin: str, files: Path) -> None:
        context = tools.done("tabs_context_mcp", createIfEmpty=True).structured
        self.tools = tools
        self.origin = origin
        self.files = files
        self.tab: int = context["selectedTabId"]
        self.group: int = context["tabGroupId"]
        self.steps = 0
        self.page = tools.look(self.tab)

    def does(self, name: str, /, sees: str = "true", **arguments: Any) -> Result:
        """A step: a tool is called, and then an expression becomes true in the page."""
        self.steps += 1
        result = self.tools.done(name, tabId=self.tab, **arguments)
        try:
            self.page.wait_until(sees)
        except trio.TooSlowError:
            shown = self.page.evaluate("location.href + '\\n' + document.body.innerText")
            raise AssertionError(
                f"step {self.steps}, {name} {arguments}: {result.text}\nnever saw {sees}\nin {shown}"
            ) from None
        return result

    def ref_of(self, words: str) -> str:
        """What has these words in its line of `read_page`."""
        return self.tools.ref_of(words, self.tab)

    def goes_to(self, path: str, heading: str) -> Result:
        """Navigate."""
        return self.does("navigate", url=f"{self.origin}/{path}", sees=shows("h1", heading))

    def clicks(self, words: str, sees: str) -> Result:
        """Click what has these words."""
        return self.does("computer", action="left_click", ref=self.ref_of(words), sees=sees)

    def presses(self, keys: str, sees: str) -> Result:
        """Press keys."""
        return self.does("computer", action="key", text=keys, sees=sees)

    def types(self, text: str, sees: str) -> Result:
        """Type into what has the focus."""
        return self.does("computer", action="type", text=text, sees=sees)

    def fills(self, words: str, name: str, value: str | bool, holds: str | None = None) -> Result:
        """Give a control its value."""
        control = f"document.querySelector('[name={name}]')"
        sees = f"{control}.value === {json.dumps(value if holds is None else holds)}"
        return self.does("form_input", ref=self.ref_of(words), value=value, sees=sees)

    def ticks(self, words: str, value: str) -> Result:
        """Check a box."""
        sees = f"document.querySelector('[value={value}]').checked"
        return self.does("form_input", ref=self.ref_of(words), value=True, sees=sees)

    def drags(self, start: str, end: str, sees: str, right: float = 0, down: float = 0) -> Result:
        """Drag the middle of one element to a place beside the middle of another."""
        x, y = self.middle(end)
        return self.does(
            "computer",
            action="left_click_drag",
            start_coordinate=self.middle(start),
            coordinate=[x + right, y + down],
            sees=sees,
        )

    def middle(self, selector: str) -> list[float]:
        """Of an element, in the viewport, which is what a screenshot shows."""
        found: list[float] = self.page.evaluate(
            f"""(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])(
                document.querySelector({json.dumps(selector)}).getBoundingClientRect())"""
        )
        return found


def shows(selector: str, text: str) -> str:
    """The expression that an element of the page shows this text, among others."""
    return f"document.querySelector({json.dumps(selector)})?.textContent.includes({json.dumps(text)})"


def live_a_day(agent: Agent) -> int:
    """All of it; how many steps it took."""
    agent.does("gif_creator", action="start_recording")
    log_in(agent)
    find_a_book(agent)
    become_a_member(agent)
    hand_in_a_manuscript(agent)
    take_something_home(agent)
    drag_things(agent)
    answer_and_look_around(agent)
    log_out(agent)
    export_what_was_recorded(agent)
    return agent.steps


def log_in(agent: Agent) -> None:
    """9 steps."""
    agent.goes_to("login.html", "Log in")
    agent.fills('"Reader"', "reader", READER)
    agent.fills('"Password"', "password", "guess")
    agent.clicks('button "Log in"', shows("[role=status]", "This password is wrong"))
    agent.fills('"Reader"', "reader", READER)
    agent.clicks('"Password"', "document.activeElement.name === 'password'")
    agent.types(PASSWORD, f"document.activeElement.value === {json.dumps(PASSWORD)}")
    agent.presses("Enter", shows("[role=status]", f"Welcome, {READER}"))
    (picture,) = agent.does("computer", action="screenshot").images
    assert picture.data


def find_a_book(agent: Agent) -> None:
    """9 steps."""
    agent.clicks('link "Look for another"', shows("h1", "Catalogue"))
    agent.clicks('"Words"', "document.activeElement.name === 'words'")
    agent.types("brandt", "document.activeElement.value === 'brandt'")
    agent.presses("Enter", shows("#told", "2 found"))
    assert "[" in agent.does("find", query="The Night Ferry").text
    agent.clicks('link "The Night Ferry"', shows("h1", "The Night Ferry"))
    assert "1961" in agent.does("get_page_text").text
    agent.clicks('button "Reserve"', shows("#said", "Reserved: The Night Ferry"))
    agent.does("navigate", url="back", sees=shows("#told", "2 found"))


def become_a_member(agent: Agent) -> None:
    """14 steps."""
    agent.goes_to("membership-1.html", "Become a member")
    agent.fills('"Name"', "name", "Ada Byron")
    agent.fills('"Email"', "email", "ada@example.org")
    agent.fills('"Birthday"', "birthday", "1815-12-10")
    agent.clicks('button "Next"', shows("p", "Page 2 of 3"))
    agent.fills('"Branch"', "branch", "Market square", holds="market")
    agent.ticks('"The sea"', "sea")
    agent.ticks('"Bread"', "bread")
    agent.ticks('"Every week"', "weekly")
    agent.clicks('button "Next"', shows("p", "Page 3 of 3"))
    agent.fills('"Colour of the card"', "card", "#e8a33d")
    agent.fills('"Anything else?"', "comment", "Two lines,\nplease.")
    agent.clicks('button "Send"', shows("h1", "You are a member"))
    told = agent.does("get_page_text").text
    assert all(
        word in told for word in ("Ada Byron", "1815-12-10", "market", "sea, bread", "weekly", "#e8a33d")
    )


def hand_in_a_manuscript(agent: Agent) -> None:
    """5 steps."""
    agent.goes_to("upload.html", "Hand in a manuscript")
    one, *others = (str(agent.files / name) for name in FILES)
    chosen = "document.querySelector('[name={}]').files.length === {}".format
    agent.does("file_upload", ref=agent.ref_of('"Manuscript"'), paths=[one], sees=chosen("manuscript", 1))
    agent.does("file_upload", ref=agent.ref_of('"Drawings"'), paths=others, sees=chosen("drawings", 2))
    agent.clicks('button "Hand in"', shows("h1", "Handed in"))
    arrived = agent.does("read_page", filter="all").text
    assert all(hashlib.sha256(content).hexdigest() in arrived for content in FILES.values())


def take_something_home(agent: Agent) -> None:
    """3 steps."""
    agent.goes_to("downloads.html", "Take something home")
    assert "loans.csv" in agent.clicks('link "List of books"', "true").text
    assert "note.txt" in agent.clicks('link "A note"', "true").text


def drag_things(agent: Agent) -> None:
    """5 steps."""
    agent.goes_to("drag.html", "Drag and drop")
    basket = "[...document.querySelector('#basket').children].map((each) => each.id).join()"
    agent.drags("#novel", "#basket", f"{basket} === 'novel'")
    agent.drags("#atlas", "#basket", f"{basket} === 'novel,atlas'")
    order = "#order li:first-child", "#order li:last-child"
    agent.drags(*order, shows("[role=log]", "order: Second, Third, First (trusted)"), down=12)
    agent.does(
        "computer",
        action="scroll_to",
        ref=agent.ref_of('slider "Brightness"'),
        sees="(({ bottom }) => bottom <= innerHeight)(knob.getBoundingClientRect())",
    )


def answer_and_look_around(agent: Agent) -> None:
    """7 steps."""
    agent.drags("#knob", "#knob", "knob.ariaValueNow === '50'", right=148)
    agent.goes_to("noise.html", "Console and network")
    agent.does("read_console_messages")
    agent.clicks('button "Throw an error"', "true")
    assert "thrown on purpose" in agent.does("read_console_messages", onlyErrors=True).text
    agent.goes_to("dialogs.html", "Dialogs")
    agent.clicks('button "Alert"', shows("#said", "alert was closed"))


def log_out(agent: Agent) -> None:
    """4 steps."""
    agent.goes_to("account.html", "Your account")
    assert (
        READER in agent.does("javascript_tool", action="javascript_exec", text="document.body.innerText").text
    )
    agent.clicks('button "Log out"', shows("[role=status]", "You have logged out"))
    agent.goes_to("account.html", "Log in")


def export_what_was_recorded(agent: Agent) -> None:
    """3 steps."""
    agent.does("gif_creator", action="stop_recording")
    (link,) = agent.does("gif_creator", action="export").links
    with Image.open(io.BytesIO(agent.tools.read_resource(link.uri))) as animation:
        assert getattr(animation, "n_frames", 1) > 10
    agent.does("gif_creator", action="clear")
