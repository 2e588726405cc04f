"""The registry keeps what browsers say, and forgets it when they do."""

import logging
from typing import Any

import msgspec
import pytest

from bridge.hub.page_tool import MAX_TOOLS
from bridge.hub.registry import GRACE_S, Registry
from bridge.hub.transport import DiscoveryFinished, HostDiscovered, HostLost
from fake_transport import announce, connect, one_page, tab, tools
from native_host.protocol import wire


def offered(registry: Registry) -> list[tuple[str, int, int, str]]:
    return [(o.browser.host, o.tab.tab_id, o.frame.frame_id, o.tool.name) for o in registry.offers()]


def test_each_frame_of_each_tab_offers_its_own_tools() -> None:
    registry = Registry()
    tabs = wire.Tabs(tabs=[tab(1), tab(2, ordinal=2)])
    connect(registry, "h1", tabs, tools(1, "a", "b"), tools(1, "c", frame_id=4), tools(2, "a"))
    assert offered(registry) == [("h1", 1, 0, "a"), ("h1", 1, 0, "b"), ("h1", 1, 4, "c"), ("h1", 2, 0, "a")]


def test_a_frames_list_is_replaced_as_a_whole() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a", "b"))
    announce(registry, "h1", tools(1, "b", "c"))
    assert [name for *_, name in offered(registry)] == ["b", "c"]


def test_an_unregistration_of_an_earlier_document_changes_nothing() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"))
    announce(registry, "h1", tools(1, "b", document_id="d2"))
    announce(registry, "h1", wire.FrameAddress(tab_id=1, frame_id=0, document_id="d1"))
    assert [name for *_, name in offered(registry)] == ["b"]
    announce(registry, "h1", wire.FrameAddress(tab_id=1, frame_id=0, document_id="d2"))
    assert offered(registry) == []


def test_what_a_page_notifies_of_leaves_its_tools_alone() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"))
    version = registry.version
    said = wire.PageNotification(tab_id=1, frame_id=0, document_id="d1", method="notifications/message")
    announce(registry, "h1", said)
    assert [name for *_, name in offered(registry)] == ["a"]
    assert registry.version == version


def test_a_removed_tab_takes_the_tools_of_all_its_frames_along() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"), tools(1, "b", frame_id=2))
    announce(registry, "h1", wire.TabRemoved(tab_id=1))
    assert offered(registry) == []


def test_tabs_that_a_whole_list_no_longer_names_are_gone() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"))
    announce(registry, "h1", wire.Tabs(tabs=[tab(2, ordinal=2)]))
    assert offered(registry) == []


def test_incognito_tabs_are_not_offered_nor_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry()
    announced = tools(1, "a", origin="https://private.example")
    announced.tools.append(msgspec.Raw(b"5"))
    connect(registry, "h1", wire.Tabs(tabs=[tab(1, incognito=True)]), announced)
    assert offered(registry) == []
    assert list(registry.frames()) == []
    assert "private" not in caplog.text


def test_nothing_is_offered_before_the_replay_has_ended() -> None:
    registry = Registry()
    registry.on_event(HostDiscovered("h1", 1.0), 0)
    announce(registry, "h1", *one_page("a"))
    assert offered(registry) == []


def test_it_is_settled_when_every_live_host_has_been_replayed() -> None:
    registry = Registry()
    assert not registry.is_settled
    registry.on_event(HostDiscovered("h1", 1.0), 0)
    registry.on_event(DiscoveryFinished(), 0)
    assert not registry.is_settled
    registry.on_event(HostLost("h1"), 0)
    assert registry.is_settled


def test_the_tools_of_a_vanished_host_stay_for_the_grace_period() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"))
    registry.on_event(HostLost("h1"), 10.0)
    registry.expire_lost(10.0 + GRACE_S - 0.01)
    assert [name for *_, name in offered(registry)] == ["a"]
    registry.expire_lost(registry.next_expiry())
    assert offered(registry) == []


