"""What a client hears that reads slowly: less, but it knows the same in the end."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_host.ipc.send_queue import SendQueue
from native_host.protocol import jsonrpc
from native_host.protocol.announcements import AnnouncementKey, AnnouncementMeta, Kind
from native_host.relay import coalescing
from native_host.relay.coalescing import AnnouncementCoalescer
from native_host.relay.replay import Replay


class Slow:
    """A client for which everything waits until it reads. It hears what a replay keeps."""

    def __init__(self, replay: Replay) -> None:
        self.queue = SendQueue()
        self.dropped = 0
        self._newest = AnnouncementCoalescer(self.queue, self._count_dropped)
        self._replay = replay

    def _count_dropped(self) -> None:
        self.dropped += 1

    def announce(self, announced: str, /, **params: Any) -> None:
        for method, raw, meta in self._replay.keep(announced, json.dumps(params).encode()):
            self._newest.put((jsonrpc.notification(method, raw),), meta)

    def tell(self, meta: AnnouncementMeta, text: bytes = b"{}") -> None:
        self._newest.put((text,), meta)

    def read(self) -> list[tuple[str, Any]]:
        """The next messages, as many as are written together."""
        parts = self.queue.next_parts()
        self.queue.on_written(sum(map(len, parts)))
        said = [json.loads(bytes(part)) for part in parts]
        return [(message["method"], message["params"]) for message in said]

    def read_one(self) -> tuple[str, Any]:
        part = self.queue.next_parts()[0]
        self.queue.on_written(len(part))
        message = json.loads(bytes(part))
        return message["method"], message["params"]


@pytest.fixture
def slow() -> Slow:
    """A client that knows tab 1, with a list of tools in frame 0."""
    slow = Slow(Replay())
    slow.announce("browser/tabs", tabs=[{"tabId": 1}])
    slow.announce("browser/registerTools", **tools(1))
    slow.read()
    return slow


def tools(tab: int, frame: int = 0, document: str = "d", **more: Any) -> dict[str, Any]:
    return {"tabId": tab, "frameId": frame, "documentId": document, **more}


def tab(tab_id: int, **more: Any) -> dict[str, Any]:
    return {"tab": {"tabId": tab_id, **more}}


def test_many_announcements_that_wait_do_not_make_the_next_one_slow(slow: Slow) -> None:
    """Each would look through 20 000 others: that took a minute, during which nothing else happened."""
    slow.announce("browser/tabs", tabs=[{"tabId": number} for number in range(20_000)])
    slow.read()
    begun_s = process_time()
    slow.announce("browser/tabs", tabs=[])
    for _ in range(1000):
        slow.announce("browser/tabs", tabs=[])
    assert process_time() - begun_s < 10


def test_of_a_tab_s_changes_the_newest_is_heard_in_the_turn_of_the_first(slow: Slow) -> None:
    for number in range(1000):
        slow.announce("browser/tabChanged", **tab(1, title=str(number)))
        slow.announce("browser/tabChanged", **tab(2, title=str(number)))
    assert slow.read() == [
        ("browser/tabChanged", tab(1, title="999")),
        ("browser/tabChanged", tab(2, title="999")),
    ]


def test_of_a_frame_s_lists_the_newest_is_heard(slow: Slow) -> None:
    for number in range(1000):
        slow.announce("browser/updateTools", **tools(1, notice=str(number)))
    assert slow.read() == [("browser/updateTools", tools(1, notice="999"))]


def test_of_a_tab_that_came_and_went_meanwhile_nothing_is_heard(slow: Slow) -> None:
    for number in range(2, 1000):
        slow.announce("browser/tabChanged", **tab(number))
        slow.announce("browser/registerTools", **tools(number))
        slow.announce("browser/tabRemoved", tabId=number)
    assert not slow.queue


def test_of_frames_that_came_and_went_meanwhile_nothing_is_heard(slow: Slow) -> None:
    for number in range(1, 1000):
        slow.announce("browser/registerTools", **tools(1, number, f"d{number}"))
        slow.announce("browser/unregister", **tools(1, number, f"d{number}"))
    assert not slow.queue


def test_a_known_tab_that_is_gone_is_heard_to_be_gone_and_nothing_else_of_it(slow: Slow) -> None:
    slow.announce("browser/tabChanged", **tab(1))
    slow.announce("browser/registerTools", **tools(1, 5))
    slow.announce("browser/pageNotification", **tools(1), method="x")
    slow.announce("browser/tabRemoved", tabId=1)
    assert slow.read() == [("browser/tabRemoved", {"tabId": 1})]


def test_a_frame_that_has_changed_documents_often_and_is_gone_is_known_to_be_gone(slow: Slow) -> None:
    for number in range(1000):
        slow.announce("browser/unregister", **tools(1, document=f"d{number - 1}" if number else "d"))
        slow.announce("browser/registerTools", **tools(1, document=f"d{number}"))
    slow.announce("browser/unregister", **tools(1, document="d999"))
    assert [method for method, _ in slow.read()] == ["browser/registerTools", "browser/unregister"]


def test_a_known_frame_s_list_that_waits_does_not_hide_that_the_frame_is_gone(slow: Slow) -> None:
    slow.announce("browser/updateTools", **tools(1, notice="x"))
    slow.announce("browser/unregister", **tools(1))
    assert [method for method, _ in slow.read()] == ["browser/updateTools", "browser/unregister"]


def test_a_tab_of_which_only_tools_were_heard_is_heard_to_be_gone(slow: Slow) -> None:
    slow.announce("browser/registerTools", **tools(2))
    slow.read()
    slow.announce("browser/tabChanged", **tab(2))
    slow.announce("browser/tabRemoved", tabId=2)
    assert slow.read() == [("browser/tabRemoved", {"tabId": 2})]


def test_a_known_tab_that_was_gone_twice_meanwhile_is_heard_to_be_gone_once(slow: Slow) -> None:
    slow.announce("browser/tabRemoved", tabId=1)
    slow.announce("browser/tabChanged", **tab(1))
    slow.announce("browser/tabRemoved", tabId=1)
    assert slow.read() == [("browser/tabRemoved", {"tabId": 1})]


def test_the_whole_list_of_tabs_is_heard_instead_of_their_changes(slow: Slow) -> None:
    slow.announce("browser/tabChanged", **tab(1, title="old"))
    slow.announce("browser/tabs", tabs=[{"tabId": 1, "title": "new"}])
    assert slow.read() == [("browser/tabs", {"tabs": [{"tabId": 1, "title": "new"}]})]


def test_what_tells_nothing_new_does_not_wait_behind_what_does(slow: Slow) -> None:
    slow.announce("browser/tabChanged", **tab(1))
    for number in range(1000):
        slow.announce("browser/unregister", **tools(number, 5))
    assert slow.read() == [("browser/tabChanged", tab(1))]


def test_what_has_begun_to_be_written_is_heard_to_its_end(slow: Slow) -> None:
    slow.announce("browser/tabChanged", **tab(1, title="old"))
    begun = bytes(slow.queue.next_parts()[0])
    slow.queue.on_written(5)
    slow.announce("browser/tabChanged", **tab(1, title="new"))
    rest, new = map(bytes, slow.queue.next_parts())
    assert (begun[5:], b"new" in new) == (rest, True)


def test_reports_of_each_call_are_replaced_and_answers_keep_their_turn(slow: Slow) -> None:
    for number in range(1000):
        for call in ("ab-1:1", "ab-1:2"):
            slow.tell(
                AnnouncementMeta(AnnouncementKey(Kind.PROGRESS, which=call)),
                b"%d of %b" % (number, call.encode()),
            )
    assert slow.queue.next_parts() == [b"999 of ab-1:1", b"999 of ab-1:2"]


def test_a_page_s_notification_that_says_the_same_again_is_heard_once(slow: Slow) -> None:
    for _ in range(1000):
        slow.announce("browser/pageNotification", **tools(1), method="resources/list_changed")
    slow.announce("browser/pageNotification", **tools(1), method="resources/updated")
    assert [params["method"] for _, params in slow.read()] == ["resources/list_changed", "resources/updated"]


def test_of_different_notifications_of_pages_the_newest_1024_are_heard(slow: Slow) -> None:
    for number in range(1031):
        slow.announce("browser/pageNotification", **tools(1), method=str(number))
    heard: list[str] = []
    while slow.queue:
        heard += [params["method"] for _, params in slow.read()]
    assert heard == [str(number) for number in range(7, 1031)]
    assert slow.dropped == 7


def test_notifications_that_went_with_their_tabs_leave_room_for_others(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalescing, "PAGE_NEWS_WAITING", 3)
    slow.announce("browser/pageNotification", **tools(1), method="stays")
    for number in range(2, 10):
        slow.announce("browser/tabChanged", **tab(number))
        slow.announce("browser/pageNotification", **tools(number), method="goes")
        slow.announce("browser/tabRemoved", tabId=number)
    assert [params["method"] for _, params in slow.read()] == ["stays"]


def test_notifications_that_were_heard_leave_room_for_others(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalescing, "PAGE_NEWS_WAITING", 3)
    for methods in ("abc", "ade"):
        for method in methods:
            slow.announce("browser/pageNotification", **tools(1), method=method)
        assert [params["method"] for _, params in slow.read()] == list(methods)


def test_what_waits_grows_with_what_there_is_to_know_and_not_with_how_often_it_changes(slow: Slow) -> None:
    waiting = set()
    for number in range(20_000):
        slow.tell(AnnouncementMeta(AnnouncementKey(Kind.TAB, number % 10)), b"x" * 100)
        slow.tell(AnnouncementMeta(AnnouncementKey(Kind.TOOLS, number % 10, number % 7)), b"x" * 100)
        if number >= 100:
            waiting.add((slow.queue.size, len(slow.queue)))
    assert waiting == {(80 * 100, 80)}


# ── A client that reads in its own time ─────────────────────────────────────────────────────────────────────


class Known:
    """What a client makes of what it hears: see bridge/hub/registry.py."""

    def __init__(self) -> None:
        self.tabs: dict[int, Any] = {}
        self.frames: dict[tuple[int, int], Any] = {}
        self.paused: Any = None

    def hear(self, method: str, params: Any) -> None:
        match method:
            case "browser/tabs":
                self.tabs = {tab["tabId"]: tab for tab in params["tabs"]}
                self.frames = {at: tools for at, tools in self.frames.items() if at[0] in self.tabs}
            case "browser/tabChanged":
                self.tabs[params["tab"]["tabId"]] = params["tab"]
            case "browser/tabRemoved":
                self.tabs.pop(params["tabId"], None)
                self.frames = {at: tools for at, tools in self.frames.items() if at[0] != params["tabId"]}
            case "browser/registerTools" | "browser/updateTools":
                self.frames[params["tabId"], params["frameId"]] = params
            case "browser/unregister":
                at = params["tabId"], params["frameId"]
                if at in self.frames and self.frames[at]["documentId"] == params["documentId"]:
                    del self.frames[at]
            case "browser/paused":
                self.paused = params


TAB_IDS = st.integers(1, 3)
ADDRESSES = st.builds(tools, TAB_IDS, st.integers(0, 1), st.sampled_from("abc"), notice=st.text(max_size=1))
TAB_LISTS = st.lists(TAB_IDS, unique=True).map(lambda ids: {"tabs": [{"tabId": tab_id} for tab_id in ids]})
OF_FRAMES = st.sampled_from(["browser/registerTools", "browser/updateTools", "browser/unregister"])
ANNOUNCEMENTS = st.one_of(
    st.tuples(st.just("browser/tabs"), TAB_LISTS),
    st.tuples(st.just("browser/tabChanged"), st.builds(tab, TAB_IDS, title=st.text(max_size=1))),
    st.tuples(st.just("browser/tabRemoved"), TAB_IDS.map(lambda tab_id: {"tabId": tab_id})),
    st.tuples(OF_FRAMES, ADDRESSES),
    st.tuples(st.just("browser/paused"), st.fixed_dictionaries({"sites": st.lists(st.text(max_size=1))})),
)


@given(st.lists(ANNOUNCEMENTS, max_size=60), st.data())
def test_a_slow_client_knows_in_the_end_what_one_knows_that_heard_every_announcement(
    announcements: list[tuple[str, Any]], data: st.DataObject
) -> None:
    slow, eager_known, slow_known = Slow(Replay()), Known(), Known()
    slow.announce("browser/tabs", tabs=[])
    for method, params in announcements:
        slow.announce(method, **params)
        eager_known.hear(method, params)
        while slow.queue and data.draw(st.booleans()):
            slow_known.hear(*slow.read_one())
    while slow.queue:
        slow_known.hear(*slow.read_one())
    assert vars(slow_known) == vars(eager_known)
