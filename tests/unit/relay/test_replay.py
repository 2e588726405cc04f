"""What a late client hears: the newest of everything that still holds, in a fixed order."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgspec
import pytest

from native_host.relay.replay import Replay

ENTRY = 16 * 1024
"""Bytes for which a tab or a frame counts beside its own."""


def keep(replay: Replay, method: str, **params: Any) -> None:
    replay.keep(method, json.dumps(params).encode())


def said(replay: Replay) -> list[tuple[str, Any]]:
    return [(m["method"], m["params"]) for m in map(json.loads, replay.messages())]


def tools(tab: int, frame: int = 0, document: str = "d", **more: Any) -> dict[str, Any]:
    return {"tabId": tab, "frameId": frame, "documentId": document, **more}


def test_nothing_announced_is_said_as_nothing_but_the_end_of_the_replay() -> None:
    assert said(Replay()) == [("host/replayed", {})]


def test_the_order_is_hello_tabs_tools_oldest_first_paused_and_the_end() -> None:
    replay = Replay()
    keep(replay, "browser/paused", sites=["a"])
    keep(replay, "browser/registerTools", **tools(2))
    keep(replay, "browser/registerTools", **tools(1))
    keep(replay, "browser/updateTools", **tools(2, note="newer"))
    keep(replay, "browser/tabs", tabs=[{"tabId": 1}, {"tabId": 2}])
    keep(replay, "browser/hello", wire=1)
    assert said(replay) == [
        ("browser/hello", {"wire": 1}),
        ("browser/tabs", {"tabs": [{"tabId": 1}, {"tabId": 2}]}),
        ("browser/registerTools", tools(1)),
        ("browser/registerTools", tools(2, note="newer")),
        ("browser/paused", {"sites": ["a"]}),
        ("host/replayed", {}),
    ]


def test_a_changed_tab_takes_its_place_in_the_list_and_a_new_one_comes_last() -> None:
    replay = Replay()
    keep(replay, "browser/tabs", tabs=[{"tabId": 1}, {"tabId": 2}])
    keep(replay, "browser/tabChanged", tab={"tabId": 1, "title": "new"})
    keep(replay, "browser/tabChanged", tab={"tabId": 3})
    assert said(replay)[0][1] == {"tabs": [{"tabId": 1, "title": "new"}, {"tabId": 2}, {"tabId": 3}]}


def test_a_removed_tab_takes_the_tools_of_all_its_frames_with_it() -> None:
    replay = Replay()
    keep(replay, "browser/tabs", tabs=[{"tabId": 1}, {"tabId": 2}])
    keep(replay, "browser/registerTools", **tools(1, 0))
    keep(replay, "browser/registerTools", **tools(1, 5))
    keep(replay, "browser/registerTools", **tools(2, 0))
    keep(replay, "browser/tabRemoved", tabId=1)
    assert said(replay)[:-1] == [
        ("browser/tabs", {"tabs": [{"tabId": 2}]}),
        ("browser/registerTools", tools(2)),
    ]


def test_a_frame_s_late_goodbye_does_not_remove_its_successor_s_tools() -> None:
    replay = Replay()
    keep(replay, "browser/registerTools", **tools(1, document="old"))
    keep(replay, "browser/registerTools", **tools(1, document="new"))
    keep(replay, "browser/unregister", **tools(1, document="old"))
    assert said(replay)[0] == ("browser/registerTools", tools(1, document="new"))
    keep(replay, "browser/unregister", **tools(1, document="new"))
    assert said(replay) == [("host/replayed", {})]


def test_what_is_not_ours_to_read_passes_byte_for_byte() -> None:
    params = b'{"tabId":1,"frameId":0,"documentId":"d","tools":[{"name":"a", "x":1e999,"x":2}]}'
    replay = Replay()
    replay.keep("browser/registerTools", params)
    assert params in replay.messages()[0]


@pytest.mark.parametrize("params", [b"{}", b'{"tabs":7}', b'{"tabs":[{"tabId":"x"}]}', b"[]"])
def test_an_announcement_without_an_address_is_refused_and_changes_nothing(params: bytes) -> None:
    replay = Replay()
    keep(replay, "browser/tabs", tabs=[{"tabId": 1}])
    with pytest.raises(msgspec.DecodeError):
        replay.keep("browser/tabs", params)
    assert said(replay)[0] == ("browser/tabs", {"tabs": [{"tabId": 1}]})


def test_a_list_of_tabs_takes_the_tools_of_tabs_that_are_no_longer_in_it() -> None:
    replay = Replay()
    keep(replay, "browser/registerTools", **tools(1))
    keep(replay, "browser/tabs", tabs=[{"tabId": 2}])
    assert said(replay) == [("browser/tabs", {"tabs": [{"tabId": 2}]}), ("host/replayed", {})]


def test_what_is_kept_fits_into_a_client_s_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every client that comes would be dropped as one that does not read."""
    monkeypatch.setattr("native_host.relay.replay.REPLAY_TOOLS_BYTES", 2500)
    replay = Replay()
    for frame in range(5):
        keep(replay, "browser/registerTools", **tools(1, frame, notice="x" * 1000))
    assert [params["frameId"] for method, params in said(replay)[:-1]] == [0, 1]
    keep(replay, "browser/unregister", **tools(1, 0))
    keep(replay, "browser/updateTools", **tools(1, 4, notice="x" * 1000))
    assert [params["frameId"] for method, params in said(replay)[:-1]] == [1, 4]


def test_tools_that_are_too_long_are_logged_once_and_not_by_every_page(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("native_host.relay.replay.REPLAY_TOOLS_BYTES", 100)
    replay = Replay()
    for frame in range(5):
        keep(replay, "browser/registerTools", **tools(1, frame, notice="x" * 1000))
    assert len(caplog.records) == 1


def test_of_tools_that_are_too_long_nothing_long_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("native_host.relay.replay.REPLAY_TOOLS_BYTES", 100)
    replay = Replay()
    tracemalloc.start()
    try:
        for frame in range(10):
            keep(replay, "browser/registerTools", **tools(1, frame, document="x" * 1_000_000))
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 1_000_000


def test_its_size_follows_what_it_keeps() -> None:
    replay = Replay()
    assert replay.size == 0
    replay.keep("browser/tabs", b'{"tabs":[{"tabId":1},{"tabId":2}]}')
    first = replay.size
    assert first == 2 * (len(b'{"tabId":1}') + ENTRY)
    replay.keep("browser/tabChanged", b'{"tab":{"tabId":1,"title":"x"}}')
    assert replay.size == first + len(b',"title":"x"')
    tools = b'{"tabId":2,"frameId":0,"documentId":"d","origin":"","tools":[]}'
    for _ in range(2):
        replay.keep("browser/registerTools", tools)
    assert replay.size == first + len(b',"title":"x"') + len(tools) + ENTRY
    replay.keep("browser/tabRemoved", b'{"tabId":2}')
    replay.keep("browser/tabChanged", b'{"tab":{"tabId":1}}')
    assert replay.size == first / 2
    replay.keep("browser/tabs", b'{"tabs":[]}')
    assert replay.size == 0