def test_a_host_that_comes_back_for_the_same_profile_takes_over_at_the_end_of_its_replay() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"))
    registry.on_event(HostLost("h1"), 10.0)
    connect(registry, "h2", *one_page("a"), started_at=2.0, now=11.0)
    assert offered(registry) == [("h2", 1, 0, "a")]


def test_a_link_that_broke_is_replaced_by_the_next_one_to_the_same_host() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"))
    registry.on_event(HostLost("h1"), 10.0)
    registry.on_event(HostDiscovered("h1", 1.0), 11.0)
    assert [name for *_, name in offered(registry)] == ["a"]
    connect(registry, "h1", *one_page("a", "b"), now=11.0)
    assert [name for *_, name in offered(registry)] == ["a", "b"]


def three_pages() -> tuple[wire.Wire, ...]:
    tabs = wire.Tabs(tabs=[tab(1), tab(2, ordinal=2), tab(3, ordinal=3)])
    return tabs, tools(1, "a"), tools(2, "b"), tools(3, "c")


def waiting(registry: Registry) -> dict[str, bool]:
    """By tool: whether its page has yet to come back."""
    return {offer.tool.name: offer.lost_at is not None for offer in registry.offers()}


def test_a_new_host_keeps_what_pages_offered_until_they_have_found_it() -> None:
    registry = Registry()
    connect(registry, "h1", *three_pages())
    registry.on_event(HostLost("h1"), 10.0)
    tabs, first_page, *_ = three_pages()
    connect(registry, "h2", tabs, first_page, started_at=2.0, now=11.0)
    assert waiting(registry) == {"a": False, "b": True, "c": True}
    announce(registry, "h2", tools(2, "b", document_id="d2"), now=12.0)
    assert waiting(registry) == {"a": False, "b": False, "c": True}
    assert registry.next_expiry() == 10.0 + GRACE_S
    registry.expire_lost(10.0 + GRACE_S)
    assert waiting(registry) == {"a": False, "b": False}
    assert registry.next_expiry() == float("inf")


def test_a_new_host_that_knows_a_tab_is_closed_keeps_nothing_of_it() -> None:
    registry = Registry()
    connect(registry, "h1", *three_pages())
    registry.on_event(HostLost("h1"), 10.0)
    connect(registry, "h2", wire.Tabs(tabs=[tab(1), tab(2, ordinal=2)]), started_at=2.0, now=11.0)
    assert waiting(registry) == {"a": True, "b": True}
    gone = wire.FrameAddress(tab_id=2, frame_id=0, document_id="d1")
    announce(registry, "h2", wire.TabRemoved(tab_id=1), gone)
    assert waiting(registry) == {}


def test_pages_are_waited_for_across_two_restarts_from_the_first_loss_on() -> None:
    registry = Registry()
    tabs, *_ = three_pages()
    connect(registry, "h1", *three_pages())
    registry.on_event(HostLost("h1"), 10.0)
    connect(registry, "h2", tabs, started_at=2.0, now=11.0)
    registry.on_event(HostLost("h2"), 12.0)
    connect(registry, "h3", tabs, started_at=3.0, now=12.5)
    assert waiting(registry) == {"a": True, "b": True, "c": True}
    assert registry.next_expiry() == 10.0 + GRACE_S


def test_a_new_host_waits_for_the_pages_of_one_that_has_not_ended_yet() -> None:
    registry = Registry()
    tabs, *_ = three_pages()
    connect(registry, "h1", *three_pages())
    connect(registry, "h2", tabs, started_at=2.0, now=11.0)
    registry.on_event(HostLost("h1"), 11.5)
    assert waiting(registry) == {"a": True, "b": True, "c": True}
    registry.expire_lost(registry.next_expiry())
    assert waiting(registry) == {}


def test_tools_stay_while_a_new_host_has_not_said_its_tabs() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"))
    registry.on_event(HostLost("h1"), 10.0)
    connect(registry, "h2", started_at=2.0, now=11.0)
    assert waiting(registry) == {"a": True}


def test_what_changes_in_a_tab_without_touching_what_is_offered_is_no_new_version() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"))
    (offer,) = registry.offers()
    before = registry.version
    new = wire.TabChanged(tab=tab(1, title="New", active=True))
    announce(registry, "h1", new, wire.HostClients(clients=[]))
    assert registry.version == before
    assert offer.tab.title == "New"
    announce(registry, "h1", wire.TabChanged(tab=tab(1, ordinal=2)))
    assert registry.version != before


def test_of_two_live_hosts_of_one_browser_the_newer_counts() -> None:
    registry = Registry()
    connect(registry, "h2", *one_page("new"), started_at=2.0)
    connect(registry, "h1", *one_page("old"), started_at=1.0)
    assert [name for *_, name in offered(registry)] == ["new"]


def test_a_copied_profile_in_another_browser_process_is_a_browser_of_its_own() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"), browser_pid=100)
    connect(registry, "h2", *one_page("a"), browser_pid=200, started_at=2.0)
    assert [host for host, *_ in offered(registry)] == ["h1", "h2"]


def test_a_proxy_that_names_the_process_of_a_browser_at_another_one_does_not_take_its_place() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a"), proxy="https://one.example")
    connect(registry, "h2", *one_page("a"), proxy="https://two.example", started_at=2.0)
    assert [host for host, *_ in offered(registry)] == ["h1", "h2"]


@pytest.mark.parametrize(
    "bad",
    [
        b"5",
        b"{}",
        b'{"name":""}',
        b'{"name":7}',
        b'{"name":"x","description":7}',
        b'{"name":"x","inputSchema":[]}',
        b'{"name":"x","inputSchema":{"type":"string"}}',
        b'{"name":"\\ud800"}',
    ],
)
def test_a_bad_tool_is_left_out_by_itself_and_named_in_the_log(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry()
    announced = tools(1, "good")
    announced.tools.insert(0, msgspec.Raw(bad))
    with caplog.at_level(logging.WARNING):
        connect(registry, "h1", wire.Tabs(tabs=[tab(1)]), announced)
    assert [name for *_, name in offered(registry)] == ["good"]
    assert "https://shop.example: 1 of 2 tools left out: " in caplog.text


@pytest.mark.parametrize(
    ("schema", "known_as"),
    [
        (None, {"type": "object"}),
        ({}, {"type": "object"}),
        ({"properties": {"item": {}}}, {"type": "object", "properties": {"item": {}}}),
        ({"required": [], "type": "object"}, {"type": "object", "required": []}),
    ],
)
def test_a_tool_takes_an_object_where_its_schema_does_not_say(
    schema: dict[str, Any] | None, known_as: dict[str, Any]
) -> None:
    announced = tools(1)
    announced.tools.append(msgspec.Raw(msgspec.json.encode({"name": "a", "inputSchema": schema})))
    registry = Registry()
    connect(registry, "h1", wire.Tabs(tabs=[tab(1)]), announced)
    (offer,) = registry.offers()
    assert msgspec.json.decode(offer.tool.input_schema) == known_as


def test_of_two_tools_with_one_name_in_a_frame_the_first_counts() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("a", "a"))
    assert len(offered(registry)) == 1


def test_of_a_frame_with_too_many_tools_the_first_count_and_the_log_says_so_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = Registry()
    names = [f"t{number}" for number in range(MAX_TOOLS + 500)]
    with caplog.at_level(logging.WARNING):
        connect(registry, "h1", wire.Tabs(tabs=[tab(1)]), tools(1, *names))
    assert [name for *_, name in offered(registry)] == names[:MAX_TOOLS]
    (line,) = caplog.messages
    assert line == "https://shop.example: 500 of 1524 tools left out: a frame may have 1024 tools"
